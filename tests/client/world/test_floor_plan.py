"""The building's plan: wings, doors, furniture."""

import numpy as np
import pytest
from scipy.sparse import csgraph, csr_array

from client.streams.world import SimulatedData, distance_to, make_floor_plan
from service.errors import SettingError
from service.inference.arrays import IndexArray


def parts(pairs: IndexArray, rooms: int) -> int:
    """In how many parts doors leave that many rooms."""
    graph = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(rooms, rooms))
    return int(csgraph.connected_components(graph, directed=False)[0])


def test_another_seed_gives_another_building(data: SimulatedData) -> None:
    assert not np.array_equal(make_floor_plan(np.random.default_rng(8)).doors, data.plan.doors)


def test_four_wings_are_the_quarters_of_the_building() -> None:
    plan = make_floor_plan(np.random.default_rng(0))
    np.testing.assert_array_equal(plan.wings.reshape(4, 4), [[0, 0, 2, 2], [0, 0, 2, 2], [1, 1, 3, 3], [1, 1, 3, 3]])


@pytest.mark.parametrize(("across", "down"), [(4, 4), (3, 5), (1, 6), (6, 1)])
def test_all_rooms_are_reachable_and_so_are_those_of_each_wing_within_it(across: int, down: int) -> None:
    for wings in range(1, across * down + 1):
        plan = make_floor_plan(np.random.default_rng(wings), across, down, wings=wings, extra_doors=0.0)
        assert parts(plan.joined_rooms, len(plan.rooms)) == 1
        for wing in range(wings):
            rooms = np.flatnonzero(plan.wings == wing)
            inside = plan.joined_rooms[np.isin(plan.joined_rooms, rooms).all(axis=1)]
            assert len(rooms) > 0
            assert parts(np.searchsorted(rooms, inside).astype(np.int32), len(rooms)) == 1


def test_every_door_is_a_gap_of_its_width() -> None:
    plan = make_floor_plan(np.random.default_rng(2), door_m=1.2)
    np.testing.assert_allclose(distance_to(plan.walls, plan.doors), 0.6)


def test_furniture_stands_inside_rooms_and_apart() -> None:
    plan = make_floor_plan(np.random.default_rng(4), furniture_per_room=3)
    assert len(plan.furniture) >= len(plan.rooms)
    corners = plan.furniture.reshape(-1, 2)
    assert distance_to(plan.walls, corners).min() >= 0.35 - 1e-9
    first, second = plan.furniture[:, None], plan.furniture[None]
    overlap = ((first[..., :2] < second[..., 2:]) & (second[..., :2] < first[..., 2:])).all(axis=2)
    np.testing.assert_array_equal(overlap, np.eye(len(plan.furniture), dtype=bool))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rooms_across": 0}, "at least 1"),
        ({"wings": 17}, "17 robots cannot share 16"),
        ({"wings": 0}, "0 robots"),
        ({"room_m": 1.0}, "at least 2 m"),
        ({"door_m": 3.0}, "half a room"),
        ({"extra_doors": 1.5}, "between 0 and 1"),
    ],
)
def test_an_impossible_building_is_refused_in_words(settings: dict[str, int], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make_floor_plan(np.random.default_rng(0), **settings)
