"""The image: what is in it, what is not, and that it needs to write nowhere."""

from importlib.metadata import version
from pathlib import Path
from secrets import randbelow

import pytest

from client.tokens import make_tokens
from tests.containers.conftest import Projects
from tests.containers.engine import BASE, HARDENED, IMAGE, Engine, Project
from tests.processes import ROOT, until

pytestmark = pytest.mark.thorough  # `make test-containers` runs them

MEGABYTE = 1_000_000


def test_the_image_adds_less_than_650_megabytes_to_its_base(image: Engine) -> None:
    assert image.image_size(IMAGE) - image.image_size(BASE) < 650 * MEGABYTE


def test_the_image_says_what_it_is_and_runs_as_nobody_in_particular(image: Engine) -> None:
    config = image.image_config(IMAGE)
    assert config["Labels"]["org.opencontainers.image.version"] == version("delbo")
    assert config["Entrypoint"] == ["/opt/delbo/bin/delbo"]
    user, group = config["User"].split(":")
    assert int(user) > 0
    assert int(group) > 0
    check = config["Healthcheck"]["Test"]
    assert "curl" not in " ".join(check)
    assert not any("token" in variable.lower() for variable in config["Env"])


def test_nothing_that_builds_or_installs_is_in_the_image(image: Engine) -> None:
    """But for the base's own pip, which is not of the environment that runs."""
    tools = "gcc cc make git curl wget hatchling"
    look = f"ls /opt/delbo/bin; for tool in {tools}; do command -v $tool && echo HAS-$tool; done; true"
    found = image("run", "--rm", "--entrypoint", "sh", IMAGE, "-c", look).stdout.split()
    assert "delbo" in found
    assert not [name for name in found if name.startswith(("pip", "hatch", "HAS-"))]


def test_bytecode_is_taken_as_it_is_whatever_became_of_the_files_times(image: Engine) -> None:
    """Its flags say that it is not compared with its source (PEP 552); else a copy could make it worthless."""
    flags = "print(*[open(module.__cached__, 'rb').read(8)[4] for module in (numpy, service, uvicorn)])"
    code = f"import numpy, service, uvicorn; {flags}"
    done = image("run", "--rm", "--entrypoint", "/opt/delbo/bin/python", IMAGE, "-c", code)
    assert done.stdout.split() == ["1", "1", "1"]


def test_kernels_are_not_compiled_again_where_nothing_can_be_written(image: Engine) -> None:
    code = "import service.inference.kernels as k, os; print(os.path.exists('/tmp/numba'), k.__file__)"
    done = image("run", "--rm", *HARDENED, "--entrypoint", "/opt/delbo/bin/python", IMAGE, "-c", code)
    assert done.stdout.startswith("False /opt/delbo/")


def agent(projects: Projects, secrets: Path) -> Project:
    """docker/agent.yml: one agent, as on a machine of its own; whose port 8001 somebody else may have on 127.0.0.1."""
    address = f"127.{randbelow(254) + 1}.{randbelow(254) + 1}.{randbelow(254) + 1}"
    place = {"DELBO_NAME": "north", "DELBO_ADDRESS": address, "DELBO_SECRETS": str(secrets)}
    return projects(ROOT / "docker" / "agent.yml", **place)


def test_an_agent_of_its_own_is_well_and_has_no_rights(projects: Projects, tmp_path: Path) -> None:
    make_tokens(tmp_path / "secrets")
    project = agent(projects, tmp_path / "secrets")
    project.up()
    until(lambda: project.ask("agent", "/v1/readyz") == {"ready": True, "faults": {}})
    told = project.execute("agent", "/opt/delbo/bin/python", "-m", "service.health")
    assert '"ready":true' in told.stdout
    process = project.execute("agent", "cat", "/proc/1/status").stdout
    lines = dict(line.split(":", 1) for line in process.splitlines())
    assert lines["Uid"].split() == ["10001"] * 4
    assert int(lines["CapEff"], 16) == int(lines["CapBnd"], 16) == 0
    assert lines["NoNewPrivs"].strip() == "1"
    assert project.execute("agent", "touch", "/opt/delbo/here", check=False).returncode != 0
    told = project.execute("agent", "tr", "\\0", "\\n", "/proc/1/environ", check=False)
    secrets = [(tmp_path / "secrets" / role).read_text().strip() for role in ("peer", "control")]
    everything = project.logs("agent") + str(project.inspect("agent")) + told.stdout
    assert not [secret for secret in secrets if secret in everything]
