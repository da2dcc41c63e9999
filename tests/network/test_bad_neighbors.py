"""A neighbor that answers badly costs its news and nothing else; it is named, and taken back when it is good."""

import asyncio
import gzip
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np
import pytest

from service.inference.belief import Evidence
from service.wire.parameters import MEDIA_TYPE, Header, ParameterMessage, Part
from tests.network.networks import model_of
from tests.processes import AgentProcess, Agents, agent_factory, codec_of, free_port, until

MODEL = model_of("diagonal", {"kind": "probit"})
CODEC = codec_of(MODEL)
D = CODEC.prior.dimension
EPOCH = 5
DEADLINE_S, STALE_AFTER_S = 0.2, 0.5

After = Literal["go on", "close", "hang"]


@dataclass
class Fake:
    """A neighbor made of bytes: good until told to be bad."""

    name: str
    answer_badly: Callable[["Fake"], tuple[bytes, After]]
    state: str | None  # that it is shown in while it is bad
    reason: str  # that is told
    is_bad: bool = False
    round: int = 0  # the newest that it showed while it was good
    port: int = 0

    def message(self, **changes: Any) -> ParameterMessage:
        header = replace(Header(self.name, 7, CODEC.model_id, EPOCH, self.round), **changes)
        evidence = Evidence(np.ones(D), np.linspace(-1, 1, D))
        return ParameterMessage(header, (Part(header.agent, header.round, 0, evidence),))

    def answer(self, target: str) -> tuple[bytes, After]:
        if self.is_bad:
            return self.answer_badly(self)
        asked = re.search(r"round=(\d+)", target)
        self.round = int(asked[1]) if asked else self.round + 1
        return ok(CODEC.encode(self.message())), "go on"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        after: After = "go on"
        # asyncio's streams would complain of a handler that was cancelled.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while after == "go on":
                head = await reader.readuntil(b"\r\n\r\n")
                data, after = self.answer(head.split()[1].decode())
                for piece in data.split(PAUSE):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
            if after == "hang":
                await reader.read()
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


PAUSE = b"<what follows comes in a packet of its own>"


def ok(body: bytes, head: str = "", length: int | None = None) -> bytes:
    length = len(body) if length is None else length
    return f"HTTP/1.1 200 OK\r\ncontent-type: {MEDIA_TYPE}\r\n{head}content-length: {length}\r\n\r\n".encode() + body


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def says(data: bytes, after: After = "go on") -> Callable[[Fake], tuple[bytes, After]]:
    return lambda _: (data, after)


def shows(**header: Any) -> Callable[[Fake], tuple[bytes, After]]:
    """A message that is good but for its header."""
    return lambda fake: (ok(CODEC.encode(fake.message(**header))), "go on")


def packs(path: str, value: Any) -> Callable[[Fake], tuple[bytes, After]]:
    """A message that is good but for one field."""

    def answer(fake: Fake) -> tuple[bytes, After]:
        document = msgspec.msgpack.decode(CODEC.encode(fake.message()))
        place, *steps = [document, *path.split(".")]
        for step in steps[:-1]:
            place = place[int(step) if step.isdigit() else step]
        place[steps[-1]] = value
        return ok(msgspec.msgpack.encode(document)), "go on"

    return answer


def numbers(values: Any, dtype: str = "<f8") -> dict[str, Any]:
    array = np.asarray(values, dtype)
    return {"dtype": dtype, "shape": list(array.shape), "data": array.tobytes()}


ONE_NAN = np.where(np.arange(D) == 3, np.nan, 1.0)
INFORMATION = "parts.0.information"
GOOD = CODEC.encode(Fake("good", says(b""), None, "").message())
TOO_LONG = bytes(CODEC.size_limit + 1)
PROBLEM = b'{"type": "urn:delbo:problem:internal", "title": "It", "status": 500, "detail": "went wrong"}'

REFUSED = [
    Fake("cut off", says(ok(GOOD[:-50], length=len(GOOD)), "close"), "refused", "truncated"),
    Fake("cut off in chunks", says(CHUNKED + chunk(GOOD[:50]), "close"), "refused", "truncated"),
    Fake("cut off in its head", says(b"HTTP/1.1 200 OK\r\ncontent-le", "close"), "refused", "truncated"),
    Fake("too long, and says so", says(ok(bytes(10), length=10**12), "hang"), "refused", "oversized"),
    Fake("too long in chunks", says(CHUNKED + chunk(TOO_LONG[1:]) + chunk(b"x"), "hang"), "refused", "oversized"),
    Fake("too long, no length", says(b"HTTP/1.1 200 OK\r\n\r\n" + TOO_LONG, "hang"), "refused", "oversized"),
    Fake("too long a head", says(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000, "hang"), "refused", ""),
    Fake("of another model", shows(model_id="0" * 64), "refused", "wrong-model"),
    Fake("of another agent", shows(agent="somebody else"), "refused", "wrong-agent"),
    Fake("older than known", shows(round=0), "refused", "older"),
    Fake("of an older epoch", shows(epoch=EPOCH - 1, round=10**9), "refused", "older"),
    Fake("not positive definite", packs(INFORMATION, numbers(np.full(D, -0.5))), "refused", "not-positive-definite"),
    Fake("NaN", packs(INFORMATION, numbers(ONE_NAN)), "refused", "not-finite"),
    Fake("infinite", packs("parts.0.shift", numbers(np.full(D, np.inf))), "refused", "not-finite"),
    Fake("too few numbers", packs(INFORMATION, numbers(np.ones(D - 1))), "refused", "shape"),
    Fake("of integers", packs(INFORMATION, numbers(np.ones(D), "<i8")), "refused", "dtype"),
    Fake("of another version", packs("version", 2), "refused", "version"),
    Fake("without parts", packs("parts", []), "refused", "malformed"),
    Fake("before time began", packs("round", -1), "refused", "malformed"),
    Fake("garbage", says(ok(b"\xc1garbage")), "refused", "malformed"),
    Fake("empty", says(ok(b"")), "refused", "malformed"),
    Fake("compressed", says(ok(gzip.compress(GOOD), "content-encoding: gzip\r\n")), "refused", "malformed"),
    Fake("not HTTP", says(b"\x00\x01\x02\r\n\r\n", "hang"), "refused", "malformed"),
    Fake("chunks of no size", says(CHUNKED + b"many\r\n" + GOOD, "hang"), "refused", "malformed"),
]  # fmt: skip
UNREACHABLE = [
    Fake("silent", says(b"", "hang"), "unreachable", "deadline"),
    Fake("without end", says(ok(GOOD[:-1], length=len(GOOD)), "hang"), "unreachable", "deadline"),
    Fake("closed", says(b"", "close"), "unreachable", "closed"),
    Fake("broken", says(ok(PROBLEM).replace(b"200 OK", b"500 No")), "unreachable", "500"),
    Fake("moved", says(ok(b"", "location: /v1/parameters\r\n").replace(b"200 OK", b"302 No")), "unreachable", "302"),
    Fake("without content", says(b"HTTP/1.1 204 No Content\r\n\r\n"), "unreachable", "204"),
]  # fmt: skip
FAKES = [*REFUSED, *UNREACHABLE]


@contextmanager
def serving(fakes: list[Fake]) -> Iterator[None]:
    """All fakes, each on a port of its own, from one thread."""
    loop = asyncio.new_event_loop()
    servers: list[asyncio.Server] = []

    async def listen() -> None:
        for fake in fakes:
            server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
            fake.port = server.sockets[0].getsockname()[1]
            servers.append(server)

    async def close() -> None:
        for server in servers:
            server.close()
        handlers = asyncio.all_tasks() - {asyncio.current_task()}
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

    loop.run_until_complete(listen())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def connect(agent: AgentProcess, urls: dict[str, str], epoch: int = EPOCH) -> None:
    weight = 1 / (len(urls) + 1)
    neighbors = [{"name": name, "url": url, "weight": weight} for name, url in urls.items()]
    agent.put("neighbors", {"epoch": epoch, "agents": len(urls) + 1, "own_weight": weight, "neighbors": neighbors})


def rows(agent: AgentProcess) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in agent.status()["neighbors"]}


def newest(agent: AgentProcess) -> dict[str, Any]:
    return dict(agent.http.get("/v1/history?limit=1").json()["rounds"][0])


@dataclass
class Story:
    """What the status said of each neighbor: when all were good, when all were bad, and when all were good again."""

    good: dict[str, dict[str, Any]]
    bad: dict[str, dict[str, Any]]
    good_again: dict[str, dict[str, Any]]
    shown: dict[str, int]  # each neighbor's last round before it became bad
    bad_round: dict[str, Any]  # a round that was made while all were bad
    last_round: dict[str, Any]  # and one after that
    rounds_while_bad: int


def names(fakes: list[Fake]) -> set[str]:
    return {fake.name for fake in fakes}


def as_expected(found: dict[str, dict[str, Any]]) -> bool:
    return all(found[fake.name]["state"] == fake.state for fake in FAKES)


def all_fresh(agent: AgentProcess) -> dict[str, dict[str, Any]]:
    """What is told of them; nothing if one is not fresh."""
    found = rows(agent)
    return found if all(row["state"] == "fresh" for row in found.values()) else {}


def nobody_missing(agent: AgentProcess) -> dict[str, Any]:
    """The newest round, if everybody took part in it."""
    found = newest(agent)
    return {} if found["missing"] else found


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """One agent with all the fakes as its neighbors."""
    with serving(FAKES):
        for start in agent_factory(tmp_path_factory.mktemp("neighbors")):
            yield live_through(start("a1"))


def live_through(agent: AgentProcess) -> Story:
    agent.put("model", {"revision": 1, "model": MODEL})
    connect(agent, {fake.name: f"http://127.0.0.1:{fake.port}" for fake in FAKES})
    schedule = {"exchange": "latest", "deadline_s": DEADLINE_S, "stale_after_s": STALE_AFTER_S}
    agent.put("schedule", {"revision": 1, "period_s": 0.01, **schedule})
    good = until(lambda: all_fresh(agent))

    for fake in FAKES:
        fake.is_bad = True
    begun = agent.status()["round"]
    with suppress(AssertionError):  # then the tests tell whose state is another
        until(lambda: as_expected(rows(agent)))
        until(lambda: all(sum(rows(agent)[name]["refusals"].values()) > 1 for name in names(REFUSED)))
        until(lambda: not newest(agent)["mixed"])  # what was known is too old by now
    until(lambda: agent.status()["round"] > begun + 5)
    shown = {fake.name: fake.round for fake in FAKES}
    bad, bad_round, end = rows(agent), newest(agent), agent.status()["round"]

    for fake in FAKES:
        fake.is_bad = False
    good_again = until(lambda: all_fresh(agent))
    last_round = until(lambda: nobody_missing(agent))
    assert not agent.status()["faults"]
    assert agent.terminate() == 0
    assert "Traceback" not in agent.log.read_text()
    assert " ERROR " not in agent.log.read_text()
    return Story(good, bad, good_again, shown, bad_round, last_round, end - begun)


@pytest.mark.parametrize("fake", REFUSED, ids=lambda fake: fake.name)
def test_a_bad_message_is_refused_and_counted_by_reason(story: Story, fake: Fake) -> None:
    row = story.bad[fake.name]
    assert row["state"] == "refused"
    assert row["reason"].startswith(f"{fake.reason}: " if fake.reason else "")
    assert list(row["refusals"]) == [fake.reason or row["reason"].partition(":")[0]]
    assert row["refusals"][row["reason"].partition(":")[0]] == row["pulls"]["refused"] > 1


@pytest.mark.parametrize("fake", UNREACHABLE, ids=lambda fake: fake.name)
def test_a_neighbor_that_gives_no_message_is_unreachable(story: Story, fake: Fake) -> None:
    row = story.bad[fake.name]
    assert row["state"] == "unreachable"
    assert fake.reason in row["reason"]
    assert row["refusals"] == {}
    assert row["age_s"] > STALE_AFTER_S


@pytest.mark.parametrize("fake", FAKES, ids=lambda fake: fake.name)
def test_the_last_good_message_stays(story: Story, fake: Fake) -> None:
    assert story.good[fake.name]["round"] > 0
    assert (story.bad[fake.name]["epoch"], story.bad[fake.name]["round"]) == (EPOCH, story.shown[fake.name])


@pytest.mark.parametrize("fake", FAKES, ids=lambda fake: fake.name)
def test_a_neighbor_that_is_good_again_is_taken_back(story: Story, fake: Fake) -> None:
    row = story.good_again[fake.name]
    assert (row["state"], row["reason"]) == ("fresh", None)
    assert row["round"] > story.shown[fake.name]
    assert row["pulls"]["new"] > story.good[fake.name]["pulls"]["new"]
    assert row["refusals"].keys() >= story.bad[fake.name]["refusals"].keys()  # what was counted stays counted


def test_rounds_go_on_without_the_bad_ones_and_their_weight_stays_with_the_agent(story: Story) -> None:
    assert story.rounds_while_bad > 5
    assert set(story.bad_round["missing"]) == names(FAKES)
    assert story.bad_round["own_weight"] == pytest.approx(1)
    assert set(story.last_round["mixed"]) == names(FAKES)
    assert story.last_round["own_weight"] == pytest.approx(1 / (len(FAKES) + 1))


def test_lockstep_names_a_bad_neighbor_and_goes_on_when_it_is_good(agents: Agents) -> None:
    gone = b'{"type": "urn:delbo:problem:' + PAUSE + b'round-gone", "status": 410}'
    head = b"HTTP/1.1 410 Gone\r\ncontent-length: %d\r\n\r\n" % (len(gone) - len(PAUSE))
    garbage = Fake("garbage", says(ok(b"\xc1")), "refused", "malformed", is_bad=True)
    keeps_nothing = Fake("keeps nothing", says(head + gone), "refused", "round-gone", is_bad=True)
    good = Fake("good", says(b""), "fresh", "")
    agent = agents()
    agent.put("model", {"revision": 1, "model": MODEL})
    with serving([garbage, keeps_nothing, good]):
        connect(agent, {one.name: f"http://127.0.0.1:{one.port}" for one in (garbage, keeps_nothing, good)})
        agent.put("schedule", {"revision": 1, "when_short": "go", "period_s": 0, "until_round": 3})
        until(lambda: {name: row["state"] for name, row in rows(agent).items()} == {
            "garbage": "refused", "keeps nothing": "refused", "good": "fresh",
        })  # fmt: skip
        until(lambda: agent.status()["waits_for"] == ["garbage", "keeps nothing"])
        assert agent.status()["round"] == 0
        assert list(rows(agent)["garbage"]["refusals"]) == ["malformed"]
        assert list(agent.http.get("/v1/readyz").json()["faults"]) == ["round-gone"]
        garbage.is_bad = False
        until(lambda: agent.status()["waits_for"] == ["keeps nothing"])
        keeps_nothing.is_bad = False
        until(lambda: agent.status()["phase"] == "finished")
        assert agent.status()["round"] == 3
        assert agent.http.get("/v1/readyz").status_code == 200


def test_a_url_that_leads_nowhere_is_only_unreachable(agents: Agents) -> None:
    """Also if it is no name that a computer can have."""
    agent = agents()
    agent.put("model", {"revision": 1, "model": MODEL})
    urls = {
        "nobody listens": f"http://127.0.0.1:{free_port()}",
        "no such host": "http://no-such-host.invalid",
        "a label too long": f"http://{'a' * 70}.invalid",
        "a label too short": "http://a..invalid",
        "TLS where there is none": agent.url.replace("http:", "https:"),
    }
    connect(agent, urls)
    agent.put("schedule", {"revision": 1, "exchange": "latest", "period_s": 0, "deadline_s": 0.5})
    until(lambda: set(newest(agent)["missing"]) == set(urls) if agent.status()["round"] else False)
    until(lambda: {row["state"] for row in rows(agent).values()} == {"unreachable"})
    until(lambda: all(row["pulls"] for row in rows(agent).values()))
    agent.put("schedule", {"revision": 2, "period_s": 0})  # lockstep
    until(lambda: agent.status()["waits_for"] == list(urls))
    until(lambda: all(sum(row["pulls"].values()) > 3 for row in rows(agent).values()))
    assert agent.terminate() == 0
    assert "Traceback" not in agent.log.read_text()
