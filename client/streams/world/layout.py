"""The building's grid: rows of rooms with a corridor between every two of them, divided into wings."""

import math
from dataclasses import dataclass

import numpy as np

from client.streams.world.geometry import BoolArray
from service.inference.arrays import FloatArray, IndexArray

ROOMS_PER_WING = 4


@dataclass(frozen=True, eq=False)
class Layout:
    """Rooms, row by row from the lower left; the pieces of a corridor are rooms too, as wide as those beside them."""

    rooms: FloatArray  # (rooms, 4) boxes
    is_corridor: BoolArray  # (rooms,)
    wings: IndexArray  # (rooms,)
    pairs: IndexArray  # (pairs, 2) rooms with a side in common


def lay_out(rooms_across: int, rooms_down: int, room_m: float, corridor_m: float, wings: int) -> Layout:
    """Rows of square rooms, the first and the second beside one corridor, the third and the fourth beside the next.

    A piece of corridor belongs to the wing of the room below it, so that a wing is in one piece wherever its rooms are.
    """
    row_of_rooms, is_corridor_row = _rows(rooms_down)
    top = np.cumsum(np.where(is_corridor_row, corridor_m, room_m))
    bottom = np.concatenate([[0.0], top[:-1]])
    row, column = np.divmod(np.arange(len(top) * rooms_across), rooms_across)
    rooms = np.stack([column * room_m, bottom[row], (column + 1) * room_m, top[row]], axis=1)
    room_wings = _deal_out(rooms_across, rooms_down, wings)
    return Layout(rooms, is_corridor_row[row], room_wings[row_of_rooms].ravel(), _adjacent(rooms_across, len(top)))


def choose_size(
    rooms_across: int | None, rooms_down: int | None, room_m: float, corridor_m: float, wings: int
) -> tuple[int, int]:
    """Rooms across and down: as told, and where nothing is, four rooms a wing in a building that is about square."""
    wanted = ROOMS_PER_WING * max(1, wings)
    if rooms_across is not None and rooms_down is not None:
        return rooms_across, rooms_down
    if rooms_across is not None:
        return rooms_across, math.ceil(wanted / max(1, rooms_across))
    if rooms_down is not None:
        return math.ceil(wanted / max(1, rooms_down)), rooms_down
    # Even, so that every corridor has rooms on both sides.
    choices = [(math.ceil(wanted / down), down) for down in range(2, 2 * math.isqrt(wanted) + 1, 2)]
    height_of_two = 2 * room_m + corridor_m
    return min(choices, key=lambda size: abs(math.log(size[0] * room_m / (size[1] / 2 * height_of_two))))


def _rows(rooms_down: int) -> tuple[IndexArray, BoolArray]:
    """For each row of the grid, the row of rooms that it is or lies above, and whether it is a corridor."""
    corridors = np.arange(0, rooms_down, 2)
    of_rooms = np.sort(np.concatenate([np.arange(rooms_down), corridors]), kind="stable").astype(np.int32)
    return of_rooms, np.concatenate([[False], np.diff(of_rooms) == 0])


def _deal_out(rooms_across: int, rooms_down: int, wings: int) -> IndexArray:
    """The wing of each room, (down, across): about square, about equal parts, each in one piece (four are quarters).

    The columns are cut into bands, and the rooms of a band, in the order in which one mows a lawn, into its wings.
    """
    grid = np.arange(rooms_across * rooms_down).reshape(rooms_down, rooms_across)
    bands = min(
        range(1, min(wings, rooms_across) + 1), key=lambda count: _unevenness(rooms_across, rooms_down, wings, count)
    )
    room_wings = np.empty(grid.size, dtype=np.int32)
    for columns, members in zip(*_bands(rooms_across, wings, bands), strict=True):
        band = grid[:, columns].copy()
        band[1::2] = band[1::2, ::-1]
        for wing, rooms in zip(members, np.array_split(band.ravel(), len(members)), strict=True):
            room_wings[rooms] = wing
    return room_wings.reshape(grid.shape)


def _bands(rooms_across: int, wings: int, count: int) -> tuple[list[IndexArray], list[IndexArray]]:
    """The columns, and the wings, of each of so many bands."""
    columns, members = np.arange(rooms_across, dtype=np.int32), np.arange(wings, dtype=np.int32)
    return np.array_split(columns, count), np.array_split(members, count)


def _unevenness(rooms_across: int, rooms_down: int, wings: int, bands: int) -> float:
    """How far wings in so many bands are from square and equal, 0 at best; infinite where one would have no room."""
    columns, members = _bands(rooms_across, wings, bands)
    rooms = [len(c) * rooms_down / len(m) for c, m in zip(columns, members, strict=True)]
    if min(rooms) < 1:
        return math.inf
    width, height = rooms_across / bands, rooms_down * bands / wings
    return abs(math.log(width / height)) + math.log(max(rooms) / min(rooms))


def _adjacent(columns: int, rows: int) -> IndexArray:
    """Pairs of rooms that have a side in common, (pairs, 2)."""
    grid = np.arange(columns * rows, dtype=np.int32).reshape(rows, columns)
    beside = np.stack([grid[:, :-1].ravel(), grid[:, 1:].ravel()], axis=1)
    above = np.stack([grid[:-1].ravel(), grid[1:].ravel()], axis=1)
    return np.vstack([beside, above])
