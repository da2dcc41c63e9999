"""What is drawn over time: figures of every agent, each in a series that never grows beyond its bound."""

from array import array
from bisect import bisect_left
from math import inf
from typing import NamedTuple

from service.wire.answers import RoundSummary

_MOST = 4096  # points of a series
_RATE_OVER_S = 2.0
_LEAST_S = 0.1  # for a rate of bytes
_AT_REST_S = 10.0  # without a round, after which it is no longer a slow one
_CLOCKS_APART_S = 2.0  # less than that is the way and the waiting


class Metric(NamedTuple):
    """A figure that is drawn: its name in addresses and files, its title, and what its values are."""

    name: str
    title: str
    unit: str


METRICS = (
    Metric("verification_error", "Verification error", "share of wrong labels, or root mean square error"),
    Metric("consensus_error", "Consensus error", "mean distance to the neighbors' parameters, as they were mixed"),
    Metric("delbo", "DELBO", "the agent's part of the objective, nats; never logarithmic"),
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
        count = len(self) - begin
        step = 1 if most is None or count <= most else -(-count // max(1, most - 1))
        # The same ones as before, but for the last: else a curve would tremble with every point that is added.
        picked = list(range(-(-begin // step) * step, len(self) - 1, step)) if most != 1 else []
        picked += [len(self) - 1] if count else []
        return [Point(*(column[index] for column in self._columns)) for index in picked]

    def shift(self, seconds: float) -> None:
        """All that was, was so much later."""
        times = self._columns[0]
        for index, at in enumerate(times):
            times[index] = at + seconds


class Curves:
    """One agent's series, by the names of the metrics."""

    def __init__(self) -> None:
        self.series = {metric.name: Series() for metric in METRICS}
        self._counted: tuple[float, int, int] | None = None  # when, rounds, observations
        self._bytes: tuple[float, float] | None = None
        self._behind_s = inf  # the least that the agent's clock was behind ours when we heard of a round
        self._shifted_s = 0.0

    def hear(self, now: float, finished_at: float) -> None:
        """A round is told just now: agents' clocks may be wrong by hours, and everything is drawn by ours."""
        self._behind_s = min(self._behind_s, now - finished_at)
        shift_s = self._behind_s if abs(self._behind_s) > _CLOCKS_APART_S else 0.0
        if shift_s == self._shifted_s:
            return
        for name, series in self.series.items():
            if name != "bytes_per_s":  # which are by our own clock
                series.shift(shift_s - self._shifted_s)
        if self._counted is not None:
            at, rounds, observations = self._counted
            self._counted = (at + shift_s - self._shifted_s, rounds, observations)
        self._shifted_s = shift_s

    def add_round(self, summary: RoundSummary) -> None:
        """What a round tells of itself, as far as it was measured."""
        at, number = summary.finished_at + self._shifted_s, summary.number
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

    def rest(self, at: float, rounds: int) -> None:
        """So many rounds there were at that time; if there has been none for a while, nothing happens."""
        if self._counted is not None and rounds == self._counted[1] and at - self._counted[0] >= _AT_REST_S:
            self.count(at, *self._counted[1:])

    def count_bytes(self, at: float, rounds: int, total: float) -> None:
        """How many bytes there were at that time."""
        then, total_then = self._bytes or (at, total)
        if 0 < at - then < _LEAST_S:
            return  # somebody has asked in between
        if total >= total_then and at > then:
            self.series["bytes_per_s"].append(at, rounds, (total - total_then) / (at - then))
        self._bytes = (at, total)


def error_of(scores: dict[str, float] | None) -> float | None:
    """The verification error: the share of wrong labels, or the root mean square error."""
    if not scores:
        return None
    return 1 - scores["accuracy"] if "accuracy" in scores else scores.get("rmse")
