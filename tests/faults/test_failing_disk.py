"""A full disk: the agent stops acknowledging, keeps serving, says so, and goes on when there is room again."""

import resource

import httpx2
import numpy as np

from service.agent.database import FILE_NAME
from tests.network.networks import model_of
from tests.processes import AgentProcess, Agents, problem, until

UNLIMITED = resource.RLIM_INFINITY


def limit_file_size(agent: AgentProcess, size: int) -> None:
    """Let no file of the process grow beyond that: what a full disk looks like from inside."""
    assert agent.process is not None
    resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, (size, UNLIMITED))


def file_size(agent: AgentProcess) -> int:
    """The larger of the agent's two files."""
    return max(path.stat().st_size for path in agent.folder.glob(f"{FILE_NAME}*"))


def test_a_full_disk_stops_acknowledgement_and_nothing_else(agents: Agents) -> None:
    agent = agents("a1")
    agent.put("model", {"revision": 1, "model": model_of("diagonal", {"kind": "gaussian", "precision": 4.0})})
    agent.put("schedule", {"revision": 1, "observations_per_round": 10, "when_short": "go", "period_s": 0.01})
    x = np.random.default_rng(0).uniform(0, 3, (1000, 2))
    sequence = 0
    for _ in range(3):
        assert agent.post(x, x[:, 0], "test", sequence).status_code == 200
        sequence += 1
    limit_file_size(agent, file_size(agent) + 30_000)
    answers: list[httpx2.Response] = []
    while not answers or answers[-1].status_code == 200:
        answers.append(agent.post(x, x[:, 0], "test", sequence))
        sequence += answers[-1].status_code == 200
        assert len(answers) < 1000
    assert problem(answers[-1]) == (503, "storage-failed")
    assert "retry-after" in answers[-1].headers

    # Now nothing fits any more. It cannot commit rounds either: it shows what it has, and what is wrong.
    limit_file_size(agent, 1)
    assert problem(agent.post(x, x[:, 0], "test", sequence)) == (503, "storage-failed")
    ready = agent.http.get("/v1/readyz")
    assert ready.status_code == 503
    assert list(ready.json()["faults"]) == ["storage"]
    assert agent.http.get("/v1/livez").status_code == 200
    assert agent.http.get("/v1/belief").status_code == 200
    shown = agent.http.get("/v1/parameters")
    assert shown.status_code == 200
    status = agent.status()
    assert status["observations"]["collected"] == sequence * 1000
    assert problem(agent.http.put("/v1/schedule", json={"revision": 9})) == (503, "storage-failed")
    assert agent.status()["schedule"]["revision"] == 1

    limit_file_size(agent, UNLIMITED)
    until(lambda: agent.http.get("/v1/readyz").status_code == 200)  # it finds out by itself
    assert agent.post(x, x[:, 0], "test", sequence).status_code == 200
    sequence += 1
    until(lambda: agent.status()["round"] > status["round"])
    agent.kill()
    agent.start()
    assert agent.status()["observations"]["collected"] == sequence * 1000


def test_nothing_acknowledged_is_lost_when_the_agent_is_killed_on_a_full_disk(agents: Agents) -> None:
    agent = agents("a1")
    agent.put("model", {"revision": 1, "model": model_of("diagonal", {"kind": "gaussian", "precision": 4.0})})
    x = np.random.default_rng(0).uniform(0, 3, (500, 2))
    limit_file_size(agent, file_size(agent) + 100_000)
    acknowledged = 0
    for sequence in range(1000):
        if agent.post(x, x[:, 0], "test", sequence).status_code != 200:
            break
        acknowledged += 1
    else:
        raise AssertionError("the disk did not become full")
    agent.kill()
    agent.start()
    assert agent.status()["observations"]["collected"] == 500 * acknowledged
    assert agent.post(x, x[:, 0], "test", acknowledged).status_code == 200
