"""Streams to real agents: full inboxes, and batches that are too large for them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from client.agent_client import AgentClient, Mark
from client.coordinator import Coordinator
from client.network.plan import NetworkPlan, load_plan
from client.retries import Patience
from service.errors import SettingError
from service.wire.answers import Stored
from tests.network.plans import check_run, write_network
from tests.processes import Agents


async def run_to_the_end(plan: NetworkPlan) -> None:
    async with Coordinator(plan, {agent.name: agent.url for agent in plan.document.agents}) as network:
        await network.configure()
        await network.stream()
        await network.wait_until_settled()


async def stream_while_paused(plan: NetworkPlan) -> None:
    """The agent takes observations again when the stream has met a full inbox."""
    is_full = asyncio.Event()

    async def sleep(seconds: float) -> None:
        is_full.set()
        await asyncio.sleep(seconds)

    [agent] = plan.document.agents
    async with Coordinator(plan, {agent.name: agent.url}, Patience(sleep=sleep)) as network:
        await network.configure()
        schedule = await network.agents[0].schedule()
        await network.agents[0].put_schedule(schedule.model_copy(update={"revision": 2, "paused": True}))
        streaming = asyncio.create_task(network.stream())
        await is_full.wait()
        assert (await network.statuses())[0].observations.collected == 30
        await network.configure()
        await streaming
        await network.wait_until_settled()


def test_full_inboxes_are_waited_for_and_a_batch_that_never_fits_is_told(
    agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = [agents("a1", "--inbox-limit", 40)]
    data = {"kind": "table", "path": "points.npz", "rows": "0:100"}
    path = write_network(tmp_path, running, data=data, stream={"batch": 41})
    with pytest.raises(SettingError, match="the inbox holds, 40; take a smaller batch under stream"):
        asyncio.run(run_to_the_end(load_plan(path)))
    path = write_network(tmp_path, running, data=data, stream={"batch": 30})
    asyncio.run(stream_while_paused(load_plan(path)))
    check_run(path, [agent.url for agent in running])

    # What is there is not posted again, but for the last batch, to be compared.
    posted: list[int] = []
    post = AgentClient.post

    async def count(agent: AgentClient, x: Any, y: Any, mark: Mark, end: bool, position: Any) -> Stored:
        posted.append(mark.sequence)
        return await post(agent, x, y, mark, end, position)

    monkeypatch.setattr(AgentClient, "post", count)
    asyncio.run(run_to_the_end(load_plan(path)))
    assert posted == [2]
    check_run(path, [agent.url for agent in running])
