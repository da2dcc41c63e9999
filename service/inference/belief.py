"""Gaussian beliefs over theta in natural parameters.

A belief N(mu, Omega^-1) is kept as its information Omega and its shift eta = Omega mu, because then all that happens
to a belief is a sum: mixing is a weighted average of (Omega, eta), an observation adds to both, and what has been
learned since the prior, the evidence, is a difference.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from scipy.linalg import solve_triangular

from service.errors import ModelError, NumericalError
from service.inference.arrays import FloatArray, as_floats, frozen, owned

Family = Literal["diagonal", "full"]

LOG_TWO_PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What observations add to a belief: information, (d,) or (d, d), and shift, (d,). Absent means zero."""

    information: FloatArray
    shift: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "information", frozen(self.information))
        object.__setattr__(self, "shift", frozen(self.shift))

    def __add__(self, other: "Evidence") -> "Evidence":
        check_alike(self, other)
        return Evidence(owned(self.information + other.information), owned(self.shift + other.shift))

    def __mul__(self, factor: float) -> "Evidence":
        return Evidence(owned(self.information * factor), owned(self.shift * factor))


@dataclass(frozen=True, eq=False)
class Belief(ABC):
    """A Gaussian N(mu, Omega^-1) as information Omega and shift eta = Omega mu; immutable, always finite."""

    information: FloatArray
    shift: FloatArray

    _information_dimensions: ClassVar[int]

    def __post_init__(self) -> None:
        information = as_floats("information", self.information, self._information_dimensions, NumericalError)
        shift = as_floats("shift", self.shift, 1, NumericalError)
        if information.shape != shift.shape * self._information_dimensions:
            raise NumericalError(f"information {information.shape} does not belong to a shift of {shift.shape}")
        object.__setattr__(self, "information", frozen(information))
        object.__setattr__(self, "shift", frozen(shift))
        self._check_positive()

    @classmethod
    def prior(cls, dimension: int, information: float, mean: float = 0.0) -> Self:
        """The same information and mean for every parameter."""
        if not (np.isfinite(information) and information > 0):
            raise ModelError(f"prior information must be a positive number, not {information}")
        if not np.isfinite(mean):
            raise ModelError(f"prior mean must be finite, not {mean}")
        diagonal = np.full(dimension, float(information))
        return cls(cls._from_diagonal(diagonal), diagonal * mean)

    @classmethod
    def computed(cls, information: FloatArray, shift: FloatArray) -> Self:
        """A belief of arrays just made out of a checked belief's: only overflow can have spoilt them."""
        if not (np.isfinite(information).all() and np.isfinite(shift).all()):
            raise NumericalError("the belief overflowed: a likelihood weight, precision or target is far too large")
        belief = object.__new__(cls)
        object.__setattr__(belief, "information", owned(information))
        object.__setattr__(belief, "shift", owned(shift))
        return belief

    @property
    def dimension(self) -> int:
        """The number of parameters, d."""
        return int(self.shift.size)

    def minus(self, other: "Belief") -> Evidence:
        """The evidence that leads from the other belief to this one."""
        check_alike(self, other)
        return Evidence(owned(self.information - other.information), owned(self.shift - other.shift))

    def plus(self, evidence: Evidence) -> Self:
        """This belief with evidence added."""
        check_alike(self, evidence)
        return type(self)(self.information + evidence.information, self.shift + evidence.shift)

    @property
    def log_normalizer(self) -> float:
        """log of the integral of exp(-theta^T Omega theta / 2 + eta^T theta)."""
        return 0.5 * (float(self.shift @ self.mean) - self.log_determinant + self.dimension * LOG_TWO_PI)

    @property
    def entropy(self) -> float:
        """The differential entropy in nats."""
        return 0.5 * (self.dimension * (1.0 + LOG_TWO_PI) - self.log_determinant)

    def log_density(self, theta: FloatArray) -> FloatArray:
        """log q(theta) for theta of shape (..., d)."""
        if theta.shape[-1:] != self.shift.shape:
            raise NumericalError(f"theta of shape {theta.shape} is not of {self.dimension} parameters")
        quadratic: FloatArray = np.sum(theta * (0.5 * self._times_information(theta) - self.shift), axis=-1)
        return -quadratic - self.log_normalizer

    @property
    @abstractmethod
    def mean(self) -> FloatArray:
        """mu = Omega^-1 eta, shape (d,)."""

    @property
    @abstractmethod
    def variance(self) -> FloatArray:
        """The marginal variances diag(Omega^-1), shape (d,)."""

    @property
    @abstractmethod
    def log_determinant(self) -> float:
        """log |Omega|."""

    @abstractmethod
    def sample(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Draws of theta, shape (count, d)."""

    @abstractmethod
    def trace_with(self, other: Self) -> float:
        """tr(Omega_other Omega_self^-1), for the divergence."""

    @abstractmethod
    def _times_information(self, theta: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _check_positive(self) -> None: ...

    @staticmethod
    @abstractmethod
    def _from_diagonal(diagonal: FloatArray) -> FloatArray: ...


class DiagonalGaussian(Belief):
    """A belief whose information matrix is diagonal: information of shape (d,)."""

    _information_dimensions = 1

    @cached_property
    def mean(self) -> FloatArray:
        return owned(self.shift / self.information)

    @cached_property
    def variance(self) -> FloatArray:
        return owned(1.0 / self.information)

    @property
    def log_determinant(self) -> float:
        return float(np.log(self.information).sum())

    def sample(self, generator: np.random.Generator, count: int) -> FloatArray:
        return self.mean + generator.standard_normal((count, self.dimension)) * np.sqrt(self.variance)

    def trace_with(self, other: "DiagonalGaussian") -> float:
        return float((other.information / self.information).sum())

    def _times_information(self, theta: FloatArray) -> FloatArray:
        return theta * self.information

    def _check_positive(self) -> None:
        if not (self.information > 0).all():
            where = int(np.argmin(self.information))
            raise NumericalError(f"information[{where}] is {self.information[where]}: it must be positive")

    @staticmethod
    def _from_diagonal(diagonal: FloatArray) -> FloatArray:
        return diagonal


class FullGaussian(Belief):
    """A belief with every correlation: information of shape (d, d), symmetric, positive definite."""

    _information_dimensions = 2

    @cached_property
    def factor(self) -> FloatArray:
        """The lower Cholesky factor L of the information, L L^T = Omega."""
        try:
            factor: FloatArray = np.linalg.cholesky(self.information).astype(np.float64, copy=False)
            return owned(factor)  # unlike scipy's, it lets other threads run meanwhile
        except np.linalg.LinAlgError:
            raise NumericalError("the information matrix is not positive definite") from None

    @cached_property
    def mean(self) -> FloatArray:
        return owned(self.solve(self.whiten(self.shift)))

    @cached_property
    def variance(self) -> FloatArray:
        return owned(np.square(self.whiten(np.eye(self.dimension))).sum(axis=0))

    @cached_property
    def covariance(self) -> FloatArray:
        """Omega^-1, shape (d, d); for reporting only: the arithmetic uses the factor."""
        whitened = self.whiten(np.eye(self.dimension))
        return owned(whitened.T @ whitened)

    @property
    def log_determinant(self) -> float:
        return 2.0 * float(np.log(np.diagonal(self.factor)).sum())

    def whiten(self, columns: FloatArray) -> FloatArray:
        """L^-1 times columns of shape (d,) or (d, k)."""
        whitened: FloatArray = solve_triangular(self.factor, columns, lower=True, check_finite=False)
        return whitened

    def solve(self, whitened: FloatArray) -> FloatArray:
        """L^-T times columns of shape (d,) or (d, k)."""
        solved: FloatArray = solve_triangular(self.factor, whitened, lower=True, trans="T", check_finite=False)
        return solved

    def sample(self, generator: np.random.Generator, count: int) -> FloatArray:
        return self.mean + self.solve(generator.standard_normal((self.dimension, count))).T

    def trace_with(self, other: "FullGaussian") -> float:
        return float(np.square(self.whiten(other.factor)).sum())

    def _times_information(self, theta: FloatArray) -> FloatArray:
        return theta @ self.information

    def _check_positive(self) -> None:
        if not (np.diagonal(self.information) > 0).all():
            raise NumericalError("the information matrix is not positive definite: its diagonal must be positive")
        asymmetry = np.abs(self.information - self.information.T).max(initial=0.0)
        if asymmetry > 1e-9 * np.abs(self.information).max(initial=0.0):
            raise NumericalError(f"the information matrix is not symmetric: entries differ by up to {asymmetry:.3g}")
        _ = self.factor  # it exists for a positive definite matrix only, and is needed anyway

    @staticmethod
    def _from_diagonal(diagonal: FloatArray) -> FloatArray:
        return np.diag(diagonal)


def check_alike(one: Belief | Evidence, other: Belief | Evidence) -> None:
    """Refuse two things of different sizes or families, which arithmetic would otherwise stretch to fit."""
    if one.information.shape != other.information.shape or one.shift.shape != other.shift.shape:
        raise NumericalError(
            f"information of shapes {one.information.shape} and {other.information.shape} does not go together"
        )


FAMILIES: dict[Family, type[DiagonalGaussian] | type[FullGaussian]] = {
    "diagonal": DiagonalGaussian,
    "full": FullGaussian,
}


def kl_divergence(q: Belief, p: Belief) -> float:
    """KL(q || p) of two beliefs of one family, in nats.

    2 KL = tr(Omega_p Omega_q^-1) - d + (mu_p - mu_q)^T Omega_p (mu_p - mu_q) + log |Omega_q| - log |Omega_p|
    """
    if type(q) is not type(p) or q.dimension != p.dimension:
        raise NumericalError("only beliefs of one family and as many parameters have a divergence")
    difference = p.mean - q.mean
    quadratic = float(difference @ p._times_information(difference))
    divergence = q.trace_with(p) - q.dimension + quadratic + q.log_determinant - p.log_determinant
    return max(0.5 * divergence, 0.0)
