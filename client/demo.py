"""The demo: robots explore a simulated building, each its own part; every agent ends with the whole map."""

from collections.abc import Callable

import numpy as np

from client.fit import FitOptions, FitResult, fit
from client.mixing_weights import sinkhorn
from client.streams.partitions import partition_rows
from client.streams.tables import Table
from client.streams.world import evaluation_points, explore
from client.topology import ring
from service.wire.model import ModelSpec

_TEST_POINTS = 8000


def run_demo(agents: int, seed: int, progress: Callable[[str, int, int], None] | None = None) -> FitResult:
    """Scan the building, learn it on a ring of agents, and compare with one learner and with agents alone."""
    generator = np.random.default_rng(seed)
    world = explore(generator, robots=agents)
    train = Table("simulated building", world.x, world.y, {"robot": world.robot})
    test = Table("points of the building", *evaluation_points(world.plan, generator, _TEST_POINTS), {})
    parts = partition_rows(train, "robot", agents, generator)
    graph = ring(agents)
    spec = demo_model(world.plan.width_m, world.plan.height_m)
    options = FitOptions(batch=100, seed=seed, compare=True, curves=True)
    return fit(spec, train, test, parts, sinkhorn(graph), graph.names, options, progress)


def demo_model(width_m: float, height_m: float) -> ModelSpec:
    """Local features over the whole building."""
    features = {"kind": "lattice", "spacing": 0.2, "lengthscale": 0.15, "lower": [0, 0], "upper": [width_m, height_m]}
    return ModelSpec.parse({"features": features, "prior": {"information": 0.2}, "likelihood": "probit"}, "demo")
