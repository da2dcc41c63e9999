"""The building: a grid of rooms, divided into wings, with doors and furniture."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csgraph, csr_array

from client.streams.world.geometry import along, center_of, gaps, sides
from service.errors import SettingError
from service.inference.arrays import FloatArray, IndexArray

BoolArray = npt.NDArray[np.bool_]
# A robot is a disc of this radius with a little to spare: its lanes keep this far from furniture.
LANE_CLEARANCE_M = 0.35


@dataclass(frozen=True, eq=False)
class FloorPlan:
    """A building: thin walls around and between rooms, doors that join rooms, furniture, and the wing of each room."""

    width_m: float
    height_m: float
    walls: FloatArray  # (k, 4) segments
    rooms: FloatArray  # (rooms, 4) boxes, row by row from the lower left
    furniture: FloatArray  # (pieces, 4) boxes
    doors: FloatArray  # (doors, 2) their centers
    joined_rooms: IndexArray  # (doors, 2) the rooms on both sides of each door
    wings: IndexArray  # (rooms,) whose part of the building each room is

    @property
    def surfaces(self) -> FloatArray:
        """Everything that stops a beam, (k + 4 pieces, 4): the walls, then the sides of the furniture."""
        return np.vstack([self.walls, sides(self.furniture)])


def make_floor_plan(
    rng: np.random.Generator,
    rooms_across: int = 4,
    rooms_down: int = 4,
    room_m: float = 4.0,
    wings: int = 4,
    door_m: float = 1.0,
    extra_doors: float = 0.2,
    furniture_per_room: int = 2,
) -> FloorPlan:
    """A grid of square rooms in which every room can be reached from every other, and within its wing.

    The doors are a random spanning tree, and `extra_doors` of the walls that are left.
    """
    _check_plan(rooms_across, rooms_down, room_m, wings, door_m, extra_doors)
    row, column = np.divmod(np.arange(rooms_across * rooms_down), rooms_across)
    rooms = np.stack([column, row, column + 1, row + 1], axis=1) * float(room_m)
    room_wings = _deal_out(rooms_across, rooms_down, wings)
    pairs = _adjacent(rooms_across, rooms_down)
    has_door = _choose_doors(rng, pairs, room_wings) | (rng.random(len(pairs)) < extra_doors)
    # What two neighboring boxes share is the wall between them: a box without width.
    first, second = rooms[pairs[:, 0]], rooms[pairs[:, 1]]
    shared = np.hstack([np.maximum(first[:, :2], second[:, :2]), np.minimum(first[:, 2:], second[:, 2:])])
    doors, pieces = _cut_doors(rng, shared[has_door], room_m, door_m)
    width_m, height_m = rooms_across * float(room_m), rooms_down * float(room_m)
    outer = sides(np.array([[0.0, 0.0, width_m, height_m]]))
    furniture = _furnish(rng, rooms, doors, pairs[has_door], furniture_per_room)
    walls = np.vstack([outer, shared[~has_door], pieces])
    return FloorPlan(width_m, height_m, walls, rooms, furniture, doors, pairs[has_door], room_wings)


def indoors(plan: FloorPlan, points: FloatArray) -> BoolArray:
    """Which points are inside the building and not inside furniture."""
    within = ((points > 0.0) & (points < (plan.width_m, plan.height_m))).all(axis=1)
    lower, upper = plan.furniture[:, None, :2], plan.furniture[:, None, 2:]
    in_furniture = ((points > lower) & (points < upper)).all(axis=2).any(axis=0)
    return np.asarray(within & ~in_furniture)


def room_graph(pairs: IndexArray, cost: FloatArray, rooms: int) -> csr_array:
    """The graph of that many rooms with an edge per pair (pairs, 2), at its cost."""
    return csr_array((cost, (pairs[:, 0], pairs[:, 1])), shape=(rooms, rooms))


def _check_plan(
    rooms_across: int, rooms_down: int, room_m: float, wings: int, door_m: float, extra_doors: float
) -> None:
    """Refuse a building that could not be built, or that a robot could not drive through."""
    if rooms_across < 1 or rooms_down < 1:
        raise SettingError(f"a building of {rooms_across} x {rooms_down} rooms has none: both must be at least 1")
    if not 1 <= wings <= rooms_across * rooms_down:
        raise SettingError(f"{wings} robots cannot share {rooms_across * rooms_down} room(s): each needs at least one")
    if not 2.0 <= room_m < math.inf:
        raise SettingError(f"room_m is {room_m}: rooms must be at least 2 m wide")
    if not 0.8 <= door_m <= room_m / 2:
        raise SettingError(f"door_m is {door_m}: doors must be between 0.8 m and half a room ({room_m / 2} m) wide")
    if not 0.0 <= extra_doors <= 1.0:
        raise SettingError(f"extra_doors is {extra_doors}: it is a share, between 0 and 1")


def _deal_out(rooms_across: int, rooms_down: int, wings: int) -> IndexArray:
    """The wing of each room: about square, about equal parts, each in one piece (four wings are the quarters).

    The columns are cut into bands, and the rooms of a band, in the order in which one mows a lawn, into its wings.
    """
    grid = np.arange(rooms_across * rooms_down).reshape(rooms_down, rooms_across)
    for bands in range(math.isqrt(wings), 0, -1):
        columns = np.array_split(np.arange(rooms_across), bands)
        members = np.array_split(np.arange(wings, dtype=np.int32), bands)
        if all(len(c) * rooms_down >= len(m) for c, m in zip(columns, members, strict=True)):
            break
    room_wings = np.empty(grid.size, dtype=np.int32)
    for column, member in zip(columns, members, strict=True):
        band = grid[:, column].copy()
        band[1::2] = band[1::2, ::-1]
        for wing, rooms in zip(member, np.array_split(band.ravel(), len(member)), strict=True):
            room_wings[rooms] = wing
    return room_wings


def _adjacent(rooms_across: int, rooms_down: int) -> IndexArray:
    """Pairs of rooms that share a wall, (pairs, 2)."""
    grid = np.arange(rooms_across * rooms_down, dtype=np.int32).reshape(rooms_down, rooms_across)
    beside = np.stack([grid[:, :-1].ravel(), grid[:, 1:].ravel()], axis=1)
    above = np.stack([grid[:-1].ravel(), grid[1:].ravel()], axis=1)
    return np.vstack([beside, above])


def _choose_doors(rng: np.random.Generator, pairs: IndexArray, wings: IndexArray) -> BoolArray:
    """Which pairs get a door, so that the doors are a random spanning tree of the rooms and, inside, of each wing."""
    # Walls between wings cost more than any wall inside one: the cheapest tree leaves a wing only when it must.
    cost = 1.0 + rng.random(len(pairs)) + 2.0 * (wings[pairs[:, 0]] != wings[pairs[:, 1]])
    tree = csgraph.minimum_spanning_tree(room_graph(pairs, cost, len(wings)))
    return np.asarray(tree.toarray()[pairs[:, 0], pairs[:, 1]] > 0.0)


def _cut_doors(
    rng: np.random.Generator, walls: FloatArray, room_m: float, door_m: float
) -> tuple[FloatArray, FloatArray]:
    """Centers of one door per wall, (walls, 2), and the two pieces of each wall that are left, (2 walls, 4)."""
    start, end = walls[:, :2], walls[:, 2:]
    along = (end - start) / room_m
    # A hand's breadth of wall stays on both sides of the door.
    center = start + along * rng.uniform(0.6 * door_m, room_m - 0.6 * door_m, (len(walls), 1))
    jamb = along * (door_m / 2)
    return center, np.vstack([np.hstack([start, center - jamb]), np.hstack([center + jamb, end])])


def _furnish(
    rng: np.random.Generator, rooms: FloatArray, doors: FloatArray, joined_rooms: IndexArray, per_room: int
) -> FloatArray:
    """Boxes of random size that leave the lanes between the rooms' centers and their doors free, (pieces, 4)."""
    furniture = []
    for room, box in enumerate(rooms):
        own_doors = doors[(joined_rooms == room).any(axis=1)]
        lanes = np.vstack([center_of(box)[None], *(along(center_of(box), door) for door in own_doors)])
        # A point of a lane is a box without width.
        furniture.append(_place(rng, box, np.hstack([lanes, lanes]), per_room))
    return np.vstack(furniture)


def _place(rng: np.random.Generator, room: FloatArray, taken: FloatArray, pieces: int) -> FloatArray:
    """Up to `pieces` boxes in a room, clear of its walls, of what is taken (boxes) and of each other."""
    placed = np.empty((0, 4))
    for _ in range(8 * pieces):
        size = rng.uniform(0.1, 0.3, 2) * (room[2:] - room[:2])
        lower = rng.uniform(room[:2] + LANE_CLEARANCE_M, room[2:] - size - LANE_CLEARANCE_M)
        piece = np.concatenate([lower, lower + size])
        if (gaps(piece, np.vstack([taken, placed])) > LANE_CLEARANCE_M).all():
            placed = np.vstack([placed, piece])
        if len(placed) == pieces:
            break
    return placed
