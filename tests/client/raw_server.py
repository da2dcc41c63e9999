"""A server made of bytes: for answers that no agent would give, and for those that get lost."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx2

from service.wire.problems import PROBLEM_TYPE, problem_type
from tests.processes import PATIENCE_S, AgentProcess


@dataclass(frozen=True)
class Asked:
    """A request that has arrived whole."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Reply = bytes | AsyncIterator[bytes] | None  # None: the connection is cut
Answer = Reply | Callable[[Asked], Awaitable[Reply]]


@dataclass
class RawServer:
    """Answers one request after the other as the list says, and all that follow as the last."""

    answers: tuple[Answer, ...]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    connections: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it is cut by either side."""
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        # asyncio's streams would complain of a handler that was cancelled.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                request = await _read(reader)
                self.asked.append(request)
                answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
                reply = await answer(request) if callable(answer) else answer
                if reply is None:
                    break
                async for piece in _pieces(reply):
                    writer.write(piece)
                    await writer.drain()
        writer.transport.abort()
        self.connections.discard(task)


@asynccontextmanager
async def raw_server(*answers: Answer) -> AsyncIterator[RawServer]:
    """Serve on loopback until the block ends."""
    raw = RawServer(answers)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield raw
    finally:
        server.close()
        for task in list(raw.connections):
            task.cancel()
        await asyncio.gather(*raw.connections, return_exceptions=True)


async def _pieces(reply: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(reply, bytes):
        yield reply
    else:
        async for piece in reply:
            yield piece


async def trickling(_: Asked) -> Reply:
    """An answer that never ends, bit by bit."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        while True:
            yield b"1\r\n \r\n"
            await asyncio.sleep(0.01)

    return pieces()


async def never(_: Asked) -> Reply:
    """No answer at all."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


def passed_on(agent: AgentProcess, lose_answer: bool = False) -> Callable[[Asked], Awaitable[Reply]]:
    """What the agent answers; or, after it has answered, a cut connection."""

    async def answer(request: Asked) -> Reply:
        async with httpx2.AsyncClient(base_url=agent.url, timeout=PATIENCE_S, trust_env=False) as http:
            given = await http.request(
                request.method, request.target, content=request.body, headers={**request.headers, "host": "agent"}
            )
        return None if lose_answer else reply(given.status_code, given.content, given.headers["content-type"])

    return answer


def reply(status: int, body: bytes = b"", kind: str = "application/json", **headers: object) -> bytes:
    """An answer as bytes; a header's underscores become hyphens."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"content-type: {kind}", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def problem_reply(status: int, slug: str, detail: str = "told so", **headers: object) -> bytes:
    """A problem as an agent tells it."""
    document: dict[str, Any] = {"type": problem_type(slug), "title": "A title", "status": status, "detail": detail}
    return reply(status, json.dumps(document).encode(), PROBLEM_TYPE, **headers)


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, target, headers, body)
