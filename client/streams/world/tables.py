"""A simulated world as tables: what the robots saw, and points of the whole building to test on."""

from typing import Any, NamedTuple

import numpy as np

from client.streams.tables import Table
from client.streams.world.exploration import SimulatedData, explore
from client.streams.world.truth import evaluation_points

_EVALUATION_STREAM = 1  # of a world's seed, apart from the one that the world itself is drawn from


class WorldTables(NamedTuple):
    """An explored building, the robots' observations of it, and what is true at points all over it."""

    world: SimulatedData
    train: Table  # groups: robot, and scan within its robot
    test: Table


def world_tables(seed: int, test_points: int = 8000, **settings: Any) -> WorldTables:
    """The world of a seed, and as many points drawn evenly over it; the settings are those of `explore`."""
    world = explore(np.random.default_rng(seed), **settings)
    stood = np.stack([path.positions for path in world.paths])  # (robots, scans, 2)
    groups = {"robot": world.robot, "scan": world.scan}
    train = Table("simulated building", world.x, world.y, groups, positions=stood[world.robot, world.scan])
    x, y = evaluation_points(world.plan, np.random.default_rng([seed, _EVALUATION_STREAM]), test_points)
    return WorldTables(world, train, Table("points of the building", x, y, {}))
