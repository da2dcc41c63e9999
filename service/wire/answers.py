"""What an agent answers: the shapes that the service fills and the client reads."""

from typing import Any

import msgspec


class RoundSummary(msgspec.Struct, frozen=True):
    """One committed round: `round` is the one that it led to."""

    epoch: int
    round: int
    finished_at: float  # seconds since 1970
    observations: int
    uncovered: int
    mixed: tuple[str, ...]  # the neighbors whose parameters entered
    missing: tuple[str, ...]  # those whose weight stayed with the agent
    own_weight: float
    waited_s: float
    computed_s: float


class ObservationCounts(msgspec.Struct, frozen=True):
    """How far an agent is with its observations."""

    collected: int
    applied: int
    backlog: int
    uncovered: int
    ended: bool  # there was a stream, and none is open
    open_streams: tuple[str, ...]


class NeighborStatus(msgspec.Struct, frozen=True):
    """How an agent finds one of its neighbors."""

    name: str
    url: str
    weight: float
    state: str
    reason: str | None
    age_s: float | None
    epoch: int | None
    round: int | None
    pulls: dict[str, int]
    refusals: dict[str, int]


class Status(msgspec.Struct, frozen=True):
    """`GET /v1/status`: everything that an operator wants to know at a glance."""

    agent: str
    incarnation: int
    model_id: str | None
    epoch: int
    round: int | None
    rounds_in_all: int
    phase: str
    waits_for: tuple[str, ...]
    faults: dict[str, str]
    observations: ObservationCounts
    neighbors: tuple[NeighborStatus, ...]
    own_weight: float
    schedule: dict[str, Any]


class StreamPosition(msgspec.Struct, frozen=True):
    """`GET /v1/streams`: how far an agent is with one client's stream."""

    client: str
    next_sequence: int
    ended: bool


class BeliefSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """`GET /v1/belief`: a belief in a few figures; mean and variance of every parameter if they were asked for."""

    epoch: int
    round: int
    model_id: str
    family: str
    parameters: int
    entropy: float
    information_gain: float  # nats, since the prior
    largest_variance: float
    smallest_variance: float
    mean: Any = None
    variance: Any = None


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """`POST /v1/observations`: they are on disk; with a client, the number that its next batch has."""

    stored: int
    next_sequence: int | None = None


class RoundsAnswer(msgspec.Struct, frozen=True):
    """`POST /v1/rounds`: the rounds that were run, and whether these are all."""

    complete: bool
    rounds: tuple[RoundSummary, ...]


class History(msgspec.Struct, frozen=True):
    """`GET /v1/history`: the last rounds, the newest last."""

    rounds: tuple[RoundSummary, ...]


class Readiness(msgspec.Struct, frozen=True):
    """`GET /v1/readyz`: whether an agent can do its work, and if not, why."""

    ready: bool
    faults: dict[str, str]
