"""Lockstep over real processes is the simulation, however slow agents and links are."""

from typing import Any

import numpy as np
import pytest

from client.simulation import Batch
from client.topology import Topology
from service.inference.round import replay_rows
from tests.network.networks import make_network
from tests.network.proxy import DelayingProxy
from tests.processes import Agents

PROBIT = {"kind": "probit"}
LOGISTIC = {"kind": "logistic"}
GAUSSIAN = {"kind": "gaussian", "precision": 4.0}
STUDENT = {"kind": "student_t", "degrees": 4.0, "scale": 0.5}

ROUNDS, BATCH = 200, 3


def digraph(kind: str) -> Topology:
    """Five agents on a directed ring, or on a directed graph that is not symmetric."""
    ring = [(index, (index + 1) % 5) for index in range(5)]
    return Topology(5, frozenset(ring if kind == "ring" else [*ring, (0, 2), (3, 1), (4, 2)]))


@pytest.mark.parametrize(
    ("graph", "family", "likelihoods"),
    [
        ("ring", "diagonal", [PROBIT, LOGISTIC]),
        pytest.param("digraph", "full", [GAUSSIAN, STUDENT], marks=pytest.mark.thorough),
        pytest.param("digraph", "diagonal", [GAUSSIAN, STUDENT], marks=pytest.mark.thorough),
        pytest.param("ring", "full", [PROBIT, LOGISTIC], marks=pytest.mark.thorough),
    ],
)
def test_a_network_in_lockstep_equals_the_simulation(
    agents: Agents, graph: str, family: str, likelihoods: list[dict[str, Any]]
) -> None:
    network = make_network(agents, 5, family, likelihoods, ROUNDS * BATCH - 1)
    with DelayingProxy(seed=1, longest_s=0.004).running() as proxy:
        network.url = lambda _, other: f"http://127.0.0.1:{proxy.to(other.port)}"
        network.load()
        network.connect(digraph(graph), epoch=1)
        for number, agent in enumerate(network.agents):
            period_s = 0.02 if number == 3 else 0.001  # one agent is twenty times slower
            agent.put(
                "schedule",
                {"revision": 1, "observations_per_round": BATCH, "period_s": period_s, "until_round": ROUNDS},
            )
        network.stream()
        network.wait_for_round(ROUNDS)
        simulation = network.simulate(ROUNDS, BATCH)
        network.check_equal(simulation)
    for agent in network.agents:
        status = agent.status()
        assert status["observations"]["applied"] == ROUNDS * BATCH - 1
        assert np.all([row["state"] in ("fresh", "stale") for row in status["neighbors"]])


RING_OF_THREE = Topology(3, frozenset({(0, 1), (1, 2), (2, 0)}))


def test_fading_evidence_and_points_beyond_every_centre_are_as_in_the_simulation(agents: Agents) -> None:
    network = make_network(agents, 3, "diagonal", [PROBIT], 40 * BATCH)
    for x, _ in network.data:
        x[::5] = 50.0
    network.forgetting = 0.95
    network.load()
    network.connect(RING_OF_THREE, epoch=1)
    network.schedule(observations_per_round=BATCH, until_round=40, forgetting=0.95)
    network.stream()
    network.wait_for_round(40)
    simulation = network.simulate(40, BATCH)
    network.check_equal(simulation)
    assert [agent.status()["observations"]["uncovered"] for agent in network.agents] == simulation.uncovered.tolist()
    assert simulation.uncovered.all()


@pytest.mark.thorough
def test_replay_draws_what_the_simulation_draws_also_after_a_restart(agents: Agents) -> None:
    network = make_network(agents, 3, "full", [GAUSSIAN], 100)
    network.load()
    network.connect(RING_OF_THREE, epoch=1)
    replay = {"observations_per_round": BATCH, "source": "replay", "seed": 5}
    network.schedule(1, paused=True, **replay)
    network.stream()
    network.schedule(2, until_round=10, **replay)
    network.wait_for_round(10)
    for agent in network.agents:
        agent.kill()
        agent.start()
    network.schedule(3, until_round=20, **replay)
    network.wait_for_round(20)
    simulation = network.simulation()
    for number in range(20):
        draws = [replay_rows(5, index, number, 100, BATCH) for index in range(3)]
        simulation.advance([Batch(x[rows], y[rows]) for rows, (x, y) in zip(draws, network.data, strict=True)])
    network.check_equal(simulation)
