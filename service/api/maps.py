"""`GET /v1/map`: the belief as a picture, as numbers, or as a map for navigation."""

import hashlib
from importlib.metadata import version
from typing import Annotated

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.agent.agent import Agent
from service.agent.maps import Format, Layer, MapRequest
from service.api.problems import ProblemError
from service.errors import SettingError
from service.wire.map_files import Nav2Mode, Nav2Rule

_MEDIA_TYPES: dict[Format, str] = {"png": "image/png", "npz": "application/x-npz", "nav2": "application/zip"}
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class MapQuery(BaseModel):
    """What a map's address may say."""

    model_config = ConfigDict(extra="forbid")

    format: Annotated[Format, Field(description="png, npz, or nav2: a zip of image and YAML.")] = "png"
    layer: Annotated[
        Layer | None, Field(description="What to show; by default the probability, or the mean. nav2: probability.")
    ] = None
    bounds: Annotated[
        str | None,
        Field(max_length=200, description="left,bottom,right,top in the model's units; by default all of it."),
    ] = None
    resolution: Annotated[
        _Finite | None, Field(gt=0, description="The side of a pixel; by default 300 pixels fit the longer side.")
    ] = None
    low: Annotated[_Finite | None, Field(description="png: the value of the first colour.")] = None
    high: Annotated[_Finite | None, Field(description="png: the value of the last colour.")] = None
    mode: Annotated[Nav2Mode, Field(description="nav2: how its cells are to be read.")] = "trinary"
    occupied_thresh: Annotated[_Finite, Field(ge=0, le=1, description="nav2: above it a cell is occupied.")] = 0.65
    free_thresh: Annotated[_Finite, Field(ge=0, le=1, description="nav2: below it a cell is free.")] = 0.25

    def request(self) -> MapRequest:
        """The same, checked."""
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise SettingError("low must be below high")
        if self.format == "nav2" and self.layer not in (None, "probability"):
            raise SettingError(f"a nav2 map is of probabilities, not of the {self.layer}")
        rule = Nav2Rule(self.mode, self.occupied_thresh, self.free_thresh)
        return MapRequest(self.format, self.layer, self._bounds(), self.resolution, self.low, self.high, rule)

    def _bounds(self) -> tuple[float, float, float, float] | None:
        if self.bounds is None:
            return None
        try:
            left, bottom, right, top = (float(number) for number in self.bounds.split(","))
        except ValueError:
            raise SettingError("bounds are four numbers: left,bottom,right,top") from None
        return left, bottom, right, top


async def get_map(request: Request, agent: Agent, query: MapQuery) -> Response:
    """The map of the newest round; 304 if that is the one that the client has."""
    snapshot = agent.snapshot
    epoch, number = snapshot.name
    _, incarnation = agent.store.identity
    tag = f'"{incarnation:x}-{epoch}-{number}-{_digest(query)}"'
    headers = {"etag": tag, "cache-control": "no-cache", "delbo-epoch": str(epoch), "delbo-round": str(number)}
    if knows(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    try:
        file = await agent.maps.file(snapshot, query.request())
    except SettingError as fault:
        raise ProblemError("invalid-query", str(fault)) from None
    if query.format != "png":
        headers["content-disposition"] = f'attachment; filename="map.{"zip" if query.format == "nav2" else "npz"}"'
    return Response(file, media_type=_MEDIA_TYPES[query.format], headers=headers)


def knows(if_none_match: str | None, tag: str) -> bool:
    """Whether a client says that it has what this tag names; `W/` makes no difference to a GET."""
    known = [one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")]
    return tag in known or known == ["*"]


def _digest(query: MapQuery) -> str:
    """Tells one map of a round from another; a new version may draw it otherwise."""
    content = f"{version('delbo')} {query.model_dump_json()}"
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
