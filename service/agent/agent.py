"""The object that the API talks to: one agent, from opening its file to closing it."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from service.agent.configuration import (
    Configuration,
    build_inbox,
    check_same_model,
    check_schedule,
    check_source_change,
    is_repeated,
)
from service.agent.events import Events
from service.agent.exchange import first_state
from service.agent.group_commit import GroupCommit
from service.agent.inbox import Inbox
from service.agent.maps import Maps
from service.agent.meters import Traffic
from service.agent.model import LoadedModel
from service.agent.neighbors import Fetch, Neighbors
from service.agent.observation_log import Mark, StoredBatch
from service.agent.publication import Publication, Snapshot
from service.agent.readings import Readings
from service.agent.recent import Recent
from service.agent.rounds import Rounds
from service.agent.store import Kind, Store
from service.agent.verification import LoadedVerification
from service.errors import BacklogFullError, NoModelError, NotNewcomerError, SettingError, StorageError
from service.inference.belief import Evidence
from service.wire.answers import RoundSummary
from service.wire.configuration import (
    NO_NEIGHBORS,
    NO_SCHEDULE,
    ModelDocument,
    NeighborsDocument,
    ScheduleDocument,
)
from service.wire.observations import ObservationReader, Observations
from service.wire.problems import ROUND_GONE
from service.wire.verification import VerificationDocument

_TRY_DISK_EVERY_S = 1.0

log = logging.getLogger(__name__)


class Agent:
    """One agent. Make it, `run` it in a task, `stop` it; everything else may be called in between."""

    def __init__(
        self,
        name: str,
        folder: Path,
        fetch: Fetch,
        clock: Callable[[], float],
        inbox_limit: int,
        history_limit: int,
    ) -> None:
        """Open the agent's file and restore what is in it."""
        self.name, self.clock = name, clock
        self._fetch, self._inbox_limit = fetch, inbox_limit
        self.store = Store(folder, name, history_limit)
        self.publication = Publication(self.store)
        self.events = Events(self.store)
        self.recent = Recent(self.store.counters.collected, clock)
        self.traffic = Traffic()
        self.readings = Readings()
        self.maps = Maps(self.readings)
        self.neighbors = Neighbors(fetch, clock)
        self.rounds = Rounds(self.store, self.neighbors, self.publication, self.events, self._restored(), clock)
        self.rounds.verified = self._last_verified()
        self.commits = GroupCommit(lambda: self.inbox.log, self._stored)
        self.stopped = asyncio.Event()

    async def run(self) -> None:
        """Live until stopped; then everything is finished and the file is closed."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.commits.run())
                tasks.create_task(self.rounds.run())
                tasks.create_task(self._watch_disk())
        finally:
            self.readings.close()
            self.store.close()

    async def _watch_disk(self) -> None:
        """While the disk is broken, try it every now and then: nobody may have anything to write."""
        while not self.stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopped.wait(), _TRY_DISK_EVERY_S)
            if self.store.database.fault is not None:
                with suppress(StorageError):
                    await asyncio.to_thread(self.store.try_disk)

    def stop(self) -> None:
        """Abandon what waits, finish what is being computed or stored, take nothing new."""
        self.stopped.set()
        self.publication.stop()
        self.events.stop()
        self.readings.close()
        self.commits.stop()
        self.rounds.stop()

    @property
    def stopping(self) -> bool:
        """Whether the agent shuts down."""
        return self.stopped.is_set()

    @property
    def configuration(self) -> Configuration:
        """The documents in force."""
        return self.rounds.configuration

    @property
    def snapshot(self) -> Snapshot:
        """The newest committed round."""
        if self.publication.current is None:
            raise NoModelError("this agent has no model yet: put one first")
        return self.publication.current

    @property
    def model(self) -> LoadedModel:
        """The model in force."""
        if self.configuration.model is None:
            raise NoModelError("this agent has no model yet: put one first")
        return self.configuration.model

    @property
    def inbox(self) -> Inbox:
        """Where observations go."""
        if self.configuration.inbox is None:
            raise NoModelError("this agent has no model yet, and cannot know what observations it takes: put one first")
        return self.configuration.inbox

    @property
    def reader(self) -> ObservationReader:
        """Reads bodies of observations, and checks them against the model."""
        if self.configuration.model is None:
            raise NoModelError("this agent has no model yet, and cannot know what observations it takes: put one first")
        return self.configuration.model.reader

    async def accept(self, observations: Observations, mark: Mark | None, patience_s: float = 0.0) -> None:
        """Store observations; when this returns they are on disk, by this request or by an earlier one of its mark.

        If the inbox is full, it is tried again for as long as patience_s says.
        """
        give_up_at, pause = self.clock() + patience_s, 0.01
        while True:
            try:
                await self.commits.append(observations, mark)
                return
            except BacklogFullError:
                if self.clock() + pause > give_up_at or self.stopping:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.5)

    async def put_model(self, document: ModelDocument) -> None:
        """Load the model; another one, or another sensor, is for another agent."""
        async with self.rounds.turn:
            current, shown = self.configuration, self.publication.current
            if is_repeated(document, None if current.model is None else current.model.document):
                return
            if current.model is not None:
                check_same_model(document, current.model.document)
            model = await asyncio.to_thread(LoadedModel.load, document)
            if shown is None:
                state = first_state(self.name, current.neighbors.epoch, model.codec.nothing)
                snapshot = Snapshot.of(model, state, self.store.identity)
            else:
                snapshot = Snapshot(model, shown.state, shown.kept)
            await self._put("model", document.model_dump_json, None if shown else snapshot)
            await self._take_over(replace(current, model=model), snapshot)
        log.info("model %s is in force: %d parameters", model.model_id[:12], model.prior.dimension)

    async def put_neighbors(self, document: NeighborsDocument) -> None:
        """Begin a new epoch, from the belief committed last, or, for a newcomer, from a neighbor's."""
        if is_repeated(document, self.configuration.neighbors):
            return
        if self.name in (neighbor.name for neighbor in document.neighbors):
            raise SettingError(f"neighbors: {self.name} is this agent itself")
        borrowed = None if document.start_from is None else await self._evidence_of(document, document.start_from)
        async with self.rounds.turn:
            current, shown = self.configuration, self.publication.current
            if is_repeated(document, current.neighbors):
                return
            if borrowed is not None:
                self._check_newcomer(document.start_from)
            snapshot = None
            if shown is not None:
                state = first_state(self.name, document.epoch, borrowed or shown.state.evidence)
                snapshot = Snapshot.of(shown.model, state, self.store.identity)
            await self._put("neighbors", document.model_dump_json, snapshot, document.history)
            self.neighbors.connect(document.neighbors, document.precision)
            await self._take_over(replace(current, neighbors=document), snapshot)
        log.info("epoch %d begins, with %d neighbors", document.epoch, len(document.neighbors))

    async def put_schedule(self, document: ScheduleDocument) -> None:
        """Change when rounds run, and what they do."""
        async with self.rounds.turn:
            current = self.configuration
            if is_repeated(document, current.schedule):
                return
            check_schedule(document, self._inbox_limit)
            check_source_change(document, current, self.store)
            await self._put("schedule", document.model_dump_json, None)
            await self._take_over(replace(current, schedule=document), self.publication.current)
        log.info("schedule %d is in force: %s", document.revision, "paused" if document.paused else document.exchange)

    async def put_verification(self, document: VerificationDocument) -> None:
        """Score the belief on these points from now on, every so many rounds."""
        async with self.rounds.turn:
            current = self.configuration
            if is_repeated(document, None if current.verification is None else current.verification.document):
                return
            verification = LoadedVerification(document, self.model)
            await self._put("verification", verification.prepared_json, None)
            await self._take_over(replace(current, verification=verification), self.publication.current)
            self.rounds.verified = None
        log.info("verification %d is in force: %d points", document.revision, len(document))

    def faults(self) -> dict[str, str]:
        """Why this agent is not ready, in plain words; empty if it is."""
        faults = {}
        if self.stopping:
            faults["stopping"] = "this agent is shutting down"
        if self.store.database.fault is not None:
            faults["storage"] = self.store.database.fault
        if self.rounds.fault is not None:
            faults["round"] = self.rounds.fault
        for link in self.neighbors.links:
            if link.outcome == "refused" and (link.reason or "").startswith(ROUND_GONE):
                faults[ROUND_GONE] = f"{link.neighbor.name} no longer keeps the round that is needed: put a new epoch"
        return faults

    async def _evidence_of(self, document: NeighborsDocument, name: str) -> Evidence:
        """What a neighbor shows now, for a newcomer to start from."""
        self._check_newcomer(name)
        visitor = Neighbors(self._fetch, self.clock)
        visitor.connect([one for one in document.neighbors if one.name == name], document.precision)
        deadline_s = self.configuration.schedule.deadline_s
        message = await visitor.pull_once(name, deadline_s, self.snapshot.model.codec)
        return message.parts[0].evidence

    def _check_newcomer(self, name: str | None) -> None:
        if self.store.counters.applied:
            raise NotNewcomerError(f"this agent has evidence of its own, which would be lost by starting from {name}")

    async def _put(self, kind: Kind, written: Callable[[], str], snapshot: Snapshot | None, history: int = 1) -> None:
        kept = None if snapshot is None else snapshot.kept
        await asyncio.to_thread(lambda: self.store.put_document(kind, written(), kept, history))

    async def _take_over(self, configuration: Configuration, snapshot: Snapshot | None) -> None:
        """A document is on disk: let it be seen, and begin the round anew."""
        async with self.commits.turn:  # a batch that is stored meanwhile would go to neither inbox
            inbox = await asyncio.to_thread(build_inbox, configuration, self.store, self._inbox_limit)
            self.rounds.configuration = replace(configuration, inbox=inbox)
        if snapshot is not None:
            self.publication.publish(snapshot, configuration.neighbors.history)
        self.rounds.interrupt()

    def _stored(self, batch: StoredBatch, observations: Observations) -> None:
        self.inbox.accepted(batch)
        self.recent.stored(batch, observations)
        self.rounds.notice()

    def _last_verified(self) -> RoundSummary | None:
        verification = self.configuration.verification
        if verification is None:
            return None
        return self.store.newest_with(lambda summary: summary.verification == verification.document.revision)

    def _restored(self) -> Configuration:
        """The configuration that is on disk, with the belief, the inbox and the rounds that peers may still ask for."""
        bodies = self.store.documents()
        neighbors, schedule, model = NO_NEIGHBORS, NO_SCHEDULE, None
        if "neighbors" in bodies:
            neighbors = NeighborsDocument.model_validate_json(bodies["neighbors"])
            self.neighbors.connect(neighbors.neighbors, neighbors.precision)
        if "schedule" in bodies:
            schedule = ScheduleDocument.model_validate_json(bodies["schedule"])
        if "model" in bodies:
            model = LoadedModel.load(ModelDocument.model_validate_json(bodies["model"]))
        verification = None
        if "verification" in bodies and model is not None:
            document = VerificationDocument.from_json(bodies["verification"].encode(), model.reader)
            verification = LoadedVerification(document, model)
        configuration = Configuration(model, neighbors, schedule, verification)
        kept = self.store.newest_round()
        if model is not None and kept is not None:
            self.publication.publish(Snapshot.restored(model, kept), neighbors.history)
        return replace(configuration, inbox=build_inbox(configuration, self.store, self._inbox_limit))
