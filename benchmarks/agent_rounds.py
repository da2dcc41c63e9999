"""Network rounds of four real agents on a ring, every round committed, beside the same pulls with nothing else."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import ROOT, Result
from tests.processes import AgentProcess, free_port, until

ROUNDS = 1000
BARE_ROUNDS = 2000
BATCH = 10
CENTERS = 1500


def run() -> list[Result]:
    """Both in turn, the better of two runs of each."""
    first = _agents()
    size, bare = _bare()
    rate = max(first, _agents())
    bare = max(bare, _bare()[1])
    remark = (
        f"agents: {rate:.0f} network rounds/s, committed; bare pulls of the same {size} bytes: {bare:.0f}/s; "
        f"share {rate / bare:.0%}. docs/agent.md says where the rest goes."
    )
    return [
        Result(
            "lockstep rounds, 4 agents",
            "agents, 10 observations, fsync",
            "bare client, bare ASGI",
            1 / rate,
            1 / bare,
            "s per network round",
            target=0.25,
            remark=remark,
        )
    ]


def _agents() -> float:
    generator = np.random.default_rng(0)
    centers = generator.uniform(0, 10, (CENTERS, 2)).tolist()
    model = {
        "features": {"kind": "centers", "centers": centers, "lengthscale": 0.5},
        "prior": {"information": 0.2},
        "likelihood": {"kind": "probit"},
    }
    with tempfile.TemporaryDirectory() as folder:
        agents = [AgentProcess(f"a{number}", Path(folder) / f"a{number}") for number in range(4)]
        try:
            for agent in agents:
                agent.launch()
            for number, agent in enumerate(agents):
                agent.wait_ready()
                agent.put("model", {"revision": 1, "model": model})
                x = generator.uniform(0, 10, (ROUNDS * BATCH, 2))
                agent.post(x, (x.sum(axis=1) > 10).astype(float), "bench", 0, end=True).raise_for_status()
                beside = (agents[number - 1], agents[(number + 1) % 4])
                neighbors = [{"name": one.name, "url": one.url, "weight": 1 / 3} for one in beside]
                agent.put("neighbors", {"epoch": 1, "agents": 4, "own_weight": 1 / 3, "neighbors": neighbors})
            began = time.perf_counter()
            for agent in agents:
                schedule = {"revision": 1, "observations_per_round": BATCH, "period_s": 0, "until_round": ROUNDS}
                agent.put("schedule", schedule)
            ask = {"epoch": 1, "round": ROUNDS, "wait_s": 30}
            for agent in agents:
                until(lambda agent=agent: agent.http.get("/v1/parameters", params=ask).status_code == 200)  # type: ignore[misc]
            return ROUNDS / (time.perf_counter() - began)
        finally:
            for agent in agents:
                agent.close()


def _bare() -> tuple[int, float]:
    size = 16 * (CENTERS + 1) + 180
    ports = [free_port() for _ in range(4)]
    peers = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.bare_http"]
            + [str(argument) for argument in (ports[k], size, BARE_ROUNDS, ports[k - 1], ports[(k + 1) % 4])],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(4)
    ]
    try:
        for peer in peers:
            _hear(peer)
        for peer in peers:
            _tell(peer)
        seconds = [float(_hear(peer)) for peer in peers]
        for peer in peers:
            _tell(peer)
        return size, BARE_ROUNDS / max(seconds)
    finally:
        for peer in peers:
            peer.kill()
            peer.communicate()


def _tell(peer: "subprocess.Popen[str]") -> None:
    if peer.stdin:
        peer.stdin.write("\n")
        peer.stdin.flush()


def _hear(peer: "subprocess.Popen[str]") -> str:
    return peer.stdout.readline() if peer.stdout else ""
