"""The building's plan: size, wings, corridors, doors, furniture."""

import numpy as np
import pytest
from scipy.sparse import csgraph, csr_array

from client.streams.world import SimulatedData, cast_rays, distance_to, make_floor_plan
from client.streams.world.geometry import sides
from service.errors import SettingError
from service.inference.arrays import IndexArray
from tests.client.world.buildings import room_of


def parts(pairs: IndexArray, rooms: int) -> int:
    """In how many parts doors leave that many rooms."""
    graph = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(rooms, rooms))
    return int(csgraph.connected_components(graph, directed=False)[0])


def test_another_seed_gives_another_building(data: SimulatedData) -> None:
    assert not np.array_equal(make_floor_plan(np.random.default_rng(8)).doors, data.plan.doors)


def test_four_wings_are_the_quarters_of_the_building() -> None:
    plan = make_floor_plan(np.random.default_rng(0))
    np.testing.assert_array_equal(plan.wings.reshape(6, 4), 3 * [[0, 0, 2, 2]] + 3 * [[1, 1, 3, 3]])


def test_rows_of_rooms_lie_on_both_sides_of_each_corridor() -> None:
    plan = make_floor_plan(np.random.default_rng(0), 3, 5, room_m=3.0, corridor_m=1.5, wings=1)
    assert plan.is_corridor[::3].tolist() == [False, True, False, False, True, False, False, True]
    assert plan.rooms[::3, 3].tolist() == [3.0, 4.5, 7.5, 10.5, 12.0, 15.0, 18.0, 19.5]
    assert (plan.width_m, plan.height_m) == (9.0, 19.5)


def test_a_piece_of_corridor_belongs_to_the_wing_of_the_room_below_it() -> None:
    plan = make_floor_plan(np.random.default_rng(0), 2, 3, wings=6)
    assert plan.wings.reshape(5, 2)[[1, 4]].tolist() == plan.wings.reshape(5, 2)[[0, 3]].tolist()
    assert len(set(plan.wings)) == 6


@pytest.mark.parametrize("wings", range(1, 31))
def test_a_building_grows_with_its_wings_and_stays_about_square(wings: int) -> None:
    plan = make_floor_plan(np.random.default_rng(0), wings=wings)
    rooms = np.bincount(plan.wings[~plan.is_corridor], minlength=wings)
    assert rooms.min() >= 3
    assert rooms.max() <= 6
    assert 1 / 1.7 < plan.width_m / plan.height_m < 1.7


def test_where_one_side_of_a_building_is_given_the_other_follows() -> None:
    assert make_floor_plan(np.random.default_rng(0), rooms_across=2, wings=3).height_m == 6 * 4.0 + 3 * 2.0
    assert make_floor_plan(np.random.default_rng(0), rooms_down=2, wings=3).width_m == 6 * 4.0


@pytest.mark.parametrize(("across", "down"), [(4, 4), (3, 5), (1, 6), (6, 1)])
def test_all_rooms_are_reachable_and_so_are_those_of_each_wing_within_it(across: int, down: int) -> None:
    for wings in range(1, across * down + 1):
        plan = make_floor_plan(np.random.default_rng(wings), across, down, wings=wings, extra_doors=0.0)
        assert parts(plan.joined_rooms, len(plan.rooms)) == 1
        for wing in range(wings):
            rooms = np.flatnonzero(plan.wings == wing)
            inside = plan.joined_rooms[np.isin(plan.joined_rooms, rooms).all(axis=1)]
            assert not plan.is_corridor[rooms].all()
            assert parts(np.searchsorted(rooms, inside).astype(np.int32), len(rooms)) == 1


def test_every_room_has_one_door_onto_a_corridor() -> None:
    plan = make_floor_plan(np.random.default_rng(1), 4, 5)
    onto_corridor = plan.joined_rooms[plan.is_corridor[plan.joined_rooms].sum(axis=1) == 1]
    rooms = onto_corridor[~plan.is_corridor[onto_corridor]]
    assert sorted(rooms.tolist()) == np.flatnonzero(~plan.is_corridor).tolist()


def test_corridors_are_open_from_end_to_end_over_their_full_width() -> None:
    plan = make_floor_plan(np.random.default_rng(3), corridor_m=1.8)
    bottoms = np.unique(plan.rooms[plan.is_corridor, 1])
    assert bottoms.tolist() == [4.0, 13.8]
    heights = (bottoms[:, None] + np.linspace(0.01, 1.79, 30)).ravel()
    origins = np.column_stack([np.full(len(heights), 0.5), heights])
    np.testing.assert_allclose(cast_rays(plan.surfaces, origins, np.zeros(len(heights))), 15.5)


def test_without_extra_doors_rooms_have_no_more_than_their_wings_need() -> None:
    plan = make_floor_plan(np.random.default_rng(0), extra_doors=0.0)
    between_rooms = plan.joined_rooms[~plan.is_corridor[plan.joined_rooms].any(axis=1)]
    # Corridors join all but the lower half of the building to the upper one.
    assert len(between_rooms) == 1


def test_every_door_is_a_gap_of_its_width() -> None:
    plan = make_floor_plan(np.random.default_rng(2), door_m=1.2, corridor_m=1.8)
    assert set(plan.door_widths_m.round(9)) == {1.2, 1.8}
    np.testing.assert_allclose(distance_to(plan.walls, plan.doors), plan.door_widths_m / 2)


def test_furniture_stands_along_the_walls_of_rooms_and_leaves_no_narrow_slots() -> None:
    plan = make_floor_plan(np.random.default_rng(4), furniture_per_room=3)
    room = room_of(plan, (plan.furniture[:, :2] + plan.furniture[:, 2:]) / 2)
    assert set(room) == set(np.flatnonzero(~plan.is_corridor))
    to_walls = np.hstack([plan.furniture[:, :2] - plan.rooms[room, :2], plan.rooms[room, 2:] - plan.furniture[:, 2:]])
    touches = np.abs(to_walls) < 1e-9
    assert touches.any(axis=1).all()
    assert (touches | (to_walls >= 0.8 - 1e-9)).all()
    first, second = plan.furniture[:, None], plan.furniture[None]
    apart = np.maximum(first[..., :2] - second[..., 2:], second[..., :2] - first[..., 2:]).max(axis=2)
    same_room = (room[:, None] == room) & ~np.eye(len(room), dtype=bool)
    assert same_room.any()
    assert apart[same_room].min() > 0.5


def test_furniture_blocks_no_door() -> None:
    for seed in range(5):
        plan = make_floor_plan(np.random.default_rng(seed), furniture_per_room=4)
        doors = plan.doors[~plan.is_corridor[plan.joined_rooms].all(axis=1)]
        # Half a door is 0.5 m, and a hand's breadth of wall is beside it.
        assert distance_to(sides(plan.furniture), doors).min() > 0.59


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rooms_across": 0}, "both must be at least 1"),
        ({"rooms_across": 4, "rooms_down": 4, "wings": 17}, "17 robots cannot share 16"),
        ({"wings": 0}, "0 robots explore nothing"),
        ({"wings": -1}, "at least 1"),
        ({"room_m": 0.0}, "at least 2 m"),
        ({"corridor_m": 1.0}, "at least 1.2 m"),
        ({"door_m": 3.0}, "half a room"),
        ({"extra_doors": 1.5}, "between 0 and 1"),
        ({"furniture_per_room": -1}, "0 or more"),
    ],
)
def test_an_impossible_building_is_refused_in_words(settings: dict[str, int], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make_floor_plan(np.random.default_rng(0), **settings)
