"""Reading bodies: bounded, also when they come in chunks, also when they are compressed."""

import asyncio
import zlib
from collections.abc import AsyncIterator

from service.api.messages import Receive, Scope, header
from service.api.problems import ProblemError

_PIECE = 1 << 18  # bytes that decompression makes at a time
_BODY_TIMEOUT_S = 60.0
_ROOM = 256 * 2**20  # bytes of all bodies that are arriving


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


class BodyReader:
    """Reads whole bodies: each of bounded size, and all that arrive at a time together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._room = max(_ROOM, 2 * limit)

    async def whole(self, scope: Scope, receive: Receive, most: int | None = None) -> bytes:
        """The whole body; most: bytes, where that is less than a body may have anyway."""
        limit = self.limit if most is None else min(most, self.limit)
        length = header(scope, b"content-length")
        if length is not None and length.isdigit() and int(length) > limit:
            raise _too_large(limit)
        body: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(_BODY_TIMEOUT_S):
                async for piece in pieces(scope, receive):
                    size += len(piece)
                    self._room -= len(piece)
                    body.append(piece)
                    if size > limit:
                        raise _too_large(limit)
                    if self._room < 0:
                        raise ProblemError("busy", "too many bodies are arriving at once: try again")
        except TimeoutError:
            raise ProblemError("slow-body", f"the body was not complete after {_BODY_TIMEOUT_S:g} s") from None
        finally:
            self._room += size
        return body[0] if len(body) == 1 else b"".join(body)


async def lines(scope: Scope, receive: Receive, longest: int) -> AsyncIterator[list[bytes]]:
    """The lines of a body of any length, as many at a time as have arrived; the last may lack its end."""
    rest = b""
    async for piece in pieces(scope, receive):
        *complete, rest = (rest + piece).split(b"\n")
        if complete:
            yield complete
        await asyncio.sleep(0)  # little data can make many pieces: others have their turn
        if len(rest) > longest:
            raise ProblemError("line-too-long", f"a line is longer than {longest} bytes")
    if rest:
        yield [rest]


def _too_large(limit: int) -> ProblemError:
    return ProblemError("body-too-large", f"the body is larger than {limit} bytes: send it in parts", limit=limit)


def _gzip() -> "zlib._Decompress":
    return zlib.decompressobj(16 + zlib.MAX_WBITS)
