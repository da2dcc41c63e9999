"""Predictions: what a belief says of new points."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import xlogy

from service.errors import DataError
from service.inference.activations import Activations
from service.inference.arrays import FloatArray
from service.inference.belief import LOG_TWO_PI, Belief, DiagonalGaussian, FullGaussian
from service.inference.likelihood import Likelihood
from service.inference.stack import check_same_kind

_MOST_ROWS = 2048
_FEWEST_ROWS = 16
_WORK_AT_ONCE = 200_000_000  # multiplications: the solver keeps all other threads waiting until it is done


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a belief says of some points.

    latent_mean, latent_variance: of f = Phi^T theta, the belief alone; the variance shrinks as evidence grows.
    mean, variance: of y itself, noise included; for class labels the mean is P(y = 1).
    entropy: of the label; where y is no label, of f.
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
        """In nats: of a class label; for any other y the differential entropy of f, log((2 pi e)^p |S|) / 2."""
        if self.likelihood.is_binary:
            return binary_entropy(self.mean)
        if not self.likelihood.is_vector:
            return 0.5 * (1.0 + LOG_TWO_PI + np.log(self.latent_variance))
        _, log_determinant = np.linalg.slogdet(self.latent_variance)
        return 0.5 * (self.likelihood.outputs * (1.0 + LOG_TWO_PI) + log_determinant)


def predict(belief: Belief, activations: Activations, likelihood: Likelihood) -> Prediction:
    """What the belief says of the points with these activations: probabilities or means, with variances.

    m = Phi^T mu and s = Phi^T Omega^-1 Phi; with p outputs m is (rows, p) and s (rows, p, p).
    """
    return predict_all([belief], activations, likelihood)[0]


def predict_all(beliefs: Sequence[Belief], activations: Activations, likelihood: Likelihood) -> list[Prediction]:
    """The same points as seen by several beliefs of one family, at the cost of little more than one."""
    outputs = likelihood.outputs
    check_same_kind(beliefs)
    check_size(beliefs[0], activations.feature_count, outputs)
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


def check_size(belief: Belief, feature_count: int, outputs: int) -> None:
    """Refuse features that are not the belief's."""
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
    rows_at_once = max(_FEWEST_ROWS, min(_MOST_ROWS, _WORK_AT_ONCE // belief.dimension**2 // outputs))
    for chunk in activations.chunks(rows_at_once):
        phi = chunk.dense().T
        whitened = belief.whiten(np.kron(np.eye(outputs), phi).astype(np.float64)).reshape(
            belief.dimension, outputs, len(chunk)
        )
        pieces.append(np.einsum("dpr,dqr->rpq", whitened, whitened))
    return np.concatenate(pieces)


def binary_entropy(probability: FloatArray) -> FloatArray:
    """The entropy of a class label, in nats."""
    return -xlogy(probability, probability) - xlogy(1 - probability, 1 - probability)
