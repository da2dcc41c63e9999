"""The implicit step of one observation, for any likelihood: gradient and curvature taken where the step ends.

    m* = m + s w e(m*, s*),   1 / s* = 1 / s + w a(m*, s*)

is where  w E[log p(y | f)] - KL(N(m*, s*) || N(m, s))  is largest over N(m*, s*). Because curvature is never negative,
the second equation has a solution s* in (0, s] for every m*; with it, the first is one equation in m*, and for a
log-concave likelihood an increasing one. Both are solved inside brackets, so that no start is too wide.
"""

from collections.abc import Callable
from math import exp, log, sqrt
from typing import TYPE_CHECKING

from service.errors import NumericalError

if TYPE_CHECKING:
    from service.inference.likelihood import Likelihood

_MOST_DOUBLINGS = 60
_TOLERANCE = 1e-12


def solve_implicit_step(
    likelihood: "Likelihood", y: float, mean: float, variance: float, likelihood_weight: float
) -> tuple[float, float]:
    """Curvature a and effective gradient e + a (m* - m) of the implicit step from N(mean, variance)."""

    def settled_variance(m: float) -> float:
        """s* for a given m*."""

        def excess(log_s: float) -> float:
            a, _ = likelihood.quadrature(y, m, exp(log_s))
            return exp(-log_s) - 1.0 / variance - likelihood_weight * a

        return exp(_root_below(excess, log(variance)))

    def excess(m: float) -> float:
        _, e = likelihood.quadrature(y, m, settled_variance(m))
        return m - mean - variance * likelihood_weight * e

    m = _root_beside(excess, mean, sqrt(variance))
    s = settled_variance(m)
    a, _ = likelihood.quadrature(y, m, s)
    gradient = (m - mean) / (variance * likelihood_weight)
    return a, gradient + a * (m - mean)


def _root_below(function: Callable[[float], float], start: float) -> float:
    """Where the function, not above zero at the start, rises through zero below it."""
    if function(start) >= 0:
        return start
    return _root_beside(function, start, -1.0)


def _root_beside(function: Callable[[float], float], start: float, step: float) -> float:
    """A zero of the function, looked for from the start in steps that double; upwards first if it is below zero."""
    from scipy.optimize import brentq  # 17 MB that agents need only for likelihoods of their users' own

    value = function(start)
    if value == 0:
        return start
    step = abs(step) if value < 0 and step > 0 else -abs(step)
    begin = start
    for _ in range(_MOST_DOUBLINGS):
        end = begin + step
        if function(end) * value <= 0:
            return float(brentq(function, begin, end, xtol=_TOLERANCE, rtol=_TOLERANCE))
        begin, step = end, 2.0 * step
    raise NumericalError("the implicit step of an observation has no end: is the likelihood log-concave?")
