"""An engine, the image, and projects that are gone after a test."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from tests.containers.engine import Engine, Project, find_engine
from tests.processes import free_port


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Docker or podman; without one a test is skipped, but fails where CI promises it."""
    found = find_engine()
    if found is None:
        reason = "neither docker with compose nor podman with podman-compose works here: no container was run"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def image(engine: Engine) -> Engine:
    """The engine, with the image built from this source."""
    engine.build()
    return engine


Projects = Callable[..., Project]


@pytest.fixture
def projects(image: Engine) -> Iterator[Projects]:
    """Makes projects with names of their own; whatever becomes of the test, nothing of them stays."""
    made: list[Project] = []

    def make(*files: Path, **environment: str) -> Project:
        ports = {"DELBO_DASHBOARD_PORT": str(free_port())}
        project = Project(image, f"delbo-test-{token_hex(3)}", files, {**ports, **environment})
        made.append(project)
        return project

    try:
        yield make
    finally:
        failed = [project.name for project in made if project.down("-v").returncode]
        assert not failed, f"not ended: {failed}"
