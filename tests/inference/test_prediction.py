"""Predictions against dense algebra and numeric integrals; rasters against predictions at every pixel."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtr

from service.inference.belief import Family
from service.inference.features import CenterFeatures, Features, LatticeFeatures
from service.inference.likelihoods import Gaussian, Likelihood, Logistic, Poisson, Probit, StudentT
from service.inference.prediction import predict, predict_all
from service.inference.raster import raster
from tests.inference.builders import belief_with, center_features, points, snapshot
from tests.inference.oracles import XI, Curve, as_matrix, gaussian_expectation

both_families = pytest.mark.parametrize("family", ["diagonal", "full"])


@both_families
@pytest.mark.parametrize("cutoff", [None, 1e-2])
def test_latent_moments_are_the_dense_products(family: Family, cutoff: float | None) -> None:
    generator = np.random.default_rng(1)
    features = center_features(generator, 12, cutoff=cutoff)
    belief = belief_with(generator, family, 13)
    activations = features.activate(points(generator, 30))
    phi, sigma = activations.dense(), np.linalg.inv(as_matrix(belief.information))
    found = predict(belief, activations, Probit())
    np.testing.assert_allclose(found.latent_mean, phi @ sigma @ belief.shift, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.latent_variance, np.einsum("ri,ij,rj->r", phi, sigma, phi), rtol=1e-10)


def test_more_rows_than_one_piece_predict_as_each_alone() -> None:
    generator = np.random.default_rng(2)
    features = center_features(generator, 5)
    belief = belief_with(generator, "full", 6)
    x = points(generator, 4100)
    whole = predict(belief, features.activate(x), Gaussian(2.0))
    assert whole.mean.shape == whole.variance.shape == (4100,)
    for row in (0, 2047, 2048, 4096, 4099):
        alone = predict(belief, features.activate(x[row : row + 1]), Gaussian(2.0))
        np.testing.assert_allclose(whole.mean[row], alone.mean[0], rtol=1e-11)
        np.testing.assert_allclose(whole.latent_variance[row], alone.latent_variance[0], rtol=1e-11)


@both_families
def test_several_beliefs_at_once_predict_as_each_alone(family: Family) -> None:
    generator = np.random.default_rng(3)
    activations = center_features(generator, 8, cutoff=1e-2).activate(points(generator, 10))
    beliefs = [belief_with(generator, family, 9) for _ in range(4)]
    for belief, found in zip(beliefs, predict_all(beliefs, activations, Probit()), strict=True):
        alone = predict(belief, activations, Probit())
        np.testing.assert_allclose(found.mean, alone.mean, rtol=1e-13)
        np.testing.assert_allclose(found.variance, alone.variance, rtol=1e-13)


@both_families
def test_no_points_give_no_predictions(family: Family) -> None:
    features = center_features(np.random.default_rng(4), 5)
    found = predict(belief_with(np.random.default_rng(5), family, 6), features.activate(np.empty((0, 2))), Probit())
    assert found.mean.shape == found.variance.shape == found.latent_variance.shape == (0,)


def student_noise(f: float) -> float:
    return 0.6**2 * 5 / 3


# E[y | f], Var[y | f], and the relative error: 64 nodes on the sigmoid leave 2e-6 at s = 10 (see the docs).
CONDITIONALS: list[tuple[Likelihood, Curve, Curve, float]] = [
    (Probit(), lambda f: ndtr(XI * f), lambda f: ndtr(XI * f) * ndtr(-XI * f), 1e-10),
    (Logistic(), expit, lambda f: expit(f) * expit(-f), 3e-6),
    (Gaussian(4.0), lambda f: f, lambda f: 0.25, 1e-10),
    (StudentT(5.0, 0.6), lambda f: f, student_noise, 1e-10),
    (Poisson(), lambda f: float(np.exp(f)), lambda f: float(np.exp(f)), 1e-7),
]


@pytest.mark.parametrize(
    ("likelihood", "mean", "variance", "relative"), CONDITIONALS, ids=[type(one[0]).__name__ for one in CONDITIONALS]
)
@pytest.mark.parametrize(("m", "s"), [(0.0, 1e-4), (-1.3, 0.5), (0.8, 2.0), (0.5, 10.0)])
def test_predictive_moments_are_the_integrals(
    likelihood: Likelihood, mean: Curve, variance: Curve, relative: float, m: float, s: float
) -> None:
    # The Poisson integrands peak up to two deviations' squares to the right of the mean.
    breaks = (0.0, m + s, m + 2 * s)
    expected = gaussian_expectation(mean, m, s, *breaks)
    square = gaussian_expectation(lambda f: variance(f) + (mean(f) - expected) ** 2, m, s, *breaks)
    found = likelihood.predictive(np.array([m]), np.array([s]))
    np.testing.assert_allclose(found[0], expected, rtol=relative, atol=1e-12)
    np.testing.assert_allclose(found[1], square, rtol=relative)


@settings(deadline=None, max_examples=30)
@given(m=st.floats(-50, 50), s=st.floats(0, 1000))
def test_probabilities_are_probabilities_and_their_variance_is_p_times_1_less_p(m: float, s: float) -> None:
    for likelihood in (Probit(), Logistic()):
        mean, variance = likelihood.predictive(np.array([m]), np.array([s]))
        assert 0 <= mean[0] <= 1
        np.testing.assert_allclose(variance, mean * (1 - mean), rtol=0, atol=1e-12)


def test_the_entropy_of_a_label_is_greatest_at_one_half_and_zero_at_certainty() -> None:
    features = CenterFeatures([[0.0]], 1.0)
    belief = belief_with(np.random.default_rng(6), "diagonal", 2)
    found = predict(belief, features.activate([[0.3], [40.0]]), Probit())
    p = found.mean
    np.testing.assert_allclose(found.entropy, -p * np.log(p) - (1 - p) * np.log(1 - p), rtol=1e-13)


def lattice(generator: np.random.Generator) -> Features:
    return LatticeFeatures(0.25, 0.2, [-1.0, -0.5], [1.0, 1.5], gamma1=1.3)


def local_centers(generator: np.random.Generator) -> Features:
    return center_features(generator, 40, cutoff=1e-3)


def all_centers(generator: np.random.Generator) -> Features:
    return center_features(generator, 40)


def scaled_centers(generator: np.random.Generator) -> Features:
    return CenterFeatures(generator.uniform(-1, 1, (20, 2)), 0.4, gamma1=0.6)


@both_families
@pytest.mark.parametrize("build", [lattice, local_centers, all_centers, scaled_centers])
@pytest.mark.parametrize("kind", [Probit(), Gaussian(3.0)], ids=["probit", "gaussian"])
def test_a_raster_equals_the_prediction_at_every_pixel(
    build: Callable[[np.random.Generator], Features], family: Family, kind: Likelihood
) -> None:
    generator = np.random.default_rng(7)
    features = build(generator)
    belief = belief_with(generator, family, features.feature_count)
    # Uneven axes of different length, beyond the centres, and among them positions of the lattice's own.
    x = np.sort(np.concatenate([generator.uniform(-4, 4, 60), [-1.0, -0.75, 0.0, 1.0]]))
    y = np.sort(np.concatenate([generator.uniform(-3, 5, 40), [-0.5, 0.25, 1.5]]))
    pixels = np.array([[(column, row) for column in x] for row in y]).reshape(-1, 2)
    expected = predict(belief, features.activate(pixels), kind)
    found = raster(belief, features, kind, x, y)
    assert found.mean.shape == (len(y), len(x))
    for name in ("latent_mean", "latent_variance", "mean", "variance"):
        values = getattr(expected, name).reshape(len(y), len(x))
        np.testing.assert_allclose(getattr(found, name), values, rtol=1e-9, atol=1e-9, err_msg=name)


def test_a_raster_may_have_one_pixel() -> None:
    features = center_features(np.random.default_rng(8), 4)
    belief = belief_with(np.random.default_rng(9), "diagonal", 5)
    found = raster(belief, features, Probit(), [0.3], [-0.2])
    np.testing.assert_allclose(found.mean, [predict(belief, features.activate([[0.3, -0.2]]), Probit()).mean])


@both_families
def test_predicting_writes_to_none_of_its_inputs(family: Family) -> None:
    generator = np.random.default_rng(10)
    for cutoff in (None, 1e-2):
        features = center_features(generator, 6, cutoff=cutoff)
        belief = belief_with(generator, family, 7)
        activations = features.activate(points(generator, 9))
        axis = np.linspace(-1, 1, 5)
        held = [belief.information, belief.shift, features.centers, axis]
        held += [activations.values, activations.row_starts.astype(np.float64)]
        before = snapshot(*held)
        predict(belief, activations, Probit())
        raster(belief, features, Probit(), axis, axis)
        assert snapshot(*held) == before
