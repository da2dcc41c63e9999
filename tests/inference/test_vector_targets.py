"""Vectors y with a precision matrix: exact Bayes over I_p (x) phi, its diagonal, and predictive covariances."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal

from service.errors import ModelError
from service.inference.activations import Activations
from service.inference.belief import Belief, Family, FullGaussian
from service.inference.conditioning import DiagonalStep, condition
from service.inference.likelihoods import Gaussian, VectorGaussian
from service.inference.objective import expected_log_likelihood
from service.inference.prediction import predict
from service.inference.round import RoundRule, advance_network
from service.inference.stack import BeliefStack
from tests.inference.builders import assert_same, belief_with, center_features, natural, points, starts_of
from tests.inference.oracles import Array, Natural, as_matrix, mean_of, vector_bayes

PRECISION = np.array([[4.0, 1.0, 0.5], [1.0, 2.0, -0.3], [0.5, -0.3, 1.5]])
OUTPUTS = len(PRECISION)
FEATURES = 7
LIKELIHOOD = VectorGaussian(PRECISION)
both_families = pytest.mark.parametrize("family", ["diagonal", "full"])
either_cutoff = pytest.mark.parametrize("cutoff", [None, 1e-2])


def batch(count: int, cutoff: float | None = None) -> tuple[Activations, Array]:
    generator = np.random.default_rng(1)
    features = center_features(generator, FEATURES - 1, cutoff=cutoff)
    return features.activate(points(generator, count)), generator.standard_normal((count, OUTPUTS))


def some_belief(family: Family) -> Belief:
    return belief_with(np.random.default_rng(2), family, OUTPUTS * FEATURES)


@either_cutoff
def test_a_full_batch_of_vectors_is_exact_bayes(cutoff: float | None) -> None:
    activations, y = batch(300, cutoff)
    covered = activations.covered
    belief = some_belief("full")
    expected = vector_bayes(natural(belief), activations.dense()[covered], y[covered], PRECISION, w=2.0)
    assert_same(condition(belief, activations, y, LIKELIHOOD, 2.0).belief, expected, 1e-12)


def test_agents_with_vectors_average_to_the_centralised_posterior() -> None:
    activations, y = batch(9)
    prior = FullGaussian.prior(OUTPUTS * FEATURES, 0.2)
    likelihoods = [LIKELIHOOD, VectorGaussian(2 * PRECISION), LIKELIHOOD]
    stack, _ = advance_network(
        BeliefStack.of([prior] * 3),
        csr_array(np.eye(3)),
        activations,
        y,
        starts_of([3, 3, 3]),
        likelihoods,
        RoundRule(prior, likelihood_weight=3),
    )
    expected = natural(prior)
    for agent, likelihood in enumerate(likelihoods):
        rows = slice(3 * agent, 3 * agent + 3)
        expected = vector_bayes(expected, activations.dense()[rows], y[rows], likelihood.precision)
    assert_same(Natural(stack.information.mean(axis=0), stack.shift.mean(axis=0)), expected, 1e-12)


def plain_diagonal_loop(belief: Belief, phi: Array, y: Array, w: float, step: str) -> Natural:
    """Per observation: dD of block r is w S_rr phi^2; the mean by the paper's step, or the exact mean of one."""
    d, mu = belief.information.copy(), belief.shift / belief.information
    for row, target in zip(phi, y, strict=True):
        blocks = np.kron(np.eye(OUTPUTS), row[:, None])
        gained = w * np.concatenate([PRECISION[r, r] * row**2 for r in range(OUTPUTS)])
        if step == "paper":
            mu = mu + w * blocks @ PRECISION @ (target - blocks.T @ mu) / (d + gained)
        else:
            mu = mean_of(vector_bayes(Natural(np.diag(d), d * mu), row[None], target[None], PRECISION, w))
        d = d + gained
    return Natural(d, d * mu)


@either_cutoff
@pytest.mark.parametrize(("step", "count"), [("paper", 2), ("projected", 1), ("projected", 40)])
def test_a_diagonal_batch_of_vectors_is_the_plain_loop(step: DiagonalStep, count: int, cutoff: float | None) -> None:
    activations, y = batch(count, cutoff)
    covered = activations.covered
    belief = some_belief("diagonal")
    expected = plain_diagonal_loop(belief, activations.dense()[covered], y[covered], 1.7, step)
    assert_same(condition(belief, activations, y, LIKELIHOOD, 1.7, step).belief, expected, 1e-11)


@both_families
def test_chunks_of_vectors_equal_the_whole(family: Family) -> None:
    activations, y = batch(20)
    belief = some_belief(family)
    whole = condition(belief, activations, y, LIKELIHOOD, 2.0, "projected").belief
    for begin, end in ((0, 1), (1, 8), (8, 20)):
        belief = condition(belief, activations.rows(begin, end), y[begin:end], LIKELIHOOD, 2.0, "projected").belief
    assert_same(belief, whole, 1e-11)


@both_families
def test_the_predictive_covariance_is_the_latent_one_plus_the_noise(family: Family) -> None:
    activations, _ = batch(5)
    belief = some_belief(family)
    prediction = predict(belief, activations, LIKELIHOOD)
    sigma = np.linalg.inv(as_matrix(belief.information))
    for row, phi in enumerate(activations.dense()):
        blocks = np.kron(np.eye(OUTPUTS), phi[:, None])
        latent = blocks.T @ sigma @ blocks
        np.testing.assert_allclose(prediction.mean[row], blocks.T @ sigma @ belief.shift, rtol=1e-10)
        np.testing.assert_allclose(prediction.latent_variance[row], latent, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(prediction.variance[row], latent + np.linalg.inv(PRECISION), rtol=1e-10, atol=1e-12)


def test_vector_log_densities_are_those_of_scipy() -> None:
    activations, y = batch(4)
    belief = some_belief("full")
    prediction = predict(belief, activations, LIKELIHOOD)
    m, s = prediction.latent_mean, prediction.latent_variance
    noise = np.linalg.inv(PRECISION)
    plain = [multivariate_normal(m[row], noise).logpdf(y[row]) for row in range(4)]
    np.testing.assert_allclose(LIKELIHOOD.log_density(y, m), plain, rtol=1e-12)
    predictive = [multivariate_normal(m[row], noise + s[row]).logpdf(y[row]) for row in range(4)]
    np.testing.assert_allclose(LIKELIHOOD.log_predictive_density(y, m, s), predictive, rtol=1e-12)
    # E[-(y - f)^T S (y - f) / 2] is that at the mean less tr(S Var[f]) / 2.
    expected = sum(plain[row] - 0.5 * np.trace(PRECISION @ s[row]) for row in range(4))
    assert expected_log_likelihood(belief, activations, y, LIKELIHOOD) == pytest.approx(expected, rel=1e-12)


@both_families
def test_one_component_with_a_matrix_of_one_precision_is_the_scalar_gaussian(family: Family) -> None:
    activations, y = batch(12)
    belief = belief_with(np.random.default_rng(3), family, FEATURES)
    matrix, scalar = VectorGaussian([[4.0]]), Gaussian(4.0)
    found = condition(belief, activations, y[:, :1], matrix, 2.0, "projected").belief
    expected = condition(belief, activations, y[:, 0], scalar, 2.0, "projected").belief
    assert_same(found, expected, 1e-12)
    vector, plain = predict(expected, activations, matrix), predict(expected, activations, scalar)
    assert vector.mean.size == plain.mean.size
    np.testing.assert_allclose(vector.mean.reshape(-1), plain.mean, rtol=1e-12)
    assert vector.variance.size == plain.variance.size
    np.testing.assert_allclose(vector.variance.reshape(-1), plain.variance, rtol=1e-12)
    assert expected_log_likelihood(expected, activations, y[:, :1], matrix) == pytest.approx(
        expected_log_likelihood(expected, activations, y[:, 0], scalar), rel=1e-12
    )


@pytest.mark.parametrize("skew", [1e-13, 1e-6])
def test_a_precision_matrix_that_is_accepted_leaves_the_information_symmetric(skew: float) -> None:
    activations, y = batch(3)
    skewed = PRECISION.copy()
    skewed[0, 1] *= 1 + skew
    try:
        likelihood = VectorGaussian(skewed)
    except ModelError:
        assert skew > 1e-9  # what a belief's own information may differ by, from above to below the diagonal
        return
    prior = FullGaussian.prior(OUTPUTS * FEATURES, 0.2)
    found = condition(prior, activations, y, likelihood)
    assert_same(prior.plus(found.evidence), found.belief, 1e-13)  # `plus` refuses what is not symmetric
