"""Laser scans, and the points made of them."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.streams.scans import Beams, LaserScan, beams_of, labelled_points
from service.errors import DataError, SettingError
from service.inference.arrays import FloatArray

INF = math.inf


def scan_of(
    ranges: list[float], pose: tuple[float, float, float] = (0, 0, 0), own_max: float | None = None
) -> LaserScan:
    return LaserScan(np.array(pose, np.float64), np.array(ranges, np.float64), -math.pi / 2, math.pi / 4, own_max, 0.0)


def beams_along_x(ranges: list[float]) -> Beams:
    """Beams from x = 100 towards larger x, each a scan of its own."""
    count = len(ranges)
    origin = np.tile([100.0, 5.0], (count, 1))
    return Beams(np.arange(count, dtype=np.int32), origin, np.zeros(count), np.array(ranges))


def radii(points_x: FloatArray) -> FloatArray:
    np.testing.assert_array_equal(points_x[:, 1], 5.0)
    return np.asarray(points_x[:, 0] - 100.0)


def test_the_default_rule_makes_the_shared_intel_points_of_the_shared_intel_scans(data_folder: Path) -> None:
    recorded, points = np.load(data_folder / "intel_scans.npz"), np.load(data_folder / "intel_points.npz")
    start, step = float(recorded["angle_min"]), float(recorded["angle_increment"])
    scans = [
        LaserScan(pose, ranges.astype(np.float64), start, step, None, 0.0)
        for pose, ranges in zip(recorded["poses"], recorded["ranges"], strict=True)
    ]
    made = labelled_points(beams_of(scans), np.random.default_rng(0))
    # Ranges up to 26 m and coordinates up to 24 m, both rounded to float32, which is 1e-6 at most for each.
    np.testing.assert_allclose(made.x, points["xy"], rtol=0, atol=2e-6)
    np.testing.assert_array_equal(made.y, points["label"])
    np.testing.assert_array_equal(made.scan, points["scan"])


@pytest.mark.parametrize(
    ("own_max", "returned"),
    [(None, [0.01, 5.0, 8.0, 40.0]), (8.0, [0.01, 5.0]), (81.83, [0.01, 5.0, 8.0, 40.0])],
)
def test_a_reading_that_is_no_distance_did_not_return(own_max: float | None, returned: list[float]) -> None:
    readings = [0.01, 0.0, -1.0, 5.0, math.nan, 8.0, INF, -INF, 40.0, 40.001, 81.83]
    ranges = beams_of([scan_of(readings, own_max=own_max)]).range_m
    assert len(ranges) == len(readings)
    assert ranges[np.isfinite(ranges)].tolist() == returned
    assert (ranges[~np.isfinite(ranges)] == INF).all()


def test_beams_of_scans_of_different_sizes_have_their_own_origins_and_angles() -> None:
    scans = [scan_of([1.0, 2.0, 3.0], (10, 20, 0)), scan_of([]), scan_of([50.0, 5.0], (30, 40, math.pi))]
    beams = beams_of(scans, max_range_m=60.0)
    assert beams.scan.tolist() == [0, 0, 0, 2, 2]
    assert beams.origin.tolist() == [[10, 20]] * 3 + [[30, 40]] * 2
    assert beams.range_m.tolist() == [1, 2, 3, 50, 5]
    np.testing.assert_allclose(np.degrees(beams.angle), [-90, -45, 0, 90, 135])


def test_a_log_without_beams_gives_no_points() -> None:
    for scans in ([], [scan_of([])], [scan_of([0.0])]):
        for ratio in (None, 2.0):
            points = labelled_points(beams_of(scans), np.random.default_rng(0), free_per_hit=ratio)
            assert (points.x.shape, points.y.shape, points.scan.shape) == ((0, 2), (0,), (0,))


def test_of_each_beam_the_end_comes_first_then_its_free_points() -> None:
    points = labelled_points(beams_along_x([0.05, 7.9, INF, 4.0]), np.random.default_rng(1))
    assert points.scan.tolist() == [0] * 2 + [1] * 4 + [3] * 3
    assert points.y.tolist() == [1, 0, 1, 0, 0, 0, 1, 0, 0]
    radius = radii(points.x)
    np.testing.assert_allclose(radius[points.y == 1], [0.05, 7.9, 4.0])
    assert radius[1] == 0  # a beam shorter than the margin is free where it starts


def test_free_points_are_spread_evenly_up_to_the_margin() -> None:
    points = labelled_points(beams_along_x([10.0]), np.random.default_rng(0), free_per_m=1000.0, margin_m=2.0)
    free = np.sort(radii(points.x)[points.y == 0])
    assert len(free) == 10_000
    # Kolmogorov-Smirnov: 10,000 even draws stay this close to the line, but once in 10 million times.
    assert np.abs(free / 8.0 - np.linspace(0, 1, 10_000)).max() < 0.03
    assert free.max() < 8.0


def test_beams_without_return_are_free_as_far_as_told() -> None:
    points = labelled_points(beams_along_x([INF, 2.0, INF]), np.random.default_rng(0), free_per_m=500.0, free_to_m=4.0)
    assert np.bincount(points.scan).tolist() == [2000, 1001, 2000]
    assert np.bincount(points.scan, points.y).tolist() == [0, 1, 0]
    for beam in (0, 2):
        furthest = radii(points.x)[points.scan == beam].max()
        assert 3.95 < furthest < 4.0  # no margin: there is no hit to keep away from


lengths = st.lists(st.one_of(st.just(INF), st.floats(0.01, 40.0)), max_size=30)


@given(ranges=lengths, ratio=st.floats(0.01, 20.0), free_to_m=st.none() | st.floats(0.1, 10.0))
def test_a_class_ratio_holds_in_total_and_by_length(ranges: list[float], ratio: float, free_to_m: float | None) -> None:
    beams = beams_along_x(ranges)
    points = labelled_points(beams, np.random.default_rng(0), free_per_hit=ratio, free_to_m=free_to_m)
    hits = np.isfinite(beams.range_m)
    assert points.y.sum() == hits.sum()
    total = round(ratio * int(hits.sum()))
    assert (points.y == 0).sum() == total
    length = np.where(hits, beams.range_m, free_to_m or 0.0)
    free = np.bincount(points.scan[points.y == 0], minlength=len(ranges))
    share = total * length / length.sum() if total else 0 * length
    assert (np.abs(free - share) <= 1 + 1e-9).all()
    assert (np.diff(points.scan) >= 0).all()


def test_the_same_generator_gives_the_same_points() -> None:
    beams = beams_along_x([3.0, INF, 9.0])
    first, again, other = (
        labelled_points(beams, np.random.default_rng(seed), free_per_hit=4.0, free_to_m=5.0) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)


@pytest.mark.parametrize("name", ["free_per_m", "free_per_hit", "free_to_m", "margin_m"])
@pytest.mark.parametrize("value", [-0.1, math.nan, INF, 1e300])
def test_settings_without_sense_are_refused_by_name(name: str, value: float) -> None:
    settings = {"free_to_m": 5.0, name: value}
    with pytest.raises(SettingError, match=name):
        labelled_points(beams_along_x([3.0]), np.random.default_rng(0), **settings)


@pytest.mark.parametrize("name", ["free_per_m", "free_per_hit", "free_to_m"])
def test_nothing_is_no_density_and_no_distance(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name} must be above 0"):
        labelled_points(beams_along_x([3.0]), np.random.default_rng(0), **{name: 0.0})


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_a_maximum_range_without_sense_is_refused(value: float) -> None:
    with pytest.raises(SettingError, match="above 0 m"):
        beams_of([scan_of([1.0])], max_range_m=value)


def test_more_points_than_fit_into_memory_are_refused_before_they_are_made() -> None:
    with pytest.raises(SettingError, match="60,000,000 free points are too many"):
        labelled_points(beams_along_x([30.0, 30.0]), np.random.default_rng(0), free_per_m=1e6)


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(DataError, match=r"pose \(3,\) and ranges \(beams,\), not \(2,\) and \(1,\)"):
        LaserScan(np.zeros(2), np.ones(1), 0.0, 0.1, None, 0.0)
    with pytest.raises(DataError, match=r"not \(3,\) and \(1, 1\)"):
        LaserScan(np.zeros(3), np.ones((1, 1)), 0.0, 0.1, None, 0.0)
    with pytest.raises(DataError, match="2 beams"):
        Beams(np.zeros(2, np.int32), np.zeros((2, 2)), np.zeros(1), np.ones(2))
