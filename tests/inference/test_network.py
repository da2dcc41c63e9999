"""Rounds on random networks: the agents together are the centralised posterior; one agent's round is the network's."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from service.inference.activations import Activations, concatenate
from service.inference.arrays import FloatArray, StartArray
from service.inference.belief import FAMILIES, Belief, Family, FullGaussian
from service.inference.conditioning import DiagonalStep
from service.inference.features import CenterFeatures
from service.inference.likelihoods import Gaussian, Likelihood
from service.inference.round import RoundRule, advance, advance_network, replay_rows
from service.inference.stack import BeliefStack
from tests.inference.builders import (
    KINDS,
    SENSORS,
    assert_same,
    belief_with,
    center_features,
    doubly_stochastic,
    natural,
    points,
    snapshot,
    starts_of,
    surface,
    targets_for,
)
from tests.inference.oracles import Array, Natural, bayes

seeds = st.integers(0, 2**32 - 1)
# Sums of a few dozen terms of the same size, some of them through a solve: 1e-13 is what rounding costs here.
EXACT = 1e-9
ROUNDING = 1e-11


class Regression:
    """Agents with noise of different precision on one surface, and what a centre that saw everything would believe."""

    def __init__(self, seed: int, agents: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.agents = agents
        self.features = center_features(self.generator, 8)
        self.likelihoods = [Gaussian(precision) for precision in self.generator.uniform(0.5, 8.0, agents)]
        self.prior = FullGaussian.prior(self.features.feature_count, 0.2, mean=0.3)
        self.rule = RoundRule(self.prior, likelihood_weight=agents)
        self.centralised = natural(self.prior)

    def next_batches(self) -> tuple[Activations, FloatArray, StartArray]:
        """A batch of 0 to 3 observations for every agent; the centralised posterior takes them all."""
        starts = starts_of(self.generator.integers(0, 4, self.agents).tolist())
        x = points(self.generator, int(starts[-1]))
        y = targets_for(self.likelihoods[0], surface(x), self.generator)
        activations = self.features.activate(x)
        for agent, likelihood in enumerate(self.likelihoods):
            own = slice(starts[agent], starts[agent + 1])
            self.centralised = bayes(self.centralised, activations.dense()[own], y[own], likelihood.precision)
        return activations, y, starts


Advance = Callable[
    [list[Belief], Array, Activations, FloatArray, StartArray, list[Likelihood], RoundRule], list[Belief]
]


def one_by_one(
    beliefs: list[Belief],
    matrix: Array,
    activations: Activations,
    y: FloatArray,
    starts: StartArray,
    likelihoods: list[Likelihood],
    rule: RoundRule,
) -> list[Belief]:
    """`advance` for every agent, each knowing its neighbors only."""
    after = []
    for agent, likelihood in enumerate(likelihoods):
        others = [j for j in range(len(beliefs)) if j != agent and matrix[agent, j] > 0]
        begin, end = int(starts[agent]), int(starts[agent + 1])
        advanced = advance(
            beliefs[agent],
            [beliefs[j] for j in others],
            matrix[agent, [agent, *others]],
            activations.rows(begin, end),
            y[begin:end],
            likelihood,
            rule,
        )
        after.append(advanced.belief)
    return after


def all_at_once(
    beliefs: list[Belief],
    matrix: Array,
    activations: Activations,
    y: FloatArray,
    starts: StartArray,
    likelihoods: list[Likelihood],
    rule: RoundRule,
) -> list[Belief]:
    """`advance_network`."""
    return list(
        advance_network(BeliefStack.of(beliefs), csr_array(matrix), activations, y, starts, likelihoods, rule)[0]
    )


either_way = pytest.mark.parametrize("advance_all", [one_by_one, all_at_once])


def average(beliefs: list[Belief]) -> Natural:
    return Natural(
        np.mean([belief.information for belief in beliefs], axis=0),
        np.mean([belief.shift for belief in beliefs], axis=0),
    )


@either_way
@settings(deadline=None, max_examples=8)
@given(seed=seeds, agents=st.integers(2, 6))
def test_the_agents_average_to_the_centralised_posterior_after_every_round(
    advance_all: Advance, seed: int, agents: int
) -> None:
    world = Regression(seed, agents)
    matrix = doubly_stochastic(world.generator, agents)
    beliefs: list[Belief] = [world.prior] * agents
    for _ in range(4):
        beliefs = advance_all(beliefs, matrix, *world.next_batches(), [*world.likelihoods], world.rule)
        assert_same(average(beliefs), world.centralised, EXACT)


def test_on_the_complete_graph_each_mixed_belief_is_the_centralised_posterior_of_the_rounds_before() -> None:
    agents = 5
    world = Regression(11, agents)
    beliefs: list[Belief] = [world.prior] * agents
    nothing = world.features.activate(np.empty((0, 2)))
    for _ in range(5):
        before = world.centralised
        activations, y, starts = world.next_batches()
        advanced = [
            advance(
                beliefs[agent],
                [beliefs[j] for j in range(agents) if j != agent],
                np.full(agents, 1 / agents),
                activations.rows(int(starts[agent]), int(starts[agent + 1])),
                y[starts[agent] : starts[agent + 1]],
                world.likelihoods[agent],
                world.rule,
            )
            for agent in range(agents)
        ]
        everyone = csr_array(np.full((agents, agents), 1 / agents))
        likelihoods: list[Likelihood] = [*world.likelihoods]
        mixed, _ = advance_network(
            BeliefStack.of(beliefs), everyone, nothing, [], starts_of([0] * agents), likelihoods, world.rule
        )
        for agent in range(agents):
            assert_same(advanced[agent].mixed, before, EXACT)
            assert_same(mixed[agent], before, EXACT)
        beliefs = [one.belief for one in advanced]


@settings(deadline=None, max_examples=8)
@given(seed=seeds, agents=st.integers(2, 6))
def test_without_further_data_every_agent_converges_to_the_centralised_posterior(seed: int, agents: int) -> None:
    world = Regression(seed, agents)
    matrix = doubly_stochastic(world.generator, agents, density=0.5)
    likelihoods: list[Likelihood] = [*world.likelihoods]
    stack = BeliefStack.of([world.prior] * agents)
    for _ in range(3):
        stack, _ = advance_network(stack, csr_array(matrix), *world.next_batches(), likelihoods, world.rule)
    # Disagreement shrinks by the second singular value each round: as many rounds as leave 1e-12 of it.
    shrinks = np.linalg.svd(matrix, compute_uv=False)[1]
    rounds = int(np.ceil(np.log(1e-12) / np.log(max(shrinks, 1e-3))))
    nothing = world.features.activate(np.empty((0, 2)))
    for _ in range(rounds):
        stack, _ = advance_network(
            stack, csr_array(matrix), nothing, [], starts_of([0] * agents), likelihoods, world.rule
        )
    for belief in stack:
        assert_same(belief, world.centralised, EXACT)


def network_of(family: Family, seed: int) -> tuple[CenterFeatures, list[Belief], Array, list[Likelihood]]:
    """One agent for each likelihood, with different beliefs, on a random digraph."""
    generator = np.random.default_rng(seed)
    features = center_features(generator, 10, cutoff=1e-2)
    likelihoods = [SENSORS[kind].likelihood for kind in KINDS]
    beliefs = [belief_with(generator, family, features.feature_count) for _ in likelihoods]
    return features, beliefs, doubly_stochastic(generator, len(likelihoods)), likelihoods


def mixed_batches(
    features: CenterFeatures, likelihoods: list[Likelihood], lengths: list[int], seed: int
) -> tuple[Activations, FloatArray, StartArray]:
    generator = np.random.default_rng(seed)
    x = [points(generator, length) for length in lengths]
    y = [targets_for(one, surface(part), generator) for one, part in zip(likelihoods, x, strict=True)]
    return features.activate(np.concatenate(x)), np.concatenate(y), starts_of(lengths)


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
@pytest.mark.parametrize(("family", "step"), [("full", "paper"), ("diagonal", "paper"), ("diagonal", "projected")])
def test_advance_for_every_agent_is_advance_network(family: Family, step: DiagonalStep, forgetting: float) -> None:
    features, beliefs, matrix, likelihoods = network_of(family, 3)
    rule = RoundRule(FAMILIES[family].prior(features.feature_count, 0.2, 0.1), 2.5, step, forgetting)
    separate, together = beliefs, beliefs
    for number in range(3):
        batches = mixed_batches(features, likelihoods, [3, 0, 5, 1, 4], seed=number)
        separate = one_by_one(separate, matrix, *batches, likelihoods, rule)
        together = all_at_once(together, matrix, *batches, likelihoods, rule)
        for one, other in zip(separate, together, strict=True):
            assert_same(one, other, ROUNDING)


@settings(deadline=None, max_examples=15)
@given(order=st.permutations(range(len(KINDS))), family=st.sampled_from(["diagonal", "full"]))
def test_relabelling_the_agents_relabels_the_results_and_nothing_else(order: list[int], family: Family) -> None:
    features, beliefs, matrix, likelihoods = network_of(family, 5)
    rule = RoundRule(FAMILIES[family].prior(features.feature_count, 0.2), 3.0, "projected", 0.95)
    lengths = [2, 3, 0, 4, 1]
    activations, y, starts = mixed_batches(features, likelihoods, lengths, seed=1)
    original = all_at_once(beliefs, matrix, activations, y, starts, likelihoods, rule)
    rows = np.concatenate([np.arange(starts[agent], starts[agent + 1]) for agent in order])
    relabelled = all_at_once(
        [beliefs[agent] for agent in order],
        matrix[np.ix_(order, order)],
        concatenate([activations.rows(int(starts[agent]), int(starts[agent + 1])) for agent in order]),
        y[rows],
        starts_of([lengths[agent] for agent in order]),
        [likelihoods[agent] for agent in order],
        rule,
    )
    for place, agent in enumerate(order):
        assert_same(relabelled[place], original[agent], ROUNDING)


@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_forgetting_scales_the_mixed_evidence_before_the_batch(family: Family) -> None:
    features, beliefs, _, likelihoods = network_of(family, 7)
    prior = FAMILIES[family].prior(features.feature_count, 0.2, 0.5)
    nothing = features.activate(np.empty((0, 2)))
    row = np.array([0.5, 0.3, 0.2])
    advanced = advance(beliefs[0], beliefs[1:3], row, nothing, [], likelihoods[0], RoundRule(prior, forgetting=0.7))
    for name in ("information", "shift"):
        mixed = sum(w * getattr(belief, name) for w, belief in zip(row, beliefs, strict=False))
        expected = getattr(prior, name) + 0.7 * (mixed - getattr(prior, name))
        np.testing.assert_allclose(getattr(advanced.belief, name), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_a_round_writes_to_none_of_its_inputs(family: Family) -> None:
    features, beliefs, matrix, likelihoods = network_of(family, 9)
    stack, weights = BeliefStack.of(beliefs), csr_array(matrix)
    activations, y, starts = mixed_batches(features, likelihoods, [3, 1, 2, 2, 3], seed=2)
    prior = FAMILIES[family].prior(features.feature_count, 0.2)
    held = [
        *(stack.information, stack.shift, weights.data, weights.indices, weights.indptr, y, starts),
        *(activations.indices, activations.values, activations.row_starts, prior.information, prior.shift),
        *(beliefs[0].information, beliefs[0].shift),
    ]
    before = snapshot(*held)
    rule = RoundRule(prior, 5.0, "projected", 0.9)
    advance_network(stack, weights, activations, y, starts, likelihoods, rule)
    one_by_one(beliefs, matrix, activations, y, starts, likelihoods, rule)
    assert snapshot(*held) == before


def test_a_replay_draw_depends_on_seed_agent_and_round_alone_and_covers_the_buffer() -> None:
    drawn = replay_rows(1, 2, 3, collected=5, count=200)
    np.testing.assert_array_equal(drawn, replay_rows(1, 2, 3, collected=5, count=200))
    assert set(drawn.tolist()) == {0, 1, 2, 3, 4}
    for other in ((0, 2, 3), (1, 0, 3), (1, 2, 0)):
        assert (drawn != replay_rows(*other, collected=5, count=200)).any()
