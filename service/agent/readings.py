"""Questions that take a while to answer: in threads of their own, and neither the round nor the loop waits for them.

Only so many may wait, and only so much: then the next is sent away, to come again.
"""

from collections.abc import Callable
from typing import TypeVar

from service.agent.worker import Worker
from service.errors import BusyError, StoppingError

Result = TypeVar("Result")

_THREADS = 2  # so that a long answer does not hold up all short ones
_MOST_WAITING = 64
_MOST_POINTS = 8_000_000  # points and pixels of all that waits or is computed


class Readings:
    """The threads, and what they have to do."""

    def __init__(self) -> None:
        self._worker = Worker("readings", _THREADS)
        self._waiting = self._points = 0
        self._closed = False

    async def answer(self, points: int, job: Callable[[], Result]) -> Result:
        """Do the job in a thread; `points` says how much of it there is."""
        if self._closed:
            raise _stopping()
        if self._waiting >= _MOST_WAITING or (self._waiting and self._points + points > _MOST_POINTS):
            raise BusyError("too many predictions and maps are being made at once: try again")
        self._waiting += 1
        self._points += points
        try:
            return await self._worker.run(job)
        finally:
            self._waiting -= 1
            self._points -= points

    def close(self) -> None:
        """Send everybody away who waits; an answer that is being computed is not waited for."""
        if self._closed:
            return
        self._closed = True
        self._worker.abandon(_stopping())


def _stopping() -> StoppingError:
    return StoppingError("this agent is shutting down")
