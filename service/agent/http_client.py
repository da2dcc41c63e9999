"""A small HTTP/1.1 client for pulls: GET over kept-alive connections, bodies of bounded size, no redirects.

It is all that pulls need; docs/decisions/0006 says why it is not a general client.
"""

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httptools

from service.errors import PeerError, WireError

_PROBLEM_LIMIT = 4096  # bytes of an error's body that are kept
_LARGEST_HEAD = 65_536
_MOST_IDLE = 4  # connections kept for one peer


class Reply(NamedTuple):
    """A peer's answer."""

    status: int
    etag: str | None
    body: bytes


@dataclass(frozen=True)
class _Origin:
    """Where a peer is."""

    host: str
    port: int
    secure: bool
    path: str
    host_header: str

    @classmethod
    def of(cls, url: str) -> "_Origin":
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        netloc = parts.netloc.rpartition("@")[2]
        return cls(parts.hostname or "", parts.port or (443 if secure else 80), secure, parts.path.rstrip("/"), netloc)


class _Connection(asyncio.Protocol):
    """One connection: one request at a time."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._done: asyncio.Future[Reply] | None = None
        self._head_size = 0
        self.is_open = False

    async def ask(self, request: bytes, limit: int) -> Reply:
        """Send the request and wait for the whole answer; whoever gives up waiting has to close the connection."""
        if not self.is_open:
            raise PeerError("it closed the connection")
        self._parser = httptools.HttpResponseParser(self)
        self._limit, self._size, self._head_size = limit, 0, 0
        self._pieces: list[bytes] = []
        self._status, self._ends_with_connection = 0, True
        self._etag: str | None = None
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._done

    @property
    def has_begun(self) -> bool:
        """Whether any of the answer has come."""
        return self._head_size > 0

    def close(self) -> None:
        """Close it, whatever happens on it."""
        self.is_open = False
        self._done = None
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._done is None:
            self.close()  # nothing was asked
            return
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as fault:
            self._fail(WireError("malformed", f"the answer is not HTTP: {fault}"))
            return
        if self._done is not None and self._head_size > _LARGEST_HEAD + 8 * self._size:  # 8: chunks may be tiny
            self._fail(WireError("oversized", "the answer's headers are too long"))

    def connection_lost(self, fault: Exception | None) -> None:
        self.is_open = False
        if self._done is None:
            return
        if self._status_known and self._ends_with_connection and fault is None:
            self.on_message_complete()
        elif self.has_begun:
            self._fail(WireError("truncated", "the answer broke off"))
        else:
            self._fail(PeerError("it closed the connection"))

    # httptools

    def on_message_begin(self) -> None:
        if self._done is None:
            self.close()  # a second answer, and nothing more was asked

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.lower()
        if key == b"etag":
            self._etag = value.decode("latin-1")
        elif key == b"content-length":
            self._ends_with_connection = False
            if value.isdigit() and int(value) > self._limit and self._parser.get_status_code() == 200:
                self._fail(_oversized(self._limit))
        elif key == b"transfer-encoding":
            self._ends_with_connection = False
        elif key == b"content-encoding" and value.lower() != b"identity":
            self._fail(WireError("malformed", "the answer is compressed, and was not asked to be"))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status in (204, 304):
            self._ends_with_connection = False

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._status == 200 and self._size > self._limit:
            self._fail(_oversized(self._limit))
        elif self._status == 200 or self._size <= _PROBLEM_LIMIT:
            self._pieces.append(body)
        elif self._size > 16 * _PROBLEM_LIMIT:
            self._fail(WireError("oversized", "an error's body is too long"))

    def on_message_complete(self) -> None:
        if self._done is None or self._done.done():
            return
        if self._status < 200:  # an interim answer: the one that counts is still to come
            self._status, self._etag, self._ends_with_connection = 0, None, True
            return
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._done.set_result(Reply(self._status, self._etag, body))
        self._done = None
        if not self._parser.should_keep_alive():
            self.close()

    @property
    def _status_known(self) -> bool:
        return self._status != 0

    def _fail(self, fault: Exception) -> None:
        done = self._done
        self.close()
        if done is not None and not done.done():
            done.set_exception(fault)


class HttpClient:
    """Connections to all peers, kept and used again."""

    def __init__(self, token: Callable[[], str | None] = lambda: None) -> None:
        """token: gives what is sent to peers, so that they let this agent in."""
        self._token = token
        self._idle: dict[_Origin, list[_Connection]] = defaultdict(list)
        self._origins: dict[str, _Origin] = {}
        self._secure: ssl.SSLContext | None = None
        self._closed = False

    async def __call__(self, url: str, target: str, headers: dict[str, str], limit: int) -> Reply:
        """GET url + target; at most `limit` bytes of body: a WireError if there are more, or fewer than promised."""
        origin = self._origins.get(url)
        if origin is None:
            origin = self._origins[url] = _Origin.of(url)
        token = self._token()
        if token is not None:
            headers = {**headers, "Authorization": f"Bearer {token}"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"GET {origin.path}{target} HTTP/1.1\r\nHost: {origin.host_header}\r\n{lines}\r\n".encode("latin-1")
        connection = self._kept(origin)
        if connection is not None:
            try:
                return await self._ask(origin, connection, request, limit)
            except PeerError:
                if connection.has_begun:
                    raise
                # The peer had closed it in the meantime, as it may: a new connection tells how it is.
        return await self._ask(origin, await self._connect(origin), request, limit)

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _kept(self, origin: _Origin) -> _Connection | None:
        idle = self._idle[origin]
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    async def _ask(self, origin: _Origin, connection: _Connection, request: bytes, limit: int) -> Reply:
        try:
            reply = await connection.ask(request, limit)
        except BaseException:
            connection.close()
            raise
        if connection.is_open:
            if self._closed or len(self._idle[origin]) >= _MOST_IDLE:
                connection.close()
            else:
                self._idle[origin].append(connection)
        return reply

    async def _connect(self, origin: _Origin) -> _Connection:
        if origin.secure and self._secure is None:
            self._secure = ssl.create_default_context()
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                _Connection, origin.host, origin.port, ssl=self._secure if origin.secure else None
            )
        except (OSError, ssl.SSLError) as fault:
            raise PeerError(f"it cannot be reached: {fault.strerror or fault}") from None
        return connection


def _oversized(limit: int) -> WireError:
    return WireError("oversized", f"the answer is longer than {limit} bytes, and no message of this model is")
