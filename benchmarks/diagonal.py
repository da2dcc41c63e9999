"""Conditioning a diagonal belief on all of 1,500 centres, a batch of 100 at a time."""

import numpy as np

from benchmarks import numpy_reference
from benchmarks.measure import Result, Work, compare
from benchmarks.points import building_points
from service.inference.arrays import FloatArray
from service.inference.belief import DiagonalGaussian
from service.inference.centers import choose_random
from service.inference.conditioning import condition
from service.inference.features import CenterFeatures
from service.inference.likelihoods import Probit

CENTERS, LENGTHSCALE, BATCH = 1500, 0.5, 100
REPETITIONS = 40  # of a millisecond each: a short one is easily disturbed


def run() -> list[Result]:
    """Against numpy as one writes it, and against numpy that leaves the distances to scipy."""
    points = building_points()
    x, y = points.x[:BATCH], points.y[:BATCH]
    centers = choose_random(points.x, CENTERS, np.random.default_rng(0))
    features = CenterFeatures(centers, LENGTHSCALE)
    prior = DiagonalGaussian.prior(features.feature_count, 0.2)
    gamma2 = 0.5 / LENGTHSCALE**2

    def kernels() -> DiagonalGaussian:
        belief = condition(prior, features.activate(x), y, Probit()).belief
        assert isinstance(belief, DiagonalGaussian)
        return belief

    def numpy(distances: numpy_reference.Distances) -> tuple[FloatArray, FloatArray]:
        return numpy_reference.condition_diagonal(
            prior.mean, prior.information, x, y, centers, gamma2, distances=distances
        )

    clear, careful = numpy_reference.squared_distances, numpy_reference.squared_distances_by_scipy
    mean, information = numpy(clear)
    np.testing.assert_allclose(kernels().mean, mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kernels().information, information, rtol=1e-9)
    ours = Work("activate + condition", kernels, BATCH)
    return [
        compare(
            "diagonal, 1,500 centres",
            ours,
            Work("clear numpy", lambda: numpy(clear), BATCH),
            "observation",
            target=6,
            repetitions=REPETITIONS,
            remark=points.remark,
        ),
        compare(
            "diagonal, 1,500 centres",
            ours,
            Work("numpy, distances by scipy", lambda: numpy(careful), BATCH),
            "observation",
            repetitions=REPETITIONS,
            remark=points.remark,
        ),
    ]
