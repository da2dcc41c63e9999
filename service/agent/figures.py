"""Figures of a round that it does not need itself: taken now and then, and in the rounds that are verified."""

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from service.agent.model import Computed, LoadedModel
from service.agent.publication import Snapshot
from service.agent.verification import LoadedVerification
from service.errors import DelboError
from service.inference.arrays import FloatArray
from service.inference.objective import mean_distance
from service.inference.scores import Scores
from service.wire.configuration import NeighborsDocument, ScheduleDocument
from service.wire.parameters import ParameterMessage

Result = TypeVar("Result")

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_LARGEST_SHARE = 0.05  # of the time


class Figures(NamedTuple):
    """What a round's summary tells of them."""

    delbo: float | None = None
    distances: dict[str, float] | None = None
    scores: Scores | None = None
    verification: int | None = None


class RoundFacts(NamedTuple):
    """All that they are made of."""

    before: Snapshot
    after: Snapshot
    computed: Computed
    answers: dict[str, ParameterMessage]
    neighbors: NeighborsDocument
    schedule: ScheduleDocument
    x: FloatArray
    y: FloatArray


class Measuring:
    """Takes figures every second, more seldom where they are costly, and with every score; scores when they are due."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next_at = float("-inf")

    def measure(self, facts: RoundFacts, verification: LoadedVerification | None) -> Figures:
        """The figures of this round, as far as it is their time."""
        due = verification if verification is not None and verification.is_due(facts.after.kept.round) else None
        begun_at = self._clock()
        if due is None and begun_at < self._next_at:
            return Figures()
        figures = Figures(_or_else(None, lambda: _delbo(facts)), _distances(facts))
        ended_at = self._clock()
        self._next_at = ended_at + max(_EVERY_S, (ended_at - begun_at) / _LARGEST_SHARE)
        if due is None:
            return figures
        scores: Scores = _or_else({}, lambda: due.scores(facts.after.belief))
        return figures._replace(scores=scores, verification=due.document.revision)


def _or_else(nothing: Result, figure: Callable[[], Result]) -> Result:
    """A figure, or nothing, if the numbers do not allow it: the round has succeeded without it."""
    try:
        with np.errstate(all="ignore"):
            return figure()
    except (DelboError, ArithmeticError, ValueError, MemoryError) as fault:
        log.warning("a figure of the round could not be taken: %s", fault)
        return nothing


def _delbo(facts: RoundFacts) -> float | None:
    model: LoadedModel = facts.after.model
    mixed = facts.computed.combined.state.evidence * facts.schedule.forgetting
    value = model.delbo_component(facts.after.belief, mixed, facts.x, facts.y, facts.neighbors.agents)
    return value if np.isfinite(value) else None


def _distances(facts: RoundFacts) -> dict[str, float]:
    """How far each neighbor was from this agent when they were mixed."""
    prior = facts.before.model.prior

    def distance(answer: ParameterMessage) -> float:
        return mean_distance(facts.before.belief, prior.plus(answer.parts[0].evidence))

    distances = {name: _or_else(np.nan, partial(distance, answer)) for name, answer in facts.answers.items()}
    return {name: value for name, value in distances.items() if np.isfinite(value)}
