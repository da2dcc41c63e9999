"""Expectations under a one-dimensional Gaussian, by Gauss-Hermite quadrature.

E[g(f)], f ~ N(m, s), is sum_k WEIGHTS[k] g(m + sqrt(s) NODES[k]). With 64 points it is exact for polynomials up to
degree 127; `docs/math.md` has the measured error for the likelihoods that use it.
"""

import numpy as np

from service.inference.arrays import FloatArray, owned

POINTS = 64

_nodes, _weights = np.polynomial.hermite.hermgauss(POINTS)
NODES: FloatArray = owned(np.sqrt(2.0) * _nodes)
WEIGHTS: FloatArray = owned(_weights / np.sqrt(np.pi))


def spread(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """The points at which to evaluate g: shape (..., 64) for means and variances of shape (...)."""
    return mean[..., None] + np.sqrt(variance)[..., None] * NODES
