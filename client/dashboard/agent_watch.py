"""One agent as the dashboard knows it: asked again and again, its rounds heard as they happen."""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import Literal

import httpx2

from client.agent_client import AgentClient
from client.dashboard.facts import Facts, facts_of
from client.dashboard.places import Place
from client.dashboard.series import Curves
from client.live import REFUSES_US, state_of
from client.retries import NO_PATIENCE
from client.tokens import Tokens
from service.errors import AgentRefusedError, AgentUnreachableError, DelboError
from service.wire.answers import RoundSummary, Status
from service.wire.problems import NOT_LET_IN

log = logging.getLogger(__name__)

Health = Literal["loading", "ok", "idle", "fault", "unreachable", "refused"]

ANSWER_S = 2.0  # for a status; an agent that takes longer is asked once more before it counts as unreachable
_READ_S = 10.0  # for a map or predictions
_FAILURES = 2
_BACKFILL = 1000  # rounds that it may tell of before we came
_IDLE = ("paused", "finished", "no-model")
_BYTES = re.compile(r"^delbo_(?:pulled|received|sent)_bytes_total(?:\{[^\n]*\})? (\S+)$", re.MULTILINE)


class AgentWatch:
    """What is known of one agent; `changed` is called whenever that may be something else."""

    def __init__(
        self,
        number: int,
        place: Place,
        http: httpx2.AsyncClient,
        tokens: Tokens | None,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number, self.place, self._http, self._tokens = number, place, http, tokens
        self._changed, self._clock = changed, clock
        self.curves = Curves()
        self.status: Status | None = None  # the last one
        self.facts: Facts | None = None
        self.health: Health = "loading"
        self.reason: str | None = None
        self.url: str | None = None
        self.seen_at: float | None = None  # by the clock
        self.round_at: float | None = None
        self.rounds = 0
        self._refused = REFUSES_US
        self._silent = 0  # polls behind one another without an answer
        self._model_of: tuple[int, str] | None = None
        self._known = 0  # the number of the last round that it told of

    @property
    def name(self) -> str:
        """What it is called in the file, or what it calls itself, or where it is."""
        return self.place.name or (self.status.agent if self.status is not None else None) or self.place.url or "?"

    @property
    def is_there(self) -> bool:
        """Whether it answers."""
        return self.health in ("ok", "idle", "fault")

    @property
    def state(self) -> str:
        """What it does, in a few words."""
        words = {"loading": "not asked yet", "unreachable": "unreachable", "refused": self._refused}
        return words.get(self.health) or state_of(self.status)

    def quick_client(self) -> AgentClient:
        """The same, where somebody waits for all agents."""
        return self.client(ANSWER_S)

    def client(self, timeout_s: float = _READ_S) -> AgentClient:
        """Somebody to ask it by, once."""
        if self.url is None:
            raise AgentUnreachableError(f"{self.name} does not run, as far as anybody knows")
        return AgentClient(self.url, NO_PATIENCE, timeout_s, self._http, self._tokens)

    # ---- asking

    async def poll_forever(self, period_s: float) -> None:
        """Ask it every so many seconds, until cancelled."""
        while True:
            begun_at = self._clock()
            await self.poll()
            await asyncio.sleep(max(0.0, begun_at + period_s - self._clock()))

    async def poll(self) -> None:
        """Ask how it is."""
        self.url = self.place.address()
        try:
            await self._look(self.client(ANSWER_S))
        except AgentRefusedError as refused:
            if refused.slug is None:  # not an agent's words: what stands before it, or in its place
                self._miss(refused, False)
            else:
                self._refused = REFUSES_US
                self._fail("refused" if refused.slug in NOT_LET_IN else "fault", str(refused))
        except DelboError as fault:
            self._miss(fault, self.url is None or (isinstance(fault, AgentUnreachableError) and fault.is_nobody))
        except Exception as fault:  # whatever one of them says, the others are watched on
            log.warning("%s could not be understood", self.url, exc_info=True)
            self._miss(fault, False)
        self._changed()

    def _miss(self, fault: Exception, is_nobody: bool) -> None:
        """A poll without an answer; one that only took too long is asked once more."""
        self._silent += 1
        if is_nobody or self._silent >= _FAILURES:
            self._fail("unreachable", str(fault) or type(fault).__name__)

    async def _look(self, agent: AgentClient) -> None:
        status = await agent.status()
        if self.place.name is not None and status.agent != self.place.name:
            self._refused = "another agent answers there"
            self._fail("refused", f"{self.url} is {status.agent}, not {self.place.name}")
            return
        self._see(status)
        if status.model_id is not None and self._model_of != (status.incarnation, status.model_id):
            document = await self.client().model()
            if document is not None:
                self.facts = await asyncio.to_thread(facts_of, document)
                self._model_of = (status.incarnation, status.model_id)
        total = sum(map(float, _BYTES.findall(await agent.metrics())))
        self.curves.count_bytes(time.time(), status.rounds_in_all, total)

    def _see(self, status: Status) -> None:
        began_anew = self.status is not None and self.status.incarnation != status.incarnation
        self.status, self.reason, self._silent = status, None, 0
        self.health = "fault" if status.faults else "idle" if status.phase in _IDLE else "ok"
        self.seen_at = self._clock()
        if began_anew:
            self.curves, self._known, self.rounds = Curves(), 0, 0
            self.facts = None
        self._count(status.rounds_in_all)
        self.curves.rest(time.time(), status.rounds_in_all)

    def _count(self, rounds: int) -> None:
        if rounds != self.rounds or self.round_at is None:
            self.rounds, self.round_at = rounds, self._clock()

    def _fail(self, health: Health, reason: str) -> None:
        self.health, self.reason = health, reason
        self._changed()

    # ---- hearing of rounds

    async def follow_forever(self, period_s: float) -> None:
        """Hear of every round; where that does not work, ask for the last ones every so many seconds."""
        while True:
            if self.status is not None and self.is_there:
                try:
                    await self._catch_up()
                    await self._listen()
                except DelboError:
                    pass  # how it is, the polls say
                except Exception:
                    log.warning("rounds of %s could not be understood", self.url, exc_info=True)
            await asyncio.sleep(period_s)

    async def _catch_up(self) -> None:
        missing = min(self.rounds - self._known, _BACKFILL)
        if missing <= 0:
            return
        told = await self.client().history(missing)
        if told and told[0].number > self._known + 1:  # rounds of this very moment have taken the place of older ones
            told = await self.client().history(_BACKFILL)
        for summary in told:
            self._add(summary)

    async def _listen(self) -> None:
        assert self.status is not None  # noqa: S101 - rounds are asked for after it
        async for event in self.client().events(f"{self.status.incarnation:x}-{self._known}"):
            self.curves.hear(time.time(), event.summary.finished_at)
            self._add(event.summary)
            self._changed()

    def _add(self, summary: RoundSummary) -> None:
        """A round, unless it is known already."""
        if summary.number <= self._known:
            return
        self._known = summary.number
        self.curves.add_round(summary)
        if summary.number > self.rounds:
            self._count(summary.number)
