"""All agents of the dashboard: asked side by side, and told of to everybody who looks."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import httpx2
import msgspec

from client.dashboard.agent_watch import AgentWatch
from client.dashboard.places import Place
from client.dashboard.state import StateWriter
from client.tokens import Tokens, token_for
from service.errors import AgentRefusedError
from service.wire.roles import Role

log = logging.getLogger(__name__)

PERIOD_S = 2.0
_TELL_EVERY_S = 0.5  # at most so often, however much happens


class Watching:
    """Watches agents while it is entered; `document` is the newest state, and `next_document` waits for another."""

    def __init__(
        self,
        name: str,
        places: Sequence[Place],
        tokens: Tokens | None = None,
        *,
        period_s: float = PERIOD_S,
        read_only: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.period_s, self._read_only, self._tokens, self._clock = period_s, read_only, tokens, clock
        secure = any((place.url or "").startswith("https:") for place in places)
        # Maps, predictions, events and polls of all agents at once.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=4 * len(places))
        self._http = httpx2.AsyncClient(trust_env=False, verify=secure, limits=limits)
        self.agents = [
            AgentWatch(number, place, self._http, tokens, self._touch, clock) for number, place in enumerate(places)
        ]
        self._writer = StateWriter(name, self.agents)
        self._touched = asyncio.Event()
        self._next: asyncio.Future[None] | None = None
        self.stopped = False
        self.version, self.document = 0, b""
        self._publish()

    def agent(self, number: int) -> AgentWatch:
        """One of them, by its number."""
        if not 0 <= number < len(self.agents):
            raise AgentRefusedError(f"there is no agent {number} here", 404)
        return self.agents[number]

    def may(self, role: Role) -> bool:
        """Whether people may do what takes this role; where agents ask for no tokens, they may do everything."""
        return not self._read_only and self.has(role)

    def has(self, role: Role) -> bool:
        """Whether agents let the dashboard do what takes this role."""
        return self._tokens is None or token_for(self._tokens, role) is not None

    def check(self, role: Role) -> None:
        """Refuse what people may not do."""
        if not self.may(role):
            raise AgentRefusedError(f"this dashboard has no token of the role {role}, or is for reading only", 403)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ask the agents as long as this lasts."""
        work = [self._tell()]
        work += [agent.poll_forever(self.period_s) for agent in self.agents]
        work += [agent.follow_forever(self.period_s) for agent in self.agents]
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(one) for one in work]
                yield
                for task in running:
                    task.cancel()
        finally:
            await self._http.aclose()

    def stop(self) -> None:
        """Send everybody away who listens."""
        self.stopped = True
        self._wake()

    async def next_document(self, behind: int, wait_s: float) -> tuple[int, bytes] | None:
        """A newer state than that version, once there is one; None if there is none for so long, or at the end."""
        if self.version == behind and not self.stopped:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._next,), timeout=wait_s)
        return None if self.version == behind or self.stopped else (self.version, self.document)

    def _touch(self) -> None:
        self._touched.set()

    async def _tell(self) -> None:
        while True:
            await self._touched.wait()
            self._touched.clear()
            try:
                self._publish()
            except (ValueError, OverflowError, TypeError):  # numbers that no agent would tell
                log.warning("the state could not be told", exc_info=True)
            await asyncio.sleep(_TELL_EVERY_S)

    def _publish(self) -> None:
        may = {"control": self.may("control"), "ingest": self.may("ingest"), "recent": self.has("ingest")}
        self.document = msgspec.json.encode(self._writer.document(self._clock(), may, self.period_s))
        self.version += 1
        self._wake()

    def _wake(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None
