"""Every bad request gets a problem of its own kind, and changes nothing."""

import gzip
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgspec
import numpy as np
import pytest

from service.wire.arrays import to_wire
from service.wire.parameters import MEDIA_TYPE
from tests.processes import AgentProcess, Agents, agent_factory, problem, until

JSON, LINES, MSGPACK = "application/json", "application/x-ndjson", MEDIA_TYPE
BODY_LIMIT, INBOX_LIMIT = 65_536, 100

LATTICE = {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [2, 2]}
MODEL: dict[str, Any] = {"features": LATTICE, "prior": {"information": 0.5}, "likelihood": "probit"}
SCHEDULE = {"revision": 2, "exchange": "latest", "observations_per_round": 4, "period_s": 0, "until_round": 5}
X, Y = np.linspace(0, 2, 20).reshape(10, 2), np.arange(10) % 2
PENDING = 60

# A configured agent has model revision 2, epoch 3, schedule revision 2. It is at round 5 and keeps two rounds. Client
# "robot" has sent 0 and 1, "done" has ended its stream; 11 observations are applied, 60 wait.


def configure(agent: AgentProcess) -> AgentProcess:
    agent.put("model", {"revision": 2, "model": MODEL})
    agent.put("neighbors", {"epoch": 3, "own_weight": 1.0})
    assert agent.post(X, Y, "robot", 0).status_code == 200
    assert agent.post(X[:1], Y[:1], "done", 0, end=True).status_code == 200
    agent.put("schedule", SCHEDULE)
    until(lambda: agent.status()["phase"] == "finished")
    assert agent.post(np.ones((PENDING, 2)), np.ones(PENDING), "robot", 1).status_code == 200
    return agent


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    for start in agent_factory(tmp_path_factory.mktemp("configured")):
        yield configure(start("a1", "--inbox-limit", INBOX_LIMIT, "--body-limit", BODY_LIMIT))


@pytest.fixture(scope="module")
def storing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that stores and never applies; each test takes a client name of its own."""
    for start in agent_factory(tmp_path_factory.mktemp("storing")):
        agent = start("a1")
        agent.put("model", {"revision": 1, "model": MODEL})
        yield agent


def everything(agent: AgentProcess) -> tuple[dict[str, Any], bytes]:
    """All that a request could have changed, as far as it shows."""
    status = agent.status()
    shown = ("model_id", "epoch", "round", "rounds_in_all", "phase", "observations", "neighbors", "schedule", "faults")
    parameters = agent.http.get("/v1/parameters")
    return {name: status[name] for name in shown}, parameters.content if parameters.status_code == 200 else b""


@dataclass(frozen=True)
class Case:
    """A request, and the problem that it is."""

    fact: str
    method: str
    path: str
    status: int
    slug: str
    content: bytes | Callable[[], Iterator[bytes]] = b""
    headers: dict[str, str] = field(default_factory=dict)
    says: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def send(self, agent: AgentProcess) -> httpx2.Response:
        content = self.content if isinstance(self.content, bytes) else self.content()
        return agent.http.request(self.method, self.path, content=content, headers=self.headers)

    def check(self, agent: AgentProcess) -> httpx2.Response:
        before = everything(agent)
        answer = self.send(agent)
        assert problem(answer) == (self.status, self.slug), answer.text
        document = answer.json()
        assert self.says in document["detail"]
        assert document.items() >= self.extra.items()
        assert ("retry-after" in answer.headers) == (self.status in (429, 503))
        assert everything(agent) == before
        assert "Traceback" not in agent.log.read_text()
        return answer


def ids(cases: list[Case]) -> list[str]:
    return [f"{case.method} {case.path}: {case.fact}".replace("/v1/", "") for case in cases]


# Bodies that cannot be read, at every endpoint that takes one.

ENDPOINTS = [
    ("PUT", "/v1/model"),
    ("PUT", "/v1/neighbors"),
    ("PUT", "/v1/schedule"),
    ("POST", "/v1/rounds"),
    ("POST", "/v1/observations"),
]
ZIPPED = {"content-type": JSON, "content-encoding": "gzip"}


def too_long() -> Iterator[bytes]:
    for _ in range(100):
        yield b" " * 10_000


def unreadable(method: str, path: str) -> list[Case]:
    def case(fact: str, status: int, slug: str, content: Any, headers: dict[str, str], says: str = "") -> Case:
        return Case(fact, method, path, status, slug, content, headers, says)

    json_type, msgpack_type = {"content-type": JSON}, {"content-type": MSGPACK}
    zipped = gzip.compress(b'{"x": 1}')
    return [
        case("JSON that breaks off", 400, "invalid-json", b'{"x": ', json_type),
        case("JSON with NaN in it", 400, "invalid-json", b'{"x": [NaN, 1], "y": 1}', json_type),
        case("JSON that is not UTF-8", 400, "invalid-json", b'{"\xff": 1}', json_type),
        case("no JSON at all", 400, "invalid-json", b"", json_type),
        case("msgpack that breaks off", 400, "invalid-msgpack", b"\x81\xa1x", msgpack_type),
        case("a byte that msgpack does not have", 400, "invalid-msgpack", b"\xc1", msgpack_type),
        case(
            "a type that is not known", 415, "unsupported-media-type", b"{}", {"content-type": "text/csv"}, "text/csv"
        ),
        case("no type", 415, "unsupported-media-type", b"{}", {}, JSON),
        case("an encoding that is not known", 415, "unsupported-encoding", b"{}", ZIPPED | {"content-encoding": "br"}),
        case("not gzip", 400, "invalid-encoding", b"{}", ZIPPED),
        case("gzip that breaks off", 400, "invalid-encoding", zipped[:-9], ZIPPED, "broke off"),
        case("gzip with a wrong checksum", 400, "invalid-encoding", zipped[:-8] + bytes(8), ZIPPED),
        case("something after gzip", 400, "invalid-encoding", zipped + b"garbage", ZIPPED),
        case("longer than the limit", 413, "body-too-large", b" " * (BODY_LIMIT + 1), json_type, str(BODY_LIMIT)),
        case("far longer than the limit", 413, "body-too-large", b" " * 20_000_000, json_type),
        case("chunks beyond the limit", 413, "body-too-large", too_long, json_type),
        case("gzip beyond the limit", 413, "body-too-large", gzip.compress(bytes(10_000_000)), ZIPPED),
    ]


UNREADABLE = [case for endpoint in ENDPOINTS for case in unreadable(*endpoint)]


@pytest.mark.parametrize("case", UNREADABLE, ids=ids(UNREADABLE))
def test_a_body_that_cannot_be_read_is_named_and_changes_nothing(configured: AgentProcess, case: Case) -> None:
    answer = case.check(configured)
    # What was not read of the body would be taken for the next request, or be read for nothing.
    if case.status in (413, 415) and not case.fact.endswith("gzip beyond the limit"):  # of that, all has come
        assert answer.headers["connection"] == "close"


def test_a_body_just_within_the_limit_is_read(configured: AgentProcess) -> None:
    body = json.dumps(SCHEDULE).encode().ljust(BODY_LIMIT)
    answer = configured.http.put("/v1/schedule", content=body, headers={"content-type": JSON})
    assert answer.status_code == 200, answer.text


# Observations.


def arrays(x: Any, y: Any, **others: Any) -> bytes:
    body = {"x": to_wire(np.asarray(x, float)), "y": to_wire(np.asarray(y, float)), **others}
    return msgspec.msgpack.encode(body)


def posted(fact: str, status: int, slug: str, content: bytes, kind: str = JSON, query: str = "", **more: Any) -> Case:
    return Case(fact, "POST", f"/v1/observations{query}", status, slug, content, {"content-type": kind}, **more)


ONE = b'{"x": [1, 2], "y": 1}'
TWO = b'{"x": [[1, 2], [1, 1]], "y": [1, 0]}'
NAN, INFINITE = float("nan"), float("inf")
BIG = 10**18

OBSERVATIONS = [
    posted("a point with one number", 422, "wrong-dimension", b'{"x": [1], "y": 1}', says="1 column"),
    posted("points with three numbers", 422, "wrong-dimension", b'{"x": [[1, 2, 3]], "y": [1]}'),
    posted("an array of three columns", 422, "wrong-dimension", arrays([[1, 2, 3]], [1]), MSGPACK),
    posted("an array of one dimension", 422, "invalid-observations", arrays([1, 2], [1]), MSGPACK),
    posted("a line with three numbers", 422, "wrong-dimension", b'{"x": [1, 2, 3], "y": 1}\n', LINES),
    posted("NaN in x", 422, "not-finite", arrays([[1, NAN]], [1]), MSGPACK, says="x[0, 1]"),
    posted("infinity in x", 422, "not-finite", arrays([[1, 1], [INFINITE, 1]], [1, 1]), MSGPACK, says="x[1, 0]"),
    posted("minus infinity in x", 422, "not-finite", arrays([[-INFINITE, 1]], [1]), MSGPACK),
    posted("NaN in y", 422, "not-finite", arrays([[1, 2], [1, 2]], [1, NAN]), MSGPACK, says="y[1]"),
    posted("infinity in y", 422, "not-finite", arrays([[1, 2]], [INFINITE]), MSGPACK),
    posted("a JSON number beyond all floats", 422, "invalid-observations", b'{"x": [1e999, 2], "y": 1}'),
    posted("a label outside its set", 422, "invalid-target", b'{"x": [1, 2], "y": 2}', says="y[0] is 2"),
    posted("one label of many", 422, "invalid-target", arrays(X, [0] * 9 + [-1]), MSGPACK, says="y[9] is -1"),
    posted("a label of half", 422, "invalid-target", b'{"x": [1, 2], "y": 0.5}'),
    posted("ragged points", 422, "invalid-observations", b'{"x": [[1, 2], [1]], "y": [1, 1]}'),
    posted(
        "more points than labels", 422, "invalid-observations", b'{"x": [[1, 2], [1, 2]], "y": [1]}', says="2 points"
    ),
    posted("text for a number", 422, "invalid-observations", b'{"x": ["1", 2], "y": 1}'),
    posted("lists in lists in lists", 422, "invalid-observations", b'{"x":' + b"[" * 9_000 + b"]" * 9_000 + b',"y":1}'),
    posted("no label", 422, "invalid-observations", b'{"x": [1, 2]}', says="both x and y"),
    posted("nothing in it", 422, "invalid-observations", b"{}"),
    posted("no rows", 422, "invalid-observations", b'{"x": [], "y": []}'),
    posted("a key that is not known", 422, "invalid-observations", b'{"x": [1, 2], "y": 1, "z": 3}', says="z"),
    posted("a list", 422, "invalid-observations", b"[1, 2]"),
    posted("lists in msgpack", 422, "invalid-observations", msgspec.msgpack.encode({"x": [[1, 2]], "y": [1]}), MSGPACK),
    posted(
        "fewer bytes than its shape needs",
        422,
        "invalid-observations",
        arrays(X, Y).replace(b"\x0a", b"\x0b", 1),
        MSGPACK,
    ),
    posted("a dtype that is not known", 422, "invalid-observations", arrays(X, Y).replace(b"<f8", b"<c8"), MSGPACK),
    posted("a mark with another body", 409, "mark-conflict", ONE, query="?client=robot&sequence=0"),
    posted(
        "a mark with its end added", 409, "mark-conflict", arrays(X, Y, end=True), MSGPACK, "?client=robot&sequence=0"
    ),
    posted("a gap", 409, "sequence-gap", ONE, query="?client=robot&sequence=3", extra={"expected": 2}),
    posted("a gap in lines", 409, "sequence-gap", ONE, LINES, "?client=robot&sequence=9", extra={"expected": 2}),
    posted("a gap before the first", 409, "sequence-gap", ONE, query="?client=new&sequence=1", extra={"expected": 0}),
    posted("a stream that has ended", 409, "stream-ended", ONE, query="?client=done&sequence=1", says="done"),
    posted("lines of a stream that has ended", 409, "stream-ended", ONE, LINES, query="?client=done&sequence=1"),
    posted("a client without a sequence", 400, "invalid-query", ONE, query="?client=robot", says="go together"),
    posted("a sequence without a client", 400, "invalid-query", ONE, query="?sequence=2", says="go together"),
    posted("a negative sequence", 400, "invalid-query", ONE, query="?client=robot&sequence=-1"),
    posted("half a sequence", 400, "invalid-query", ONE, query="?client=robot&sequence=2.5"),
    posted("a sequence in Arabic digits", 400, "invalid-query", ONE, query="?client=robot&sequence=%D9%A2"),
    posted("an empty sequence", 400, "invalid-query", ONE, query="?client=robot&sequence="),
    posted("a sequence beyond 64 bits", 400, "invalid-query", ONE, query=f"?client=robot&sequence={100 * BIG}"),
    posted("an empty client", 400, "invalid-query", ONE, query="?client=&sequence=2"),
    posted("a client of 65 letters", 400, "invalid-query", ONE, query=f"?client={'r' * 65}&sequence=0"),
    posted("a client with a line break", 400, "invalid-query", ONE, query="?client=a%0Ab&sequence=0"),
    posted("a query that is not known", 400, "invalid-query", ONE, query="?cleint=robot", says="cleint"),
    posted("a position of one number", 400, "invalid-query", ONE, query="?position=1", says="as a point has: 2"),
    posted("a position of three", 400, "invalid-query", TWO, query="?position=1,2,3", says="like 1.5,2.0"),
    posted("an empty position", 400, "invalid-query", ONE, query="?position="),
    posted("a position of words", 400, "invalid-query", ONE, query="?position=here,there"),
    posted("a position of Python's", 400, "invalid-query", ONE, query="?position=1_0,2"),
    posted("a position in Arabic digits", 400, "invalid-query", ONE, query="?position=%D9%A2,1"),
    posted("a position that is NaN", 400, "invalid-query", arrays(X, Y), MSGPACK, query="?position=nan,1"),
    posted("an infinite position", 400, "invalid-query", ONE, LINES, query="?position=1,1e999"),
    posted("lines with an odd query", 400, "invalid-query", ONE, LINES, query="?client=robot"),
    posted("no room in the inbox", 429, "backlog-full", arrays(np.ones((41, 2)), np.ones(41)), MSGPACK, says="60"),
    posted("more than the inbox ever holds", 413, "batch-too-large", arrays(np.ones((101, 2)), np.ones(101)), MSGPACK),
]


@pytest.mark.parametrize("case", OBSERVATIONS, ids=ids(OBSERVATIONS))
def test_bad_observations_are_named_and_none_is_stored(configured: AgentProcess, case: Case) -> None:
    case.check(configured)


# Documents.


def put(fact: str, what: str, status: int, slug: str, document: Any, says: str = "") -> Case:
    body = json.dumps(document).encode()
    return Case(fact, "PUT", f"/v1/{what}", status, slug, body, {"content-type": JSON}, says)


def weights(own_weight: float, *others: float, **fields: Any) -> dict[str, Any]:
    neighbors = [{"name": f"b{k}", "url": "http://127.0.0.1:9", "weight": one} for k, one in enumerate(others)]
    return {"epoch": 4, "agents": 9, "own_weight": own_weight, "neighbors": neighbors, **fields}


ANOTHER = {**MODEL, "prior": {"information": 0.6}}
LOADED = {"revision": 3, "model": MODEL}
DOCUMENTS = [
    put("another model", "model", 409, "model-loaded", {"revision": 3, "model": ANOTHER}),
    put("another likelihood", "model", 409, "model-loaded", {**LOADED, "likelihood": "logistic"}),
    put("an older revision", "model", 409, "older-revision", {"revision": 1, "model": MODEL}),
    put("the same revision, another body", "model", 409, "revision-taken", {"revision": 2, "model": ANOTHER}),
    put("no model in it", "model", 422, "invalid-model", {"revision": 3}, "model is missing"),
    put("an unknown likelihood", "model", 422, "invalid-model", {**LOADED, "likelihood": "cauchy"}, "cauchy"),
    put("centres still to be chosen", "model", 422, "invalid-model", {
        "revision": 3,
        "model": {**MODEL, "features": {"kind": "centers", "choose": {"how": "random", "count": 9}, "lengthscale": 1}},
    }, "chosen"),
    put("a lattice that no machine holds", "model", 422, "invalid-model", {
        "revision": 3,
        "model": {**MODEL, "features": {**LATTICE, "spacing": 1e-9}},
    }, "spacing"),
    put("an unknown key", "model", 422, "invalid-model", {**LOADED, "colour": 1}, "colour"),
    put("a list", "model", 422, "invalid-model", [1]),
    put("weights that sum to 0.9", "neighbors", 422, "invalid-mixing-weights", weights(0.5, 0.4), "sum to 1"),
    put("weights that sum to 2", "neighbors", 422, "invalid-mixing-weights", weights(1.0, 1.0), "sum to 1"),
    put("a negative weight", "neighbors", 422, "invalid-mixing-weights", weights(1.5, -0.5), "negative"),
    put("a neighbor twice", "neighbors", 422, "invalid-document", {
        **weights(0.5), "neighbors": [{"name": "b", "url": "http://127.0.0.1:9", "weight": 0.25}] * 2
    }, "twice"),
    put("a url that is none", "neighbors", 422, "invalid-document", {
        **weights(0.5), "neighbors": [{"name": "b", "url": "ftp://b", "weight": 0.5}]
    }, "neighbors.0.url"),
    put("more neighbors than agents", "neighbors", 422, "invalid-document", weights(0.5, 0.5, agents=1)),
    put("an index beyond the agents", "neighbors", 422, "invalid-document", weights(0.5, 0.5, index=9), "index"),
    put("an older epoch", "neighbors", 409, "older-epoch", {**weights(0.5, 0.5), "epoch": 2}, "older than 3"),
    put("the same epoch, another body", "neighbors", 409, "revision-taken", {**weights(0.5, 0.5), "epoch": 3}),
    put("a start for an agent with evidence", "neighbors", 409, "not-a-newcomer", weights(0.5, 0.5, start_from="b0")),
    put("a start from a stranger", "neighbors", 422, "invalid-document", weights(0.5, 0.5, start_from="c"), "start_"),
    put("an older revision", "schedule", 409, "older-revision", {**SCHEDULE, "revision": 1}),
    put("the same revision, another body", "schedule", 409, "revision-taken", {**SCHEDULE, "until_round": 6}),
    put("another source", "schedule", 409, "source-fixed", {**SCHEDULE, "revision": 3, "source": "replay"}, "stream"),
    put("an unknown exchange", "schedule", 422, "invalid-document", {"revision": 3, "exchange": "gossip"}, "exchange"),
    put("a number out of range", "schedule", 422, "invalid-document", {"revision": 3, "forgetting": 1.5}, "forgetting"),
    put("no revision", "schedule", 422, "invalid-document", {}, "revision is missing"),
]  # fmt: skip


@pytest.mark.parametrize("case", DOCUMENTS, ids=ids(DOCUMENTS))
def test_a_bad_document_is_named_and_the_one_in_force_stays(configured: AgentProcess, case: Case) -> None:
    case.check(configured)


# Everything else.


def asked(fact: str, path: str, status: int, slug: str, says: str = "") -> Case:
    return Case(fact, "GET", path, status, slug, says=says)


def rounds(fact: str, status: int, slug: str, body: bytes) -> Case:
    return Case(fact, "POST", "/v1/rounds", status, slug, body, {"content-type": JSON})


OTHERS = [
    asked("a round to come", "/v1/parameters?round=6", 404, "round-unknown", "shows round 5 of epoch 3"),
    asked("an epoch to come", "/v1/parameters?epoch=4&round=0", 404, "round-unknown"),
    asked("a round that is gone", "/v1/parameters?epoch=3&round=3", 410, "round-gone"),
    asked("an epoch that is gone", "/v1/parameters?epoch=2&round=0", 410, "round-gone"),
    asked("a round beyond 64 bits", f"/v1/parameters?epoch=3&round={9 * BIG + BIG - 1}", 404, "round-unknown"),
    asked("a negative round", "/v1/parameters?round=-1", 400, "invalid-query", "round"),
    asked("a round of 40 digits", f"/v1/parameters?round={'9' * 40}", 400, "invalid-query"),
    asked("an epoch without a round", "/v1/parameters?epoch=3", 400, "invalid-query", "epoch"),
    asked("a wait of NaN", "/v1/parameters?round=6&wait_s=nan", 400, "invalid-query", "wait_s"),
    asked("a wait without end", "/v1/parameters?round=6&wait_s=inf", 400, "invalid-query"),
    asked("a negative wait", "/v1/parameters?round=6&wait_s=-1", 400, "invalid-query"),
    asked("a precision that is not known", "/v1/parameters?precision=float16", 400, "invalid-query", "float32"),
    asked("a query that is not known", "/v1/parameters?rounds=5", 400, "invalid-query", "rounds"),
    asked("no history", "/v1/history?limit=0", 400, "invalid-query", "limit"),
    asked("too much history", "/v1/history?limit=1001", 400, "invalid-query"),
    asked("a limit in words", "/v1/history?limit=ten", 400, "invalid-query"),
    asked("neither true nor false", "/v1/belief?full=perhaps", 400, "invalid-query", "full"),
    asked("a path that is not there", "/v1/nothing", 404, "not-found", "/v1/nothing"),
    asked("the top", "/", 404, "not-found"),
    asked("another version", "/v2/status", 404, "not-found"),
    asked("below a path", "/v1/parameters/5", 404, "not-found"),
    rounds("single rounds of an agent that runs", 409, "not-paused", b'{"rounds": 1}'),
    rounds("no rounds", 422, "invalid-document", b'{"rounds": 0}'),
    rounds("a list", 422, "invalid-document", b"[1]"),
]


@pytest.mark.parametrize("case", OTHERS, ids=ids(OTHERS))
def test_a_bad_question_is_named_and_changes_nothing(configured: AgentProcess, case: Case) -> None:
    case.check(configured)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/observations", "GET, POST"),
        ("DELETE", "/v1/observations", "GET, POST"),
        ("POST", "/v1/parameters", "GET"),
        ("DELETE", "/v1/model", "GET, PUT"),
        ("POST", "/v1/schedule", "GET, PUT"),
        ("GET", "/v1/rounds", "POST"),
        ("POST", "/v1/status", "GET"),
    ],
)
def test_a_method_that_is_not_for_the_path_is_told_which_is(
    configured: AgentProcess, method: str, path: str, allowed: str
) -> None:
    answer = Case("a method", method, path, 405, "method-not-allowed", headers={"content-type": JSON}).check(configured)
    assert answer.headers["allow"] == allowed


WITHOUT_MODEL = [
    posted("one", 409, "no-model", ONE),
    posted("columns", 409, "no-model", TWO),
    posted("lines", 409, "no-model", ONE, LINES),
    posted("arrays", 409, "no-model", arrays(X, Y), MSGPACK),
    posted("marked ones", 409, "no-model", ONE, query="?client=robot&sequence=0"),
    posted("with a position", 409, "no-model", ONE, query="?position=1,2"),
    asked("the newest observations", "/v1/observations", 409, "no-model"),
    asked("the parameters", "/v1/parameters", 409, "no-model"),
    asked("a round to come", "/v1/parameters?round=1&wait_s=30", 409, "no-model"),
    asked("the belief", "/v1/belief", 409, "no-model"),
    rounds("rounds", 409, "no-model", b"{}"),
]


@pytest.mark.parametrize("case", WITHOUT_MODEL, ids=ids(WITHOUT_MODEL))
def test_without_a_model_nothing_is_taken_and_nothing_shown(shared_agent: AgentProcess, case: Case) -> None:
    case.check(shared_agent)


def test_a_newcomer_whose_neighbor_does_not_answer_stays_as_it_is(storing: AgentProcess) -> None:
    put("a dead one", "neighbors", 503, "peer-unavailable", weights(0.5, 0.5, start_from="b0"), "b0").check(storing)


# Lines: a fault does not undo what was stored before it.

GOOD = [b'{"x": [%d, 1.5], "y": %d}' % (number % 3, number % 2) for number in range(5_000)]


@pytest.mark.parametrize(
    ("client", "line", "status", "slug"),
    [
        ("json", b'{"x": [1, 2], "y": ', 400, "invalid-json"),
        ("utf-8", b'{"x": [1, 2], "\xff": 1}', 400, "invalid-json"),
        ("key", b'{"x": [1, 2], "y": 1, "z": 1}', 422, "invalid-observations"),
        ("dimension", b'{"x": [1, 2, 3], "y": 1}', 422, "wrong-dimension"),
        ("label", b'{"x": [1, 2], "y": 7}', 422, "invalid-target"),
        ("no label", b'{"x": [1, 2]}', 422, "invalid-observations"),
        ("end and more", b'{"x": [1, 2], "y": 1, "end": true}', 422, "invalid-observations"),
    ],
)
def test_a_bad_line_is_named_by_its_number_and_those_before_it_are_stored(
    storing: AgentProcess, client: str, line: bytes, status: int, slug: str
) -> None:
    before = storing.status()["observations"]["collected"]
    query, kind = {"client": client, "sequence": "0"}, {"content-type": LINES}
    lines = [*GOOD[:2_000], b"", *GOOD[2_000:], line, *GOOD[:10]]  # a blank line is counted, and is no observation
    answer = storing.http.post("/v1/observations", params=query, content=b"\n".join(lines), headers=kind)
    assert problem(answer) == (status, slug)
    assert answer.json()["line"] == 5_002
    assert "line 5002" in answer.json()["detail"]
    assert answer.json()["stored"] == 5_000
    assert storing.status()["observations"]["collected"] == before + 5_000

    lines[5_001] = ONE
    answer = storing.http.post("/v1/observations", params=query, content=b"\n".join(lines), headers=kind)
    assert answer.json() == {"stored": 5_011, "next_sequence": 5_011}
    assert storing.status()["observations"]["collected"] == before + 5_011


def test_nothing_may_follow_the_line_that_ends_a_stream(storing: AgentProcess) -> None:
    before = storing.status()["observations"]["collected"]
    lines = b"\n".join([*GOOD[:7], b'{"end": true}', *GOOD[:3]])
    query = {"client": "ended", "sequence": "0"}
    answer = storing.http.post("/v1/observations", params=query, content=lines, headers={"content-type": LINES})
    assert problem(answer) == (422, "invalid-observations")
    assert (answer.json()["stored"], answer.json()["line"]) == (7, 9)
    assert storing.status()["observations"]["collected"] == before + 7


def test_a_line_that_is_too_long_is_refused_and_those_before_it_are_stored(storing: AgentProcess) -> None:
    before = storing.status()["observations"]["collected"]
    body = b"\n".join(GOOD[:100]) + b'\n{"x": [1' + b" " * (3 << 20)
    answer = storing.http.post("/v1/observations", content=body, headers={"content-type": LINES})
    assert problem(answer) == (413, "line-too-long")
    assert answer.json()["stored"] == 100
    assert storing.status()["observations"]["collected"] == before + 100


def test_who_accepts_lines_gets_the_problem_as_the_last_line(storing: AgentProcess) -> None:
    headers = {"content-type": LINES, "accept": LINES}
    answer = storing.http.post("/v1/observations", content=b"\n".join([*GOOD, b"{"]), headers=headers)
    assert answer.status_code == 200
    *acknowledged, last = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["stored"] for one in acknowledged] == sorted(one["stored"] for one in acknowledged)
    assert (last["type"], last["status"]) == ("urn:delbo:problem:invalid-json", 400)
    assert (last["line"], last["stored"]) == (5_001, 5_000)


# Clients that break off.

HALF = [
    b"PUT /v1/mod",
    b"PUT /v1/model HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-le",
    *(
        f"{method} {path} HTTP/1.1\r\nhost: a\r\ncontent-type: {kind}\r\n{length}\r\n{body}".encode()
        for method, path in ENDPOINTS
        for kind in (JSON, MSGPACK)
        for length, body in [
            ("content-length: 100\r\n", '{"revision"'),
            ("transfer-encoding: chunked\r\n", '40\r\n{"revision"'),
            ("content-length: 100\r\ncontent-encoding: gzip\r\n", ""),
        ]
    ),
    f"POST /v1/observations HTTP/1.1\r\nhost: a\r\ncontent-type: {LINES}\r\ncontent-length: 99\r\n\r\n{{".encode(),
    f"POST /v1/observations HTTP/1.1\r\nhost: a\r\ncontent-type: {LINES}\r\n"
    f"transfer-encoding: chunked\r\n\r\n16\r\n{ONE.decode()}".encode(),  # a whole line, but for its end
    b"GET /v1/parameters?round=9&wait_s=30 HTTP/1.1\r\nhost: a\r\n\r\n",
]


def test_clients_that_break_off_are_forgotten(agents: Agents) -> None:
    agent = configure(agents("a1"))
    before = everything(agent)
    for request in HALF:
        with socket.create_connection(("127.0.0.1", agent.port)) as connection:
            connection.sendall(request)
    assert everything(agent) == before
    assert agent.post(X, Y, "robot", 2).status_code == 200
    assert agent.terminate() == 0
    log = agent.log.read_text()
    assert "Traceback" not in log
    assert " ERROR " not in log
    agent.start()
    assert agent.status()["observations"]["collected"] == before[0]["observations"]["collected"] + len(X)
