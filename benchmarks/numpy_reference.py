"""The paper in clear numpy, straight from its equations: what the library is measured against.

Probit likelihood (Lemma 5), one observation after the other, each with the arrays that the equations name: mean mu,
information D (diagonal family) or Omega (full), and centres with one gamma2 = 1 / (2 lengthscale^2) for all.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtr

from service.inference.arrays import FloatArray

XI = 0.61

Distances = Callable[[FloatArray, FloatArray], FloatArray]


def squared_distances(x: FloatArray, centers: FloatArray) -> FloatArray:
    """|x - c|^2 of one point (dimension,) from every centre, as one writes it: shape (l,)."""
    return ((centers - x) ** 2).sum(axis=1)


def squared_distances_by_scipy(x: FloatArray, centers: FloatArray) -> FloatArray:
    """The same in compiled code: summing pairs of numbers along rows is what numpy is slowest at."""
    return np.asarray(cdist(x[None], centers, "sqeuclidean")[0])


def features(x: FloatArray, centers: FloatArray, gamma2: float, distances: Distances = squared_distances) -> FloatArray:
    """Phi_x = [1, exp(-gamma2 |x - c_1|^2), ...], shape (l + 1,)."""
    return np.concatenate(([1.0], np.exp(-gamma2 * distances(x, centers))))


def curvature_and_gradient(y: float, m: float, s: float) -> tuple[float, float]:
    """Lemma 5's a and e for a label y under Phi^T theta ~ N(m, s)."""
    beta = 1 + XI**2 * s
    a = np.sqrt(XI**2 / (2 * np.pi * beta)) * np.exp(-0.5 * XI**2 * m**2 / beta)
    return a, y - ndtr(XI * m / np.sqrt(beta))


def condition_diagonal(
    mean: FloatArray,
    information: FloatArray,
    x: FloatArray,
    y: FloatArray,
    centers: FloatArray,
    gamma2: float,
    likelihood_weight: float = 1.0,
    distances: Distances = squared_distances,
) -> tuple[FloatArray, FloatArray]:
    """Mean and information of the diagonal family after the observations (Lemma 6).

    D' = D + w a Phi^2,  mu' = mu + w e Phi / D'
    """
    for point, label in zip(x, y, strict=True):
        phi = features(point, centers, gamma2, distances)
        m = float(phi @ mean)
        s = float((phi**2 / information).sum())
        a, e = curvature_and_gradient(label, m, s)
        information = information + likelihood_weight * a * phi**2
        mean = mean + likelihood_weight * e * phi / information
    return mean, information


def mix_full(
    means: Sequence[FloatArray], informations: Sequence[FloatArray], mixing_weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and information of the full family's weighted geometric average (Lemma 3)."""
    information = sum(weight * other for weight, other in zip(mixing_weights, informations, strict=True))
    pairs = zip(mixing_weights, informations, means, strict=True)
    shift = sum(weight * other @ mean for weight, other, mean in pairs)
    return np.linalg.solve(information, shift), np.asarray(information)


def condition_full(
    mean: FloatArray,
    information: FloatArray,
    x: FloatArray,
    y: FloatArray,
    centers: FloatArray,
    gamma2: float,
    likelihood_weight: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Mean and information of the full family after the observations (Lemma 5), with an inverse for each.

    Omega' = Omega + w a Phi Phi^T,  mu' = mu + w e Omega'^-1 Phi
    """
    covariance = np.linalg.inv(information)
    for point, label in zip(x, y, strict=True):
        phi = features(point, centers, gamma2)
        m, s = float(phi @ mean), float(phi @ covariance @ phi)
        a, e = curvature_and_gradient(label, m, s)
        information = information + likelihood_weight * a * np.outer(phi, phi)
        covariance = np.linalg.inv(information)
        mean = mean + likelihood_weight * e * covariance @ phi
    return mean, information


def condition_full_by_rank_one(
    mean: FloatArray,
    information: FloatArray,
    x: FloatArray,
    y: FloatArray,
    centers: FloatArray,
    gamma2: float,
    likelihood_weight: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """The same with one inverse for all observations, corrected by Woodbury's formula for each.

    Omega'^-1 = Omega^-1 - w a / (1 + w a s) v v^T,  v = Omega^-1 Phi
    """
    covariance = np.linalg.inv(information)
    for point, label in zip(x, y, strict=True):
        phi = features(point, centers, gamma2)
        v = covariance @ phi
        m, s = float(phi @ mean), float(phi @ v)
        a, e = curvature_and_gradient(label, m, s)
        information = information + likelihood_weight * a * np.outer(phi, phi)
        shrunk = 1 + likelihood_weight * a * s
        covariance = covariance - likelihood_weight * a / shrunk * np.outer(v, v)
        mean = mean + likelihood_weight * e / shrunk * v
    return mean, information


def map_diagonal(
    mean: FloatArray,
    information: FloatArray,
    centers: FloatArray,
    gamma2: float,
    x_axis: FloatArray,
    y_axis: FloatArray,
    pixels_at_once: int = 1000,
) -> FloatArray:
    """P(y = 1) at all pixels, shape (rows of y, columns of x), some pixels at a time to bound the memory."""
    pixels = np.stack(np.meshgrid(x_axis, y_axis), axis=-1).reshape(-1, 2)
    variance = 1 / information
    probabilities = []
    for begin in range(0, len(pixels), pixels_at_once):
        phi = np.exp(-gamma2 * cdist(pixels[begin : begin + pixels_at_once], centers, "sqeuclidean"))
        m = mean[0] + phi @ mean[1:]
        s = variance[0] + phi**2 @ variance[1:]
        probabilities.append(ndtr(XI * m / np.sqrt(1 + XI**2 * s)))
    return np.concatenate(probabilities).reshape(len(y_axis), len(x_axis))
