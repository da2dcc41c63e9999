"""Figures of a round: right, seldom enough, always in verified rounds, and never a reason for a round to fail."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from service.agent import figures
from service.agent.exchange import first_state
from service.agent.figures import Figures, Measuring, RoundFacts
from service.agent.model import LoadedModel
from service.agent.publication import Snapshot
from service.agent.verification import LoadedVerification
from service.errors import DataError, NumericalError
from service.inference.belief import Evidence
from service.inference.objective import delbo_component
from service.wire.configuration import NO_NEIGHBORS, ModelDocument, NeighborsDocument, ScheduleDocument
from service.wire.parameters import Header, ParameterMessage, Part
from service.wire.verification import VerificationDocument
from tests.wire.test_model import SMALL

X = np.random.default_rng(0).uniform(0, 1, (20, 2))
Y = (X[:, 0] > 0.5).astype(float)


def load(**changes: Any) -> LoadedModel:
    return LoadedModel.load(ModelDocument.parse({"revision": 1, "model": {**SMALL, **changes}}))


def message(model: LoadedModel, name: str, evidence: Evidence) -> ParameterMessage:
    return ParameterMessage(Header(name, 1, model.model_id, 0, 0), (Part(name, 0, 0, evidence),))


def make_facts(
    model: LoadedModel, x: Any = X, y: Any = Y, neighbors: dict[str, Evidence] | None = None, forgetting: float = 1.0
) -> RoundFacts:
    """Of a round of an agent that has evidence already, with these neighbors, each of weight 1/4."""
    neighbors = neighbors or {}
    rows = [{"name": name, "url": f"http://{name}", "weight": 0.25} for name in neighbors]
    own = 1 - 0.25 * len(rows)
    document = NeighborsDocument.parse({"epoch": 1, "agents": len(rows) + 1, "own_weight": own, "neighbors": rows})
    schedule = ScheduleDocument.parse({"revision": 1, "forgetting": forgetting})
    answers = {name: message(model, name, evidence) for name, evidence in neighbors.items()}
    start = first_state("a", 0, model.codec.nothing)
    before = Snapshot.of(model, model.compute(start, {}, NO_NEIGHBORS, schedule, X[:5], Y[:5]).state, ("a", 1))
    computed = model.compute(before.state, answers, document, schedule, np.asarray(x, float), np.asarray(y, float))
    after = Snapshot.of(model, computed.state, ("a", 1))
    return RoundFacts(before, after, computed, answers, document, schedule, np.asarray(x, float), np.asarray(y, float))


def verification(model: LoadedModel, every_rounds: int = 1, points: int = 4) -> LoadedVerification:
    return LoadedVerification(VerificationDocument(3, every_rounds, X[:points], Y[:points]), model)


@dataclass
class Clock:
    """Seconds that pass only when the test says so, and while the objective is computed."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


class Driven:
    """Rounds measured at given times, with a given cost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost_s: float) -> None:
        self.clock, self.model = Clock(), load()
        self.measuring, self.facts = Measuring(self.clock), make_facts(self.model)

        def costly(_: RoundFacts) -> float:
            self.clock.now += cost_s
            return 1.0

        monkeypatch.setattr(figures, "_delbo", costly)

    def is_taken(self, verified: LoadedVerification | None = None) -> bool:
        taken = self.measuring.measure(self.facts, verified)
        assert (taken == Figures()) == (taken.distances is None)
        return taken.distances is not None

    def seconds_until_taken(self) -> float:
        """How long it takes from now; looked at in steps that floats hold exactly."""
        begun_at = self.clock.now
        while True:
            asked_at = self.clock.now
            if self.is_taken():
                return asked_at - begun_at
            self.clock.now += 0.125


# When.


@pytest.mark.parametrize(("cost_s", "pause_s"), [(0.0, 1.0), (0.03125, 1.0), (0.0625, 1.25), (0.5, 10.0), (2.0, 40.0)])
def test_figures_are_taken_every_second_or_so_seldom_that_they_take_a_twentieth_of_the_time(
    monkeypatch: pytest.MonkeyPatch, cost_s: float, pause_s: float
) -> None:
    driven = Driven(monkeypatch, cost_s)
    assert driven.is_taken()
    assert [driven.seconds_until_taken() for _ in range(3)] == [pause_s] * 3


def test_figures_are_always_taken_in_verified_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(monkeypatch, cost_s=0.0)
    due, other = verification(driven.model, 1), verification(driven.model, 1000)
    assert [driven.is_taken(due) for _ in range(3)] == [True] * 3
    assert not driven.is_taken(other)
    assert not driven.is_taken(None)
    assert not driven.is_taken(verification(driven.model, 1, points=0))


def test_scores_are_taken_in_verified_rounds_and_in_no_other() -> None:
    clock, model = Clock(), load()
    facts, measuring = make_facts(model), Measuring(clock)
    due = verification(model)
    assert measuring.measure(facts, due)[2:] == (due.scores(facts.after.belief), 3)
    for other in (None, verification(model, 1000), verification(model, points=0)):
        clock.now += 10.0
        taken = measuring.measure(facts, other)
        assert taken.delbo is not None
        assert (taken.scores, taken.verification) == (None, None)


# What.


@pytest.mark.parametrize("family", ["diagonal", "full"])
@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_the_figures_are_those_of_the_belief_before_its_neighbors_and_after_its_observations(
    family: str, forgetting: float
) -> None:
    model = load(family=family)
    nothing = model.codec.nothing
    scale = np.eye(len(nothing.shift)) if family == "full" else np.ones(len(nothing.shift))
    neighbors = {name: Evidence(scale * size, nothing.shift + size) for name, size in (("b", 0.5), ("c", 2.0))}
    facts = make_facts(model, neighbors=neighbors, forgetting=forgetting)
    taken = Measuring(Clock()).measure(facts, None)

    own = facts.before.state.evidence
    mixed = own * 0.5 + neighbors["b"] * 0.25 + neighbors["c"] * 0.25
    belief = model.prior.plus(facts.after.state.evidence)
    activations = model.features.activate(X)
    mixed_belief = model.prior.plus(mixed * forgetting)
    expected = delbo_component(belief, mixed_belief, activations, Y, model.likelihood, 3)
    assert taken.delbo == pytest.approx(expected, rel=1e-9)  # mixed in another order of additions
    assert taken.distances is not None
    for name, evidence in neighbors.items():
        means = model.prior.plus(own).mean, model.prior.plus(evidence).mean
        assert taken.distances[name] == pytest.approx(np.abs(means[0] - means[1]).sum(), rel=1e-12)


def test_an_agent_alone_without_observations_has_an_objective_of_zero_and_no_distances() -> None:
    taken = Measuring(Clock()).measure(make_facts(load(), np.empty((0, 2)), np.empty(0)), None)
    assert taken == Figures(delbo=0.0, distances={})


# What cannot be told.


def test_a_figure_that_overflows_is_left_out() -> None:
    model = load(likelihood={"kind": "gaussian", "precision": 1.0})
    nothing = model.codec.nothing
    far = Evidence(nothing.information, nothing.shift + 1e308)  # its mean is 5e308, more than a float holds
    facts = make_facts(model, neighbors={"b": nothing})
    facts = facts._replace(answers={"b": facts.answers["b"], "far": message(model, "far", far)})
    facts = facts._replace(x=X[:1], y=np.array([1e200]))  # whose square is more than a float holds
    taken = Measuring(Clock()).measure(facts, verification(model))
    assert taken.delbo is None
    assert taken.distances is not None
    assert list(taken.distances) == ["b"]
    assert taken.scores is not None
    assert list(taken.scores) == ["rmse", "log_density"]


def test_a_belief_that_cannot_be_factored_has_no_figures_and_its_round_succeeds() -> None:
    """Huge precisions of two points drown the prior: the sum is no longer positive definite in floats."""
    model = load(family="full", likelihood={"kind": "gaussian", "precision": 1e20})
    facts = make_facts(model, [[0.0, 0.0], [0.1, 0.1]], [1.0, 2.0], {"b": model.codec.nothing})
    with pytest.raises(NumericalError):
        _ = facts.after.belief.mean
    assert Measuring(Clock()).measure(facts, verification(model)) == Figures(None, {}, {}, 3)


@pytest.mark.parametrize(
    "fault", [NumericalError("so"), DataError("so"), np.linalg.LinAlgError("so"), MemoryError(), ValueError("so")]
)
def test_no_fault_of_a_figure_fails_the_round(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    def fail(*_: Any) -> Any:
        raise fault

    monkeypatch.setattr(LoadedModel, "delbo_component", fail)
    monkeypatch.setattr(LoadedVerification, "scores", fail)
    model = load()
    taken = Measuring(Clock()).measure(make_facts(model, neighbors={"b": model.codec.nothing}), verification(model))
    assert (taken.delbo, taken.scores, taken.verification) == (None, {}, 3)
    assert list(taken.distances or {}) == ["b"]
