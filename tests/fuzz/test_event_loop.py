"""However much is asked of an agent at once, its event loop is never held up for long: it answers others meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from service.wire.observations import Observations, to_msgpack
from service.wire.parameters import MEDIA_TYPE
from service.wire.points import points_to_msgpack
from service.wire.verification import VerificationDocument
from tests.fuzz.watching import LONGEST_GAP_S, WatchedAgent

JSON, MSGPACK = "application/json", MEDIA_TYPE
BODY_LIMIT = 8 * 2**20
LATTICE: dict[str, Any] = {"kind": "lattice", "spacing": 0.1, "lengthscale": 0.15, "lower": [0, 0], "upper": [10, 10]}
WIDE = LATTICE | {"spacing": 10 / 27, "lengthscale": 0.5}  # some 800 features
PROBIT = {"prior": {"information": 0.5}, "likelihood": "probit"}

X = np.random.default_rng(0).uniform(0, 10, (100_000, 2))
Y = (X[:, 0] > 5).astype(float)


@dataclass(frozen=True)
class Heavy:
    """A request that takes a while, and the status of its answer."""

    name: str
    method: str
    path: str
    body: bytes = b""
    kind: str = JSON
    status: int = 200


@pytest.fixture(scope="module", params=["diagonal", "full"])
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedAgent]:
    """An agent that has learned something, of a large lattice or of the full family."""
    family = request.param
    agent = WatchedAgent(family, tmp_path_factory.mktemp("watched") / family)
    try:
        agent.start()
        features = WIDE if family == "full" else LATTICE
        agent.put("model", {"revision": 1, "model": {**PROBIT, "features": features, "family": family}})
        assert agent.post(X[:2000], Y[:2000]).status_code == 200
        agent.put("schedule", {"revision": 1, "paused": True, "observations_per_round": 500})
        assert agent.http.post("/v1/rounds", json={"rounds": 4}).json()["complete"]
        yield agent
    finally:
        agent.close()


def check(agent: WatchedAgent, heavy: Heavy) -> None:
    def ask() -> None:
        headers = {"content-type": heavy.kind, "accept": heavy.kind}
        answer = agent.http.request(heavy.method, heavy.path, content=heavy.body, headers=headers)
        assert answer.status_code == heavy.status, answer.text[:500]

    assert agent.held_up_by(ask) <= LONGEST_GAP_S
    assert "Traceback" not in agent.log.read_text()


def as_json(**fields: Any) -> bytes:
    return msgspec.json.encode({name: value.tolist() for name, value in fields.items()})


CENTERS = {"kind": "centers", "centers": X[:80_000].tolist(), "lengthscale": 0.1, "cutoff": 1e-6}
LARGE_MODEL = msgspec.json.encode({"revision": 2, "model": {**PROBIT, "features": CENTERS}})

MOST_POINTS = [
    Heavy("predictions in JSON", "POST", "/v1/predictions", as_json(x=X)),
    Heavy("predictions in msgpack", "POST", "/v1/predictions", points_to_msgpack(X), MSGPACK),
    Heavy("verification in JSON", "PUT", "/v1/verification", VerificationDocument(1, 9, X, Y).to_json()),
    Heavy("verification", "PUT", "/v1/verification", VerificationDocument(2, 9, X, Y).to_msgpack(), MSGPACK),
    Heavy("a map of 2000 x 2000", "GET", "/v1/map?resolution=0.005"),
    Heavy("its numbers", "GET", "/v1/map?resolution=0.005&format=npz"),
    Heavy("the same for navigation", "GET", "/v1/map?resolution=0.005&format=nav2&mode=scale"),
    Heavy("another model, of 80,000 centres", "PUT", "/v1/model", LARGE_MODEL, status=409),
    Heavy("every parameter", "GET", "/v1/belief?full=true"),
    Heavy("observations in JSON", "POST", "/v1/observations", as_json(x=X, y=Y)),
    Heavy("observations", "POST", "/v1/observations", to_msgpack(Observations(X, Y)), MSGPACK),
]
OF_FULL = [
    Heavy("predictions", "POST", "/v1/predictions", as_json(x=X[:20_000])),
    Heavy("a map", "GET", "/v1/map?resolution=0.05"),
    Heavy("every parameter", "GET", "/v1/belief?full=true"),
]


def ids(cases: list[Heavy]) -> list[str]:
    return [case.name for case in cases]


@pytest.mark.parametrize("agent", ["diagonal"], indirect=True)
@pytest.mark.parametrize("heavy", MOST_POINTS, ids=ids(MOST_POINTS))
def test_the_largest_request_of_its_kind_does_not_hold_the_loop_up(agent: WatchedAgent, heavy: Heavy) -> None:
    check(agent, heavy)


@pytest.mark.parametrize("agent", ["full"], indirect=True)
@pytest.mark.parametrize("heavy", OF_FULL, ids=ids(OF_FULL))
def test_a_large_model_of_the_full_family_does_not_hold_the_loop_up(agent: WatchedAgent, heavy: Heavy) -> None:
    check(agent, heavy)


def repeated(text: bytes, before: bytes = b"[", after: bytes = b"]") -> bytes:
    """As many of these in a list as a body has room for."""
    return before + b",".join([text] * ((BODY_LIMIT - len(before + after)) // (len(text) + 1))) + after


BODIES = {
    "empty lists": repeated(b"[]"),
    "empty mappings": repeated(b"{}"),
    "lists 900 deep": repeated(b"[" * 900 + b"]" * 900),
    "lists too deep": b"[" * (BODY_LIMIT // 2) + b"]" * (BODY_LIMIT // 2),
    "numbers": repeated(b"1"),
    "many keys": repeated(b'"k":1', b"{", b"}"),
    "empty points": repeated(b"[]", b'{"x":[', b"]}"),
    "tiny points": repeated(b"[1]", b'{"x":[', b"]}"),
    "one long point": repeated(b"1", b'{"x":[[', b"]]}"),
    "many targets": repeated(b"1", b'{"x":[[1,1]],"y":[', b"]}"),
    "many points and one target": repeated(b"[1,2]", b'{"revision":99,"every_rounds":1,"y":[1],"x":[', b"]}"),
    "empty neighbors": repeated(b"{}", b'{"epoch":1,"own_weight":1,"neighbors":[', b"]}"),
    "empty centres": repeated(b"[]", b'{"revision":2,"model":{"features":{"kind":"centers","centers":[', b"]}}}"),
    "unknown parts of a model": repeated(b"[]", b'{"revision":2,"model":{"features":[', b"]}}"),
    "a long number": b'{"revision":' + b"1" * (BODY_LIMIT - 20) + b"}",
    "a long fraction": b'{"x":[0.' + b"1" * (BODY_LIMIT - 20) + b"]}",
}
TAKERS = [
    ("PUT", "/v1/model"),
    ("PUT", "/v1/neighbors"),
    ("PUT", "/v1/schedule"),
    ("PUT", "/v1/verification"),
    ("POST", "/v1/rounds"),
    ("POST", "/v1/observations"),
    ("POST", "/v1/predictions"),
]
LONG_SHAPE = b"\xdd" + (8_000_000).to_bytes(4) + bytes(8_000_000)
PACKED = {
    "zeros": b"\xdd" + (8_000_000).to_bytes(4) + bytes(8_000_000),
    "empty lists": b"\xdd" + (8_000_000).to_bytes(4) + b"\x90" * 8_000_000,
    "a long shape": b"\x81\xa1x\x83\xa5dtype\xa3<f8\xa4data\xc4\x00\xa5shape" + LONG_SHAPE,
}
# As large as a document may be, and so decoded to the end.
KEYS = b"{" + b",".join(b'"%05x":[]' % number for number in range(23_000)) + b"}"
NOT_NEIGHBORS = b"\x83\xa5epoch\x01\xaaown_weight\x01\xa9neighbors\xdd" + (262_000).to_bytes(4) + b"\x80" * 262_000
NOT_CENTRES = b'{"revision":2,"model":{"features":{"kind":"centers","centers":[' + b"[1,[]]," * 60_000 + b"[]]}}}"
DOCUMENTS = [
    (JSON, "keys", KEYS),
    (JSON, "keys of a model", b'{"revision":2,"model":' + KEYS + b"}"),
    (JSON, "centres of a model", NOT_CENTRES),
    (MSGPACK, "empty lists", b"\xdd" + (262_000).to_bytes(4) + b"\x90" * 262_000),
    (MSGPACK, "empty neighbors", NOT_NEIGHBORS),
]


@pytest.mark.parametrize("agent", ["diagonal"], indirect=True)
@pytest.mark.parametrize(("method", "path"), TAKERS)
def test_the_largest_bodies_that_mean_nothing_do_not_hold_the_loop_up(
    agent: WatchedAgent, method: str, path: str
) -> None:
    bodies = [(JSON, name, body) for name, body in BODIES.items()]
    bodies += [*((MSGPACK, name, body) for name, body in PACKED.items()), *DOCUMENTS]
    for kind, name, body in bodies:
        assert len(body) <= BODY_LIMIT

        def send(kind: str = kind, body: bytes = body) -> None:
            answer = agent.http.request(method, path, content=body, headers={"content-type": kind})
            assert 400 <= answer.status_code < 500, answer.text[:500]

        assert agent.held_up_by(send) <= LONGEST_GAP_S, (kind, name)


LONGEST_NEIGHBORS = [{"name": f"a{n}", "url": f"http://a-robot-{n}.in.a.warehouse:8001"} for n in range(1000)]


@pytest.mark.parametrize("agent", ["diagonal"], indirect=True)
def test_a_thousand_neighbors_are_taken(agent: WatchedAgent) -> None:
    neighbors = [{**neighbor, "weight": 1 / 1001} for neighbor in LONGEST_NEIGHBORS]
    document = {"epoch": 1, "agents": 1001, "own_weight": 1 / 1001, "neighbors": neighbors}
    # The schedule is paused: no neighbor is looked for.
    check(agent, Heavy("neighbors", "PUT", "/v1/neighbors", msgspec.json.encode(document)))
