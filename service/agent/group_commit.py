"""Group commit: posts that arrive while the disk is busy share the next transaction, and its one wait."""

import asyncio
from collections.abc import Callable

from service.agent.observation_log import Mark, ObservationLog, StoredBatch
from service.agent.worker import Worker
from service.errors import DelboError, StoppingError, StorageError
from service.wire.observations import Observations

_MOST_AT_ONCE = 256  # posts in one transaction
_PROBE_EVERY_S = 1.0  # while the disk is broken


class GroupCommit:
    """The one task that writes observations."""

    def __init__(self, log: Callable[[], ObservationLog], stored: Callable[[StoredBatch], None]) -> None:
        """`log` gives the log in force; `stored` hears of every new batch, on the event loop."""
        self._log, self._stored = log, stored
        self._pending: list[tuple[Observations, Mark | None, asyncio.Future[StoredBatch | None]]] = []
        self._wake = asyncio.Event()
        self._worker = Worker("writer")
        self._stopping = False
        self.fault: str | None = None

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
                woken = await self._until_woken()
                group, self._pending = self._pending[:_MOST_AT_ONCE], self._pending[_MOST_AT_ONCE:]
                if not group:
                    if self._stopping:
                        return
                    self._wake.clear()
                    if woken:
                        continue  # else an empty transaction tells whether the disk works again
                requests = [(observations, mark) for observations, mark, _ in group]
                try:
                    results = await self._worker.run(self._log().append, requests)
                    self.fault = None
                except StorageError as fault:
                    self.fault = str(fault)
                    results = [(None, fault)] * len(group)
                for (_, _, done), (batch, refusal) in zip(group, results, strict=True):
                    self._answer(done, batch, refusal)
        finally:
            self._worker.close()

    async def _until_woken(self) -> bool:
        """Wait for posts; after a fault of the disk, not too long."""
        try:
            async with asyncio.timeout(None if self.fault is None else _PROBE_EVERY_S):
                return await self._wake.wait()
        except TimeoutError:
            return False

    def _answer(
        self, done: asyncio.Future[StoredBatch | None], batch: StoredBatch | None, refusal: DelboError | None
    ) -> None:
        if batch is not None:
            self._stored(batch)
        if done.cancelled():
            return
        if refusal is not None:
            done.set_exception(refusal)
        else:
            done.set_result(batch)
