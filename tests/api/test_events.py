"""`GET /v1/events`: every round once and in order, over connections and deaths; who is slow is told what it missed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.event_stream import Event, EventStream
from tests.api.test_process import MODEL, check_ended
from tests.api.test_roles import TOKENS, ask, bearer, write_tokens
from tests.processes import AgentProcess, Agents, agent_factory, problem, until

KEPT, CAUGHT_UP, MOST_LISTENERS = 512, 1000, 256  # what the service promises, written down once more
PAUSED = {"revision": 1, "paused": True, "when_short": "go", "period_s": 0}


def load(agent: AgentProcess, **schedule: Any) -> AgentProcess:
    agent.put("model", {"revision": 1, "model": MODEL})
    agent.put("schedule", PAUSED | schedule)
    return agent


def run_rounds(agent: AgentProcess, count: int) -> int:
    """Run rounds of a paused agent; the number of the last."""
    answer = agent.http.post("/v1/rounds", json={"rounds": count, "wait_s": 60})
    assert answer.status_code == 200, answer.text
    assert answer.json()["complete"]
    return int(answer.json()["rounds"][-1]["number"])


def history(agent: AgentProcess, limit: int) -> list[dict[str, Any]]:
    return list(agent.http.get("/v1/history", params={"limit": limit}).json()["rounds"])


def numbers(events: list[Event]) -> list[int]:
    """The numbers of the rounds; nothing else may have come."""
    assert {event.type for event in events} <= {"round"}
    return [event.document["number"] for event in events]


def memory_of(agent: AgentProcess) -> float:
    """Resident bytes of the process."""
    families = text_string_to_metric_families(agent.http.get("/metrics").text)
    return next(family.samples[0].value for family in families if family.name == "process_resident_memory_bytes")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """A paused agent with a few rounds."""
    for start in agent_factory(tmp_path_factory.mktemp("events")):
        agent = load(start("a1"))
        run_rounds(agent, 3)
        yield agent


# What is told.


def test_a_listener_hears_of_the_newest_round_and_then_of_each_as_the_history_tells_it(agent: AgentProcess) -> None:
    with EventStream(agent) as stream:
        first = stream.take(1)
        last = run_rounds(agent, 5)
        events = first + stream.take(5)
    assert [event.document for event in events] == history(agent, 6)
    assert numbers(events) == list(range(last - 5, last + 1))
    incarnation = agent.status()["incarnation"]
    assert [event.last_id for event in events] == [f"{incarnation:x}-{number}" for number in numbers(events)]
    assert stream.parser.retry_ms == 1000


def test_who_comes_back_hears_of_the_rounds_in_between_once(agent: AgentProcess) -> None:
    with EventStream(agent) as stream:
        events = stream.take(1)
    for missed in (0, 1, 7):
        if missed:
            run_rounds(agent, missed)
        with EventStream(agent, events[-1].last_id) as stream:
            last = run_rounds(agent, 2)  # and of these as they happen
            events += stream.take(missed + 2)
    assert numbers(events) == list(range(events[0].document["number"], last + 1))


def test_every_round_is_told_once_while_rounds_go_on_and_listeners_come_and_go(agents: Agents) -> None:
    """Rounds are committed while a listener catches up; over a kill -9 as well."""
    agent = load(agents(), paused=False, period_s=0.003)
    events: list[Event] = []
    for turn in range(30):
        with EventStream(agent, events[-1].last_id if events else None) as stream:
            events += stream.take(1)
            events += stream.take(1)
        if turn == 15:
            agent.kill()
            agent.start()
    assert numbers(events) == list(range(events[0].document["number"], events[-1].document["number"] + 1))
    agent.put("schedule", PAUSED | {"revision": 2})
    told = {summary["number"]: summary for summary in history(agent, 1000)}
    assert all(event.document == told[event.document["number"]] for event in events if event.document["number"] in told)


@pytest.mark.parametrize("number", ["", "-1", "+1", "1.0", "1e1", "0x1", " 1", "\xb2", "9" * 19, "9" * 30])
def test_an_id_that_is_nonsense_begins_with_the_newest_round(agent: AgentProcess, number: str) -> None:
    run_rounds(agent, 1)
    with EventStream(agent, f"{agent.status()['incarnation']:x}-{number}") as stream:
        newest = stream.take(1)
        last = run_rounds(agent, 1)
        assert numbers(newest + stream.take(1)) == [last - 1, last]


def test_an_id_of_another_incarnation_begins_with_the_newest_round(agent: AgentProcess) -> None:
    last = run_rounds(agent, 4)
    for incarnation in (f"{agent.status()['incarnation'] + 1:x}", "0", "", "a1"):
        with EventStream(agent, f"{incarnation}-1") as stream:
            assert numbers(stream.take(1)) == [last]


def test_who_is_too_far_behind_is_told_how_many_rounds_it_missed(agent: AgentProcess) -> None:
    with EventStream(agent) as stream:
        (first,) = stream.take(1)
    last = run_rounds(agent, CAUGHT_UP + 37)
    with EventStream(agent, first.last_id) as stream:
        told, *events = stream.take(1 + CAUGHT_UP)
    assert (told.type, told.document) == ("missed", {"rounds": 37})
    assert told.last_id == ""  # who is cut off now comes back with the id that it had
    assert numbers(events) == list(range(last - CAUGHT_UP + 1, last + 1))
    assert [event.document for event in events] == history(agent, CAUGHT_UP)


# Who does not read.


def long_summaries(agent: AgentProcess) -> AgentProcess:
    """Summaries of some 14 kB, as they name 200 neighbors that are not there: few rounds fill a socket."""
    load(agent, exchange="latest")
    names = [f"neighbor {index} ".ljust(63, "x") + "y" for index in range(200)]
    neighbors = [{"name": name, "url": "http://127.0.0.1:1", "weight": 1 / 201} for name in names]
    agent.put("neighbors", {"epoch": 1, "agents": 201, "own_weight": 1 / 201, "neighbors": neighbors})
    return agent


def test_a_slow_listener_is_told_what_it_missed_and_costs_the_agent_no_more(agents: Agents) -> None:
    agent = long_summaries(agents())
    with EventStream(agent, room=4096) as slow, EventStream(agent) as fast:
        seen, used = [], []
        for _ in range(4):
            last = run_rounds(agent, 300)
            seen += numbers(fast.until_number(last))
            used.append(memory_of(agent))
        events = slow.until_number(last)
    assert seen == list(range(1, last + 1))
    missed = sum(event.document["rounds"] for event in events if event.type == "missed")
    heard = numbers([event for event in events if event.type == "round"])
    assert heard == sorted(set(heard))
    assert missed == last - len(heard) > 0
    assert len(heard) > KEPT  # those that are kept, and those that were on their way
    # All that is kept is full after 600 rounds. 600 more are 8 MB of events, were they kept for the slow one.
    assert used[3] - used[1] < 4e6


def test_there_are_so_many_listeners_and_who_goes_away_makes_room(agent: AgentProcess) -> None:
    streams = [EventStream(agent).__enter__() for _ in range(MOST_LISTENERS)]
    try:
        refused = ask(agent, "GET /v1/events", None)
        assert problem(refused) == (503, "busy")
        assert refused.headers["retry-after"] == "1"
        streams.pop().close()
        until(lambda: admitted(agent, streams))
        last = run_rounds(agent, 1)
        for stream in streams:
            stream.until_number(last)
    finally:
        for stream in streams:
            stream.close()


def admitted(agent: AgentProcess, streams: list[EventStream]) -> bool:
    """Try to be one more."""
    stream = EventStream(agent)
    stream.answer.begin()
    if stream.answer.status == 200:
        streams.append(stream)
        return True
    stream.close()
    return False


def test_a_query_is_refused(agent: AgentProcess) -> None:
    assert problem(agent.http.get("/v1/events?last_event_id=1")) == (400, "invalid-query")


# How a stream ends.


def test_a_stream_ends_in_order_when_the_agent_is_stopped(agents: Agents) -> None:
    agent = agents()
    with EventStream(agent) as before, EventStream(agent) as after:  # before there is even a model
        last = run_rounds(load(agent), 3)
        before.take(3)
        check_ended(agent)
        assert before.rest() == []
        assert numbers(after.rest()) == list(range(1, last + 1))


def test_a_stream_ends_when_its_token_is_taken_back(agents: Agents, tmp_path: Path) -> None:
    folder = write_tokens(tmp_path / "tokens", **TOKENS)
    agent = agents("a1", "--tokens", folder)
    agent.http.headers["authorization"] = bearer("control")
    load(agent)
    run_rounds(agent, 1)
    with EventStream(agent, token=TOKENS["read"]) as stream, EventStream(agent, token=TOKENS["read"]) as leaving:
        assert numbers(stream.take(1)) == numbers(leaving.take(1)) == [1]
        write_tokens(folder, read="another-token-for-reading")
        until(lambda: ask(agent, "GET /v1/status", bearer("read")).status_code == 401)
        leaving.close()
        run_rounds(agent, 1)
        assert stream.rest() == []
    check_ended(agent)
