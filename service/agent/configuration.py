"""What an agent is told: the documents in force, and what was built from them."""

from dataclasses import dataclass

from service.agent.inbox import Inbox, ReplayInbox, StreamInbox
from service.agent.model import LoadedModel
from service.agent.observation_log import Intake, ObservationLog
from service.agent.store import Store
from service.agent.verification import LoadedVerification
from service.errors import (
    ConflictError,
    ModelLoadedError,
    OlderEpochError,
    OlderRevisionError,
    RevisionTakenError,
    SettingError,
    SourceFixedError,
)
from service.wire.configuration import (
    NO_NEIGHBORS,
    NO_SCHEDULE,
    ModelDocument,
    NeighborsDocument,
    ScheduleDocument,
)
from service.wire.verification import VerificationDocument

Numbered = ModelDocument | NeighborsDocument | ScheduleDocument | VerificationDocument


@dataclass(frozen=True, eq=False)
class Configuration:
    """The documents in force; replaced as a whole, so that a round can tell whether anything has changed."""

    model: LoadedModel | None = None
    neighbors: NeighborsDocument = NO_NEIGHBORS
    schedule: ScheduleDocument = NO_SCHEDULE
    verification: LoadedVerification | None = None
    inbox: Inbox | None = None


def is_repeated(new: Numbered, current: Numbered | None) -> bool:
    """Whether the document is in force already; older ones, and another one with the same number, are refused."""
    if current is None or new.number > current.number:
        return False
    what = "epoch" if isinstance(new, NeighborsDocument) else "revision"
    if new.number < current.number:
        error: type[ConflictError] = OlderEpochError if what == "epoch" else OlderRevisionError
        raise error(f"{what} {new.number} is older than {current.number}, which is in force")
    if new != current:
        raise RevisionTakenError(f"{what} {new.number} is in force with another body: take a higher number")
    return True


def check_same_model(new: ModelDocument, current: ModelDocument) -> None:
    """Refuse another model, or another sensor, where there is one."""
    if new.spec.model_id != current.spec.model_id or new.own_likelihood != current.own_likelihood:
        raise ModelLoadedError("this agent holds another model: start an agent with a data directory of its own for it")


def check_schedule(new: ScheduleDocument, limit: int) -> None:
    """Refuse to wait for more observations than can ever wait."""
    if new.source == "stream" and new.waits and new.observations_per_round > limit:
        raise SettingError(
            f"observations_per_round: a round cannot wait for {new.observations_per_round} observations, "
            f"as the inbox holds {limit}"
        )


def check_source_change(new: ScheduleDocument, configuration: Configuration, store: Store) -> None:
    """A source is chosen once: `stream` can become `replay` before observations are applied, and nothing else goes."""
    counters, current = store.counters, configuration.schedule.source
    if new.source != current and (counters.applied or (counters.collected and current == "replay")):
        raise SourceFixedError(f"observations were already taken as source: {configuration.schedule.source}")


def build_inbox(configuration: Configuration, store: Store, limit: int) -> Inbox | None:
    """The inbox that the schedule asks for, with everything in it that is on disk; the one in use if it still fits."""
    model, schedule, current = configuration.model, configuration.schedule, configuration.inbox
    if model is None:
        return None
    replay, index = schedule.source == "replay", configuration.neighbors.index
    wanted = schedule.observations_per_round if schedule.waits and not schedule.paused else 0
    intake = Intake(limit, replay, schedule.seed, wanted)
    if current is None:
        log = ObservationLog(store.database, model.features.dimension, model.outputs, store.counters, intake)
    else:
        log = current.log
        log.intake = intake
    if not replay:
        return current if isinstance(current, StreamInbox) else StreamInbox(log)
    if not isinstance(current, ReplayInbox):
        return ReplayInbox(log, index)
    current.agent_index = index
    return current
