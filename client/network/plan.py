"""What follows from a network's document for each agent: model, neighbors, and its part of the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from client.evaluation import check_table
from client.mixing_weights import given, mixing_weights_by_rule, rounds_to_shrink
from client.model_file import read_model, resolve_model
from client.network.document import EdgesSpec, NetworkDocument, read_network
from client.network.reading import read_observations
from client.network.sources import resolve_path
from client.streams.partitions import Rows
from client.streams.tables import Table
from client.topology import Topology, from_edges, from_matrix
from client.topology_choice import topology_by_name
from service.errors import DelboError, SettingError, TopologyError
from service.inference.arrays import FloatArray
from service.inference.belief import Belief
from service.inference.features import Features
from service.inference.likelihood import Likelihood
from service.wire.configuration import ModelDocument, NeighborsDocument, ScheduleDocument
from service.wire.model import ModelSpec
from service.wire.parameters import ParameterCodec

_SETTLED = 1000.0  # by how much disagreement shrinks at the end


@dataclass(frozen=True, eq=False)
class NetworkPlan:
    """A document, with everything that it leaves to files and data settled."""

    document: NetworkDocument
    spec: ModelSpec
    graph: Topology
    mixing_matrix: Any
    train: Table | None
    parts: list[Rows]  # of each agent, rows of `train` in the order in which it gets them
    test: Table | None

    @property
    def names(self) -> list[str]:
        """The agents, in the order of the matrix."""
        return [agent.name for agent in self.document.agents]

    def observations(self) -> Table:
        """What is streamed to all agents; a network without data is refused."""
        if self.train is None:
            raise SettingError(f"the network {self.document.name} has no data: name a source under data")
        return self.train

    @cached_property
    def features(self) -> Features:
        """The model's features, ready to use."""
        return self.spec.build_features()

    @cached_property
    def prior(self) -> Belief:
        """The belief before any observation."""
        return self.spec.build_prior(self.features)

    @cached_property
    def codec(self) -> ParameterCodec:
        """Decodes the agents' parameters."""
        return ParameterCodec(self.spec.model_id, self.prior)

    @cached_property
    def likelihood(self) -> Likelihood:
        """The network's default sensor, by which maps are measured."""
        return self.spec.likelihood.build()

    def likelihood_of(self, agent: int) -> Likelihood:
        """An agent's own sensor."""
        own = self.document.agents[agent].likelihood
        return self.likelihood if own is None else own.build()

    @property
    def settle_rounds(self) -> int:
        """Rounds to go on for when all observations are applied."""
        if self.document.settle_rounds != "auto":
            return self.document.settle_rounds
        return rounds_to_shrink(self.mixing_matrix, _SETTLED) or 0  # None: more than anybody would wait for

    def batches(self, agent: int) -> int:
        """The number of posts that an agent's stream takes; the last one ends it, so there is always one."""
        return max(1, -(-len(self.parts[agent]) // self.document.stream.batch))

    def batch(self, agent: int, number: int) -> tuple[Any, Any]:
        """Points and targets of one post."""
        rows, train = self._rows(agent, number), self.observations()
        return train.x[rows], train.y[rows]

    def position(self, agent: int, number: int) -> FloatArray | None:
        """Where the sensor stood at the last row of one post, if that is known."""
        rows, positions = self._rows(agent, number), self.observations().positions
        return None if positions is None or len(rows) == 0 else positions[rows[-1]]

    def _rows(self, agent: int, number: int) -> Rows:
        size = self.document.stream.batch
        return self.parts[agent][number * size : (number + 1) * size]

    def model_document(self, agent: int) -> ModelDocument:
        """What `PUT /v1/model` gets, in its first revision."""
        own = self.document.agents[agent].likelihood
        model = self.spec.model_dump(exclude_none=True)
        likelihood = None if own is None else own.model_dump()
        return ModelDocument.parse({"revision": 1, "model": model, "likelihood": likelihood})

    def neighbors_document(
        self, agent: int, urls: Mapping[str, str], epoch: int = 1, start_from: str | None = None
    ) -> NeighborsDocument:
        """What `PUT /v1/neighbors` gets; urls: where the agents are, by name."""
        row = self.mixing_matrix[[agent], :].tocoo()
        weights = dict(zip(row.col.tolist(), row.data.tolist(), strict=True))
        own_weight = weights.pop(agent, 0.0)
        return NeighborsDocument.parse(
            {
                "epoch": epoch,
                "agents": len(self.names),
                "index": agent,
                "own_weight": own_weight,
                "neighbors": [
                    {"name": self.names[other], "url": urls[self.names[other]], "weight": weight}
                    for other, weight in sorted(weights.items())
                    if weight > 0
                ],
                "history": self.graph.history(),
                "precision": self.document.precision,
                "start_from": start_from,
            }
        )

    def schedule_document(self, revision: int, until_round: int | None) -> ScheduleDocument:
        """What `PUT /v1/schedule` gets."""
        rule = self.document.schedule.model_dump()
        return ScheduleDocument.parse({**rule, "revision": revision, "until_round": until_round})


def load_plan(path: Path) -> NetworkPlan:
    """The plan of the network in a file; every fault is one sentence that begins with the file's name."""
    return make_plan(read_network(path), path.parent, str(path))


def make_plan(document: NetworkDocument, folder: Path, source: str) -> NetworkPlan:
    """Read the model and the data, and compute graph and weights."""
    try:
        graph, matrix = _network(document)
        spec = _model(document, folder)
        train, parts, test = read_observations(document, folder)
        if train is not None:
            rows = np.concatenate(parts)
            spec = resolve_model(spec, train.x[rows], train.y[rows], document.seed)
        plan = NetworkPlan(document, spec, graph, matrix, train, parts, test)
        _check(plan)
    except DelboError as fault:
        if str(fault).startswith(source):
            raise
        raise type(fault)(f"{source}: {fault}") from None
    return plan


def _model(document: NetworkDocument, folder: Path) -> ModelSpec:
    if isinstance(document.model, str):
        return read_model(resolve_path(document.model, folder))
    return ModelSpec.parse(document.model.model_dump(exclude_none=True))  # builds it, to see whether that works


def _network(document: NetworkDocument) -> tuple[Topology, Any]:
    names = tuple(agent.name for agent in document.agents)
    rule, kind = document.mixing_weights, document.topology
    if not isinstance(rule, str):
        if "topology" in document.model_fields_set:
            raise TopologyError("mixing_weights: a matrix is the graph as well: leave out topology, or name a rule")
        matrix = given(_square(rule, len(names)))
        return from_matrix(matrix, names), matrix
    if isinstance(kind, EdgesSpec):
        number = {name: index for index, name in enumerate(names)}
        pairs = [(number[first], number[second]) for first, second in kind.edges]
        graph = from_edges(len(names), pairs, directed=kind.directed, names=names)
    else:
        places = [agent.position for agent in document.agents if agent.position is not None] or None
        generator = np.random.default_rng(kind.seed)
        plain = topology_by_name(kind.kind, len(names), generator, places, kind.radius, kind.degree)
        graph = Topology(plain.count, plain.edges, names, plain.positions)
    return graph, mixing_weights_by_rule(rule, graph)


def _square(rows: Sequence[Sequence[float]], count: int) -> Any:
    if len(rows) != count or any(len(row) != count for row in rows):
        raise TopologyError(f"mixing_weights: {count} agents need {count} rows of {count} weights")
    return np.array(rows, float)


def _check(plan: NetworkPlan) -> None:
    """Refuse before anything is started what agents would refuse later."""
    for agent, rows in enumerate(plan.parts):
        plan.model_document(agent)
        if plan.train is not None:
            check_table(plan.train.take(rows), plan.features.dimension, plan.likelihood_of(agent))
    if plan.test is not None:
        check_table(plan.test, plan.features.dimension, plan.likelihood)
