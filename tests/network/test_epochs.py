"""New weights, an edge less, an edge more: a change of epoch, planned and unplanned, and a round that is gone."""

import itertools
import shutil
from typing import Any

import numpy as np
import pytest

from client.mixing_weights import metropolis, sinkhorn
from client.simulation import Batch
from client.topology import Topology
from tests.network.networks import Network, make_network, model_of
from tests.processes import Agents, codec_of, problem, until

pytestmark = pytest.mark.thorough  # `make test-faults` runs them

GAUSSIAN = {"kind": "gaussian", "precision": 4.0}
BATCH = 3

RING = Topology(4, frozenset((i, (i + 1) % 4) for i in range(4)))
MORE = Topology(4, RING.edges | {(0, 2), (2, 0)})
LESS = Topology(4, frozenset(itertools.chain(*(((i, i + 1), (i + 1, i)) for i in range(3)))))


def network_of_four(agents: Agents, observations: int) -> Network:
    """Four agents with the model loaded and their streams posted."""
    network = make_network(agents, 4, "diagonal", [GAUSSIAN], observations)
    network.load()
    network.stream()
    return network


def test_a_planned_change_of_weights_and_edges_is_exact(agents: Agents) -> None:
    network = network_of_four(agents, 60 * BATCH)
    network.connect(RING, epoch=1)
    simulation = network.simulation()
    changes = [(MORE, sinkhorn(MORE)), (LESS, sinkhorn(LESS)), (LESS, metropolis(LESS))]
    network.schedule(1, observations_per_round=BATCH, until_round=15)
    network.wait_for_round(15)
    network.advance(simulation, 0, 15, BATCH)
    network.check_equal(simulation)
    for number, (graph, matrix) in enumerate(changes, 1):
        simulation.mixing_matrix = matrix
        network.connect(graph, epoch=number + 1, mixing_matrix=matrix)
        network.wait_for_round(15, epoch=number + 1)
        network.advance(simulation, 15 * number, 15 * (number + 1), BATCH)
        network.check_equal(simulation)
    assert all(agent.status()["observations"]["applied"] == 60 * BATCH for agent in network.agents)


def test_an_unplanned_change_starts_from_what_each_agent_had_committed(agents: Agents) -> None:
    rounds, total = 40, 400
    network = network_of_four(agents, total)
    network.connect(RING, epoch=1)
    # The agents are at different rounds when the change comes; one of them waits for observations of its own.
    network.schedule(1, observations_per_round=BATCH, period_s=0.005)
    network.wait_for_round(10)
    matrix = sinkhorn(MORE)
    network.connect(MORE, epoch=2, mixing_matrix=matrix, history=10_000)
    network.wait_for_round(rounds, epoch=2)

    codec = codec_of(network.model)
    starts = [codec.prior.plus(agent.message(codec, epoch=2, round=0).parts[0].evidence) for agent in network.agents]
    used = [_observations_of_epoch(agent, 1) for agent in network.agents]
    simulation = network.simulation()
    simulation.stack = type(simulation.stack).of(starts)
    for number in range(rounds):
        begins = [first + number * BATCH for first in used]
        batches = zip(network.data, begins, strict=True)
        simulation.advance([Batch(x[begin : begin + BATCH], y[begin : begin + BATCH]) for (x, y), begin in batches])
    for agent, belief in zip(network.agents, simulation.beliefs, strict=True):
        shown = codec.prior.plus(agent.message(codec, epoch=2, round=rounds).parts[0].evidence)
        np.testing.assert_allclose(shown.information, belief.information, rtol=1e-9)
        np.testing.assert_allclose(shown.shift, belief.shift, rtol=1e-9, atol=1e-9)


def test_a_new_epoch_interrupts_a_round_that_waits(agents: Agents) -> None:
    network = network_of_four(agents, 30)
    network.connect(RING, epoch=1)
    network.schedule(1, observations_per_round=BATCH, until_round=4)
    network.wait_for_round(4)
    lost = network.agents.pop()
    lost.kill()
    network.schedule(2, observations_per_round=BATCH)
    first = network.agents[0]
    for agent in network.agents:
        # Each gets as far as it can without the one that died, and names whom it waits for.
        until(lambda agent=agent: agent.status()["waits_for"])  # type: ignore[misc]
    until(lambda: network.agents[2].status()["waits_for"] == [lost.name])
    network.likelihoods.pop()
    network.data.pop()
    ring = Topology(3, frozenset((i, (i + 1) % 3) for i in range(3)))
    network.connect(ring, epoch=2)
    network.wait_for_round(10, epoch=2)
    assert first.status()["observations"]["backlog"] == 0


def test_lockstep_waits_for_a_peer_in_an_older_epoch_and_latest_uses_it(agents: Agents) -> None:
    network = network_of_four(agents, 30)
    network.connect(RING, epoch=1)
    network.schedule(1, observations_per_round=BATCH, until_round=3)
    network.wait_for_round(3)
    matrix = sinkhorn(RING)
    network.connect_one(0, RING, 2, matrix)
    ahead = network.agents[0]
    until(lambda: ahead.status()["waits_for"] == ["a2"])
    assert ahead.status()["round"] == 0
    ahead.put("schedule", {"revision": 2, "exchange": "latest", "period_s": 0, "until_round": 5})
    until(lambda: ahead.status()["round"] == 5)
    rounds = ahead.http.get("/v1/history").json()["rounds"]
    assert all(one["mixed"] == ["a2"] for one in rounds if one["epoch"] == 2)


def test_a_round_that_is_gone_is_shown_on_readyz_and_cured_by_a_new_epoch(agents: Agents) -> None:
    network = make_network(agents, 2, "diagonal", [GAUSSIAN], 60)
    network.load()
    network.stream()
    pair = Topology(2, frozenset({(0, 1), (1, 0)}))
    network.connect(pair, epoch=1)
    network.schedule(1, observations_per_round=BATCH, until_round=10)
    network.wait_for_round(10)
    reborn, other = network.agents
    reborn.kill()
    shutil.rmtree(reborn.folder)  # it lost its disk, and begins anew at round 0
    reborn.start()
    reborn.put("model", {"revision": 1, "model": network.model})
    network.connect_one(0, pair, 1, network.mixing_matrix)
    reborn.put("schedule", {"revision": 1, "observations_per_round": BATCH, "when_short": "go"})
    until(lambda: reborn.http.get("/v1/readyz").status_code == 503)
    faults = reborn.http.get("/v1/readyz").json()["faults"]
    assert list(faults) == ["round-gone"]
    assert problem(other.http.get("/v1/parameters", params={"epoch": 1, "round": 0})) == (410, "round-gone")
    assert reborn.status()["neighbors"][0]["state"] == "refused"
    network.connect(pair, epoch=2)
    network.wait_for_round(5, epoch=2)
    assert reborn.http.get("/v1/readyz").status_code == 200


def test_a_newcomer_starts_from_a_neighbors_belief(agents: Agents) -> None:
    old, new = agents("old"), agents("new")
    model = model_of("full", GAUSSIAN)
    for agent in (old, new):
        agent.put("model", {"revision": 1, "model": model})
    generator = np.random.default_rng(3)
    x = generator.uniform(0, 3, (50, 2))
    old.post(x, x[:, 0], "test", 0, end=True)
    old.put("schedule", {"revision": 1, "observations_per_round": 50, "period_s": 0, "until_round": 1})
    until(lambda: old.status()["round"] == 1)
    document: dict[str, Any] = {
        "epoch": 1,
        "agents": 2,
        "index": 1,
        "own_weight": 0.5,
        "neighbors": [{"name": "old", "url": old.url, "weight": 0.5}],
        "start_from": "old",
    }
    new.put("neighbors", document)
    codec = codec_of(model)
    theirs, ours = old.message(codec).parts[0].evidence, new.message(codec, epoch=1, round=0).parts[0].evidence
    np.testing.assert_array_equal(theirs.information, ours.information)
    np.testing.assert_array_equal(theirs.shift, ours.shift)
    old.kill()
    answer = new.http.put("/v1/neighbors", json={**document, "epoch": 2})
    assert problem(answer) == (503, "peer-unavailable")
    assert new.status()["epoch"] == 1
    new.put("neighbors", document)  # the same again changes nothing, and asks nobody


def test_an_agent_with_evidence_of_its_own_cannot_start_from_a_neighbors(agents: Agents) -> None:
    agent = agents("a1")
    agent.put("model", {"revision": 1, "model": model_of("diagonal", GAUSSIAN)})
    agent.post([[1.0, 1.0]], [0.5])
    agent.put("schedule", {"revision": 1, "observations_per_round": 1, "period_s": 0, "until_round": 1})
    until(lambda: agent.status()["round"] == 1)
    neighbor = {"name": "b", "url": "http://127.0.0.1:9", "weight": 0.5}
    document = {"epoch": 1, "agents": 2, "own_weight": 0.5, "neighbors": [neighbor], "start_from": "b"}
    assert problem(agent.http.put("/v1/neighbors", json=document)) == (409, "not-a-newcomer")


def _observations_of_epoch(agent: Any, epoch: int) -> int:
    rounds = agent.http.get("/v1/history", params={"limit": 1000}).json()["rounds"]
    return sum(one["observations"] for one in rounds if one["epoch"] == epoch)


@pytest.mark.parametrize("document", [{"epoch": 1}, {"epoch": 2, "own_weight": 0.9}])
def test_a_neighbors_document_that_is_refused_changes_nothing(agents: Agents, document: dict[str, Any]) -> None:
    agent = agents("a1")
    agent.put("model", {"revision": 1, "model": model_of("diagonal", GAUSSIAN)})
    agent.put("neighbors", {"epoch": 2, "own_weight": 1.0})
    before = agent.http.get("/v1/parameters").content
    answer = agent.http.put("/v1/neighbors", json={"own_weight": 1.0, **document})
    assert answer.status_code in (409, 422)
    assert agent.http.get("/v1/parameters").content == before
    assert agent.status()["epoch"] == 2
