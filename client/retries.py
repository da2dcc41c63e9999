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
        self._began = patience.clock()
        self._pause_s = patience.first_pause_s

    async def after_refusal(self, refused: AgentRefusedError) -> None:
        """Wait and return if it is worth another attempt, else raise. A refused request has changed nothing."""
        if refused.status not in (*_LATER, _FULL):
            raise refused
        is_full = refused.status == _FULL
        patience_s = self._patience.full_s if is_full else self._patience.silent_s
        await self._wait(refused, patience_s, refused.retry_after_s)

    async def after_silence(self, fault: AgentUnreachableError) -> None:
        """Wait and return if the request may be sent again, else raise."""
        if not self._repeat:
            raise fault
        await self._wait(fault, self._patience.silent_s, None)

    async def _wait(self, fault: Exception, patience_s: float, retry_after_s: float | None) -> None:
        pause_s = self._pause_s * random.uniform(0.5, 1.0) if retry_after_s is None else retry_after_s  # noqa: S311
        self._pause_s = min(2 * self._pause_s, self._patience.longest_pause_s)
        if self._patience.clock() - self._began + pause_s > patience_s:
            raise fault
        await self._patience.sleep(pause_s)
