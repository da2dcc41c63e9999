"""Networks of real agents, and the simulation that they must equal."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from client.mixing_weights import sinkhorn
from client.simulation import Batch, Simulation
from client.topology import Topology
from service.inference.round import RoundRule
from service.wire.configuration import ModelDocument
from tests.processes import AgentProcess, Agents, codec_of, until

Array = npt.NDArray[np.float64]

LATTICE = {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [3, 3], "cutoff": 1e-6}


def model_of(family: str, likelihood: dict[str, Any]) -> dict[str, Any]:
    """A small model over a square."""
    return {"features": LATTICE, "family": family, "prior": {"information": 0.5}, "likelihood": likelihood}


@dataclass
class Network:
    """Agents with one model on one graph, each with a stream of its own."""

    agents: list[AgentProcess]
    model: dict[str, Any]
    likelihoods: list[dict[str, Any]]
    data: list[tuple[Array, Array]]
    mixing_matrix: Any = None
    forgetting: float = 1.0
    url: Callable[[AgentProcess, AgentProcess], str] = field(default=lambda _, to: to.url)

    @property
    def names(self) -> list[str]:
        """The agents' names, in order."""
        return [agent.name for agent in self.agents]

    def load(self) -> None:
        """Give every agent the model, with its own likelihood."""
        for agent, likelihood in zip(self.agents, self.likelihoods, strict=True):
            agent.put("model", {"revision": 1, "model": self.model, "likelihood": likelihood})

    def connect(self, graph: Topology, epoch: int, mixing_matrix: Any = None, **extra: Any) -> None:
        """Begin an epoch on all agents."""
        matrix = sinkhorn(graph) if mixing_matrix is None else mixing_matrix
        self.mixing_matrix = matrix
        for index in range(len(self.agents)):
            self.connect_one(index, graph, epoch, matrix, **extra)

    def connect_one(self, index: int, graph: Topology, epoch: int, mixing_matrix: Any, **extra: Any) -> None:
        """Begin an epoch on one agent."""
        row = mixing_matrix.toarray()[index]
        neighbors = [
            {"name": other.name, "url": self.url(self.agents[index], other), "weight": row[column]}
            for column, other in enumerate(self.agents)
            if column != index and row[column] > 0
        ]
        document = {
            "epoch": epoch,
            "agents": len(self.agents),
            "index": index,
            "own_weight": row[index],
            "neighbors": neighbors,
            "history": graph.history(),
            **extra,
        }
        self.agents[index].put("neighbors", document)

    def schedule(self, revision: int = 1, **fields: Any) -> None:
        """The same schedule for all."""
        self.schedule_some(range(len(self.agents)), revision, **fields)

    def schedule_some(self, indices: Iterable[int], revision: int, **fields: Any) -> None:
        """A schedule for these."""
        for index in indices:
            self.agents[index].put("schedule", {"revision": revision, "period_s": 0, **fields})

    def stream(self) -> None:
        """Post every agent's data, and end the streams."""
        for agent, (x, y) in zip(self.agents, self.data, strict=True):
            answer = agent.post(x, y, client="test", sequence=0, end=True)
            assert answer.status_code == 200, answer.text

    def wait_for_round(self, number: int, epoch: int | None = None) -> None:
        """Wait until every agent has committed that round."""
        for agent in self.agents:
            until(lambda agent=agent: _is_at(agent.status(), number, epoch))  # type: ignore[misc]

    def simulate(self, rounds: int, batch: int) -> Simulation:
        """The same in one process."""
        simulation = self.simulation()
        self.advance(simulation, 0, rounds, batch)
        return simulation

    def simulation(self) -> Simulation:
        """The same network in one process, before its first round."""
        document = ModelDocument.parse({"revision": 1, "model": self.model})
        features = document.spec.build_features()
        prior = document.spec.build_prior(features)
        rule = RoundRule(prior, float(len(self.agents)), document.spec.step, self.forgetting)
        likelihoods = [
            ModelDocument.parse({"revision": 1, "model": self.model, "likelihood": one}).build_likelihood()
            for one in self.likelihoods
        ]
        return Simulation(features, likelihoods, rule, self.mixing_matrix)

    def advance(self, simulation: Simulation, begin: int, end: int, batch: int) -> None:
        """Let the simulation take the rounds from `begin` to `end`."""
        for number in range(begin, end):
            rows = slice(number * batch, (number + 1) * batch)
            simulation.advance([Batch(x[rows], y[rows]) for x, y in self.data])

    def check_equal(self, simulation: Simulation, tolerance: float = 1e-9) -> None:
        """Every agent's parameters are the simulation's."""
        codec = codec_of(self.model)
        for agent, belief in zip(self.agents, simulation.beliefs, strict=True):
            evidence = agent.message(codec).parts[0].evidence
            shown = codec.prior.plus(evidence)
            scale = max(1.0, float(np.abs(belief.information).max()), float(np.abs(belief.shift).max()))
            assert np.abs(shown.information - belief.information).max() <= tolerance * scale, agent.name
            assert np.abs(shown.shift - belief.shift).max() <= tolerance * scale, agent.name


def _is_at(status: dict[str, Any], number: int, epoch: int | None) -> bool:
    assert not status["faults"], status["faults"]
    return bool(status["round"] is not None and status["round"] >= number and epoch in (None, status["epoch"]))


def make_data(seed: int, agents: int, count: int, likelihoods: Sequence[dict[str, Any]]) -> list[tuple[Array, Array]]:
    """Every agent's points in the square, and targets that its likelihood can produce."""
    generator = np.random.default_rng(seed)
    data = []
    for index in range(agents):
        x = generator.uniform(0, 3, (count, 2))
        f = np.sin(2 * x[:, 0]) + np.cos(x[:, 1] + index / agents)
        match likelihoods[index]["kind"]:
            case "probit" | "logistic":
                y = (f + generator.normal(0, 0.5, count) > 0).astype(float)
            case "poisson":
                y = generator.poisson(np.exp(0.5 * f)).astype(float)
            case _:
                y = f + generator.normal(0, 0.3, count)
        data.append((x, y))
    return data


def make_network(
    agents: Agents, count: int, family: str, likelihoods: Sequence[dict[str, Any]], observations: int, seed: int = 0
) -> Network:
    """Start agents a1, a2, ... and prepare their data; likelihoods are dealt out in turn, the first is the model's."""
    own = [likelihoods[index % len(likelihoods)] for index in range(count)]
    started = [agents(f"a{index + 1}", wait=False) for index in range(count)]
    for agent in started:
        agent.wait_ready()
    return Network(started, model_of(family, likelihoods[0]), own, make_data(seed, count, observations, own))
