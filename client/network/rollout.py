"""Which documents agents still need, judged from those in force: nothing is put twice, nothing is put in vain.

Pure functions of what the plan wants and what the agents tell, so that a coordinator that is started again comes to
the same documents, with the same numbers, as the one that was killed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from client.network.plan import NetworkPlan
from service.errors import AgentUnreachableError, ModelLoadedError, NoModelError
from service.wire.answers import Status, StreamPosition
from service.wire.configuration import ModelDocument, NeighborsDocument, ScheduleDocument

_WEIGHT_ROUNDING = 1e-12  # the same graph, computed on another machine


@dataclass(frozen=True)
class Seen:
    """One agent, as a coordinator finds it."""

    status: Status
    model: ModelDocument | None
    neighbors: NeighborsDocument
    schedule: ScheduleDocument
    position: StreamPosition | None  # of the coordinator's own stream; None: no model yet

    @property
    def is_newcomer(self) -> bool:
        """Whether it has never been in a network, nor seen data."""
        return self.neighbors.epoch == 0 and self.status.observations.collected == 0


def models_to_put(plan: NetworkPlan, seen: Sequence[Seen]) -> list[ModelDocument | None]:
    """The model for those that have none; an agent that holds another one is refused by name."""
    wanted = [plan.model_document(agent) for agent in range(len(seen))]
    for document, one in zip(wanted, seen, strict=True):
        if one.model is not None and not _same_model(document, one.model):
            raise ModelLoadedError(
                f"{one.status.agent} holds another model or likelihood than {plan.document.name} has: give it an empty "
                "data directory (local agents: delbo up --fresh), or the network another name"
            )
    return [document if one.model is None else None for document, one in zip(wanted, seen, strict=True)]


def check_models(plan: NetworkPlan, statuses: Sequence[Status]) -> None:
    """Refuse to read beliefs that are not of the plan's model."""
    for status in statuses:
        if status.model_id is None:
            raise NoModelError(f"{status.agent} has no model yet: configure the network with delbo up")
        if status.model_id != plan.spec.model_id:
            raise ModelLoadedError(f"{status.agent} holds another model than {plan.document.name} has")


def _same_model(wanted: ModelDocument, held: ModelDocument) -> bool:
    return wanted.spec.model_id == held.spec.model_id and wanted.own_likelihood == held.own_likelihood


def neighbors_to_put(wanted: Sequence[NeighborsDocument], seen: Sequence[Seen]) -> list[NeighborsDocument | None]:
    """The documents of one epoch for all: the newest there is, if nothing in it must change, else the next one."""
    held = [one.neighbors for one in seen]
    newest = max(document.epoch for document in held)
    fits = newest > 0 and all(
        mine.epoch < newest or _same_row(mine, ours) for mine, ours in zip(held, wanted, strict=True)
    )
    epoch = newest if fits else newest + 1
    return [
        None if mine.epoch == epoch else ours.model_copy(update={"epoch": epoch})
        for mine, ours in zip(held, wanted, strict=True)
    ]


def is_change(documents: Sequence[NeighborsDocument | None], seen: Sequence[Seen]) -> bool:
    """Whether these documents end an epoch in which all are, and which has had rounds."""
    members = [one for one in seen if one.neighbors.epoch > 0]
    epochs = {one.neighbors.epoch for one in members}
    begun = any(one.status.round for one in members)
    return begun and len(epochs) == 1 and any(new is not None and new.epoch not in epochs for new in documents)


def _same_row(one: NeighborsDocument, other: NeighborsDocument) -> bool:
    """Whether two documents ask for the same; a newcomer's start is over once it has begun."""
    plain = {"epoch", "own_weight", "neighbors", "start_from"}
    places = [[(link.name, link.url) for link in document.neighbors] for document in (one, other)]
    return (
        one.model_dump(exclude=plain) == other.model_dump(exclude=plain)
        and places[0] == places[1]
        and all(abs(a - b) <= _WEIGHT_ROUNDING for a, b in zip(one.mixing_row, other.mixing_row, strict=True))
    )


def start_from(plan: NetworkPlan, agent: int, seen: Sequence[Seen]) -> str | None:
    """For a newcomer to a network that has learned already: the neighbor, of those that have, with the most weight."""
    if not seen[agent].is_newcomer:
        return None
    row = plan.mixing_matrix[[agent], :].tocoo()
    experienced = [
        (weight, plan.names[other])
        for other, weight in zip(row.col.tolist(), row.data.tolist(), strict=True)
        if other != agent and seen[other].status.rounds_in_all > 0
    ]
    return max(experienced)[1] if experienced else None


def until_round(plan: NetworkPlan, seen: Sequence[Seen]) -> int | None:
    """The round of this epoch at which all observations are applied and the agents agree; None: without a bound.

    What an agent already has as its bound counts if it is enough: the documents of a run that was broken off.
    """
    if plan.train is None or not plan.document.schedule.waits or plan.document.schedule.source != "stream":
        return None
    waiting = [(agent, one) for agent, one in enumerate(seen) if _waiting(plan, agent, one) > 0]
    # Who has nothing to wait for may be rounds ahead of who has, and must not move the bound.
    needed = max(
        (_rounds_for_data(plan, agent, one) for agent, one in waiting),
        default=max(one.status.round or 0 for one in seen),
    )
    enough = needed + (plan.settle_rounds if waiting else 0)
    kept = max((one.schedule.until_round or 0 for one in seen if _has_rule(plan, one.schedule)), default=0)
    return kept if kept >= enough and kept > 0 else needed + plan.settle_rounds


def is_at_its_bound(plan: NetworkPlan, status: Status) -> bool:
    """Whether an agent has done all rounds that the plan has for it; where a change makes it stop is another bound."""
    rule, schedule = plan.document.schedule.model_dump(), status.schedule
    bound = schedule.get("until_round")
    if bound is None or schedule.get("paused") or any(schedule.get(key) != value for key, value in rule.items()):
        return False
    return status.round is not None and status.round >= bound


def check_faults(statuses: Sequence[Status]) -> None:
    """Tell what an agent cannot mend by itself; one that shuts down may be started again."""
    for status in statuses:
        for name, fault in status.faults.items():
            if name != "stopping":
                raise AgentUnreachableError(f"{status.agent} cannot go on: {fault}")


def _has_rule(plan: NetworkPlan, schedule: ScheduleDocument) -> bool:
    """Whether a schedule is the plan's, but for its number and its bound."""
    return schedule.revision > 0 and plan.schedule_document(schedule.revision, schedule.until_round) == schedule


def _rounds_for_data(plan: NetworkPlan, agent: int, one: Seen) -> int:
    """The round at which an agent will have applied what it has, and what it is still to get."""
    per_round = max(1, plan.document.schedule.observations_per_round)
    return (one.status.round or 0) - (-_waiting(plan, agent, one) // per_round)


def _waiting(plan: NetworkPlan, agent: int, one: Seen) -> int:
    """Observations that an agent has not applied yet, also those that it is still to get."""
    rows, counts = len(plan.parts[agent]), one.status.observations
    batches = one.position.next_sequence if one.position is not None else 0
    posted = min(rows, plan.document.stream.batch * batches)
    return counts.collected - posted + rows - counts.applied


def schedules_to_put(plan: NetworkPlan, seen: Sequence[Seen], bound: int | None) -> list[ScheduleDocument | None]:
    """The schedule for those that have another one in force."""
    documents: list[ScheduleDocument | None] = []
    for one in seen:
        revision = one.schedule.revision
        same = revision > 0 and plan.schedule_document(revision, bound) == one.schedule
        documents.append(None if same else plan.schedule_document(revision + 1, bound))
    return documents
