"""Partitions: which agent gets which rows of a data set, and in which order it takes them."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from client.randomness import generator_for
from client.streams.tables import Table
from service.errors import SettingError
from service.inference.arrays import FloatArray
from service.inference.round import replay_rows

Order = Literal["stream", "shuffled", "replay"]
Rows = npt.NDArray[np.int64]


def partition_rows(table: Table, how: str, agents: int | None, generator: np.random.Generator) -> list[Rows]:
    """The rows of each agent: a word of EVEN_SPLITS splits evenly, any other names a group of the table."""
    if how not in EVEN_SPLITS and how in table.groups:
        return _by_group(table.groups[how], how, agents)
    if how not in EVEN_SPLITS:
        known = ", ".join(dict.fromkeys([*EVEN_SPLITS, *table.groups]))
        raise SettingError(f"{table.source}: cannot be partitioned by {how!r}; known are {known}")
    count = agents or 1
    if count > len(table):
        raise SettingError(f"{count} agents cannot share {len(table)} observations: each needs at least one")
    return EVEN_SPLITS[how](table, count, generator)


def _consecutive(table: Table, count: int, _: np.random.Generator) -> list[Rows]:
    return np.array_split(np.arange(len(table)), count)


def _drawn(table: Table, count: int, generator: np.random.Generator) -> list[Rows]:
    return np.array_split(generator.permutation(len(table)), count)


def _in_turn(table: Table, count: int, _: np.random.Generator) -> list[Rows]:
    return [np.arange(agent, len(table), count) for agent in range(count)]


def _by_region(table: Table, count: int, _: np.random.Generator) -> list[Rows]:
    """Boxes that meet at their borders at most, with as many rows each, give or take one; rows stay in their order."""
    return [np.sort(rows) for rows in _boxes(table.x, np.arange(len(table)), count)]


def _boxes(x: FloatArray, rows: Rows, count: int) -> list[Rows]:
    """Halve the box around the rows across its longest side, in proportion where the count is odd, and go on in each.

    Of rows at the very border, those that come first in the data are below it.
    """
    if count == 1:
        return [rows]
    axis = int(np.argmax(np.ptp(x[rows], axis=0)))
    ordered = rows[np.argsort(x[rows, axis], kind="stable")]
    below = count // 2
    border = len(rows) * below // count
    return _boxes(x, ordered[:border], below) + _boxes(x, ordered[border:], count - below)


# These words go before groups of the same name: what a word means must not depend on the data.
EVEN_SPLITS: dict[str, Callable[[Table, int, np.random.Generator], list[Rows]]] = {
    "sequential": _consecutive,
    "random": _drawn,
    "round-robin": _in_turn,
    "region": _by_region,
}


def _by_group(values: npt.NDArray[Any], name: str, agents: int | None) -> list[Rows]:
    """One agent per value; with fewer agents than values, runs of neighboring values stay together."""
    distinct, which = np.unique(values, return_inverse=True)
    count = agents or len(distinct)
    if count > len(distinct):
        raise SettingError(f"{count} agents, but {name} has only {len(distinct)} values: take --agents {len(distinct)}")
    owner = np.concatenate([np.full(len(run), agent) for agent, run in enumerate(np.array_split(distinct, count))])
    return [np.flatnonzero(owner[which] == agent) for agent in range(count)]


def group_of(how: str | None) -> str | None:
    """The name of the group by which rows are dealt out; None if it is not by a group."""
    return None if how in EVEN_SPLITS else how


def name_groups(summary: dict[str, Any], table: Table, how: str, parts: list[Rows]) -> None:
    """Write the groups that each agent has to its entry in a summary, where rows were partitioned by groups."""
    if how in EVEN_SPLITS:
        return
    for key in ("agents", "isolated"):
        for agent, rows in zip(summary.get(key, []), parts, strict=False):
            agent["groups"] = np.unique(table.groups[how][rows]).tolist()


def lost_groups(table: Table, train: Table, how: str) -> str | None:
    """A remark on groups of which no training row is left, and which have therefore no agent."""
    if how in EVEN_SPLITS:
        return None
    lost = np.setdiff1d(table.groups[how], train.groups[how])
    if lost.size == 0:
        return None
    return f"{how} {', '.join(map(str, lost.tolist()[:5]))}: no training rows are left, so there is no agent for it"


class Draw:
    """An agent's rows in the order in which it takes them, round by round."""

    def __init__(self, rows: Rows, order: Order, steps: int, seed: int, agent: int) -> None:
        self.rows, self.steps, self.seed, self.agent = rows, steps, seed, agent
        takes: dict[Order, Callable[[int, int, int], Rows]] = {
            "stream": lambda _, begin, end: self.rows[np.arange(begin, end) % len(self.rows)],
            "shuffled": lambda _, begin, end: self._shuffled(begin, end),
            "replay": lambda number, begin, end: self._replayed(number, end - begin),
        }
        self._take = takes[order]
        self._pass, self._permutation = -1, rows

    def take(self, round_number: int, batch: int) -> Rows:
        """The rows of that round: `batch` of them, fewer at the end of the steps, none after it."""
        begin = min(round_number * batch, self.steps)
        end = min(begin + batch, self.steps)
        return self._take(round_number, begin, end) if begin < end else self.rows[:0]

    def _replayed(self, round_number: int, count: int) -> Rows:
        return self.rows[replay_rows(self.seed, self.agent, round_number, len(self.rows), count)]

    def _shuffled(self, begin: int, end: int) -> Rows:
        """Each pass over the rows in an order of its own; a batch may reach from one pass into the next."""
        size = len(self.rows)
        pieces = []
        while begin < end:
            if begin // size != self._pass:
                self._pass = begin // size
                generator = generator_for("shuffle", self.seed, self.agent, self._pass)
                self._permutation = generator.permutation(self.rows)
            stop = min(end, (self._pass + 1) * size)
            pieces.append(self._permutation[begin - self._pass * size : stop - self._pass * size])
            begin = stop
        return np.concatenate(pieces)
