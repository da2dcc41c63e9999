"""`latest` with agents of very different speeds, one of which dies for a while, maps as well as lockstep."""

from pathlib import Path

import numpy as np
import pytest

from client.evaluation import evaluate
from client.mixing_weights import sinkhorn
from client.model_file import read_model
from client.simulation import Simulation
from client.streams.tables import read_table
from client.topology import Topology
from service.wire.configuration import ModelDocument
from tests.network.networks import Network, make_network
from tests.processes import Agents, codec_of, until

BATCH = 1000
SLOWNESS = (1, 3, 5, 10)
RING = Topology(4, frozenset(edge for i in range(4) for edge in ((i, (i + 1) % 4), ((i + 1) % 4, i))))


@pytest.mark.thorough
def test_agents_of_different_speeds_map_intel_as_well_as_in_lockstep(agents: Agents, data_folder: Path) -> None:
    table = read_table(data_folder / "intel_points.npz")
    held_out = np.arange(len(table)) % 10 == 0
    train, test = table.take(np.flatnonzero(~held_out)), table.take(np.flatnonzero(held_out))
    network = make_network(agents, 4, "diagonal", [{"kind": "probit"}], 0)
    network.model = read_model(Path("examples/models/intel-lattice.yaml")).model_dump(exclude_none=True)
    parts = np.array_split(np.arange(len(train)), 4)
    network.data = [(train.x[rows], train.y[rows]) for rows in parts]
    network.load()
    network.connect(RING, epoch=1)
    for agent, slowness in zip(network.agents, SLOWNESS, strict=True):
        schedule = {"exchange": "latest", "observations_per_round": BATCH, "period_s": 0.02 * slowness}
        agent.put("schedule", {"revision": 1, **schedule, "deadline_s": 1.0, "stale_after_s": 2.0})
    network.stream()

    slowest, mortal = network.agents[3], network.agents[1]
    rounds = -(-len(parts[0]) // BATCH)
    until(lambda: slowest.status()["round"] >= rounds // 4)
    mortal.kill()
    until(lambda: slowest.status()["round"] >= rounds // 2)
    assert {one["name"]: one["state"] for one in slowest.status()["neighbors"]}["a1"] == "fresh"
    mortal.start()
    for agent in network.agents:
        until(lambda agent=agent: agent.status()["observations"]["backlog"] == 0)  # type: ignore[misc]
    enough = slowest.status()["round"] + 20  # rounds for the last observations to reach everybody
    until(lambda: slowest.status()["round"] >= enough)

    document = ModelDocument.parse({"revision": 1, "model": network.model})
    features, likelihood = document.spec.build_features(), document.build_likelihood()
    codec = codec_of(network.model)
    shown = [codec.prior.plus(agent.message(codec).parts[0].evidence) for agent in network.agents]
    simulation = lockstep(network, rounds)
    together = [scores["accuracy"] for scores in evaluate(simulation.beliefs, features, likelihood, test)]
    alone = [scores["accuracy"] for scores in evaluate(shown, features, likelihood, test)]
    assert min(together) >= 0.97
    assert all(abs(one - other) <= 0.01 for one, other in zip(alone, together, strict=True)), (alone, together)
    for agent, (_, y) in zip(network.agents, network.data, strict=True):
        assert agent.status()["observations"]["applied"] == len(y)
        until(lambda agent=agent: all(one["state"] == "fresh" for one in agent.status()["neighbors"]))  # type: ignore[misc]


def lockstep(network: Network, rounds: int) -> Simulation:
    """The same network in lockstep, with rounds at the end in which everybody only mixes."""
    network.mixing_matrix = sinkhorn(RING)
    return network.simulate(rounds + 20, BATCH)
