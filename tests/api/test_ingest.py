"""Observations come in five forms and all at once or bit by bit; what is acknowledged is stored, and stored once."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import numpy as np
import pytest

from service.inference.arrays import FloatArray
from service.inference.belief import Evidence
from service.wire.configuration import ModelDocument
from service.wire.observations import Observations, to_msgpack
from service.wire.parameters import MEDIA_TYPE
from tests.api.line_stream import LINES, LineStream, lines_of
from tests.processes import AgentProcess, Agents, agent_factory, codec_of, problem, until

JSON = "application/json"
PRECISION = 4.0
MODEL: dict[str, Any] = {
    "features": {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [2, 2]},
    "family": "full",
    "prior": {"information": 0.5},
    "likelihood": {"kind": "gaussian", "precision": PRECISION},
}


def make_rows(count: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    generator = np.random.default_rng(seed)
    return generator.uniform(0, 2, (count, 2)), generator.normal(size=count)


X, Y = make_rows(300)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """A paused agent with room; each test takes a client name of its own."""
    for start in agent_factory(tmp_path_factory.mktemp("ingest")):
        agent = start("a1")
        agent.put("model", {"revision": 1, "model": MODEL})
        agent.put("schedule", {"revision": 1, "observations_per_round": 1_000_000, "when_short": "go", "paused": True})
        yield agent


def collected(agent: AgentProcess) -> int:
    return int(agent.status()["observations"]["collected"])


def post(agent: AgentProcess, content: Any, kind: str, encoding: str = "identity", **mark: Any) -> httpx2.Response:
    headers = {"content-type": kind, "content-encoding": encoding}
    return agent.http.post("/v1/observations", params=mark, content=content, headers=headers)


# The same observations, whatever they look like.


def columns() -> bytes:
    return json.dumps({"x": X.tolist(), "y": Y.tolist()}).encode()


def post_one_by_one(agent: AgentProcess) -> list[httpx2.Response]:
    return [post(agent, json.dumps({"x": x.tolist(), "y": y}), JSON) for x, y in zip(X, Y, strict=True)]


def post_columns(agent: AgentProcess) -> list[httpx2.Response]:
    return [post(agent, columns(), JSON)]


def post_lines(agent: AgentProcess) -> list[httpx2.Response]:
    return [post(agent, lines_of(X, Y), LINES)]


def post_arrays(agent: AgentProcess) -> list[httpx2.Response]:
    return [post(agent, to_msgpack(Observations(X, Y)), MEDIA_TYPE)]


def post_compressed(agent: AgentProcess) -> list[httpx2.Response]:
    body, lines = gzip.compress(columns()[:-1] + b"  }"), gzip.compress(lines_of(X, Y).rstrip(b"\n"))
    half = len(lines) // 2
    answers = [post(agent, body, JSON, "gzip", client="zip", sequence=0)]
    answers += [post(agent, iter([lines[:half], lines[half:]]), LINES, "gzip", client="zipped lines", sequence=0)]
    return answers


@pytest.mark.parametrize(
    ("send", "times"),
    [(post_one_by_one, 1), (post_columns, 1), (post_lines, 1), (post_arrays, 1), (post_compressed, 2)],
)
def test_every_form_of_posting_gives_the_same_observations(
    agent: AgentProcess, send: Callable[[AgentProcess], list[httpx2.Response]], times: int
) -> None:
    """With Gaussian noise and a full family, observations add the same evidence whatever was there before."""
    codec = codec_of(MODEL)
    before = agent.message(codec).parts[0].evidence
    answers = send(agent)
    assert [answer.status_code for answer in answers] == [200] * len(answers), answers[0].text
    assert sum(answer.json()["stored"] for answer in answers) == times * len(X)
    applied = agent.http.post("/v1/rounds", json={"rounds": 1}).json()["rounds"]
    assert [one["observations"] for one in applied] == [times * len(X)]
    after = agent.message(codec).parts[0].evidence
    expected = evidence_of(X, Y)
    scale = np.abs(after.information).max()  # rounding is of what is there
    assert np.abs(after.information - before.information - times * expected.information).max() <= 1e-12 * scale
    assert np.abs(after.shift - before.shift - times * expected.shift).max() <= 1e-12 * scale


def evidence_of(x: FloatArray, y: FloatArray) -> Evidence:
    """tau Phi^T Phi and tau Phi^T y, densely."""
    features = ModelDocument.parse({"revision": 1, "model": MODEL}).spec.build_features()
    dense = features.activate(x).dense()
    return Evidence(PRECISION * dense.T @ dense, PRECISION * dense.T @ y)


# Lines, while they arrive.


def test_lines_are_acknowledged_while_more_are_to_come(agent: AgentProcess) -> None:
    before = collected(agent)
    with LineStream(agent, acknowledged=True, client="acknowledged", sequence=0) as stream:
        stream.send(lines_of(X[:3], Y[:3]))
        assert stream.read_head() == 200
        assert stream.read_line() == {"stored": 3}
        assert collected(agent) == before + 3
        fourth = lines_of(X[3:4], Y[3:4])
        stream.send(fourth[:9])  # a line in two pieces
        stream.send(fourth[9:] + lines_of(X[4:5], Y[4:5]))
        assert stream.read_line() == {"stored": 5}
        assert collected(agent) == before + 5
        stream.send(lines_of(X[5:6], Y[5:6])[:-1])  # the last may lack its end
        stream.finish()
        assert stream.read_line() == {"stored": 6}
        assert stream.read_line() == {"stored": 6, "next_sequence": 6}
    assert collected(agent) == before + 6


def test_without_acknowledgements_lines_are_stored_while_more_are_to_come(agent: AgentProcess) -> None:
    before = collected(agent)
    with LineStream(agent) as stream:
        for count in (1, 2, 3):
            stream.send(lines_of(X[:1], Y[:1]))
            until(lambda count=count: collected(agent) == before + count)  # type: ignore[misc]
        stream.finish()
        assert stream.read_head() == 200
        assert stream.read_document() == {"stored": 3}


def test_a_retry_of_a_half_stored_stream_stores_only_the_rest(agent: AgentProcess) -> None:
    before = collected(agent)
    mark: dict[str, Any] = {"client": "broke off", "sequence": 0}
    with LineStream(agent, **mark) as stream:
        stream.send(lines_of(X[:100], Y[:100]) + b'{"x": [1, ')
        until(lambda: collected(agent) == before + 100)
    for _ in range(2):
        answer = post(agent, lines_of(X, Y), LINES, **mark)
        assert answer.json() == {"stored": 300, "next_sequence": 300}
        assert collected(agent) == before + 300
    again = post(agent, lines_of(X[250:], Y[250:]), LINES, client="broke off", sequence=250)
    assert again.json() == {"stored": 50, "next_sequence": 300}
    assert collected(agent) == before + 300
    other = post(agent, lines_of(X[250:], -Y[250:]), LINES, client="broke off", sequence=250)
    assert problem(other) == (409, "mark-conflict")
    assert collected(agent) == before + 300


@pytest.mark.parametrize(
    ("kind", "body", "stored", "following"),
    [
        (JSON, b'{"x": [1, 1], "y": 2}', 1, 1),
        (JSON, columns(), 300, 1),
        (JSON, b'{"end": true}', 0, 1),
        (MEDIA_TYPE, to_msgpack(Observations(X, Y, end=True)), 300, 1),
        (LINES, lines_of(X, Y) + b'{"end": true}\n', 300, 301),
    ],
    ids=["one", "columns", "end", "arrays", "lines"],
)
def test_a_retry_is_answered_as_the_first_time(
    agent: AgentProcess, kind: str, body: bytes, stored: int, following: int, request: pytest.FixtureRequest
) -> None:
    before = collected(agent)
    answers = [post(agent, body, kind, client=request.node.name, sequence=0) for _ in range(3)]
    assert answers[0].json() == {"stored": stored, "next_sequence": following}
    assert {(one.status_code, one.content, one.headers["content-type"]) for one in answers} == {
        (200, answers[0].content, JSON)
    }
    assert collected(agent) == before + stored


def test_two_hundred_thousand_lines_come_in_one_request(agent: AgentProcess) -> None:
    before = collected(agent)
    piece = lines_of(*make_rows(2_000))
    answer = post(agent, (piece for _ in range(100)), LINES, client="long", sequence=0)
    assert answer.json() == {"stored": 200_000, "next_sequence": 200_000}
    assert collected(agent) == before + 200_000
    assert post(agent, piece, LINES, client="long", sequence=200_000).json()["next_sequence"] == 202_000


def test_clients_that_post_at_once_are_all_stored_once(agent: AgentProcess) -> None:
    before = collected(agent)
    answers: list[int] = []

    def send(number: int) -> None:
        for sequence in range(5):
            answers.extend(agent.post(X[:7], Y[:7], f"thread {number}", sequence).status_code for _ in range(2))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 80
    assert collected(agent) == before + 8 * 5 * 7


# More than the inbox holds.


@pytest.mark.parametrize(("limit", "batch"), [(5_000, 1_000), (50, 40)])
def test_a_stream_longer_than_the_inbox_waits_for_room(agents: Agents, limit: int, batch: int) -> None:
    """Also where a round takes most of the inbox, and waits for a full batch."""
    agent = agents("a1", "--inbox-limit", limit)
    agent.put("model", {"revision": 1, "model": MODEL})
    rows, answers = 4 * limit, []
    x, y = make_rows(rows)
    body = lines_of(x, y) + b'{"end": true}\n'

    def send() -> None:
        answers.append(post(agent, (body[at : at + 9_999] for at in range(0, len(body), 9_999)), LINES))

    sender = threading.Thread(target=send)
    sender.start()
    until(lambda: answers or agent.status()["observations"]["backlog"] == limit)
    assert not answers
    agent.put("schedule", {"revision": 1, "observations_per_round": batch, "when_short": "wait", "period_s": 0})
    sender.join()
    assert answers[0].json() == {"stored": rows}
    until(lambda: agent.status()["observations"]["applied"] == rows)
    evidence, expected = agent.message(codec_of(MODEL)).parts[0].evidence, evidence_of(x, y)
    assert np.abs(evidence.information - expected.information).max() <= 1e-9 * np.abs(expected.information).max()
    assert np.abs(evidence.shift - expected.shift).max() <= 1e-9 * np.abs(expected.information).max()


def test_gzip_files_one_behind_the_other_are_one_body(agent: AgentProcess) -> None:
    before = collected(agent)
    content = gzip.compress(lines_of(X[:100], Y[:100])) + gzip.compress(lines_of(X[100:], Y[100:]))
    assert post(agent, content, LINES, "gzip").json() == {"stored": len(X)}
    assert collected(agent) == before + len(X)
