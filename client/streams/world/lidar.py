"""The robots' laser scanners: ranges along beams, and the labelled points made of them."""

import math
from dataclasses import dataclass

import numpy as np

from client.streams.world.floor_plan import FloorPlan
from client.streams.world.geometry import cast_rays
from service.inference.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Scans:
    """What a laser scanner measured: a range per beam, infinite for a beam that did not return."""

    positions: FloatArray  # (scans, 2)
    angles: FloatArray  # (scans, beams)
    ranges: FloatArray  # (scans, beams)
    max_range_m: float


def scan(
    plan: FloorPlan,
    positions: FloatArray,
    headings: FloatArray,
    rng: np.random.Generator,
    beams: int = 180,
    max_range_m: float = 8.0,
    noise_m: float = 0.01,
) -> Scans:
    """Scan the full circle from each position, the first beam straight ahead; Gaussian noise on every range."""
    angles = headings[:, None] + np.arange(beams) * (math.tau / beams)
    distances = cast_rays(plan.surfaces, np.repeat(positions, beams, axis=0), angles.ravel()).reshape(angles.shape)
    noisy = np.maximum(distances + noise_m * rng.standard_normal(angles.shape), 0.0)
    return Scans(positions, angles, np.where(distances <= max_range_m, noisy, np.inf), max_range_m)


def labelled_points(
    scans: Scans, rng: np.random.Generator, free_per_m: float = 1.0, margin_m: float = 0.1
) -> tuple[FloatArray, FloatArray]:
    """Points x (rows, 2) and labels y (rows,): 1 where a beam ended, 0 at random radii before `margin_m` of its end.

    A beam has `free_per_m` free points per meter on average. Rows go by scan, then beam, so that any stretch of them
    has both labels.
    """
    ranges = scans.ranges.ravel()
    returned = np.isfinite(ranges)
    reach_m = np.maximum(np.where(returned, ranges, scans.max_range_m) - margin_m, 0.0)
    counts = np.floor(free_per_m * reach_m + rng.random(len(reach_m))).astype(np.int64)
    free = np.repeat(np.arange(len(reach_m)), counts)
    hit = np.flatnonzero(returned)
    order = np.argsort(np.concatenate([free, hit]), kind="stable")
    beam = np.concatenate([free, hit])[order]
    radius = np.concatenate([reach_m[free] * rng.random(len(free)), ranges[hit]])[order]
    angle = scans.angles.ravel()[beam]
    origin = scans.positions[beam // scans.angles.shape[1]]
    x = origin + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return x, np.concatenate([np.zeros(len(free)), np.ones(len(hit))])[order]
