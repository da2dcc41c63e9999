"""What is told about a round once it is over."""

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
