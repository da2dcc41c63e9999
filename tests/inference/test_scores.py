"""Entropies and scores, against scipy's distributions, numeric integrals and formulas written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from service.errors import DataError
from service.inference.arrays import FloatArray
from service.inference.likelihoods import Gaussian, Likelihood, Logistic, Poisson, Probit, StudentT, VectorGaussian
from service.inference.prediction import Prediction
from service.inference.scores import ErrorSums, label_scores

PRECISION = [[2.0, 0.5], [0.5, 1.0]]
REGRESSIONS: dict[str, Likelihood] = {
    "gaussian": Gaussian(4.0),
    "poisson": Poisson(),
    "student_t": StudentT(5.0, 0.6),
    "vector": VectorGaussian(PRECISION),
}
every_regression = pytest.mark.parametrize("kind", REGRESSIONS)
seeds = st.integers(0, 10_000)


def prediction_of(likelihood: Likelihood, generator: np.random.Generator, count: int) -> Prediction:
    """Any latent moments: the scores are a matter of these and the likelihood alone."""
    if not likelihood.is_vector:
        return Prediction(generator.normal(size=count), generator.uniform(0.05, 2.0, count), likelihood)
    roots = generator.normal(size=(count, 2, 2))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(2)
    return Prediction(generator.normal(size=(count, 2)), covariances, likelihood)


def targets_of(seen: Prediction, generator: np.random.Generator) -> FloatArray:
    if isinstance(seen.likelihood, Poisson):
        return generator.poisson(np.exp(seen.latent_mean)).astype(np.float64)
    return seen.latent_mean + generator.normal(size=seen.latent_mean.shape)


# Entropies.


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()])
@given(seed=seeds)
def test_the_entropy_of_a_label_is_bernoullis(likelihood: Likelihood, seed: int) -> None:
    seen = prediction_of(likelihood, np.random.default_rng(seed), 20)
    np.testing.assert_allclose(seen.entropy, stats.bernoulli.entropy(seen.mean), rtol=1e-12)


def test_a_label_that_is_certain_has_no_entropy() -> None:
    certain = Prediction(np.array([-1e6, 1e6]), np.array([1e-9, 1e-9]), Probit())
    assert certain.mean.tolist() == [0, 1]
    assert certain.entropy.tolist() == [0, 0]


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "student_t"])
@given(seed=seeds)
def test_the_entropy_of_a_regression_is_that_of_the_function_behind_it(kind: str, seed: int) -> None:
    seen = prediction_of(REGRESSIONS[kind], np.random.default_rng(seed), 20)
    expected = stats.norm.entropy(scale=np.sqrt(seen.latent_variance))
    np.testing.assert_allclose(seen.entropy, expected, rtol=1e-12, atol=1e-13)


@settings(max_examples=20)
@given(seed=seeds)
def test_the_entropy_of_vectors_is_that_of_their_joint_normal_distribution(seed: int) -> None:
    seen = prediction_of(REGRESSIONS["vector"], np.random.default_rng(seed), 20)
    expected = [stats.multivariate_normal(cov=covariance).entropy() for covariance in seen.latent_variance]
    np.testing.assert_allclose(seen.entropy, expected, rtol=1e-11, atol=1e-12)


# Scores of regressions.


@every_regression
@given(seed=seeds, cuts=st.lists(st.integers(1, 39), max_size=4, unique=True).map(sorted))
def test_the_scores_of_parts_are_those_of_the_whole(kind: str, seed: int, cuts: list[int]) -> None:
    generator = np.random.default_rng(seed)
    seen = prediction_of(REGRESSIONS[kind], generator, 40)
    y = targets_of(seen, generator)
    sums = ErrorSums()
    for begin, end in zip([0, *cuts], [*cuts, 40], strict=True):
        part = Prediction(seen.latent_mean[begin:end], seen.latent_variance[begin:end], seen.likelihood)
        sums = sums.plus(part, y[begin:end])
    assert sums.points == 40
    assert sums.scores == pytest.approx(ErrorSums().plus(seen, y).scores, rel=1e-12)


def log_density(seen: Prediction, y: FloatArray, row: int) -> float:
    """log of the integral of p(y | f) N(f; m, s) df; for Gaussian noise a closed form."""
    m, s, target = seen.latent_mean[row], seen.latent_variance[row], y[row]
    if isinstance(seen.likelihood, Gaussian):
        return float(stats.norm.logpdf(target, m, np.sqrt(s + 1 / 4)))
    if isinstance(seen.likelihood, VectorGaussian):
        return float(stats.multivariate_normal.logpdf(target, m, s + np.linalg.inv(PRECISION)))
    counts = isinstance(seen.likelihood, Poisson)

    def density(f: float) -> float:
        noise = stats.poisson.pmf(target, np.exp(f)) if counts else stats.t.pdf(target, 5, f, 0.6)
        return float(noise * stats.norm.pdf(f, m, np.sqrt(s)))

    reach = 8 * np.sqrt(s)
    return float(np.log(quad(density, m - reach, m + reach, limit=200)[0]))


@every_regression
def test_the_scores_are_the_root_mean_square_error_and_the_mean_log_density(kind: str) -> None:
    generator = np.random.default_rng(1)
    seen = prediction_of(REGRESSIONS[kind], generator, 8)
    y = targets_of(seen, generator)
    scores = ErrorSums().plus(seen, y).scores
    mean = np.exp(seen.latent_mean + seen.latent_variance / 2) if kind == "poisson" else seen.latent_mean
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((mean - y) ** 2)), rel=1e-12)
    # By quadrature at 64 nodes, where there is no closed form.
    expected = np.mean([log_density(seen, y, row) for row in range(8)])
    assert scores["log_density"] == pytest.approx(expected, rel=1e-12 if kind in ("gaussian", "vector") else 1e-5)
    assert set(scores) == {"rmse", "log_density"}


@every_regression
def test_other_targets_than_predictions_are_refused(kind: str) -> None:
    generator = np.random.default_rng(2)
    seen = prediction_of(REGRESSIONS[kind], generator, 4)
    with pytest.raises(DataError, match="4 predictions and 3 targets"):
        ErrorSums().plus(seen, targets_of(seen, generator)[:3])


def test_errors_beyond_all_numbers_show_as_infinite_and_not_as_good() -> None:
    far = Prediction(np.array([1e200, 0.0]), np.ones(2), Gaussian(1.0))
    scores = ErrorSums().plus(far, [-1e200, 0.0]).scores
    assert scores == {"rmse": float("inf"), "log_density": float("-inf")}


# Scores of classifiers; `test_metrics` has what they make of certainty.


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.one_of(st.floats(1e-6, 1 - 1e-6), st.sampled_from([0.1, 0.5])), st.integers(0, 1)), min_size=1
    )
)
def test_the_scores_of_a_classifier_are_their_formulas(rows: list[tuple[float, int]]) -> None:
    scores = label_scores([p for p, _ in rows], [y for _, y in rows])
    right = [(p >= 0.5) == (y == 1) for p, y in rows]
    classes = [[one for one, (_, y) in zip(right, rows, strict=True) if y == label] for label in (0, 1)]
    shares = [sum(one) / len(one) for one in classes if one]
    surprise = [-np.log(p) if y else -np.log1p(-p) for p, y in rows]
    bins = [[p - y for p, y in rows if int(p * 10) == number] for number in range(10)]
    assert scores["accuracy"] == pytest.approx(sum(right) / len(rows), rel=1e-12)
    assert scores["balanced_accuracy"] == pytest.approx(sum(shares) / len(shares), rel=1e-12)
    assert scores["cross_entropy"] == pytest.approx(np.mean(surprise), rel=1e-12)
    assert scores["calibration_error"] == pytest.approx(sum(abs(sum(one)) for one in bins) / len(rows), abs=1e-12)
    assert len(scores) == 4
