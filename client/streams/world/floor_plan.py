"""The building: rows of rooms along corridors, divided into wings, with doors and furniture."""

import math
from dataclasses import dataclass, replace

import numpy as np

from client.streams.world.doors import build_inner_walls
from client.streams.world.furniture import furnish
from client.streams.world.geometry import BoolArray, gaps, inside_any, sides
from client.streams.world.layout import choose_size, lay_out
from service.errors import SettingError
from service.inference.arrays import FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class FloorPlan:
    """A building: thin walls around and between rooms, doors that join rooms, furniture, and the wing of each room.

    A corridor is a row of rooms without walls between them: the doors between its pieces are as wide as it is.
    """

    width_m: float
    height_m: float
    walls: FloatArray  # (k, 4) segments
    rooms: FloatArray  # (rooms, 4) boxes, row by row from the lower left
    is_corridor: BoolArray  # (rooms,) which of them are pieces of corridors
    furniture: FloatArray  # (pieces, 4) boxes
    doors: FloatArray  # (doors, 2) their centers
    door_widths_m: FloatArray  # (doors,)
    joined_rooms: IndexArray  # (doors, 2) the rooms on both sides of each door
    wings: IndexArray  # (rooms,) whose part of the building each room is

    @property
    def surfaces(self) -> FloatArray:
        """Everything that stops a beam, (k + 4 pieces, 4): the walls, then the sides of the furniture."""
        return np.vstack([self.walls, sides(self.furniture)])

    def within_reach(self, positions: FloatArray, reach_m: float) -> "FloorPlan":
        """The same building without the walls and furniture that are out of reach from all positions (rows, 2)."""
        around = np.concatenate([positions.min(axis=0), positions.max(axis=0)])
        ends = self.walls.reshape(-1, 2, 2)
        walls = np.hstack([ends.min(axis=1), ends.max(axis=1)])
        return replace(
            self,
            walls=self.walls[gaps(around, walls) <= reach_m],
            furniture=self.furniture[gaps(around, self.furniture) <= reach_m],
        )


def make_floor_plan(
    rng: np.random.Generator,
    rooms_across: int | None = None,
    rooms_down: int | None = None,
    room_m: float = 4.0,
    wings: int = 4,
    corridor_m: float = 2.0,
    door_m: float = 1.0,
    extra_doors: float = 0.2,
    furniture_per_room: int = 2,
) -> FloorPlan:
    """Square rooms along corridors; every room can be reached from every other, and within its wing.

    Every room has a door onto its corridor. Doors between rooms are those that a random spanning tree needs, and
    `extra_doors` of the walls that are left. Where no number of rooms is given there are about four a wing.
    """
    _check_sizes(room_m, corridor_m, door_m, extra_doors, furniture_per_room)
    rooms_across, rooms_down = choose_size(rooms_across, rooms_down, room_m, corridor_m, wings)
    _check_rooms(rooms_across, rooms_down, wings)
    layout = lay_out(rooms_across, rooms_down, float(room_m), float(corridor_m), wings)
    doors, inner_walls = build_inner_walls(rng, layout, door_m, extra_doors)
    furniture = furnish(rng, layout.rooms, doors, np.where(layout.is_corridor, 0, furniture_per_room))
    width_m, height_m = layout.rooms[-1, 2:].tolist()
    outer_walls = sides(np.array([[0.0, 0.0, width_m, height_m]]))
    return FloorPlan(
        width_m=width_m,
        height_m=height_m,
        walls=np.vstack([outer_walls, inner_walls]),
        rooms=layout.rooms,
        is_corridor=layout.is_corridor,
        furniture=furniture,
        doors=doors.centers,
        door_widths_m=doors.widths_m,
        joined_rooms=doors.joined_rooms,
        wings=layout.wings,
    )


def indoors(plan: FloorPlan, points: FloatArray) -> BoolArray:
    """Which points are inside the building and not inside furniture."""
    within = ((points > 0.0) & (points < (plan.width_m, plan.height_m))).all(axis=1)
    return within & ~inside_any(plan.furniture, points)


def _check_sizes(room_m: float, corridor_m: float, door_m: float, extra_doors: float, furniture_per_room: int) -> None:
    """Refuse rooms that could not be built, or that a robot could not drive through."""
    if not 2.0 <= room_m < math.inf:
        raise SettingError(f"room_m is {room_m}: rooms must be at least 2 m wide")
    if not 1.2 <= corridor_m < math.inf:
        raise SettingError(f"corridor_m is {corridor_m}: corridors must be at least 1.2 m wide")
    if not 0.8 <= door_m <= room_m / 2:
        raise SettingError(f"door_m is {door_m}: doors must be between 0.8 m and half a room ({room_m / 2} m) wide")
    if not 0.0 <= extra_doors <= 1.0:
        raise SettingError(f"extra_doors is {extra_doors}: it is a share, between 0 and 1")
    if furniture_per_room < 0:
        raise SettingError(f"furniture_per_room is {furniture_per_room}: it must be 0 or more pieces")


def _check_rooms(rooms_across: int, rooms_down: int, wings: int) -> None:
    """Refuse a building that its robots cannot share."""
    if wings < 1:
        raise SettingError(f"{wings} robots explore nothing: there must be at least 1")
    if rooms_across < 1 or rooms_down < 1:
        raise SettingError(f"a building of {rooms_across} x {rooms_down} rooms has none: both must be at least 1")
    if wings > rooms_across * rooms_down:
        raise SettingError(f"{wings} robots cannot share {rooms_across * rooms_down} room(s): each needs at least one")
