"""Real agents for tests: processes of their own, real sockets, real files."""

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec
import numpy as np

from service.wire.configuration import ModelDocument
from service.wire.observations import Observations, to_msgpack
from service.wire.parameters import MEDIA_TYPE, ParameterCodec, ParameterMessage

ROOT = Path(__file__).parent.parent
PATIENCE_S = 120.0  # a bound for what must happen, on the busiest machine; no test takes that long

Found = TypeVar("Found")

# Below the ports that the kernel hands out, so that an agent that is started again finds its port free.
_PORTS = range(20_000, 32_000)
_random = random.SystemRandom()
_handed_out: set[int] = set()


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    for _ in _PORTS:
        port = _random.choice(_PORTS)
        if port in _handed_out:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _handed_out.add(port)
        return port
    raise RuntimeError("no port is free")


def until(condition: Callable[[], Found], patience_s: float = PATIENCE_S) -> Found:
    """What the condition gives once it gives something true; asked again and again, at most for so long."""
    give_up_at = time.monotonic() + patience_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > give_up_at:
            raise AssertionError(f"it did not come true in {patience_s:g} s")
        time.sleep(0.01)


class AgentProcess:
    """One agent: `python -m service` on a port and folder that stay the same over restarts."""

    def __init__(self, name: str, folder: Path, *options: object, **environment: str) -> None:
        self.name, self.folder, self.port = name, folder, free_port()
        self.options, self.environment = options, environment
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx2.Client(base_url=self.url, timeout=60, trust_env=False)
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder.parent / f"{folder.name}.log"

    def start(self) -> "AgentProcess":
        """Start the process and wait until it is ready."""
        self.launch()
        return self.wait_ready()

    def launch(self) -> None:
        """Start the process, and do not wait."""
        options = ["--name", self.name, "--port", self.port, "--data-dir", self.folder, *self.options]
        command = [sys.executable, "-m", "service", *map(str, options)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, **self.environment}
            )

    def wait_ready(self) -> "AgentProcess":
        """Wait until it says that it is ready."""
        until(self.is_ready)
        return self

    def is_ready(self) -> bool:
        """Whether /v1/readyz says so; a process that has ended is an error."""
        if self.process is None or self.process.poll() is not None:
            raise AssertionError(f"{self.name} has ended: {self.log.read_text()[-2000:]}")
        try:
            return self.http.get("/v1/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def terminate(self) -> int:
        """SIGTERM, and the exit code."""
        if self.process is None:
            raise AssertionError(f"{self.name} was not started")
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """End it in any case."""
        self.kill()
        self.http.close()

    def put(self, what: str, document: dict[str, Any]) -> httpx2.Response:
        """PUT a document; it must be accepted."""
        answer = self.http.put(f"/v1/{what}", json=document)
        assert answer.status_code == 200, answer.text
        return answer

    def status(self) -> dict[str, Any]:
        """/v1/status."""
        answer = self.http.get("/v1/status")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def post(self, x: Any, y: Any, client: str | None = None, sequence: int = 0, end: bool = False) -> httpx2.Response:
        """POST observations as msgpack."""
        body = to_msgpack(Observations(np.asarray(x, float), np.asarray(y, float), end))
        mark: dict[str, str | int] = {} if client is None else {"client": client, "sequence": sequence}
        return self.http.post("/v1/observations", params=mark, content=body, headers={"content-type": MEDIA_TYPE})

    def end_stream(self, client: str, sequence: int) -> None:
        """Say that the stream is over."""
        answer = self.http.post("/v1/observations", params={"client": client, "sequence": sequence}, json={"end": True})
        assert answer.status_code == 200, answer.text

    def message(self, codec: ParameterCodec, **query: Any) -> ParameterMessage:
        """/v1/parameters, decoded."""
        answer = self.http.get("/v1/parameters", params=query)
        assert answer.status_code == 200, answer.text
        return codec.decode(answer.content)


def codec_of(model: dict[str, Any]) -> ParameterCodec:
    """What decodes the parameters of agents with this model."""
    spec = ModelDocument.parse({"revision": 1, "model": model}).spec
    return ParameterCodec(spec.model_id, spec.build_prior(spec.build_features()))


def problem(answer: httpx2.Response) -> tuple[int, str]:
    """Status and short name of the problem that an answer is."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["title"]
    assert document["detail"]
    return answer.status_code, document["type"].removeprefix("urn:delbo:problem:")


Agents = Callable[..., AgentProcess]


def agent_factory(folder: Path) -> Iterator[Agents]:
    """A function that starts agents by name, and ends them all afterwards."""
    started: list[AgentProcess] = []

    def start(name: str = "a1", *options: object, wait: bool = True, **environment: str) -> AgentProcess:
        agent = AgentProcess(name, folder / name, *options, **environment)
        started.append(agent)
        agent.launch()
        return agent.wait_ready() if wait else agent

    try:
        yield start
    finally:
        for agent in started:
            agent.close()


def unpack(answer: httpx2.Response) -> dict[str, Any]:
    """A msgpack answer."""
    assert answer.headers["content-type"] == MEDIA_TYPE
    return dict(msgspec.msgpack.decode(answer.content))
