"""A round of the full family at 500 centres: mix with three neighbors, then a batch of 100 labels."""

from collections.abc import Callable

import numpy as np

from benchmarks import numpy_reference
from benchmarks.measure import Result, Work, compare
from benchmarks.points import building_points
from service.inference.arrays import FloatArray
from service.inference.belief import Belief, FullGaussian
from service.inference.centers import choose_random
from service.inference.conditioning import condition
from service.inference.features import CenterFeatures
from service.inference.likelihoods import Probit
from service.inference.round import RoundRule, advance

CENTERS, LENGTHSCALE, BATCH, AGENTS = 500, 1.0, 100, 4


def run() -> list[Result]:
    """One Cholesky for the batch, against an explicit inverse and against a rank-one correction per observation."""
    points = building_points()
    batches = [slice(agent * BATCH, (agent + 1) * BATCH) for agent in range(AGENTS + 1)]
    centers = choose_random(points.x, CENTERS, np.random.default_rng(0))
    features = CenterFeatures(centers, LENGTHSCALE)
    prior = FullGaussian.prior(features.feature_count, 0.2)
    rule, likelihood = RoundRule(prior, likelihood_weight=float(AGENTS)), Probit()
    beliefs: list[Belief] = [
        condition(prior, features.activate(points.x[rows]), points.y[rows], likelihood).belief
        for rows in batches[:AGENTS]
    ]
    mixing_weights = np.full(AGENTS, 1 / AGENTS)
    x, y = points.x[batches[-1]], points.y[batches[-1]]
    means, informations = [belief.mean for belief in beliefs], [belief.information for belief in beliefs]

    def ours() -> Belief:
        return advance(beliefs[0], beliefs[1:], mixing_weights, features.activate(x), y, likelihood, rule).belief

    def numpy(conditioned: Callable[..., tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
        mean, information = numpy_reference.mix_full(means, informations, mixing_weights)
        return conditioned(mean, information, x, y, centers, 0.5 / LENGTHSCALE**2, rule.likelihood_weight)

    by_inverses, by_rank_one = numpy_reference.condition_full, numpy_reference.condition_full_by_rank_one
    for mean, information in (numpy(by_inverses), numpy(by_rank_one)):
        np.testing.assert_allclose(ours().information, information, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(ours().mean, mean, rtol=1e-7, atol=1e-8)
    unit = f"round of {BATCH} observations"
    return [
        compare(
            "full, 500 centres, a round of 100",
            Work("activate + advance", ours),
            Work("numpy, an inverse each", lambda: numpy(by_inverses)),
            unit,
            target=10,
            repetitions=4,
            remark=points.remark,
        ),
        compare(
            "full, 500 centres, a round of 100",
            Work("activate + advance", ours),
            Work("numpy, a rank-one correction each", lambda: numpy(by_rank_one)),
            unit,
            remark=points.remark,
        ),
    ]
