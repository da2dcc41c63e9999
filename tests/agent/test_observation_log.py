"""The observation log: whatever clients repeat, forget or mix up, nothing is lost and nothing is stored twice."""

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from service.agent import observation_log
from service.agent.database import Database
from service.agent.inbox import StreamInbox, Taken
from service.agent.observation_log import Intake, Mark, ObservationLog
from service.agent.store import KeptRound, Store
from service.errors import (
    BacklogFullError,
    BatchTooLargeError,
    DelboError,
    MarkConflictError,
    SequenceGapError,
    StorageError,
    StreamEndedError,
    TooManyClientsError,
)
from service.wire.answers import RoundSummary
from service.wire.observations import Observations


def observations(numbers: Sequence[float], end: bool = False) -> Observations:
    """Observations that can be told apart: each is made of its number."""
    y = np.array(numbers, dtype=np.float64)
    return Observations(np.stack((y, -y), axis=1), y, end)


def open_store(folder: Path) -> Store:
    return Store(folder, "a1", history_limit=10)


def open_log(store: Store, limit: int = 1000, replay: bool = False, seed: int = 0) -> ObservationLog:
    return ObservationLog(store.database, 2, None, store.counters, Intake(limit, replay, seed))


def commit_taken(store: Store, taken: Taken) -> None:
    """What a round does with its observations once it is computed."""
    counters = replace(store.counters, rounds=store.counters.rounds + 1, applied=taken.applied)
    summary = RoundSummary(0, counters.rounds, 0.0, len(taken.y), 0, (), (), 1.0, 0.0, 0.0)
    store.commit_round(KeptRound(0, counters.rounds, b"message"), 2, summary, counters, taken.obsolete_before)


def held(log: ObservationLog) -> list[float]:
    """What is on disk, not yet applied, in order."""
    numbers: list[float] = []
    first = log.counters.applied
    for batch in log.read(first, 10**9):
        assert np.array_equal(batch.x, np.stack((batch.y, -batch.y), axis=1))
        numbers += batch.y[max(0, first - batch.first) :].tolist()
    return numbers


def append_one(log: ObservationLog, posted: Observations, mark: Mark | None = None) -> bool:
    """Whether it was new; a refusal is raised."""
    ((batch, fault),) = log.append([(posted, mark)])
    if fault is not None:
        raise fault
    return batch is not None


@contextmanager
def failing_commits(database: Database) -> Iterator[None]:
    """Every statement works, and then nothing can be committed, as with a disk that fills up."""

    def judge(action: int, name: str | None, *_: str | None) -> int:
        return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION and name == "COMMIT" else sqlite3.SQLITE_OK

    database.connection.set_authorizer(judge)
    try:
        yield
    finally:
        database.connection.set_authorizer(None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data")
    yield opened
    opened.close()


@pytest.fixture
def log(store: Store) -> ObservationLog:
    return open_log(store)


# The log against a model of it

Token = tuple[tuple[float, ...], bool]
"""What one mark stands for: some observations, and whether the stream ends with them."""


class Post(NamedTuple):
    """What a client does, told relative to what it did before."""

    client: str | None
    by_line: bool
    back: int  # marks before the next one; -1: one too far
    faithful: bool  # what was sent before is sent as it was
    fresh: int
    end: bool


posts = st.builds(
    Post,
    client=st.sampled_from(["a", "a", "b", None]),
    by_line=st.booleans(),
    back=st.sampled_from([0, 0, 0, 1, 2, 3, 5, 8, -1]),
    faithful=st.sampled_from([True, True, True, False]),
    fresh=st.integers(0, 4),
    end=st.sampled_from([False] * 7 + [True]),
)

LIMIT, KEPT = 12, 5


class LogMachine(RuleBasedStateMachine):
    """Clients post, repeat and err; rounds take; the disk fails; the agent restarts."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.real_kept = observation_log.DIGESTS_KEPT
        observation_log.DIGESTS_KEPT = KEPT
        self.marks: dict[str, list[Token]] = {}
        self.open_streams: dict[str, bool] = {}
        self.stored: list[float] = []
        self.applied = 0
        self.number = 0.0
        self.open()

    def open(self) -> None:
        self.store = open_store(Path(self.folder.name))
        self.log = open_log(self.store, LIMIT)
        self.inbox = StreamInbox(self.log)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            observation_log.DIGESTS_KEPT = self.real_kept
            self.store.close()
            self.folder.cleanup()

    @rule(group=st.lists(posts, min_size=1, max_size=3))
    def append(self, group: list[Post]) -> None:
        expected: list[type[DelboError] | bool] = []
        requests: list[tuple[Observations, Mark | None]] = []
        gaps: list[int] = []
        for post in group:
            tokens, sequence = self.written(post)
            numbers = [number for token in tokens for number in token[0]]
            mark = None if post.client is None else Mark(post.client, sequence, post.by_line)
            requests.append((observations(numbers, tokens[-1][1]), mark))
            gaps.append(len(self.marks.get(post.client or "", [])))
            expected.append(self.outcome(post.client, sequence, tokens))
        results = self.log.append(requests)
        for wanted, expected_next, (batch, fault) in zip(expected, gaps, results, strict=True):
            if isinstance(wanted, bool):
                assert fault is None
                assert (batch is not None) == wanted
            else:
                assert type(fault) is wanted
                assert batch is None
            if isinstance(fault, SequenceGapError):
                assert fault.expected == expected_next

    @rule(post=posts)
    def append_with_a_failing_disk(self, post: Post) -> None:
        tokens, sequence = self.written(post)
        numbers = [number for token in tokens for number in token[0]]
        mark = None if post.client is None else Mark(post.client, sequence, post.by_line)
        with failing_commits(self.store.database), pytest.raises(StorageError):
            self.log.append([(observations(numbers, tokens[-1][1]), mark)])

    @rule(count=st.integers(0, 7), committed=st.booleans())
    def take(self, count: int, committed: bool) -> None:
        taken = self.inbox.take(count, 0)
        assert taken.y.tolist() == self.stored[self.applied : self.applied + count]
        assert np.array_equal(taken.x, np.stack((taken.y, -taken.y), axis=1))
        if committed:
            commit_taken(self.store, taken)
            self.applied += len(taken.y)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @invariant()
    def the_log_is_as_the_model(self) -> None:
        if not hasattr(self, "folder"):
            return
        assert self.log.counters.collected == len(self.stored)
        assert self.log.counters.applied == self.applied
        assert held(self.log) == self.stored[self.applied :]
        assert self.log.ended == (bool(self.open_streams) and not any(self.open_streams.values()))
        with self.store.database.reading() as connection:
            kept = dict(connection.execute("SELECT client, count(*) FROM marks GROUP BY client").fetchall())
        assert kept == {client: min(len(marks), KEPT) for client, marks in self.marks.items() if marks}

    def written(self, post: Post) -> tuple[list[Token], int]:
        """What a post says, mark by mark, and its sequence number."""
        marks = self.marks.get(post.client or "", [])
        back = 0 if post.client is None else min(post.back, len(marks))
        sequence = len(marks) - back
        old = list(marks[sequence:]) if back > 0 and post.faithful else []
        if post.by_line and post.client is not None:
            tokens = [token if self.is_line(token) else self.fresh_line() for token in old]
            while len(tokens) < max(back, 0) + post.fresh and not (tokens and tokens[-1][1]):
                tokens.append(self.fresh_line())
            ends = [place for place, token in enumerate(tokens) if token[1]]
            tokens = tokens[: ends[0] + 1] if ends else tokens
            if (post.end or not tokens) and not ends:
                tokens.append(((), True) if post.end else self.fresh_line())
            return tokens, sequence
        if old:
            return [old[0]], sequence
        numbers = tuple(self.fresh_line()[0][0] for _ in range(post.fresh if post.end else post.fresh * 3 + 1))
        return [(numbers, post.end)], sequence

    def fresh_line(self) -> Token:
        self.number += 1
        return (self.number,), False

    @staticmethod
    def is_line(token: Token) -> bool:
        return token == ((), True) or (len(token[0]) == 1 and not token[1])

    def outcome(self, client: str | None, sequence: int, tokens: list[Token]) -> type[DelboError] | bool:
        """What should happen, and lets it happen in the model: True if something is new, False if nothing is."""
        new = tokens
        if client is not None:
            marks = self.marks.get(client, [])
            if sequence > len(marks):
                return SequenceGapError
            for place, token in enumerate(tokens, sequence):
                if len(marks) - KEPT <= place < len(marks) and token != marks[place]:
                    return MarkConflictError
            new = tokens[len(marks) - sequence :]
            if not new:
                return False
            if self.open_streams.get(client) is False:
                return StreamEndedError
        numbers = [number for token in new for number in token[0]]
        if len(numbers) > LIMIT:
            return BatchTooLargeError
        if len(self.stored) - self.applied + len(numbers) > LIMIT:
            return BacklogFullError
        if client is not None:
            self.marks.setdefault(client, []).extend(new)
        self.stored += numbers
        self.open_streams[client or ""] = not new[-1][1]
        return True


TestTheLogIsAsItsModel = LogMachine.TestCase
TestTheLogIsAsItsModel.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)


# One fact at a time


def test_a_retry_is_answered_as_the_first_time_and_stored_once(log: ObservationLog) -> None:
    assert append_one(log, observations([1, 2]), Mark("a", 0))
    assert not append_one(log, observations([1, 2]), Mark("a", 0))
    assert held(log) == [1, 2]


def test_a_retry_within_the_same_group_is_stored_once(log: ObservationLog) -> None:
    results = log.append([(observations([1, 2]), Mark("a", 0))] * 3)
    assert [(batch is not None, fault) for batch, fault in results] == [(True, None), (False, None), (False, None)]
    assert held(log) == [1, 2]


def test_a_retry_of_a_half_stored_stream_stores_the_rest(log: ObservationLog) -> None:
    append_one(log, observations([1, 2, 3]), Mark("a", 0, by_line=True))
    assert append_one(log, observations([1, 2, 3, 4, 5], end=True), Mark("a", 0, by_line=True))
    assert held(log) == [1, 2, 3, 4, 5]
    assert log.ended
    assert not append_one(log, observations([1, 2, 3, 4, 5], end=True), Mark("a", 0, by_line=True))
    assert not append_one(log, observations([4, 5], end=True), Mark("a", 3, by_line=True))


def test_a_gap_is_refused_with_the_number_expected(log: ObservationLog) -> None:
    append_one(log, observations([1, 2, 3]), Mark("a", 0, by_line=True))
    with pytest.raises(SequenceGapError) as caught:
        append_one(log, observations([5]), Mark("a", 4))
    assert caught.value.expected == 3
    with pytest.raises(SequenceGapError) as caught:
        append_one(log, observations([5]), Mark("new", 2**62))
    assert caught.value.expected == 0
    assert held(log) == [1, 2, 3]


def test_nothing_comes_after_the_end_but_retries(log: ObservationLog) -> None:
    append_one(log, observations([1], end=True), Mark("a", 0))
    assert not append_one(log, observations([1], end=True), Mark("a", 0))
    with pytest.raises(StreamEndedError):
        append_one(log, observations([2]), Mark("a", 1))
    with pytest.raises(StreamEndedError):
        append_one(log, observations([], end=True), Mark("a", 1))


def test_without_a_mark_the_same_is_stored_as_often_as_it_comes(log: ObservationLog) -> None:
    for _ in range(3):
        assert append_one(log, observations([7]))
    assert held(log) == [7, 7, 7]


def test_the_streams_have_ended_when_every_client_has_said_so(store: Store, log: ObservationLog) -> None:
    assert not log.ended  # nobody has begun
    posts: list[tuple[Observations, Mark | None, bool]] = [
        (observations([1]), Mark("a", 0), False),
        (observations([], end=True), Mark("b", 0), False),
        (observations([], end=True), Mark("a", 1), True),
        (observations([3]), None, False),  # somebody without a name
        (observations([], end=True), None, True),
        (observations([]), Mark("c", 0, by_line=True), True),  # a stream whose first line was wrong
    ]
    for posted, mark, ended in posts:
        append_one(log, posted, mark)
        assert log.ended == ended
        assert open_log(store).ended == ended


def test_of_each_client_only_the_last_thousand_digests_are_on_disk(store: Store) -> None:
    log = open_log(store, 10_000)
    assert observation_log.DIGESTS_KEPT == 1000
    count = "SELECT count(*), min(sequence), max(sequence) FROM marks WHERE client = ?"
    append_one(log, observations(range(2500)), Mark("lines", 0, by_line=True))
    append_one(log, observations([0]), Mark("other", 0))
    assert store.database.connection.execute(count, ("lines",)).fetchone() == (1000, 1500, 2499)
    for sequence in range(2500, 2503):
        append_one(log, observations([sequence, sequence]), Mark("lines", sequence))
    assert store.database.connection.execute(count, ("lines",)).fetchone() == (1000, 1503, 2502)
    assert store.database.connection.execute(count, ("other",)).fetchone() == (1, 0, 0)


def test_another_body_is_recognised_within_the_last_thousand_marks(store: Store) -> None:
    log = open_log(store, 10_000)
    append_one(log, observations(range(2500)), Mark("a", 0, by_line=True))
    for wrong in (1500, 2000, 2499):
        numbers = np.arange(2500.0)
        numbers[wrong] = -1.0
        with pytest.raises(MarkConflictError, match=f"sequence {wrong}"):
            append_one(log, observations(numbers.tolist()), Mark("a", 0, by_line=True))
        with pytest.raises(MarkConflictError, match=f"sequence {wrong}"):
            append_one(log, observations([-1]), Mark("a", wrong))
    assert not append_one(log, observations([-1]), Mark("a", 1499))  # too long ago to tell
    assert not append_one(log, observations(range(2500)), Mark("a", 0, by_line=True))
    assert append_one(log, observations(range(2600)), Mark("a", 0, by_line=True))
    assert held(log) == list(range(2600))


def test_the_limit_is_on_what_waits_and_a_batch_beyond_it_is_never_taken(store: Store) -> None:
    log = open_log(store, 5)
    with pytest.raises(BatchTooLargeError):
        append_one(log, observations(range(6)))
    append_one(log, observations(range(4)), Mark("a", 0))
    with pytest.raises(BacklogFullError):
        append_one(log, observations([4, 5]), Mark("a", 1))
    append_one(log, observations([4]), Mark("a", 1))
    assert not append_one(log, observations(range(4)), Mark("a", 0))  # a retry needs no room
    append_one(log, observations([], end=True), Mark("a", 2))  # nor does the end
    with pytest.raises(BacklogFullError):
        append_one(log, observations([5]))
    commit_taken(store, StreamInbox(log).take(2, 0))
    append_one(log, observations([5, 6]))
    assert held(log) == [2, 3, 4, 5, 6]


def test_a_refused_mark_can_be_used_again(store: Store) -> None:
    log = open_log(store, 5)
    append_one(log, observations(range(5)))
    with pytest.raises(BacklogFullError):
        append_one(log, observations([7]), Mark("a", 0))
    commit_taken(store, StreamInbox(log).take(5, 0))
    assert append_one(log, observations([8]), Mark("a", 0))
    assert held(log) == [8]


def test_a_group_has_no_more_room_than_its_posts_one_after_the_other(store: Store) -> None:
    log = open_log(store, 5)
    results = log.append([(observations([n, n]), None) for n in range(4)])
    assert [type(fault) for _, fault in results] == [type(None), type(None), BacklogFullError, BacklogFullError]
    assert held(log) == [0, 0, 1, 1]


def test_one_request_does_not_suffer_from_another_in_its_group(log: ObservationLog) -> None:
    append_one(log, observations([0]), Mark("a", 0))
    results = log.append(
        [
            (observations([1]), Mark("a", 1)),
            (observations([9]), Mark("a", 0)),
            (observations([2]), None),
            (observations([9]), Mark("b", 3)),
            (observations(range(2000)), None),
            (observations([3], end=True), Mark("b", 0)),
            (observations([9]), Mark("b", 1)),
            (observations([4]), Mark("a", 2)),
        ]
    )
    assert [type(fault) for _, fault in results] == [
        type(None),
        MarkConflictError,
        type(None),
        SequenceGapError,
        BatchTooLargeError,
        type(None),
        StreamEndedError,
        type(None),
    ]
    assert [batch.first for batch, _ in results if batch is not None] == [1, 2, 3, 4]
    assert held(log) == [0, 1, 2, 3, 4]


def test_there_is_room_for_so_many_clients_only(log: ObservationLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation_log, "MOST_CLIENTS", 3)
    for place, mark in enumerate([Mark("a", 0), Mark("b", 0, by_line=True), None]):
        append_one(log, observations([place]), mark)
    with pytest.raises(TooManyClientsError):
        append_one(log, observations([9]), Mark("c", 0))
    assert append_one(log, observations([3]), Mark("a", 1))
    assert append_one(log, observations([4]))
    assert not append_one(log, observations([1]), Mark("b", 0))
    assert held(log) == [0, 1, 2, 3, 4]


def fill_the_disk(store: Store) -> Callable[[], None]:
    """No page more; gives a function that makes room again."""
    execute = store.database.connection.execute
    pages = execute("PRAGMA page_count").fetchone()[0]
    before = execute("PRAGMA max_page_count").fetchone()[0]
    execute(f"PRAGMA max_page_count = {pages}").fetchone()
    return lambda: execute(f"PRAGMA max_page_count = {before}").fetchone()


def test_a_full_disk_fails_the_whole_group_and_later_it_works_again(store: Store) -> None:
    log = open_log(store, 100_000)
    append_one(log, observations([0]), Mark("a", 0))
    make_room = fill_the_disk(store)
    group: list[tuple[Observations, Mark | None]] = [
        (observations([1]), Mark("a", 1)),
        (observations([], end=True), Mark("a", 2)),
        (observations(range(20_000)), None),
    ]
    for _ in range(2):
        with pytest.raises(StorageError, match=r"cannot be written: .*full"):
            log.append(group)
        assert held(log) == [0]
        assert (log.counters.collected, log.ended) == (1, False)
    make_room()
    assert [fault for _, fault in log.append(group)] == [None, None, None]
    assert held(log) == [0, 1, *range(20_000)]
    assert not append_one(log, observations([1]), Mark("a", 1))


def test_after_a_failed_commit_a_restart_finds_what_was_committed_before(store: Store, tmp_path: Path) -> None:
    log = open_log(store)
    append_one(log, observations([0]), Mark("a", 0))
    with failing_commits(store.database), pytest.raises(StorageError):
        append_one(log, observations([1], end=True), Mark("a", 1))
    store.close()
    again = open_store(tmp_path / "data")
    log = open_log(again)
    assert (held(log), log.counters.collected, log.ended) == ([0], 1, False)
    assert append_one(log, observations([2]), Mark("a", 1))
    again.close()


def test_a_refusal_that_somebody_keeps_does_not_keep_the_file_busy(store: Store, tmp_path: Path) -> None:
    log = open_log(store)
    log.append([(observations([n]), Mark("a", n)) for n in range(3)])
    refusals = log.append([(observations([9, 9, 9]), Mark("a", 0, by_line=True))])
    assert isinstance(refusals[0][1], MarkConflictError)
    busy, _, _ = store.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy
    store.close()
    open_store(tmp_path / "data").close()


def test_nobody_sees_observations_or_an_end_before_they_are_committed(store: Store) -> None:
    """A round may run meanwhile, in another thread: if the commit then fails, it must have seen nothing."""
    log = open_log(store)
    append_one(log, observations([0]), Mark("a", 0))
    seen = []
    store.database.connection.set_trace_callback(
        lambda statement: seen.append((statement, log.counters.collected, log.ended))
    )
    append_one(log, observations([1, 2], end=True), Mark("a", 1))
    store.database.connection.set_trace_callback(None)
    assert seen[-1] == ("COMMIT", 1, False)
    assert {(collected, ended) for _, collected, ended in seen} == {(1, False)}
    assert (log.counters.collected, log.ended) == (3, True)


def test_all_gives_every_batch_once_and_then_ends(store: Store) -> None:
    log = open_log(store)
    assert list(log.all()) == []
    for count in (1, 3, 2):
        append_one(log, observations([count] * count))
    for opened in (log, open_log(store)):
        assert [(batch.first, batch.count) for batch in opened.all()] == [(0, 1), (1, 3), (4, 2)]


def test_read_gives_the_batches_that_hold_the_observations_asked_for(log: ObservationLog) -> None:
    for count in (1, 3, 2):
        append_one(log, observations([count] * count))
    firsts = {
        (number, count): [batch.first for batch in log.read(number, count)]
        for number in range(7)
        for count in range(1, 8)
    }
    owners = [0, 1, 1, 1, 4, 4]
    assert firsts == {
        (number, count): sorted(set(owners[number : number + count])) for number in range(7) for count in range(1, 8)
    }


def test_vector_targets_keep_their_shape_and_bits(store: Store) -> None:
    log = ObservationLog(store.database, 3, 2, store.counters, Intake(10))
    generator = np.random.default_rng(0)
    x, y = generator.standard_normal((4, 3)), generator.standard_normal((4, 2))
    append_one(log, Observations(x, y))
    (batch,) = log.read(0, 10)
    assert np.array_equal(batch.x, x)
    assert np.array_equal(batch.y, y)
    points, targets = log.no_rows()
    assert (points.shape, targets.shape) == ((0, 3), (0, 2))


def test_what_a_waiting_round_needs_gets_in_though_the_inbox_is_almost_full(store: Store) -> None:
    log = ObservationLog(store.database, 2, None, store.counters, Intake(limit=10, wanted=5))
    append_one(log, observations(range(4)))
    append_one(log, observations(range(8)))  # else the round would wait for ever for its fifth
    with pytest.raises(BacklogFullError):
        append_one(log, observations([1]))


def test_open_streams_are_named(log: ObservationLog) -> None:
    append_one(log, observations([1]), Mark("one", 0))
    append_one(log, observations([1]), Mark("two", 0))
    append_one(log, observations([], end=True), Mark("one", 1))
    assert (log.ended, list(log.streams.open)) == (False, ["two"])
    append_one(log, observations([], end=True), Mark("two", 1))
    assert (log.ended, list(log.streams.open)) == (True, [])


def test_a_retry_writes_nothing(store: Store, log: ObservationLog) -> None:
    append_one(log, observations([1]), Mark("one", 0))
    changes = store.database.connection.total_changes
    append_one(log, observations([1]), Mark("one", 0))
    with pytest.raises(SequenceGapError):
        append_one(log, observations([1]), Mark("one", 5))
    assert store.database.connection.total_changes == changes


def test_a_damaged_log_is_an_error_and_no_endless_round(store: Store, log: ObservationLog) -> None:
    append_one(log, observations(range(10)))
    store.database.connection.execute("DELETE FROM observations")
    with pytest.raises(StorageError, match="damaged"):
        StreamInbox(log).take(5, 0)
