"""The little of ASGI that bare handlers need."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


async def send_response(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """A whole response at once."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def header(scope: Scope, name: bytes) -> str | None:
    """A header of the request; the names in a scope are lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return None


def media_type(scope: Scope) -> str | None:
    """The content type without its parameters."""
    value = header(scope, b"content-type")
    return None if value is None else value.partition(";")[0].strip().lower()
