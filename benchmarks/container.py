"""An agent in a container: the time until it is ready, beside the same agent as a process; and the image's size."""

import tempfile
import time
from pathlib import Path
from secrets import token_hex

import httpx2

from benchmarks.measure import Figure, Result, UnavailableError
from tests.containers.engine import BASE, HARDENED, IMAGE, Engine, find_engine
from tests.processes import AgentProcess, free_port, until

_STARTS = 3


def run() -> list[Result]:
    """The better of a few starts of each."""
    engine = find_engine()
    if engine is None:
        raise UnavailableError("neither docker nor podman works here")
    engine.build()
    contained_s = min(_contained(engine) for _ in range(_STARTS))
    added_mb = (engine.image_size(IMAGE) - engine.image_size(BASE)) / 1e6
    return [
        Result(
            "ready after start",
            "agent in a container",
            "agent",
            contained_s,
            min(_process() for _ in range(_STARTS)),
            "s",
            figures=(
                Figure("ready after the engine's run", contained_s, "s", 5.0, is_limit=True),
                Figure("what the image adds to its base", added_mb, "MB", 650.0, is_limit=True),
            ),
        )
    ]


def _contained(engine: Engine) -> float:
    name, port = f"delbo-bench-{token_hex(3)}", free_port()
    options = ["--rm", "-d", *HARDENED, "--volume", "/data", "-p", f"127.0.0.1:{port}:8001", "--name", name]
    began = time.perf_counter()
    engine("run", *options, IMAGE, "agent", "--name", "bench", "--insecure")
    try:
        until(lambda: _is_ready(port))
        return time.perf_counter() - began
    finally:
        engine("kill", name)


def _process() -> float:
    with tempfile.TemporaryDirectory() as folder:
        agent = AgentProcess("bench", Path(folder) / "bench")
        began = time.perf_counter()
        try:
            agent.start()
            return time.perf_counter() - began
        finally:
            agent.close()


def _is_ready(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/v1/readyz", trust_env=False).status_code == 200
    except httpx2.TransportError:
        return False
