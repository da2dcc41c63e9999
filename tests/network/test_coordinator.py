"""The coordinator can be killed at any moment and run again: it ends in the same state as if it had never been gone."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from client.agent_client import Mark
from client.coordinator import Coordinator
from client.gathering import stop_at_one_round
from client.network.plan import NetworkPlan, load_plan
from client.retries import Patience
from client.verifying import verification_of
from service.wire.answers import ObservationCounts
from tests.network.deaths import die_at_every_write
from tests.network.plans import check_run, rounds_of, start, write_network
from tests.network.runs import Gate, Run
from tests.processes import Agents, until


def coordinator(plan: NetworkPlan, patience: Patience | None = None) -> Coordinator:
    return Coordinator(plan, {agent.name: agent.url for agent in plan.document.agents}, patience)


async def run_to_the_end(plan: NetworkPlan) -> None:
    async with coordinator(plan) as network:
        await network.configure()
        await network.stream()
        await network.wait_until_settled()


def test_a_network_that_takes_the_latest_ends_with_everything_applied(agents: Agents, tmp_path: Path) -> None:
    running = start(agents, 2)
    schedule = {"exchange": "latest", "observations_per_round": 10, "period_s": 0.001}
    plan = load_plan(write_network(tmp_path, running, schedule=schedule))
    asyncio.run(run_to_the_end(plan))
    for agent, rows in zip(running, plan.parts, strict=True):
        counts = agent.status()["observations"]
        assert (counts["collected"], counts["applied"], counts["ended"]) == (len(rows), len(rows), True)


def test_agents_score_themselves_as_the_network_says_and_again_when_it_says_otherwise(
    agents: Agents, tmp_path: Path
) -> None:
    running = start(agents, 2)
    for every_rounds, revision in ((3, 1), (3, 1), (4, 2)):
        path = write_network(tmp_path, running, verification={"holdout": 10, "every_rounds": every_rounds})
        plan = load_plan(path)
        asyncio.run(run_to_the_end(plan))
        assert plan.test is not None
        for agent in running:
            told = agent.http.get("/v1/verification").json()
            assert (told["revision"], told["every_rounds"]) == (revision, every_rounds)
            assert told["points"] == len(plan.test) == 72
    check_run(path, [agent.url for agent in running])
    for agent in running:
        rounds = agent.http.get("/v1/history").json()["rounds"]
        scored = [one["round"] for one in rounds if one["scores"] is not None]
        assert scored == [one["round"] for one in rounds if one["round"] % 3 == 0]
        assert {one["verification"] for one in rounds if one["scores"] is not None} == {1}
    entries: list[dict[str, Any]] = [{"name": agent.name, "url": agent.url} for agent in running]
    asyncio.run(run_to_the_end(load_plan(write_network(tmp_path, entries, verification={"holdout": 10}))))
    for agent in running:
        told = agent.http.get("/v1/verification").json()
        assert (told["revision"], told["points"], told["scores"]) == (3, 0, None)


def test_an_agent_whose_sensor_cannot_see_such_targets_does_not_score_itself(tmp_path: Path) -> None:
    plan = load_plan(write_network(tmp_path, 2, verification={"holdout": 10, "every_rounds": 2}))
    assert plan.test is not None
    document = verification_of(plan, 0, 7)
    assert document is not None
    assert (document.revision, document.every_rounds, len(document)) == (7, 2, 72)
    assert verification_of(replace(plan, test=replace(plan.test, y=plan.test.y * 2.5)), 0, 7) is None


@pytest.mark.thorough
def test_a_coordinator_that_dies_before_and_after_every_write_ends_as_the_simulation_does(
    agents: Agents, tmp_path: Path
) -> None:
    """On a directed graph, with a sensor of its own at one agent, and no data at all for another."""
    running = start(agents, 3)
    entries: list[dict[str, Any]] = [{"name": agent.name, "url": agent.url} for agent in running]
    entries[1]["likelihood"] = "logistic"
    edges = [["a1", "a2"], ["a2", "a3"], ["a3", "a1"], ["a1", "a3"]]
    table = {"kind": "table", "path": "points.npz"}
    rows = {"a1": "0:190", "a2": "300:355"}
    changes: dict[str, Any] = {
        "topology": {"edges": edges, "directed": True},
        "data": [{**table, "rows": own, "agent": name} for name, own in rows.items()],
        "stream": {"batch": 100},
        "verification": {"holdout": 10, "every_rounds": 7},
    }
    path = write_network(tmp_path, entries, **changes)
    plan = load_plan(path)
    died = die_at_every_write(lambda: asyncio.run(run_to_the_end(plan)))
    check_run(path, [agent.url for agent in running])
    # Four documents and a post or two for each agent; less where another's death cut it short.
    assert len(died) >= 12 + 3
    for what in ("model", "neighbors", "verification", "schedule", "observations"):
        assert any(what in url for _, _, url, _ in died)


@pytest.mark.thorough
def test_run_that_is_killed_half_configured_in_its_streams_and_while_it_settles_ends_the_same(
    agents: Agents, tmp_path: Path
) -> None:
    running = start(agents, 3)
    gate = Gate()
    with gate.running():
        entries = [{"name": one.name, "url": one.url} for one in running]
        entries[2]["url"] = f"http://127.0.0.1:{gate.to(running[2].port)}"
        schedule = {"observations_per_round": 10, "period_s": 0.01}
        path = write_network(tmp_path, entries, topology="line", schedule=schedule, settle_rounds=60)
        # One agent is still without its schedule, or its third batch.
        for request in ("PUT /v1/schedule", "POST /v1/observations?client=run+small&sequence=2"):
            gate.hold(request)
            with Run(tmp_path, "run", path, "--json") as run:
                gate.wait_until_holding()
                run.kill()
        with Run(tmp_path, "run", path, "--json") as run:
            until(lambda: all(agent.status()["observations"]["ended"] for agent in running))
            until(lambda: all(agent.status()["observations"]["backlog"] == 0 for agent in running))
            run.kill()  # most likely while they settle
        with Run(tmp_path, "run", path, "--json") as run:
            result = run.finish()
        check_run(path, [agent.url for agent in running])
        asyncio.run(run_to_the_end(load_plan(path)))  # of a network that has ended
        check_run(path, [agent.url for agent in running])
    assert [agent["observations"] for agent in result["agents"]] == [216] * 3
    assert result["rounds"] == rounds_of(load_plan(path))


class CountingPatience:
    """Patience that counts the pauses of whoever waits."""

    def __init__(self) -> None:
        self._pauses = asyncio.Semaphore(0)
        self.patience = Patience(sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self._pauses.release()
        await asyncio.sleep(seconds)

    def forget(self) -> None:
        """Count from now on."""
        self._pauses = asyncio.Semaphore(0)

    async def wait_for_pauses(self, count: int) -> None:
        """Until it has paused so many times."""
        for _ in range(count):
            await self._pauses.acquire()


def test_a_run_ends_when_all_is_applied_also_of_others_and_not_while_a_change_holds_the_agents(
    agents: Agents, tmp_path: Path
) -> None:
    running = start(agents, 2)
    plan = load_plan(write_network(tmp_path, running))
    train, applied = plan.observations(), list[ObservationCounts]()

    async def run() -> None:
        counting = CountingPatience()
        async with coordinator(plan, counting.patience) as network, coordinator(plan) as other:
            await network.configure()
            await other.agents[0].post(train.x[:200], train.y[:200], Mark("somebody", 0), end=True)
            await network.stream()
            await network.wait_until_settled()
            applied.extend(status.observations for status in await network.statuses())
            assert await stop_at_one_round(other.agents, await other.look(), other.patience)
            counting.forget()
            waiting = asyncio.create_task(network.wait_until_settled())
            await counting.wait_for_pauses(3)
            assert not waiting.done()
            await other.configure()
            await waiting

    asyncio.run(run())
    own = [len(rows) for rows in plan.parts]
    assert [(one.applied, one.backlog) for one in applied] == [(own[0] + 200, 0), (own[1], 0)]
