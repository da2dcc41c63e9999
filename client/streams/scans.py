"""Laser scans, and the labelled points made of them: occupied where a beam ended, free along its way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from service.errors import DataError, SettingError
from service.inference.arrays import FloatArray, IndexArray

MOST_POINTS = 50_000_000  # a few gigabytes: more come from a slip in the settings, not from a laser
_MOST_SETTING = 1e6  # points or meters: beyond any use, and far from where arithmetic overflows


@dataclass(frozen=True, eq=False)
class LaserScan:
    """One turn of a laser scanner, as a log recorded it; angles are in radians from the heading, counter-clockwise."""

    pose: FloatArray  # (3,) x, y, theta of the laser itself
    ranges: FloatArray  # (beams,) meters; some values mean that nothing came back, see beams_of
    angle_min: float
    angle_increment: float
    max_range_m: float | None  # what the scanner reads where nothing came back, if the log tells
    timestamp: float

    def __post_init__(self) -> None:
        if self.pose.shape != (3,) or self.ranges.ndim != 1:
            raise DataError(
                f"a laser scan has a pose (3,) and ranges (beams,), not {self.pose.shape} and {self.ranges.shape}"
            )


@dataclass(frozen=True, eq=False)
class Beams:
    """Beams of many scans, ordered by scan, then angle."""

    scan: IndexArray  # (beams,) which scan a beam is of
    origin: FloatArray  # (beams, 2)
    angle: FloatArray  # (beams,) radians from the x axis
    range_m: FloatArray  # (beams,) infinite for a beam that did not return

    def __post_init__(self) -> None:
        count = len(self.range_m)
        shapes = (self.scan.shape, self.origin.shape, self.angle.shape, self.range_m.shape)
        if shapes != ((count,), (count, 2), (count,), (count,)):
            raise DataError(f"scan, origin, angle and range of {count} beams have the shapes {shapes}")


@dataclass(frozen=True, eq=False)
class LabelledPoints:
    """Observations of occupancy, ordered by beam; of a beam its end comes first."""

    x: FloatArray  # (rows, 2)
    y: FloatArray  # (rows,) 1 occupied, 0 free
    scan: IndexArray  # (rows,) which scan a row is of


def beams_of(scans: Sequence[LaserScan], max_range_m: float = 40.0) -> Beams:
    """The beams of all scans, where a reading that is no distance becomes infinite.

    That is a reading that is not finite, not above 0, above `max_range_m`, or not below the scan's own maximum.
    """
    if not max_range_m > 0:
        raise SettingError(f"the maximum range must be above 0 m, not {max_range_m}")
    counts = [len(scan.ranges) for scan in scans]
    index = np.repeat(np.arange(len(scans), dtype=np.int32), counts)
    place = np.arange(len(index)) - np.repeat(np.cumsum(counts, dtype=np.int64) - counts, counts)
    poses = np.array([scan.pose for scan in scans]).reshape(-1, 3)
    first = poses[:, 2] + np.array([scan.angle_min for scan in scans])
    increments = np.array([scan.angle_increment for scan in scans])
    own_max = np.array([math.inf if scan.max_range_m is None else scan.max_range_m for scan in scans])
    recorded = np.concatenate([np.empty(0), *(scan.ranges for scan in scans)])
    returned = (recorded > 0) & (recorded <= max_range_m) & (recorded < own_max[index])
    angle = first[index] + place * increments[index]
    return Beams(index, poses[index, :2], angle, np.where(returned, recorded, np.inf))


def labelled_points(
    beams: Beams,
    rng: np.random.Generator,
    *,
    free_per_m: float = 0.5,
    free_per_hit: float | None = None,
    margin_m: float = 0.1,
    free_to_m: float | None = None,
) -> LabelledPoints:
    """One occupied point where a beam ended, then free points at radii drawn evenly from its way up to there.

    A beam of length r has max(1, int(r free_per_m)) free points with radii on [0, max(0, r - margin_m)]: the rule of
    the Hilbert maps. With `free_per_hit`, all beams together have round(free_per_hit * hits) instead, see _shares.
    A beam that did not return has no point at all, or with `free_to_m` free ones on [0, free_to_m].
    """
    _check_settings(free_per_m, free_per_hit, margin_m, free_to_m)
    kept = np.flatnonzero(np.isfinite(beams.range_m) | (free_to_m is not None))
    hit = np.isfinite(beams.range_m[kept])
    length = np.where(hit, beams.range_m[kept], free_to_m or 0.0)
    if free_per_hit is None:
        wanted = np.maximum(1.0, np.floor(length * free_per_m))
    else:
        wanted = _shares(length, np.rint(free_per_hit * hit.sum()))
    if wanted.sum() > MOST_POINTS:
        raise SettingError(f"{wanted.sum():,.0f} free points are too many: at most {MOST_POINTS:,} are made at once")
    rows = wanted.astype(np.int64) + hit
    is_end = np.zeros(rows.sum(), dtype=bool)
    is_end[(np.cumsum(rows) - rows)[hit]] = True
    owner = np.repeat(np.arange(len(kept)), rows)
    reach = np.where(hit, np.maximum(0.0, length - margin_m), length)
    # A number is drawn for every row, also for the ends, which need none: so the shared Intel points were made.
    radius = rng.random(len(owner)) * reach[owner]
    radius[is_end] = length[hit]
    angle = beams.angle[kept]
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = beams.origin[kept][owner] + radius[:, None] * direction[owner]
    return LabelledPoints(x, is_end.astype(np.float64), beams.scan[kept][owner])


def _shares(length: FloatArray, total: float) -> FloatArray:
    """Whole numbers in proportion to the lengths that sum to exactly `total`.

    Beams 1 to k together have their share of the total rounded to the nearest whole number, and beam k what that adds
    to beams 1 to k - 1: so each beam is at most 1 off its share, and rounding never adds up.
    """
    if total == 0:
        return np.zeros(len(length))
    until = np.cumsum(length)
    return np.diff(np.rint(total * (until / until[-1])), prepend=0.0)


def _check_settings(free_per_m: float, free_per_hit: float | None, margin_m: float, free_to_m: float | None) -> None:
    positive = {"free_per_m": free_per_m, "free_per_hit": free_per_hit, "free_to_m": free_to_m}
    for name, value in positive.items():
        if value is not None and not 0 < value <= _MOST_SETTING:
            raise SettingError(f"{name} must be above 0 and at most {_MOST_SETTING:,.0f}, not {value}")
    if not 0 <= margin_m <= _MOST_SETTING:
        raise SettingError(f"margin_m must be between 0 and {_MOST_SETTING:,.0f}, not {margin_m}")
