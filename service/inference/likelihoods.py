"""How an observation y depends on the parameters: through f = Phi_x^T theta alone.

So all that inference needs of a likelihood are one-dimensional integrals over f ~ N(m, s): the expected gradient
e = E[d log p / df] and the expected curvature a = E[-d^2 log p / df^2] (or a non-negative stand-in for it). Probit,
Gaussian and Poisson have them in closed form, the others by 64-point Gauss-Hermite quadrature.

To add one, derive from `Likelihood` and write its log-density, gradient, curvature, valid targets, conditional mean
and conditional variance; `docs/likelihoods.md` has an example. Functions take arrays and work elementwise.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, gammaln, log_expit, log_ndtr, ndtr, xlogy

from service.errors import DataError, ModelError
from service.inference import kernels
from service.inference.arrays import FloatArray, as_floats
from service.inference.belief import LOG_TWO_PI
from service.inference.implicit import solve_implicit_step
from service.inference.quadrature import WEIGHTS, spread

XI = kernels.XI
_LARGEST_EXPONENT = 700.0


class Kernel(NamedTuple):
    """A likelihood that the compiled kernels know: its number there, and two parameters."""

    kind: int
    first: float = 0.0
    second: float = 0.0

    @property
    def parameters(self) -> FloatArray:
        """The parameters as the kernels take them."""
        return np.array([self.first, self.second])


class Likelihood(ABC):
    """p(y | f), f = Phi^T theta. Methods are elementwise on arrays of y and f."""

    targets: ClassVar[str]
    """The values that y may take, in words: 'must be 0 or 1'."""

    is_binary: ClassVar[bool] = False
    """Whether y is a class label 0 or 1, and predictions are probabilities."""

    is_implicit: ClassVar[bool] = False
    """Take gradient and curvature where the step ends, not where it begins: for likelihoods that curve steeply."""

    kernel: Kernel | None = None
    """What the compiled kernels call it; None for a likelihood of your own, which is then called from Python."""

    is_vector: ClassVar[bool] = False
    """Whether y is a vector, with a row of targets per observation."""

    outputs: int = 1
    """The number of components of y."""

    @abstractmethod
    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """log p(y | f)."""

    @abstractmethod
    def gradient(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """d log p / df."""

    @abstractmethod
    def curvature(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """-d^2 log p / df^2, or a stand-in that is never negative: then information never falls."""

    @abstractmethod
    def is_valid(self, y: FloatArray) -> npt.NDArray[np.bool_]:
        """Which targets can occur at all."""

    @abstractmethod
    def conditional_mean(self, f: FloatArray) -> FloatArray:
        """E[y | f]."""

    @abstractmethod
    def conditional_variance(self, f: FloatArray) -> FloatArray:
        """Var[y | f]."""

    def check_targets(self, y: Any, first_row: int = 0) -> FloatArray:
        """Targets as an array of finite, valid numbers, or a sentence naming the first that is not.

        first_row is the number by which the first of these rows is known to whoever reads the sentence.
        """
        values = as_floats("y", y, 1)
        valid = self.is_valid(values)
        if not valid.all():
            where = int(np.argmin(valid))
            raise DataError(f"y[{first_row + where}] is {values[where]:g}: it {self.targets}")
        return values

    def expectations(self, y: float, mean: float, variance: float, likelihood_weight: float) -> tuple[float, float]:
        """The expected curvature a and gradient e under f ~ N(mean, variance), for one step from there.

        An implicit likelihood's are taken at the step's end N(m*, s*); its e is then e + a (m* - m), so that
        w a and w (a m + e) are what the observation adds to information and shift for every likelihood.
        """
        if self.kernel is not None:
            a, e = kernels.expectations(
                self.kernel.kind, self.kernel.parameters, float(y), mean, variance, likelihood_weight
            )
            return float(a), float(e)
        if self.is_implicit:
            return solve_implicit_step(self, y, mean, variance, likelihood_weight)
        return self.quadrature(y, mean, variance)

    def quadrature(self, y: float, mean: float, variance: float) -> tuple[float, float]:
        """E[curvature] and E[gradient] under f ~ N(mean, variance), by quadrature."""
        target, f = np.array(float(y)), spread(np.array(float(mean)), np.array(float(variance)))
        return float(np.sum(WEIGHTS * self.curvature(target, f))), float(np.sum(WEIGHTS * self.gradient(target, f)))

    def expected_log_density(self, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """E[log p(y | f)] under f ~ N(mean, variance)."""
        return self.log_density(y[..., None], spread(mean, variance)) @ WEIGHTS

    def log_predictive_density(self, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """log E[p(y | f)] under f ~ N(mean, variance)."""
        logs = self.log_density(y[..., None], spread(mean, variance))
        largest = logs.max(axis=-1)
        return largest + np.log(np.exp(logs - largest[..., None]) @ WEIGHTS)

    def predictive(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """E[y] and Var[y] under f ~ N(mean, variance), by the law of total variance."""
        f = spread(mean, variance)
        conditional = self.conditional_mean(f)
        expected: FloatArray = conditional @ WEIGHTS
        deviation = conditional - expected[..., None]
        return expected, (self.conditional_variance(f) + deviation**2) @ WEIGHTS


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
        return rate, rate + np.minimum(rate, 1e150) ** 2 * np.expm1(np.minimum(variance, 20.0))


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
            raise DataError(f"y has {values.shape[1]} column(s), but the precision matrix is for {self.outputs}")
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


def binary_entropy(probability: FloatArray) -> FloatArray:
    """The entropy of a class label, in nats."""
    return -xlogy(probability, probability) - xlogy(1 - probability, 1 - probability)
