"""The short way for peers: `GET /v1/parameters` answered by the connection itself, in one write.

A connection begins here. As long as it brings nothing but plain requests for parameters, whole and one at a time, they
are answered without the machinery of an ASGI server, which costs more than all the rest of a pull. Anything else,
however slightly odd, makes uvicorn's own protocol take over the connection for good; it serves the same endpoint, and
all others.
"""

import asyncio
import logging
import re
from http import HTTPStatus
from typing import Any, NamedTuple

from uvicorn.config import Config
from uvicorn.server import ServerState

from service.api.access import Access
from service.api.messages import Headers
from service.api.parameters import Answer, ParametersEndpoint
from service.api.patient_protocol import PatientProtocol
from service.api.problems import ProblemError, answer_of, problem_of
from service.errors import DelboError
from service.wire.roles import ENDPOINTS

log = logging.getLogger(__name__)

_PATH = "/v1/parameters"
_ROLE = ENDPOINTS["GET", _PATH]
_BEGINNING = b"GET " + _PATH.encode()
_END = b"\r\n\r\n"
_CLEAN = re.compile(rb"(?:[ -~]+\r\n)+\r\n")  # one whole head, of nothing but printable characters
_PLAIN = (b"host", b"accept", b"user-agent")  # headers that need no more than this
_READ = {b"if-none-match": "known", b"authorization": "authorization"}  # and those that are read, each at most once
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class PeerProtocol(asyncio.Protocol):
    """One connection, until uvicorn's protocol takes it over."""

    def __init__(
        self,
        parameters: ParametersEndpoint,
        access: Access,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._parameters, self._access = parameters, access
        self._arguments: dict[str, Any] = {
            "config": config,
            "server_state": server_state,
            "app_state": app_state,
            "_loop": _loop,
        }
        self._state, self._idle_s = server_state, config.timeout_keep_alive
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._answering: asyncio.Task[None] | None = None
        self._early = b""  # what came while an answer was due
        self._served = self._seen = 0
        self._stopping = self._full = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._state.connections.add(self)  # type: ignore[arg-type]
        self._timer = self._loop.call_later(self._idle_s, self._close_if_idle)

    def connection_lost(self, fault: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._state.connections.discard(self)
        self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self._full:
            self._early += data
            self._transport.pause_reading()
            return
        request = _plain_request(data)
        if request is None:
            self._hand_over(data)
            return
        self._served += 1
        self._state.total_requests += 1
        query, known, authorization = request
        try:
            self._access.check(_ROLE, authorization)
            answer = self._parameters.answer_at_once(query, known)
        except (ProblemError, DelboError) as fault:
            self._write(*self._refusal(fault))
            return
        if answer is not None:
            self._write(*answer)
            return
        self._answering = self._loop.create_task(self._answer(query, known))
        self._state.tasks.add(self._answering)
        self._answering.add_done_callback(self._state.tasks.discard)

    def pause_writing(self) -> None:
        """The peer asks, and does not read its answers: it gets no more of them for now."""
        self._full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._full = False
        self._go_on()

    # What uvicorn's server asks of a connection

    def shutdown(self) -> None:
        """Close once nothing is due."""
        self._stopping = True
        if self._answering is None:
            self._transport.close()

    async def _answer(self, query: bytes, known: str | None) -> None:
        """Wait for the round, then answer."""
        try:
            answer = await self._parameters.answer(query, known)
        except Exception as fault:
            if not isinstance(fault, ProblemError | DelboError):
                log.exception("GET /v1/parameters failed")
            answer = self._refusal(fault)
        self._answering = None
        self._write(*answer)
        self._go_on()

    def _refusal(self, fault: Exception) -> Answer:
        self._parameters.traffic.refused[problem_of(fault).kind.slug] += 1
        return answer_of(fault)

    def _go_on(self) -> None:
        """Read on, and begin with what came while that was not possible."""
        if self._answering is not None or self._full or self._transport.is_closing():
            return
        self._transport.resume_reading()
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)

    def _write(self, status: int, headers: Headers, body: bytes) -> None:
        lines = b"".join(b"%s: %s\r\n" % line for line in headers)
        head = b"%s%scontent-length: %d\r\n\r\n" % (_STATUS_LINES[status], lines, len(body))
        self._transport.writelines((head, body))
        self._parameters.traffic.sent_to_peers += len(body)
        if self._stopping:
            self._transport.close()

    def _hand_over(self, data: bytes) -> None:
        """From now on this is uvicorn's connection."""
        self._state.connections.discard(self)
        self._timer.cancel()
        successor = PatientProtocol(**self._arguments)
        self._transport.set_protocol(successor)
        successor.connection_made(self._transport)
        successor.data_received(data)

    def _close_if_idle(self) -> None:
        if self._served == self._seen and self._answering is None:
            self._transport.close()
            return
        self._seen = self._served
        self._timer = self._loop.call_later(self._idle_s, self._close_if_idle)


class _Request(NamedTuple):
    """What a plain request for parameters says."""

    query: bytes
    known: str | None
    authorization: str | None


def _plain_request(data: bytes) -> _Request | None:
    """A whole, plain request for parameters; None for anything else."""
    if not (data.startswith(_BEGINNING) and _CLEAN.fullmatch(data)):
        return None
    first, *lines = data[: -len(_END)].split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or words[2] != b"HTTP/1.1" or b"#" in words[1]:
        return None
    path, _, query = words[1].partition(b"?")
    read: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        key = _READ.get(name.lower())
        if not colon or (key is None and name.lower() not in _PLAIN):
            return None
        if key is not None:
            if key in read or value.endswith(b" "):
                return None
            read[key] = value.strip().decode("latin-1")
    if path != _PATH.encode():
        return None
    return _Request(query, read.get("known"), read.get("authorization"))
