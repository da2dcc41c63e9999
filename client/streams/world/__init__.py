"""A simulated building, explored by robots with laser scanners: the demo's data, every number from one seed.

The building is a grid of rooms, divided into one wing per robot. A robot drives through its own wing only; its beams
stop at walls and furniture, and see into another wing through open doors at most. A beam becomes labelled points:
free (0) along its way, occupied (1) where it ended. Lengths are in meters, angles in radians, boxes are
(x0, y0, x1, y1) with x0 < x1 and y0 < y1, segments are (x0, y0, x1, y1) in any direction.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from client.streams.world.floor_plan import FloorPlan, indoors, make_floor_plan
from client.streams.world.geometry import beside, cast_rays, distance_to
from client.streams.world.lidar import Scans, labelled_points, scan
from client.streams.world.paths import RobotPath, drive
from service.errors import SettingError
from service.inference.arrays import FloatArray, IndexArray

__all__ = [
    "FloorPlan",
    "RobotPath",
    "Scans",
    "SimulatedData",
    "cast_rays",
    "distance_to",
    "drive",
    "evaluation_points",
    "explore",
    "labelled_points",
    "make_floor_plan",
    "scan",
]

MAX_DRAWS = 1_000


@dataclass(frozen=True, eq=False)
class SimulatedData:
    """Labelled points of all robots, ordered by robot, then time; with the truth that they came from."""

    x: FloatArray  # (rows, 2)
    y: FloatArray  # (rows,) 1 occupied, 0 free
    robot: IndexArray  # (rows,)
    paths: tuple[RobotPath, ...]
    plan: FloorPlan


def explore(
    rng: np.random.Generator,
    robots: int = 4,
    rooms_across: int = 4,
    rooms_down: int = 4,
    room_m: float = 4.0,
    scans_per_robot: int = 35,
    beams: int = 180,
    max_range_m: float = 8.0,
    noise_m: float = 0.01,
    free_per_m: float = 1.0,
) -> SimulatedData:
    """Build a building and let each robot scan its own wing of it."""
    plan = make_floor_plan(rng, rooms_across, rooms_down, room_m, wings=robots)
    paths, points, labels = [], [], []
    for robot in range(robots):
        path = drive(plan, robot, rng, scans_per_robot)
        scans = scan(plan, path.positions, path.headings, rng, beams, max_range_m, noise_m)
        x, y = labelled_points(scans, rng, free_per_m)
        paths.append(path)
        points.append(x)
        labels.append(y)
    owner = np.repeat(np.arange(robots, dtype=np.int32), [len(y) for y in labels])
    return SimulatedData(np.vstack(points), np.concatenate(labels), owner, tuple(paths), plan)


def evaluation_points(
    plan: FloorPlan,
    rng: np.random.Generator,
    count: int,
    occupied_share: float = 0.5,
    occupied_m: float = 0.1,
    free_m: float = 0.2,
) -> tuple[FloatArray, FloatArray]:
    """Points x (count, 2) drawn evenly over the building, with their true labels y (count,), in random order.

    Occupied: up to `occupied_m` from a surface. Free: at least `free_m` from all. Never inside furniture.
    """
    if not 0.0 <= occupied_share <= 1.0:
        raise SettingError(f"occupied_share is {occupied_share}: it must be between 0 and 1")
    occupied = round(count * occupied_share)
    segments = plan.surfaces

    def near_surfaces(size: int) -> FloatArray:
        points = beside(segments, rng, size, occupied_m)
        return points[indoors(plan, points)]

    def in_free_space(size: int) -> FloatArray:
        points = rng.uniform((0.0, 0.0), (plan.width_m, plan.height_m), (size, 2))
        return points[indoors(plan, points) & (distance_to(segments, points) >= free_m)]

    x = np.vstack([_draw(occupied, near_surfaces), _draw(count - occupied, in_free_space)])
    y = np.concatenate([np.ones(occupied), np.zeros(count - occupied)])
    order = rng.permutation(count)
    return x[order], y[order]


def _draw(count: int, propose: Callable[[int], FloatArray]) -> FloatArray:
    """The first `count` of the points that proposals leave over."""
    kept = np.empty((0, 2))
    for _ in range(MAX_DRAWS):
        if len(kept) >= count:
            return kept[:count]
        kept = np.vstack([kept, propose(max(count, 100))])
    raise SettingError(f"the building has no room for {count} evaluation points so far from its surfaces")
