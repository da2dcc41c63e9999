"""Buildings to test in, and what can be read off their plans."""

import numpy as np

from client.streams.world import FloorPlan
from service.inference.arrays import FloatArray, IndexArray

NOISE_M = 0.01
# Gaussian noise beyond six deviations: once in 500 million beams.
MOST_NOISE_M = 6 * NOISE_M


def one_room(furniture: tuple[float, float, float, float] = (3.0, 1.0, 3.5, 2.0)) -> FloorPlan:
    walls = np.array([[0, 0, 4, 0], [4, 0, 4, 4], [4, 4, 0, 4], [0, 4, 0, 0]], dtype=np.float64)
    nothing = np.empty((0, 2))
    return FloorPlan(
        width_m=4.0,
        height_m=4.0,
        walls=walls,
        rooms=np.array([[0.0, 0.0, 4.0, 4.0]]),
        is_corridor=np.zeros(1, dtype=bool),
        furniture=np.array([furniture]),
        doors=nothing,
        door_widths_m=np.empty(0),
        joined_rooms=nothing.astype(np.int32),
        wings=np.zeros(1, dtype=np.int32),
    )


def room_of(plan: FloorPlan, points: FloatArray) -> IndexArray:
    """The room of each point; points that noise put outside the building belong to the nearest room."""
    lower, upper = plan.rooms[:, None, :2], plan.rooms[:, None, 2:]
    outside = np.maximum(np.maximum(lower - points, points - upper), 0.0)
    return np.asarray(outside.sum(axis=2).argmin(axis=0), dtype=np.int32)
