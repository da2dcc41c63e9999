"""The newest rounds, for whoever listens: none is lost or told twice, also while rounds go on."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from service.agent.agent import Agent
from service.agent.events import Events
from service.agent.observation_log import Counters
from service.agent.store import KeptRound, Store
from service.api.events import EventsEndpoint
from service.api.messages import Message, Scope
from service.api.problems import ProblemError
from service.errors import StorageError
from service.wire.answers import RoundSummary
from tests.driven import run_driven

KEPT, CAUGHT_UP = 512, 1000


class Rounds:
    """Rounds without their arithmetic, in a real file."""

    def __init__(self, folder: Path, history_limit: int = 10_000) -> None:
        self.store = Store(folder, "a", history_limit)
        self.events = Events(self.store)

    def commit(self) -> RoundSummary:
        number = self.store.counters.rounds + 1
        self.store.commit_round(KeptRound(0, number, b""), 1, summary(number), Counters(number, 0, 0, 0), None)
        return summary(number)

    def run(self, count: int) -> None:
        for _ in range(count):
            self.events.publish(self.commit())

    def tell(self, count: int) -> None:
        """Only that there were rounds 1 to `count`: nothing goes to disk."""
        for number in range(1, count + 1):
            self.events.publish(summary(number))


def summary(number: int) -> RoundSummary:
    return RoundSummary(0, number, 0.0, 0, 0, (), (), 1.0, 0.0, 0.0, number)


@pytest.fixture
def rounds(tmp_path: Path) -> Iterator[Rounds]:
    rounds = Rounds(tmp_path)
    yield rounds
    rounds.store.close()


def numbers(summaries: list[RoundSummary]) -> list[int]:
    return [summary.number for summary in summaries]


# What is behind a round.


def test_what_is_in_memory_is_told_from_there_and_what_is_gone_is_counted(rounds: Rounds) -> None:
    assert rounds.events.since(0) == ([], 0, 0)
    rounds.tell(KEPT + 5)
    news = rounds.events.since(KEPT + 2)
    assert (numbers(news.rounds), news.missed, news.last) == ([KEPT + 3, KEPT + 4, KEPT + 5], 0, KEPT + 5)
    news = rounds.events.since(5)
    assert (numbers(news.rounds), news.missed) == (list(range(6, KEPT + 6)), 0)
    news = rounds.events.since(2)
    assert (numbers(news.rounds), news.missed) == (list(range(6, KEPT + 6)), 3)
    assert rounds.events.since(KEPT + 5) == ([], 0, KEPT + 5)
    assert rounds.events.since(KEPT + 9) == ([], 0, KEPT + 9)  # committed, read from disk, and not yet told


def test_no_more_than_so_many_rounds_are_kept_in_memory(rounds: Rounds) -> None:
    rounds.tell(3 * KEPT)
    assert len(rounds.events._recent) == KEPT


@pytest.mark.parametrize(
    ("after", "told", "missed"),
    [
        (None, [1100], 0),
        (1101, [1100], 0),
        (1100, [], 0),
        (1097, [1098, 1099, 1100], 0),
        (100, list(range(101, 1101)), 0),
        (99, list(range(101, 1101)), 1),
        (0, list(range(101, 1101)), 100),
    ],
)
def test_who_comes_back_gets_what_is_on_disk(long: Rounds, after: int | None, told: list[int], missed: int) -> None:
    news = asyncio.run(long.events.catch_up(after))
    assert (numbers(news.rounds), news.missed) == (told, missed)
    assert news.last == 1100


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rounds]:
    rounds = Rounds(tmp_path_factory.mktemp("long"))
    for _ in range(1100):
        rounds.commit()
    yield rounds
    rounds.store.close()


def test_rounds_that_the_history_no_longer_has_are_counted_too(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path, history_limit=10)
    for _ in range(64):  # as many as are pruned at a time
        rounds.commit()
    news = asyncio.run(rounds.events.catch_up(1))
    assert (numbers(news.rounds), news.missed) == (list(range(55, 65)), 53)
    rounds.store.close()


@pytest.mark.parametrize("after", [None, 2, 5])
def test_a_round_that_is_committed_while_a_listener_catches_up_costs_it_none(
    rounds: Rounds, after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds.run(5)
    read = rounds.store.history

    def read_later(*arguments: int) -> list[RoundSummary]:
        rounds.commit()
        rounds.commit()
        return read(*arguments)

    monkeypatch.setattr(rounds.store, "history", read_later)
    news = asyncio.run(rounds.events.catch_up(after))
    assert news.missed == 0
    assert numbers(news.rounds) == list(range(5 if after is None else after + 1, 8))


# One who listens, on a driven clock.


class Listener:
    """The other side of the endpoint: notes what comes, and when; can be away, or stop to read."""

    def __init__(self, rounds: Rounds) -> None:
        self.agent = cast("Agent", SimpleNamespace(store=rounds.store, events=rounds.events))
        self.endpoint = EventsEndpoint(self.agent, self.check)
        self.got: list[tuple[float, Message]] = []
        self.on_message: Callable[[], None] = lambda: None
        self.gone, self.reads, self.allowed = asyncio.Event(), True, True

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for _, message in self.got).decode()

    def check(self, scope: Scope) -> None:
        if not self.allowed:
            raise ProblemError("token-needed", "no longer")

    async def receive(self) -> Message:
        await self.gone.wait()
        self.check({})  # as the application does with every message
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        assert len(self.got) < 100, "the stream does not end"
        self.got.append((asyncio.get_running_loop().time(), message))
        self.on_message()
        if not self.reads:
            await asyncio.Event().wait()

    async def listen(self) -> None:
        scope: dict[str, Any] = {"query_string": b"", "headers": [(b"host", b"agent")]}
        await self.endpoint(scope, self.receive, self.send)
        assert self.endpoint._listeners == 0


def test_a_silent_agent_says_every_15_seconds_that_it_is_still_there(rounds: Rounds) -> None:
    async def story() -> Listener:
        listener = Listener(rounds)
        listener.on_message = lambda: listener.gone.set() if len(listener.got) == 5 else None
        await listener.listen()
        return listener

    listener = run_driven(story())
    beats = [(at, message["body"]) for at, message in listener.got if message.get("body") == b": still here\n\n"]
    assert beats == [(15.0, b": still here\n\n"), (30.0, b": still here\n\n"), (45.0, b": still here\n\n")]
    assert listener.text == "retry: 1000\n\n" + ": still here\n\n" * 3
    assert listener.got[-1] == (45.0, {"type": "http.response.body"})  # gone: it ends at once


def test_a_stream_ends_when_the_agent_stops_and_after_the_last_round_when_its_token_is_taken_back(
    rounds: Rounds,
) -> None:
    async def story(end: Callable[[Listener], None]) -> Listener:
        listener = Listener(rounds)
        listening = asyncio.create_task(listener.listen())
        await asyncio.sleep(1.0)
        rounds.run(1)
        await asyncio.sleep(1.0)
        end(listener)
        await asyncio.sleep(1.0)
        rounds.run(1)
        await listening
        return listener

    for end in (lambda one: setattr(one, "allowed", False), lambda _: rounds.events.stop()):
        before = rounds.store.counters.rounds
        listener = run_driven(story(end))
        assert f"-{before + 1}\n" in listener.text
        assert f"-{before + 2}\n" not in listener.text
        assert listener.got[-1][1] == {"type": "http.response.body"}


def test_a_history_that_cannot_be_read_is_a_problem_and_not_a_broken_stream(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: int) -> list[RoundSummary]:
        raise StorageError("the disk is gone")

    async def story() -> None:
        listener = Listener(rounds)
        with pytest.raises(StorageError):
            await listener.listen()
        assert listener.got == []
        assert listener.endpoint._listeners == 0

    monkeypatch.setattr(rounds.store, "history", fail)
    run_driven(story())
