"""`GET /v1/map`: the belief as a picture, as numbers, or as a map for navigation."""

import hashlib
from importlib.metadata import version

from fastapi import Request, Response

from service.agent.agent import Agent
from service.agent.maps import MapRequest, check_there_is
from service.api.problems import ProblemError
from service.errors import SettingError
from service.wire.map_files import Nav2Rule
from service.wire.map_query import Format, MapQuery

_MEDIA_TYPES: dict[Format, str] = {"png": "image/png", "npz": "application/x-npz", "nav2": "application/zip"}


async def get_map(request: Request, agent: Agent, query: MapQuery) -> Response:
    """The map of the newest round; 304 if that is the one that the client has."""
    snapshot = agent.snapshot
    epoch, number = snapshot.name
    _, incarnation = agent.store.identity
    tag = f'"{incarnation:x}-{epoch}-{number}-{_digest(query)}"'
    headers = {"etag": tag, "cache-control": "no-cache", "delbo-epoch": str(epoch), "delbo-round": str(number)}
    try:
        wanted = _request(query)
        check_there_is(snapshot, wanted)  # first: `*` stands for any map that there is
        if _knows(request.headers.get("if-none-match"), tag):
            return Response(status_code=304, headers=headers)
        file = await agent.maps.file(snapshot, wanted)
    except SettingError as fault:
        raise ProblemError("invalid-query", str(fault)) from None
    if query.format != "png":
        headers["content-disposition"] = f'attachment; filename="map.{"zip" if query.format == "nav2" else "npz"}"'
    return Response(file, media_type=_MEDIA_TYPES[query.format], headers=headers)


def _request(query: MapQuery) -> MapRequest:
    """The same, checked."""
    if query.low is not None and query.high is not None and query.low >= query.high:
        raise SettingError("low must be below high")
    if query.format == "nav2" and query.layer not in (None, "probability"):
        raise SettingError(f"a nav2 map is of probabilities, not of the {query.layer}")
    rule = Nav2Rule(query.mode, query.occupied_thresh, query.free_thresh)
    return MapRequest(query.format, query.layer, query.box, query.resolution, query.low, query.high, rule)


def _knows(if_none_match: str | None, tag: str) -> bool:
    """Whether a client says that it has what this tag names; `W/` makes no difference to a GET."""
    known = [one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")]
    return tag in known or known == ["*"]


def _digest(query: MapQuery) -> str:
    """Tells one map of a round from another; a new version may draw it otherwise."""
    content = f"{version('delbo')} {query.model_dump_json()}"
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
