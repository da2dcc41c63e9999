"""The newest observations: the last so many, in order, each once, and no more of a request than that is kept."""

import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.agent.observation_log import Mark, ObservationLog, StoredBatch
from service.agent.recent import MOST_RECENT, Recent
from service.agent.store import Store
from service.wire.observations import Observations
from tests.agent.test_observation_log import observations, open_log, open_store

NOTHING = (np.empty((0, 2)), np.empty(0))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data")
    yield opened
    opened.close()


def new_recent(collected: int = 0) -> Recent:
    return Recent(collected, lambda: 0.0)


def post(log: ObservationLog, recent: Recent, numbers: Sequence[float], mark: Mark | None = None) -> None:
    posted = observations(numbers)
    ((batch, fault),) = log.append([(posted, mark)])
    assert fault is None
    if batch is not None:
        recent.stored(batch, posted)


def shown(recent: Recent, limit: int = MOST_RECENT) -> list[float]:
    x, y = recent.newest(limit, NOTHING)
    assert np.array_equal(x, np.stack((y, -y), axis=1))
    return y.tolist()


@given(st.lists(st.sampled_from([0, 1, 2, 7, 100, 499, 500, 501, 1200]), max_size=12), st.integers(1, MOST_RECENT))
def test_the_newest_are_the_last_of_all_in_order_and_little_more_is_kept(sizes: list[int], limit: int) -> None:
    recent, first = new_recent(), 0
    for size in sizes:
        posted = observations(range(first, first + size))
        recent.stored(StoredBatch(first, size, posted.x, posted.y), posted)
        first += size
        assert sum(len(y) for _, y in recent._pieces) < 2 * MOST_RECENT
    assert shown(recent, limit) == list(range(max(0, first - limit), first))
    assert recent.collected == first


def test_of_a_large_request_only_the_last_rows_stay_in_memory(store: Store) -> None:
    log, recent = open_log(store, 100_000), new_recent()
    posted = observations(range(50_000))
    ((batch, _),) = log.append([(posted, None)])
    assert batch is not None
    recent.stored(batch, posted)
    alive = weakref.ref(posted.x), weakref.ref(posted.y)
    del batch, posted
    assert [array() for array in alive] == [None, None]
    assert shown(recent) == list(range(49_500, 50_000))


def test_a_batch_that_is_sent_again_is_there_once(store: Store) -> None:
    log, recent = open_log(store), new_recent()
    for _ in range(3):
        post(log, recent, [1, 2], Mark("robot", 0))
    post(log, recent, [3], Mark("robot", 1))
    assert shown(recent) == [1, 2, 3]
    assert recent.collected == 3


def test_of_lines_that_are_sent_again_only_those_that_are_new_are_added(store: Store) -> None:
    log, recent = open_log(store), new_recent()
    post(log, recent, [1, 2, 3], Mark("robot", 0, by_line=True))
    post(log, recent, [1, 2, 3, 4, 5], Mark("robot", 0, by_line=True))
    post(log, recent, [5, 6], Mark("robot", 4, by_line=True))
    assert shown(recent) == [1, 2, 3, 4, 5, 6]
    assert recent.collected == 6


def test_what_finds_no_place_in_a_full_replay_buffer_is_shown_all_the_same(store: Store) -> None:
    log, recent = open_log(store, limit=3, replay=True), new_recent()
    post(log, recent, range(40))
    post(log, recent, range(40, 60))
    assert shown(recent) == list(range(60))


def test_what_was_there_before_the_start_counts_and_is_not_shown(store: Store) -> None:
    log = open_log(store)
    post(log, new_recent(), [1, 2, 3])
    recent = new_recent(store.counters.collected)
    assert (recent.collected, shown(recent)) == (3, [])
    post(log, recent, [4])
    assert (recent.collected, shown(recent)) == (4, [4])


def test_targets_that_are_vectors_stay_vectors(store: Store) -> None:
    recent, y = new_recent(), np.arange(6.0).reshape(2, 3)
    log = ObservationLog(store.database, 2, 3, store.counters, open_log(store).intake)
    posted = Observations(np.ones((2, 2)), y)
    ((batch, _),) = log.append([(posted, None)])
    assert batch is not None
    recent.stored(batch, posted)
    np.testing.assert_array_equal(recent.newest(9, (np.empty((0, 2)), np.empty((0, 3))))[1], y)


def test_a_position_is_the_one_told_last_and_its_age_is_by_the_agents_clock() -> None:
    now = [10.0]
    recent = Recent(0, lambda: now[0])
    assert (recent.position, recent.position_age_s) == (None, None)
    recent.stands_at((1.5, 2.0))
    now[0] = 12.5
    assert (recent.position, recent.position_age_s) == ((1.5, 2.0), 2.5)
    recent.stands_at((1.0, 2.0))
    assert (recent.position, recent.position_age_s) == ((1.0, 2.0), 0.0)
