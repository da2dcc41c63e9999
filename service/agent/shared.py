"""Results that many ask for: each is made once, and kept while there is room."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")

_MOST_ENTRIES = 256


@dataclass(frozen=True)
class _Entry(Generic[Kept]):
    """A result, or what will be one."""

    task: asyncio.Task[Kept]
    size: int


class Shared(Generic[Key, Kept]):
    """Who asks for what is being made waits for the same one. What was not asked for the longest goes first."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._taken = 0
        self._made: OrderedDict[Key, _Entry[Kept]] = OrderedDict()

    async def get(self, key: Key, size: int, make: Callable[[], Coroutine[None, None, Kept]]) -> Kept:
        """The result for that key; size: what keeping it takes of the room."""
        if key in self._made:
            self._made.move_to_end(key)
            task = self._made[key].task
        else:
            # Not the asker's own: others wait for it too, and it ends with the thread that makes it.
            task = asyncio.ensure_future(make())
            task.add_done_callback(lambda done: self._settle(key, done))
            self._made[key] = _Entry(task, size)
            self._taken += size
            while len(self._made) > 1 and (self._taken > self._room or len(self._made) > _MOST_ENTRIES):
                self._forget(next(iter(self._made)))
        return await asyncio.shield(task)

    def keep_only(self, is_wanted: Callable[[Key], bool]) -> None:
        """Forget what nobody will ask for any more; who waits for it still gets it."""
        for key in [key for key in self._made if not is_wanted(key)]:
            self._forget(key)

    def _settle(self, key: Key, done: asyncio.Task[Kept]) -> None:
        """Forget a failure, so that the next one who asks has another try, and what is larger than all the room."""
        is_failure = done.cancelled() or done.exception() is not None  # which is so looked at, also if nobody waits
        entry = self._made.get(key)
        if entry is not None and entry.task is done and (is_failure or entry.size > self._room):
            self._forget(key)

    def _forget(self, key: Key) -> None:
        self._taken -= self._made.pop(key).size
