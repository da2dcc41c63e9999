"""Who may talk to the dashboard's server: its own pages, under its own address; and what those pages may load."""

import ipaddress
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Plotly writes style elements of its own; scripts come from here alone.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_SAFE = ("GET", "HEAD")
_OWN_PAGES_ONLY = "this can be done from the dashboard's own pages only"


class Guard:
    """ASGI middleware around the dashboard."""

    def __init__(self, app: App, names: Collection[str] = ()) -> None:
        """names: of this machine, under which people may come besides its numbers and localhost."""
        self._app, self._names = app, {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refusal(scope["method"], scope["path"], dict(scope["headers"]))
        if refused is not None:
            await _forbid(send, refused)
            return

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await self._app(scope, receive, send_guarded)

    def _refusal(self, method: str, path: str, headers: dict[bytes, bytes]) -> str | None:
        """Why a request is not let in."""
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_ours(host):
            # A foreign page could come under a name of its own that it lets point here.
            return f"the dashboard is not known as {host[:100]!r}: use its number, or start it with --allow-host"
        site = headers.get(b"sec-fetch-site")
        if method in _SAFE:
            # They could not read it, but let agents work, or take the place of those who listen.
            foreign = path.startswith("/api/") and site not in (None, b"same-origin", b"none")
            return _OWN_PAGES_ONLY if foreign else None
        origin = headers.get(b"origin", b"").decode("latin-1")
        same = _authority(origin) == host.lower() if origin else site == b"same-origin"
        if not same or site not in (None, b"same-origin"):
            return _OWN_PAGES_ONLY
        if headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/json":
            return "the body must be application/json"  # which no form of a foreign page can send
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True


def _authority(origin: str) -> str | None:
    """Host and port of an origin; None if it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


async def _forbid(send: Send, why: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
