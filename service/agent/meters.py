"""What an agent counts of its own doing, for `/metrics`: durations, bytes, refusals."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Durations:
    """A histogram of durations; written to by one thread at a time."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


@dataclass
class Traffic:
    """What went through the agent's own port: bytes of bodies, and requests that were refused, by their problem."""

    received: int = 0
    sent: int = 0
    sent_to_peers: int = 0
    refused: Counter[str] = field(default_factory=Counter)
