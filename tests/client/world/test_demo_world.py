"""The demo's world and model: together every robot ends with the whole map, alone none does."""

from typing import Any

import numpy as np
import pytest

from client.demo_world import DEMO_MODEL, DEMO_WORLD
from client.evaluation import evaluate
from client.mixing_weights import sinkhorn
from client.simulation import Batch, Simulation
from client.streams.tables import Table
from client.streams.world.tables import world_tables
from client.topology import ring
from service.inference.round import RoundRule
from service.inference.scores import Scores
from service.wire.model import ModelSpec

BATCH = 100
MIXING_ROUNDS = 10


def learn(spec: ModelSpec, shares: list[Table], mixing_matrix: Any, test: Table) -> list[Scores]:
    """Every agent's scores after it has taken its share, batch by batch, and then mixed for a while."""
    features = spec.build_features()
    rule = RoundRule(spec.build_prior(features), float(len(shares)), spec.step)
    network = Simulation(features, spec.likelihood.build(), rule, mixing_matrix)
    rounds = -(-max(map(len, shares)) // BATCH) + MIXING_ROUNDS
    for begin in range(0, rounds * BATCH, BATCH):
        network.advance([Batch(share.x[begin : begin + BATCH], share.y[begin : begin + BATCH]) for share in shares])
    return evaluate(network.beliefs, features, network.likelihoods[0], test)


@pytest.mark.parametrize("seed", [0, 6])
def test_four_robots_learn_the_whole_building_together_and_none_alone(seed: int) -> None:
    world, train, test = world_tables(seed, robots=4, **DEMO_WORLD)
    spec = ModelSpec.parse(DEMO_MODEL)
    # Real agents shall do it too, on two cores, in seconds.
    assert len(train) <= 150_000
    assert spec.build_features().feature_count <= 15_000
    shares = [train.take(world.robot == robot) for robot in range(4)]
    together = learn(spec, shares, sinkhorn(ring(4)), test)
    for measure, least in (("accuracy", 0.96), ("balanced_accuracy", 0.945)):
        values = [agent[measure] for agent in together]
        assert min(values) >= least
        # No more than one of a thousand occupied test points, which is half a thousandth of balanced accuracy.
        assert max(values) - min(values) < 0.0006
    for share in shares:
        assert learn(spec, [share], np.eye(1), test)[0]["balanced_accuracy"] < 0.8


def test_the_demos_lattice_reaches_to_the_walls_of_its_building() -> None:
    plan = world_tables(0, test_points=0, robots=4, **{**DEMO_WORLD, "scans_per_robot": 1}).world.plan
    lower, upper = DEMO_MODEL["features"]["lower"], DEMO_MODEL["features"]["upper"]
    np.testing.assert_allclose([*lower, *upper], [-0.1, -0.1, plan.width_m + 0.1, plan.height_m + 0.1])
