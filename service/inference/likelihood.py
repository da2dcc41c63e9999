"""What inference needs of a likelihood, and how to add one.

An observation y depends on the parameters through f = Phi_x^T theta alone. So all that inference needs are integrals in
one dimension, over f ~ N(m, s): the expected gradient e = E[d log p / df] and the expected curvature
a = E[-d^2 log p / df^2], or a non-negative stand-in for it. Where they have no closed form, 64-point Gauss-Hermite
quadrature gives them.

To add one, derive from `Likelihood` and write its log-density, gradient, curvature, valid targets, conditional mean and
conditional variance; `docs/likelihoods.md` has an example. Functions take arrays and work elementwise.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from service.errors import TargetError
from service.inference import kernels
from service.inference.arrays import FloatArray, as_floats
from service.inference.implicit import solve_implicit_step
from service.inference.quadrature import WEIGHTS, spread


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
            raise TargetError(f"y[{first_row + where}] is {values[where]:g}: it {self.targets}")
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
