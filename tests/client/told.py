"""Agents that are nothing but what they tell, and a coordinator that may be killed while it configures them."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from client.network.document import parse_network
from client.network.plan import NetworkPlan, make_plan
from client.network.rollout import (
    Seen,
    models_to_put,
    neighbors_to_put,
    schedules_to_put,
    start_from,
    until_round,
)
from service.wire.answers import ObservationCounts, Status, StreamPosition
from service.wire.configuration import (
    NO_NEIGHBORS,
    NO_SCHEDULE,
    ModelDocument,
    NeighborsDocument,
    ScheduleDocument,
)
from tests.network.plans import MODEL

COUNT, PER_ROUND, BATCH = 4, 10, 25
URLS = {f"agent-{number}": f"http://10.0.0.{number}:8001" for number in range(1, 9)}


@dataclass(frozen=True)
class Told:
    """One agent, as far as these functions ask it."""

    name: str
    model: ModelDocument | None = None
    neighbors: NeighborsDocument = NO_NEIGHBORS
    schedule: ScheduleDocument = NO_SCHEDULE
    round: int = 0
    rounds_in_all: int = 0
    collected: int = 0
    applied: int = 0
    batches: int = 0
    ended: bool = False
    puts: int = field(default=0, compare=False)

    def seen(self) -> Seen:
        """What it tells."""
        backlog = self.collected - self.applied
        counts = ObservationCounts(self.collected, self.applied, backlog, 0, self.ended, ())
        model_id = None if self.model is None else self.model.spec.model_id
        where = None if self.model is None else self.round
        status = Status(
            *(self.name, 7, model_id, self.neighbors.epoch, where, self.rounds_in_all, "resting"),
            *((), {}, counts, (), self.neighbors.own_weight, self.schedule.model_dump()),
        )
        position = None if self.model is None else StreamPosition("run", self.batches, self.ended)
        return Seen(status, self.model, self.neighbors, self.schedule, position)


Network = list[Told]


def seen(network: Network) -> list[Seen]:
    """What a coordinator sees of it."""
    return [agent.seen() for agent in network]


def plan_of(folder: Path, **changes: Any) -> NetworkPlan:
    """A plan whose data is in that folder."""
    document = {
        "agents": COUNT,
        "model": MODEL,
        "schedule": {"observations_per_round": PER_ROUND},
        "data": {"kind": "table", "path": "points.npz"},
        "stream": {"batch": BATCH},
        **changes,
    }
    return make_plan(parse_network(document, "network"), folder, "network")


def wanted_by(plan: NetworkPlan, network: Network) -> list[NeighborsDocument]:
    """The neighbors that every agent should have."""
    told = seen(network)
    return [plan.neighbors_document(i, URLS, start_from=start_from(plan, i, told)) for i in range(len(network))]


def configure(plan: NetworkPlan, network: Network, budget: int, order: list[int]) -> Network:
    """What a coordinator does in this order of agents, until it is killed after so many puts."""
    network = list(network)
    left = budget

    def put(what: str, documents: list[Any]) -> None:
        nonlocal left
        for agent in order:
            if documents[agent] is not None and left > 0:
                at_begin = {"round": 0} if what == "neighbors" else {}
                changes = {what: documents[agent], "puts": network[agent].puts + 1, **at_begin}
                network[agent] = replace(network[agent], **changes)
                left -= 1

    put("model", models_to_put(plan, seen(network)))
    if left:
        put("neighbors", neighbors_to_put(wanted_by(plan, network), seen(network)))
    if left:
        put("schedule", schedules_to_put(plan, seen(network), until_round(plan, seen(network))))
    return network


def new_network(count: int = COUNT) -> Network:
    """Agents that nobody has told anything yet."""
    return [Told(f"agent-{number}") for number in range(1, count + 1)]


def uninterrupted(plan: NetworkPlan, network: Network) -> Network:
    """What a coordinator does that is not killed."""
    return configure(plan, network, 1000, list(range(len(network))))
