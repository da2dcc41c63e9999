"""An agent and its application inside the test's own process: for the many models that need not pay for one each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from service.agent.agent import Agent
from service.agent.http_client import Reply
from service.api.access import Access
from service.api.app import Application
from service.wire.parameters import MEDIA_TYPE, ParameterMessage

BODY_LIMIT = 8 * 2**20
PATIENCE_S = 60.0  # a bound for what must happen, on the busiest machine


class Inside(NamedTuple):
    """The agent, and a client that speaks with its application."""

    agent: Agent
    http: httpx2.AsyncClient

    async def put(self, what: str, document: dict[str, Any]) -> None:
        """PUT a document; it must be accepted."""
        answer = await self.http.put(f"/v1/{what}", json=document)
        assert answer.status_code == 200, answer.text

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        """GET what must be there."""
        answer = await self.http.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer

    async def learn(self, x: Any, y: Any) -> None:
        """Take these observations, in one round."""
        body = {"x": x.tolist(), "y": y.tolist(), "end": True}
        assert (await self.http.post("/v1/observations", json=body)).status_code == 200
        await self.put("schedule", {"revision": 1, "observations_per_round": len(y), "paused": True})
        await self.step(1)

    async def step(self, rounds: int) -> None:
        """Run rounds of the paused agent."""
        answer = await self.http.post("/v1/rounds", json={"rounds": rounds})
        assert answer.status_code == 200, answer.text
        assert answer.json()["complete"]

    async def ask(self, content: bytes, content_type: str = MEDIA_TYPE, accept: str = "*/*") -> httpx2.Response:
        """POST points, whatever comes of it."""
        headers = {"content-type": content_type, "accept": accept}
        return await self.http.post("/v1/predictions", content=content, headers=headers)

    async def parameters(self, **query: int) -> ParameterMessage:
        """What peers get of that round, or of the newest."""
        answer = await self.http.get("/v1/parameters", params=query)
        assert answer.status_code == 200, answer.text
        return self.agent.model.codec.decode(answer.content)


async def _nobody(url: str, target: str, headers: dict[str, str], limit: int) -> Reply:
    raise AssertionError(f"an agent alone asked {url} for {target}")


@asynccontextmanager
async def inside(folder: Path, model: dict[str, Any] | None = None) -> AsyncIterator[Inside]:
    """An agent that lives for as long as the context."""
    agent = Agent("a", folder, _nobody, asyncio.get_running_loop().time, 100_000, 100)
    life = asyncio.create_task(agent.run())
    transport = httpx2.ASGITransport(Application(agent, Access(None), BODY_LIMIT))
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://inside", timeout=PATIENCE_S) as http:
            served = Inside(agent, http)
            if model is not None:
                await served.put("model", {"revision": 1, "model": model})
            yield served
    finally:
        agent.stop()
        async with asyncio.timeout(PATIENCE_S):
            await life
