"""The exchange: how neighbors' parameters enter, and what happens to the weight of those that did not arrive."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.agent.exchange import EXCHANGES, Exchange, Query, State, first_state
from service.inference.belief import Belief, Evidence
from service.inference.round import RoundRule, advance, observe
from service.wire.configuration import ExchangeName, NeighborsDocument
from service.wire.parameters import Header, ParameterMessage, Part
from tests.inference.builders import (
    KINDS,
    SENSORS,
    belief_with,
    center_features,
    points,
    snapshot,
    surface,
    targets_for,
)

LOCKSTEP, LATEST = EXCHANGES["lockstep"], EXCHANGES["latest"]
FAMILIES = ["diagonal", "full"]
NAMES: list[ExchangeName] = ["lockstep", "latest"]


def name(agent: int) -> str:
    return f"a{agent}"


def row_of(matrix: Any, agent: int) -> NeighborsDocument:
    """An agent's neighbors document, of its row of the mixing weights."""
    neighbors = [
        {"name": name(other), "url": f"http://{name(other)}", "weight": float(weight)}
        for other, weight in enumerate(matrix[agent])
        if other != agent and weight > 0
    ]
    return NeighborsDocument.parse(
        {
            "epoch": 2,
            "agents": len(matrix),
            "index": agent,
            "own_weight": float(matrix[agent][agent]),
            "neighbors": neighbors,
        }
    )


def state_of(agent: int, evidence: Evidence, round_number: int = 5) -> State:
    return State(2, round_number, (Part(name(agent), round_number, 0, evidence),))


def answer_of(agent: int, evidence: Evidence) -> ParameterMessage:
    return ParameterMessage(Header(name(agent), agent, "model", 2, 5), (Part(name(agent), 5, 0, evidence),))


def symmetric_weights(generator: np.random.Generator, agents: int) -> Any:
    """Doubly stochastic: a lazy average of random swaps."""
    matrix = np.eye(agents)
    for _ in range(4):
        order = generator.permutation(agents)
        swap = np.eye(agents)[order]
        matrix += swap + swap.T
    return matrix / 9.0


def evidences_of(generator: np.random.Generator, family: str, count: int) -> tuple[Belief, list[Evidence]]:
    beliefs = [belief_with(generator, family, 4) for _ in range(count + 1)]
    prior = type(beliefs[0]).prior(4, 0.2)
    return prior, [belief.minus(prior) for belief in beliefs[1:]]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("exchange", [LOCKSTEP, LATEST])
def test_the_mixed_evidence_is_the_weighted_sum_of_those_that_answered(exchange: Exchange, family: str) -> None:
    generator = np.random.default_rng(1)
    _, (own, first, _, third) = evidences_of(generator, family, 4)
    matrix = [[0.4, 0.3, 0.2, 0.1]] * 4
    answers = {"a1": answer_of(1, first), "a3": answer_of(3, third)}
    combined = exchange.combine(state_of(0, own), answers, row_of(matrix, 0))
    # a2 did not answer: its 0.2 stay with the agent. Four products and sums: a few rounding errors.
    expected = 0.6 * own.information + 0.3 * first.information + 0.1 * third.information
    assert np.allclose(combined.state.evidence.information, expected, rtol=0, atol=1e-14)
    expected_shift = 0.6 * own.shift + 0.3 * first.shift + 0.1 * third.shift
    assert np.allclose(combined.state.evidence.shift, expected_shift, rtol=0, atol=1e-14)
    assert combined.mixed == ("a1", "a3")
    assert combined.missing == ("a2",)
    assert combined.own_weight == pytest.approx(0.6, abs=1e-15)


def test_the_order_of_the_answers_does_not_matter_and_strangers_are_not_mixed() -> None:
    generator = np.random.default_rng(2)
    _, (own, first, second, stranger) = evidences_of(generator, "diagonal", 4)
    document = row_of([[0.5, 0.25, 0.25]] * 3, 0)
    answers = {"a1": answer_of(1, first), "a2": answer_of(2, second)}
    turned = {"a7": answer_of(7, stranger)} | dict(reversed(answers.items()))
    one = LATEST.combine(state_of(0, own), answers, document)
    other = LATEST.combine(state_of(0, own), turned, document)
    assert snapshot(one.state.evidence.information, one.state.evidence.shift) == snapshot(
        other.state.evidence.information, other.state.evidence.shift
    )
    assert one.mixed == other.mixed == ("a1", "a2")


def test_an_agent_that_hears_from_nobody_keeps_its_evidence_to_the_bit() -> None:
    generator = np.random.default_rng(3)
    _, (own,) = evidences_of(generator, "full", 1)
    combined = LATEST.combine(state_of(0, own), {}, row_of([[0.25] * 4] * 4, 0))
    assert combined.own_weight == 1.0
    assert np.array_equal(combined.state.evidence.information, own.information)
    assert np.array_equal(combined.state.evidence.shift, own.shift)


def test_combining_writes_to_nobodys_numbers_and_keeps_the_name_of_the_round() -> None:
    generator = np.random.default_rng(4)
    _, (own, other) = evidences_of(generator, "full", 2)
    before = snapshot(own.information, own.shift, other.information, other.shift)
    state = state_of(0, own)
    combined = LOCKSTEP.combine(state, {"a1": answer_of(1, other)}, row_of([[0.5, 0.5]] * 2, 0))
    assert snapshot(own.information, own.shift, other.information, other.shift) == before
    assert (combined.state.epoch, combined.state.round) == (2, 5)
    (part,) = combined.state.parts
    assert (part.origin, part.sequence, part.block) == ("a0", 5, 0)
    assert state.evidence is own


@given(seed=st.integers(0, 10_000), agents=st.integers(2, 6), loss=st.floats(0, 1))
@settings(max_examples=60)
def test_with_links_lost_both_ways_the_sum_over_the_agents_is_conserved(seed: int, agents: int, loss: float) -> None:
    """Weights that stay at home leave rows and columns with the sum 1; renormalised ones would not."""
    generator = np.random.default_rng(seed)
    _, evidences = evidences_of(generator, "diagonal", agents)
    weights = symmetric_weights(generator, agents)
    lost = np.triu(generator.random((agents, agents)) < loss, 1)
    lost |= lost.T
    combined = [
        LATEST.combine(
            state_of(agent, evidences[agent]),
            {name(other): answer_of(other, evidences[other]) for other in range(agents) if not lost[agent, other]},
            row_of(weights, agent),
        )
        for agent in range(agents)
    ]
    total = sum(one.state.evidence.information for one in combined)
    # Sums of at most 36 products of numbers below 3: 1e-13 is a hundred times their rounding errors.
    assert np.allclose(total, sum(evidence.information for evidence in evidences), rtol=0, atol=1e-13)
    shifts = sum(one.state.evidence.shift for one in combined)
    assert np.allclose(shifts, sum(evidence.shift for evidence in evidences), rtol=0, atol=1e-13)


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_combining_and_observing_evidence_is_a_round_on_beliefs(family: str, kind: str, forgetting: float) -> None:
    generator = np.random.default_rng(5)
    features = center_features(generator, 6)
    own, first, second = (belief_with(generator, family, features.feature_count) for _ in range(3))
    prior = type(own).prior(features.feature_count, 0.2)
    x = points(generator, 15)
    likelihood = SENSORS[kind].likelihood
    y = targets_for(likelihood, surface(x), generator)
    rule = RoundRule(prior, 3.0, "projected", forgetting)
    matrix = [[0.5, 0.3, 0.2]] * 3
    answers = {"a1": answer_of(1, first.minus(prior)), "a2": answer_of(2, second.minus(prior))}
    combined = LOCKSTEP.combine(state_of(0, own.minus(prior)), answers, row_of(matrix, 0))
    observed = observe(combined.state.evidence, features.activate(x), y, likelihood, rule)
    state = LOCKSTEP.absorb(combined.state, observed.evidence)
    expected = advance(own, [first, second], matrix[0], features.activate(x), y, likelihood, rule)
    belief = prior.plus(state.evidence)
    # The promise is 1e-9; the two differ by when the prior is added.
    assert np.allclose(belief.information, expected.belief.information, rtol=1e-9, atol=1e-9)
    assert np.allclose(belief.shift, expected.belief.shift, rtol=1e-9, atol=1e-9)
    assert observed.info == expected.info


def test_absorbing_makes_the_next_round_of_the_same_epoch() -> None:
    generator = np.random.default_rng(6)
    _, (own, after) = evidences_of(generator, "diagonal", 2)
    state = LATEST.absorb(state_of(0, own, 5), after)
    assert (state.epoch, state.round) == (2, 6)
    (part,) = state.parts
    assert (part.origin, part.sequence, part.block) == ("a0", 6, 0)
    assert state.evidence is after


def test_lockstep_asks_for_its_own_round_and_waits_and_latest_for_anything_and_does_not() -> None:
    state = first_state("a0", 3, Evidence(np.zeros(2), np.zeros(2)))
    assert LOCKSTEP.ask(state) == Query(3, 0)
    assert LOCKSTEP.ask(LOCKSTEP.absorb(state, state.evidence)) == Query(3, 1)
    assert LATEST.ask(state) == Query(None, None)
    assert (LOCKSTEP.waits, LATEST.waits) == (True, False)
    assert sorted(EXCHANGES) == sorted(NAMES)


def test_the_evidence_of_a_state_is_the_sum_of_its_parts() -> None:
    parts = tuple(Part(name(n), n, 0, Evidence(np.full(2, float(n)), np.full(2, 10.0 * n))) for n in (1, 2, 3))
    state = State(1, 0, parts)
    assert state.evidence.information.tolist() == [6, 6]
    assert state.evidence.shift.tolist() == [60, 60]
