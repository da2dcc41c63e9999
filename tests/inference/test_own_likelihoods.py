"""A likelihood that only Python knows, written as a user would, conditions like the built-in one of the same name."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import gammaln

from service.inference.arrays import FloatArray
from service.inference.belief import FAMILIES, Family
from service.inference.conditioning import DiagonalStep, condition
from service.inference.likelihoods import Likelihood, Logistic, Poisson
from service.inference.prediction import predict
from service.inference.round import RoundRule, advance_network
from service.inference.stack import BeliefStack
from tests.inference.builders import (
    assert_same,
    belief_with,
    center_features,
    points,
    starts_of,
    surface,
    targets_for,
)

either_family = pytest.mark.parametrize(
    ("family", "step"), [("full", "paper"), ("diagonal", "paper"), ("diagonal", "projected")]
)


class OwnLogistic(Likelihood):
    """The sigmoid, in plain numpy."""

    targets = "must be 0 or 1"
    is_binary = True

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return -np.logaddexp(0.0, -f * (2 * y - 1))

    def gradient(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return y - self.conditional_mean(f)

    def curvature(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return self.conditional_variance(f)

    def is_valid(self, y: FloatArray) -> npt.NDArray[np.bool_]:
        return np.isin(y, (0.0, 1.0))

    def conditional_mean(self, f: FloatArray) -> FloatArray:
        return 0.5 * (1 + np.tanh(0.5 * f))

    def conditional_variance(self, f: FloatArray) -> FloatArray:
        return 0.25 / np.cosh(0.5 * f) ** 2


class OwnPoisson(Likelihood):
    """Counts, in plain numpy, by the general implicit step."""

    targets = "must be a whole number, 0 or more"
    is_implicit = True

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return y * f - np.exp(f) - gammaln(y + 1)

    def gradient(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return y - np.exp(f)

    def curvature(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.exp(f)

    def is_valid(self, y: FloatArray) -> npt.NDArray[np.bool_]:
        return (y >= 0) & (y == np.floor(y))

    def conditional_mean(self, f: FloatArray) -> FloatArray:
        return np.exp(f)

    def conditional_variance(self, f: FloatArray) -> FloatArray:
        return np.exp(f)


# The implicit one's step is found by climbing, to where the objective's digits end: half of them, 1e-8, in the place.
PAIRS = [(OwnLogistic(), Logistic(), 1e-12), (OwnPoisson(), Poisson(), 1e-6)]
either_pair = pytest.mark.parametrize(("own", "built_in", "relative"), PAIRS, ids=["logistic", "poisson"])


@either_pair
@either_family
@pytest.mark.parametrize("cutoff", [None, 1e-3])
def test_a_python_likelihood_conditions_like_the_built_in(
    own: Likelihood,
    built_in: Likelihood,
    relative: float,
    family: Family,
    step: DiagonalStep,
    cutoff: float | None,
) -> None:
    generator = np.random.default_rng(1)
    features = center_features(generator, 8, cutoff=cutoff)
    x = np.concatenate([points(generator, 12), [[50.0, 50.0]]])  # with a cutoff, no centre reaches the last
    y = targets_for(built_in, surface(x), generator)
    belief = belief_with(generator, family, features.feature_count)
    mine = condition(belief, features.activate(x), y, own, 3.0, step)
    theirs = condition(belief, features.activate(x), y, built_in, 3.0, step)
    assert_same(mine.belief, theirs.belief, relative)
    assert mine.info == theirs.info


@settings(deadline=None, max_examples=60)
@given(y=st.integers(0, 50), m=st.floats(-6, 4), s=st.floats(1e-3, 20), w=st.floats(0.1, 50))
@example(y=30, m=4.0, s=10.0, w=1.0)
@example(y=0, m=-5.0, s=5.0, w=50.0)
def test_the_general_implicit_step_solves_the_poisson_pair_from_wide_priors(
    y: int, m: float, s: float, w: float
) -> None:
    a, e = OwnPoisson().expectations(float(y), m, s, w)
    s_star = 1 / (1 / s + w * a)
    m_star = s_star * (m / s + w * (a * m + e))
    rate = np.exp(m_star + 0.5 * s_star)
    assert abs(1 / s_star - 1 / s - w * rate) * s_star <= 1e-6
    assert abs(m_star - m - s * w * (y - rate)) <= 1e-6 * (1 + s * w * (y + rate))


@either_pair
def test_a_python_likelihood_predicts_like_the_built_in(own: Likelihood, built_in: Likelihood, relative: float) -> None:
    generator = np.random.default_rng(2)
    activations = center_features(generator, 8).activate(points(generator, 20))
    belief = belief_with(generator, "full", 9)
    mine, theirs = predict(belief, activations, own), predict(belief, activations, built_in)
    # The built-in Poisson's moments are in closed form: 64 nodes integrate exp(2 f) to 1e-9 at these variances.
    np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-9)
    np.testing.assert_allclose(mine.variance, theirs.variance, rtol=1e-6)


@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_agents_with_python_and_built_in_likelihoods_share_one_network(family: Family) -> None:
    generator = np.random.default_rng(3)
    features = center_features(generator, 6)
    prior = FAMILIES[family].prior(7, 0.2)
    stack = BeliefStack.of([prior] * 3)
    x = points(generator, 6)
    y = targets_for(Logistic(), surface(x), generator)
    matrix, rule = csr_array(np.full((3, 3), 1 / 3)), RoundRule(prior, 3.0, "projected")
    mixed, _ = advance_network(
        stack, matrix, features.activate(x), y, starts_of([2, 2, 2]), [OwnLogistic(), Logistic(), OwnLogistic()], rule
    )
    plain, _ = advance_network(stack, matrix, features.activate(x), y, starts_of([2, 2, 2]), [Logistic()] * 3, rule)
    assert_same(mixed, plain, 1e-12)
