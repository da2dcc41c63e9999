"""A stream through the Intel lattice: 40,401 centres, some fifty of them active, batches of 100."""

from dataclasses import replace

import numpy as np

from benchmarks import numpy_reference
from benchmarks.measure import Figure, Result, Work, compare
from benchmarks.points import building_points, intel_lattice
from service.inference.arrays import FloatArray
from service.inference.belief import DiagonalGaussian
from service.inference.conditioning import condition_stack
from service.inference.likelihoods import Probit
from service.inference.stack import BeliefStack

STREAMED, DENSE, BATCH = 50_000, 20, 100


def run() -> list[Result]:
    """Against numpy with all centres, and the observations per second of one core."""
    points = building_points()
    features, likelihood = intel_lattice(), Probit()
    prior = DiagonalGaussian.prior(features.feature_count, 0.2)
    centers, gamma2 = features.centers, float(features.gamma2[0])
    streamed = min(STREAMED, len(points.y) // BATCH * BATCH)

    def stream(count: int) -> BeliefStack:
        stack = BeliefStack.of([prior])
        for begin in range(0, count, BATCH):
            end = min(begin + BATCH, count)
            activations = features.activate(points.x[begin:end])
            condition_stack(stack, activations, points.y[begin:end], np.array([0, end - begin]), [likelihood])
        return stack

    def dense(distances: numpy_reference.Distances) -> tuple[FloatArray, FloatArray]:
        x, y = points.x[:DENSE], points.y[:DENSE]
        return numpy_reference.condition_diagonal(
            prior.mean, prior.information, x, y, centers, gamma2, distances=distances
        )

    clear, careful = numpy_reference.squared_distances, numpy_reference.squared_distances_by_scipy
    mean, information = dense(clear)
    local = stream(DENSE)[0]
    # The cutoff leaves out kernel values below 1e-6, which a step divides by the prior information of 0.2.
    np.testing.assert_allclose(local.information, information, rtol=0, atol=1e-6)
    np.testing.assert_allclose(local.mean, mean, rtol=0, atol=1e-5)
    ours = Work("activate + condition_stack", lambda: stream(streamed), streamed)
    result = compare(
        "lattice, 40,401 centres",
        ours,
        Work("clear numpy, dense", lambda: dense(clear), DENSE),
        "observation",
        target=400,
        remark=points.remark,
    )
    throughput = Figure("on one core", 1 / result.ours_amount, "observations/s", 300_000)
    return [
        replace(result, figures=(throughput,)),
        compare(
            "lattice, 40,401 centres",
            ours,
            Work("numpy, dense, distances by scipy", lambda: dense(careful), DENSE),
            "observation",
            remark=points.remark,
        ),
    ]
