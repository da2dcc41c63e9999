"""Figures over time: bounded, in order, and rates that are right."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.dashboard.series import METRICS, Curves, Series, error_of
from service.wire.answers import RoundSummary

times = st.floats(0, 1e6)


def filled(count: int, most: int = 64) -> Series:
    series = Series(most)
    for number in range(count):
        series.append(float(number), number, 10.0 * number)
    return series


def summary(number: int, at: float, **fields: object) -> RoundSummary:
    known = {"epoch": 1, "observations": 0, "uncovered": 0, "mixed": (), "missing": (), "own_weight": 1.0}
    timed = {"waited_s": 0.0, "computed_s": 0.0, "finished_at": at, "round": number, "number": number}
    return RoundSummary(**{**known, **timed, **fields})  # type: ignore[arg-type]


def values(curves: Curves, name: str) -> list[float]:
    return [point.value for point in curves.series[name].since(float("-inf"))]


@given(count=st.integers(0, 2000), most=st.integers(4, 100))
def test_a_series_never_exceeds_its_bound_and_keeps_its_first_and_its_newest_points(count: int, most: int) -> None:
    series = Series(most)
    for number in range(count):
        series.append(float(number), number, 10.0 * number)
        assert len(series) <= most
    points = series.since(float("-inf"))
    assert all(point == (point.round, point.round, 10 * point.round) for point in points)  # columns stay together
    if count:
        newest = min(count, most // 2)
        assert [point.round for point in points[-newest:]] == list(range(count - newest, count))
        assert points[0].round == 0


def test_a_series_of_the_usual_bound_holds_a_day_of_rounds() -> None:
    series = Series()
    for number in range(50_000):
        series.append(float(number), number, 0.0)
    points = series.since(float("-inf"))
    assert 2000 < len(points) <= 4096
    assert points[0].at == 0
    gaps = [after.at - before.at for before, after in itertools.pairwise(points)]
    assert gaps[-1] == 1
    assert sorted(gaps, reverse=True) == gaps  # the older, the thinner


@given(st.lists(times, min_size=1, max_size=300))
def test_a_clock_that_is_put_back_reorders_nothing(told: list[float]) -> None:
    series = Series(64)
    for number, at in enumerate(told):
        series.append(at, number, 0.0)
    points = series.since(float("-inf"))
    assert [point.at for point in points] == sorted(point.at for point in points)
    assert [point.round for point in points] == sorted(point.round for point in points)
    assert points[-1].at == max(told)


@given(count=st.integers(0, 300), since=st.integers(-5, 305), most=st.integers(1, 400))
def test_a_part_of_a_series_has_at_most_so_many_points_and_the_last_among_them(
    count: int, since: int, most: int
) -> None:
    series = filled(count, 1000)
    every = [point for point in series.since(float("-inf")) if point.at >= since]
    picked = series.since(float(since), most)
    assert series.since(float(since)) == every
    assert len(picked) <= most
    assert len(picked) >= min(len(every), (most + 1) // 2)  # no thinner than need be
    assert picked[-1:] == every[-1:]
    assert set(picked) <= set(every)


def test_rates_are_what_was_added_over_the_time_that_passed() -> None:
    curves = Curves()
    for second in range(0, 21, 4):
        curves.count(1000.0 + second, 3 * second, 50 * second)
        curves.count_bytes(1000.0 + second, 3 * second, 7000.0 * second)
    assert values(curves, "rounds_per_s") == [3.0] * 5
    assert values(curves, "observations_per_s") == [50.0] * 5
    assert values(curves, "bytes_per_s") == [7000.0] * 5
    last = curves.series["rounds_per_s"].since(0)[-1]
    assert (last.at, last.round) == (1020.0, 60)


@given(st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 100), st.integers(0, 100)), min_size=2, max_size=60))
def test_rates_add_up_to_what_was_counted(steps: list[tuple[float, int, int]]) -> None:
    curves, at, rounds, observations = Curves(), 1000.0, 5, 7
    curves.count(at, rounds, observations)
    for seconds, more_rounds, more_observations in steps:
        at, rounds, observations = at + seconds, rounds + more_rounds, observations + more_observations
        curves.count(at, rounds, observations)
    for name, index, begin in (("rounds_per_s", 1, 5), ("observations_per_s", 2, 7)):
        points = curves.series[name].since(float("-inf"))
        ats = [1000.0, *(point.at for point in points)]
        counted = begin + sum(p.value * (p.at - before) for p, before in zip(points, ats[:-1], strict=True))
        elapsed, total = 1000.0, begin
        for step in steps:
            elapsed, total = elapsed + step[0], total + int(step[index])
            if points and elapsed == points[-1].at:
                assert counted == pytest.approx(total)


def test_a_paused_agent_has_rates_of_zero() -> None:
    curves = Curves()
    for second in (0, 3, 6, 9):
        curves.count(1000.0 + second, 12, 400)
        curves.count_bytes(1000.0 + second, 12, 1e6)
    for name in ("rounds_per_s", "observations_per_s", "bytes_per_s"):
        assert values(curves, name) == [0.0] * 3


def test_counters_that_begin_anew_give_no_negative_rate() -> None:
    curves = Curves()
    for at, rounds, observations, total in ((0, 100, 900, 1e6), (3, 103, 930, 2e6), (6, 2, 5, 100), (9, 5, 35, 400)):
        curves.count(1000.0 + at, rounds, observations)
        curves.count_bytes(1000.0 + at, rounds, total)
    assert values(curves, "rounds_per_s") == [1.0, 1.0]
    assert values(curves, "observations_per_s") == [10.0, 10.0]
    assert values(curves, "bytes_per_s") == pytest.approx([1e6 / 3, 100.0])


@given(st.lists(st.tuples(times, st.integers(0, 50), st.integers(0, 50), st.floats(0, 1e9)), max_size=60))
def test_no_rate_is_ever_negative(told: list[tuple[float, int, int, float]]) -> None:
    curves = Curves()
    for at, rounds, observations, total in told:
        curves.count(at, rounds, observations)
        curves.count_bytes(at, rounds, total)
    for name in ("rounds_per_s", "observations_per_s", "bytes_per_s"):
        assert all(value >= 0 for value in values(curves, name))


def test_a_round_tells_its_error_its_distance_to_the_neighbors_and_its_part_of_the_objective() -> None:
    curves = Curves()
    curves.add_round(
        summary(4, 1000.0, scores={"accuracy": 0.75}, distances={"a2": 1.0, "a3": 2.0}, delbo=-3.5, applied=80)
    )
    curves.add_round(summary(5, 1002.0, applied=100))  # nothing was measured
    assert [(name, values(curves, name)) for name in ("verification_error", "consensus_error", "delbo")] == [
        ("verification_error", [0.25]),
        ("consensus_error", [1.5]),
        ("delbo", [-3.5]),
    ]
    [point] = curves.series["delbo"].since(0)
    assert (point.at, point.round) == (1000.0, 4)
    assert values(curves, "observations_per_s") == [10.0]
    assert set(curves.series) == {metric.name for metric in METRICS}


def test_the_error_is_the_share_of_wrong_labels_or_the_root_mean_square_error() -> None:
    assert error_of({"accuracy": 0.9, "log_loss": 3.0, "balanced_accuracy": 0.1}) == pytest.approx(0.1)
    assert error_of({"rmse": 0.25, "log_density": -1.0}) == 0.25
    assert error_of({"log_density": -1.0}) is None
    assert error_of({}) is None
    assert error_of(None) is None


def round_at(at: float, number: int) -> RoundSummary:
    return RoundSummary(1, number, at, 5, 0, (), (), 1.0, 0.0, 0.0, number=number, applied=5 * number, delbo=-1.0)


def test_polls_between_the_rounds_change_no_rate() -> None:
    curves = Curves()
    for second in range(40):
        curves.add_round(round_at(1000.0 + second, second))
        curves.rest(1000.9 + second, second)
    assert set(values(curves, "rounds_per_s")) == {1.0}
    assert set(values(curves, "observations_per_s")) == {5.0}


def test_who_has_had_no_round_for_a_while_has_rates_of_zero() -> None:
    curves = Curves()
    for second in range(5):
        curves.add_round(round_at(1000.0 + second, second))
    for second in range(5, 30):
        curves.rest(1000.0 + second, 4)
    assert values(curves, "rounds_per_s") == [1.0, 1.0, 0.0, 0.0]


def test_rounds_that_are_told_after_a_poll_keep_their_times() -> None:
    curves = Curves()
    curves.rest(1100.0, 50)
    for second in range(50):
        curves.add_round(round_at(1000.0 + second, second))
    assert [point.at for point in curves.series["delbo"].since(0)] == [1000.0 + second for second in range(50)]
    assert len({point.at for point in curves.series["rounds_per_s"].since(0)}) == 24


def test_what_is_asked_in_between_makes_no_peak_of_bytes() -> None:
    curves = Curves()
    for at, total in ((0, 0), (2, 2000), (2.02, 7000), (4, 9000)):
        curves.count_bytes(1000.0 + at, 1, total)
    assert values(curves, "bytes_per_s") == [1000.0, 3500.0]


@pytest.mark.parametrize("wrong_s", [-1.7e9, -3600.0, 90.0])
def test_rounds_of_an_agent_whose_clock_is_wrong_are_drawn_by_ours(wrong_s: float) -> None:
    curves = Curves()
    curves.add_round(round_at(2e9 - 1 + wrong_s, 1))
    for second in range(5):
        curves.hear(2e9 + second + 0.5 / (1 + second), 2e9 + second + wrong_s)
        curves.add_round(round_at(2e9 + second + wrong_s, 2 + second))
    times = [point.at for point in curves.series["delbo"].since(0)]
    assert times == pytest.approx([2e9 - 1 + second for second in range(6)], abs=0.6)


def test_a_clock_that_is_right_is_left_alone() -> None:
    curves = Curves()
    for second in range(5):
        curves.hear(1000.3 + second, 1000.0 + second)
        curves.add_round(round_at(1000.0 + second, second))
    assert [point.at for point in curves.series["delbo"].since(0)] == [1000.0 + second for second in range(5)]
