"""The points to evaluate maps at."""

import numpy as np
import pytest

from client.streams.world import SimulatedData, distance_to, evaluation_points
from service.errors import SettingError
from tests.client.world.buildings import one_room, room_of


def test_evaluation_labels_are_true(data: SimulatedData) -> None:
    for share in (None, 0.5):
        x, y = evaluation_points(data.plan, np.random.default_rng(0), 3001, share)
        distance = distance_to(data.plan.surfaces, x)
        assert x.shape == (3001, 2)
        assert distance[y == 1].max() <= 0.1
        assert distance[y == 0].min() >= 0.2


def test_evaluation_points_and_labels_are_spread_as_the_buildings_area_is(data: SimulatedData) -> None:
    """Against every point of a fine grid that is as clearly occupied or free."""
    plan = data.plan
    middle = np.arange(0.05, plan.height_m, 0.1)
    grid = np.stack(np.meshgrid(middle[middle < plan.width_m], middle), axis=-1).reshape(-1, 2)
    lower, upper = plan.furniture[:, None, :2], plan.furniture[:, None, 2:]
    grid = grid[~((grid > lower) & (grid < upper)).all(axis=2).any(axis=0)]
    distance = distance_to(plan.surfaces, grid)
    share = [
        np.bincount(room_of(plan, grid[is_of_class]), minlength=24) / ((distance <= 0.1) | (distance >= 0.2)).sum()
        for is_of_class in (distance >= 0.2, distance <= 0.1)
    ]
    x, y = evaluation_points(plan, np.random.default_rng(0), 20_000)
    for label in (0, 1):
        drawn = np.bincount(room_of(plan, x[y == label]), minlength=24) / 20_000
        # Of 20,000 draws a share of 5 % has a deviation of 0.15 %.
        np.testing.assert_allclose(drawn, share[label], rtol=0, atol=0.008)
    assert y.mean() == pytest.approx(share[1].sum(), abs=0.015)


def test_evaluation_points_are_never_inside_furniture_or_outdoors() -> None:
    plan = one_room()
    x, _ = evaluation_points(plan, np.random.default_rng(0), 2000)
    assert ((x > 0.0) & (x < 4.0)).all()
    assert not ((x > plan.furniture[0, :2]) & (x < plan.furniture[0, 2:])).all(axis=1).any()


def test_the_share_of_occupied_evaluation_points_is_the_one_asked_for() -> None:
    for share in (0.0, 0.2, 1.0):
        x, y = evaluation_points(one_room(), np.random.default_rng(0), 1000, occupied_share=share)
        assert x.shape == (1000, 2)
        assert y.mean() == share


def test_evaluation_points_of_both_classes_come_in_random_order() -> None:
    _, y = evaluation_points(one_room(), np.random.default_rng(0), 1000, occupied_share=0.5)
    # Half of the neighbors differ, with a deviation of 16.
    assert 400 < np.count_nonzero(np.diff(y)) < 600


def test_a_building_without_free_space_says_so() -> None:
    with pytest.raises(SettingError, match="no room for"):
        evaluation_points(one_room(), np.random.default_rng(0), 10, occupied_share=0.5, free_m=3.0)


def test_impossible_evaluation_points_are_refused_in_words() -> None:
    with pytest.raises(SettingError, match="between 0 and 1"):
        evaluation_points(one_room(), np.random.default_rng(0), 10, occupied_share=1.5)
    with pytest.raises(SettingError, match="free_m not less"):
        evaluation_points(one_room(), np.random.default_rng(0), 10, occupied_m=0.3, free_m=0.2)
