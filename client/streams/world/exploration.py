"""Robots in a building: each scans its own wing of it."""

import math
from dataclasses import dataclass

import numpy as np

from client.streams.world.floor_plan import FloorPlan, make_floor_plan
from client.streams.world.lidar import Scans, labelled_points, scan
from client.streams.world.paths import RobotPath, drive
from service.errors import SettingError
from service.inference.arrays import FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class SimulatedData:
    """Labelled points of all robots, ordered by robot, then time; with the truth that they came from."""

    x: FloatArray  # (rows, 2)
    y: FloatArray  # (rows,) 1 occupied, 0 free
    robot: IndexArray  # (rows,)
    scan: IndexArray  # (rows,) which of its robot's scans, from 0
    paths: tuple[RobotPath, ...]
    plan: FloorPlan


def explore(
    rng: np.random.Generator,
    robots: int = 4,
    rooms_across: int | None = None,
    rooms_down: int | None = None,
    room_m: float = 4.0,
    corridor_m: float = 2.0,
    scans_per_robot: int = 35,
    beams: int = 180,
    max_range_m: float = 8.0,
    noise_m: float = 0.01,
    free_per_m: float = 1.0,
) -> SimulatedData:
    """Build a building and let each robot scan its own wing of it; without a number of rooms, about four a robot.

    The plan and every robot have random numbers of their own: those of one do not depend on how many another draws.
    """
    _check_scans(scans_per_robot, beams, max_range_m, noise_m, free_per_m)
    streams = np.random.default_rng(rng.integers(2**63, size=2))
    [plan_rng] = streams.spawn(1)
    plan = make_floor_plan(plan_rng, rooms_across, rooms_down, room_m, robots, corridor_m)
    paths: list[RobotPath] = []
    pieces: list[tuple[FloatArray, FloatArray]] = []
    for robot, robot_rng in enumerate(streams.spawn(robots)):
        path = drive(plan, robot, robot_rng, scans_per_robot)
        reachable = plan.within_reach(path.positions, max_range_m)  # what is beyond costs time and stops no beam
        scans = scan(reachable, path.positions, path.headings, robot_rng, beams, max_range_m, noise_m)
        paths.append(path)
        pieces += [labelled_points(one, robot_rng, free_per_m) for one in _one_by_one(scans)]
    rows = [len(y) for _, y in pieces]
    owner, number = np.divmod(np.repeat(np.arange(len(pieces), dtype=np.int32), rows), np.int32(scans_per_robot))
    x, y = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return SimulatedData(x, y, owner, number, tuple(paths), plan)


def _one_by_one(scans: Scans) -> list[Scans]:
    """Each scan by itself, so that its rows can be counted."""
    each = zip(scans.positions, scans.angles, scans.ranges, strict=True)
    return [Scans(position[None], angles[None], ranges[None], scans.max_range_m) for position, angles, ranges in each]


def _check_scans(scans_per_robot: int, beams: int, max_range_m: float, noise_m: float, free_per_m: float) -> None:
    """Refuse scans that would see nothing, or that no scanner could take."""
    if scans_per_robot < 1 or beams < 1:
        raise SettingError(f"{scans_per_robot} scans of {beams} beams see nothing: both must be at least 1")
    if not 0.0 < max_range_m < math.inf:
        raise SettingError(f"max_range_m is {max_range_m}: it must be a positive number of meters")
    if not 0.0 <= noise_m < math.inf:
        raise SettingError(f"noise_m is {noise_m}: it must be a number of meters, 0 for none")
    if not 0.0 < free_per_m < math.inf:
        raise SettingError(f"free_per_m is {free_per_m}: it must be a positive number of points a meter")
