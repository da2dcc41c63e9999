"""One explored building for all tests that only look at it."""

import numpy as np
import pytest

from client.streams.world import SimulatedData, explore
from tests.client.world.buildings import NOISE_M


@pytest.fixture(scope="package")
def data() -> SimulatedData:
    return explore(np.random.default_rng(7), noise_m=NOISE_M)
