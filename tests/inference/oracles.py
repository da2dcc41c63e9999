"""What must come out, straight from the equations: explicit inverses, plain loops, numeric integrals; all of it slow.

Nothing here calls the code under test. Natural parameters throughout: information Omega and shift eta = Omega mu.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal

Array = npt.NDArray[np.float64]
Curve = Callable[[float], float]
Expectations = Callable[[float, float, float, float], tuple[float, float]]  # (y, m, s, w) -> (a, e)

XI = 0.61
_HERMITE_NODES, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_HERMITE_WEIGHTS = _HERMITE_WEIGHTS / np.sqrt(2 * np.pi)


class Natural(NamedTuple):
    """A Gaussian's information, (d, d) or a diagonal (d,), and shift."""

    information: Array
    shift: Array


def kernel_features(x: Array, centers: Array, gamma2: Array, gamma1: float, cutoff: float | None = None) -> Array:
    """The dense matrix Phi, (rows, l + 1), by one loop over points and centres."""
    phi = np.zeros((len(x), len(centers) + 1))
    phi[:, 0] = 1.0
    for row, point in enumerate(x):
        for s, center in enumerate(centers):
            exponent = gamma2[s] * sum(float(difference) ** 2 for difference in point - center)
            if cutoff is None or exponent <= -np.log(cutoff):
                phi[row, s + 1] = gamma1 * np.exp(-exponent)
    return phi


def gaussian_expectation(g: Curve, mean: float, variance: float, *breaks: float) -> float:
    """E[g(f)], f ~ N(mean, variance), by adaptive integration, cut at the places where g bends most.

    Sixteen deviations to each side: what lies beyond counts for nothing, even where g grows like exp(2 f).
    """
    deviation = np.sqrt(variance)
    cuts = [(place + reach - mean) / deviation for place in breaks for reach in (-20, -5, -1, 0, 1, 5, 20)]
    edges = [-16.0, *sorted(cut for cut in set(cuts) if -16 < cut < 16), 16.0]

    def weighed(z: float) -> float:
        return float(np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi) * g(mean + deviation * z))

    total = 0.0
    for begin, end in itertools.pairwise(edges):
        part, error, *_ = quad(weighed, begin, end, epsabs=1e-14, epsrel=1e-13, limit=200, full_output=True)
        assert error < 1e-9 * max(1.0, abs(part))  # the integral vouches for itself
        total += part
    return total


def probit(y: float, m: float, s: float, w: float = 1.0) -> tuple[float, float]:
    """Lemma 5."""
    beta = 1 + XI**2 * s
    a = np.sqrt(XI**2 / (2 * np.pi * beta)) * np.exp(-0.5 * XI**2 * m**2 / beta)
    return float(a), float(y - ndtr(XI * m / np.sqrt(beta)))


def gaussian(precision: float) -> Expectations:
    """Lemma 7."""
    return lambda y, m, s, w: (precision, precision * (y - m))


def logistic(y: float, m: float, s: float, w: float = 1.0) -> tuple[float, float]:
    """The sigmoid's gradient and curvature, 64-point Gauss-Hermite."""
    f = m + np.sqrt(s) * _HERMITE_NODES
    return float(_HERMITE_WEIGHTS @ (expit(f) * expit(-f))), float(_HERMITE_WEIGHTS @ (y - expit(f)))


def student_t(degrees: float, scale: float) -> Expectations:
    """The heavy-tailed gradient and its non-negative curvature, 64-point Gauss-Hermite."""

    def expectations(y: float, m: float, s: float, w: float) -> tuple[float, float]:
        r = y - m - np.sqrt(s) * _HERMITE_NODES
        curvature = (degrees + 1) / (degrees * scale**2 + r**2)
        return float(_HERMITE_WEIGHTS @ curvature), float(_HERMITE_WEIGHTS @ (curvature * r))

    return expectations


def poisson(y: float, m: float, s: float, w: float) -> tuple[float, float]:
    """The implicit pair, as one equation in the log of the expected rate r = exp(m* + s*/2), by bisection.

    m* = m + s w (y - r), 1/s* = 1/s + w r. What is added to the shift is w (a m* + e) = w (a m + [e + a (m* - m)]).
    """

    def excess(u: float) -> float:
        r = np.exp(u)
        return float(u - (m + s * w * (y - r)) - 0.5 / (1 / s + w * r))

    low, high = min(m, 0.0) - 1.0, 1.0
    while excess(low) > 0:
        low *= 2
    while excess(high) < 0:
        high += 1
    u = brentq(excess, low, high, xtol=1e-15, rtol=1e-14)
    a = float(np.exp(u))
    m_star = u - 0.5 / (1 / s + w * a)
    return a, (y - a) + a * (m_star - m)


def condition_full(
    prior: Natural, phi: Array, y: Array, expectations: Expectations, w: float, invert_every: int = 1
) -> Natural:
    """One after the other, with an explicit inverse each: dOmega = w a Phi Phi^T, deta = w (a m + e) Phi.

    A large inverse may be made anew every few observations only, and corrected by rank one (Woodbury) in between;
    that it still was the inverse is checked before it is replaced.
    """
    omega, eta = prior.information.copy(), prior.shift.copy()
    sigma = np.linalg.inv(omega)
    for number, (row, target) in enumerate(zip(phi, y, strict=True), start=1):
        m, s = float(row @ sigma @ eta), float(row @ sigma @ row)
        a, e = expectations(float(target), m, s, w)
        omega = omega + w * a * np.outer(row, row)
        eta = eta + w * (a * m + e) * row
        sigma = sigma - w * a / (1 + w * a * s) * np.outer(sigma @ row, row @ sigma)
        if number % invert_every == 0:
            inverse = np.linalg.inv(omega)
            assert np.abs(sigma - inverse).max() <= 1e-11 * np.abs(inverse).max()
            sigma = inverse
    return Natural(omega, eta)


def condition_diagonal(
    prior: Natural, phi: Array, y: Array, expectations: Expectations, w: float, step: str
) -> Natural:
    """Lemma 6, and the projected step, as means and diagonals; the shift is D' mu' at the end."""
    d, mu = prior.information.copy(), prior.shift / prior.information
    for row, target in zip(phi, y, strict=True):
        m, s = float(row @ mu), float(np.sum(row**2 / d))
        a, e = expectations(float(target), m, s, w)
        updated = d + w * a * row**2
        moved = {"paper": w * e * row / updated, "projected": w * e * (row / d) / (1 + w * a * s)}
        d, mu = updated, mu + moved[step]
    return Natural(d, d * mu)


def bayes(prior: Natural, phi: Array, y: Array, precision: float) -> Natural:
    """The exact posterior of linear regression, all observations at once."""
    return Natural(prior.information + precision * phi.T @ phi, prior.shift + precision * phi.T @ y)


def vector_bayes(prior: Natural, phi: Array, y: Array, precision: Array, w: float = 1.0) -> Natural:
    """The exact posterior for vectors y: Phi = I_p (x) phi, dOmega = w Phi S Phi^T, deta = w Phi S y."""
    omega, eta = prior.information.copy(), prior.shift.copy()
    for row, target in zip(phi, y, strict=True):
        blocks = np.kron(np.eye(len(precision)), row[:, None])
        omega = omega + w * blocks @ precision @ blocks.T
        eta = eta + w * blocks @ precision @ target
    return Natural(omega, eta)


def mean_of(belief: Natural) -> Array:
    """mu = Omega^-1 eta."""
    return np.asarray(np.linalg.inv(as_matrix(belief.information)) @ belief.shift)


def as_matrix(information: Array) -> Array:
    """The information as a matrix, whichever the family."""
    return np.diag(information) if information.ndim == 1 else information


def kl(q: Natural, p: Natural) -> float:
    """KL(q || p) of two Gaussians, by explicit inverses."""
    omega_q, omega_p = as_matrix(q.information), as_matrix(p.information)
    difference = mean_of(p) - mean_of(q)
    ratio = omega_p @ np.linalg.inv(omega_q)
    return 0.5 * float(np.trace(ratio) - len(q.shift) + difference @ omega_p @ difference - np.linalg.slogdet(ratio)[1])


def log_evidence(prior: Natural, phi: Array, y: Array, noise: Array) -> float:
    """log p(y) of linear regression with noise of these variances: y is jointly normal."""
    covariance = phi @ np.linalg.inv(as_matrix(prior.information)) @ phi.T + np.diag(noise)
    return float(multivariate_normal(phi @ mean_of(prior), covariance).logpdf(y))
