"""Durable ingest over HTTP, beside a bare application that reads the same bodies and keeps nothing."""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import uvloop

from benchmarks.bare_http import connect
from benchmarks.measure import ROOT, Figure, Result
from service.wire.observations import Observations, to_msgpack
from service.wire.parameters import MEDIA_TYPE
from tests.network.networks import model_of
from tests.processes import AgentProcess, free_port

ROWS = 1000
BATCHES = 800
SINGLES = 6000


class Load(NamedTuple):
    """What one measurement posts: bodies of so many observations from so many clients at once."""

    name: str
    content_type: str
    body: bytes
    rows: int
    clients: int
    posts: int


class Measured(NamedTuple):
    """Observations per second, and the 99th percentile of the time to an acknowledgement."""

    rate: float
    p99_ms: float


def run() -> list[Result]:
    """Each load against the agent and against the floor, the better of two runs of both."""
    x = np.random.default_rng(0).uniform(0, 3, (ROWS, 2))
    y = (x[:, 0] > 1).astype(float)
    columns = json.dumps({"x": x.round(4).tolist(), "y": y.astype(int).tolist()}).encode()
    one = json.dumps({"x": x[0].round(4).tolist(), "y": 1}).encode()
    loads = [
        (Load("ingest, msgpack, 1,000 a post", MEDIA_TYPE, to_msgpack(Observations(x, y)), ROWS, 4, BATCHES), 400_000),
        (Load("ingest, JSON columns, 1,000 a post", "application/json", columns, ROWS, 4, BATCHES), 100_000),
        (Load("ingest, one JSON object a post, 32 clients", "application/json", one, 1, 32, SINGLES), 1_500),
    ]
    return [_compare(load, target) for load, target in loads]


def _compare(load: Load, target: float) -> Result:
    agent = max(_against_agent(load) for _ in range(2))
    floor = max(_against_floor(load) for _ in range(2))
    figures = [Figure("durable observations/s", agent.rate, "1/s", target)]
    if load.rows == 1:
        figures.append(Figure("99 % of posts within", agent.p99_ms, "ms", 50.0, is_limit=True))
    return Result(
        load.name,
        "agent, on disk",
        "bare ASGI, nothing kept",
        1 / agent.rate,
        1 / floor.rate,
        "s per observation",
        figures=tuple(figures),
    )


def _against_agent(load: Load) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        agent = AgentProcess("bench", Path(folder) / "bench", "--inbox-limit", 10_000_000)
        try:
            agent.start().put("model", {"revision": 1, "model": model_of("diagonal", {"kind": "probit"})})
            return uvloop.run(_post(load, agent.port, _request))
        finally:
            agent.close()


def _against_floor(load: Load) -> Measured:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.bare_http", str(port), "13", "0"]
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        return uvloop.run(_post(load, port, _request))
    finally:
        server.kill()
        server.communicate()


async def _post(load: Load, port: int, request: Callable[[Load, int, int], bytes]) -> Measured:
    """All clients post at once, each its next as soon as its last is acknowledged."""
    loop = asyncio.get_running_loop()
    waits: list[float] = []

    async def client(number: int) -> None:
        connection = await connect(port)
        for sequence in range(load.posts // load.clients):
            began = loop.time()
            answer = await connection.ask(request(load, number, sequence))
            waits.append(loop.time() - began)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(answer.decode())
        connection.transport.close()

    warm = await connect(port)
    await warm.ask(request(load, 10_000, 0))
    warm.transport.close()
    began = loop.time()
    await asyncio.gather(*(client(number) for number in range(load.clients)))
    seconds = loop.time() - began
    return Measured(len(waits) * load.rows / seconds, float(np.percentile(waits, 99)) * 1e3)


def _request(load: Load, client: int, sequence: int) -> bytes:
    head = (
        f"POST /v1/observations?client=c{client}&sequence={sequence} HTTP/1.1\r\nHost: agent\r\n"
        f"Content-Type: {load.content_type}\r\nContent-Length: {len(load.body)}\r\n\r\n"
    )
    return head.encode() + load.body
