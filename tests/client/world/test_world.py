"""The explored building as a whole: the robots' data."""

from typing import Any

import numpy as np
import pytest
from scipy.spatial import KDTree

from client.streams.world import (
    SimulatedData,
    cast_rays,
    distance_to,
    drive,
    evaluation_points,
    explore,
    make_floor_plan,
    scan,
)
from service.errors import SettingError
from tests.client.world.buildings import MOST_NOISE_M, NOISE_M, room_of


def test_the_same_seed_gives_the_same_data(data: SimulatedData) -> None:
    again = explore(np.random.default_rng(7), noise_m=NOISE_M)
    for name in ("x", "y", "robot", "scan"):
        np.testing.assert_array_equal(getattr(data, name), getattr(again, name))
    np.testing.assert_array_equal(data.plan.surfaces, again.plan.surfaces)


def test_rows_are_ordered_by_robot_and_carry_labels_zero_and_one(data: SimulatedData) -> None:
    assert data.x.shape == (len(data.y), 2)
    assert (np.diff(data.robot) >= 0).all()
    assert set(np.unique(data.y)) == {0.0, 1.0}
    assert np.isfinite(data.x).all()


def test_every_robot_has_fifteen_to_twenty_five_thousand_points(data: SimulatedData) -> None:
    points = np.bincount(data.robot)
    assert len(points) == 4
    assert points.min() >= 15_000
    assert points.max() <= 25_000


def test_occupied_points_lie_within_noise_of_a_surface(data: SimulatedData) -> None:
    occupied = data.x[data.y == 1]
    assert distance_to(data.plan.surfaces, occupied).max() < MOST_NOISE_M


def test_no_free_point_is_outside_the_building_or_in_furniture(data: SimulatedData) -> None:
    free = data.x[data.y == 0]
    assert ((free > 0.0) & (free < (data.plan.width_m, data.plan.height_m))).all()
    lower, upper = data.plan.furniture[:, None, :2], data.plan.furniture[:, None, 2:]
    assert not ((free > lower) & (free < upper)).all(axis=2).any()


def test_every_robot_sees_mostly_its_own_part_and_all_of_it(data: SimulatedData) -> None:
    room = room_of(data.plan, data.x)
    for robot in range(4):
        seen = room[data.robot == robot]
        assert (data.plan.wings[seen] == robot).mean() > 0.85
        assert np.bincount(seen, minlength=24)[data.plan.wings == robot].min() > 500


def test_hardly_a_surface_is_seen_by_nobody(data: SimulatedData) -> None:
    x, _ = evaluation_points(data.plan, np.random.default_rng(0), 2000, occupied_share=1.0)
    to_hit_m, _ = KDTree(data.x[data.y == 1]).query(x)
    assert (to_hit_m < 0.3).mean() > 0.98


def test_every_row_names_the_scan_that_it_was_seen_in(data: SimulatedData) -> None:
    for robot, path in enumerate(data.paths):
        rows = np.flatnonzero(data.robot == robot)
        assert (np.diff(data.scan[rows]) >= 0).all()
        np.testing.assert_array_equal(np.unique(data.scan[rows]), np.arange(len(path.positions)))
        rows = rows[data.y[rows] == 0][::10]
        origin = path.positions[data.scan[rows]]
        ray = data.x[rows] - origin
        in_sight_m = cast_rays(data.plan.surfaces, origin, np.arctan2(ray[:, 1], ray[:, 0]))
        assert (np.hypot(*ray.T) < in_sight_m).all()


def test_the_building_and_the_ways_do_not_depend_on_how_much_robots_observe(data: SimulatedData) -> None:
    other = explore(np.random.default_rng(7), scans_per_robot=2, beams=10, free_per_m=0.5)
    np.testing.assert_array_equal(other.plan.surfaces, data.plan.surfaces)
    for path, same in zip(other.paths, data.paths, strict=True):
        np.testing.assert_array_equal(path.way_points, same.way_points)


def test_one_generator_gives_one_world_after_the_other() -> None:
    rng = np.random.default_rng(0)
    first, second = (explore(rng, robots=1, scans_per_robot=1, beams=10).plan for _ in range(2))
    assert not np.array_equal(first.doors, second.doors)


def test_what_is_out_of_reach_changes_no_range() -> None:
    plan = make_floor_plan(np.random.default_rng(0), wings=16)
    for robot in (0, 5):
        path = drive(plan, robot, np.random.default_rng(1), scans=20)
        near = plan.within_reach(path.positions, 8.0)
        assert len(near.walls) < 0.8 * len(plan.walls)
        assert len(near.furniture) < 0.8 * len(plan.furniture)
        whole, cut = (scan(p, path.positions, path.headings, np.random.default_rng(2)) for p in (plan, near))
        np.testing.assert_array_equal(cut.ranges, whole.ranges)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"robots": 0}, "0 robots"),
        ({"scans_per_robot": 0}, "0 scans of 180 beams see nothing"),
        ({"beams": 0}, "see nothing"),
        ({"max_range_m": 0.0}, "max_range_m is 0.0"),
        ({"noise_m": -0.1}, "noise_m is -0.1"),
        ({"free_per_m": 0.0}, "free_per_m is 0.0"),
    ],
)
def test_impossible_scans_are_refused_in_words(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        explore(np.random.default_rng(0), **settings)


@pytest.mark.parametrize("robots", [1, 3, 7, 16])
def test_any_number_of_robots_can_explore(robots: int) -> None:
    data = explore(np.random.default_rng(robots), robots=robots, scans_per_robot=3, beams=30)
    assert set(data.robot) == set(range(robots))
    assert len(data.paths) == robots
