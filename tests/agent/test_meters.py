"""What an agent counts: each duration falls into one bucket, the one that its bound still holds."""

import pytest

from service.agent.meters import BOUNDS_S, Durations, Traffic


def test_a_duration_counts_in_the_first_bucket_whose_bound_holds_it() -> None:
    durations = Durations()
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[0] * 1.001, BOUNDS_S[-1], BOUNDS_S[-1] + 1, 1e9):
        durations.add(seconds)
    assert durations.counts == [2, 1, *[0] * (len(BOUNDS_S) - 3), 1, 2]
    assert durations.total_s == pytest.approx(sum((0.0, BOUNDS_S[0] * 2.001, 2 * BOUNDS_S[-1] + 1, 1e9)))


def test_bounds_rise() -> None:
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))


def test_traffic_counts_refusals_by_problem() -> None:
    one, other = Traffic(), Traffic()
    one.refused["busy"] += 1
    assert (dict(one.refused), dict(other.refused)) == ({"busy": 1}, {})
