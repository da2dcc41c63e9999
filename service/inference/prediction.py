"""Predictions: what a belief says of new points, and rasters of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import xlogy

from service.errors import DataError, ModelError
from service.inference import kernels
from service.inference.activations import Activations
from service.inference.arrays import FloatArray, as_floats
from service.inference.belief import Belief, DiagonalGaussian, FullGaussian
from service.inference.features import Features
from service.inference.likelihood import Likelihood
from service.inference.stack import check_same_kind

_ROWS_AT_ONCE = 2048


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a belief says of some points.

    latent_mean, latent_variance: of f = Phi^T theta, the belief alone; the variance shrinks as evidence grows.
    mean, variance: of y itself, noise included; for class labels the mean is P(y = 1).
    """

    latent_mean: FloatArray
    latent_variance: FloatArray
    likelihood: Likelihood

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        return self.likelihood.predictive(self.latent_mean, self.latent_variance)

    @property
    def mean(self) -> FloatArray:
        """E[y], or P(y = 1) for class labels."""
        return self._moments[0]

    @property
    def variance(self) -> FloatArray:
        """Var[y]."""
        return self._moments[1]

    @property
    def entropy(self) -> FloatArray:
        """Of a class label, in nats."""
        return binary_entropy(self.mean)


def predict(belief: Belief, activations: Activations, likelihood: Likelihood) -> Prediction:
    """What the belief says of the points with these activations: probabilities or means, with variances.

    m = Phi^T mu and s = Phi^T Omega^-1 Phi; with p outputs m is (rows, p) and s (rows, p, p).
    """
    return predict_all([belief], activations, likelihood)[0]


def predict_all(beliefs: Sequence[Belief], activations: Activations, likelihood: Likelihood) -> list[Prediction]:
    """The same points as seen by several beliefs of one family, at the cost of little more than one."""
    outputs = likelihood.outputs
    check_same_kind(beliefs)
    _check_size(beliefs[0], activations.feature_count, outputs)
    shape = (len(activations), len(beliefs), outputs)
    means = activations.times(_columns([belief.mean for belief in beliefs], outputs)).reshape(shape)
    if isinstance(beliefs[0], DiagonalGaussian):
        columns = _columns([belief.variance for belief in beliefs], outputs)
        variances = activations.squared_times(columns).reshape(shape)[..., None] * np.eye(outputs)
    else:
        full = [_covariances(belief, activations, outputs) for belief in beliefs if isinstance(belief, FullGaussian)]
        variances = np.stack(full, axis=1)
    if not likelihood.is_vector:
        means, variances = means[..., 0], variances[..., 0, 0]
    return [Prediction(means[:, agent], variances[:, agent], likelihood) for agent in range(len(beliefs))]


def _check_size(belief: Belief, feature_count: int, outputs: int) -> None:
    size = outputs * feature_count
    if belief.dimension != size:
        raise DataError(
            f"{feature_count} features of {outputs} output(s) need {size} parameters, not {belief.dimension}"
        )


def _columns(vectors: list[FloatArray], outputs: int) -> FloatArray:
    """The blocks of several parameter vectors as columns over the features, (features, beliefs * outputs)."""
    return np.concatenate([vector.reshape(outputs, -1) for vector in vectors]).T


def _covariances(belief: FullGaussian, activations: Activations, outputs: int) -> FloatArray:
    """Phi^T Omega^-1 Phi of each row, (rows, p, p), from U = L^-1 Phi^T, never from an inverse."""
    pieces = [np.empty((0, outputs, outputs))]
    for chunk in activations.chunks(_ROWS_AT_ONCE):
        phi = chunk.dense().T
        whitened = belief.whiten(np.kron(np.eye(outputs), phi).astype(np.float64)).reshape(
            belief.dimension, outputs, len(chunk)
        )
        pieces.append(np.einsum("dpr,dqr->rpq", whitened, whitened))
    return np.concatenate(pieces)


def raster(belief: Belief, features: Features, likelihood: Likelihood, x_axis: Any, y_axis: Any) -> Prediction:
    """The predictions at all pixels (x_axis[j], y_axis[i]) of a 2-D model, shape (rows of y, columns of x).

    Equal to `predict` at each pixel. Without a cutoff a kernel is a product over the axes, so the map of a diagonal
    belief is two matrix products; with one, each centre touches only the pixels that it reaches.
    """
    if features.dimension != 2 or likelihood.is_vector:
        described = f"{features.dimension} coordinates and {likelihood.outputs} outputs"
        raise ModelError(f"a raster needs a model of 2 coordinates and a single output, not of {described}")
    _check_size(belief, features.feature_count, 1)
    x = _checked_axis("x_axis", x_axis)
    y = _checked_axis("y_axis", y_axis)
    if not isinstance(belief, DiagonalGaussian):
        pixels = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        shape = (y.size, x.size)
        parts = [predict(belief, features.activate(part), likelihood) for part in _pieces(pixels)]
        means = np.concatenate([part.latent_mean for part in parts]).reshape(shape)
        return Prediction(means, np.concatenate([part.latent_variance for part in parts]).reshape(shape), likelihood)
    constant_mean, constant_variance = belief.mean[0], belief.variance[0]
    mean, variance = (_splat if features.cutoff is not None else _products)(belief, features, x, y)
    return Prediction(mean + constant_mean, variance + constant_variance, likelihood)


def _products(belief: Belief, features: Features, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """sum_s mu_s k_s and sum_s sigma_s^2 k_s^2 over the grid, from each axis' factors of the kernels."""
    across = np.exp(-features.gamma2 * (x[:, None] - features.centers[:, 0]) ** 2)
    down = features.gamma1 * np.exp(-features.gamma2 * (y[:, None] - features.centers[:, 1]) ** 2)
    mean = (down * belief.mean[1:]) @ across.T
    return mean, (down**2 * belief.variance[1:]) @ (across**2).T


def _splat(belief: Belief, features: Features, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, variance = np.zeros((y.size, x.size)), np.zeros((y.size, x.size))
    means, variances = belief.mean[1:].copy(), belief.variance[1:].copy()
    kernels.splat(
        x, y, features.centers, features.gamma2, features.gamma1, features.threshold, means, variances, mean, variance
    )
    return mean, variance


def _pieces(pixels: FloatArray) -> list[FloatArray]:
    return np.array_split(pixels, max(1, -(-len(pixels) // _ROWS_AT_ONCE)))


def _checked_axis(name: str, axis: Any) -> FloatArray:
    values = as_floats(name, axis, 1)
    if values.size == 0 or (np.diff(values) <= 0).any():
        raise DataError(f"{name} must be one or more numbers in ascending order")
    return values


def binary_entropy(probability: FloatArray) -> FloatArray:
    """The entropy of a class label, in nats."""
    return -xlogy(probability, probability) - xlogy(1 - probability, 1 - probability)
