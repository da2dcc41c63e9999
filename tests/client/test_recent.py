"""A client tells where the one who observes stands, and asks for the newest observations."""

import asyncio
from typing import Any

import numpy as np
import pytest

from client.agent_client import AgentClient
from client.observation_stream import as_position
from service.errors import DataError
from tests.network.plans import MODEL
from tests.processes import Agents


def test_a_client_tells_a_position_and_gets_the_newest_as_arrays(agents: Agents) -> None:
    running = agents("a1")
    running.put("model", {"revision": 1, "model": MODEL})
    third, tenth = 1 / 3, 0.1 + 0.2

    async def ask() -> None:
        async with AgentClient(running.url) as agent:
            empty = await agent.recent()
            assert (empty.x.shape, empty.y.shape, empty.position) == ((0, 2), (0,), None)
            await agent.post([[1.0, third], [1.5, 2.0]], [1, 0], position=[third, tenth])
            first = await agent.recent()
            assert (first.collected, first.position) == (2, [third, tenth])  # to the last digit
            assert first.x.tolist() == [[1.0, third], [1.5, 2.0]]
            assert first.y.tolist() == [1, 0]
            assert first.position_age_s is not None
            await agent.stream("robot").post([0.5, 0.5], 1, position=np.array([-1e-20, 2.0]))
            second = await agent.recent(limit=1)
            assert (second.collected, second.x.tolist(), second.position) == (3, [[0.5, 0.5]], [-1e-20, 2.0])

    asyncio.run(ask())


@pytest.mark.parametrize("position", [1.5, [[1, 2]], "here", ["a", 2], [[1], [1, 2]], {"x": 1}])
def test_what_is_no_position_is_told_before_anything_is_sent(position: Any) -> None:
    with pytest.raises(DataError, match=r"coordinates of one place, like \[1.5, 2.0\]"):
        as_position(position)
