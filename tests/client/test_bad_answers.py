"""Whatever answers a client, and whatever it is given: one of our errors, in plain words, and never another."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from client.agent_client import AgentClient, as_observations
from client.retries import NO_PATIENCE
from service.errors import AgentRefusedError, AgentUnreachableError, DataError, DelboError, SettingError
from service.wire.answers import BeliefSummary, RecentObservations
from service.wire.problems import problem_type
from tests.agent.test_http_client import certificate, listening, sends, whole
from tests.client.raw_server import Answer, problem_reply, raw_server, reply

Call = Callable[[AgentClient], Any]

READS: list[Call] = [
    AgentClient.status,
    AgentClient.model,
    AgentClient.neighbors,
    AgentClient.schedule,
    AgentClient.belief,
    lambda client: client.belief(full=True),
    AgentClient.history,
    AgentClient.readiness,
    AgentClient.run_rounds,
    lambda client: client.position("robot"),
    lambda client: client.post([1.0, 2.0], 1),
    AgentClient.recent,
]
READ_NAMES = "status model neighbors schedule belief full-belief history readiness rounds position post recent".split()


async def fault_of(answer: Answer, call: Call = AgentClient.status) -> DelboError:
    async with raw_server(answer) as raw, AgentClient(raw.url, NO_PATIENCE) as client:
        with pytest.raises(DelboError) as fault:
            await call(client)
        assert len(raw.asked) == 1
        assert str(fault.value).startswith(raw.url)
    return fault.value


# Answers.


BODIES = [
    b"",
    b"<html>",
    b"{}",
    b"[]",
    b"null",
    b'{"round": "one"}',
    b"\xff\xfe\x00",
    b'"\xff"',
    b'{"a":' + b"[" * 10**5,
]


@pytest.mark.parametrize("call", READS, ids=READ_NAMES)
@pytest.mark.asyncio
async def test_what_no_agent_would_say_is_told(call: Call) -> None:
    async with raw_server(*(reply(200, body) for body in BODIES)) as raw, AgentClient(raw.url, NO_PATIENCE) as client:
        for _ in BODIES:
            with pytest.raises(AgentRefusedError, match=f"{raw.url}/v1/.* answered something else than an agent would"):
                await call(client)
        assert len(raw.asked) == len(BODIES)


@pytest.mark.parametrize(
    ("call", "document"),
    [
        (AgentClient.model, {"revision": 1}),
        (AgentClient.model, {"revision": "new", "model": {}}),
        (AgentClient.neighbors, {"epoch": 0}),
        (AgentClient.neighbors, {"epoch": None, "own_weight": 1}),
        (AgentClient.neighbors, {"epoch": 0, "own_weight": 1, "color": "red"}),
        (AgentClient.schedule, {"revision": -1}),
        (AgentClient.schedule, {"exchange": "lockstep"}),
        (AgentClient.history, {"history": []}),
    ],
)
@pytest.mark.asyncio
async def test_a_document_that_is_none_is_told(call: Call, document: Any) -> None:
    fault = await fault_of(reply(200, json.dumps(document).encode()), call)
    assert "answered something else than an agent would" in str(fault)


@pytest.mark.parametrize("mean", [None, 1, {"dtype": "<f8", "shape": [3], "data": b"\0" * 8}, {"dtype": "O"}])
@pytest.mark.asyncio
async def test_a_belief_without_its_numbers_is_told(mean: Any) -> None:
    good = {"dtype": "<f8", "shape": [1], "data": b"\0" * 8}
    belief = BeliefSummary(0, 0, "id", "full", 1, 0.0, 0.0, 1.0, 1.0, mean, good)
    fault = await fault_of(reply(200, msgspec.msgpack.encode(belief)), lambda client: client.belief(full=True))
    assert "answered something else than an agent would" in str(fault)


@pytest.mark.parametrize("x", [None, [[1.0, 2.0]], {"dtype": "<f8", "shape": [3], "data": b"\0" * 8}])
@pytest.mark.asyncio
async def test_newest_observations_that_are_no_arrays_are_told(x: Any) -> None:
    good = {"dtype": "<f8", "shape": [1], "data": b"\0" * 8}
    for answer in (RecentObservations(1, x, good, None, None), RecentObservations(1, good, x, None, None)):
        fault = await fault_of(reply(200, msgspec.msgpack.encode(answer)), AgentClient.recent)
        assert "answered something else than an agent would" in str(fault)


@pytest.mark.asyncio
async def test_a_body_that_is_not_compressed_as_it_says_is_told() -> None:
    for body in (b"plain", gzip.compress(b"{}")[:-9] + b"\0" * 9):
        fault = await fault_of(reply(200, body, content_encoding="gzip"))
        assert "answered something else than an agent would" in str(fault)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.asyncio
async def test_a_redirect_is_not_followed(status: int) -> None:
    """An agent never redirects; what does may lead anywhere."""
    async with raw_server(reply(200, b"{}")) as elsewhere:
        fault = await fault_of(reply(status, location=f"{elsewhere.url}/v1/status"))
        assert isinstance(fault, AgentRefusedError)
        assert fault.status == status
        assert elsewhere.asked == []


@pytest.mark.parametrize("status", [404, 500, 502, 503])
@pytest.mark.asyncio
async def test_a_page_instead_of_a_problem_is_told_with_its_status(status: int) -> None:
    fault = await fault_of(reply(status, b"<html>Sorry</html>", "text/html"))
    assert isinstance(fault, AgentRefusedError)
    assert str(fault).endswith(f" answered {status}, and not as an agent would")
    assert (fault.status, fault.slug) == (status, None)


@pytest.mark.asyncio
async def test_a_problem_is_told_in_the_agents_words() -> None:
    document = {"type": problem_type("sequence-gap"), "status": 409, "detail": "10 is next", "expected": 10}
    fault = await fault_of(reply(409, json.dumps(document).encode()))
    assert isinstance(fault, AgentRefusedError)
    assert str(fault).endswith(": 10 is next")
    assert (fault.status, fault.slug, fault.expected, fault.retry_after_s) == (409, "sequence-gap", 10, None)
    full = await fault_of(problem_reply(429, "backlog-full", retry_after=7))
    assert isinstance(full, AgentRefusedError)
    assert (full.status, full.slug, full.expected, full.retry_after_s) == (429, "backlog-full", None, 7.0)


@pytest.mark.asyncio
async def test_a_problem_of_somebody_else_has_no_short_name() -> None:
    fault = await fault_of(reply(400, b'{"type": "about:blank", "detail": "no"}'))
    assert isinstance(fault, AgentRefusedError)
    assert (fault.status, fault.slug) == (400, None)


@pytest.mark.parametrize(
    "said", [None, b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: five\r\n\r\n"]
)
@pytest.mark.asyncio
async def test_what_is_no_http_is_no_answer(said: bytes | None) -> None:
    fault = await fault_of(said)
    assert isinstance(fault, AgentUnreachableError)
    assert " does not answer: " in str(fault)


@pytest.mark.asyncio
async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(tmp_path: Path) -> None:
    async with listening(sends(whole(b'{"alive": true}')), secure=certificate(tmp_path)) as peer:
        async with AgentClient(peer.url, NO_PATIENCE) as client:
            with pytest.raises(AgentUnreachableError, match="certificate verify failed"):
                await client.status()
        assert peer.heads == []


# What the caller gives.


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8001",
        "ftp://127.0.0.1",
        "http://",
        "http:///",
        "http://:8001",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:port",
        "http://::1:8001",
        "http://[::1",
        "http://a b",
        "http://a\n",
        "http://a/?q=1",
        "http://a#here",
        "unix:/tmp/socket",
        None,
        8001,
    ],
)
def test_an_odd_address_is_told(url: Any) -> None:
    with pytest.raises(SettingError, match=r"is no address of an agent; one is like http://127\.0\.0\.1:8001"):
        AgentClient(url)


@pytest.mark.parametrize("url", ["http://a:1", "http://a:1/", "http://a:1//"])
def test_a_slash_behind_the_address_does_not_matter(url: str) -> None:
    assert AgentClient(url).url == "http://a:1"


@pytest.mark.asyncio
async def test_an_address_may_have_a_path() -> None:
    """For an agent behind a proxy."""
    async with raw_server(reply(200, b'{"alive": true}')) as raw, AgentClient(f"{raw.url}/agents/a1/") as client:
        assert await client.is_alive()
        assert [request.target for request in raw.asked] == ["/agents/a1/v1/livez"]


@pytest.mark.parametrize("client", ["", " robot", "a\nb", "x" * 65])
def test_an_odd_name_of_a_client_is_told_before_anything_is_sent(client: str) -> None:
    with pytest.raises(SettingError, match="a name has 1 to 64 printable characters"):
        AgentClient("http://127.0.0.1:1").stream(client)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (1.0, 1.0),
        ([[1, 2], [3, 4]], 1),
        ([[1, 2], [3, 4]], [1]),
        ([[1, 2]], [1, 0]),
        ([[[1, 2]]], [1]),
        ([[1, 2]], [[[1]]]),
        ([1, 2], [[1, 0]]),
        ([[1, 2], [3]], [1, 0]),
        ([["a", "b"]], [1]),
        ([[1, 2]], ["one"]),
        ([[1j, 2]], [1]),
        (None, None),
        ({"x": 1}, [1]),
    ],
)
def test_wrong_shapes_are_told(x: Any, y: Any) -> None:
    with pytest.raises(DataError, match=r"^x (and y|of shape)"):
        as_observations(x, y)


@pytest.mark.parametrize(
    ("x", "y", "points", "targets"),
    [
        ([0.1, 2.0], 1, [[0.1, 2.0]], [1.0]),
        ([0.1, 2.0], [1, 0, 0], [[0.1, 2.0]], [[1.0, 0.0, 0.0]]),
        ([[0.1, 2.0], [0.3, 1.9]], [1, 0], [[0.1, 2.0], [0.3, 1.9]], [1.0, 0.0]),
        ([[0.1, 2.0]], [[1, 0]], [[0.1, 2.0]], [[1.0, 0.0]]),
        (((0.1,), (0.2,)), (True, False), [[0.1], [0.2]], [1.0, 0.0]),
        (np.array([[0.5, 1]], np.float32), np.array([1], np.int8), [[0.5, 1.0]], [1.0]),
    ],
    ids="point point-with-vector rows rows-of-vectors tuples other-types".split(),
)
def test_a_point_and_rows_of_points_become_rows(x: Any, y: Any, points: Any, targets: Any) -> None:
    observations = as_observations(x, y, end=True)
    assert (observations.x.tolist(), observations.y.tolist(), observations.end) == (points, targets, True)
    assert observations.x.dtype == observations.y.dtype == np.float64
