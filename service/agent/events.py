"""The rounds as they happen, for whoever listens.

Nobody has a queue: the newest rounds are kept once, and every listener asks for those behind the last one that it has.
Who is too slow finds them gone, and is told how many it missed.
"""

import asyncio
from collections import deque
from typing import NamedTuple

from service.agent.store import Store
from service.wire.answers import RoundSummary

_KEPT = 512  # rounds in memory
_CAUGHT_UP = 1000  # rounds that are read from disk for one who comes back


class News(NamedTuple):
    """Rounds that a listener has not yet, and how many more there were that it can no longer get."""

    rounds: list[RoundSummary]
    missed: int
    last: int  # the number of the last one


class Events:
    """The newest rounds. All methods are called on the event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: deque[RoundSummary] = deque(maxlen=_KEPT)
        self._next: asyncio.Future[None] | None = None
        self.stopped = False

    def publish(self, summary: RoundSummary) -> None:
        """A round has been committed."""
        self._recent.append(summary)
        self._wake()

    def stop(self) -> None:
        """Send everybody away who listens."""
        self.stopped = True
        self._wake()

    async def catch_up(self, after: int | None) -> News:
        """What there is behind round number `after`, from disk; without a number, the newest round alone."""
        newest = self._store.counters.rounds
        if after is None or after > newest:
            after = max(newest - 1, 0)
        # By number, not the newest so many: rounds go on meanwhile.
        return _behind(await asyncio.to_thread(self._store.history, _CAUGHT_UP, after), after)

    def since(self, after: int) -> News:
        """What is in memory behind round number `after`."""
        if not self._recent or self._recent[-1].number <= after:
            return News([], 0, after)
        count = min(self._recent[-1].number - after, len(self._recent))
        return _behind([self._recent[index] for index in range(-count, 0)], after)

    def next_round(self) -> "asyncio.Future[None]":
        """Done with the next round, or when the agent stops; everybody waits for the same one, and cancels it not."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        return self._next

    def _wake(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None


def _behind(rounds: list[RoundSummary], after: int) -> News:
    """All of them are behind it; those between are missed."""
    if not rounds:
        return News([], 0, after)
    return News(rounds, rounds[0].number - after - 1, rounds[-1].number)
