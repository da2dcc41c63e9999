"""Documents in and out: JSON or msgpack, as the headers say."""

import asyncio
from collections.abc import Callable
from typing import Any, Literal, TypeVar

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
Parsed = TypeVar("Parsed")
_LANGUAGES: dict[str | None, Language] = {_JSON: "json", MSGPACK: "msgpack"}

# A decoder holds the interpreter, also in a thread, and the loop waits; so what it may make in one go is bounded.
_MOST_VALUES = 1 << 18  # of a document in JSON; in msgpack, where a value can be a byte, bytes
SMALL = 1 << 18  # bytes: a thousand neighbors fit
_NUMBERS_AT_ONCE = 10_000


def language_of(request: Request) -> Language:
    """What the body is written in, as its header says."""
    kind = media_type(request.scope)
    if kind not in _LANGUAGES:
        raise ProblemError("unsupported-media-type", f"content-type {kind!r}: it should be {_JSON} or {MSGPACK}")
    return _LANGUAGES[kind]


async def read_document(
    request: Request, bodies: BodyReader, parse: Callable[[Any], Parsed], most: int | None = None
) -> Parsed:
    """The body, decoded and checked; most: bytes, where that is less than a body may have anyway."""
    language = language_of(request)
    body = await bodies.whole(request.scope, request.receive, most)

    def read() -> Parsed:
        return parse(_decoded(body, language))

    return await asyncio.to_thread(read)


def _decoded(body: bytes, language: Language) -> Any:
    values = len(body) if language == "msgpack" else 1 + sum(map(body.count, (b",", b"[", b"{")))
    if values > _MOST_VALUES:
        raise ProblemError("body-too-large", f"the document holds more than {_MOST_VALUES} values", limit=_MOST_VALUES)
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
        return msgspec.Raw(_written(value))
    raise NotImplementedError(f"{type(value)} cannot be sent")


def _written(array: np.ndarray[Any, Any]) -> bytes:
    """An array as JSON, in parts: others have their turn in between."""
    parts = [array[begin : begin + _NUMBERS_AT_ONCE].tolist() for begin in range(0, len(array), _NUMBERS_AT_ONCE)]
    return b"[" + b",".join(msgspec.json.encode(part)[1:-1] for part in parts) + b"]"
