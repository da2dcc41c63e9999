"""The client's ways to ask: predictions, maps, events, and answers to them that no agent would give."""

import asyncio
import io
import signal
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image

from client.agent_client import AgentClient
from client.blocking import BlockingAgentClient
from client.listening import Listener
from client.retries import NO_PATIENCE, Patience
from service.errors import AgentRefusedError, AgentUnreachableError, DataError
from service.inference.prediction import predict
from service.wire.answers import RoundSummary
from service.wire.configuration import ModelDocument, ScheduleDocument
from service.wire.map_query import MapQuery
from service.wire.verification import VerificationDocument
from tests.client.raw_server import raw_server, reply
from tests.processes import AgentProcess, agent_factory, codec_of

MODEL: dict[str, Any] = {
    "features": {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [2, 1]},
    "prior": {"information": 0.2},
    "likelihood": {"kind": "probit"},
}
generator = np.random.default_rng(0)
X = generator.uniform(0, [2, 1], (40, 2))
Y = (X[:, 0] > 1).astype(float)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """A paused agent that has seen some observations."""
    for start in agent_factory(tmp_path_factory.mktemp("asking")):
        agent = start("a1")
        with BlockingAgentClient(agent.url) as client:
            client.put_model(ModelDocument.parse({"revision": 1, "model": MODEL}))
            client.put_schedule(ScheduleDocument.parse({"revision": 1, "paused": True, "when_short": "go"}))
            client.put_verification(VerificationDocument(1, 2, X, Y))
            client.post(X, Y)
            client.run_rounds(2)
        yield agent


def test_predictions_come_as_arrays(agent: AgentProcess) -> None:
    codec = codec_of(MODEL)
    with BlockingAgentClient(agent.url) as client:
        answer = client.predict(X)
        evidence = client.parameters(codec, answer.epoch, answer.round).parts[0].evidence
        one = client.predict(X[0])
    document = ModelDocument.parse({"revision": 1, "model": MODEL})
    activations = document.spec.build_features().activate(X)
    expected = predict(codec.prior.plus(evidence), activations, document.build_likelihood())
    np.testing.assert_allclose(answer.probability, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(answer.latent_variance, expected.latent_variance, rtol=1e-12)
    assert answer.mean is None
    assert one.probability.tolist() == answer.probability[:1].tolist()


@pytest.mark.parametrize("points", [[[1.0, 2.0], [1.0]], "here", [[[1.0]]], 3.0])
def test_points_that_are_none_are_refused_before_they_are_sent(points: Any) -> None:
    with BlockingAgentClient("http://127.0.0.1:1", NO_PATIENCE) as client, pytest.raises(DataError, match="rows"):
        client.predict(points)


def test_a_map_that_one_has_already_is_not_sent_again(agent: AgentProcess) -> None:
    with BlockingAgentClient(agent.url) as client:
        query = MapQuery(layer="entropy", bounds="0,0,2,1", resolution=0.1)
        first = client.map(query)
        assert first is not None
        assert Image.open(io.BytesIO(first.content)).size == (20, 10)
        assert client.map(query, first.tag) is None
        client.run_rounds(1)
        second = client.map(query, first.tag)
        assert second is not None
        assert (second.epoch, second.round) == (first.epoch, first.round + 1)
        plain = client.map()
        assert plain is not None
        assert Image.open(io.BytesIO(plain.content)).size == (300, 150)


def test_the_verification_tells_its_newest_scores(agent: AgentProcess) -> None:
    with BlockingAgentClient(agent.url) as client:
        told = client.verification()
        assert (told.revision, told.every_rounds, told.points) == (1, 2, 40)
        assert told.scores is not None
        assert told.scores["accuracy"] > 0.9
        assert "delbo_verification_score" in client.metrics()


def test_events_come_without_await(agent: AgentProcess) -> None:
    with BlockingAgentClient(agent.url) as client:
        events = client.events()
        first = next(events)
        client.run_rounds(2)
        following = [next(events), next(events)]
        assert [one.summary.number for one in following] == [first.summary.number + 1, first.summary.number + 2]
        assert following[1].summary == client.history(1)[0]
        events.close()  # type: ignore[attr-defined]
        again = next(client.events(first.id))
        assert again == following[0]


def test_events_that_are_left_waiting_leave_nothing_behind(agent: AgentProcess) -> None:
    """Ctrl-C while it waits, and a client that is closed before its iterator."""
    with BlockingAgentClient(agent.url) as client:
        events = client.events()
        next(events)
        threading.Timer(0.1, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            next(events)
        with pytest.raises(StopIteration):
            next(events)
        kept = client.events()
        next(kept)
    kept.close()  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="has been closed"):
        next(client.events())


def test_events_of_an_agent_that_is_gone_end_with_the_reason() -> None:
    with BlockingAgentClient("http://127.0.0.1:1", NO_PATIENCE) as client, pytest.raises(AgentUnreachableError):
        next(client.events())


@pytest.mark.asyncio
async def test_quiet_agents_are_waited_for_again_when_the_connection_breaks() -> None:
    """Longer than the patience no round has come, but comments have."""
    now = 0.0

    async def quiet(request: Any) -> Any:
        async def pieces() -> Any:
            nonlocal now
            yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            for _ in range(10):
                yield b": still here\n\n"
                await asyncio.sleep(0.01)
                now += 15.0
            raise OSError

        return pieces()

    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    patience = Patience(silent_s=60.0, clock=lambda: now, sleep=sleep)
    async with raw_server(quiet, None) as raw, AgentClient(raw.url, patience) as client:
        with pytest.raises(AgentUnreachableError):
            await anext(client.events())
    assert len(pauses) >= 2
    assert len(raw.asked) == len(pauses) + 1


def test_what_was_missed_is_not_counted_twice_when_the_connection_breaks() -> None:
    listener = Listener("a-1")
    listener.read("here", b'event: missed\ndata: {"rounds": 7}\n\n')
    assert listener.reconnect() == {"last-event-id": "a-1"}
    summary = RoundSummary(0, 9, 0.0, 0, 0, (), (), 1.0, 0.0, 0.0)
    text = b'event: missed\ndata: {"rounds": 7}\n\nid: a-9\nevent: round\ndata: %b\n\n'
    [event] = listener.read("here", text % msgspec.json.encode(summary))
    assert event.missed == 7


@pytest.mark.asyncio
async def test_events_go_on_behind_the_last_one_when_the_connection_breaks(agent: AgentProcess) -> None:
    """The first connection brings one event and half of another, and breaks."""
    async with AgentClient(agent.url) as client:
        real = await anext(client.events())
        later = (await client.run_rounds(1)).rounds[0]
    incarnation, number = real.id.rsplit("-", 1)
    texts = [
        f"id: {incarnation}-{int(number) + step}\nevent: round\ndata: {msgspec.json.encode(summary).decode()}\n\n"
        for step, summary in enumerate((real.summary, later))
    ]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    broken = head + b"retry: 1000\n\n" + texts[0].encode() + texts[1].encode()[:40]
    whole = head + b": still here\n\n" + b'event: missed\ndata: {"rounds": 3}\n\n' + texts[1].encode()
    async with raw_server(_then_cut(broken), _then_cut(whole)) as raw:
        async with AgentClient(raw.url, Patience(first_pause_s=0.001)) as client:
            events = client.events()
            first, second = await anext(events), await anext(events)
            await events.aclose()
        assert (first.id, first.missed, second.missed) == (real.id, 0, 3)
        assert second.summary == later
        assert [one.headers.get("last-event-id") for one in raw.asked[:2]] == [None, real.id]


@pytest.mark.asyncio
async def test_events_end_with_the_patience() -> None:
    async with raw_server(None) as raw, AgentClient(raw.url, NO_PATIENCE) as client:
        with pytest.raises(AgentUnreachableError, match=raw.url):
            await anext(client.events())


@pytest.mark.parametrize("text", [b"event: round\ndata: {}\n\n", b"event: round\n\n", b"event: missed\ndata: []\n\n"])
def test_events_that_no_agent_would_send_are_told(text: bytes) -> None:
    with pytest.raises(AgentRefusedError, match="something else than an agent"):
        Listener().read("http://here/v1/events", text)


def test_an_event_without_end_is_told() -> None:
    listener = Listener()
    listener.read("http://here/v1/events", b"x" * 2**24)
    with pytest.raises(AgentRefusedError, match="something else than an agent"):
        listener.read("http://here/v1/events", b"x")


@pytest.mark.parametrize(
    "headers", [{}, {"etag": '"1"', "delbo_epoch": "1"}, {"etag": '"1"', "delbo_epoch": "a", "delbo_round": "1"}]
)
@pytest.mark.asyncio
async def test_a_map_that_no_agent_would_send_is_told(headers: dict[str, str]) -> None:
    async with raw_server(reply(200, b"PNG", **headers)) as raw, AgentClient(raw.url, NO_PATIENCE) as client:
        with pytest.raises(AgentRefusedError, match="something else than an agent"):
            await client.map()


def _then_cut(content: bytes) -> Any:
    async def answer(request: Any) -> Any:
        async def pieces() -> Any:
            yield content
            await asyncio.sleep(0)
            raise OSError  # which cuts the connection

        return pieces()

    return answer
