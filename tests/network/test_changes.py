"""A network is changed while it runs: other weights, edges, a newcomer, an agent that is gone."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from client.agent_client import AgentClient, Mark
from client.concurrently import all_of
from client.coordinator import Coordinator
from client.network.plan import NetworkPlan, load_plan
from client.simulation import Simulation
from service.inference.belief import Belief
from tests.conftest import Delbo
from tests.network.deaths import die_at_random_writes
from tests.network.plans import check_equal, documents_at, simulation_of, start, take, write_network
from tests.processes import AgentProcess, Agents, until

pytestmark = pytest.mark.thorough  # `make test-faults` runs them

Rounds = list[dict[str, Any]]


def coordinator(plan: NetworkPlan) -> Coordinator:
    return Coordinator(plan, {agent.name: agent.url for agent in plan.document.agents})


def rounds_of_epoch(agent: AgentProcess, epoch: int) -> Rounds:
    rounds = agent.http.get("/v1/history", params={"limit": 1000}).json()["rounds"]
    return [one for one in rounds if one["epoch"] == epoch]


def follow(plan: NetworkPlan, simulation: Simulation, agents: Sequence[AgentProcess], epoch: int) -> int:
    """Let the simulation take the rounds that the agents had in an epoch, with as many observations; how many."""
    histories = [rounds_of_epoch(agent, epoch) for agent in agents]
    simulation.mixing_matrix = plan.mixing_matrix
    assert len({len(history) for history in histories}) == 1, "the agents were at different rounds when it ended"
    begins = simulation.observations.tolist()
    for rounds in zip(*histories, strict=True):
        counts = [one["observations"] for one in rounds]
        take(simulation, plan, begins, counts)
        begins = [begin + count for begin, count in zip(begins, counts, strict=True)]
    return len(histories[0])


async def until_round(agents: Sequence[AgentProcess], number: int) -> None:
    await asyncio.to_thread(until, lambda: min(agent.status()["round"] for agent in agents) >= number)


async def post_some(network: Coordinator, batches: range) -> None:
    """A part of every agent's stream."""

    async def post(index: int, agent: AgentClient) -> None:
        for number in batches:
            await agent.post(*network.plan.batch(index, number), Mark(network.stream_name, number))

    await all_of(post(index, agent) for index, agent in enumerate(network.agents))


def test_changes_of_weights_and_edges_in_the_middle_of_a_stream_are_exact(agents: Agents, tmp_path: Path) -> None:
    running = start(agents, 3)
    edges = [["a1", "a2"], ["a2", "a3"]]
    graphs: list[dict[str, Any]] = [
        {"topology": {"edges": edges}},
        {"topology": {"edges": [*edges, ["a3", "a1"]]}},
        {"topology": {"edges": edges}, "mixing_weights": "metropolis"},
    ]
    plans = [load_plan(write_network(tmp_path, running, stream={"batch": 4}, **graph)) for graph in graphs]

    async def run() -> list[Belief]:
        async with coordinator(plans[0]) as first:
            await first.configure()
            for number, plan in enumerate(plans[1:]):
                await post_some(first, range(8 * number, 8 * (number + 1)))  # three full rounds, and a part of one
                await until_round(running, 2)
                async with coordinator(plan) as changed:
                    await changed.configure()
                    assert changed.was_exact
            await first.stream()
            await first.wait_until_settled()
            return await first.beliefs()

    beliefs = asyncio.run(run())
    simulation = simulation_of(plans[0])
    lasted = [follow(plan, simulation, running, epoch) for epoch, plan in enumerate(plans, 1)]
    check_equal(beliefs, simulation.beliefs)
    assert simulation.observations.tolist() == [len(rows) for rows in plans[0].parts]
    assert min(lasted) >= 2

    # An epoch begins with the file's own schedule: full rounds, until the next change makes the agents stop.
    waiting = [len(rows) for rows in plans[0].parts]
    for epoch in (1, 2):
        for index, agent in enumerate(running):
            taken = [one["observations"] for one in rounds_of_epoch(agent, epoch)]
            assert taken[:2] == [10, 10], (agent.name, epoch)
            waiting[index] -= sum(taken)
    assert lasted[2] == max(-(-count // 10) for count in waiting) + plans[2].settle_rounds

    # The same again changes nothing.
    before = documents_at(agent.url for agent in running)

    async def again() -> None:
        async with coordinator(plans[2]) as same:
            await same.configure()

    asyncio.run(again())
    assert documents_at(agent.url for agent in running) == before


def test_a_change_whose_coordinator_dies_again_and_again_is_exact(agents: Agents, tmp_path: Path) -> None:
    running = start(agents, 3)
    schedule = {"observations_per_round": 4, "period_s": 0.005}
    before, after = (
        load_plan(write_network(tmp_path, running, topology=graph, schedule=schedule)) for graph in ("line", "complete")
    )

    async def begin() -> None:
        async with coordinator(before) as network:
            await network.configure()
            await network.stream()
            await until_round(running, 3)

    async def change() -> None:
        async with coordinator(after) as network:
            await network.configure()
            assert network.was_exact

    async def wait() -> list[Belief]:
        async with coordinator(after) as network:
            await network.wait_until_settled()
            return await network.beliefs()

    asyncio.run(begin())
    died = die_at_random_writes(lambda: asyncio.run(change()), deaths=20, seed=1)
    beliefs = asyncio.run(wait())
    simulation = simulation_of(before)
    lasted = [follow(plan, simulation, running, epoch) for epoch, plan in ((1, before), (2, after))]
    assert min(lasted) >= 3
    check_equal(beliefs, simulation.beliefs)
    assert simulation.observations.tolist() == [len(rows) for rows in before.parts]
    assert died


def sources_for(agents: Sequence[AgentProcess]) -> list[dict[str, Any]]:
    """Each agent's own rows, whoever else is there."""
    rows = (f"{180 * number}:{180 * number + 120}" for number in range(len(agents)))
    table = {"kind": "table", "path": "points.npz"}
    return [{**table, "rows": own, "agent": agent.name} for own, agent in zip(rows, agents, strict=True)]


@pytest.mark.thorough
def test_a_newcomer_starts_from_a_neighbors_belief(agents: Agents, tmp_path: Path) -> None:
    running = start(agents, 4)
    changes: dict[str, Any] = {"topology": "line", "verification": None}
    before = load_plan(write_network(tmp_path, running[:3], data=sources_for(running[:3]), **changes))
    after = load_plan(write_network(tmp_path, running, data=sources_for(running), **changes))

    async def run(plan: NetworkPlan) -> list[Belief]:
        async with coordinator(plan) as network:
            await network.configure()
            assert network.was_exact
            await network.stream()
            await network.wait_until_settled()
            return await network.beliefs()

    asyncio.run(run(before))
    beliefs = asyncio.run(run(after))
    assert running[3].http.get("/v1/neighbors").json()["start_from"] == "a3"
    assert [agent.status()["observations"]["applied"] for agent in running] == [120] * 4

    # Three; then four that begin with what the three had, the newcomer with what its neighbor had.
    simulation = simulation_of(before)
    follow(before, simulation, running[:3], 1)
    simulation = simulation_of(after, [*simulation.beliefs, simulation.beliefs[2]])
    simulation.observations[:3] = 120
    follow(after, simulation, running, 2)
    check_equal(beliefs, simulation.beliefs)


@pytest.mark.thorough
def test_an_agent_that_died_is_left_out_and_the_others_go_on_from_where_they_stood(
    agents: Agents, tmp_path: Path, delbo_here: Delbo, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(agents, 3)
    changes: dict[str, Any] = {"topology": "line", "verification": None}
    changes["schedule"] = {"observations_per_round": 2, "period_s": 0.01}
    plan = load_plan(write_network(tmp_path, running, data=sources_for(running), **changes))

    async def begin() -> None:
        async with coordinator(plan) as network:
            await network.configure()
            await network.stream()
            await until_round(running, 5)

    asyncio.run(begin())
    running[2].kill()
    until(lambda: running[1].status()["waits_for"] == ["a3"])
    left = running[:2]
    path = write_network(tmp_path, left, data=sources_for(left), **changes)
    monkeypatch.setattr("client.gathering._STANDSTILL_S", 0.5)
    applied = delbo_here("apply", path)
    assert applied.returncode == 0, applied.stderr
    assert "note: the agents did not come to one common round" in applied.stderr
    until(lambda: all(agent.status()["phase"] == "finished" for agent in left))
    assert [agent.status()["observations"]["applied"] for agent in left] == [120] * 2
    assert {agent.status()["epoch"] for agent in left} == {2}
    assert delbo_here("apply", path).stderr == ""
