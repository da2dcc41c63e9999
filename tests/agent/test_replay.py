"""The replay buffer: a uniform sample of bounded size, the same after a restart and however posts were cut."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from service.agent.observation_log import ObservationLog
from service.agent.replay import ReplayBuffer, replay_slots
from tests.agent.test_observation_log import append_one, observations, open_log, open_store, store

__all__ = ["store"]  # a fixture


def contents(buffer: ReplayBuffer) -> list[float]:
    x, y = buffer.take(slice(None, len(buffer)))
    assert np.array_equal(x, np.stack((y, -y), axis=1))
    return y.tolist()


def rebuilt(log: ObservationLog) -> list[float]:
    """The buffer as a restart makes it."""
    buffer = ReplayBuffer(2, ())
    for batch in log.all():
        buffer.put(batch.first, batch.x, batch.y, batch.slots)
    return contents(buffer)


def one_by_one(seed: int, count: int, limit: int) -> list[float]:
    """Algorithm R as in the book, with the slots given."""
    places: list[float] = []
    for number in range(count):
        (slot,) = replay_slots(seed, number, 1, limit).tolist()
        if slot == len(places):
            places.append(number)
        elif slot >= 0:
            places[slot] = number
    return places


seeds = st.integers(0, 2**62)


@given(
    seed=seeds, first=st.integers(0, 2**40), counts=st.lists(st.integers(0, 9), max_size=6), limit=st.integers(1, 60)
)
def test_a_place_depends_on_the_seed_and_the_number_only(seed: int, first: int, counts: list[int], limit: int) -> None:
    whole = replay_slots(seed, first, sum(counts), limit)
    starts = first + np.concatenate(([0], np.cumsum(counts))).astype(int)
    parts = [replay_slots(seed, int(start), count, limit) for start, count in zip(starts, counts, strict=False)]
    assert whole.tolist() == [slot for part in parts for slot in part.tolist()]
    assert ((whole >= -1) & (whole < limit)).all()


@given(seed=seeds, count=st.integers(0, 50), more=st.integers(0, 50))
def test_while_all_fit_every_observation_has_its_own_place(seed: int, count: int, more: int) -> None:
    assert replay_slots(seed, 0, count, count + more).tolist() == list(range(count))


def test_another_seed_gives_other_places() -> None:
    places = {tuple(replay_slots(seed, 100, 300, 50).tolist()) for seed in range(200)}
    assert len(places) == 200


def test_every_observation_is_kept_with_the_same_probability() -> None:
    """Of 300 samples of 20 out of 100; the counts of a sample without replacement are spread as chi-square with 99
    degrees, scaled: the bound is passed by chance once in a thousand seeds, and these seeds are fixed."""
    samples, limit, total = 300, 20, 100
    kept = Counter(number for seed in range(samples) for number in one_by_one(seed, total, limit))
    share = limit / total
    counts = np.array([kept[number] for number in range(total)])
    assert counts.sum() == samples * limit
    statistic = ((counts - samples * share) ** 2).sum() / (samples * share * (1 - share)) * (total - 1) / total
    assert chi2.ppf(0.001, total - 1) < statistic < chi2.ppf(0.999, total - 1)


def test_a_late_observation_takes_every_place_equally_often() -> None:
    """40 places, and about 16,000 late observations that got one: once in a thousand seeds it would be beyond."""
    slots = replay_slots(5, 1000, 600_000, 40)
    counts = np.bincount(slots[slots >= 0], minlength=40)
    expected = counts.sum() / 40
    assert counts.sum() == pytest.approx(40 * np.log(601), rel=0.4)  # the sum of 40 / k: 256, give or take 16
    assert chi2.ppf(0.001, 39) < ((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.999, 39)


@given(seed=seeds, sizes=st.lists(st.integers(1, 30), max_size=8), limit=st.integers(1, 40))
@settings(max_examples=60)
def test_the_buffer_is_the_same_however_the_posts_were_cut_and_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sizes: list[int], limit: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    opened = open_store(folder)
    log = open_log(opened, limit, replay=True, seed=seed)
    live = ReplayBuffer(2, ())
    total = 0
    for size in sizes:
        ((batch, _),) = log.append([(observations(range(total, total + size)), None)])
        assert batch is not None
        live.put(batch.first, batch.x, batch.y, batch.slots)
        total += size
    assert contents(live) == one_by_one(seed, total, limit)
    assert len(live) == min(total, limit)
    opened.close()
    opened = open_store(folder)
    again = open_log(opened, limit, replay=True, seed=seed)
    assert again.counters.collected == total
    assert rebuilt(again) == contents(live)
    opened.close()


def test_the_disk_holds_what_got_a_place_and_not_all_that_came(tmp_path: Path) -> None:
    opened = open_store(tmp_path)
    log = open_log(opened, 100, replay=True)
    for first in range(0, 20_000, 100):
        append_one(log, observations(range(first, first + 100)))
    rows = sum(len(batch.y) for batch in log.all())
    # 100 (1 + ln 200) = 630 have ever had a place; the standard deviation is 23.
    assert rows == pytest.approx(630, abs=4 * 23)
    assert log.counters.collected == 20_000
    opened.close()


def test_a_full_buffer_is_no_full_inbox(tmp_path: Path) -> None:
    opened = open_store(tmp_path)
    log = open_log(opened, 3, replay=True)
    assert append_one(log, observations(range(50)))
    assert append_one(log, observations(range(50)))
    opened.close()


def test_of_rows_that_share_a_place_the_last_one_stays() -> None:
    buffer = ReplayBuffer(2, ())
    batch = observations([1, 2, 3, 4])
    buffer.put(0, batch.x, batch.y, np.array([0, 1, 0, 1]))
    assert contents(buffer) == [3, 4]


def test_what_is_taken_is_a_copy() -> None:
    buffer = ReplayBuffer(2, ())
    first, second = observations([1, 2]), observations([3, 4])
    buffer.put(0, first.x, first.y, None)
    x, y = buffer.take(np.array([1, 1, 0]))
    buffer.put(2, second.x, second.y, np.array([0, 1]))
    assert y.tolist() == [2, 2, 1]
    assert x[:, 0].tolist() == [2, 2, 1]


def test_vectors_have_their_places_too() -> None:
    buffer = ReplayBuffer(1, (2,))
    buffer.put(0, np.ones((3000, 1)), np.arange(6000.0).reshape(3000, 2), None)
    _, y = buffer.take([2999])
    assert y.tolist() == [[5998, 5999]]


def test_the_size_of_a_buffer_stays_when_the_agent_is_started_with_another_limit(tmp_path: Path) -> None:
    for limit in (10, 1000, 5):
        store = open_store(tmp_path)
        log = open_log(store, limit=limit, replay=True)
        for number in range(30):
            append_one(log, observations([number]))
        assert len(rebuilt(log)) == 10
        assert log.replay_limit == 10
        store.close()


def test_a_buffer_that_took_over_a_stream_has_room_for_all_of_it(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    append_one(open_log(store, limit=50), observations(range(40)))
    log = open_log(store, limit=10, replay=True)
    append_one(log, observations([40.0]))
    assert len(rebuilt(log)) == log.replay_limit == 40
    store.close()


def test_of_a_post_without_a_place_nothing_stays_on_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = open_log(store, limit=5, replay=True)
    for number in range(2000):
        append_one(log, observations([number]))
    assert log.counters.collected == 2000
    assert len(list(log.all())) < 100  # about 5 (1 + log(400)) of them
    store.close()
