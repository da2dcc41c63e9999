"""A client and an agent that has no room, or is away for a while: it waits, and goes on by itself."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from client.agent_client import AgentClient
from client.retries import Patience
from service.errors import AgentRefusedError
from service.wire.answers import Stored, StreamPosition
from tests.client.test_agent_client import MODEL, POINT, X, Y, collected
from tests.processes import AgentProcess, agent_factory

VECTOR_MODEL = {**MODEL, "likelihood": {"kind": "gaussian", "precision": [[2.0, 0.5], [0.5, 1.0]]}}
ROOM = 10


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent of vectors with little room; its tests leave it empty, paused and running."""
    for start in agent_factory(tmp_path_factory.mktemp("small")):
        agent = start("a2", "--inbox-limit", ROOM)
        agent.put("model", {"revision": 1, "model": VECTOR_MODEL})
        agent.put("schedule", {"revision": 1, "when_short": "go", "paused": True})
        yield agent


@pytest.mark.asyncio
async def test_a_post_to_a_full_inbox_waits_as_the_agent_asks_and_goes_on_when_there_is_room(
    small: AgentProcess,
) -> None:
    pauses: list[float] = []

    async def make_room(pause_s: float) -> None:
        pauses.append(pause_s)
        small.http.post("/v1/rounds", json={"rounds": 1})

    before = collected(small)
    targets = np.stack([Y, -Y], axis=1)
    async with AgentClient(small.url, Patience(sleep=make_room)) as client:
        stream = client.stream("vectors")
        assert await stream.post(X[:ROOM], targets[:ROOM]) == Stored(ROOM, 1)
        assert await stream.post(POINT, [1.0, 2.0]) == Stored(1, 2)
        assert await client.post(X[:ROOM], targets[:ROOM]) == Stored(ROOM)  # without a mark as well: it was refused
        await client.run_rounds()
        with pytest.raises(AgentRefusedError) as large:
            await stream.post(X, targets)
        assert large.value.slug == "batch-too-large"
    assert pauses == [1.0, 1.0]
    assert collected(small) == before + 2 * ROOM + 1


@pytest.mark.asyncio
async def test_an_agent_that_is_stopped_and_started_again_is_found_by_who_waits(small: AgentProcess) -> None:
    """And the stream goes on, with connections made anew."""
    pauses: list[float] = []

    async def start_again(pause_s: float) -> None:
        if not pauses:
            small.launch()
        pauses.append(pause_s)
        await asyncio.sleep(pause_s)

    patience = Patience(longest_pause_s=0.05, sleep=start_again)
    async with AgentClient(small.url, patience) as client:
        stream = client.stream("restarted")
        await stream.post(POINT, [1.0, 2.0])
        assert small.terminate() == 0
        assert not await client.is_alive()
        assert await stream.post(POINT, [3.0, 4.0]) == Stored(1, 2)
        assert pauses
        assert await client.position("restarted") == StreamPosition("restarted", 2, False)
        await client.run_rounds()
