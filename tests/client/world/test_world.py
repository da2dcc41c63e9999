"""The explored building as a whole: the robots' data, and the points to evaluate maps at."""

import numpy as np
import pytest

from client.streams.world import SimulatedData, distance_to, evaluation_points, explore
from service.errors import SettingError
from tests.client.world.buildings import MOST_NOISE_M, NOISE_M, one_room, room_of


def test_the_same_seed_gives_the_same_data(data: SimulatedData) -> None:
    again = explore(np.random.default_rng(7), noise_m=NOISE_M)
    for name in ("x", "y", "robot"):
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
        assert (data.plan.wings[seen] == robot).mean() > 0.8
        assert np.bincount(seen, minlength=16)[data.plan.wings == robot].min() > 500


def test_evaluation_labels_are_true_and_balanced(data: SimulatedData) -> None:
    x, y = evaluation_points(data.plan, np.random.default_rng(0), 3001)
    distance = distance_to(data.plan.surfaces, x)
    assert x.shape == (3001, 2)
    assert abs(y.sum() - 1500.5) <= 1
    assert distance[y == 1].max() <= 0.1 + 1e-9
    assert distance[y == 0].min() >= 0.2
    assert np.bincount(room_of(data.plan, x), minlength=16).min() > 100


def test_evaluation_points_are_never_inside_furniture_or_outdoors() -> None:
    plan = one_room()
    x, _ = evaluation_points(plan, np.random.default_rng(0), 2000)
    assert ((x > 0.0) & (x < 4.0)).all()
    assert not ((x > plan.furniture[0, :2]) & (x < plan.furniture[0, 2:])).all(axis=1).any()


def test_the_share_of_occupied_evaluation_points_is_the_one_asked_for() -> None:
    for share in (0.0, 0.2, 1.0):
        _, y = evaluation_points(one_room(), np.random.default_rng(0), 1000, occupied_share=share)
        assert y.mean() == share


def test_a_building_without_free_space_says_so() -> None:
    with pytest.raises(SettingError, match="no room for"):
        evaluation_points(one_room(), np.random.default_rng(0), 10, free_m=3.0)


@pytest.mark.parametrize("robots", [1, 3, 7, 16])
def test_any_number_of_robots_up_to_one_per_room_can_explore(robots: int) -> None:
    data = explore(np.random.default_rng(robots), robots=robots, scans_per_robot=3, beams=30)
    assert set(data.robot) == set(range(robots))
