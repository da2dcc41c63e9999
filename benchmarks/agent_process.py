"""One idle agent: the memory it holds and the time until it is ready, beside a process that only serves HTTP."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2
import numpy as np

from benchmarks.measure import ROOT, Figure, Result
from tests.network.networks import model_of
from tests.processes import AgentProcess, free_port, until


def run() -> list[Result]:
    """A warm start, the memory once a model is loaded, and a start after a kill with a full inbox."""
    bare_s, bare_mb = _bare()
    with tempfile.TemporaryDirectory() as folder:
        agent = AgentProcess("bench", Path(folder) / "bench")
        try:
            starts = []
            for _ in range(3):
                agent.kill()
                starts.append(_seconds_to_ready(agent))
            agent.put("model", {"revision": 1, "model": model_of("diagonal", {"kind": "probit"})})
            idle_mb = _resident_mb(agent)
            x = np.random.default_rng(0).uniform(0, 3, (100_000, 2))
            for sequence in range(10):
                agent.post(x, (x[:, 0] > 1).astype(float), "bench", sequence).raise_for_status()
            agent.kill()
            after_kill_s = _seconds_to_ready(agent)
        finally:
            agent.close()
    return [
        Result(
            "ready after start",
            "agent",
            "bare uvicorn",
            min(starts),
            bare_s,
            "s",
            figures=(
                Figure("ready after start", min(starts), "s", 3.0, is_limit=True),
                Figure("ready after kill -9, a million observations waiting", after_kill_s, "s", 5.0, is_limit=True),
            ),
        ),
        Result(
            "memory of an idle agent",
            "agent",
            "bare uvicorn",
            idle_mb,
            bare_mb,
            "MB",
            figures=(Figure("resident memory", idle_mb, "MB", 200.0, is_limit=True),),
        ),
    ]


def _seconds_to_ready(agent: AgentProcess) -> float:
    began = time.perf_counter()
    agent.start()
    return time.perf_counter() - began


def _resident_mb(agent: AgentProcess) -> float:
    if agent.process is None:
        raise RuntimeError("the agent does not run")
    return _memory_mb(agent.process.pid)


def _memory_mb(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024 / 1e6


def _bare() -> tuple[float, float]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.bare_http", str(port), "13", "0"]
    began = time.perf_counter()
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port))
        return time.perf_counter() - began, _memory_mb(server.pid)
    finally:
        server.kill()
        server.communicate()


def _answers(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/", trust_env=False).status_code == 200
    except httpx2.TransportError:
        return False
