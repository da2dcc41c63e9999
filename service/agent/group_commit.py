"""Group commit: posts that arrive while the disk is busy share the next transaction, and its one wait."""

import asyncio
from collections.abc import Callable

from service.agent.observation_log import Mark, ObservationLog, StoredBatch
from service.agent.worker import Worker
from service.errors import DelboError, StoppingError, StorageError
from service.wire.observations import Observations

_MOST_AT_ONCE = 256  # posts in one transaction

_Pending = tuple[Observations, Mark | None, asyncio.Future[StoredBatch | None]]


class GroupCommit:
    """The one task that writes observations."""

    def __init__(self, log: Callable[[], ObservationLog], stored: Callable[[StoredBatch, Observations], None]) -> None:
        """`log` gives the log in force; `stored` hears, on the event loop, of every new batch and what it is of."""
        self._log, self._stored = log, stored
        self._pending: list[_Pending] = []
        self._wake = asyncio.Event()
        self._worker = Worker("writer")
        self._stopping = False
        self.turn = asyncio.Lock()  # held while a group is stored and made known

    async def append(self, observations: Observations, mark: Mark | None) -> StoredBatch | None:
        """Wait until the observations are on disk; None: a retry, they were there before."""
        if self._stopping:
            raise StoppingError("this agent is shutting down")
        done: asyncio.Future[StoredBatch | None] = asyncio.get_running_loop().create_future()
        self._pending.append((observations, mark, done))
        self._wake.set()
        return await done

    def stop(self) -> None:
        """Take no more, and end when all that was taken is stored."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Commit until stopped."""
        try:
            while True:
                await self._wake.wait()
                group, self._pending = self._pending[:_MOST_AT_ONCE], self._pending[_MOST_AT_ONCE:]
                if not group:
                    if self._stopping:
                        return
                    self._wake.clear()
                    continue
                async with self.turn:
                    await self._commit(group)
        finally:
            self._worker.close()

    async def _commit(self, group: list[_Pending]) -> None:
        requests = [(observations, mark) for observations, mark, _ in group]
        try:
            results = await self._worker.run(self._log().append, requests)
        except StorageError as fault:
            results = [(None, fault)] * len(group)
        for (observations, _, done), (batch, refusal) in zip(group, results, strict=True):
            if batch is not None:
                self._stored(batch, observations)
            _answer(done, batch, refusal)


def _answer(done: asyncio.Future[StoredBatch | None], batch: StoredBatch | None, refusal: DelboError | None) -> None:
    if done.cancelled():
        return
    if refusal is not None:
        done.set_exception(refusal)
    else:
        done.set_result(batch)
