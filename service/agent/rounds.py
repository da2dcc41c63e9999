"""The loop of an agent's life: wait until a round may run, pull, take a batch, compute and commit, publish.

Everything up to the computation can be interrupted and begun anew, for nothing has happened yet. Computation and commit
are one hop to a thread, and are always finished.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Literal

from service.agent.configuration import Configuration
from service.agent.events import Events
from service.agent.exchange import EXCHANGES
from service.agent.figures import Measuring, RoundFacts
from service.agent.inbox import Inbox
from service.agent.meters import Durations
from service.agent.neighbors import Neighbors
from service.agent.publication import Publication, Snapshot
from service.agent.store import Store
from service.agent.worker import Worker
from service.errors import DelboError, NoModelError, NotPausedError, StoppingError, StorageError
from service.wire.answers import RoundSummary
from service.wire.parameters import ParameterMessage

Phase = Literal["no-model", "paused", "finished", "resting", "neighbors", "observations", "computing", "failed"]

_FIRST_BACK_OFF_S = 0.2
_LONGEST_BACK_OFF_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a round needs, all there."""

    configuration: Configuration
    inbox: Inbox
    before: Snapshot
    answers: dict[str, ParameterMessage]
    waited_s: float


@dataclass(eq=False)
class _Steps:
    """A request for single rounds."""

    wanted: int
    summaries: list[RoundSummary] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Rounds:
    """One agent's rounds."""

    def __init__(
        self,
        store: Store,
        neighbors: Neighbors,
        publication: Publication,
        events: Events,
        configuration: Configuration,
        clock: Callable[[], float],
    ) -> None:
        self._store, self._neighbors, self._publication, self._events = store, neighbors, publication, events
        self._clock = clock
        self._measuring = Measuring(clock)
        self.waits, self.durations = Durations(), Durations()
        self.measured: RoundSummary | None = None  # the newest with figures
        self.verified: RoundSummary | None = None  # the newest with scores
        self.configuration = configuration
        self.phase: Phase = "no-model"
        self.fault: str | None = None  # of the arithmetic: no round until something changes
        self.turn = asyncio.Lock()  # held while a round is computed, and while a document is put
        self._changed = asyncio.Event()
        self._preparing: asyncio.Task[Prepared] | None = None
        self._steps: _Steps | None = None
        self._stepping = asyncio.Lock()
        self._worker = Worker("rounds")
        self._begun_at = float("-inf")
        self._retry_at = float("-inf")
        self._failures = 0
        self._stopping = False

    def interrupt(self) -> None:
        """Begin the round anew: something that it depends on has changed."""
        self.fault = None
        self._abandon()

    def notice(self) -> None:
        """Something that the round may wait for has come."""
        self._changed.set()

    def stop(self) -> None:
        """Finish the round that is computed, abandon one that waits, and run no more."""
        self._stopping = True
        self.interrupt()

    async def step(self, count: int, wait_s: float) -> list[RoundSummary]:
        """Run that many rounds of a paused agent; those done in time are told, the rest is withdrawn."""
        steps = _Steps(count)
        try:
            async with asyncio.timeout(wait_s), self._stepping:
                if self._stopping:
                    raise StoppingError("this agent is shutting down")
                self._check_steps()
                self._steps = steps
                self.notice()
                try:
                    if self._hindrance() is None:
                        await steps.done.wait()
                finally:
                    self._steps = None
                    if len(steps.summaries) < count:
                        self._abandon()
        except TimeoutError:
            pass
        if self._stopping and not steps.summaries:
            raise StoppingError("this agent is shutting down")
        return steps.summaries

    async def run(self) -> None:
        """Round after round, until stopped."""
        try:
            while not self._stopping:
                self._preparing = asyncio.create_task(self._prepare())
                try:
                    prepared = await self._preparing
                except asyncio.CancelledError:
                    task = asyncio.current_task()
                    if task is not None and task.cancelling():
                        raise
                    continue  # interrupted
                finally:
                    self._preparing = None
                await self._complete(prepared)
        finally:
            self._end_steps()
            self._worker.close()

    def waits_for(self) -> list[str]:
        """The neighbors that a lockstep round still needs."""
        snapshot = self._publication.current
        exchange = EXCHANGES[self.configuration.schedule.exchange]
        if self.phase != "neighbors" or snapshot is None or not exchange.waits:
            return []
        query = exchange.ask(snapshot.state)
        return [link.neighbor.name for link in self._neighbors.links if not link.shows(query)]

    def _check_steps(self) -> None:
        if self.configuration.model is None:
            raise NoModelError("this agent has no model yet: put one first")
        if not self.configuration.schedule.paused:
            raise NotPausedError("this agent runs by itself: pause it with its schedule to run single rounds")

    async def _prepare(self) -> Prepared:
        """Wait for everything that the next round needs."""
        configuration = self.configuration
        schedule = configuration.schedule
        while (hindrance := self._hindrance()) is not None:
            self.phase = hindrance
            self._end_steps()
            await self._until_noticed()
        await self._rest(schedule.period_s)
        before, inbox = self._publication.current, configuration.inbox
        if before is None or inbox is None:
            raise NoModelError("a round needs a model")
        begun_at = self._clock()
        answers = await self._pull(before)
        self.phase = "observations"
        while schedule.waits and inbox.available < schedule.observations_per_round and not inbox.log.ended:
            await self._until_noticed()
        return Prepared(configuration, inbox, before, answers, self._clock() - begun_at)

    def _hindrance(self) -> Phase | None:
        """Why no round may run now."""
        schedule, snapshot = self.configuration.schedule, self._publication.current
        if snapshot is None:
            return "no-model"
        if self.fault is not None:
            return "failed"
        if schedule.until_round is not None and snapshot.state.round >= schedule.until_round:
            return "finished"
        if schedule.paused and self._steps is None:
            return "paused"
        return None

    async def _rest(self, period_s: float) -> None:
        """Rounds begin a period apart, at least; after a fault of the disk, a while later."""
        begin = self._retry_at if self._steps is not None else max(self._begun_at + period_s, self._retry_at)
        pause = begin - self._clock()
        if pause > 0:
            self.phase = "resting"
            await asyncio.sleep(pause)
        self._begun_at = self._clock()

    async def _pull(self, before: Snapshot) -> dict[str, ParameterMessage]:
        self.phase = "neighbors"
        schedule = self.configuration.schedule
        exchange = EXCHANGES[schedule.exchange]
        query, codec = exchange.ask(before.state), before.model.codec
        if exchange.waits:
            return await self._neighbors.pull_exactly(query, schedule.deadline_s, codec)
        return await self._neighbors.pull_latest(query, schedule.deadline_s, schedule.stale_after_s, codec)

    def _abandon(self) -> None:
        """Nothing of the round that waits has happened yet: begin it anew."""
        if self._preparing is not None:
            self._preparing.cancel()

    async def _until_noticed(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _complete(self, prepared: Prepared) -> None:
        """Compute, commit, publish; if a document was put in between, or the step withdrawn, forget it."""
        async with self.turn:
            if prepared.configuration is not self.configuration or self._hindrance() is not None:
                return
            self.phase = "computing"
            begun_at = time.perf_counter()
            try:
                snapshot, summary = await self._worker.run(self._compute, prepared)
            except StorageError as fault:
                self._back_off(fault)
                return
            except (DelboError, MemoryError) as fault:
                self.fault = str(fault) or "there is not enough memory for a round"
                log.error("round %d failed: %s", prepared.before.state.round, fault)
                return
            self._failures = 0
            self._publication.publish(snapshot, self.configuration.neighbors.history)
        self.durations.add(time.perf_counter() - begun_at)
        self.waits.add(prepared.waited_s)
        self.measured = self.measured if summary.distances is None else summary
        self.verified = self.verified if summary.scores is None else summary
        self._events.publish(summary)
        self._count_step(summary)

    def _count_step(self, summary: RoundSummary) -> None:
        """Tell whoever asked for single rounds, and stop when it has them, or can have no more."""
        steps = self._steps
        if steps is not None:
            steps.summaries.append(summary)
            if len(steps.summaries) == steps.wanted or self._hindrance() is not None:
                self._end_steps()

    def _end_steps(self) -> None:
        if self._steps is not None:
            self._steps.done.set()
            self._steps = None

    def _back_off(self, fault: StorageError) -> None:
        """Nothing was committed: try the same round again after a pause."""
        pause = min(_FIRST_BACK_OFF_S * 2.0 ** min(self._failures, 20), _LONGEST_BACK_OFF_S)
        self._failures += 1
        self._retry_at = self._clock() + pause
        log.error("a round could not be committed: %s; trying again in %.1f s", fault, pause)

    def _compute(self, prepared: Prepared) -> tuple[Snapshot, RoundSummary]:
        """In the thread: the arithmetic, and the commit."""
        configuration, before = prepared.configuration, prepared.before
        model = before.model
        begun_at = time.perf_counter()
        counters = copy(self._store.counters)
        schedule = configuration.schedule
        taken = prepared.inbox.take(schedule.observations_per_round, counters.rounds)
        computed = model.compute(before.state, prepared.answers, configuration.neighbors, schedule, taken.x, taken.y)
        state = computed.state
        snapshot = Snapshot.of(model, state, self._store.identity)
        counters.rounds += 1
        counters.applied = taken.applied
        counters.uncovered += computed.info.uncovered
        facts = RoundFacts(
            before, snapshot, computed, prepared.answers, configuration.neighbors, schedule, taken.x, taken.y
        )
        computed_s = time.perf_counter() - begun_at
        figures = self._measuring.measure(facts, configuration.verification)
        summary = RoundSummary(
            epoch=state.epoch,
            round=state.round,
            finished_at=round(time.time(), 3),
            observations=computed.info.observations,
            uncovered=computed.info.uncovered,
            mixed=computed.combined.mixed,
            missing=computed.combined.missing,
            own_weight=computed.combined.own_weight,
            waited_s=round(prepared.waited_s, 6),
            computed_s=round(computed_s, 6),
            number=counters.rounds,
            applied=counters.applied,
            **figures._asdict(),
        )
        self._store.commit_round(
            snapshot.kept, configuration.neighbors.history, summary, counters, taken.obsolete_before
        )
        return snapshot, summary
