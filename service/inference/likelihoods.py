"""The likelihoods that come with delbo: Probit, Gaussian, Poisson in closed form; Logistic, Student-t by quadrature."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, gammaln, log_expit, log_ndtr, ndtr

from service.errors import DimensionError, ModelError
from service.inference import kernels
from service.inference.arrays import FloatArray, as_floats
from service.inference.belief import LOG_TWO_PI
from service.inference.likelihood import Kernel, Likelihood

__all__ = ["Gaussian", "Likelihood", "Logistic", "Poisson", "Probit", "StudentT", "VectorGaussian"]

XI = kernels.XI
_LARGEST_EXPONENT = 700.0


class _Binary(Likelihood):
    """Class labels 0 and 1."""

    targets = "must be 0 or 1"
    is_binary = True

    def is_valid(self, y: FloatArray) -> npt.NDArray[np.bool_]:
        return (y == 0) | (y == 1)

    def conditional_variance(self, f: FloatArray) -> FloatArray:
        probability = self.conditional_mean(f)
        return probability * (1 - probability)


class Probit(_Binary):
    """The paper's classifier: a sigmoid, replaced by the normal distribution function N_cdf(xi f), xi = 0.61."""

    kernel = Kernel(kernels.PROBIT)

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return log_ndtr(XI * f * (2 * y - 1))

    def gradient(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """The sigmoid's y - sigma(f) with N_cdf(xi f) for sigma(f), as the paper has it."""
        return y - ndtr(XI * f)

    def curvature(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return XI / np.sqrt(2 * np.pi) * np.exp(-0.5 * (XI * f) ** 2)

    def conditional_mean(self, f: FloatArray) -> FloatArray:
        return ndtr(XI * f)

    def log_predictive_density(self, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        return self.log_density(y, mean / np.sqrt(1 + XI**2 * variance))

    def predictive(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        probability: FloatArray = ndtr(XI * mean / np.sqrt(1 + XI**2 * variance))
        return probability, probability * (1 - probability)


class Logistic(_Binary):
    """The sigmoid itself, by quadrature."""

    kernel = Kernel(kernels.LOGISTIC)

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return log_expit(f * (2 * y - 1))

    def gradient(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return y - expit(f)

    def curvature(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return expit(f) * expit(-f)

    def conditional_mean(self, f: FloatArray) -> FloatArray:
        return expit(f)


class _Real(Likelihood):
    """Any number."""

    targets = "must be a finite number"

    def is_valid(self, y: FloatArray) -> npt.NDArray[np.bool_]:
        return np.isfinite(y)

    def conditional_mean(self, f: FloatArray) -> FloatArray:
        return f


class Gaussian(_Real):
    """y = f + noise of a known precision S = 1 / variance; conjugate, so every step is exact Bayes (Lemma 7)."""

    def __init__(self, precision: float) -> None:
        if not (np.isfinite(precision) and precision > 0):
            raise ModelError(f"precision must be a positive number, not {precision}")
        self.precision = float(precision)
        self.kernel = Kernel(kernels.GAUSSIAN, self.precision)

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return 0.5 * (np.log(self.precision) - LOG_TWO_PI - self.precision * (y - f) ** 2)

    def gradient(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return self.precision * (y - f)

    def curvature(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.full(np.broadcast(y, f).shape, self.precision)

    def conditional_variance(self, f: FloatArray) -> FloatArray:
        return np.full(f.shape, 1 / self.precision)

    def expected_log_density(self, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        return self.log_density(y, mean) - 0.5 * self.precision * variance

    def log_predictive_density(self, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        spread_out = variance + 1 / self.precision
        return -0.5 * (LOG_TWO_PI + np.log(spread_out) + (y - mean) ** 2 / spread_out)

    def predictive(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        return mean, variance + 1 / self.precision


class StudentT(_Real):
    """y = f + noise with heavy tails: outliers pull little. Curvature by its non-negative stand-in."""

    def __init__(self, degrees: float, scale: float) -> None:
        if not (np.isfinite(degrees) and degrees > 2):
            raise ModelError(f"degrees must be more than 2, for the variance to exist, not {degrees}")
        if not (np.isfinite(scale) and scale > 0):
            raise ModelError(f"scale must be a positive number, not {scale}")
        self.degrees, self.scale = float(degrees), float(scale)
        self.kernel = Kernel(kernels.STUDENT_T, self.degrees, self.scale)

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        nu = self.degrees
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi) - np.log(self.scale)
        return constant - (nu + 1) / 2 * np.log1p(((y - f) / self.scale) ** 2 / nu)

    def gradient(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return self.curvature(y, f) * (y - f)

    def curvature(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return (self.degrees + 1) / (self.degrees * self.scale**2 + (y - f) ** 2)

    def conditional_variance(self, f: FloatArray) -> FloatArray:
        return np.full(f.shape, self.scale**2 * self.degrees / (self.degrees - 2))


class Poisson(Likelihood):
    """Counts with the rate exp(f). One explicit step from a wide prior would stick, so its steps are implicit."""

    targets = "must be a whole number, 0 or more"
    is_implicit = True
    kernel = Kernel(kernels.POISSON)

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return y * f - _rate(f) - gammaln(y + 1)

    def gradient(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return y - _rate(f)

    def curvature(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return _rate(f)

    def is_valid(self, y: FloatArray) -> npt.NDArray[np.bool_]:
        return (y >= 0) & (y == np.floor(y))

    def conditional_mean(self, f: FloatArray) -> FloatArray:
        return _rate(f)

    def conditional_variance(self, f: FloatArray) -> FloatArray:
        return _rate(f)

    def expected_log_density(self, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        return y * mean - _rate(mean + 0.5 * variance) - gammaln(y + 1)

    def predictive(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        rate = _rate(mean + 0.5 * variance)
        return rate, rate + np.minimum(rate, 1e145) ** 2 * np.expm1(np.minimum(variance, 20.0))


class VectorGaussian(_Real):
    """y = f + noise for vectors y of p components with a precision matrix S, (p, p) (Lemma 7).

    theta has one block of features per component: Phi = I_p (x) phi(x), f = (phi^T theta_1, ..., phi^T theta_p).
    """

    is_vector = True

    def __init__(self, precision: Any) -> None:
        matrix = as_floats("precision", precision, 2, ModelError)
        self.outputs = len(matrix)
        if self.outputs == 0:
            raise ModelError("a precision matrix must have at least one row")
        if matrix.shape != (self.outputs, self.outputs) or not np.allclose(matrix, matrix.T):
            raise ModelError("a precision matrix must be square and symmetric")
        self.precision = 0.5 * (matrix + matrix.T)
        if np.linalg.eigvalsh(self.precision).min() <= 0:
            raise ModelError("a precision matrix must be positive definite")
        self.noise = np.linalg.inv(self.precision).astype(np.float64)

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return _log_normal(y - f, self.noise)

    def gradient(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return (y - f) @ self.precision

    def curvature(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.broadcast_to(self.precision, (*f.shape, self.outputs))

    def check_targets(self, y: Any, first_row: int = 0) -> FloatArray:
        values = as_floats("y", y, 2)
        if values.shape[1] != self.outputs:
            raise DimensionError(f"y has {values.shape[1]} column(s), but the precision matrix is for {self.outputs}")
        return values

    def conditional_variance(self, f: FloatArray) -> FloatArray:
        return np.broadcast_to(self.noise, (*f.shape, self.outputs))

    def expected_log_density(self, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """E[log p(y | f)] for means (rows, p) and covariances (rows, p, p)."""
        return self.log_density(y, mean) - 0.5 * np.einsum("pq,...qp->...", self.precision, variance)

    def log_predictive_density(self, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        return _log_normal(y - mean, variance + self.noise)

    def predictive(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        return mean, variance + self.noise


def _rate(f: FloatArray) -> FloatArray:
    return np.exp(np.minimum(f, _LARGEST_EXPONENT))


def _log_normal(residual: FloatArray, covariance: FloatArray) -> FloatArray:
    weighted = np.linalg.solve(covariance, residual[..., None])[..., 0]
    _, log_determinant = np.linalg.slogdet(covariance)
    return -0.5 * (residual.shape[-1] * LOG_TWO_PI + log_determinant + (residual * weighted).sum(-1))
