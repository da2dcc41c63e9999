"""What an agent keeps on disk: all or nothing, bounded, and for one agent and one process alone."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.agent.database import FILE_NAME, Database
from service.agent.store import KeptRound, Store
from service.errors import StorageError
from service.wire.answers import RoundSummary
from tests.agent.test_observation_log import (
    append_one,
    failing_commits,
    held,
    observations,
    open_log,
    open_store,
    store,
)

__all__ = ["store"]  # a fixture


def summary_of(round_number: int) -> RoundSummary:
    numbers = (1, round_number, 1_790_000_000.125, 3, 1)
    return RoundSummary(*numbers, ("a2",), ("a3",), 0.625, 0.25, 0.125, number=round_number)


def commit(store: Store, round_number: int, history: int = 2, applied: int = 0, epoch: int = 1) -> None:
    kept = KeptRound(epoch, round_number, b"round %d" % round_number)
    counters = replace(store.counters, rounds=store.counters.rounds + 1, applied=applied)
    store.commit_round(kept, history, summary_of(round_number), counters, obsolete_before=applied)


def test_documents_are_there_after_a_restart_and_the_last_of_a_kind_counts(store: Store, tmp_path: Path) -> None:
    assert store.documents() == {}
    store.put_document("model", '{"revision": 1}')
    store.put_document("schedule", '{"revision": 1}')
    store.put_document("model", '{"revision": 2, "name": "röver"}')
    store.close()
    again = open_store(tmp_path / "data")
    assert again.documents() == {"model": '{"revision": 2, "name": "röver"}', "schedule": '{"revision": 1}'}
    again.close()


def test_a_document_and_the_state_that_it_starts_from_come_together_or_not_at_all(store: Store) -> None:
    store.put_document("neighbors", "old", KeptRound(1, 0, b"old"))
    with failing_commits(store.database), pytest.raises(StorageError, match="cannot be written"):
        store.put_document("neighbors", "new", KeptRound(2, 0, b"new"))
    assert store.documents() == {"neighbors": "old"}
    assert store.kept_names() == [(1, 0)]
    store.put_document("neighbors", "new", KeptRound(2, 0, b"new"))
    assert store.newest_round() == KeptRound(2, 0, b"new")


@pytest.mark.parametrize("history", [1, 2, 5])
def test_as_many_rounds_are_kept_as_the_neighbors_document_says(store: Store, history: int) -> None:
    assert store.newest_round() is None
    for number in range(1, 9):
        commit(store, number, history)
        names = [(1, one) for one in range(max(1, number - history + 1), number + 1)]
        assert store.kept_names() == names
    assert store.newest_round() == KeptRound(1, 8, b"round 8")
    assert store.kept_round(1, 8) == KeptRound(1, 8, b"round 8")
    assert store.kept_round(1, 8 - history) is None
    assert (store.kept_round(1, 9 - history) or KeptRound(0, 0, b"")).message == b"round %d" % (9 - history)
    assert store.kept_round(2, 8) is None


def test_a_shorter_history_drops_the_rounds_at_once_and_a_longer_one_lets_them_grow(store: Store) -> None:
    for number in range(1, 6):
        commit(store, number, history=5)
    commit(store, 6, history=2)
    assert store.kept_names() == [(1, 5), (1, 6)]
    commit(store, 7, history=3)
    assert store.kept_names() == [(1, 5), (1, 6), (1, 7)]
    store.put_document("neighbors", "{}", KeptRound(2, 0, b"epoch 2"), history=2)
    assert store.kept_names() == [(1, 7), (2, 0)]


@given(
    life=st.lists(st.tuples(st.sampled_from(["round", "epoch", "failed", "restart"]), st.integers(1, 5)), max_size=20)
)
@settings(max_examples=60)
def test_the_kept_rounds_are_the_newest_whatever_the_history_was(
    tmp_path_factory: pytest.TempPathFactory, life: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("life")
    store = open_store(folder)
    names: list[tuple[int, int]] = []
    epoch = number = 0
    for what, history in life:
        if what == "round":
            number += 1
            commit(store, number, history, epoch=epoch)
        elif what == "epoch":
            epoch, number = epoch + 1, 0
            store.put_document("neighbors", "{}", KeptRound(epoch, 0, b"round 0"), history)
        elif what == "failed":
            with failing_commits(store.database), pytest.raises(StorageError):
                commit(store, number + 1, history, epoch=epoch)
        else:
            store.close()
            store = open_store(folder)
        if what in ("round", "epoch"):
            names = [*names, (epoch, number)][-history:]
        assert store.kept_names() == names
        on_disk = store.database.connection.execute("SELECT epoch, round FROM rounds ORDER BY epoch, round").fetchall()
        assert on_disk == names
        assert all(store.kept_round(*name) == KeptRound(*name, b"round %d" % name[1]) for name in names)
        newest = store.newest_round()
        assert (None if newest is None else (newest.epoch, newest.round)) == (names[-1] if names else None)
    store.close()


def test_rounds_of_two_epochs_are_told_apart(store: Store) -> None:
    commit(store, 1, history=3)
    store.put_document("neighbors", "{}", KeptRound(2, 0, b"second epoch"), history=3)
    commit(store, 1, history=3, epoch=2)
    assert store.kept_names() == [(1, 1), (2, 0), (2, 1)]
    assert store.kept_round(2, 0) == KeptRound(2, 0, b"second epoch")


def test_summaries_come_back_as_they_were_newest_last(store: Store, tmp_path: Path) -> None:
    for number in range(1, 6):
        commit(store, number)
    store.close()
    again = open_store(tmp_path / "data")
    assert again.history(3) == [summary_of(number) for number in (3, 4, 5)]
    assert again.history(100) == [summary_of(number) for number in range(1, 6)]
    assert again.counters.rounds == 5
    again.close()


def test_the_history_is_bounded(store: Store) -> None:
    assert store.history_limit == 10
    longest = 0
    for number in range(1, 301):
        commit(store, number)
        (count,) = store.database.connection.execute("SELECT count(*) FROM history").fetchone()
        longest = max(longest, count)
    assert longest <= 10 + 64  # what is too old goes every 64 rounds
    assert store.history(10) == [summary_of(number) for number in range(291, 301)]


def everything(store: Store) -> list[object]:
    execute = store.database.connection.execute
    tables = ("rounds", "history", "collected", "documents", "observations")
    return [execute(f"SELECT * FROM {table}").fetchall() for table in tables]


def test_a_round_that_cannot_be_committed_has_not_happened(store: Store) -> None:
    log = open_log(store)
    append_one(log, observations([1, 2]))
    append_one(log, observations([3, 4]))
    commit(store, 1)
    before, counters = everything(store), asdict(store.counters)
    for _ in range(2):
        with failing_commits(store.database), pytest.raises(StorageError):
            commit(store, 2, history=1, applied=4)
        assert everything(store) == before
        assert asdict(store.counters) == counters
        assert held(log) == [1, 2, 3, 4]
    commit(store, 2, history=1, applied=4)
    assert asdict(store.counters) == counters | {"rounds": 2, "applied": 4}
    assert store.kept_names() == [(1, 2)]
    assert held(log) == []


def test_a_round_that_fails_halfway_leaves_no_half(store: Store) -> None:
    commit(store, 1)
    before = everything(store)
    store.counters.rounds = 0  # so that the summary's number is taken: the second statement of four fails
    with pytest.raises(StorageError):
        commit(store, 2)
    assert everything(store) == before
    assert not store.database.connection.in_transaction


def test_a_round_does_not_touch_what_was_collected_meanwhile(store: Store, tmp_path: Path) -> None:
    log = open_log(store)
    stale = replace(store.counters, rounds=1)
    append_one(log, observations([1, 2, 3]))
    store.commit_round(KeptRound(1, 1, b""), 2, summary_of(1), stale, None)
    assert store.counters.collected == 3
    store.close()
    again = open_store(tmp_path / "data")
    assert again.counters.collected == 3
    again.close()


def test_an_incarnation_lives_as_long_as_the_file(tmp_path: Path) -> None:
    incarnations = []
    for folder in ("one", "one", "two"):
        store = open_store(tmp_path / folder)
        assert store.identity[0] == "a1"
        incarnations.append(store.identity[1])
        store.close()
    assert incarnations[0] == incarnations[1] != incarnations[2]
    assert all(0 <= incarnation < 2**62 for incarnation in incarnations)


def test_every_commit_waits_for_the_disk(store: Store) -> None:
    execute = store.database.connection.execute
    assert execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def refusal(folder: Path, agent: str = "a1") -> str:
    with pytest.raises(StorageError) as caught:
        Database(folder, agent)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_a_folder_is_opened_once(store: Store, tmp_path: Path) -> None:
    assert "in use" in refusal(tmp_path / "data")
    store.close()
    open_store(tmp_path / "data").close()


@pytest.fixture
def other_process(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has the folder open until it is told to end."""
    code = (
        "import sys, pathlib; from service.agent.database import Database; "
        f"database = Database(pathlib.Path({str(tmp_path / 'data')!r}), 'a1'); "
        "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


def test_two_processes_cannot_have_one_folder(other_process: "subprocess.Popen[str]", tmp_path: Path) -> None:
    assert "in use" in refusal(tmp_path / "data")
    other_process.kill()  # and a dead one does not keep it
    other_process.wait()
    open_store(tmp_path / "data").close()


def test_another_agents_folder_is_refused_and_left_alone(store: Store, tmp_path: Path) -> None:
    store.put_document("model", "{}")
    store.close()
    assert "belongs to agent a1, not a2" in refusal(tmp_path / "data", "a2")
    again = open_store(tmp_path / "data")
    assert again.documents() == {"model": "{}"}
    again.close()


def test_a_file_of_another_format_is_refused_and_left_alone(store: Store, tmp_path: Path) -> None:
    store.close()
    connection = sqlite3.connect(tmp_path / "data" / FILE_NAME)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    assert "format 7" in refusal(tmp_path / "data")
    connection = sqlite3.connect(tmp_path / "data" / FILE_NAME)
    assert connection.execute("PRAGMA user_version").fetchone() == (7,)
    connection.close()


@pytest.mark.parametrize("content", [b"not a database at all, " * 100, b"SQLite format 3\x00" + b"\x07" * 5000])
def test_a_damaged_file_is_refused_in_one_sentence_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    assert str(path) in refusal(tmp_path)
    assert path.read_bytes() == content


def test_a_file_with_a_damaged_page_is_refused_in_one_sentence(store: Store, tmp_path: Path) -> None:
    store.put_document("model", "x" * 50_000)
    store.close()
    path = tmp_path / "data" / FILE_NAME
    content = bytearray(path.read_bytes())
    content[100:4096] = os.urandom(3996)  # the list of tables; the header before it stays
    path.write_bytes(content)
    assert "malformed" in refusal(tmp_path / "data")


def test_a_folder_that_cannot_be_made_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "cannot be used" in refusal(tmp_path / "file" / "data")
    (tmp_path / "data" / FILE_NAME).mkdir(parents=True)
    assert "cannot be used" in refusal(tmp_path / "data")


def test_after_it_is_closed_everything_is_a_storage_error(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StorageError):
        store.documents()
    with pytest.raises(StorageError):
        store.put_document("model", "{}")
