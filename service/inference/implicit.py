"""The implicit step of one observation, for any likelihood: gradient and curvature taken where the step ends.

    m* = m + s w e(m*, s*),   1 / s* = 1 / s + w a(m*, s*)

is where  w E[log p(y | f)] - KL(N(m*, s*) || N(m, s))  is largest over N(m*, s*). It is found by steps towards
(1 / s + w a, m / s + w (a m* + e)) in natural parameters, halved while they do not climb.
"""

from math import log
from typing import TYPE_CHECKING

import numpy as np

from service.errors import NumericalError

if TYPE_CHECKING:
    from service.inference.likelihoods import Likelihood

_MOST_STEPS = 500
_TOLERANCE = 1e-13


def solve_implicit_step(
    likelihood: "Likelihood", y: float, mean: float, variance: float, likelihood_weight: float
) -> tuple[float, float]:
    """Curvature a and effective gradient e + a (m* - m) of the implicit step from N(mean, variance)."""
    target = np.array(float(y))

    def climbed(m: float, s: float) -> float:
        expected = float(likelihood.expected_log_density(target, np.array(m), np.array(s)))
        divergence = 0.5 * (s / variance + (m - mean) ** 2 / variance - 1.0 + log(variance / s))
        return likelihood_weight * expected - divergence

    m, s = mean, variance
    height = climbed(m, s)
    for _ in range(_MOST_STEPS):
        a, e = likelihood.quadrature(y, m, s)
        information = 1.0 / variance + likelihood_weight * a
        shift = mean / variance + likelihood_weight * (a * m + e)
        fraction = 1.0
        while True:
            ahead_information = (1.0 - fraction) / s + fraction * information
            ahead_s = 1.0 / ahead_information
            ahead_m = ((1.0 - fraction) * m / s + fraction * shift) * ahead_s
            ahead_height = climbed(ahead_m, ahead_s)
            moved = abs(ahead_m - m) / np.sqrt(s) + abs(ahead_s / s - 1.0)
            if ahead_height >= height or moved <= _TOLERANCE:
                break
            fraction *= 0.5
        if moved <= 1e-9 and ahead_height <= height + 1e-14 * abs(height):
            break  # at the top, as far as the objective's digits show
        m, s, height = ahead_m, ahead_s, ahead_height
    else:
        raise NumericalError(f"the implicit step for y = {y} from N({mean:.3g}, {variance:.3g}) did not converge")
    a, e = likelihood.quadrature(y, m, s)
    return a, e + a * (m - mean)
