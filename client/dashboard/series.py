"""What is drawn over time: figures of every agent, each in a series that never grows beyond its bound."""

from array import array
from bisect import bisect_left
from typing import NamedTuple

from service.wire.answers import RoundSummary

_MOST = 4096  # points of a series
_RATE_OVER_S = 2.0


class Metric(NamedTuple):
    """A figure that is drawn: its name in addresses and files, its title, and what its values are."""

    name: str
    title: str
    unit: str


METRICS = (
    Metric("verification_error", "Verification error", "share of wrong labels, or root mean square error"),
    Metric("consensus_error", "Consensus error", "mean distance to the neighbors' parameters, as they were mixed"),
    Metric("delbo", "DELBO", "the agent's part of the objective, nats"),
    Metric("observations_per_s", "Observations", "applied per second"),
    Metric("bytes_per_s", "Traffic", "bytes per second, in and out"),
    Metric("rounds_per_s", "Rounds", "per second"),
)


class Point(NamedTuple):
    """A value, when it was (seconds since 1970), and which of all the agent's rounds that was."""

    at: float
    round: float
    value: float


class Series:
    """Points in the order of time. Where they are too many, the older half loses every second one."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._columns = (array("d"), array("d"), array("d"))

    def __len__(self) -> int:
        return len(self._columns[0])

    def append(self, at: float, round_number: float, value: float) -> None:
        """A newer point; a clock that was put back does not reorder them."""
        times = self._columns[0]
        for column, number in zip(
            self._columns, (max(at, times[-1]) if times else at, round_number, value), strict=True
        ):
            column.append(number)
        if len(times) > self._most:
            half = self._most // 2
            for column in self._columns:
                column[:half] = column[:half:2]

    def since(self, at: float, most: int | None = None) -> list[Point]:
        """The points from that time on; where they are more than `most`, some of them, the last one among them."""
        begin = bisect_left(self._columns[0], at)
        step = 1 if most is None else max(1, -(-(len(self) - begin) // most))
        picked = range(begin + (len(self) - 1 - begin) % step, len(self), step) if len(self) > begin else range(0)
        return [Point(*(column[index] for column in self._columns)) for index in picked]


class Curves:
    """One agent's series, by the names of the metrics."""

    def __init__(self) -> None:
        self.series = {metric.name: Series() for metric in METRICS}
        self._counted: tuple[float, int, int] | None = None  # when, rounds, observations
        self._bytes: tuple[float, float] | None = None

    def add_round(self, summary: RoundSummary) -> None:
        """What a round tells of itself, as far as it was measured."""
        at, number = summary.finished_at, summary.number
        error = error_of(summary.scores)
        distances = list((summary.distances or {}).values())
        for name, value in (
            ("verification_error", error),
            ("consensus_error", sum(distances) / len(distances) if distances else None),
            ("delbo", summary.delbo),
        ):
            if value is not None:
                self.series[name].append(at, number, value)
        self.count(at, number, summary.applied)

    def count(self, at: float, rounds: int, observations: int) -> None:
        """How many there were at that time: what was added since makes a rate, once enough time has passed."""
        if self._counted is None:
            self._counted = (at, rounds, observations)
            return
        then, rounds_then, observations_then = self._counted
        if rounds < rounds_then or observations < observations_then:  # it began anew
            self._counted = (at, rounds, observations)
        elif at - then >= _RATE_OVER_S:
            seconds = at - then
            self.series["rounds_per_s"].append(at, rounds, (rounds - rounds_then) / seconds)
            self.series["observations_per_s"].append(at, rounds, (observations - observations_then) / seconds)
            self._counted = (at, rounds, observations)

    def count_bytes(self, at: float, rounds: int, total: float) -> None:
        """How many bytes there were at that time."""
        if self._bytes is not None and total >= self._bytes[1] and at > self._bytes[0]:
            then, total_then = self._bytes
            self.series["bytes_per_s"].append(at, rounds, (total - total_then) / (at - then))
        self._bytes = (at, total)


def error_of(scores: dict[str, float] | None) -> float | None:
    """The verification error: the share of wrong labels, or the root mean square error."""
    if not scores:
        return None
    return 1 - scores["accuracy"] if "accuracy" in scores else scores.get("rmse")
