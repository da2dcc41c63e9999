"""Maps: what a belief says at every pixel of a grid, for models of two coordinates."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from service.errors import DataError, ModelError, SettingError
from service.inference import kernels
from service.inference.arrays import FloatArray, as_floats
from service.inference.belief import Belief, DiagonalGaussian, Family, FullGaussian
from service.inference.features import Features, LatticeFeatures
from service.inference.likelihood import Likelihood
from service.inference.prediction import Prediction, check_size, predict

MOST_PIXELS = 4_000_000
LONGEST_SIDE = 20_000  # pixels

_ROWS_AT_ONCE = 2048
_VALUES_AT_ONCE = 2_000_000  # bounds the memory of the matrix products
_PRODUCT_GAIN = 10  # a matrix product does a centre and a pixel so many times faster
_FULL_GAIN = 40
_UNLEARNED_SHARE = 0.9
_ROUNDING = 1e-9  # of a variance: less than that of it comes from no centre


@dataclass(frozen=True)
class Grid:
    """A map's pixels: squares of side `resolution`, the lower left one's corner at (left, bottom)."""

    left: float
    bottom: float
    resolution: float
    width: int
    height: int

    @classmethod
    def over(cls, bounds: tuple[float, float, float, float], resolution: float) -> Self:
        """The smallest grid that covers bounds = (left, bottom, right, top), its corner at (left, bottom)."""
        left, bottom, right, top = bounds
        if not np.isfinite([*bounds, resolution]).all():
            raise SettingError("bounds and resolution must be finite numbers")
        if not (right > left and top > bottom):
            raise SettingError(f"bounds are left, bottom, right, top: {bounds} encloses nothing")
        if not resolution > 0:
            raise SettingError(f"resolution must be positive, not {resolution}")
        with np.errstate(over="ignore"):
            sides = [np.ceil(side / resolution - 1e-9) for side in np.subtract((right, top), (left, bottom))]
        if max(sides) > LONGEST_SIDE or sides[0] * sides[1] > MOST_PIXELS:
            raise SettingError(
                f"a map of {sides[0]:.4g} x {sides[1]:.4g} pixels is too large: it may have {MOST_PIXELS:,}, "
                f"and {LONGEST_SIDE:,} on a side; take a coarser resolution or narrower bounds"
            )
        grid = cls(float(left), float(bottom), float(resolution), max(int(sides[0]), 1), max(int(sides[1]), 1))
        grid._check_axes()
        return grid

    @cached_property
    def x_axis(self) -> FloatArray:
        """The pixels' centres from left to right."""
        return _centres(self.left, self.width, self.resolution)

    @cached_property
    def y_axis(self) -> FloatArray:
        """The pixels' centres from bottom to top."""
        return _centres(self.bottom, self.height, self.resolution)

    @property
    def pixels(self) -> int:
        """How many there are."""
        return self.width * self.height

    def _check_axes(self) -> None:
        for axis in (self.x_axis, self.y_axis):
            if not np.isfinite(axis).all() or (np.diff(axis) <= 0).any():
                raise SettingError("the resolution is too fine for coordinates as large as these bounds")


def _centres(start: float, count: int, step: float) -> FloatArray:
    return start + (np.arange(count, dtype=np.float64) + 0.5) * step


def default_bounds(features: Features) -> tuple[float, float, float, float]:
    """What a model of two coordinates is about: its lattice's box, or the box around its centres and their reach."""
    lower, upper = features.extent
    return float(lower[0]), float(lower[1]), float(upper[0]), float(upper[1])


def raster(belief: Belief, features: Features, likelihood: Likelihood, x_axis: Any, y_axis: Any) -> Prediction:
    """The predictions at all pixels (x_axis[j], y_axis[i]) of a 2-D model, shape (rows of y, columns of x).

    Equal to `predict` at each pixel. Without a cutoff a kernel is a product over the axes, so the map of a diagonal
    belief is two matrix products; with one, each centre touches only the pixels that it reaches.
    """
    check_raster(features, likelihood)
    check_size(belief, features.feature_count, 1)
    x = _checked_axis("x_axis", x_axis)
    y = _checked_axis("y_axis", y_axis)
    if not isinstance(belief, DiagonalGaussian):
        pixels = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        shape = (y.size, x.size)
        parts = [predict(belief, features.activate(part), likelihood) for part in _pieces(pixels)]
        means = np.concatenate([part.latent_mean for part in parts]).reshape(shape)
        return Prediction(means, np.concatenate([part.latent_variance for part in parts]).reshape(shape), likelihood)
    return Prediction(*_diagonal(belief, features, x, y), likelihood)


def raster_work(family: Family, features: Features, grid: Grid) -> float:
    """What a raster costs, counted in centres that reach a pixel; matrix products do many of those at a time."""
    if family == "full":
        return grid.pixels * features.feature_count**2 / _FULL_GAIN
    if features.cutoff is None:
        return grid.pixels * (features.feature_count / _PRODUCT_GAIN + 1)
    if isinstance(features, LatticeFeatures):  # all centres are alike: one stands for them
        gamma2, alike = np.array([0.5 / features.lengthscale**2]), features.feature_count
    else:
        gamma2, alike = features.gamma2, 1
    across = 2 * np.sqrt(features.threshold / gamma2) / grid.resolution + 1
    return alike * float((np.minimum(across, grid.width) * np.minimum(across, grid.height)).sum()) + grid.pixels


def unlearned(
    now: Prediction, belief: Belief, at_first: Prediction, prior: Belief, features: Features, grid: Grid
) -> npt.NDArray[np.bool_]:
    """Where the centres know little more than at first: most of the prior's variance is left, were the constant known.

    The constant is learned by an observation anywhere; that tells nothing about a place that nobody has seen, nor does
    the rounding of numbers about a place that no centre reaches.
    """
    left = now.latent_variance - _explained_by_constant(belief, features, grid)
    before = at_first.latent_variance - _explained_by_constant(prior, features, grid)
    return left >= _UNLEARNED_SHARE * before - _ROUNDING * at_first.latent_variance


def _explained_by_constant(belief: Belief, features: Features, grid: Grid) -> FloatArray | float:
    """Var[f] - Var[f | c] = Cov[f, c]^2 / Var[c] at every pixel, c the constant."""
    if not isinstance(belief, FullGaussian):
        return float(belief.variance[0])
    covariances = belief.solve(belief.whiten(np.eye(1, belief.dimension)[0]))
    carrier = DiagonalGaussian(np.ones(belief.dimension), covariances)  # Cov[f, c] is linear in these, as a mean is
    covariance, _ = _diagonal(carrier, features, grid.x_axis, grid.y_axis)
    return np.square(covariance) / float(covariances[0])


def check_raster(features: Features, likelihood: Likelihood) -> None:
    """Refuse a model that has no map."""
    if features.dimension != 2 or likelihood.is_vector:
        described = f"{features.dimension} coordinates and {likelihood.outputs} outputs"
        raise ModelError(f"a raster needs a model of 2 coordinates and a single output, not of {described}")


def _diagonal(belief: Belief, features: Features, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of f over the grid, by a belief without correlations."""
    mean, variance = (_splat if features.cutoff is not None else _products)(belief, features, x, y)
    return mean + belief.mean[0], variance + belief.variance[0]


def _products(belief: Belief, features: Features, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """sum_s mu_s k_s and sum_s sigma_s^2 k_s^2 over the grid, from each axis' factors of the kernels."""
    mean, variance = np.zeros((y.size, x.size)), np.zeros((y.size, x.size))
    step = max(1, _VALUES_AT_ONCE // max(x.size, y.size))
    for begin in range(0, len(features.centers), step):
        some = slice(begin, begin + step)
        centers, gamma2 = features.centers[some], features.gamma2[some]
        across = np.exp(-gamma2 * (x[:, None] - centers[:, 0]) ** 2)
        down = features.gamma1 * np.exp(-gamma2 * (y[:, None] - centers[:, 1]) ** 2)
        mean += (down * belief.mean[1:][some]) @ across.T
        variance += (down**2 * belief.variance[1:][some]) @ (across**2).T
    return mean, variance


def _splat(belief: Belief, features: Features, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, variance = np.zeros((y.size, x.size)), np.zeros((y.size, x.size))
    means, variances = belief.mean[1:].copy(), belief.variance[1:].copy()
    gamma1, threshold = features.gamma1, features.threshold
    if isinstance(features, LatticeFeatures) and int(features.counts @ (x.size, y.size)) <= _VALUES_AT_ONCE:
        gamma2 = 0.5 / features.lengthscale**2
        across, down = _axis_table(features, 0, x, gamma2), _axis_table(features, 1, y, gamma2)
        kernels.splat_lattice(*across, *down, gamma2, gamma1, threshold, means, variances, mean, variance)
    else:
        centers = features.centers
        kernels.splat(x, y, centers, features.gamma2, gamma1, threshold, means, variances, mean, variance)
    return mean, variance


def _axis_table(features: LatticeFeatures, axis: int, pixels: FloatArray, gamma2: float) -> tuple[Any, Any, Any]:
    """What the lattice's positions along one axis reach: ranges of pixels, squared distances, kernel factors."""
    count = int(features.counts[axis])
    ranges = np.empty((count, 2), np.int64)
    squares, factors = np.empty((count, pixels.size)), np.empty((count, pixels.size))
    kernels.reach_of_axis(
        pixels, features.lower[axis], features.spacing, count, gamma2, features.threshold, ranges, squares, factors
    )
    return ranges, squares, factors


def _pieces(pixels: FloatArray) -> list[FloatArray]:
    return np.array_split(pixels, max(1, -(-len(pixels) // _ROWS_AT_ONCE)))


def _checked_axis(name: str, axis: Any) -> FloatArray:
    values = as_floats(name, axis, 1)
    if values.size == 0 or (np.diff(values) <= 0).any():
        raise DataError(f"{name} must be one or more numbers in ascending order")
    return values
