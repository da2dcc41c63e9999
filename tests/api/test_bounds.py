"""However much comes at once, or how slowly: the agent goes on answering."""

import gzip
import select
import socket
from typing import Any

import numpy as np

from tests.network.networks import model_of
from tests.processes import AgentProcess, Agents, problem, until

GAUSSIAN = {"kind": "gaussian", "precision": 4.0}


def loaded(agents: Agents, *options: object) -> AgentProcess:
    agent = agents("a1", *options)
    agent.put("model", {"revision": 1, "model": model_of("diagonal", GAUSSIAN)})
    return agent


def test_probes_are_answered_while_streams_are_silent_and_no_more_are_taken(agents: Agents) -> None:
    agent = loaded(agents)
    head = b"POST /v1/observations HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-ndjson\r\n"
    streams = [socket.create_connection(("127.0.0.1", agent.port)) for _ in range(300)]
    try:
        for stream in streams:
            stream.sendall(head + b"transfer-encoding: chunked\r\n\r\n")
        line = {"content": b'{"x": [1, 1], "y": 1}\n', "headers": {"content-type": "application/x-ndjson"}}
        until(lambda: len(select.select(streams, [], [], 0)[0]) == 300 - 256)  # so many are sent away
        assert problem(agent.http.post("/v1/observations", **line)) == (503, "busy")  # type: ignore[arg-type]
        assert agent.http.get("/livez").status_code == agent.http.get("/v1/readyz").status_code == 200
        assert agent.post([[1.0, 1.0]], [1.0]).status_code == 200
    finally:
        for stream in streams:
            stream.close()
    until(lambda: agent.http.post("/v1/observations", **line).status_code == 200)  # type: ignore[arg-type]


def test_a_flood_of_blank_lines_is_refused(agents: Agents) -> None:
    agent = loaded(agents)
    headers = {"content-type": "application/x-ndjson", "content-encoding": "gzip"}
    bomb = gzip.compress(b'{"x": [1, 1], "y": 1}\n' + b"\n" * 50_000_000)
    answer = agent.http.post("/v1/observations", content=bomb, headers=headers)
    assert problem(answer) == (422, "invalid-observations")
    assert answer.json()["stored"] == 1


def test_a_round_cannot_wait_for_more_than_the_inbox_holds(agents: Agents) -> None:
    agent = loaded(agents, "--inbox-limit", 100)
    document: dict[str, Any] = {"revision": 1, "observations_per_round": 101}
    assert problem(agent.http.put("/v1/schedule", json=document)) == (422, "invalid-document")
    agent.put("schedule", {**document, "when_short": "go"})


def test_an_almost_full_inbox_does_not_stop_a_round_that_waits(agents: Agents) -> None:
    agent = loaded(agents, "--inbox-limit", 1000)
    agent.put("schedule", {"revision": 1, "observations_per_round": 500, "period_s": 0})
    x = np.random.default_rng(0).uniform(0, 3, (900, 2))
    assert agent.post(x[:200], x[:200, 0]).status_code == 200
    assert agent.post(x, x[:, 0]).status_code == 200
    until(lambda: agent.status()["round"] == 2)


def test_an_agent_is_not_its_own_neighbor(agents: Agents) -> None:
    agent = loaded(agents)
    neighbor = {"name": "a1", "url": agent.url, "weight": 0.5}
    document = {"epoch": 1, "agents": 2, "own_weight": 0.5, "neighbors": [neighbor]}
    assert problem(agent.http.put("/v1/neighbors", json=document)) == (422, "invalid-document")
