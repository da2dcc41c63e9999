"""When a client tries again, and when it gives up."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from service.errors import AgentRefusedError, AgentUnreachableError

_LATER = frozenset({502, 503, 504})  # what a busy or restarting agent, or a proxy before it, answers
_FULL = 429


@dataclass(frozen=True)
class Patience:
    """How long a client tries an agent that does not answer, or whose inbox is full, and how often.

    Pauses double from the first to the longest, each shortened by a random factor of up to two.
    """

    silent_s: float = 60.0
    full_s: float = 3600.0
    first_pause_s: float = 0.05
    longest_pause_s: float = 2.0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)


NO_PATIENCE = Patience(silent_s=0.0, full_s=0.0)
"""Ask once."""


class Retries:
    """The attempts of one request. repeat: whether it may be sent again when nobody knows if it arrived."""

    def __init__(self, patience: Patience, repeat: bool) -> None:
        self._patience, self._repeat = patience, repeat
        self._began = self._heard = patience.clock()
        self._pause_s = patience.first_pause_s

    def heard(self) -> None:
        """Something has come: the silence begins anew."""
        self._heard = self._patience.clock()

    async def after_refusal(self, refused: AgentRefusedError) -> None:
        """Wait and return if it is worth another attempt, else raise.

        What an agent has refused has changed nothing; of what a proxy before it refuses, nobody knows.
        """
        may_repeat = self._repeat or refused.slug is not None
        if refused.status not in (*_LATER, _FULL) or not may_repeat:
            raise refused
        if refused.status == _FULL:
            await self._wait(refused, self._began + self._patience.full_s, refused.retry_after_s)
            self._heard = self._patience.clock()  # it is there: silence begins after what it asked for
        else:
            await self._wait(refused, self._heard + self._patience.silent_s, refused.retry_after_s)

    async def after_silence(self, fault: AgentUnreachableError) -> None:
        """Wait and return if the request may be sent again, else raise."""
        if not self._repeat:
            raise fault
        await self._wait(fault, self._heard + self._patience.silent_s, None)

    async def _wait(self, fault: Exception, give_up_at: float, retry_after_s: float | None) -> None:
        if retry_after_s is None:
            pause_s = self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311
            self._pause_s = min(2 * self._pause_s, self._patience.longest_pause_s)
        else:
            pause_s = max(retry_after_s, self._patience.first_pause_s)  # "at once" for ever would be a busy loop
        if self._patience.clock() + pause_s > give_up_at:
            raise fault
        await self._patience.sleep(pause_s)
