"""Wrong points, targets, features and sizes: a sentence of delbo's own, never a crash or a stretched array."""

from collections.abc import Callable

import numpy as np
import pytest

from service.errors import DataError, DelboError, ModelError, SettingError
from service.inference.belief import Belief, DiagonalGaussian, Family, FullGaussian
from service.inference.conditioning import condition
from service.inference.features import CenterFeatures, LatticeFeatures
from service.inference.likelihoods import Gaussian, Likelihood, Logistic, Poisson, Probit, StudentT, VectorGaussian
from service.inference.objective import expected_log_likelihood
from service.inference.prediction import predict
from service.inference.raster import raster
from service.inference.round import RoundRule
from tests.inference.builders import belief_with, center_features, points

FEATURES = center_features(np.random.default_rng(0), 4)
LOCAL = center_features(np.random.default_rng(0), 4, cutoff=1e-2)
ACTIVATIONS = FEATURES.activate(points(np.random.default_rng(1), 3))
PRIOR = DiagonalGaussian.prior(5, 0.2)
FULL = FullGaussian.prior(5, 0.2)
LABELS = [0, 1, 1]
both = pytest.mark.parametrize("belief", [PRIOR, FULL], ids=["diagonal", "full"])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1.0, 2.0], "x must have 2 dimension"),
        ([[1.0]], r"x has 1 column\(s\), but the model's features take 2"),
        ([[1.0, 2.0, 3.0]], r"x has 3 column\(s\)"),
        ([[1.0, np.nan]], r"x\[0, 1\] is nan"),
        ([[0.0, 0.0], [np.inf, 0.0]], r"x\[1, 0\] is inf"),
        ([["a", "b"]], "x must be numbers"),
        ([[1.0, 2.0], [3.0]], "x must be numbers"),
        (None, "x must"),
        ([[1 + 2j, 0]], "x must be numbers"),
    ],
)
def test_points_that_are_no_points_are_refused(x: object, message: str) -> None:
    for features in (FEATURES, LOCAL, LatticeFeatures(0.5, 0.5, [0, 0], [1, 1])):
        with pytest.raises(DataError, match=message):
            features.activate(x)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CenterFeatures([], 1.0), "centers must"),
        (lambda: CenterFeatures(np.empty((0, 2)), 1.0), "at least one point"),
        (lambda: CenterFeatures([[0.0, np.nan]], 1.0), r"centers\[0, 1\] is nan"),
        (lambda: CenterFeatures([[0.0], [1.0]], [1.0]), "one per centre"),
        (lambda: CenterFeatures([[0.0], [1.0]], [1.0, -1.0]), "lengthscale must be positive, not -1"),
        (lambda: CenterFeatures([[0.0]], 0.0), "lengthscale must be positive"),
        (lambda: CenterFeatures([[0.0]], np.nan), "lengthscale"),
        (lambda: CenterFeatures([[0.0]], "wide"), "lengthscale"),
        (lambda: CenterFeatures([[0.0]], 1e-200), "lengthscale"),
        (lambda: CenterFeatures([[0.0]], 1.0, gamma1=-1.0), "gamma1 must be a positive"),
        (lambda: CenterFeatures([[0.0]], 1.0, cutoff=1.0), "cutoff must lie between 0 and 1"),
        (lambda: CenterFeatures([[0.0]], 1.0, cutoff=np.nan), "cutoff"),
        (lambda: LatticeFeatures(0.0, 1.0, [0], [1]), "spacing must be a positive"),
        (lambda: LatticeFeatures(1.0, -1.0, [0], [1]), "lengthscale must be a positive"),
        (lambda: LatticeFeatures(1.0, 1.0, [0, 0], [1]), "as many lower as upper"),
        (lambda: LatticeFeatures(1.0, 1.0, [0] * 4, [1] * 4), "1, 2 or 3 dimensions"),
        (lambda: LatticeFeatures(1.0, 1.0, [2.0], [1.0]), "must not lie below"),
        (lambda: LatticeFeatures(1.0, 1.0, [np.nan], [1.0]), r"lower\[0\] is nan"),
        (lambda: LatticeFeatures(1e-6, 1.0, [0, 0], [1, 1]), "too large"),
        (lambda: LatticeFeatures(1.0, 1.0, [0], [1], cutoff=0.0), "cutoff"),
        (lambda: LatticeFeatures(0.01, 5.0, [0, 0], [10, 10]), r"about 1e\+06 centres would be active at each point"),
    ],
)
def test_features_that_cannot_be_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Gaussian(0.0), "precision must be a positive"),
        (lambda: Gaussian(np.nan), "precision"),
        (lambda: StudentT(2.0, 1.0), "degrees must be more than 2"),
        (lambda: StudentT(4.0, -1.0), "scale must be a positive"),
        (lambda: VectorGaussian([[1.0, 2.0]]), "square and symmetric"),
        (lambda: VectorGaussian([[1.0, 0.5], [0.0, 1.0]]), "square and symmetric"),
        (lambda: VectorGaussian([[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: VectorGaussian(4.0), "2 dimension"),
        (lambda: VectorGaussian(np.empty((0, 0))), "precision"),
    ],
)
def test_likelihoods_that_cannot_be_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build()


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (Probit(), [0, 1, 2], r"y\[2\] is 2: it must be 0 or 1"),
        (Logistic(), [0, 0.5, 1], r"y\[1\] is 0.5: it must be 0 or 1"),
        (Poisson(), [1, -1, 0], r"y\[1\] is -1: it must be a whole number"),
        (Poisson(), [1, 0, 1.5], r"y\[2\] is 1.5"),
        (Gaussian(1.0), [0, np.nan, 1], r"y\[1\] is nan"),
        (StudentT(4.0, 1.0), [np.inf, 0, 0], r"y\[0\] is inf"),
        (Gaussian(1.0), [[0], [1], [2]], "y must have 1 dimension"),
        (Gaussian(1.0), [0.0, 1.0], "3 points and 2 targets"),
        (Gaussian(1.0), [1.0], "3 points and 1 targets"),
        (Gaussian(1.0), ["a", "b", "c"], "y must be numbers"),
        (Gaussian(1.0), 1.0, "y must have 1 dimension|3 points and 1 targets"),
    ],
)
@both
def test_targets_that_cannot_be_observed_are_refused(
    belief: Belief, likelihood: Likelihood, y: object, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        condition(belief, ACTIVATIONS, y, likelihood)
    with pytest.raises(DataError):
        expected_log_likelihood(belief, ACTIVATIONS, y, likelihood)


def test_vectors_of_another_width_are_refused() -> None:
    likelihood = VectorGaussian(np.eye(2))
    belief = FullGaussian.prior(10, 0.2)
    with pytest.raises(DataError, match=r"y has 3 column\(s\), but the precision matrix is for 2"):
        condition(belief, ACTIVATIONS, np.zeros((3, 3)), likelihood)
    with pytest.raises(DataError, match="y must have 2 dimension"):
        condition(belief, ACTIVATIONS, np.zeros(3), likelihood)


@both
def test_settings_out_of_their_range_are_refused(belief: Belief) -> None:
    for weight in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(SettingError, match="likelihood weight must be a positive number"):
            condition(belief, ACTIVATIONS, LABELS, Probit(), weight)
    with pytest.raises(ModelError, match="diagonal_step must be paper or projected"):
        condition(belief, ACTIVATIONS, LABELS, Probit(), 1.0, "newton")  # type: ignore[arg-type]
    for forgetting in (0.0, -0.5, 1.1, np.nan):
        with pytest.raises(SettingError, match="forgetting must be above 0 and at most 1"):
            RoundRule(belief, forgetting=forgetting)


@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_a_belief_of_another_size_than_the_features_is_refused(family: Family) -> None:
    for size in (1, 2, 4, 6, 10):
        belief = belief_with(np.random.default_rng(2), family, size)
        with pytest.raises(DataError):
            condition(belief, ACTIVATIONS, LABELS, Probit())
        with pytest.raises(DataError):
            predict(belief, ACTIVATIONS, Probit())
        with pytest.raises(DataError):
            expected_log_likelihood(belief, ACTIVATIONS, LABELS, Probit())


@pytest.mark.parametrize("size", [2, 9])
@pytest.mark.parametrize("features", [FEATURES, LOCAL], ids=["everywhere", "local"])
def test_a_raster_of_a_belief_of_another_size_is_refused(features: CenterFeatures, size: int) -> None:
    belief = belief_with(np.random.default_rng(3), "diagonal", size)
    with pytest.raises(DelboError):
        raster(belief, features, Probit(), [0.0, 1.0], [0.0])


def test_a_raster_needs_two_coordinates_one_output_and_ascending_axes() -> None:
    line = CenterFeatures([[0.0]], 1.0)
    with pytest.raises(ModelError, match="2 coordinates"):
        raster(DiagonalGaussian.prior(2, 1.0), line, Probit(), [0.0], [0.0])
    with pytest.raises(ModelError, match="2 outputs"):  # what it is that does not fit
        raster(DiagonalGaussian.prior(10, 1.0), FEATURES, VectorGaussian(np.eye(2)), [0.0], [0.0])
    for axis in ([], [1.0, 0.0], [0.0, 0.0], [np.nan], [[0.0]]):
        with pytest.raises(DataError, match="x_axis"):
            raster(PRIOR, FEATURES, Probit(), axis, [0.0])
        with pytest.raises(DataError, match="y_axis"):
            raster(PRIOR, FEATURES, Probit(), [0.0], axis)
