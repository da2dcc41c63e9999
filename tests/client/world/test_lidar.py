"""Scans, and the labelled points made of them."""

import numpy as np
import pytest

from client.streams.world import cast_rays, drive, labelled_points, make_floor_plan, scan
from tests.client.world.buildings import MOST_NOISE_M, NOISE_M, one_room


def test_rows_of_a_robot_are_ordered_by_time() -> None:
    plan = make_floor_plan(np.random.default_rng(0))
    path = drive(plan, 1, np.random.default_rng(1), scans=5)
    near = scan(plan, path.positions, path.headings, np.random.default_rng(2), max_range_m=0.5)
    x, _ = labelled_points(near, np.random.default_rng(3), free_per_m=20.0)
    nearest_scan = np.hypot(*(x[:, None] - path.positions).transpose(2, 0, 1)).argmin(axis=1)
    assert (np.diff(nearest_scan) >= 0).all()
    assert set(nearest_scan) == set(range(5))  # each scan's points lie around its own position


def test_the_first_beam_looks_straight_ahead() -> None:
    scans = scan(one_room(), np.array([[1.0, 1.5]]), np.zeros(1), np.random.default_rng(0), beams=4, noise_m=0.0)
    np.testing.assert_allclose(scans.ranges, [[2.0, 2.5, 1.0, 1.5]])


def test_range_noise_has_the_deviation_asked_for() -> None:
    headings = np.linspace(0.0, 6.0, 100)
    positions = np.tile([2.0, 2.5], (100, 1))
    exact = scan(one_room(), positions, headings, np.random.default_rng(0), noise_m=0.0)
    noisy = scan(one_room(), positions, headings, np.random.default_rng(0), noise_m=0.05)
    # 18,000 draws estimate a deviation to 0.5 %.
    assert np.std(noisy.ranges - exact.ranges) == pytest.approx(0.05, rel=0.03)


def test_a_beam_without_return_gives_free_points_and_no_occupied_one() -> None:
    scans = scan(one_room(), np.array([[2.0, 2.5]]), np.zeros(1), np.random.default_rng(0), max_range_m=0.4)
    x, y = labelled_points(scans, np.random.default_rng(1), free_per_m=10.0)
    assert np.isinf(scans.ranges).all()
    assert len(y) > 0
    assert (y == 0).all()
    assert 0.39 < np.hypot(*(x - [2.0, 2.5]).T).max() < 0.4  # 720 even draws, up to the maximum range


def test_a_hit_is_followed_by_the_free_points_of_its_beam() -> None:
    scans = scan(one_room(), np.array([[1.0, 1.5]]), np.zeros(1), np.random.default_rng(0), beams=4, noise_m=0.0)
    x, y = labelled_points(scans, np.random.default_rng(1), free_per_m=2.0)
    assert y.tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0]
    np.testing.assert_allclose(x[y == 1], [[3.0, 1.5], [1.0, 4.0], [0.0, 1.5], [1.0, 0.0]], atol=1e-12)


def test_free_points_are_never_beyond_the_hit() -> None:
    rng = np.random.default_rng(5)
    plan = make_floor_plan(rng)
    path = drive(plan, 0, rng, scans=1)
    scans = scan(plan, path.positions, path.headings, rng, noise_m=NOISE_M)
    x, y = labelled_points(scans, rng, free_per_m=10.0)
    ray = x[y == 0] - path.positions[0]
    truth = cast_rays(plan.surfaces, np.tile(path.positions[0], (len(ray), 1)), np.arctan2(ray[:, 1], ray[:, 0]))
    # Free points stop 0.1 m before the measured end, which is off by the noise.
    assert (np.hypot(ray[:, 0], ray[:, 1]) < truth - 0.1 + MOST_NOISE_M).all()
