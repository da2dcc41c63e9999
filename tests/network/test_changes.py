"""A network is changed while it runs: other weights, edges, a newcomer, an agent that is gone."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from client.coordinator import Coordinator
from client.network.plan import NetworkPlan, load_plan
from client.retries import Patience
from client.simulation import Simulation
from service.inference.belief import Belief
from tests.network.plans import check_equal, simulation_of, start, take, write_network
from tests.processes import AgentProcess, Agents, until

MOST_STOPS = 4  # rounds that it takes to bring agents to one, of which each may be a few ahead of another

Rounds = list[dict[str, Any]]


def coordinator(plan: NetworkPlan, agents: Sequence[AgentProcess], patience: Patience | None = None) -> Coordinator:
    return Coordinator(plan, {agent.name: agent.url for agent in agents}, patience)


def rounds_of_epoch(agent: AgentProcess, epoch: int) -> Rounds:
    rounds = agent.http.get("/v1/history", params={"limit": 1000}).json()["rounds"]
    return [one for one in rounds if one["epoch"] == epoch]


def documents(agents: Sequence[AgentProcess]) -> list[Any]:
    return [agent.http.get(f"/v1/{what}").json() for agent in agents for what in ("model", "neighbors", "schedule")]


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


def test_changes_of_weights_and_edges_in_the_middle_of_a_stream_are_exact(agents: Agents, tmp_path: Path) -> None:
    running = start(agents, 4)
    edges = [["a1", "a2"], ["a2", "a3"], ["a3", "a4"]]
    graphs: list[dict[str, Any]] = [
        {"topology": "ring"},
        {"topology": {"edges": edges}},
        {"topology": {"edges": edges}, "mixing_weights": "metropolis"},
        {"topology": {"edges": [*edges, ["a1", "a3"], ["a4", "a1"]]}},
    ]
    plans = []
    for graph in graphs:
        folder = tmp_path / str(len(plans))
        folder.mkdir()
        plans.append(load_plan(write_network(folder, running, stream={"batch": 4, "rate_per_s": 100}, **graph)))

    async def run() -> list[Belief]:
        async with coordinator(plans[0], running) as first:
            await first.configure()
            streaming = asyncio.create_task(first.stream())
            for plan in plans[1:]:
                await until_round(running, 2)
                assert not streaming.done()
                async with coordinator(plan, running) as changed:
                    await changed.configure()
                    assert changed.was_exact
            await streaming
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
    for epoch in range(1, 4):
        for index, agent in enumerate(running):
            taken = [one["observations"] for one in rounds_of_epoch(agent, epoch)]
            assert taken[:-MOST_STOPS] == [10] * len(taken[:-MOST_STOPS]), (agent.name, epoch)
            waiting[index] -= sum(taken)
    assert lasted[3] == max(-(-count // 10) for count in waiting) + plans[3].settle_rounds

    # The same again changes nothing.
    before = documents(running)

    async def again() -> None:
        async with coordinator(plans[3], running) as same:
            await same.configure()

    asyncio.run(again())
    assert documents(running) == before
