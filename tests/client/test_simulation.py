"""The network in one process is the agents, each alone with its neighbors."""

import numpy as np
import pytest

from client.mixing_weights import sinkhorn
from client.simulation import Batch, Simulation
from client.topology import random_connected, random_digraph, ring
from service.errors import DelboError
from service.inference.belief import Belief, DiagonalGaussian, FullGaussian
from service.inference.features import CenterFeatures, LatticeFeatures
from service.inference.likelihoods import Gaussian, Likelihood, Poisson, Probit, StudentT
from service.inference.round import RoundRule, advance

LIKELIHOODS: list[Likelihood] = [Probit(), Gaussian(2.0), Poisson(), StudentT(4.0, 0.5), Gaussian(9.0)]


@pytest.mark.parametrize("family", [DiagonalGaussian, FullGaussian])
def test_a_simulation_equals_agents_that_advance_one_by_one(
    family: type[DiagonalGaussian] | type[FullGaussian],
) -> None:
    """Five agents with five sensors on a digraph, batches of different lengths, some empty, with forgetting."""
    generator = np.random.default_rng(0)
    features = CenterFeatures(generator.normal(size=(8, 2)), 0.7)
    prior = family.prior(features.feature_count, 0.5, 0.1)
    rule = RoundRule(prior, likelihood_weight=5.0, diagonal_step="projected", forgetting=0.98)
    matrix = sinkhorn(random_digraph(5, generator)).toarray()
    simulation = Simulation(features, LIKELIHOODS, rule, matrix)
    beliefs: list[Belief] = [prior] * 5
    for number in range(12):
        batches = [
            Batch(x, generator.integers(0, 2, len(x)).astype(float))
            for x in (generator.normal(size=((agent + number) % 4, 2)) for agent in range(5))
        ]
        simulation.advance(batches)
        shown = beliefs
        for agent, batch in enumerate(batches):
            others = [other for other in range(5) if other != agent and matrix[agent, other] > 0]
            row = matrix[agent, [agent, *others]]
            pulled = [shown[other] for other in others]
            activations = features.activate(batch.x)
            stepped = advance(shown[agent], pulled, row, activations, batch.y, LIKELIHOODS[agent], rule)
            beliefs = [*beliefs[:agent], stepped.belief, *beliefs[agent + 1 :]]
        for belief, simulated in zip(beliefs, simulation.beliefs, strict=True):
            np.testing.assert_allclose(simulated.information, belief.information, rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(simulated.shift, belief.shift, rtol=1e-11, atol=1e-11)


def test_a_thousand_agents_agree_on_a_random_graph() -> None:
    """Conjugate regression: the average of all agents is the centralised posterior, and they draw together."""
    generator = np.random.default_rng(1)
    features = CenterFeatures(generator.uniform(-2, 2, size=(1500, 2)), 0.5)
    prior = DiagonalGaussian.prior(features.feature_count, 1.0)
    matrix = sinkhorn(random_connected(1000, generator, degree=6.0))
    simulation = Simulation(features, Gaussian(4.0), RoundRule(prior, 1000.0, "projected"), matrix)
    x = generator.uniform(-2, 2, size=(1000, 2))
    y = np.sin(x[:, 0])
    simulation.advance([Batch(x[agent : agent + 1], y[agent : agent + 1]) for agent in range(1000)])
    gained = simulation.stack.information.mean(axis=0) - prior.information
    np.testing.assert_allclose(gained, 4.0 * np.square(features.activate(x).dense()).sum(axis=0), rtol=1e-9)
    before = simulation.stack.shift.std(axis=0).max()
    for _ in range(30):
        simulation.advance([Batch(x[:0], y[:0])] * 1000)
    assert simulation.stack.shift.std(axis=0).max() < 0.01 * before


def test_points_that_no_centre_reaches_are_counted_and_not_applied() -> None:
    features = LatticeFeatures(0.5, 0.3, [0, 0], [2, 2])
    prior = DiagonalGaussian.prior(features.feature_count, 1.0)
    simulation = Simulation(features, Probit(), RoundRule(prior, 2.0), sinkhorn(ring(2)))
    outside = Batch(np.array([[50.0, 50.0], [-9.0, 1.0]]), np.array([1.0, 0.0]))
    inside = Batch(np.array([[1.0, 1.0], [99.0, 1.0]]), np.array([1.0, 1.0]))
    simulation.advance([outside, inside])
    assert simulation.observations.tolist() == [2, 2]
    assert simulation.uncovered.tolist() == [2, 1]
    np.testing.assert_array_equal(simulation.beliefs[0].information, prior.information)
    assert simulation.beliefs[1].information.sum() > prior.information.sum()


def test_a_matrix_that_is_not_doubly_stochastic_is_refused() -> None:
    features = LatticeFeatures(0.5, 0.3, [0], [1])
    rule = RoundRule(DiagonalGaussian.prior(features.feature_count, 1.0))
    with pytest.raises(DelboError, match="sum"):
        Simulation(features, Probit(), rule, np.array([[0.5, 0.5], [0.4, 0.5]]))
