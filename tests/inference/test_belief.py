"""Gaussian beliefs in natural parameters, against dense numpy and scipy.stats."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from service.errors import DelboError, ModelError, NumericalError
from service.inference.belief import FAMILIES, Belief, DiagonalGaussian, Evidence, Family, FullGaussian, kl_divergence
from service.inference.mixing import mix
from service.inference.stack import BeliefStack
from tests.inference.builders import assert_same, belief_with, natural
from tests.inference.oracles import Array, as_matrix, kl, mean_of

both_families = pytest.mark.parametrize("family", ["diagonal", "full"])
any_seed = given(seed=st.integers(0, 10_000), dimension=st.integers(1, 8))


def normal_of(belief: Belief) -> Any:
    return multivariate_normal(mean_of(natural(belief)), np.linalg.inv(as_matrix(belief.information)))


@both_families
@settings(deadline=None, max_examples=25)
@any_seed
def test_moments_are_those_of_the_dense_gaussian(family: Family, seed: int, dimension: int) -> None:
    belief = belief_with(np.random.default_rng(seed), family, dimension)
    covariance = np.linalg.inv(as_matrix(belief.information))
    np.testing.assert_allclose(belief.mean, covariance @ belief.shift, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(belief.variance, np.diagonal(covariance), rtol=1e-10)
    assert belief.log_determinant == pytest.approx(np.linalg.slogdet(as_matrix(belief.information))[1], abs=1e-10)
    assert belief.entropy == pytest.approx(normal_of(belief).entropy(), abs=1e-10)
    assert belief.dimension == dimension
    if isinstance(belief, FullGaussian):
        np.testing.assert_allclose(belief.covariance, covariance, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(belief.factor @ belief.factor.T, belief.information, rtol=0, atol=1e-13)


@both_families
@settings(deadline=None, max_examples=25)
@any_seed
def test_the_log_density_is_that_of_scipy(family: Family, seed: int, dimension: int) -> None:
    generator = np.random.default_rng(seed)
    belief = belief_with(generator, family, dimension)
    theta = generator.standard_normal((2, 3, dimension))
    expected = normal_of(belief).logpdf(theta).reshape(2, 3)
    np.testing.assert_allclose(belief.log_density(theta), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(belief.log_density(theta[0, 0]), expected[0, 0], rtol=0, atol=1e-9)


@both_families
@settings(deadline=None, max_examples=25)
@any_seed
def test_divergence_is_the_closed_form_and_zero_of_itself(family: Family, seed: int, dimension: int) -> None:
    generator = np.random.default_rng(seed)
    q, p = belief_with(generator, family, dimension), belief_with(generator, family, dimension)
    # Both orders: the divergence is not symmetric.
    assert kl_divergence(q, p) == pytest.approx(kl(natural(q), natural(p)), rel=1e-9, abs=1e-10)
    assert kl_divergence(p, q) == pytest.approx(kl(natural(p), natural(q)), rel=1e-9, abs=1e-10)
    assert 0 <= kl_divergence(q, q) <= 1e-12


def test_a_diagonal_and_a_full_belief_of_the_same_numbers_say_the_same() -> None:
    diagonal = belief_with(np.random.default_rng(1), "diagonal", 5)
    full = FullGaussian(np.diag(diagonal.information), diagonal.shift)
    np.testing.assert_allclose(full.mean, diagonal.mean, rtol=1e-14)
    np.testing.assert_allclose(full.variance, diagonal.variance, rtol=1e-14)
    assert full.log_normalizer == pytest.approx(diagonal.log_normalizer, rel=1e-13)


@both_families
def test_samples_have_the_beliefs_moments(family: Family) -> None:
    belief = belief_with(np.random.default_rng(2), family, 3)
    count = 100_000
    drawn = belief.sample(np.random.default_rng(3), count)
    covariance = np.linalg.inv(as_matrix(belief.information))
    assert drawn.shape == (count, 3)
    # Six standard errors of the mean; of the covariance, sqrt(2 / count) of its size, six times too.
    worst = float(np.sqrt(np.diagonal(covariance).max()))
    np.testing.assert_allclose(drawn.mean(axis=0), belief.mean, rtol=0, atol=6 * worst / np.sqrt(count))
    np.testing.assert_allclose(np.cov(drawn.T), covariance, rtol=0, atol=6 * worst**2 * np.sqrt(2 / count))
    np.testing.assert_array_equal(drawn[:5], belief.sample(np.random.default_rng(3), count)[:5])


@both_families
def test_a_belief_cannot_be_changed(family: Family) -> None:
    information = np.full(2, 2.0) if family == "diagonal" else 2 * np.eye(2)
    shift = np.ones(2)
    belief = FAMILIES[family](information, shift)
    information[...], shift[...] = 99.0, 99.0  # the caller's arrays stay the caller's
    np.testing.assert_allclose(belief.mean, [0.5, 0.5], rtol=1e-15)
    for array in (belief.information, belief.shift, belief.mean, belief.variance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        belief.shift = shift  # type: ignore[misc]


@both_families
def test_beliefs_taken_from_a_stack_do_not_change_with_it(family: Family) -> None:
    belief = belief_with(np.random.default_rng(4), family, 3)
    stack = BeliefStack.of([belief, belief])
    taken = stack[1]
    stack.information[:] += 1.0
    stack.shift[:] = 0.0
    assert_same(taken, belief, 0.0)
    assert len(stack) == len(list(stack)) == 2


REFUSED: list[tuple[type[DiagonalGaussian] | type[FullGaussian], object, object, str]] = [
    (DiagonalGaussian, [1.0, np.nan], [0.0, 0.0], r"information\[1\] is nan"),
    (DiagonalGaussian, [1.0, np.inf], [0.0, 0.0], r"information\[1\] is inf"),
    (DiagonalGaussian, [1.0, 1.0], [np.nan, 0.0], r"shift\[0\] is nan"),
    (DiagonalGaussian, [1.0, 0.0], [0.0, 0.0], r"information\[1\] is 0.0: it must be positive"),
    (DiagonalGaussian, [-1.0, 1.0], [0.0, 0.0], r"information\[0\] is -1.0: it must be positive"),
    (DiagonalGaussian, [1.0, 1.0, 1.0], [0.0, 0.0], "does not belong"),
    (DiagonalGaussian, [1.0], [0.0, 0.0], "does not belong"),
    (DiagonalGaussian, [[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], "must have 1 dimension"),
    (FullGaussian, [[1.0, np.nan], [np.nan, 1.0]], [0.0, 0.0], r"information\[0, 1\] is nan"),
    (FullGaussian, [[1.0, 0.5], [0.4, 1.0]], [0.0, 0.0], "not symmetric"),
    (FullGaussian, [[1.0, 0.0], [0.0, -1.0]], [0.0, 0.0], "not positive definite"),
    (FullGaussian, [[1.0, 2.0], [2.0, 1.0]], [0.0, 0.0], "not positive definite"),
    (FullGaussian, [[1.0, 0.0]], [0.0, 0.0], "does not belong"),
    (FullGaussian, [1.0, 1.0], [0.0, 0.0], "must have 2 dimension"),
    (FullGaussian, [["a", "b"], ["c", "d"]], [0.0, 0.0], "must be numbers"),
]


@pytest.mark.parametrize(("belief_type", "information", "shift", "message"), REFUSED)
def test_numbers_that_are_no_gaussian_are_refused(
    belief_type: type[DiagonalGaussian] | type[FullGaussian], information: Array, shift: Array, message: str
) -> None:
    with pytest.raises(NumericalError, match=message):
        belief_type(information, shift)


def test_a_matrix_that_is_not_positive_definite_never_answers() -> None:
    with pytest.raises(NumericalError, match="not positive definite"):
        assert FullGaussian(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros(2)).mean is not None


@both_families
def test_a_prior_has_the_same_mean_and_information_everywhere(family: Family) -> None:
    prior = FAMILIES[family].prior(3, 0.2, 1.5)
    np.testing.assert_array_equal(as_matrix(prior.information), 0.2 * np.eye(3))
    np.testing.assert_allclose(prior.mean, 1.5, rtol=1e-15)
    for information in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ModelError, match="prior information"):
            FAMILIES[family].prior(3, information)
    for mean in (np.nan, np.inf):
        with pytest.raises(ModelError, match="prior mean"):
            FAMILIES[family].prior(3, 1.0, mean)


@both_families
def test_evidence_leads_from_one_belief_to_another_adds_and_scales(family: Family) -> None:
    generator = np.random.default_rng(5)
    one, other, third = (belief_with(generator, family, 4) for _ in range(3))
    assert_same(one.plus(other.minus(one)), other, 1e-14)
    assert_same(one.plus(other.minus(one) + third.minus(other)), third, 1e-14)
    halfway = mix([one, other], [0.5, 0.5])
    assert_same(one.plus(other.minus(one) * 0.5), halfway, 1e-14)
    with pytest.raises(ValueError, match="read-only"):
        other.minus(one).shift[0] = 1.0


@both_families
def test_evidence_of_another_size_or_family_is_refused_and_never_stretched(family: Family) -> None:
    belief = belief_with(np.random.default_rng(6), family, 3)
    small = FAMILIES[family].prior(1, 1.0)
    other_family = FAMILIES["full" if family == "diagonal" else "diagonal"].prior(3, 1.0)
    with pytest.raises(DelboError):
        belief.plus(small.minus(small))
    with pytest.raises(DelboError):
        belief.minus(small)
    with pytest.raises(DelboError):
        belief.minus(other_family)
    with pytest.raises(DelboError):
        belief.plus(Evidence(other_family.information, other_family.shift))
    with pytest.raises(DelboError):
        belief.minus(belief) + small.minus(small)


@both_families
def test_a_log_density_at_points_of_another_dimension_is_refused(family: Family) -> None:
    with pytest.raises(DelboError):
        belief_with(np.random.default_rng(7), family, 3).log_density(np.zeros((5, 1)))


def test_a_divergence_between_families_or_sizes_is_refused() -> None:
    for p in (FullGaussian.prior(3, 1.0), DiagonalGaussian.prior(2, 1.0)):
        with pytest.raises(NumericalError, match="one family"):
            kl_divergence(DiagonalGaussian.prior(3, 1.0), p)


def test_a_belief_whose_numbers_overflowed_is_refused() -> None:
    for information in (np.inf, np.nan):
        with pytest.raises(NumericalError, match="overflowed"):
            DiagonalGaussian.computed(np.array([information]), np.array([0.0]))
