"""A listener of server-sent events: a plain socket, and the parsing rules of WHATWG's HTML standard, section 9.2.6."""

import codecs
import http.client
import json
import re
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple

from tests.processes import PATIENCE_S, AgentProcess

_LINE_END = re.compile(r"\r\n|\n|\r")


class Event(NamedTuple):
    """One event as a browser would dispatch it."""

    type: str
    data: str
    last_id: str

    @property
    def document(self) -> dict[str, Any]:
        """The data, which are JSON."""
        return dict(json.loads(self.data))


class Parser:
    """The rules: lines to fields, fields to events; a line is taken only when its end has come."""

    def __init__(self) -> None:
        self.retry_ms: int | None = None
        self.comments: list[str] = []
        self._rest, self._last_id = "", ""
        self._type, self._data = "", list[str]()

    def feed(self, text: str) -> Iterator[Event]:
        """The events that are complete with this text."""
        *lines, self._rest = _LINE_END.split(self._rest + text)
        for line in lines:
            if line:
                self._take(line)
                continue
            if self._data:
                yield Event(self._type or "message", "\n".join(self._data), self._last_id)
            self._type, self._data = "", []

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "":
                self.comments.append(value)
            case "event":
                self._type = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._last_id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry_ms = int(value)
            case _:
                raise AssertionError(f"a browser would ignore {line!r}: why is it sent?")


class EventStream:
    """`GET /v1/events`; room: bytes that the socket takes before it is read."""

    def __init__(self, agent: AgentProcess, last_id: str | None = None, token: str = "", room: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.settimeout(PATIENCE_S)
        if room:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self._socket.connect(("127.0.0.1", agent.port))
        lines = ["GET /v1/events HTTP/1.1", "host: agent", "accept: text/event-stream"]
        lines += [] if last_id is None else [f"last-event-id: {last_id}"]
        lines += [f"authorization: Bearer {token}"] if token else []
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        self.answer = http.client.HTTPResponse(self._socket)
        self.parser, self._decoder = Parser(), codecs.getincrementaldecoder("utf-8")()
        self._events: list[Event] = []

    def __enter__(self) -> "EventStream":
        """Wait for the head, which must be that of a stream."""
        self.answer.begin()
        assert self.answer.status == 200, self.answer.read()
        assert self.answer.getheader("content-type") == "text/event-stream"
        assert self.answer.getheader("cache-control") == "no-store"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Go away."""
        self.answer.close()
        self._socket.close()

    def take(self, count: int) -> list[Event]:
        """Wait for that many events more."""
        while len(self._events) < count:
            assert self._read(), f"the stream has ended after {self._events}"
        taken, self._events = self._events[:count], self._events[count:]
        return taken

    def rest(self) -> list[Event]:
        """Everything up to the end of the stream, which comes in the way that HTTP has for it."""
        while self._read():
            pass
        taken, self._events = self._events, []
        return taken

    def until_number(self, number: int) -> list[Event]:
        """All events up to the one of that round."""
        while not (self._events and self._events[-1].last_id.endswith(f"-{number}")):
            assert self._read(), f"the stream has ended before round {number}"
        taken, self._events = self._events, []
        return taken

    def _read(self) -> bool:
        """Take what has come; false at the end."""
        piece = self.answer.read1(1 << 16)
        self._events += self.parser.feed(self._decoder.decode(piece))
        assert len(self.parser.comments) < 4, "for a minute nothing but heartbeats has come"
        return bool(piece)
