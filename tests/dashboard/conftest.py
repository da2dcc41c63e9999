"""What the tests of the dashboard share."""

from collections.abc import Iterator

import pytest

from tests.dashboard.dashboards import Dashboard, dashboard, place_of
from tests.dashboard.fleet import Fleet, started_fleet


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Agents that have learned something, and are paused; who changes that, puts it back."""
    with started_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.fixture(scope="package")
def trio(fleet: Fleet) -> Iterator[Dashboard]:
    """A dashboard of a1, a2, a3, for tests that change nothing at it."""
    with dashboard([place_of(agent) for agent in fleet.trio]) as served:
        yield served
