"""Accepted and not yet applied: where a round gets its observations from."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from service.agent.observation_log import ObservationLog, StoredBatch
from service.agent.replay import ReplayBuffer
from service.errors import StorageError
from service.inference.arrays import FloatArray
from service.inference.round import replay_rows


@dataclass(frozen=True, eq=False)
class Taken:
    """A round's observations. They count as applied when the round is committed, not before."""

    x: FloatArray
    y: FloatArray
    applied: int  # observations applied once the round is committed
    obsolete_before: int | None  # batches that begin earlier are then done with; None: none is


_MOST_AT_HAND = 100_000  # observations
_NO_BATCH = StoredBatch(0, 0, np.empty((0, 0)), np.empty(0))


class StreamInbox:
    """Every accepted observation is applied once, in the order of acceptance.

    The log has them all. The newest are also at hand, so that a round need not wait for a disk that is busy with more.
    """

    def __init__(self, log: ObservationLog) -> None:
        self.log = log
        self._current: list[StoredBatch] = []  # what was read last, as the next round goes on there
        self._at_hand: deque[StoredBatch] = deque()  # filled by the event loop, emptied by the thread of the rounds

    @property
    def available(self) -> int:
        """Observations that a round could take now."""
        return self.log.counters.collected - self.log.counters.applied

    def accepted(self, batch: StoredBatch) -> None:
        """Keep them at hand, if there is room and none is missing in between."""
        at_hand = self._at_hand
        try:
            first, last = at_hand[0].first, at_hand[-1]
        except IndexError:  # empty, or emptied this moment
            at_hand.append(batch)
            return
        if last.first + last.count == batch.first and batch.first + batch.count - first <= _MOST_AT_HAND:
            at_hand.append(batch)

    def take(self, count: int, round_number: int) -> Taken:  # noqa: ARG002 - one interface with replay
        """The next observations, at most `count`."""
        begin = number = self.log.counters.applied
        count = min(count, self.available)
        x, y = [], []
        end = number + count
        while number < end:
            batch = self._batch_at(number, end - number)
            rows = slice(number - batch.first, min(end - batch.first, batch.count))
            x.append(batch.x[rows])
            y.append(batch.y[rows])
            if not len(y[-1]):
                raise StorageError(f"observation {number} is not in the agent's file, which must be damaged")
            number += len(y[-1])
        if not x:
            return Taken(*self.log.no_rows(), number, None)
        last = self._current[0].first
        obsolete = last if begin <= last else None  # else this batch was begun before, and those before it are gone
        if len(x) == 1:
            return Taken(x[0], y[0], number, obsolete)
        return Taken(np.concatenate(x), np.concatenate(y), number, obsolete)

    def _batch_at(self, number: int, count: int) -> StoredBatch:
        while self._current and self._current[0].first + self._current[0].count <= number:
            self._current.pop(0)
        if not self._current or self._current[0].first > number:
            self._current = self._found_at_hand(number) or self.log.read(number, count)
        return self._current[0] if self._current and self._current[0].first <= number else _NO_BATCH

    def _found_at_hand(self, number: int) -> list[StoredBatch]:
        """The batch that holds this observation, if it is at hand."""
        while self._at_hand and self._at_hand[0].first + self._at_hand[0].count <= number:
            self._at_hand.popleft()
        return [self._at_hand.popleft()] if self._at_hand and self._at_hand[0].first <= number else []


class ReplayInbox:
    """Every round draws anew from all that was collected, uniformly, with replacement."""

    def __init__(self, log: ObservationLog, agent_index: int) -> None:
        self.log = log
        self.agent_index = agent_index
        self._buffer = ReplayBuffer(log.dimension, () if log.outputs is None else (log.outputs,))
        for batch in log.all():
            self.accepted(batch)

    @property
    def available(self) -> int:
        """As many as one likes, once there is one."""
        return 2**62 if len(self._buffer) else 0

    def accepted(self, batch: StoredBatch) -> None:
        """Give the batch its places."""
        self._buffer.put(batch.first, batch.x, batch.y, batch.slots)

    def take(self, count: int, round_number: int) -> Taken:
        """A draw that depends on (seed, agent, round) only."""
        applied, size = self.log.counters.applied, len(self._buffer)
        if not count or not size:
            return Taken(*self.log.no_rows(), applied, None)
        rows = replay_rows(self.log.intake.seed, self.agent_index, round_number, size, count)
        return Taken(*self._buffer.take(rows), applied + count, None)


Inbox = StreamInbox | ReplayInbox
