"""Geometry in the plane: rays, distances and points along them.

Lengths are in meters, angles in radians, boxes are (x0, y0, x1, y1) with x0 < x1 and y0 < y1, segments are
(x0, y0, x1, y1) in any direction.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from service.inference.arrays import FloatArray

BoolArray = npt.NDArray[np.bool_]
# Pairs of ray (or point) and segment that are held at once: temporary arrays that stay in the processor's cache are
# several times faster than larger ones.
PAIRS_PER_CHUNK = 50_000
# From so far before a door one drives straight through, well clear of its jambs.
STEP_M = 0.5


def cast_rays(segments: FloatArray, origins: FloatArray, angles: FloatArray) -> FloatArray:
    """Exact distance from each origin (rays, 2) along its angle (rays,) to the nearest segment, or infinity.

    Ray p + t d meets segment a + u e where t = (a - p) x e / (d x e) and u = (a - p) x d / (d x e), if t >= 0 and
    0 <= u <= 1. A ray exactly along a segment does not meet it: a wall without thickness has no front.
    """
    rays = np.column_stack([origins, np.cos(angles), np.sin(angles)])
    return _in_chunks(lambda chunk: _nearest_hits(segments, chunk), rays, len(segments))


def distance_to(segments: FloatArray, points: FloatArray) -> FloatArray:
    """Distance from each point (rows, 2) to the nearest segment."""
    return _in_chunks(lambda chunk: _nearest_distances(segments, chunk), points, len(segments))


def along(start: FloatArray, end: FloatArray) -> FloatArray:
    """Points from start to end, at most 0.1 m apart: close enough to see whether a robot has room on the way."""
    steps = math.ceil(float(np.hypot(*(end - start))) / 0.1) + 1
    return np.linspace(start, end, steps)


def center_of(box: FloatArray) -> FloatArray:
    """The middle of a box, (2,)."""
    return np.asarray((box[:2] + box[2:]) / 2)


def front_of(room: FloatArray, door: FloatArray) -> FloatArray:
    """The place inside a room, a step before its door, from which one goes straight through, (2,)."""
    return np.clip(door, room[:2] + STEP_M, room[2:] - STEP_M)


def sides(boxes: FloatArray) -> FloatArray:
    """The four sides of each box as segments, (4 boxes, 4)."""
    return boxes[:, [[0, 1, 2, 1], [2, 1, 2, 3], [2, 3, 0, 3], [0, 3, 0, 1]]].reshape(-1, 4)


def gaps(box: FloatArray, others: FloatArray) -> FloatArray:
    """Distance from a box to each of the others; 0 where they overlap."""
    apart = np.maximum(np.maximum(box[:2] - others[:, 2:], others[:, :2] - box[2:]), 0.0)
    return np.hypot(apart[:, 0], apart[:, 1])


def inside_any(boxes: FloatArray, points: FloatArray) -> BoolArray:
    """Which points (rows, 2) are inside a box, not on its border."""
    x0, y0, x1, y1 = boxes.T

    def inside(chunk: FloatArray) -> BoolArray:
        x, y = chunk[:, :1], chunk[:, 1:]
        return ((x > x0) & (x < x1) & (y > y0) & (y < y1)).any(axis=1)

    return _in_chunks(inside, points, len(boxes))


def _in_chunks(function: Callable[[FloatArray], Any], rows: FloatArray, others: int) -> Any:
    """The function of all rows, in chunks that keep (rows, others) arrays small."""
    size = max(1, PAIRS_PER_CHUNK // max(1, others))
    chunks = [function(rows[start : start + size]) for start in range(0, max(1, len(rows)), size)]
    return np.concatenate(chunks)


def _nearest_hits(segments: FloatArray, rays: FloatArray) -> FloatArray:
    """Distances of one chunk of rays (x, y, cos, sin); see cast_rays."""
    x, y, dx, dy = (column[:, None] for column in rays.T)
    ex, ey = segments[:, 2] - segments[:, 0], segments[:, 3] - segments[:, 1]
    ax, ay = segments[:, 0] - x, segments[:, 1] - y
    with np.errstate(divide="ignore", invalid="ignore"):  # parallel: infinite or NaN, which is no hit below
        cross = dx * ey - dy * ex
        t = (ax * ey - ay * ex) / cross
        u = (ax * dy - ay * dx) / cross
        # The tolerance closes the corners: no ray may slip between two walls that meet.
        hits = (t >= 0.0) & (u >= -1e-9) & (u <= 1.0 + 1e-9)
    return np.asarray(np.where(hits, t, np.inf).min(axis=1, initial=np.inf))


def _nearest_distances(segments: FloatArray, points: FloatArray) -> FloatArray:
    """Distances of one chunk of points; see distance_to."""
    ex, ey = segments[:, 2] - segments[:, 0], segments[:, 3] - segments[:, 1]
    px, py = points[:, :1] - segments[:, 0], points[:, 1:] - segments[:, 1]
    share = np.clip((px * ex + py * ey) / (ex * ex + ey * ey), 0.0, 1.0)
    squares = (px - share * ex) ** 2 + (py - share * ey) ** 2
    return np.sqrt(squares.min(axis=1, initial=np.inf))
