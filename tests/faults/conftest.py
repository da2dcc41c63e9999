"""How much of a fault test runs: a part in `make test`, all of it in `make test-faults`."""

import os

import pytest


@pytest.fixture(scope="session")
def thorough() -> bool:
    """Whether this is `make test-faults`."""
    return os.environ.get("DELBO_THOROUGH") == "1"
