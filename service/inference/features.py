"""Features Phi_x = [1, k_1(x), ..., k_l(x)] with kernels k_s(x) = gamma1 exp(-gamma2_s |x - c_s|^2).

A lengthscale ell means gamma2 = 1 / (2 ell^2). With a cutoff, a kernel value below cutoff * gamma1 is zero: then only
the centres near a point are active, whatever the map's size. Whether a centre is active is decided by the squared
distance, gamma2 |x - c|^2 <= -log(cutoff), so that both kinds of features agree to the last centre.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from service.errors import ModelError
from service.inference import kernels
from service.inference.activations import Activations, concatenate
from service.inference.arrays import FloatArray, IndexArray, StartArray, as_floats, as_points, frozen

_ROWS_AT_ONCE = 4096
_VALUES_AT_ONCE = 4_000_000  # bounds the memory that a kernel sets aside before it knows how many centres are active
_MOST_ACTIVE = 20_000  # centres at one point; a lattice with more is no local model
_MOST_CENTERS = 2**31 - 2  # a feature's number must fit 32 bits


class Features(ABC):
    """A map from points (rows, dimension) to sparse activations of feature_count features."""

    gamma1: float
    cutoff: float | None
    dimension: int
    feature_count: int
    _rows_at_once = _ROWS_AT_ONCE

    def activate(self, points: Any) -> Activations:
        """Phi_x of each point; the constant is feature 0 and always active."""
        x = as_points(points, self.dimension)
        if len(x) <= self._rows_at_once:
            return self._activate(x)
        pieces = -(-len(x) // self._rows_at_once)
        return concatenate([self._activate(piece) for piece in np.array_split(x, pieces)])

    @property
    def threshold(self) -> float:
        """gamma2 |x - c|^2 up to which a centre is active."""
        return float("inf") if self.cutoff is None else -float(np.log(self.cutoff))

    @property
    @abstractmethod
    def centers(self) -> FloatArray:
        """All centres, shape (l, dimension), in the order of their features."""

    @property
    @abstractmethod
    def extent(self) -> tuple[FloatArray, FloatArray]:
        """The lower and upper corner of the box that the features are about."""

    @property
    @abstractmethod
    def gamma2(self) -> FloatArray:
        """Each centre's gamma2, shape (l,)."""

    @abstractmethod
    def _activate(self, x: FloatArray) -> Activations: ...


class CenterFeatures(Features):
    """Kernels around any centres, in any dimension, with one lengthscale or one per centre."""

    def __init__(self, centers: Any, lengthscale: Any, gamma1: float = 1.0, cutoff: float | None = None) -> None:
        self._centers = frozen(as_floats("centers", centers, 2, ModelError))
        count, self.dimension = self._centers.shape
        if count == 0 or self.dimension == 0:
            raise ModelError("centers must hold at least one point of at least one coordinate")
        scales = as_floats("lengthscale", lengthscale, np.ndim(lengthscale), ModelError)
        if scales.ndim > 1 or (scales.ndim == 1 and scales.shape != (count,)):
            raise ModelError(f"lengthscale must be one number or one per centre ({count}), not of shape {scales.shape}")
        if not (scales > 1e-150).all():  # the square of anything smaller is lost
            raise ModelError(f"lengthscale must be positive, not {scales.min()}")
        self._gamma2 = frozen(np.broadcast_to(0.5 / scales**2, (count,)))
        self.gamma1 = _positive("gamma1", gamma1)
        self.cutoff = None if cutoff is None else _checked_cutoff(cutoff)
        self.feature_count = count + 1

    @property
    def centers(self) -> FloatArray:
        return self._centers

    @property
    def extent(self) -> tuple[FloatArray, FloatArray]:
        """The box around the centres, and a lengthscale more on every side."""
        longest = np.sqrt(0.5 / self._gamma2.min())
        return self._centers.min(axis=0) - longest, self._centers.max(axis=0) + longest

    @property
    def gamma2(self) -> FloatArray:
        return self._gamma2

    def _activate(self, x: FloatArray) -> Activations:
        if self.cutoff is None:
            values = np.empty((len(x), self.feature_count))
            kernels.activate_all(x, self._center_axes, self._gamma2, self.gamma1, values)
            return Activations.of_dense_rows(values)
        indices, values, row_starts = kernels.activate_near(
            x, self._centers, self._gamma2, self.gamma1, self.threshold, *self._grid
        )
        return Activations(indices, values, row_starts, self.feature_count)

    @cached_property
    def _center_axes(self) -> FloatArray:
        return np.ascontiguousarray(self._centers.T)

    @cached_property
    def _grid(self) -> tuple[FloatArray, float, StartArray, StartArray, IndexArray]:
        """A uniform grid over the first three axes: its lower corner, cell size, counts, and the centres by cell."""
        axes = min(self.dimension, 3)
        lower = np.zeros(3)
        extent = np.zeros(3)
        lower[:axes] = self._centers[:, :axes].min(axis=0)
        extent[:axes] = self._centers[:, :axes].max(axis=0) - lower[:axes]
        # A little wider than the farthest reach, against rounding; wider still where that made too many empty cells.
        cell = float(np.sqrt(self.threshold / self._gamma2.min())) * (1 + 1e-9)
        while np.prod(np.floor(extent / cell) + 1) > 4 * len(self._centers) + 8:
            cell *= 1.5
        counts = (np.floor(extent / cell) + 1).astype(np.int64)
        keys = np.zeros((len(self._centers), 3), np.int64)
        keys[:, :axes] = np.floor((self._centers[:, :axes] - lower[:axes]) / cell)
        boxes = (keys[:, 0] * counts[1] + keys[:, 1]) * counts[2] + keys[:, 2]
        members = np.argsort(boxes, kind="stable").astype(np.int32)
        starts = np.searchsorted(boxes[members], np.arange(counts.prod() + 1)).astype(np.int64)
        return lower, cell, counts, starts, members


class LatticeFeatures(Features):
    """Kernels on a regular lattice in 1, 2 or 3 dimensions, found by arithmetic; always local.

    Along each axis floor((upper - lower) / spacing + 1e-9) + 1 centres at lower + k spacing; row-major, last axis
    fastest. A centre is an integer key counted from the origin `lower`; the bounds only clip the keys.
    """

    def __init__(
        self, spacing: float, lengthscale: float, lower: Any, upper: Any, cutoff: float = 1e-6, gamma1: float = 1.0
    ) -> None:
        self.spacing = _positive("spacing", spacing)
        self.lengthscale = _positive("lengthscale", lengthscale)
        self.gamma1 = _positive("gamma1", gamma1)
        self.cutoff = _checked_cutoff(cutoff)
        self.lower = frozen(as_floats("lower", lower, 1, ModelError))
        self.upper = frozen(as_floats("upper", upper, 1, ModelError))
        self.dimension = self.lower.size
        if self.upper.size != self.dimension or not 1 <= self.dimension <= 3:
            raise ModelError(
                f"a lattice has 1, 2 or 3 dimensions, and as many lower as upper bounds: "
                f"lower has {self.dimension}, upper {self.upper.size}"
            )
        if not (self.upper >= self.lower).all():
            raise ModelError(f"upper {self.upper.tolist()} must not lie below lower {self.lower.tolist()}")
        counts = np.floor((self.upper - self.lower) / self.spacing + 1e-9) + 1
        if counts.prod() > _MOST_CENTERS:
            raise ModelError(f"a lattice of {counts.prod():.3g} centres is too large: take a wider spacing")
        self.counts: StartArray = counts.astype(np.int64)
        self.feature_count = int(self.counts.prod()) + 1
        across = 2 * self.lengthscale * float(np.sqrt(2 * self.threshold)) / self.spacing + 1
        active = float(np.minimum(across, self.counts).prod())
        if active > _MOST_ACTIVE:
            raise ModelError(
                f"about {active:.3g} centres would be active at each point: take a wider spacing, a shorter "
                "lengthscale or a larger cutoff"
            )
        self._rows_at_once = min(_ROWS_AT_ONCE, int(_VALUES_AT_ONCE / active))

    @cached_property
    def centers(self) -> FloatArray:
        axes = [low + np.arange(count) * self.spacing for low, count in zip(self.lower, self.counts, strict=True)]
        grid = np.meshgrid(*axes, indexing="ij")
        return frozen(np.stack(grid, axis=-1).reshape(-1, self.dimension))

    @property
    def extent(self) -> tuple[FloatArray, FloatArray]:
        """The lattice's bounds; where they leave no room, a lengthscale more."""
        room = np.where(self.upper > self.lower, 0.0, self.lengthscale)
        return self.lower - room, self.upper + room

    @cached_property
    def gamma2(self) -> FloatArray:
        return frozen(np.full(self.feature_count - 1, 0.5 / self.lengthscale**2))

    def _activate(self, x: FloatArray) -> Activations:
        gamma2 = 0.5 / self.lengthscale**2
        indices, values, row_starts = kernels.activate_lattice(
            x, self.lower, self.spacing, self.counts, gamma2, self.gamma1, self.threshold
        )
        return Activations(indices, values, row_starts, self.feature_count)


def _positive(name: str, value: float) -> float:
    if not (np.isfinite(value) and value > 0):
        raise ModelError(f"{name} must be a positive number, not {value}")
    return float(value)


def _checked_cutoff(cutoff: float) -> float:
    if not 1e-300 <= cutoff < 1:
        raise ModelError(f"cutoff must lie between 0 and 1 (1e-6, say), not {cutoff}")
    return float(cutoff)
