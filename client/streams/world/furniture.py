"""Furniture: boxes along the walls of the rooms, out of everybody's way."""

import numpy as np

from client.streams.world.doors import Doors
from client.streams.world.geometry import along, center_of, front_of, gaps
from service.inference.arrays import FloatArray, IndexArray

# A robot is a disc of this radius with a little to spare: its lanes keep this far from furniture.
LANE_CLEARANCE_M = 0.35
# A narrower slot between furniture, or beside a wall, is one that no scanner looks into.
NARROWEST_SLOT_M = 0.8


def furnish(rng: np.random.Generator, rooms: FloatArray, doors: Doors, pieces_per_room: IndexArray) -> FloatArray:
    """Boxes of random size that leave doors, and the lanes between them and the rooms' centers, free, (pieces, 4)."""
    furniture = []
    for room, (box, pieces) in enumerate(zip(rooms, pieces_per_room.tolist(), strict=True)):
        own = (doors.joined_rooms == room).any(axis=1)
        centers, half_m = doors.centers[own], doors.widths_m[own, None] / 2
        lanes = np.vstack([center_of(box)[None], *(_lane(box, door) for door in centers)])
        # A point of a lane is a box without width; a door needs space to swing.
        taken = np.vstack([np.hstack([lanes, lanes]), np.hstack([centers - half_m, centers + half_m])])
        furniture.append(_place(rng, box, taken, pieces))
    return np.vstack(furniture)


def _lane(room: FloatArray, door: FloatArray) -> FloatArray:
    """Points of the way from a room's center to its door."""
    front = front_of(room, door)
    return np.vstack([along(center_of(room), front), along(front, door)])


def _place(rng: np.random.Generator, room: FloatArray, taken: FloatArray, pieces: int) -> FloatArray:
    """Up to `pieces` boxes along a room's walls, clear of what is taken (boxes) and of each other."""
    placed = np.empty((0, 4))
    for _ in range(8 * pieces):
        size = rng.uniform(0.1, 0.3, 2) * (room[2:] - room[:2])
        piece = _pushed(room, rng.uniform(room[:2], room[2:] - size), size)
        is_clear = (gaps(piece, taken) > LANE_CLEARANCE_M).all() and (gaps(piece, placed) > NARROWEST_SLOT_M).all()
        if is_clear:
            placed = np.vstack([placed, piece])
        if len(placed) == pieces:
            break
    return placed


def _pushed(room: FloatArray, lower: FloatArray, size: FloatArray) -> FloatArray:
    """The box pushed against the nearest wall, and into the corner where it would leave a narrow slot."""
    free = np.stack([lower - room[:2], room[2:] - size - lower])  # (2, 2): below and above, by axis
    is_pushed = (free < NARROWEST_SLOT_M) | (free == free.min())
    lower = np.where(is_pushed[1], room[2:] - size, lower)
    lower = np.where(is_pushed[0], room[:2], lower)
    return np.concatenate([lower, lower + size])
