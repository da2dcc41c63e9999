"""Many requests over a few connections that are kept: as fast as an agent answers, and every answer is looked at."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import uvloop

from service.api.problems import KINDS
from service.wire.parameters import MEDIA_TYPE
from tests.fuzz.messages import CHECKS
from tests.fuzz.watched_agent import Gap
from tests.processes import PATIENCE_S

CONNECTIONS = 8


@dataclass(frozen=True)
class Request:
    """One message to one endpoint."""

    method: str
    path: str
    body: bytes

    @property
    def written(self) -> bytes:
        """As it goes over the socket."""
        head = (
            f"{self.method} {self.path} HTTP/1.1\r\nhost: a\r\ncontent-type: {MEDIA_TYPE}\r\naccept: {MEDIA_TYPE}\r\n"
        )
        return head.encode() + b"content-length: %d\r\n\r\n" % len(self.body) + self.body


@dataclass
class Tally:
    """What came of the requests."""

    answered: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # by the problem's short name
    stored: int = 0  # observations
    recent: deque[tuple[float, float, Request]] = field(default_factory=lambda: deque(maxlen=5000))

    def during(self, gap: Gap) -> list[Request]:
        """The requests that were under way in a gap."""
        return [one for sent, answered, one in self.recent if sent <= gap.ended and answered >= gap.began]

    def note(self, request: Request, status: int, head: bytes, body: bytes) -> None:
        """Look at one answer."""
        self.answered += 1
        if 200 <= status < 300:
            self._note_success(request, body)
            return
        assert 400 <= status < 500, (request, status, body)
        assert b"\r\ncontent-type: application/problem+json" in head.lower()
        problem = msgspec.json.decode(body)
        kind = KINDS[problem["type"].removeprefix("urn:delbo:problem:")]
        assert (problem["status"], problem["title"], status) == (kind.status, kind.title, kind.status)
        assert problem["detail"]
        self.refused[kind.slug] += 1

    def _note_success(self, request: Request, body: bytes) -> None:
        answer = msgspec.json.decode(body) if request.path == "/v1/observations" else msgspec.msgpack.decode(body)
        sent = msgspec.msgpack.decode(request.body)  # whatever is accepted is one whole msgpack value
        try:
            CHECKS[request.path](sent, answer)
        except (AssertionError, KeyError, TypeError, ValueError) as fault:
            raise AssertionError(f"{request.path} took {sent!r} and answered {answer!r}"[:2000]) from fault
        self.accepted[request.path] += 1
        self.stored += answer.get("stored", 0)


def flood(port: int, requests: Iterator[Request], tally: Tally) -> None:
    """Send all the requests, and note every answer."""

    async def send_all() -> None:
        async with asyncio.timeout(10 * PATIENCE_S), asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS):
                tasks.create_task(_send(port, requests, tally))

    uvloop.run(send_all())


async def _send(port: int, requests: Iterator[Request], tally: Tally) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for request in requests:
            sent = time.monotonic()
            writer.write(request.written)
            status, head, body = await _answer(reader)
            tally.recent.append((sent, time.monotonic(), request))
            tally.note(request, status, head, body)
    finally:
        writer.close()


async def _answer(reader: Any) -> tuple[int, bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    _, _, rest = head.lower().partition(b"\r\ncontent-length: ")
    return int(head[9:12]), head, await reader.readexactly(int(rest[: rest.index(b"\r")]))
