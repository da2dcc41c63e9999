"""The inbox: every observation once, in order, however it came and however it is taken; or drawn again and again."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.agent.inbox import ReplayInbox, StreamInbox
from service.agent.observation_log import Intake, ObservationLog
from service.agent.store import Store
from service.errors import StorageError
from service.inference.round import replay_rows
from service.wire.observations import Observations
from tests.agent.test_observation_log import (
    append_one,
    commit_taken,
    failing_commits,
    log,
    observations,
    open_log,
    open_store,
    store,
)

__all__ = ["log", "store"]  # fixtures


def batches_on_disk(store: Store) -> list[tuple[int, int]]:
    with store.database.reading() as connection:
        return connection.execute("SELECT first, count FROM observations ORDER BY first").fetchall()


steps = st.one_of(
    st.tuples(st.just("post"), st.integers(1, 9)),
    st.tuples(st.just("round"), st.integers(0, 12)),
    st.tuples(st.just("failed round"), st.integers(0, 12)),
    st.tuples(st.just("restart"), st.just(0)),
)


@given(life=st.lists(steps, max_size=25))
@settings(max_examples=80)
def test_every_observation_is_taken_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, life: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("life")
    store = open_store(folder)
    inbox = StreamInbox(open_log(store))
    posted, applied = 0, 0
    for what, count in life:
        if what == "post":
            append_one(inbox.log, observations(range(posted, posted + count)))
            posted += count
        elif what == "restart":
            store.close()
            store = open_store(folder)
            inbox = StreamInbox(open_log(store))
        else:
            taken = inbox.take(count, 0)
            assert taken.y.tolist() == list(range(applied, min(applied + count, posted)))
            assert np.array_equal(taken.x, np.stack((taken.y, -taken.y), axis=1))
            if what == "round":
                commit_taken(store, taken)
                applied += len(taken.y)
            else:
                with failing_commits(store.database), pytest.raises(StorageError):
                    commit_taken(store, taken)
        assert inbox.available == posted - applied
        done_with = [first for first, size in batches_on_disk(store) if first + size <= applied]
        assert len(done_with) <= 1  # the batch whose last row was taken goes with the next round
    store.close()


def test_applied_batches_vanish_from_the_disk_and_others_stay(store: Store, log: ObservationLog) -> None:
    inbox = StreamInbox(log)
    for first in range(0, 12, 3):
        append_one(log, observations(range(first, first + 3)))
    commit_taken(store, inbox.take(2, 0))
    assert batches_on_disk(store) == [(0, 3), (3, 3), (6, 3), (9, 3)]
    commit_taken(store, inbox.take(5, 0))
    assert batches_on_disk(store) == [(6, 3), (9, 3)]
    commit_taken(store, inbox.take(100, 0))
    assert batches_on_disk(store) == [(9, 3)]
    commit_taken(store, inbox.take(100, 0))
    append_one(log, observations([12]))
    commit_taken(store, inbox.take(100, 0))
    assert batches_on_disk(store) == [(12, 1)]


def test_a_round_that_was_not_committed_gets_the_same_again(store: Store, log: ObservationLog) -> None:
    inbox = StreamInbox(log)
    append_one(log, observations([0, 1, 2]))
    append_one(log, observations([3, 4]))
    for _ in range(3):
        assert inbox.take(4, 0).y.tolist() == [0, 1, 2, 3]
    commit_taken(store, inbox.take(1, 0))
    assert inbox.take(4, 0).y.tolist() == [1, 2, 3, 4]


def test_nothing_to_take_has_the_shape_of_something(store: Store, log: ObservationLog) -> None:
    vectors = ObservationLog(store.database, 3, 2, store.counters, Intake(10))
    for inbox, shapes in (
        (StreamInbox(log), ((0, 2), (0,))),
        (StreamInbox(vectors), ((0, 3), (0, 2))),
        (ReplayInbox(vectors, 0), ((0, 3), (0, 2))),
    ):
        taken = inbox.take(5, 0)
        assert (taken.x.shape, taken.y.shape) == shapes
        assert (taken.applied, taken.obsolete_before) == (0, None)


def test_vector_targets_are_taken_across_batches(store: Store) -> None:
    log = ObservationLog(store.database, 1, 2, store.counters, Intake(10))
    y = np.arange(10.0).reshape(5, 2)
    append_one(log, Observations(np.zeros((2, 1)), y[:2]))
    append_one(log, Observations(np.zeros((3, 1)), y[2:]))
    assert np.array_equal(StreamInbox(log).take(4, 0).y, y[:4])


def test_replay_draws_from_all_that_was_collected_by_seed_agent_and_round(store: Store) -> None:
    log = open_log(store, 100, replay=True, seed=7)
    inbox = ReplayInbox(log, 3)
    assert inbox.available == 0
    for first in (0, 20):
        ((batch, _),) = log.append([(observations(range(first, first + 20)), None)])
        assert batch is not None
        inbox.accepted(batch)
    assert inbox.available >= 1_000_000
    for round_number in (0, 1, 50):
        expected = replay_rows(7, 3, round_number, 40, 15).astype(float).tolist()
        taken = inbox.take(15, round_number)
        assert taken.y.tolist() == expected
        assert taken.x[:, 1].tolist() == [-number for number in expected]
        assert taken.applied == 15
        assert taken.obsolete_before is None  # they may be drawn again


def test_a_restart_draws_the_same(store: Store, tmp_path: Path) -> None:
    log = open_log(store, 10, replay=True, seed=7)
    inbox = ReplayInbox(log, 1)
    for first in range(0, 60, 4):
        ((batch, _),) = log.append([(observations(range(first, first + 4)), None)])
        assert batch is not None
        inbox.accepted(batch)
    commit_taken(store, inbox.take(5, 0))
    drawn = inbox.take(30, 1).y.tolist()
    store.close()
    again = open_store(tmp_path / "data")
    inbox = ReplayInbox(open_log(again, 10, replay=True, seed=7), 1)
    assert inbox.take(30, 1).y.tolist() == drawn
    assert inbox.take(30, 1).applied == 35
    assert max(drawn) >= 10  # the buffer had overflowed
    again.close()


def test_a_stream_that_becomes_replay_brings_its_observations_along(store: Store, log: ObservationLog) -> None:
    append_one(log, observations([1, 2, 3]))
    append_one(log, observations([4]))
    log.intake = Intake(1000, replay=True, seed=0)
    assert set(ReplayInbox(log, 0).take(200, 0).y.tolist()) == {1, 2, 3, 4}
