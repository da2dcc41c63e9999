"""Reading bodies: bounded, also when they come in chunks, also when they are compressed."""

import asyncio
import zlib
from collections.abc import AsyncIterator

from service.api.messages import Receive, Scope, header
from service.api.problems import ProblemError

_PIECE = 1 << 18  # bytes that decompression makes at a time
_BODY_TIMEOUT_S = 60.0


class ClientGoneError(Exception):
    """The client closed the connection before its body was complete."""


async def pieces(scope: Scope, receive: Receive) -> AsyncIterator[bytes]:
    """The body as it arrives, decompressed; each piece of bounded size."""
    encoding = (header(scope, b"content-encoding") or "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise ProblemError("unsupported-encoding", f"content-encoding {encoding[:40]!r}: it should be gzip, or none")
    inflate = _gzip() if encoding == "gzip" else None
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        data, more = message.get("body", b""), message.get("more_body", False)
        if inflate is None:
            if data:
                yield data
            continue
        while data:
            try:
                piece = inflate.decompress(data, _PIECE)
            except zlib.error as fault:
                raise ProblemError("invalid-encoding", f"the body is not gzip: {fault}") from None
            data = inflate.unconsumed_tail
            if inflate.unused_data:  # gzip files can be written one behind the other
                data, inflate = inflate.unused_data, _gzip()
            if piece:
                yield piece
    if inflate is not None and not inflate.eof:
        raise ProblemError("invalid-encoding", "the gzip data broke off")


async def whole(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body, if it is no longer than `limit`."""
    length = header(scope, b"content-length")
    if length is not None and length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    body: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            async for piece in pieces(scope, receive):
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                body.append(piece)
    except TimeoutError:
        raise ProblemError("slow-body", f"the body was not complete after {_BODY_TIMEOUT_S:g} s") from None
    return body[0] if len(body) == 1 else b"".join(body)


async def lines(scope: Scope, receive: Receive, longest: int) -> AsyncIterator[list[bytes]]:
    """The lines of a body of any length, as many at a time as have arrived; the last may lack its end."""
    rest = b""
    async for piece in pieces(scope, receive):
        *complete, rest = (rest + piece).split(b"\n")
        if complete:
            yield complete
        if len(rest) > longest:
            raise ProblemError("line-too-long", f"a line is longer than {longest} bytes")
    if rest:
        yield [rest]


def _gzip() -> "zlib._Decompress":
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


def _too_large(limit: int) -> ProblemError:
    return ProblemError("body-too-large", f"the body is larger than {limit} bytes: send it in parts", limit=limit)
