"""The newest observations, and where the one who made them stood: in memory only, so a restart forgets them."""

from collections import deque
from collections.abc import Callable

import numpy as np

from service.agent.observation_log import StoredBatch
from service.inference.arrays import FloatArray
from service.wire.observations import Observations

MOST_RECENT = 500  # observations

Position = tuple[float, ...]
Rows = tuple[FloatArray, FloatArray]


class Recent:
    """Hears of every batch once it is committed, in the order of acceptance."""

    def __init__(self, collected: int, clock: Callable[[], float]) -> None:
        """collected: how many observations there were before."""
        self.collected = collected
        self.position: Position | None = None
        self._clock, self._told_at = clock, 0.0
        self._pieces: deque[Rows] = deque()
        self._rows = 0

    def stored(self, batch: StoredBatch, observations: Observations) -> None:
        """Keep the newest of a request's observations; the batch tells how many of them, the last, are new.

        The batch itself may lack some: a full replay buffer has no place for all. Rows are copied, for a view would
        keep all of a large request alive.
        """
        self.collected = batch.first + batch.count
        count = min(batch.count, MOST_RECENT)
        if count == 0:
            return
        begin = len(observations) - count
        self._pieces.append((observations.x[begin:].copy(), observations.y[begin:].copy()))
        self._rows += count
        while self._rows - len(self._pieces[0][1]) >= MOST_RECENT:
            self._rows -= len(self._pieces.popleft()[1])

    def stands_at(self, position: Position) -> None:
        """The one who observes says where it is."""
        self.position, self._told_at = position, self._clock()

    @property
    def position_age_s(self) -> float | None:
        """How long ago that was said."""
        return None if self.position is None else self._clock() - self._told_at

    def newest(self, limit: int, nothing: Rows) -> Rows:
        """Points and targets, the newest last, at most `limit`; nothing: no rows, in their shapes."""
        x, y = zip(nothing, *self._pieces, strict=True)
        return np.concatenate(x)[-limit:], np.concatenate(y)[-limit:]
