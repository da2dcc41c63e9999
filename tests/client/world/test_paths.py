"""The robots' drives."""

import numpy as np

from client.streams.world import SimulatedData, distance_to, drive, make_floor_plan
from tests.client.world.buildings import one_room, room_of


def test_no_robot_stands_in_a_wall_or_furniture(data: SimulatedData) -> None:
    positions = np.vstack([path.positions for path in data.paths])
    assert distance_to(data.plan.surfaces, positions).min() > 0.34
    lower, upper = data.plan.furniture[:, None, :2], data.plan.furniture[:, None, 2:]
    assert not ((positions > lower) & (positions < upper)).all(axis=2).any()


def test_no_robot_drives_through_a_wall_or_furniture_or_out_of_its_wing() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        plan = make_floor_plan(rng)
        for robot in range(4):
            fine = drive(plan, robot, rng, scans=1000).positions
            # What lanes keep free, less the little that is lost between two of their points.
            assert distance_to(plan.surfaces, fine).min() > 0.34
            assert (plan.wings[room_of(plan, fine)] == robot).all()


def test_a_robot_goes_straight_through_doors_also_from_a_narrow_corridor() -> None:
    rng = np.random.default_rng(0)
    plan = make_floor_plan(rng, 2, 2, room_m=6.0, wings=1, corridor_m=1.2)
    fine = drive(plan, 0, rng, scans=2000).positions
    assert distance_to(plan.surfaces, fine).min() > 0.34


def test_a_robot_visits_every_room_of_its_wing_corridors_included(data: SimulatedData) -> None:
    for robot in range(4):
        fine = drive(data.plan, robot, np.random.default_rng(0), scans=1000).positions
        assert set(room_of(data.plan, fine)) == set(np.flatnonzero(data.plan.wings == robot))


def test_detours_lead_to_places_far_apart() -> None:
    plan = one_room()
    for seed in range(10):
        path = drive(plan, 0, np.random.default_rng(seed), scans=5)
        center, first, again, second, end = path.way_points
        assert (np.array([center, again, end]) == 2.0).all()
        # A room is 4 m wide, and 0.7 m along its walls are kept clear: corners are 1.8 m from its center.
        assert min(np.hypot(*(first - center)), np.hypot(*(second - center)), np.hypot(*(second - first))) > 1.0


def test_scans_are_at_even_distances_along_the_way_and_look_ahead() -> None:
    path = drive(one_room(), 0, np.random.default_rng(0), scans=200)
    steps = np.diff(path.positions, axis=0)
    driven_m = np.hypot(*np.diff(path.way_points, axis=0).T).sum()
    # A step around one of the three turns is shorter, as the crow flies.
    assert (np.isclose(np.hypot(*steps.T), driven_m / 199)).sum() >= 196
    ahead = np.stack([np.cos(path.headings), np.sin(path.headings)], axis=1)[:-1]
    assert (np.isclose((ahead * steps).sum(axis=1), driven_m / 199)).sum() >= 196
