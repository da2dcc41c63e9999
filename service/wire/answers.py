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
    number: int = 0  # of all the agent's rounds, also those of earlier epochs
    applied: int = 0  # observations of all rounds up to this one
    delbo: float | None = None  # this agent's part of the objective, where it was measured
    distances: dict[str, float] | None = None  # to each neighbor's mean, as they were mixed; where they were measured
    scores: dict[str, float] | None = None  # on the verification data, in the rounds that it asks for
    verification: int | None = None  # the revision of those data


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


class Predictions(msgspec.Struct, frozen=True, omit_defaults=True):
    """`POST /v1/predictions`: what the belief of that round says of each point, in the order of the points.

    probability: of label 1, where y is a label; mean: of any other y. variance: of y, noise included. latent_mean,
    latent_variance: of the function behind y, by the belief alone. entropy: of the label, else of the function.
    """

    epoch: int
    round: int
    model_id: str
    variance: Any
    entropy: Any
    latent_mean: Any
    latent_variance: Any
    probability: Any = None
    mean: Any = None


class VerificationStatus(msgspec.Struct, frozen=True):
    """`GET /v1/verification`: the document in force without its points, and the newest scores."""

    revision: int
    every_rounds: int
    points: int
    epoch: int | None = None
    round: int | None = None
    scores: dict[str, float] | None = None


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """`POST /v1/observations`: they are on disk; with a client, the number that its next batch has."""

    stored: int
    next_sequence: int | None = None


class RecentObservations(msgspec.Struct, frozen=True):
    """`GET /v1/observations`: the newest observations since the agent was started, the newest last.

    position: where the one who observes said last that it stands, and how long ago that was, if it was said at all.
    """

    collected: int  # all that the agent ever stored
    x: Any
    y: Any
    position: list[float] | None
    position_age_s: float | None


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
