"""Streams to real agents: full inboxes, and batches that are too large for them."""

import asyncio
from pathlib import Path

import pytest

from client.coordinator import Coordinator
from client.network.plan import NetworkPlan, load_plan
from service.errors import SettingError
from tests.network.plans import check_run, write_network
from tests.processes import Agents


async def run_to_the_end(plan: NetworkPlan) -> None:
    async with Coordinator(plan, {agent.name: agent.url for agent in plan.document.agents}) as network:
        await network.configure()
        await network.stream()
        await network.wait_until_settled()


def test_full_inboxes_are_waited_for_and_a_batch_that_never_fits_is_told(agents: Agents, tmp_path: Path) -> None:
    running = [agents("a1", "--inbox-limit", 40)]
    data = {"kind": "table", "path": "points.npz", "rows": "0:100"}
    path = write_network(tmp_path, running, data=data, stream={"batch": 41})
    with pytest.raises(SettingError, match="the inbox holds, 40; take a smaller batch under stream"):
        asyncio.run(run_to_the_end(load_plan(path)))
    path = write_network(tmp_path, running, data=data, stream={"batch": 30})
    asyncio.run(run_to_the_end(load_plan(path)))
    check_run(path, [agent.url for agent in running])
