"""Points with true labels, to evaluate maps at."""

from collections.abc import Callable

import numpy as np

from client.streams.world.floor_plan import FloorPlan, indoors
from client.streams.world.geometry import distance_to
from service.errors import SettingError
from service.inference.arrays import FloatArray

MAX_DRAWS = 1_000


def evaluation_points(
    plan: FloorPlan,
    rng: np.random.Generator,
    count: int,
    occupied_share: float | None = None,
    occupied_m: float = 0.1,
    free_m: float = 0.2,
) -> tuple[FloatArray, FloatArray]:
    """Points x (count, 2) drawn evenly over the building's area, with their true labels y (count,), in random order.

    Occupied: up to `occupied_m` from a surface. Free: at least `free_m` from all. What is neither, or inside furniture,
    is drawn again. With an `occupied_share`, both classes are drawn evenly over the area that they have.
    """
    if not 0.0 < occupied_m <= free_m:
        raise SettingError(f"occupied_m is {occupied_m} and free_m {free_m}: they must be above 0, and free_m not less")
    if occupied_share is not None and not 0.0 <= occupied_share <= 1.0:
        raise SettingError(f"occupied_share is {occupied_share}: it must be between 0 and 1")
    segments = plan.surfaces

    def propose() -> FloatArray:
        """Points and their labels, (rows, 3)."""
        points = rng.uniform((0.0, 0.0), (plan.width_m, plan.height_m), (max(count, 100), 2))
        points = points[indoors(plan, points)]
        distance = distance_to(segments, points)
        is_occupied = distance <= occupied_m
        return np.column_stack([points, is_occupied])[is_occupied | (distance >= free_m)]

    if occupied_share is None:
        drawn = _draw(count, propose)
    else:
        occupied = round(count * occupied_share)
        classes = [_draw(rows, propose, label) for rows, label in ((occupied, 1.0), (count - occupied, 0.0))]
        drawn = rng.permutation(np.vstack(classes))
    return drawn[:, :2], drawn[:, 2]


def _draw(count: int, propose: Callable[[], FloatArray], label: float | None = None) -> FloatArray:
    """The first `count` of the rows that proposals give, of one label if one is asked for."""
    kept = np.empty((0, 3))
    for _ in range(MAX_DRAWS):
        if len(kept) >= count:
            return kept[:count]
        rows = propose()
        kept = np.vstack([kept, rows if label is None else rows[rows[:, 2] == label]])
    raise SettingError(f"the building has no room for {count} evaluation points so far from its surfaces")
