"""One of five agents in lockstep is killed again and again: all five end equal to the simulation."""

import random
import time

import pytest

from client.topology import Topology
from tests.network.networks import make_network
from tests.processes import Agents, until

ROUNDS, BATCH = 210, 2


@pytest.mark.thorough
def test_a_network_in_lockstep_survives_the_kills_of_an_agent_exactly(agents: Agents, thorough: bool) -> None:
    kills = 20 if thorough else 2
    moments = random.Random(2)
    network = make_network(agents, 5, "diagonal", [{"kind": "probit"}], ROUNDS * BATCH)
    ring = [(index, (index + 1) % 5) for index in range(5)]
    network.load()
    network.connect(Topology(5, frozenset([*ring, (0, 3), (2, 0)])), epoch=1)
    network.schedule(1, observations_per_round=BATCH, period_s=0.005, until_round=ROUNDS)
    network.stream()
    victim = network.agents[2]
    for number in range(kills):
        goal = (number + 1) * ROUNDS // (kills + 1)
        until(lambda goal=goal: victim.status()["round"] >= goal)  # type: ignore[misc]
        time.sleep(moments.uniform(0, 0.02))
        victim.kill()
        victim.start()
    network.wait_for_round(ROUNDS)
    network.check_equal(network.simulate(ROUNDS, BATCH))
    assert all(agent.status()["observations"]["applied"] == ROUNDS * BATCH for agent in network.agents)


@pytest.mark.thorough
def test_the_others_wait_for_an_agent_that_is_away_and_name_it(agents: Agents) -> None:
    network = make_network(agents, 3, "diagonal", [{"kind": "probit"}], 60)
    network.load()
    network.connect(Topology(3, frozenset({(0, 1), (1, 2), (2, 0)})), epoch=1)
    network.schedule(1, observations_per_round=2, until_round=10)
    network.stream()
    network.wait_for_round(10)
    away = network.agents[1]
    away.kill()
    network.schedule_some([0, 2], 2, observations_per_round=2, until_round=30)
    waiting = network.agents[0]
    until(lambda: waiting.status()["waits_for"] == [away.name])
    until(lambda: waiting.status()["neighbors"][0]["state"] in ("stale", "unreachable"))
    assert waiting.http.get("/v1/readyz").status_code == 200  # it can do its work; only it has to wait
    away.start()
    network.schedule_some([1], 2, observations_per_round=2, until_round=30)
    network.wait_for_round(30)
    network.check_equal(network.simulate(30, 2))
