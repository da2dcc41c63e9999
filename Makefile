# delbo. `make` lists the targets; `make demo` and `make test` need nothing but python3, make and git.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := runs/demo

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# On busy cores a second BLAS thread can make small products many times slower.
export OPENBLAS_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-faults test-containers test-dashboard screenshots check format bench install install-dev browser lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: install  ## four simulated agents learn one map of a building together; plots in runs/demo
	$(BIN)/delbo demo --out $(DEMO)

test: install-dev browser  ## run the tests
	$(BIN)/python -m pytest

test-faults: install-dev  ## kill agents hundreds of times, fill disks, delay links, send a million odd messages; takes 25 minutes
	DELBO_THOROUGH=1 $(BIN)/python -m pytest -m '' tests/faults tests/fuzz tests/network \
	  tests/api/test_process.py tests/client/test_examples.py tests/client/test_shared_data.py

test-containers: install-dev  ## build the image and run networks of containers (needs docker or podman)
	$(BIN)/python -m pytest -m '' tests/containers

test-dashboard: install-dev browser  ## long tests of the dashboard: ten large agents for ten minutes, and nobody's memory grows
	$(BIN)/python -m pytest -m thorough -s tests/dashboard tests/browser tests/soak

screenshots: install-dev browser  ## take the pictures of docs/images anew
	DELBO_SCREENSHOTS=1 $(BIN)/python -m pytest tests/browser/test_dashboard_pictures.py

check: install-dev  ## lint, formatting, types, layers, container files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint docker/Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml docker/*.yml

format: install-dev  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install-dev  ## measure; ratios between alternatives in one run, written to runs/bench.json
	$(BIN)/python -m benchmarks --out runs/bench.json

install: $(VENV)/.installed  ## only make the environment, in .venv

install-dev: $(VENV)/.installed-dev

browser: install-dev
	@tests/browser/install-chromium

# ensurepip is what Debian leaves out of python3 and ships in python3-venv.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'delbo needs Python 3.11 or newer; name one: make PYTHON=python3.13'; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || if [ "$$(id -u)" = 0 ]; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
	  else \
	    echo 'python3 cannot make virtual environments here. Type this, then try again:'; \
	    echo '  sudo apt-get install python3-venv'; exit 1; \
	  fi
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements/build.txt requirements/run.txt pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements/build.txt -r requirements/run.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m service.inference
	@touch $@

$(VENV)/.installed-dev: requirements/dev.txt $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements/dev.txt
	@touch $@

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes --no-annotate --no-header
lock:  ## resolve the dependencies anew (needs uv on the PATH)
	$(COMPILE) pyproject.toml --output-file requirements/run.txt
	$(COMPILE) --group build --constraints requirements/run.txt --output-file requirements/build.txt
	$(COMPILE) pyproject.toml --group dev --constraints requirements/run.txt --constraints requirements/build.txt \
	  --output-file requirements/dev.txt

clean:  ## remove the environment, caches and runs
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find service client tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
