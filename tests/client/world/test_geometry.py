"""Rays and distances, against the same computed one by one."""

import math

import numpy as np
import pytest

from client.streams.world import cast_rays, distance_to, drive, make_floor_plan, scan
from service.inference.arrays import FloatArray
from tests.client.world.buildings import one_room


def range_by_hand(segments: FloatArray, origin: FloatArray, angle: float) -> float:
    """One ray, by solving p + t d = a + u (b - a) as a linear system for one segment after the other."""
    nearest = math.inf
    direction = np.array([math.cos(angle), math.sin(angle)])
    for segment in segments:
        start, end = segment[:2], segment[2:]
        system = np.column_stack([direction, start - end])
        if np.linalg.det(system) == 0:
            continue
        t, u = np.linalg.solve(system, start - origin)
        if t >= 0 and 0 <= u <= 1:
            nearest = min(nearest, float(t))
    return nearest


def distance_by_hand(segments: FloatArray, point: FloatArray) -> float:
    """Distance to the nearest of many points on each segment, fine enough for 1e-3 m."""
    share = np.linspace(0.0, 1.0, 5001)[:, None]
    return min(float(np.hypot(*(s[:2] + share * (s[2:] - s[:2]) - point).T).min()) for s in segments)


def test_ranges_equal_a_linear_solve_per_ray_and_segment() -> None:
    rng = np.random.default_rng(3)
    plan = make_floor_plan(rng, rooms_across=2, rooms_down=2, wings=1)
    path = drive(plan, 0, rng, scans=6)
    scans = scan(plan, path.positions, path.headings, rng, beams=45, max_range_m=3.0, noise_m=0.0)
    for position, angles, ranges in zip(path.positions, scans.angles, scans.ranges, strict=True):
        expected = np.array([range_by_hand(plan.surfaces, position, angle) for angle in angles])
        expected[expected > 3.0] = np.inf
        # Both are a few floating-point operations on numbers of order 10.
        np.testing.assert_allclose(ranges, expected, rtol=0, atol=1e-9)
    assert np.isinf(scans.ranges).any()


def test_chunks_of_rays_equal_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = one_room().surfaces
    angles = np.linspace(0.1, 6.0, 50)
    origins = np.tile([2.0, 2.5], (50, 1))
    whole = cast_rays(segments, origins, angles)
    monkeypatch.setattr("client.streams.world.geometry.PAIRS_PER_CHUNK", 7 * len(segments))
    np.testing.assert_array_equal(cast_rays(segments, origins, angles), whole)


def test_no_ray_slips_out_at_a_corner() -> None:
    corners = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]])
    origins = np.repeat(np.random.default_rng(0).uniform(0.5, 2.5, (500, 2)), 4, axis=0)
    toward = np.tile(corners, (500, 1)) - origins
    ranges = cast_rays(one_room().walls, origins, np.arctan2(toward[:, 1], toward[:, 0]))
    np.testing.assert_allclose(ranges, np.hypot(toward[:, 0], toward[:, 1]), rtol=1e-7)


def test_distances_equal_those_to_finely_spaced_points_of_the_surfaces() -> None:
    points = np.random.default_rng(0).uniform(-1.0, 5.0, (40, 2))
    segments = one_room().surfaces
    expected = [distance_by_hand(segments, point) for point in points]
    np.testing.assert_allclose(distance_to(segments, points), expected, rtol=0, atol=1e-3)
