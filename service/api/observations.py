"""`POST /v1/observations`, bare ASGI: one object, columns, lines without end, or msgpack arrays."""

import asyncio
import math
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from service.agent.agent import Agent
from service.agent.observation_log import Mark
from service.agent.recent import Position
from service.api.bodies import BodyReader, lines
from service.api.messages import Message, Receive, Scope, Send, header, media_type, send_response
from service.api.problems import ProblemError, document_of, problem_of, send_problem
from service.errors import BacklogFullError, BatchTooLargeError, DelboError, StoppingError
from service.wire.answers import Stored
from service.wire.configuration import check_name
from service.wire.observations import ObservationReader, Observations
from service.wire.parameters import MEDIA_TYPE as MSGPACK

_JSON = "application/json"
_LINES = "application/x-ndjson"
_LONGEST_LINE = 1 << 20
_LINES_AT_ONCE = 4096
_MOST_STREAMS = 256
_MOST_BLANK = 100_000  # blank lines behind one another
_SILENCE_S = 600.0  # after which a stream is given up
_PATIENCE_S = 10.0  # how long a stream waits while the inbox is full
_LARGE = 1 << 18  # bytes; larger bodies are decoded in a thread
_KNOWN = ("client", "sequence", "position")  # in a query

_JSON_HEADERS = [(b"content-type", b"application/json")]
_LINE_HEADERS = [(b"content-type", _LINES.encode()), (b"connection", b"close")]  # what follows a fault is not read

_DECODERS: dict[str, Callable[[ObservationReader, bytes], Observations]] = {
    _JSON: ObservationReader.from_json,
    MSGPACK: ObservationReader.from_msgpack,
}


class ObservationsEndpoint:
    """Takes observations; whatever is acknowledged is on disk."""

    def __init__(self, agent: Agent, bodies: BodyReader) -> None:
        self._agent, self._bodies = agent, bodies
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client, sequence, stands = _asked(scope["query_string"])
        position = None if stands is None else _position(stands, self._agent.reader.dimension)
        kind = media_type(scope)
        if kind == _LINES:
            await self._take_lines(_Stream(self._agent, client, sequence, position), scope, receive, send)
            return
        decode = _DECODERS.get(kind or "")
        if decode is None:
            raise ProblemError(
                "unsupported-media-type", f"content-type {kind!r}: it should be {_JSON}, {_LINES} or {MSGPACK}"
            )
        reader = self._agent.reader
        body = await self._bodies.whole(scope, receive)
        large = len(body) > _LARGE
        observations = await asyncio.to_thread(decode, reader, body) if large else decode(reader, body)
        await self._agent.accept(observations, None if client is None else Mark(client, sequence))
        if position is not None:
            self._agent.recent.stands_at(position)
        answer = _acknowledged(len(observations), client, sequence + 1)
        await send_response(send, 200, _JSON_HEADERS, answer)

    async def _take_lines(self, stream: "_Stream", scope: Scope, receive: Receive, send: Send) -> None:
        if self._streams >= _MOST_STREAMS:
            raise ProblemError("busy", f"{_MOST_STREAMS} streams are open: try again")
        self._streams += 1
        try:
            await stream.run(scope, receive, send)
        finally:
            self._streams -= 1


class _Stream:
    """One request of lines: stored in groups as they arrive; a fault does not undo what was stored before it."""

    def __init__(self, agent: Agent, client: str | None, sequence: int, position: Position | None) -> None:
        self._agent, self._client, self._sequence, self._position = agent, client, sequence, position
        self._stored = 0  # observations of this request that are on disk
        self._marks = 0  # lines of this request that are on disk
        self._line = 0  # lines read, blank ones counted
        self._blank = 0  # blank lines since the last observation
        self._ended = False
        self._acknowledging = False

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the lines. Who accepts lines gets one back for every group, and the last tells how it went.

        Everybody else gets one answer, at the end.
        """
        self._acknowledging = _LINES in (header(scope, b"accept") or "")
        reader = self._agent.reader
        if self._acknowledging:
            await send({"type": "http.response.start", "status": 200, "headers": _LINE_HEADERS})
        try:
            async for group in lines(scope, self._until_stopped(receive), _LONGEST_LINE):
                for begin in range(0, len(group), _LINES_AT_ONCE):
                    await self._take(reader, group[begin : begin + _LINES_AT_ONCE])
                    if self._acknowledging:
                        await send(_line({"stored": self._stored}, more=True))
        except (ProblemError, DelboError) as fault:
            await self._answer_fault(fault, send)
            return
        await self._answer(send)

    def _until_stopped(self, receive: Receive) -> Receive:
        """The same, until the agent shuts down; a stream may be silent for long, but not for ever."""

        async def receive_or_stop() -> Message:
            incoming = asyncio.ensure_future(receive())
            stopped = asyncio.ensure_future(self._agent.stopped.wait())
            try:
                await asyncio.wait((incoming, stopped), timeout=_SILENCE_S, return_when=asyncio.FIRST_COMPLETED)
                if incoming.done():
                    return incoming.result()
                if stopped.done():
                    raise StoppingError("this agent is shutting down")
                raise ProblemError("slow-body", f"nothing came for {_SILENCE_S:g} s")
            finally:
                incoming.cancel()
                stopped.cancel()

        return receive_or_stop

    async def _take(self, reader: ObservationReader, group: list[bytes]) -> None:
        numbered = [(self._line + place, text) for place, text in enumerate(group, 1) if text.strip()]
        self._line += len(group)
        if not numbered:
            self._blank += len(group)
            if self._blank > _MOST_BLANK:
                raise _at(self._line, ProblemError("invalid-observations", "there are too many blank lines"))
            return
        self._blank = 0
        if self._ended:
            raise _at(numbered[0][0], ProblemError("invalid-observations", "nothing may come after the end"))
        observations, fault = reader.from_lines([text for _, text in numbered])
        if len(observations) or observations.end:
            await self._store(observations)
        if fault is not None:
            raise _at(numbered[len(observations) + observations.end][0], fault)

    async def _store(self, observations: Observations) -> None:
        """All at once, or, if the inbox has no room for that, in parts: a full inbox holds a stream up, no more."""
        try:
            await self._accept(observations, patience_s=0.0)
        except (BacklogFullError, BatchTooLargeError):
            begin, rows = 0, len(observations)
            while begin < rows or (observations.end and not self._ended):
                end = begin + max(1, self._room())
                is_end = observations.end and end >= rows
                part = Observations(observations.x[begin:end], observations.y[begin:end], is_end)
                await self._accept(part, _PATIENCE_S)
                begin = end

    async def _accept(self, observations: Observations, patience_s: float) -> None:
        mark = None if self._client is None else Mark(self._client, self._sequence + self._marks, by_line=True)
        await self._agent.accept(observations, mark, patience_s)
        if self._position is not None:
            self._agent.recent.stands_at(self._position)
        self._stored += len(observations)
        self._marks += len(observations) + observations.end
        self._ended = observations.end

    def _room(self) -> int:
        inbox = self._agent.inbox
        return inbox.log.intake.limit - inbox.available

    async def _answer(self, send: Send) -> None:
        answer = _acknowledged(self._stored, self._client, self._sequence + self._marks)
        if self._acknowledging:
            await send({"type": "http.response.body", "body": answer + b"\n"})
        else:
            await send_response(send, 200, _JSON_HEADERS, answer)

    async def _answer_fault(self, fault: Exception, send: Send) -> None:
        problem = problem_of(fault)
        self._agent.traffic.refused[problem.kind.slug] += 1
        told = ProblemError(problem.kind.slug, str(problem), stored=self._stored, **problem.extra)
        if self._acknowledging:
            await send(_line(document_of(told), more=False))
        else:
            await send_problem(send, told)


def _asked(query: bytes) -> tuple[str | None, int, str | None]:
    """(client, sequence, position) of the query; without a client nothing is marked."""
    values = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="utf-8"))
    unknown = [name for name in values if name not in _KNOWN]
    if unknown:
        raise ProblemError("invalid-query", f"{unknown[0][:40]!r} is not known here: {', '.join(_KNOWN)} are")
    client, sequence, position = values.get("client"), values.get("sequence"), values.get("position")
    if (client is None) != (sequence is None):
        raise ProblemError("invalid-query", "client and sequence go together")
    if client is None or sequence is None:
        return None, 0, position
    try:
        check_name(client)
    except ValueError as fault:
        raise ProblemError("invalid-query", f"client: {fault}") from None
    if not (sequence.isascii() and sequence.isdigit() and len(sequence) < 19):
        raise ProblemError("invalid-query", "sequence must be a natural number")
    return client, int(sequence), position


def _position(text: str, dimension: int) -> Position:
    """Where the one who observes stands: shown to whoever may post, and never learned from."""
    try:
        position = tuple(map(float, text.split(","))) if text.isascii() and "_" not in text else ()
    except ValueError:
        position = ()
    if len(position) != dimension or not all(map(math.isfinite, position)):
        raise ProblemError(
            "invalid-query",
            f"position must be finite numbers with commas between, like 1.5,2.0, as many as a point has: {dimension}",
        )
    return position


def _acknowledged(stored: int, client: str | None, next_sequence: int) -> bytes:
    """The answer to a request; the same for its retry."""
    return msgspec.json.encode(Stored(stored, None if client is None else next_sequence))


def _line(document: dict[str, Any], more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": msgspec.json.encode(document) + b"\n", "more_body": more}


def _at(line: int, fault: Exception) -> ProblemError:
    """The fault, with the line where it is; the first line is 1."""
    problem = problem_of(fault)
    return ProblemError(problem.kind.slug, f"line {line}: {problem}", line=line, **problem.extra)
