"""Documents in and out: JSON or msgpack, as the headers say."""

from typing import Any, Literal

import msgspec
import numpy as np
from fastapi import Request, Response

from service.api.bodies import BodyReader
from service.api.messages import media_type
from service.api.problems import ProblemError
from service.wire.arrays import to_wire
from service.wire.parameters import MEDIA_TYPE as MSGPACK

_JSON = "application/json"


Language = Literal["json", "msgpack"]
_LANGUAGES: dict[str | None, Language] = {_JSON: "json", MSGPACK: "msgpack"}


def language_of(request: Request) -> Language:
    """What the body is written in, as its header says."""
    kind = media_type(request.scope)
    if kind not in _LANGUAGES:
        raise ProblemError("unsupported-media-type", f"content-type {kind!r}: it should be {_JSON} or {MSGPACK}")
    return _LANGUAGES[kind]


async def read_document(request: Request, bodies: BodyReader) -> Any:
    """The body, decoded and not yet checked."""
    language = language_of(request)
    body = await bodies.whole(request.scope, request.receive)
    try:
        return msgspec.json.decode(body) if language == "json" else msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise ProblemError(f"invalid-{language}", f"this is not {language}: {fault}") from None


def write_document(request: Request, document: dict[str, Any] | msgspec.Struct, status: int = 200) -> Response:
    """The document as the client accepts it; arrays are lists in JSON, and raw in msgpack."""
    accepted = request.headers.get("accept", "")
    if MSGPACK in accepted or "application/msgpack" in accepted:
        packed = msgspec.msgpack.encode(document, enc_hook=_packed)
        return Response(packed, status, media_type=MSGPACK)
    return Response(msgspec.json.encode(document, enc_hook=_listed), status, media_type=_JSON)


def _packed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return to_wire(value)
    raise NotImplementedError(f"{type(value)} cannot be sent")


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value)} cannot be sent")
