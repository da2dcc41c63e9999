"""A map of 300 x 300 pixels from 1,500 centres without cutoff."""

import numpy as np

from benchmarks import numpy_reference
from benchmarks.measure import Result, Work, compare
from benchmarks.points import LOWER, UPPER, building_points
from service.inference.arrays import FloatArray
from service.inference.belief import DiagonalGaussian
from service.inference.centers import choose_random
from service.inference.conditioning import condition
from service.inference.features import CenterFeatures
from service.inference.likelihoods import Probit
from service.inference.raster import raster

CENTERS, LENGTHSCALE, LEARNED, PIXELS = 1500, 0.5, 2000, 300


def run() -> list[Result]:
    """Two matrix products, against all kernels at all pixels."""
    points = building_points()
    centers = choose_random(points.x, CENTERS, np.random.default_rng(0))
    features, likelihood = CenterFeatures(centers, LENGTHSCALE), Probit()
    prior = DiagonalGaussian.prior(features.feature_count, 0.2)
    belief = condition(prior, features.activate(points.x[:LEARNED]), points.y[:LEARNED], likelihood).belief
    x_axis, y_axis = (np.linspace(low, high, PIXELS) for low, high in zip(LOWER, UPPER, strict=True))

    def products() -> FloatArray:
        return raster(belief, features, likelihood, x_axis, y_axis).mean

    def chunks() -> FloatArray:
        gamma2 = 0.5 / LENGTHSCALE**2
        return numpy_reference.map_diagonal(belief.mean, belief.information, centers, gamma2, x_axis, y_axis)

    np.testing.assert_allclose(products(), chunks(), rtol=1e-9, atol=1e-12)
    return [
        compare(
            "raster, 300 x 300, 1,500 centres",
            Work("raster", products),
            Work("numpy in chunks", chunks),
            "map",
            target=40,
            repetitions=4,
            remark=points.remark,
        )
    ]
