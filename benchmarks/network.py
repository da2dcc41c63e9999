"""Rounds of 1,000 agents on a random graph in one process, 1,500 features, one observation each."""

import numpy as np

from benchmarks.measure import Result, Work, compare
from benchmarks.points import building_points
from client.mixing_weights import sinkhorn
from client.simulation import Simulation
from client.topology import random_connected
from service.inference.belief import DiagonalGaussian
from service.inference.centers import choose_random
from service.inference.conditioning import condition_stack
from service.inference.features import CenterFeatures
from service.inference.likelihoods import Probit
from service.inference.mixing import mix, mix_stack
from service.inference.round import RoundRule
from service.inference.stack import BeliefStack

AGENTS, FEATURES, LENGTHSCALE = 1000, 1500, 0.5


def run() -> list[Result]:
    """The network's mixing as one sparse product, against a call of `mix` per agent: whole rounds, and mixing alone."""
    points, rng = building_points(), np.random.default_rng(0)
    features = CenterFeatures(choose_random(points.x, FEATURES - 1, rng), LENGTHSCALE)
    likelihood, matrix = Probit(), sinkhorn(random_connected(AGENTS, rng))
    rule = RoundRule(DiagonalGaussian.prior(features.feature_count, 0.2))
    rows = rng.choice(len(points.y), AGENTS, replace=False)
    x, y, starts = points.x[rows], points.y[rows], np.arange(AGENTS + 1)
    simulation = Simulation(features, likelihood, rule, matrix)
    simulation.advance_rows(x, y, starts)  # now every agent knows something else
    shown = simulation.stack
    beliefs = simulation.beliefs
    neighbors = np.split(matrix.indices, matrix.indptr[1:-1])
    mixing_weights = np.split(matrix.data, matrix.indptr[1:-1])

    def mix_each() -> BeliefStack:
        own_and_neighbors = ([beliefs[agent] for agent in agents] for agents in neighbors)
        return BeliefStack.of([mix(each, row) for each, row in zip(own_and_neighbors, mixing_weights, strict=True)])

    def round_of_calls() -> BeliefStack:
        stack = mix_each()
        condition_stack(stack, features.activate(x), y, starts, simulation.likelihoods, rule.likelihood_weight)
        return stack

    def one_round() -> BeliefStack:
        simulation.stack = shown
        simulation.advance_rows(x, y, starts)
        return simulation.stack

    np.testing.assert_allclose(one_round().shift, round_of_calls().shift, rtol=1e-9, atol=1e-12)
    return [
        compare(
            "1,000 agents, a round",
            Work("Simulation", one_round),
            Work("a call of mix per agent", round_of_calls),
            "round",
            remark=points.remark,
        ),
        compare(
            "1,000 agents, mixing alone",
            Work("one sparse product", lambda: mix_stack(shown, matrix)),
            Work("a call of mix per agent", mix_each),
            "round",
            remark=points.remark,
        ),
    ]
