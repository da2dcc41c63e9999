"""The robots' drives."""

import numpy as np

from client.streams.world import SimulatedData, distance_to, drive, make_floor_plan
from tests.client.world.buildings import room_of


def test_no_robot_stands_in_a_wall_or_furniture(data: SimulatedData) -> None:
    positions = np.vstack([path.positions for path in data.paths])
    assert distance_to(data.plan.surfaces, positions).min() > 0.25
    lower, upper = data.plan.furniture[:, None, :2], data.plan.furniture[:, None, 2:]
    assert not ((positions > lower) & (positions < upper)).all(axis=2).any()


def test_no_robot_drives_through_a_wall_or_furniture() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        plan = make_floor_plan(rng)
        for robot in range(4):
            fine = drive(plan, robot, rng, scans=1000).positions
            assert distance_to(plan.surfaces, fine).min() > 0.25
            assert (plan.wings[room_of(plan, fine)] == robot).all()


def test_a_robot_visits_every_room_of_its_wing(data: SimulatedData) -> None:
    for robot in range(4):
        fine = drive(data.plan, robot, np.random.default_rng(0), scans=1000).positions
        assert set(room_of(data.plan, fine)) == set(np.flatnonzero(data.plan.wings == robot))
