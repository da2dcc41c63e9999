"""The coordinator can be killed at any moment and run again: it ends in the same state as if it had never been gone."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from client.agent_client import Mark
from client.coordinator import Coordinator
from client.gathering import stop_at_one_round
from client.network.plan import NetworkPlan, load_plan
from client.retries import Patience
from tests.network.plans import check_run, rounds_of, start, write_network
from tests.network.runs import Gate, Run
from tests.processes import AgentProcess, Agents, until


def coordinator(plan: NetworkPlan, agents: Sequence[AgentProcess], patience: Patience | None = None) -> Coordinator:
    return Coordinator(plan, {agent.name: agent.url for agent in agents}, patience)


async def run_to_the_end(plan: NetworkPlan, agents: Sequence[AgentProcess]) -> None:
    async with coordinator(plan, agents) as network:
        await network.configure()
        await network.stream()
        await network.wait_until_settled()


def test_a_network_that_is_run_equals_the_simulation(agents: Agents, tmp_path: Path) -> None:
    """On a directed graph, with a sensor of its own at one agent, and no data at all for another."""
    running = start(agents, 4)
    entries: list[dict[str, Any]] = [{"name": agent.name, "url": agent.url} for agent in running]
    entries[1]["likelihood"] = "logistic"
    edges = [["a1", "a2"], ["a2", "a3"], ["a3", "a4"], ["a4", "a1"], ["a1", "a3"]]
    data = [
        {"kind": "table", "path": "points.npz", "rows": f"{300 * number}:{300 * number + 190}", "agent": name}
        for number, name in enumerate(("a1", "a2"))
    ]
    data.append({"kind": "table", "path": "points.npz", "rows": "600:655", "agent": "a4"})
    path = write_network(tmp_path, entries, topology={"edges": edges, "directed": True}, data=data)
    asyncio.run(run_to_the_end(load_plan(path), running))
    check_run(path, running)


def test_a_network_that_takes_the_latest_ends_with_everything_applied(agents: Agents, tmp_path: Path) -> None:
    running = start(agents, 3)
    schedule = {"exchange": "latest", "observations_per_round": 10, "period_s": 0.001}
    plan = load_plan(write_network(tmp_path, running, schedule=schedule))
    asyncio.run(run_to_the_end(plan, running))
    for agent, rows in zip(running, plan.parts, strict=True):
        counts = agent.status()["observations"]
        assert (counts["collected"], counts["applied"], counts["ended"]) == (len(rows), len(rows), True)


class Killed(BaseException):
    """What the coordinator meets instead of kill -9."""


@contextmanager
def deaths_at_every_write(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let each request that changes something be the last one of its coordinator: once unsent, once unanswered."""
    request, met = httpx2.AsyncClient.request, set[tuple[Any, ...]]()
    deaths: list[str] = []

    def die_once(*moment: Any) -> None:
        if moment not in met and not deaths:
            met.add(moment)
            deaths.append(moment[1])
            raise Killed

    async def deadly(http: httpx2.AsyncClient, method: str, url: str, **options: Any) -> httpx2.Response:
        write = (f"{method} {url}", str(options["params"]))
        if method != "GET":
            die_once("unsent", *write)
        answer = await request(http, method, url, **options)
        if method != "GET":
            die_once("unanswered", *write)
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(httpx2.AsyncClient, "request", deadly)
        yield deaths


def test_a_coordinator_that_dies_before_and_after_every_write_ends_as_one_that_does_not(
    agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(agents, 3)
    path = write_network(tmp_path, running, topology="line", stream={"batch": 90})
    plan = load_plan(path)
    died: list[str] = []
    with deaths_at_every_write(monkeypatch) as deaths:
        while True:
            deaths.clear()
            try:
                asyncio.run(run_to_the_end(plan, running))
                break
            except (Killed, BaseExceptionGroup):
                died += deaths
    check_run(path, running)
    # Three documents and three batches for each agent, before and after; those that others were cut short by less.
    assert len(died) >= 2 * 3 * (3 + 3) - 12
    for what in ("model", "neighbors", "schedule", "observations"):
        assert any(what in write for write in died)


def test_run_that_is_killed_half_configured_in_its_streams_and_while_it_settles_ends_the_same(
    agents: Agents, tmp_path: Path
) -> None:
    running = start(agents, 4)
    gate = Gate()
    with gate.running():
        entries = [{"name": one.name, "url": one.url} for one in running]
        entries[3]["url"] = f"http://127.0.0.1:{gate.to(running[3].port)}"
        schedule = {"observations_per_round": 10, "period_s": 0.01}
        path = write_network(tmp_path, entries, schedule=schedule, settle_rounds=60)
        # One agent is still without its model, its schedule, or its third batch.
        for request in ("PUT /v1/model", "PUT /v1/schedule", "POST /v1/observations?client=run+small&sequence=2"):
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
        check_run(path, running)
        with Run(tmp_path, "run", path, "--json") as run:
            again = run.finish()
        check_run(path, running)
    assert {**again, "seconds": 0} == {**result, "seconds": 0}
    assert [agent["observations"] for agent in result["agents"]] == [162] * 4
    assert result["rounds"] == rounds_of(load_plan(path))


class CountingPatience:
    """Patience that counts the pauses of whoever waits."""

    def __init__(self) -> None:
        self._pauses = asyncio.Semaphore(0)
        self.patience = Patience(sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self._pauses.release()
        await asyncio.sleep(seconds)

    async def wait_for_pauses(self, count: int) -> None:
        """Until it has paused so many times."""
        for _ in range(count):
            await self._pauses.acquire()


def test_a_run_ends_when_all_is_applied_also_of_others_and_not_while_a_change_holds_the_agents(
    agents: Agents, tmp_path: Path
) -> None:
    running = start(agents, 2)
    plan = load_plan(write_network(tmp_path, running))
    train = plan.train
    assert train is not None

    async def run() -> None:
        counting = CountingPatience()
        async with coordinator(plan, running, counting.patience) as network, coordinator(plan, running) as other:
            await network.configure()
            await other.agents[0].post(train.x[:200], train.y[:200], Mark("somebody", 0), end=True)
            await network.stream()
            assert await stop_at_one_round(other.agents, await other.look(), other.patience)
            waiting = asyncio.create_task(network.wait_until_settled())
            await counting.wait_for_pauses(3)
            assert not waiting.done()
            await other.configure()
            await waiting

    asyncio.run(run())
    counts = [agent.status()["observations"] for agent in running]
    own = [len(rows) for rows in plan.parts]
    assert [(one["applied"], one["backlog"]) for one in counts] == [(own[0] + 200, 0), (own[1], 0)]
