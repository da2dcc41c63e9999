"""Lockstep over real processes is the simulation, however slow agents and links are."""

from typing import Any

import numpy as np
import pytest

from client.topology import Topology
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
        ("digraph", "full", [GAUSSIAN, STUDENT]),
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
            period_s = 0.05 if number == 3 else 0.001  # one agent is fifty times slower
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
