"""One agent as the dashboard knows it: there, gone, hanging, another, refusing, begun anew."""

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from client.dashboard import agent_watch
from client.dashboard.agent_watch import AgentWatch
from client.dashboard.places import Place
from client.dashboard.series import Curves
from client.tokens import TokenFolder, Tokens, make_tokens
from service.wire.answers import RoundSummary
from tests.client.raw_server import Asked, Reply, passed_on, problem_reply, raw_server, reply
from tests.dashboard.dashboards import PERIOD_S, counting_proxy, place_of
from tests.dashboard.fleet import Fleet
from tests.network.networks import model_of
from tests.processes import PATIENCE_S, AgentProcess, Agents, free_port


@asynccontextmanager
async def watch_of(place: Place, tokens: Tokens | None = None) -> AsyncIterator[AgentWatch]:
    """A watch that asks only when it is told to."""
    async with httpx2.AsyncClient(trust_env=False, verify=False) as http:
        yield AgentWatch(0, place, http, tokens, lambda: None)


@asynccontextmanager
async def running(place: Place, tokens: Tokens | None = None) -> AsyncIterator[AgentWatch]:
    """A watch at work."""
    async with watch_of(place, tokens) as watch, asyncio.TaskGroup() as tasks:
        work = [watch.poll_forever(PERIOD_S), watch.follow_forever(PERIOD_S)]
        at_work = [tasks.create_task(one) for one in work]
        yield watch
        for task in at_work:
            task.cancel()


async def come_true(condition: Callable[[], Any]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - agents tell nobody here
            await asyncio.sleep(0.01)


class Heard(Curves):
    """Remembers which rounds it was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def add_round(self, summary: RoundSummary) -> None:
        self.numbers.append(summary.number)
        super().add_round(summary)


@pytest.fixture(autouse=True)
def heard_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_watch, "Curves", Heard)


def rounds_of(watch: AgentWatch) -> list[int]:
    """The rounds that it has heard of."""
    assert isinstance(watch.curves, Heard)
    return watch.curves.numbers


def test_a_refused_connection_is_enough_to_be_unreachable(fleet: Fleet) -> None:
    async def story() -> None:
        async with watch_of(Place("a1", f"http://127.0.0.1:{free_port()}")) as watch:
            assert (watch.health, watch.state, watch.is_there) == ("loading", "not asked yet", False)
            await watch.poll()
            assert (watch.health, watch.state, watch.is_there) == ("unreachable", "unreachable", False)
            assert "nobody listens" in (watch.reason or "")

    asyncio.run(story())


def test_an_agent_that_hangs_is_unreachable_after_two_polls_and_comes_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = fleet["a1"]
    assert agent.process is not None

    async def story() -> None:
        async with watch_of(place_of(agent)) as watch:
            await watch.poll()
            assert watch.health == "idle"
            monkeypatch.setattr(agent_watch, "ANSWER_S", 0.2)
            assert agent.process is not None
            agent.process.send_signal(signal.SIGSTOP)
            await watch.poll()
            assert watch.health == "idle"  # it may have been busy
            await watch.poll()
            assert (watch.health, watch.state) == ("unreachable", "unreachable")
            assert "took too long" in (watch.reason or "")
            assert watch.status is not None  # what it said last is still known
            agent.process.send_signal(signal.SIGCONT)
            monkeypatch.setattr(agent_watch, "ANSWER_S", 10.0)
            await watch.poll()
            assert (watch.health, watch.reason) == ("idle", None)

    try:
        asyncio.run(story())
    finally:
        agent.process.send_signal(signal.SIGCONT)


def test_a_single_answer_that_is_lost_makes_nobody_unreachable(fleet: Fleet) -> None:
    async def story() -> None:
        lost = iter([False, True, False, True, False])

        async def answer(asked: Asked) -> Reply:
            return None if asked.target == "/v1/status" and next(lost) else await passed_on(fleet["a1"])(asked)

        async with raw_server(answer) as server, watch_of(Place("a1", server.url)) as watch:
            for _ in range(5):
                await watch.poll()
                assert watch.health == "idle"

    asyncio.run(story())


def test_another_agent_under_that_address_is_told_and_not_mixed_up(fleet: Fleet) -> None:
    async def story() -> None:
        async with watch_of(Place("a1", fleet["a2"].url)) as watch:
            await watch.poll()
            assert (watch.health, watch.is_there) == ("refused", False)
            assert watch.reason == f"{fleet['a2'].url} is a2, not a1"
            assert "token" not in watch.state
            assert (watch.name, watch.status, watch.facts, watch.rounds) == ("a1", None, None, 0)
            assert all(len(series) == 0 for series in watch.curves.series.values())

    asyncio.run(story())


def test_who_is_watched_by_its_address_alone_has_the_name_that_it_tells(fleet: Fleet) -> None:
    async def story() -> None:
        async with watch_of(Place(url=fleet["a2"].url)) as watch:
            assert watch.name == fleet["a2"].url
            await watch.poll()
            assert (watch.name, watch.health) == ("a2", "idle")

    asyncio.run(story())


def test_a_token_that_is_not_accepted_is_told_in_words(fleet: Fleet, tmp_path: Path) -> None:
    make_tokens(tmp_path)

    async def story() -> None:
        for tokens, words in ((None, "role read"), (TokenFolder(tmp_path), "not known here")):
            async with watch_of(place_of(fleet["r2"]), tokens) as watch:
                await watch.poll()
                assert (watch.health, watch.state, watch.is_there) == ("refused", "asks for another token", False)
                assert words in (watch.reason or "")
        async with watch_of(place_of(fleet["r2"]), TokenFolder(fleet.tokens)) as watch:
            await watch.poll()
            assert (watch.health, watch.reason) == ("idle", None)

    asyncio.run(story())


def test_rounds_are_heard_as_they_happen_and_each_counts_once(fleet: Fleet) -> None:
    async def story() -> None:
        async with running(place_of(fleet["r1"])) as watch:
            await come_true(lambda: watch.rounds > 0 and rounds_of(watch)[-1:] == [watch.rounds])
            before = watch.rounds
            assert rounds_of(watch) == list(range(1, before + 1))  # those before we came
            assert watch.health == "idle"
            fleet.schedule("r1", period_s=0.02)
            await come_true(lambda: watch.rounds >= before + 30 and watch.health == "ok")
            fleet.pause("r1")
            await come_true(lambda: watch.health == "idle" and rounds_of(watch)[-1] == watch.rounds)
            assert rounds_of(watch) == list(range(1, watch.rounds + 1))
            counted = watch.status
            assert counted is not None
            assert watch.rounds == counted.rounds_in_all

    asyncio.run(story())


@pytest.mark.parametrize("given", [problem_reply(503, "busy"), problem_reply(403, "wrong-role"), None])
def test_where_events_are_refused_or_cut_rounds_come_in_by_history_all_of_them(
    fleet: Fleet, given: bytes | None
) -> None:
    async def story() -> None:
        async def answer(asked: Asked) -> Reply:
            return given if asked.target.startswith("/v1/events") else await passed_on(fleet["r1"])(asked)

        async with raw_server(answer) as server, running(Place("r1", server.url)) as watch:
            await come_true(lambda: watch.rounds > 0)
            before = watch.rounds
            fleet.schedule("r1", period_s=0.02)
            await come_true(lambda: rounds_of(watch)[-1:] > [before + 20])
            fleet.pause("r1")
            await come_true(lambda: watch.health == "idle" and rounds_of(watch)[-1] == watch.rounds)
            assert rounds_of(watch) == list(range(1, watch.rounds + 1))

    asyncio.run(story())


def test_events_go_on_after_their_connection_was_cut(fleet: Fleet) -> None:
    with counting_proxy() as proxy:
        port = proxy.to(fleet["r1"].port)

        async def story() -> None:
            async with running(place_of(fleet["r1"], port)) as watch:
                await come_true(lambda: proxy.count("GET /v1/events") == 1)
                proxy.cut = b"event: round"
                fleet.schedule("r1", period_s=0.02)
                await come_true(lambda: proxy.count("GET /v1/events") >= 3)
                proxy.cut = None
                heard = rounds_of(watch)[-1]
                await come_true(lambda: rounds_of(watch)[-1] > heard)
                fleet.pause("r1")
                await come_true(lambda: watch.health == "idle" and rounds_of(watch)[-1] == watch.rounds)
                assert rounds_of(watch) == list(range(1, watch.rounds + 1))

        asyncio.run(story())


@pytest.mark.thorough
def test_an_agent_that_moved_and_one_that_lost_its_data(agents: Agents) -> None:
    """One process, restarted twice: first with its data on another port, then without its data."""
    agent = agents("m1")
    model = {"revision": 1, "model": model_of("diagonal", {"kind": "probit"})}
    rule = {"revision": 1, "exchange": "latest", "period_s": 0.02}

    def move(agent: AgentProcess) -> None:
        agent.terminate()
        agent.port = free_port()
        agent.url = f"http://127.0.0.1:{agent.port}"
        agent.http.base_url = httpx2.URL(agent.url)

    async def story() -> None:
        async with running(Place("m1", folder=agent.folder)) as watch:
            await come_true(lambda: watch.health == "idle")
            assert (watch.facts, watch.state) == (None, "has no model")
            agent.put("model", model)
            agent.put("schedule", rule)
            await come_true(lambda: watch.health == "ok" and watch.facts is not None and len(rounds_of(watch)) > 10)
            agent.put("schedule", {**rule, "revision": 2, "paused": True})
            await come_true(lambda: watch.health == "idle" and rounds_of(watch)[-1] == watch.rounds)
            before = rounds_of(watch)

            await asyncio.to_thread(move, agent)
            await come_true(lambda: watch.health == "unreachable")
            await asyncio.to_thread(agent.start)
            await come_true(lambda: watch.health == "idle")
            assert watch.url == agent.url
            assert rounds_of(watch) == before  # the same agent goes on

            await asyncio.to_thread(agent.terminate)
            shutil.rmtree(agent.folder)
            await asyncio.to_thread(agent.start)
            await come_true(lambda: watch.health == "idle" and watch.rounds == 0)
            assert (watch.rounds, rounds_of(watch)) == (0, [])
            assert watch.facts is None  # it has no model any more
            agent.put("model", model)
            agent.put("schedule", rule)
            await come_true(lambda: len(rounds_of(watch)) > 3)
            assert rounds_of(watch)[:3] == [1, 2, 3]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("phase", "faults", "health"),
    [
        *((phase, {}, "ok") for phase in ("resting", "neighbors", "observations", "computing")),
        *((phase, {}, "idle") for phase in ("paused", "finished", "no-model")),
        ("failed", {"rounds": "the arithmetic failed"}, "fault"),
        ("resting", {"storage": "the disk is full"}, "fault"),
    ],
)
def test_what_an_agent_does_decides_its_health(fleet: Fleet, phase: str, faults: dict[str, str], health: str) -> None:
    document = {**fleet["a1"].status(), "phase": phase, "faults": faults}

    async def story() -> None:
        async def answer(asked: Asked) -> Reply:
            if asked.target == "/v1/status":
                return reply(200, json.dumps(document).encode())
            return await passed_on(fleet["a1"])(asked)

        async with raw_server(answer) as server, watch_of(Place("a1", server.url)) as watch:
            await watch.poll()
            assert (watch.health, watch.is_there) == (health, True)
            assert next(iter(faults.values()), "") in watch.state

    asyncio.run(story())
