"""The robots' laser scanners: ranges along beams, and the labelled points made of them."""

import math
from dataclasses import dataclass

import numpy as np

from client.streams.scans import Beams
from client.streams.scans import labelled_points as points_along
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

    @property
    def beams(self) -> Beams:
        """The same as flat arrays, which is what a log gives too."""
        index = np.repeat(np.arange(len(self.positions), dtype=np.int32), self.angles.shape[1])
        return Beams(index, self.positions[index], self.angles.ravel(), self.ranges.ravel())


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
    """Points x (rows, 2) and labels y (rows,), ordered by scan, then beam.

    A beam that did not return is free up to the maximum range: in the world, there is nothing that a laser misses.
    """
    points = points_along(scans.beams, rng, free_per_m=free_per_m, margin_m=margin_m, free_to_m=scans.max_range_m)
    return points.x, points.y
