"""The loop of rounds: a real agent with a real file, and neighbors that show their rounds when the test says so."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from service.agent.agent import Agent
from service.agent.exchange import State, first_state
from service.agent.http_client import Reply
from service.agent.rounds import Prepared
from service.errors import NoModelError, NotPausedError, RoundUnknownError, StoppingError
from service.inference.belief import Evidence
from service.wire.configuration import ModelDocument, NeighborsDocument, ScheduleDocument
from service.wire.observations import Observations
from service.wire.parameters import Header, ParameterMessage, Part
from tests.wire.test_model import SMALL

MODEL = ModelDocument.parse({"revision": 1, "model": {**SMALL, "likelihood": {"kind": "gaussian", "precision": 4.0}}})
PATIENCE_S = 20.0
FOREVER_S = 600.0
SHORT_S = 0.05

Found = TypeVar("Found")


class Peers:
    """The neighbors: a request waits until its round is shown; all requests are noted."""

    def __init__(self) -> None:
        self.shown: dict[tuple[str, int, int], ParameterMessage] = {}
        self.newest: dict[str, ParameterMessage] = {}
        self.asked: list[tuple[str, int | None]] = []
        self.cancelled: list[tuple[str, int | None]] = []
        self.held: dict[tuple[str, int | None], asyncio.Event] = {}
        self.lingering: asyncio.Event | None = None  # a request that is cancelled ends only then
        self.fixed: Reply | None = None
        self.agent: Agent | None = None

    def show(self, name: str, epoch: int, round_number: int) -> ParameterMessage:
        """From now on the neighbor shows this round, whose numbers tell whose and which it is."""
        assert self.agent is not None
        nothing = self.agent.snapshot.model.codec.nothing
        size = 0.1 + round_number + 10 * (name == "c") + 0.01 * epoch
        evidence = Evidence(nothing.information + size, nothing.shift - size)
        header = Header(name, 7, self.agent.snapshot.model.model_id, epoch, round_number)
        message = ParameterMessage(header, (Part(name, round_number, 0, evidence),))
        self.shown[name, epoch, round_number] = self.newest[name] = message
        return message

    async def __call__(self, url: str, target: str, headers: dict[str, str], limit: int) -> Reply:
        assert self.agent is not None
        name = url.removeprefix("http://")
        query = parse_qs(urlsplit(target).query)
        number = int(query["round"][0]) if "round" in query else None
        self.asked.append((name, number))
        try:
            if self.fixed is not None:
                return self.fixed
            if (name, number) in self.held:
                await self.held[name, number].wait()
            while True:
                epoch = int(query.get("epoch", ["0"])[0])
                message = self.newest.get(name) if number is None else self.shown.get((name, epoch, number))
                if message is not None:
                    return Reply(200, None, self.agent.snapshot.model.codec.encode(message))
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.cancelled.append((name, number))
            if self.lingering is not None:
                await self.lingering.wait()
            raise


async def until(condition: Callable[[], Found]) -> Found:
    async with asyncio.timeout(PATIENCE_S):
        while not (found := condition()):  # noqa: ASYNC110 - any condition
            await asyncio.sleep(0.001)
    return found


async def settle() -> None:
    """Long enough for what must not happen to happen, if it were to."""
    for _ in range(30):
        await asyncio.sleep(0.001)


@asynccontextmanager
async def living(folder: Path, peers: Peers, load: bool = True) -> AsyncIterator[Agent]:
    """An agent that runs; when it is stopped, nothing of it is left."""
    before = asyncio.all_tasks()
    agent = peers.agent = Agent("a", folder, peers, asyncio.get_running_loop().time, 1000, 100)
    life = asyncio.create_task(agent.run())
    if load:
        await agent.put_model(MODEL)
    try:
        yield agent
    finally:
        agent.stop()
        async with asyncio.timeout(PATIENCE_S):
            await life
    await until(lambda: asyncio.all_tasks() <= before)
    assert not agent.rounds._worker._threads[0].is_alive()


@pytest.fixture
def peers() -> Peers:
    return Peers()


def neighbors_document(epoch: int, *names: str, **more: Any) -> NeighborsDocument:
    weight = 0.25
    rows = [{"name": name, "url": f"http://{name}", "weight": weight} for name in names]
    own = 1.0 - weight * len(names)
    return NeighborsDocument.parse(
        {"epoch": epoch, "agents": len(names) + 1, "own_weight": own, "neighbors": rows, **more}
    )


async def connect(agent: Agent, epoch: int, *names: str) -> None:
    await agent.put_neighbors(neighbors_document(epoch, *names))


async def schedule(agent: Agent, **fields: Any) -> None:
    document = {"revision": agent.configuration.schedule.revision + 1, "period_s": 0, "observations_per_round": 2}
    await agent.put_schedule(ScheduleDocument.parse({**document, **fields}))


async def observe(agent: Agent, count: int, end: bool = False) -> Observations:
    x = np.linspace(0.1, 0.9, 2 * count).reshape(count, 2)
    observations = Observations(x, x[:, 0], end)
    await agent.accept(observations, None)
    return observations


def shown(agent: Agent) -> tuple[int, int]:
    return agent.snapshot.name


def on_disk(agent: Agent) -> tuple[int, int]:
    kept = agent.store.newest_round()
    assert kept is not None
    return kept.epoch, kept.round


def expected(agent: Agent, epoch: int, *answers: list[ParameterMessage]) -> State:
    """What rounds with these answers must lead to, if no observations come: the arithmetic without the machinery."""
    model, configuration = agent.snapshot.model, agent.configuration
    state = first_state("a", epoch, model.codec.nothing)
    x, y = np.empty((0, 2)), np.empty(0)
    for round_answers in answers:
        named = {message.header.agent: message for message in round_answers}
        state = model.compute(state, named, configuration.neighbors, configuration.schedule, x, y).state
    return state


def check_state(agent: Agent, state: State) -> None:
    assert shown(agent) == (state.epoch, state.round)
    for name in ("information", "shift"):
        assert np.array_equal(getattr(agent.snapshot.state.evidence, name), getattr(state.evidence, name))


class Gate:
    """Holds the commit of rounds, in their thread, until it is opened; or makes them fail."""

    def __init__(self, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self.failures = 0
        commit = agent.store.commit_round

        def gated(*arguments: Any) -> None:
            self.reached.set()
            assert self.open.wait(PATIENCE_S)
            if not self.failures:
                commit(*arguments)
                return
            self.failures -= 1
            with agent.store.database.lock:
                agent.store.database.connection.execute("PRAGMA query_only = ON")
                try:
                    commit(*arguments)
                finally:
                    agent.store.database.connection.execute("PRAGMA query_only = OFF")

        monkeypatch.setattr(agent.store, "commit_round", gated)


# When rounds run.


@pytest.mark.asyncio
async def test_rounds_run_until_the_round_given_and_go_on_when_it_is_raised(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await until(lambda: agent.rounds.phase == "paused")
        for last in (3, 5, 5):
            await schedule(agent, when_short="go", until_round=last)
            await until(lambda last=last: shown(agent) == (0, last))  # type: ignore[misc]
            await until(lambda: agent.rounds.phase == "finished")
            assert shown(agent) == on_disk(agent) == (0, last)
        await schedule(agent, when_short="go", until_round=2)
        await until(lambda: agent.rounds.phase == "finished")
        assert shown(agent) == (0, 5)


@pytest.mark.asyncio
async def test_a_paused_agent_runs_no_round_and_one_that_goes_on_does(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers, load=False) as agent:
        await until(lambda: agent.rounds.phase == "no-model")
        await schedule(agent, when_short="go")
        await agent.put_model(MODEL)
        for _ in range(3):
            seen = shown(agent)
            await until(lambda seen=seen: shown(agent) > seen)  # type: ignore[misc]
            await schedule(agent, when_short="go", paused=True)
            await until(lambda: agent.rounds.phase == "paused")
            paused_at = shown(agent)
            await settle()
            assert shown(agent) == on_disk(agent) == paused_at
            await schedule(agent, when_short="go")


@pytest.mark.asyncio
async def test_rounds_begin_a_period_apart_and_a_new_schedule_need_not_wait_for_it(
    tmp_path: Path, peers: Peers
) -> None:
    async with living(tmp_path, peers) as agent:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await schedule(agent, when_short="go", period_s=0.05, until_round=4)
        await until(lambda: agent.rounds.phase == "finished")
        assert loop.time() - began >= 3 * 0.05
        await schedule(agent, when_short="go", period_s=80_000)
        await until(lambda: agent.rounds.phase == "resting")
        await settle()
        assert shown(agent) == (0, 4)  # a period since the last round has not passed
        await schedule(agent, when_short="go", until_round=8)
        await until(lambda: shown(agent) == (0, 8))


# Single steps.


@pytest.mark.asyncio
async def test_single_steps_run_exactly_as_many_rounds_whatever_the_period(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="go", paused=True, period_s=80_000)
        for first, count in ((1, 3), (4, 1), (5, 2)):
            summaries = await agent.rounds.step(count, FOREVER_S)
            assert [summary.round for summary in summaries] == list(range(first, first + count))
        await settle()
        assert shown(agent) == on_disk(agent) == (0, 6)
        assert agent.rounds.phase == "paused"
        assert [summary.round for summary in agent.store.history(100)] == list(range(1, 7))


@pytest.mark.asyncio
async def test_steps_end_at_the_last_round_without_waiting(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="go", paused=True, until_round=2)
        async with asyncio.timeout(PATIENCE_S):
            assert len(await agent.rounds.step(5, FOREVER_S)) == 2
            assert await agent.rounds.step(5, FOREVER_S) == []
        await schedule(agent, when_short="go", paused=True, until_round=4)
        assert len(await agent.rounds.step(2, FOREVER_S)) == 2


@pytest.mark.asyncio
async def test_steps_that_a_new_schedule_makes_impossible_end_without_waiting(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="wait", paused=True)
        stepping = asyncio.create_task(agent.rounds.step(2, FOREVER_S))
        await until(lambda: agent.rounds.phase == "observations")
        await schedule(agent, when_short="wait", paused=True, until_round=0)
        async with asyncio.timeout(PATIENCE_S):
            assert await stepping == []


@pytest.mark.parametrize("available", [0, 2])
@pytest.mark.asyncio
async def test_steps_that_do_not_come_in_time_are_withdrawn(tmp_path: Path, peers: Peers, available: int) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="wait", paused=True)
        await observe(agent, 2 * available)
        summaries = await agent.rounds.step(3, 60 * SHORT_S if available else SHORT_S)
        assert [summary.round for summary in summaries] == list(range(1, available + 1))
        await until(lambda: agent.rounds.phase == "paused")
        await observe(agent, 10)  # what they waited for comes too late
        await settle()
        assert shown(agent) == (0, available)
        assert len(await agent.rounds.step(2, FOREVER_S)) == 2


@pytest.mark.asyncio
async def test_two_who_ask_for_steps_at_once_get_their_own(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="go", paused=True)
        one, two = await asyncio.gather(agent.rounds.step(2, FOREVER_S), agent.rounds.step(3, FOREVER_S))
        assert [summary.round for summary in one + two] == [1, 2, 3, 4, 5]
        await settle()
        assert shown(agent) == (0, 5)


@pytest.mark.asyncio
async def test_a_second_request_that_gives_up_does_not_disturb_the_first(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="wait", paused=True)
        first = asyncio.create_task(agent.rounds.step(1, FOREVER_S))
        await until(lambda: agent.rounds.phase == "observations")
        waits = agent.rounds._preparing
        assert await agent.rounds.step(1, SHORT_S) == []
        assert agent.rounds._preparing is waits
        await observe(agent, 2)
        assert [summary.round for summary in await first] == [1]


@pytest.mark.asyncio
async def test_steps_are_refused_without_a_model_and_on_an_agent_that_runs_which_goes_on_undisturbed(
    tmp_path: Path, peers: Peers
) -> None:
    async with living(tmp_path, peers, load=False) as agent:
        with pytest.raises(NoModelError):
            await agent.rounds.step(1, FOREVER_S)
        await agent.put_model(MODEL)
        await connect(agent, 1, "b")
        await schedule(agent, when_short="go", until_round=1)
        await until(lambda: peers.asked == [("b", 0)])
        for _ in range(5):
            with pytest.raises(NotPausedError):
                await agent.rounds.step(1, FOREVER_S)
        await settle()
        assert (peers.asked, peers.cancelled) == ([("b", 0)], [])
        peers.show("b", 1, 0)
        await until(lambda: shown(agent) == (1, 1))


@pytest.mark.asyncio
async def test_who_waits_for_steps_is_told_that_the_agent_stops(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="wait", paused=True)
        waiting = [asyncio.create_task(agent.rounds.step(1, FOREVER_S)) for _ in range(3)]
        await until(lambda: agent.rounds.phase == "observations")
        agent.stop()
        for task in waiting:
            with pytest.raises(StoppingError):
                await task
        with pytest.raises(StoppingError):
            await agent.rounds.step(1, FOREVER_S)


@pytest.mark.asyncio
async def test_steps_that_were_done_before_the_agent_stops_are_told(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="wait", paused=True)
        await observe(agent, 2)
        waiting = asyncio.create_task(agent.rounds.step(2, FOREVER_S))
        await until(lambda: shown(agent) == (0, 1) and agent.rounds.phase == "observations")
        agent.stop()
        assert [summary.round for summary in await waiting] == [1]


@pytest.mark.asyncio
async def test_a_step_that_is_computed_when_its_time_is_over_is_finished(
    tmp_path: Path, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="go", paused=True)
        gate = Gate(agent, monkeypatch)
        assert await agent.rounds.step(2, 40 * SHORT_S) == []
        assert gate.reached.is_set()
        assert shown(agent) == (0, 0)
        gate.open.set()
        await until(lambda: agent.rounds.phase == "paused")
        assert shown(agent) == on_disk(agent) == (0, 1)
        assert [summary.round for summary in await agent.rounds.step(1, FOREVER_S)] == [2]


# What interrupts a round, and what ends its waiting.


@pytest.mark.asyncio
async def test_a_round_that_waits_for_observations_resumes_when_they_come(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await connect(agent, 1, "b")
        await schedule(agent, when_short="wait", until_round=3)
        for number in range(3):
            peers.show("b", 1, number)
            await until(lambda: agent.rounds.phase == "observations")
            await observe(agent, 1)
            await settle()
            assert shown(agent) == (1, number)  # one is not yet a batch
            await observe(agent, 1)
            await until(lambda number=number: shown(agent) == (1, number + 1))  # type: ignore[misc]
        assert agent.store.counters.applied == 6


@pytest.mark.asyncio
async def test_the_end_of_the_stream_ends_the_waiting_too(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="wait", until_round=3)
        await until(lambda: agent.rounds.phase == "observations")
        await observe(agent, 1, end=True)
        await until(lambda: agent.rounds.phase == "finished")
        assert [summary.observations for summary in agent.store.history(10)] == [1, 0, 0]


@pytest.mark.asyncio
async def test_no_observation_is_overlooked_however_it_falls_between_looking_and_waiting(
    tmp_path: Path, peers: Peers
) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="wait", observations_per_round=1, until_round=200)
        for number in range(200):
            await observe(agent, 1)
            for _ in range(number % 7):
                await asyncio.sleep(0)
        await until(lambda: agent.rounds.phase == "finished")
        assert agent.store.counters.applied == 200


@pytest.mark.asyncio
async def test_a_new_schedule_interrupts_a_round_that_waits_for_observations(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await schedule(agent, when_short="wait", until_round=2)
        await until(lambda: agent.rounds.phase == "observations")
        await schedule(agent, when_short="go", until_round=2)
        await until(lambda: agent.rounds.phase == "finished")
        assert shown(agent) == (0, 2)


@pytest.mark.asyncio
async def test_a_new_epoch_interrupts_a_round_that_waits_for_a_neighbor(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await connect(agent, 1, "dead")
        await schedule(agent, when_short="go", until_round=1)
        await until(lambda: agent.rounds.waits_for() == ["dead"])
        answer = peers.show("b", 2, 0)
        await connect(agent, 2, "b")
        await until(lambda: agent.rounds.phase == "finished")
        assert peers.cancelled == [("dead", 0)]
        check_state(agent, expected(agent, 2, [answer]))


@pytest.mark.asyncio
async def test_a_document_that_is_put_while_a_round_is_computed_comes_after_it(
    tmp_path: Path, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, peers) as agent:
        gate = Gate(agent, monkeypatch)
        await schedule(agent, when_short="go")
        await until(gate.reached.is_set)
        putting = asyncio.create_task(schedule(agent, when_short="go", paused=True))
        await settle()
        assert not putting.done()
        gate.open.set()
        await putting
        assert shown(agent) == on_disk(agent) == (0, 1)
        await settle()
        assert shown(agent) == (0, 1)


@pytest.mark.asyncio
async def test_a_stopping_agent_is_not_kept_by_a_pull_that_is_slow_to_end(tmp_path: Path, peers: Peers) -> None:
    """The deadline has passed, and the pull is being ended, at the very moment of the interrupt."""
    async with living(tmp_path, peers) as agent:
        await connect(agent, 1, "dead")
        peers.lingering = asyncio.Event()
        await schedule(agent, exchange="latest", when_short="wait", deadline_s=0.01)
        await until(lambda: peers.cancelled == [("dead", None)])
        agent.stop()
        await asyncio.sleep(0)
        peers.lingering.set()
    assert agent.rounds._preparing is None  # `living` has waited for the end


# Rounds that fail.


@pytest.mark.asyncio
async def test_nothing_is_shown_before_it_is_committed(
    tmp_path: Path, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, peers) as agent:
        gate = Gate(agent, monkeypatch)
        waiting = asyncio.create_task(agent.publication.get(0, 1, FOREVER_S))
        await schedule(agent, when_short="go", until_round=1)
        await observe(agent, 2)
        await until(gate.reached.is_set)
        await settle()
        assert agent.rounds.phase == "computing"
        assert shown(agent) == on_disk(agent) == (0, 0)
        assert (agent.store.counters.rounds, agent.store.counters.applied) == (0, 0)
        assert not waiting.done()
        with pytest.raises(RoundUnknownError):
            await agent.publication.get(0, 1, 0.0)
        assert agent.store.history(10) == []
        gate.open.set()
        kept = await waiting
        assert on_disk(agent) == (kept.epoch, kept.round) == (0, 1)
        assert kept == agent.store.newest_round()


@pytest.mark.asyncio
async def test_a_round_that_could_not_be_committed_is_tried_again_with_the_same_observations(
    tmp_path: Path, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for failures in (0, 1):
        async with living(tmp_path / str(failures), peers) as agent:
            gate = Gate(agent, monkeypatch)
            gate.open.set()
            gate.failures = failures
            await observe(agent, 5)
            await schedule(agent, when_short="go", paused=True)
            stepping = asyncio.create_task(agent.rounds.step(3, FOREVER_S))
            if failures:
                await until(lambda: list(agent.faults()) == ["storage"])
                assert shown(agent) == on_disk(agent) == (0, 0)
                assert agent.store.counters.applied == 0
            summaries = await stepping
            assert [(summary.round, summary.observations) for summary in summaries] == [(1, 2), (2, 2), (3, 1)]
            assert agent.faults() == {}
            results.append(agent.snapshot.state.evidence)
    assert np.array_equal(results[0].information, results[1].information)
    assert np.array_equal(results[0].shift, results[1].shift)


async def fail(agent: Agent, **fields: Any) -> list[Prepared]:
    """Let a round overflow; all computations are noted."""
    computed: list[Prepared] = []
    compute = agent.rounds._compute
    agent.rounds._compute = lambda prepared: computed.append(prepared) or compute(prepared)  # type: ignore[method-assign,func-returns-value]
    x = np.full((2, 2), 0.5)
    await agent.accept(Observations(x, np.array([1.0, 1.7e308]), False), None)
    await schedule(agent, when_short="go", likelihood_weight=1e300, **fields)
    return computed


@pytest.mark.asyncio
async def test_a_round_that_overflows_is_shown_and_not_tried_again_until_something_changes(
    tmp_path: Path, peers: Peers
) -> None:
    async with living(tmp_path, peers) as agent:
        await connect(agent, 1, "b")
        peers.show("b", 1, 0)
        computed = await fail(agent)
        await until(lambda: agent.rounds.phase == "failed")
        assert list(agent.faults()) == ["round"]
        assert "overflowed" in agent.faults()["round"]
        await observe(agent, 2)
        with pytest.raises(NotPausedError):
            await agent.rounds.step(1, FOREVER_S)
        await settle()
        assert len(computed) == 1
        assert list(agent.faults()) == ["round"]
        assert shown(agent) == on_disk(agent) == (1, 0)
        assert agent.store.counters.applied == 0
        assert peers.asked == [("b", 0)]  # nobody is asked for a round that will not come
        await schedule(agent, when_short="go", likelihood_weight=1e300)
        await until(lambda: len(computed) == 2 and agent.rounds.phase == "failed")
        await schedule(agent, when_short="go", observations_per_round=1, until_round=1)  # without the bad one
        await until(lambda: shown(agent) == (1, 1))
        assert agent.faults() == {}


@pytest.mark.asyncio
async def test_who_asked_for_a_step_that_overflows_is_not_kept_waiting_and_the_fault_stays(
    tmp_path: Path, peers: Peers
) -> None:
    async with living(tmp_path, peers) as agent:
        computed = await fail(agent, paused=True)
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(2):
                assert await agent.rounds.step(2, FOREVER_S) == []
                assert list(agent.faults()) == ["round"]
        await settle()
        assert len(computed) == 1
        assert list(agent.faults()) == ["round"]


# Neighbors that misbehave.


@pytest.mark.asyncio
async def test_a_neighbor_that_says_unchanged_unasked_is_not_stormed(tmp_path: Path, peers: Peers) -> None:
    async with living(tmp_path, peers) as agent:
        await connect(agent, 1, "b")
        peers.show("b", 1, 0)
        await schedule(agent, when_short="go", until_round=1)
        await until(lambda: agent.rounds.phase == "finished")
        peers.fixed = Reply(304, None, b"")
        asked = len(peers.asked)
        await schedule(agent, when_short="go")
        await until(lambda: agent.neighbors.links[0].outcome == "failed")
        await settle()
        assert len(peers.asked) - asked < 5
        assert "304" in (agent.neighbors.links[0].reason or "")
