"""The robots' drives: each through all rooms of its own wing, clear of walls and furniture."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csgraph

from client.streams.world.doors import room_graph
from client.streams.world.floor_plan import FloorPlan
from client.streams.world.furniture import LANE_CLEARANCE_M
from client.streams.world.geometry import along, center_of, distance_to, front_of
from service.inference.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class RobotPath:
    """Where a robot stood and where it looked at each of its scans, in the order of time."""

    positions: FloatArray  # (scans, 2)
    headings: FloatArray  # (scans,)
    way_points: FloatArray  # (k, 2) it drove straight from one to the next


def drive(plan: FloorPlan, robot: int, rng: np.random.Generator, scans: int, stops_per_room: int = 2) -> RobotPath:
    """A drive through all rooms of the robot's wing, with detours inside each room; scans at even distances."""
    way_points = _way_points(plan, robot, rng, stops_per_room)
    legs = np.diff(way_points, axis=0, append=way_points[-1:])
    driven_m = np.concatenate([[0.0], np.cumsum(np.hypot(*legs[:-1].T))])
    at_m = np.linspace(0.0, driven_m[-1], scans)
    positions = np.stack([np.interp(at_m, driven_m, coordinate) for coordinate in way_points.T], axis=1)
    leg = legs[np.searchsorted(driven_m, at_m, side="right") - 1]
    return RobotPath(positions, np.arctan2(leg[:, 1], leg[:, 0]), way_points)


def _way_points(plan: FloorPlan, robot: int, rng: np.random.Generator, stops_per_room: int) -> FloatArray:
    """Centers of the wing's rooms in the order of a walk, straight through the doors between them, with detours."""
    walk = _walk(plan, robot)
    segments = plan.within_reach(plan.rooms[walk].reshape(-1, 2), LANE_CLEARANCE_M).surfaces
    door_of = {frozenset(pair): door for pair, door in zip(plan.joined_rooms.tolist(), plan.doors, strict=True)}
    visited: set[int] = set()
    way_points: list[FloatArray] = []
    for step, room in enumerate(walk):
        box = plan.rooms[room]
        if step:
            before, door = walk[step - 1], door_of[frozenset(walk[step - 1 : step + 1])]
            way_points += [front_of(plan.rooms[before], door), door, front_of(box, door)]
        way_points.append(center_of(box))
        if room not in visited and not plan.is_corridor[room]:
            for stop in _stops(box, segments, rng, stops_per_room):
                way_points += [stop, center_of(box)]
        visited.add(room)
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
    """Places in a room, far from each other, with straight lanes from its center; fewer than `count` in a full room."""
    places = rng.uniform(room[:2] + 2 * LANE_CLEARANCE_M, room[2:] - 2 * LANE_CLEARANCE_M, (8 * count, 2))
    clear = [p for p in places if distance_to(segments, along(center_of(room), p)).min() > LANE_CLEARANCE_M]
    stops: list[FloatArray] = []
    for _ in range(min(count, len(clear))):
        so_far = np.array([center_of(room), *stops])
        stops.append(max(clear, key=lambda place: np.hypot(*(so_far - place).T).min()))
    return stops
