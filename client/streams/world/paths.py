"""The robots' drives: each through all rooms of its own wing, clear of walls and furniture."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csgraph

from client.streams.world.floor_plan import LANE_CLEARANCE_M, FloorPlan, room_graph
from client.streams.world.geometry import along, center_of, distance_to
from service.inference.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class RobotPath:
    """Where a robot stood and where it looked at each of its scans, in the order of time."""

    positions: FloatArray  # (scans, 2)
    headings: FloatArray  # (scans,)


def drive(plan: FloorPlan, robot: int, rng: np.random.Generator, scans: int, stops_per_room: int = 2) -> RobotPath:
    """A drive through all rooms of the robot's wing, with detours inside each room; scans at even distances."""
    way_points = _way_points(plan, robot, rng, stops_per_room)
    legs = np.diff(way_points, axis=0, append=way_points[-1:])
    driven_m = np.concatenate([[0.0], np.cumsum(np.hypot(*legs[:-1].T))])
    at_m = np.linspace(0.0, driven_m[-1], scans)
    positions = np.stack([np.interp(at_m, driven_m, coordinate) for coordinate in way_points.T], axis=1)
    leg = legs[np.searchsorted(driven_m, at_m, side="right") - 1]
    return RobotPath(positions, np.arctan2(leg[:, 1], leg[:, 0]))


def _way_points(plan: FloorPlan, robot: int, rng: np.random.Generator, stops_per_room: int) -> FloatArray:
    """Centers of the wing's rooms in the order of a walk through its doors, doors between, detours at a first visit."""
    segments = plan.surfaces
    walk = _walk(plan, robot)
    visited: set[int] = set()
    way_points: list[FloatArray] = []
    for step, room in enumerate(walk):
        if step:
            pair = {walk[step - 1], room}
            door = next(d for d, joined in enumerate(plan.joined_rooms.tolist()) if set(joined) == pair)
            way_points.append(plan.doors[door])
        center = center_of(plan.rooms[room])
        way_points.append(center)
        if room not in visited:
            visited.add(room)
            for stop in _stops(plan.rooms[room], segments, rng, stops_per_room):
                way_points += [stop, center]
    return np.array(way_points)


def _walk(plan: FloorPlan, robot: int) -> list[int]:
    """Rooms in the order of a depth-first walk through the doors inside the robot's wing, from its first room."""
    inside = (plan.wings[plan.joined_rooms] == robot).all(axis=1)
    graph = room_graph(plan.joined_rooms[inside], np.ones(int(inside.sum())), len(plan.rooms))
    start = int(np.flatnonzero(plan.wings == robot)[0])
    order, came_from = csgraph.depth_first_order(graph, start, directed=False)
    walk = [start]
    for room in order[1:]:
        # Back out of a dead end, as far as the door to the next room.
        while walk[-1] != came_from[room]:
            walk.append(int(came_from[walk[-1]]))
        walk.append(int(room))
    return walk


def _stops(room: FloatArray, segments: FloatArray, rng: np.random.Generator, count: int) -> list[FloatArray]:
    """Random places in a room to which a straight lane leads from its center; fewer than `count` in a full room."""
    places = rng.uniform(room[:2] + 2 * LANE_CLEARANCE_M, room[2:] - 2 * LANE_CLEARANCE_M, (8 * count, 2))
    clear = [p for p in places if distance_to(segments, along(center_of(room), p)).min() > LANE_CLEARANCE_M]
    return clear[:count]
