"""The client and real agents: every endpoint, documents read back, streams stored exactly once."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx2
import numpy as np
import pytest

from client.agent_client import AgentClient, Mark
from client.retries import NO_PATIENCE, Patience
from service.errors import AgentRefusedError
from service.wire.answers import RoundsAnswer, Stored, StreamPosition
from service.wire.configuration import (
    NO_NEIGHBORS,
    NO_SCHEDULE,
    ModelDocument,
    Neighbor,
    NeighborsDocument,
    ScheduleDocument,
)
from service.wire.verification import VerificationDocument
from tests.client.raw_server import passed_on, raw_server
from tests.processes import AgentProcess, agent_factory, codec_of, problem

LATTICE = {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [2, 2]}
MODEL: dict[str, Any] = {
    "features": LATTICE,
    "prior": {"information": 0.5},
    "likelihood": {"kind": "gaussian", "precision": 4.0},
}
DOCUMENT = ModelDocument.parse(
    {"revision": 1, "model": MODEL, "likelihood": {"kind": "student_t", "degrees": 4.5, "scale": 0.1}}
)
PAUSED = ScheduleDocument.parse(
    {"revision": 1, "observations_per_round": 1_000_000, "when_short": "go", "paused": True}
)
POINT, TARGET = [1.5, 0.5], 0.25

generator = np.random.default_rng(0)
X, Y = generator.uniform(0, 2, (30, 2)), generator.normal(size=30)
VERIFICATION = VerificationDocument(1, 1, X, Y)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """A paused agent with a model; each test takes a client name of its own."""
    for start in agent_factory(tmp_path_factory.mktemp("client")):
        agent = start("a1")
        agent.put("model", DOCUMENT.model_dump())
        agent.put("schedule", PAUSED.model_dump())
        yield agent


def collected(agent: AgentProcess) -> int:
    return int(agent.status()["observations"]["collected"])


# Every endpoint.

Call = Callable[[AgentClient], Awaitable[object]]

CALLS: dict[str, Call] = {
    "put_model": lambda client: client.put_model(DOCUMENT),
    "put_neighbors": lambda client: client.put_neighbors(NeighborsDocument.parse({"epoch": 1, "own_weight": 1.0})),
    "put_schedule": lambda client: client.put_schedule(PAUSED),
    "put_verification": lambda client: client.put_verification(VERIFICATION),
    "model": AgentClient.model,
    "neighbors": AgentClient.neighbors,
    "schedule": AgentClient.schedule,
    "verification": AgentClient.verification,
    "run_rounds": AgentClient.run_rounds,
    "post": lambda client: client.post(POINT, TARGET),
    "end": AgentClient.end,
    "position": lambda client: client.position("robot"),
    "recent": AgentClient.recent,
    "parameters": lambda client: client.parameters(codec_of(MODEL)),
    "belief": AgentClient.belief,
    "predict": lambda client: client.predict([POINT]),
    "map": AgentClient.map,
    "events": lambda client: anext(client.events()),
    "metrics": AgentClient.metrics,
    "status": AgentClient.status,
    "history": AgentClient.history,
    "is_alive": AgentClient.is_alive,
    "readiness": AgentClient.readiness,
}


@pytest.mark.asyncio
async def test_every_endpoint_has_a_method_that_asks_there(agent: AgentProcess) -> None:
    """An endpoint without a method fails here, and so does a method that is not tried."""
    asked: set[tuple[str, str]] = set()

    async def note(request: httpx2.Request) -> None:
        asked.add((request.method.lower(), request.url.path))

    methods = {name for name, _ in inspect.getmembers(AgentClient, inspect.isfunction) if name[0] != "_"}
    assert set(CALLS) == methods - {"close", "stream"}
    async with httpx2.AsyncClient(event_hooks={"request": [note]}, trust_env=False) as http:
        client = AgentClient(agent.url, NO_PATIENCE, http=http)
        for call in CALLS.values():
            await call(client)
        await client.close()  # but what is shared stays open
        paths = (await http.get(f"{agent.url}/openapi.json")).json()["paths"]
    asked.discard(("get", "/openapi.json"))
    assert asked == {(method, path) for path, methods in paths.items() for method in methods}


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
@pytest.mark.asyncio
async def test_a_proxy_that_the_environment_names_is_not_used(
    shared_agent: AgentProcess, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    async with AgentClient(shared_agent.url, NO_PATIENCE) as client:
        assert (await client.status()).agent == "a1"


@pytest.mark.asyncio
async def test_a_refusal_tells_what_the_agent_said(agent: AgentProcess) -> None:
    async with AgentClient(agent.url) as client:
        with pytest.raises(AgentRefusedError) as gap:
            await client.post(POINT, TARGET, Mark("gap", 5))
        assert (gap.value.status, gap.value.slug, gap.value.expected) == (409, "sequence-gap", 0)
        assert str(gap.value) == f"{agent.url}: client gap: sequence 5 came, but 0 is next"
        with pytest.raises(AgentRefusedError) as wrong:
            await client.post([1.0, 2.0, 3.0], TARGET)
        assert (wrong.value.status, wrong.value.slug, wrong.value.expected) == (422, "wrong-dimension", None)


@pytest.mark.asyncio
async def test_rounds_are_run_and_shown(agent: AgentProcess) -> None:
    async with AgentClient(agent.url) as client:
        before = await client.status()
        await client.post(X, Y)
        answer = await client.run_rounds(2)
        assert isinstance(answer, RoundsAnswer)
        assert answer.complete
        assert [one.observations for one in answer.rounds][1:] == [0]
        assert await client.history(2) == answer.rounds
        assert (await client.history())[-2:] == answer.rounds
        after = await client.status()
    assert after.rounds_in_all == before.rounds_in_all + 2
    assert after.observations.applied == before.observations.collected + len(X)
    assert after.round == answer.rounds[-1].round


@pytest.mark.asyncio
async def test_a_belief_in_full_is_the_parameters_as_arrays(agent: AgentProcess) -> None:
    codec = codec_of(MODEL)
    async with AgentClient(agent.url) as client:
        await client.post(X, Y)
        await client.run_rounds()
        belief, message = await client.belief(full=True), await client.parameters(codec)
        shown = codec.prior.plus(message.parts[0].evidence)
        np.testing.assert_array_equal(belief.mean, shown.mean)
        np.testing.assert_array_equal(belief.variance, shown.variance)
        assert belief.mean.any()
        assert (belief.epoch, belief.round) == (message.header.epoch, message.header.round)
        short = await client.belief()
        assert (short.mean, short.variance) == (None, None)
        assert short.largest_variance == belief.variance.max()


@pytest.mark.asyncio
async def test_parameters_are_of_the_round_and_precision_asked_for(agent: AgentProcess) -> None:
    codec = codec_of(MODEL)
    async with AgentClient(agent.url) as client:
        await client.post(X, Y)
        newest = (await client.run_rounds()).rounds[-1]
        exact = await client.parameters(codec, newest.epoch, newest.round)
        rounded = await client.parameters(codec, precision="float32")
        assert exact.header.round == rounded.header.round == newest.round
        information = exact.parts[0].evidence.information
        np.testing.assert_array_equal(rounded.parts[0].evidence.information, information.astype(np.float32))
        waiting = asyncio.create_task(client.parameters(codec, newest.epoch, newest.round + 1, wait_s=30))
        await client.run_rounds()
        assert (await waiting).header.round == newest.round + 1
        with pytest.raises(AgentRefusedError) as unknown:
            await client.parameters(codec, newest.epoch, newest.round + 9)
        assert (unknown.value.status, unknown.value.slug) == (404, "round-unknown")


# Documents.


@pytest.mark.asyncio
async def test_documents_read_back_are_those_that_were_put(shared_agent: AgentProcess) -> None:
    """Before that: no model, and the number 0."""
    neighbor = Neighbor(name="b ü", url="http://127.0.0.1:1", weight=0.1 + 0.2)
    neighbors = NeighborsDocument.parse(
        {
            "epoch": 2**62,
            "agents": 3,
            "index": 2,
            "own_weight": 1 - neighbor.weight,
            "neighbors": [neighbor.model_dump()],
            "history": 7,
            "precision": "float32",
        }
    )
    schedule = ScheduleDocument.parse(
        {"revision": 9, "exchange": "latest", "forgetting": 1 / 3, "until_round": 0, "likelihood_weight": 0.7}
    )
    async with AgentClient(shared_agent.url) as client:
        assert await client.model() is None
        assert await client.neighbors() == NO_NEIGHBORS
        assert await client.schedule() == NO_SCHEDULE
        with pytest.raises(AgentRefusedError) as refused:
            await client.position("robot")
        assert refused.value.slug == "no-model"
        for _ in range(2):  # the same again changes nothing
            await client.put_model(DOCUMENT)
            await client.put_neighbors(neighbors)
            await client.put_schedule(schedule)
        assert await client.model() == DOCUMENT
        assert await client.neighbors() == neighbors
        assert await client.schedule() == schedule
        with pytest.raises(AgentRefusedError) as older:
            await client.put_schedule(schedule.model_copy(update={"revision": 8}))
        assert older.value.slug == "older-revision"


# Observations.


@pytest.mark.asyncio
async def test_a_stream_goes_on_where_the_agent_has_it(agent: AgentProcess) -> None:
    """Whoever takes it up: the number is the agent's, not the program's."""
    name = "röb ot&=+%/#1"
    before = collected(agent)
    async with AgentClient(agent.url) as client:
        stream = client.stream(name)
        assert await client.position(name) == StreamPosition(name, 0, False)
        assert await stream.post(POINT, TARGET) == Stored(1, 1)
        assert await stream.post(X, Y) == Stored(len(X), 2)
    async with AgentClient(agent.url) as client:
        assert await client.position(name) == StreamPosition(name, 2, False)
        again = client.stream(name)
        assert await again.next_sequence() == 2
        assert await again.post(X[:3], Y[:3]) == Stored(3, 3)
        await again.end()
        assert await client.position(name) == StreamPosition(name, 4, True)
        with pytest.raises(AgentRefusedError) as ended:
            await client.stream(name).post(POINT, TARGET)
        assert ended.value.slug == "stream-ended"
    assert collected(agent) == before + 1 + len(X) + 3


@pytest.mark.asyncio
async def test_a_last_batch_can_end_its_stream(agent: AgentProcess) -> None:
    async with AgentClient(agent.url) as client:
        await client.stream("short").post(X, Y, end=True)
        assert await client.position("short") == StreamPosition("short", 1, True)


@pytest.mark.asyncio
async def test_batches_that_are_posted_at_once_have_numbers_of_their_own(agent: AgentProcess) -> None:
    before = collected(agent)
    async with AgentClient(agent.url) as client:
        stream = client.stream("at once")
        stored = await asyncio.gather(*(stream.post(POINT, TARGET) for _ in range(5)), stream.post(X, Y))
        await stream.end()
    assert [one.next_sequence for one in stored] == [1, 2, 3, 4, 5, 6]
    assert collected(agent) == before + 5 + len(X)


@pytest.mark.asyncio
async def test_a_marked_batch_whose_answer_was_lost_is_stored_once(agent: AgentProcess) -> None:
    before = collected(agent)
    lost, passed = passed_on(agent, lose_answer=True), passed_on(agent)
    patience = Patience(first_pause_s=0.001)
    async with raw_server(passed, lost, lost, passed) as raw, AgentClient(raw.url, patience) as client:
        stream = client.stream("lost")
        assert await stream.post(X, Y) == Stored(len(X), 1)
        assert [request.method for request in raw.asked] == ["GET", "POST", "POST", "POST"]
        await stream.end()
    assert collected(agent) == before + len(X)
    assert agent.http.get("/v1/streams", params={"client": "lost"}).json()["next_sequence"] == 2


@pytest.mark.parametrize("query", [{}, {"client": ""}, {"client": "x" * 65}], ids=["missing", "empty", "too long"])
def test_a_stream_is_asked_for_by_a_name(shared_agent: AgentProcess, query: dict[str, str]) -> None:
    assert problem(shared_agent.http.get("/v1/streams", params=query)) == (400, "invalid-query")
