"""When a client tries again and when it gives up: on a driven clock, and against servers that misbehave."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from client.agent_client import AgentClient, Mark
from client.retries import NO_PATIENCE, Patience, Retries
from service.errors import AgentRefusedError, AgentUnreachableError
from tests.client.raw_server import Answer, RawServer, never, problem_reply, raw_server, reply, trickling
from tests.driven import run_driven
from tests.processes import free_port

STORED = reply(200, b'{"stored": 1, "next_sequence": 1}')
ROUNDS = reply(200, b'{"complete": true, "rounds": []}')
FULL = problem_reply(429, "backlog-full", retry_after=3)
STOPPING = problem_reply(503, "stopping", retry_after=2)
BAD_GATEWAY = reply(502, b"<html>Bad Gateway</html>", "text/html")
MARK = Mark("robot", 0)


@dataclass
class Clock:
    """Time passes while somebody sleeps, and only then."""

    now: float = 100.0
    pauses: list[float] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    async def sleep(self, pause_s: float) -> None:
        assert len(self.pauses) < 1000, "this goes on for ever"
        self.pauses.append(pause_s)
        self.now += pause_s

    def patience(self, **fields: float) -> Patience:
        return Patience(clock=self.time, sleep=self.sleep, **fields)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def refused(status: int, retry_after_s: float | None = None, slug: str | None = "a-slug") -> AgentRefusedError:
    return AgentRefusedError("no", status, slug, retry_after_s=retry_after_s)


SILENT = AgentUnreachableError("http://a does not answer")


async def bear(retries: Retries, fault: AgentRefusedError | AgentUnreachableError) -> None:
    """Meet the same fault again and again, until it is raised."""
    while True:
        if isinstance(fault, AgentRefusedError):
            await retries.after_refusal(fault)
        else:
            await retries.after_silence(fault)


# The policy itself.


@pytest.mark.asyncio
async def test_pauses_double_up_to_the_longest_and_each_is_shortened_by_at_most_half(clock: Clock) -> None:
    retries = Retries(clock.patience(first_pause_s=0.1, longest_pause_s=1.5), repeat=True)
    for longest_s in (0.1, 0.2, 0.4, 0.8, 1.5, 1.5):
        await retries.after_silence(SILENT)
        assert longest_s / 2 <= clock.pauses[-1] <= longest_s


@pytest.mark.asyncio
async def test_two_clients_do_not_come_back_at_the_same_moments(clock: Clock) -> None:
    """So that those that one agent has sent away do not all return at once."""
    for _ in range(20):
        await Retries(clock.patience(), repeat=True).after_silence(SILENT)
    assert len(set(clock.pauses)) == 20


@pytest.mark.asyncio
async def test_silence_is_borne_as_long_as_the_patience_says_and_no_longer(clock: Clock) -> None:
    retries, began = Retries(clock.patience(silent_s=60), repeat=True), clock.now
    with pytest.raises(AgentUnreachableError) as fault:
        await bear(retries, SILENT)
    assert fault.value is SILENT
    assert 58 < clock.now - began <= 60


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.asyncio
async def test_an_agent_that_cannot_answer_now_is_borne_like_a_silent_one(clock: Clock, status: int) -> None:
    retries, began = Retries(clock.patience(silent_s=60), repeat=True), clock.now
    with pytest.raises(AgentRefusedError):
        await bear(retries, refused(status))
    assert 58 < clock.now - began <= 60


@pytest.mark.asyncio
async def test_a_full_inbox_is_borne_for_longer(clock: Clock) -> None:
    retries, began = Retries(clock.patience(silent_s=60, full_s=600), repeat=True), clock.now
    with pytest.raises(AgentRefusedError):
        await bear(retries, refused(429, 7))
    assert clock.pauses == [7.0] * (600 // 7)
    assert clock.now - began <= 600


@pytest.mark.asyncio
async def test_silence_counts_from_the_last_answer_not_from_the_first_refusal(clock: Clock) -> None:
    """An agent that was full for minutes may be started again as well as any other."""
    retries = Retries(clock.patience(silent_s=60, full_s=600), repeat=True)
    for _ in range(10):
        await retries.after_refusal(refused(429, 20))
    begin = clock.now
    with pytest.raises(AgentUnreachableError):
        await bear(retries, SILENT)
    assert 58 < clock.now - begin <= 60


@pytest.mark.asyncio
async def test_an_agent_that_says_at_once_is_not_taken_at_its_word(clock: Clock) -> None:
    """Or the loop would run as fast as the machine can."""
    retries = Retries(clock.patience(first_pause_s=0.05, full_s=1), repeat=True)
    with pytest.raises(AgentRefusedError):
        await bear(retries, refused(429, 0))
    assert set(clock.pauses) == {0.05}


@pytest.mark.asyncio
async def test_a_time_beyond_the_patience_is_not_waited_for(clock: Clock) -> None:
    with pytest.raises(AgentRefusedError):
        await Retries(clock.patience(silent_s=60), repeat=True).after_refusal(refused(503, 61))
    assert clock.pauses == []


@pytest.mark.parametrize("status", [302, 400, 404, 409, 410, 413, 422, 500])
@pytest.mark.asyncio
async def test_what_will_not_be_otherwise_later_is_not_tried_again(clock: Clock, status: int) -> None:
    with pytest.raises(AgentRefusedError):
        await Retries(clock.patience(), repeat=True).after_refusal(refused(status, 1))
    assert clock.pauses == []


@pytest.mark.asyncio
async def test_without_patience_one_is_asked_once(clock: Clock) -> None:
    patience = clock.patience(silent_s=NO_PATIENCE.silent_s, full_s=NO_PATIENCE.full_s)
    for fault in (refused(503), refused(503, 0), refused(429), refused(429, 0)):
        with pytest.raises(AgentRefusedError):
            await Retries(patience, repeat=True).after_refusal(fault)
    with pytest.raises(AgentUnreachableError):
        await Retries(patience, repeat=True).after_silence(SILENT)
    assert clock.pauses == []


# What is sent again, and what is not.

Call = Callable[[AgentClient], Any]


async def send(raw: RawServer, clock: Clock, call: Call) -> str | None:
    """The fault's kind, if there was one; the clock tells how often it was tried again."""
    async with AgentClient(raw.url, clock.patience(silent_s=20, full_s=20)) as client:
        try:
            await call(client)
        except (AgentUnreachableError, AgentRefusedError) as fault:
            return type(fault).__name__
    return None


def unmarked(client: AgentClient) -> Any:
    return client.post([[1.0, 2.0]], [1])


def marked(client: AgentClient) -> Any:
    return client.post([[1.0, 2.0]], [1], MARK)


def rounds(client: AgentClient) -> Any:
    return client.run_rounds()


@pytest.mark.parametrize("lost", [None, BAD_GATEWAY, reply(504)], ids=["cut", "502", "504"])
@pytest.mark.parametrize(("call", "answer"), [(unmarked, STORED), (rounds, ROUNDS)], ids=["unmarked", "rounds"])
@pytest.mark.asyncio
async def test_what_may_have_happened_and_must_not_happen_twice_is_sent_once(
    clock: Clock, call: Call, answer: bytes, lost: bytes | None
) -> None:
    """A proxy that has lost its agent knows no more of the request than a cut connection tells."""
    async with raw_server(lost, answer) as raw:
        assert await send(raw, clock, call) is not None
        assert len(raw.asked) == 1


@pytest.mark.parametrize("refusal", [FULL, STOPPING, problem_reply(503, "busy", retry_after=1)])
@pytest.mark.asyncio
async def test_an_unmarked_post_that_an_agent_has_refused_is_sent_again(clock: Clock, refusal: bytes) -> None:
    """A request with a problem has changed nothing."""
    async with raw_server(refusal, STORED) as raw:
        assert await send(raw, clock, unmarked) is None
        assert len(raw.asked) == 2


@pytest.mark.parametrize("refusal", [FULL, STOPPING])
@pytest.mark.asyncio
async def test_rounds_are_never_asked_for_twice(clock: Clock, refusal: bytes) -> None:
    async with raw_server(refusal, ROUNDS) as raw:
        assert await send(raw, clock, rounds) == "AgentRefusedError"
        assert len(raw.asked) == 1


@pytest.mark.parametrize("lost", [None, BAD_GATEWAY, reply(503), reply(504), STOPPING, FULL])
@pytest.mark.asyncio
async def test_a_marked_post_is_sent_again_with_the_same_mark_and_body(clock: Clock, lost: bytes | None) -> None:
    async with raw_server(lost, lost, STORED) as raw:
        assert await send(raw, clock, marked) is None
        assert [request.target for request in raw.asked] == ["/v1/observations?client=robot&sequence=0"] * 3
        assert len({request.body for request in raw.asked}) == 1


@pytest.mark.parametrize(("answer", "pause_s"), [(FULL, 3.0), (STOPPING, 2.0)], ids=["429", "503"])
@pytest.mark.asyncio
async def test_the_pause_is_the_one_that_the_agent_asks_for(clock: Clock, answer: bytes, pause_s: float) -> None:
    async with raw_server(answer, STORED) as raw:
        assert await send(raw, clock, marked) is None
        assert clock.pauses == [pause_s]


@pytest.mark.parametrize("when", ["Fri, 31 Dec 2100 23:59:59 GMT", "soon", "-1", "1e3", ""])
@pytest.mark.asyncio
async def test_a_retry_after_that_is_no_number_of_seconds_is_passed_over(clock: Clock, when: str) -> None:
    async with raw_server(problem_reply(429, "backlog-full", retry_after=when), STORED) as raw:
        assert await send(raw, clock, marked) is None
        assert 0 < clock.pauses[0] <= 0.05


@pytest.mark.asyncio
async def test_patience_ends_with_an_error_that_names_the_agent(clock: Clock) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with AgentClient(url, clock.patience(silent_s=60)) as client:
        with pytest.raises(AgentUnreachableError, match=f"^{url} does not answer: "):
            await client.status()
    assert 58 < sum(clock.pauses) <= 60


@pytest.mark.asyncio
async def test_probes_ask_once(clock: Clock) -> None:
    for answer, alive in ((None, False), (reply(503), False), (reply(200, b'{"alive": true}'), True)):
        async with raw_server(answer) as raw, AgentClient(raw.url, clock.patience()) as client:
            assert await client.is_alive() is alive
            assert len(raw.asked) == 1
    assert clock.pauses == []


# Deadlines.


@pytest.mark.parametrize("answer", [never, trickling], ids=["never", "bit by bit"])
@pytest.mark.parametrize(
    ("call", "deadline_s"),
    [(AgentClient.status, 7.0), (AgentClient.is_alive, 7.0), (lambda client: client.run_rounds(wait_s=50), 57.0)],
    ids=["status", "livez", "rounds"],
)
def test_an_answer_that_is_not_whole_at_the_deadline_is_not_waited_for(
    answer: Answer, call: Call, deadline_s: float
) -> None:
    """However many of its bytes have come; on the clock of a driven event loop, that of the server as well."""

    async def ask() -> float:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(1000), raw_server(answer) as raw, AgentClient(raw.url, NO_PATIENCE, 7.0) as client:
            try:
                assert await call(client) is False
            except AgentUnreachableError as fault:
                assert str(fault) == f"{raw.url} does not answer: it took too long"  # noqa: PT017 - where it may come
            assert len(raw.asked) == 1
            return loop.time()

    assert run_driven(ask()) == pytest.approx(deadline_s)
