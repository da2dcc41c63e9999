"""Two real agents that have mixed, and everything that is known of them but by their metrics."""

import http.client
import json
import socket
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.api.line_stream import LINES
from tests.api.test_events import PAUSED, run_rounds
from tests.api.test_reading import make_rows, model_of
from tests.processes import PATIENCE_S, AgentProcess, codec_of, problem

MODEL = model_of("diagonal")
CODEC = codec_of(MODEL)
ROUNDS, BATCH, AHEAD = 4, 5, 7  # AHEAD: observations that still wait at the end
X, Y = make_rows(2 * (BATCH * ROUNDS + AHEAD))
X[0] = 9.0  # where no centre reaches
EPOCH, FORGETTING, WEIGHT = 3, 0.9, 0.25
ODD_NAME = 'b"\\ {,=} \u00e4'


class Metrics:
    """The metrics of one answer."""

    def __init__(self, text: str) -> None:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        self.samples = {(one.name, tuple(sorted(one.labels.items()))): float(one.value) for one in samples}
        assert len(self.samples) == len(samples)  # none is there twice

    def __call__(self, name: str, **labels: str) -> float | None:
        """One sample, of delbo's; None if it is not there."""
        return self.samples.get((f"delbo_{name}", tuple(sorted(labels.items()))))

    def all(self, name: str) -> dict[tuple[str, ...], float]:
        """All samples of a name, by the values of their labels in the order of the labels' names."""
        found = ((labels, value) for (one, labels), value in self.samples.items() if one == f"delbo_{name}")
        return {tuple(value for _, value in labels): sample for labels, sample in found}


@dataclass
class Counted:
    """An agent, and what a test sends to it and gets from it, counted on this side."""

    agent: AgentProcess
    sent: int = 0
    got: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.agent.http.event_hooks["response"].append(self._count)

    def ask_plainly(self, target: str) -> None:
        """As peers ask: the connection itself answers, without uvicorn; here, with a problem."""
        with socket.create_connection(("127.0.0.1", self.agent.port), PATIENCE_S) as connection:
            connection.sendall(f"GET {target} HTTP/1.1\r\nhost: agent\r\n\r\n".encode())
            with http.client.HTTPResponse(connection) as answer:
                answer.begin()
                body = answer.read()
        self.got["peers"] += len(body)
        self._count_problem(body)

    def send_lines(self, text: bytes) -> None:
        """Lines, of which the last is refused: the status was sent long before."""
        headers = {"content-type": LINES, "accept": LINES}
        answer = self.agent.http.post("/v1/observations", content=text, headers=headers)
        assert answer.status_code == 200
        self._count_problem(answer.content.splitlines()[-1])

    def metrics(self) -> Metrics:
        """What the agent tells; of bytes, those that went before this answer."""
        return Metrics(self.agent.http.get("/metrics").text)

    def _count(self, answer: httpx2.Response) -> None:
        path = answer.request.url.path
        self.sent += len(answer.request.read())
        self.got["peers" if path == "/v1/parameters" else "others"] += len(answer.read())
        if answer.status_code >= 400:
            assert problem(answer)
            self._count_problem(answer.content)

    def _count_problem(self, body: bytes) -> None:
        self.problems[json.loads(body)["type"].rpartition(":")[2]] += 1


@dataclass
class Story:
    """Two agents after some rounds, and what each showed, round by round."""

    one: Counted
    other: Counted
    shown: list[tuple[Any, Any]]  # the evidence of both
    sizes: list[int]  # of the messages of `one`, which the other has pulled


def live_through(one: Counted, other: Counted) -> Story:
    """Both take a batch every round, one after the other; the first is verified in every round."""
    for index, (own, peer) in enumerate(((one, other), (other, one))):
        prepare(own.agent, index, peer.agent)
    points = {"x": X[1:].tolist(), "y": Y[1:].astype(int).tolist()}
    one.agent.put("verification", {"revision": 1, "every_rounds": 1, **points})
    shown, sizes = [evidence_of(one, other)], []
    for _ in range(ROUNDS):
        sizes.append(len(one.agent.http.get("/v1/parameters").content))
        for own in (one, other):
            run_rounds(own.agent, 1)
        shown.append(evidence_of(one, other))
    be_refused(one)
    return Story(one, other, shown, sizes)


def prepare(agent: AgentProcess, index: int, peer: AgentProcess) -> None:
    """Every second observation, and the other agent as the only neighbor."""
    agent.put("model", {"revision": 1, "model": MODEL})
    neighbors = [{"name": peer.name, "url": peer.url, "weight": WEIGHT}]
    document = {"epoch": EPOCH, "agents": 2, "index": index, "own_weight": 1 - WEIGHT, "neighbors": neighbors}
    agent.put("neighbors", document | {"history": 2})
    agent.put("schedule", PAUSED | {"observations_per_round": BATCH, "forgetting": FORGETTING})
    assert agent.post(X[index::2], Y[index::2]).status_code == 200


def evidence_of(one: Counted, other: Counted) -> tuple[Any, Any]:
    """What both show now."""
    return one.agent.message(CODEC).parts[0].evidence, other.agent.message(CODEC).parts[0].evidence


def be_refused(counted: Counted) -> None:
    """By all the ways into an agent."""
    web = counted.agent.http
    web.get("/nowhere")
    web.get("/nowhere/else")
    web.delete("/v1/model")
    web.get("/v1/history?limit=0")
    web.get("/v1/events?now")
    web.put("/v1/schedule", json={"revision": 0})
    web.put("/v1/schedule", content=b"{", headers={"content-type": "application/json"})
    web.post("/v1/observations", json={"x": [1], "y": 1})
    web.post("/v1/observations", content=b"?", headers={"content-type": LINES})
    web.get(f"/v1/parameters?epoch={EPOCH}&round=999", headers={"x-odd": "so that uvicorn answers"})
    counted.ask_plainly(f"/v1/parameters?epoch={EPOCH}&round=999")
    counted.ask_plainly("/v1/parameters?round=many")
    counted.send_lines(b'{"x": [1, 1], "y": 0.5}\n')
    assert sum(counted.problems.values()) == 13
