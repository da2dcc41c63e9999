"""Geometry in the plane: rays, distances and points along them.

Lengths are in meters, angles in radians, boxes are (x0, y0, x1, y1) with x0 < x1 and y0 < y1, segments are
(x0, y0, x1, y1) in any direction.
"""

import math
from collections.abc import Callable

import numpy as np

from service.inference.arrays import FloatArray

# Pairs of ray (or point) and segment that are held at once: a few megabytes per temporary array.
PAIRS_PER_CHUNK = 500_000


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


def beside(segments: FloatArray, rng: np.random.Generator, count: int, offset_m: float) -> FloatArray:
    """Points spread evenly over the length of all segments, up to `offset_m` to either side."""
    run = segments[:, 2:] - segments[:, :2]
    length = np.hypot(run[:, 0], run[:, 1])
    chosen = rng.choice(len(segments), count, p=length / length.sum())
    normal = np.stack([-run[:, 1], run[:, 0]], axis=1) / length[:, None]
    return (
        segments[chosen, :2]
        + run[chosen] * rng.random((count, 1))
        + normal[chosen] * rng.uniform(-offset_m, offset_m, (count, 1))
    )


def center_of(box: FloatArray) -> FloatArray:
    """The middle of a box, (2,)."""
    return np.asarray((box[:2] + box[2:]) / 2)


def sides(boxes: FloatArray) -> FloatArray:
    """The four sides of each box as segments, (4 boxes, 4)."""
    return boxes[:, [[0, 1, 2, 1], [2, 1, 2, 3], [2, 3, 0, 3], [0, 3, 0, 1]]].reshape(-1, 4)


def gaps(box: FloatArray, others: FloatArray) -> FloatArray:
    """Distance from a box to each of the others; 0 where they overlap."""
    apart = np.maximum(np.maximum(box[:2] - others[:, 2:], others[:, :2] - box[2:]), 0.0)
    return np.hypot(apart[:, 0], apart[:, 1])


def _in_chunks(function: Callable[[FloatArray], FloatArray], rows: FloatArray, segments: int) -> FloatArray:
    """The function of all rows, in chunks that keep (rows, segments) arrays small."""
    size = max(1, PAIRS_PER_CHUNK // max(1, segments))
    chunks = [function(rows[start : start + size]) for start in range(0, len(rows), size)]
    return np.concatenate(chunks) if chunks else np.empty(0)


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
    run = segments[:, 2:] - segments[:, :2]
    from_start = points[:, None] - segments[:, :2]
    share = np.clip((from_start * run).sum(axis=2) / (run * run).sum(axis=1), 0.0, 1.0)
    gap = from_start - share[:, :, None] * run
    return np.asarray(np.hypot(gap[:, :, 0], gap[:, :, 1]).min(axis=1, initial=np.inf))
