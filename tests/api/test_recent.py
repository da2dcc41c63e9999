"""The newest observations and where their maker stood: in order, each once, until a restart, and for who may post."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from service.inference.arrays import FloatArray
from service.wire.observations import Observations, to_msgpack
from service.wire.parameters import MEDIA_TYPE
from service.wire.roles import ROLES
from tests.api.inside import inside
from tests.api.line_stream import LINES, LineStream, lines_of
from tests.api.test_ingest import JSON, MODEL, make_rows, post
from tests.api.test_roles import ENDPOINTS, TOKENS, bearer, write_tokens
from tests.processes import AgentProcess, Agents, agent_factory, problem, unpack, until

X, Y = make_rows(30, seed=7)
PAUSED = {"revision": 1, "observations_per_round": 1_000_000, "when_short": "go", "paused": True}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """A paused agent with room; each test takes a client name of its own."""
    for start in agent_factory(tmp_path_factory.mktemp("recent")):
        agent = start("a1")
        agent.put("model", {"revision": 1, "model": MODEL})
        agent.put("schedule", PAUSED)
        yield agent


def recent(agent: AgentProcess, **query: Any) -> dict[str, Any]:
    answer = agent.http.get("/v1/observations", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def collected(agent: AgentProcess) -> int:
    return int(agent.status()["observations"]["collected"])


def post_good(agent: AgentProcess, content: Any, kind: str = JSON, **query: Any) -> None:
    answer = post(agent, content, kind, **query)
    assert answer.status_code == 200, answer.text


def columns(x: FloatArray, y: FloatArray) -> bytes:
    return json.dumps({"x": x.tolist(), "y": y.tolist()}).encode()


# Observations.


def test_the_newest_are_shown_in_order_whatever_they_came_as(agent: AgentProcess) -> None:
    post_good(agent, json.dumps({"x": X[0].tolist(), "y": Y[0]}))
    post_good(agent, columns(X[1:10], Y[1:10]))
    post_good(agent, lines_of(X[10:20], Y[10:20]), LINES)
    post_good(agent, to_msgpack(Observations(X[20:], Y[20:])), MEDIA_TYPE)
    shown = recent(agent, limit=30)
    assert shown["x"] == X.tolist()
    assert shown["y"] == Y.tolist()
    assert shown["collected"] == collected(agent)
    assert recent(agent, limit=3)["y"] == Y[-3:].tolist()


def test_in_msgpack_they_are_arrays(agent: AgentProcess) -> None:
    post_good(agent, columns(X, Y))
    answer = agent.http.get("/v1/observations?limit=30", headers={"accept": MEDIA_TYPE})
    shown = unpack(answer)
    assert (shown["x"]["dtype"], shown["x"]["shape"], shown["y"]["shape"]) == ("<f8", [30, 2], [30])
    assert np.array_equal(np.frombuffer(shown["x"]["data"], "<f8").reshape(30, 2), X)
    assert np.array_equal(np.frombuffer(shown["y"]["data"], "<f8"), Y)


def test_at_most_five_hundred_are_shown_and_two_hundred_if_nothing_is_said(agent: AgentProcess) -> None:
    x, y = make_rows(700, seed=8)
    post_good(agent, columns(x, y))
    assert recent(agent)["y"] == y[-200:].tolist()
    assert recent(agent, limit=500)["y"] == y[-500:].tolist()
    assert recent(agent, limit=1)["x"] == x[-1:].tolist()
    for limit in ("0", "501", "-1", "1.5", "many", ""):
        assert problem(agent.http.get("/v1/observations", params={"limit": limit})) == (400, "invalid-query")


@pytest.mark.parametrize(("kind", "marks"), [(JSON, 1), (LINES, 30)])
def test_a_retry_does_not_show_them_twice(agent: AgentProcess, kind: str, marks: int) -> None:
    name = f"retry by {marks}"
    post_good(agent, columns(X, -Y))
    for _ in range(3):
        post_good(agent, columns(X, Y) if kind == JSON else lines_of(X, Y), kind, client=name, sequence=0)
    assert recent(agent, limit=60)["y"] == [*(-Y).tolist(), *Y.tolist()]
    post_good(agent, columns(X[:1], Y[:1]), client=name, sequence=marks)
    assert recent(agent, limit=31)["y"] == [*Y.tolist(), Y[0]]


def test_lines_are_shown_while_more_are_to_come(agent: AgentProcess) -> None:
    before = collected(agent)
    with LineStream(agent, client="open", sequence=0, position="0.25,0.75") as stream:
        stream.send(lines_of(X[:3], Y[:3]))
        until(lambda: recent(agent)["collected"] == before + 3)
        shown = recent(agent, limit=3)
        assert (shown["x"], shown["y"]) == (X[:3].tolist(), Y[:3].tolist())
        until(lambda: recent(agent)["position"] == [0.25, 0.75])
        stream.send(lines_of(X[3:4], Y[3:4]))
        until(lambda: recent(agent, limit=4)["y"] == Y[:4].tolist())
        stream.finish()


def test_what_is_refused_is_not_shown(agent: AgentProcess) -> None:
    post_good(agent, columns(X, Y), position="1,1")
    before = recent(agent)
    for body, kind, slug in (
        (b'{"x": [1, 2, 3], "y": 1}', JSON, "wrong-dimension"),
        (columns(X, Y), "text/plain", "unsupported-media-type"),
    ):
        assert problem(post(agent, body, kind, position="2,2"))[1] == slug
    assert problem(post(agent, columns(X, Y), JSON, client="gap", sequence=5, position="2,2"))[1] == "sequence-gap"
    after = recent(agent)
    assert (after["collected"], after["y"], after["position"]) == (before["collected"], before["y"], [1, 1])


# Where the one who observes stands.


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, b'{"x": [1, 1], "y": 2}'),
        (JSON, columns(X, Y)),
        (LINES, lines_of(X, Y)),
        (MEDIA_TYPE, to_msgpack(Observations(X, Y))),
    ],
    ids=["one", "columns", "lines", "arrays"],
)
def test_a_position_may_be_told_with_every_form_of_posting(agent: AgentProcess, kind: str, body: bytes) -> None:
    post_good(agent, columns(X, Y), position="9,9")
    post_good(agent, body, kind, position="-1.5,2e-3")
    shown = recent(agent)
    assert shown["position"] == [-1.5, 0.002]
    assert shown["position_age_s"] >= 0


def test_the_position_told_last_stays_and_grows_older(agent: AgentProcess) -> None:
    post_good(agent, columns(X, Y), position="1,2")
    post_good(agent, columns(X, Y))
    first = recent(agent)
    assert first["position"] == [1, 2]
    until(lambda: recent(agent)["position_age_s"] > first["position_age_s"])


def test_a_retry_with_another_position_is_still_the_same_batch(agent: AgentProcess) -> None:
    before = collected(agent)
    mark: dict[str, Any] = {"client": "moved", "sequence": 0}
    answers = [
        post(agent, columns(X, Y), JSON, **mark, **more) for more in ({}, {"position": "1,1"}, {"position": "2,2"})
    ]
    assert [answer.json() for answer in answers] == [{"stored": 30, "next_sequence": 1}] * 3
    assert collected(agent) == before + 30
    assert recent(agent)["position"] == [2, 2]


def test_a_position_is_never_learned_from(agents: Agents) -> None:
    shown = []
    for name, more in (("a1", {}), ("a2", {"position": "0.5,0.5"})):
        agent = agents(name)
        agent.put("model", {"revision": 1, "model": MODEL})
        agent.put("schedule", PAUSED)
        post_good(agent, columns(X, Y), **more)
        assert agent.http.post("/v1/rounds", json={"rounds": 1}).json()["complete"]
        shown.append(agent.http.get("/v1/belief?full=true").json())
    assert shown[0] == shown[1]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("dimension", "good", "bad"), [(1, "1.5", ["1.5,2", ",", ""]), (3, "1,-2,3.5", ["1,2", "1,2,3,4", "1,2,", "1,2,x"])]
)
async def test_a_position_has_as_many_numbers_as_the_model_has_coordinates(
    tmp_path: Path, dimension: int, good: str, bad: list[str]
) -> None:
    lattice = {**MODEL["features"], "lower": [0] * dimension, "upper": [1] * dimension}
    body = {"x": [0.5] * dimension, "y": 1}
    async with inside(tmp_path / "a", {**MODEL, "features": lattice}) as served:
        for position in bad:
            answer = await served.http.post("/v1/observations", params={"position": position}, json=body)
            assert problem(answer) == (400, "invalid-query")
            assert f"as many as a point has: {dimension}" in answer.json()["detail"]
        answer = await served.http.post("/v1/observations", params={"position": good}, json=body)
        assert answer.status_code == 200
        shown = (await served.get("/v1/observations")).json()
        assert shown["position"] == [float(number) for number in good.split(",")]
        assert shown["x"] == [body["x"]]


# Afterwards.


def test_a_restart_forgets_them_and_goes_on_counting(agents: Agents) -> None:
    agent = agents("a1")
    agent.put("model", {"revision": 1, "model": MODEL})
    post_good(agent, columns(X, Y), position="1,2")
    agent.kill()
    agent.start()
    assert recent(agent) == {"collected": 30, "x": [], "y": [], "position": None, "position_age_s": None}
    arrays = unpack(agent.http.get("/v1/observations", headers={"accept": MEDIA_TYPE}))
    assert (arrays["x"]["shape"], arrays["y"]["shape"]) == ([0, 2], [0])
    post_good(agent, columns(X[:1], Y[:1]))
    shown = recent(agent)
    assert (shown["collected"], shown["y"]) == (31, [Y[0]])


# Who may look.


def test_raw_observations_are_shown_to_the_role_ingest_only(agents: Agents, tmp_path: Path) -> None:
    """With every other token, and none, nothing that can be asked for holds one of the numbers."""
    agent = agents("a1", "--tokens", write_tokens(tmp_path / "tokens", **TOKENS))
    agent.http.headers["authorization"] = bearer("control")
    agent.put("model", {"revision": 1, "model": MODEL})
    agent.put("schedule", PAUSED)
    agent.http.headers["authorization"] = bearer("ingest")
    secrets = [1.2345678901234567, 0.9876543210987654, 0.5555566666777778, 1.1122334455667788, 0.3141592653589793]
    post_good(
        agent,
        json.dumps({"x": secrets[:2], "y": secrets[2]}),
        client="robot",
        sequence=0,
        position=f"{secrets[3]},{secrets[4]}",
    )
    shown = recent(agent)
    assert [*shown["x"][0], *shown["y"], *shown["position"]] == secrets
    agent.http.headers["authorization"] = bearer("control")
    assert agent.http.post("/v1/rounds", json={"rounds": 1}).json()["complete"]

    asked = [endpoint.split()[1] for endpoint in ENDPOINTS if endpoint.startswith("GET ")]
    paths = [path for path in asked if path != "/v1/events"] + ["/v1/belief?full=true", "/v1/streams?client=robot"]
    for role in (*(role for role in ROLES if role != "ingest"), None):
        headers = {} if role is None else {"authorization": bearer(role)}
        with httpx2.Client(base_url=agent.url, headers=headers, trust_env=False, timeout=60) as http:
            assert http.get("/v1/observations").status_code == (401 if role is None else 403)
            for path in paths:
                for accept in (JSON, MEDIA_TYPE):
                    content = http.get(path, headers={"accept": accept}).content
                    for secret in secrets:
                        assert repr(secret).encode() not in content, (role, path)
                        assert struct.pack("<d", secret) not in content, (role, path)
