"""What agents believe, for the browser: pictures, lines, predictions at a point, and maps as files."""

import asyncio
import re
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response

from client.dashboard.agent_watch import AgentWatch
from client.dashboard.answers import file_answer, json_answer
from client.dashboard.layers import Layers
from client.dashboard.lines import Lines
from client.dashboard.pictures import NothingToCompareError, Pictures, ShownLayer, parse_box
from client.dashboard.recents import Recents
from client.dashboard.watching import Watching
from service.errors import AgentUnreachableError, DelboError, NoMapError, SettingError
from service.wire.map_files import to_png
from service.wire.map_query import Format, Layer, MapQuery
from service.wire.palette import DIVERGING, SEQUENTIAL

_ENDINGS: dict[Format, str] = {"png": "png", "npz": "npz", "nav2": "zip"}


def views(watching: Watching) -> APIRouter:
    """The routes."""
    router = APIRouter()
    pictures = Pictures(watching.agents, Layers(watching.agents, watching.period_s))
    lines = Lines(watching.agents, watching.period_s)
    recents = Recents(watching.agents, watching.period_s)

    @router.get("/api/agents/{number}/picture")
    async def picture(
        request: Request, number: int, layer: ShownLayer = "expected", box: str | None = None
    ) -> Response:
        agent = watching.agent(number)
        try:
            found = await pictures.get(agent, layer, parse_box(box))
        except (AgentUnreachableError, NothingToCompareError) as fault:  # nobody's error: there is nothing to show yet
            return json_answer({"detail": str(fault)})
        headers = {
            "etag": found.tag,
            "cache-control": "no-cache",
            "delbo-box": ",".join(map(repr, found.box)),
            "delbo-range": f"{found.low!r},{found.high!r}",
            "delbo-round": str(found.round),
        }
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(await asyncio.to_thread(found.png), media_type="image/png", headers=headers)

    @router.get("/api/agents/{number}/map")
    async def export(number: int, format: Format = "png", layer: Layer | None = None) -> Response:  # noqa: A002
        agent = watching.agent(number)
        asked: dict[str, Any] = {"format": format} | ({} if layer is None else {"layer": layer})
        found = await agent.client().map(MapQuery(**asked))
        assert found is not None, "there was no other map to be the same as"  # noqa: S101
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", agent.name).strip("-.") or "agent"
        file = f"{name}-round-{found.round}.{_ENDINGS[format]}"
        return file_answer(found.content, "application/octet-stream", file)

    @router.get("/api/palettes/{name}.png")
    def palette(name: Literal["diverging", "sequential"]) -> Response:
        return Response(_strip(name), media_type="image/png", headers={"cache-control": "max-age=3600"})

    @router.get("/api/recent")
    async def recent() -> Response:
        return json_answer(await recents.get() if watching.has("ingest") else [None] * len(watching.agents))

    @router.get("/api/lines")
    async def get_lines() -> Response:
        try:
            return json_answer(await lines.get())
        except NoMapError as fault:  # nobody's error: an agent has another model since the page was told
            return json_answer({"detail": str(fault)})

    @router.get("/api/predictions")
    async def predictions(at: str) -> Response:
        try:
            point = [float(number) for number in at.split(",")]
        except ValueError:
            raise SettingError("at is a point: its coordinates, with commas between") from None
        return json_answer(await asyncio.gather(*(_predicted(agent, point) for agent in watching.agents)))

    return router


def _strip(name: Literal["diverging", "sequential"]) -> bytes:
    """A palette from its low end to its high one."""
    colors = DIVERGING if name == "diverging" else SEQUENTIAL
    return to_png(np.arange(256.0)[None], colors, 0.0, 255.0, {})


async def _predicted(agent: AgentWatch, point: list[float]) -> dict[str, Any] | None:
    """What one agent expects at a point; None if it does not answer."""
    if not agent.is_there:
        return None
    try:
        told = await agent.quick_client().predict([point])
    except DelboError:
        return None
    expected = told.mean if told.probability is None else told.probability
    return {
        "expected": expected[0].tolist(),
        "latent_variance": told.latent_variance[0].tolist(),
        "variance": told.variance[0].tolist(),
        "entropy": told.entropy[0].tolist(),
        "epoch": told.epoch,
        "round": told.round,
    }
