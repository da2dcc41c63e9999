"""The DELBO where the evidence is known, and the distances between agents."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from service.inference.activations import Activations
from service.inference.belief import Belief, DiagonalGaussian, Family, FullGaussian
from service.inference.conditioning import condition
from service.inference.features import LatticeFeatures
from service.inference.likelihoods import Gaussian, Probit
from service.inference.objective import (
    consensus_divergence,
    consensus_error,
    delbo_component,
    divergences_from_center,
    expected_log_likelihood,
    modelling_error,
    pairwise_divergences,
)
from tests.inference.builders import belief_with, natural
from tests.inference.oracles import Natural, as_matrix, bayes, gaussian_expectation, kl, log_evidence, mean_of

either_family = pytest.mark.parametrize("family", ["diagonal", "full"])


def center_of(beliefs: list[Belief]) -> Natural:
    """The normalised geometric average: the average of natural parameters."""
    return Natural(
        np.mean([as_matrix(one.information) for one in beliefs], axis=0),
        np.mean([one.shift for one in beliefs], axis=0),
    )


@either_family
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), agents=st.integers(1, 5), dimension=st.integers(1, 6))
def test_what_the_delbo_misses_of_the_evidence_is_divergence_and_disagreement(
    family: Family, seed: int, agents: int, dimension: int
) -> None:
    """log evidence - sum_i J_i[q] = KL(q || posterior) + log(1 / K') for any q; the prior is what the agents mix to."""
    generator = np.random.default_rng(seed)
    mixed = [belief_with(generator, family, dimension) for _ in range(agents)]
    q = belief_with(generator, family, dimension)
    components, rows, targets, noise = [], [], [], []
    posterior = prior = center_of(mixed)
    for belief in mixed:
        phi, y = generator.standard_normal((3, dimension)), generator.standard_normal(3)
        precision = generator.uniform(0.5, 4.0)
        activations = Activations.of_dense_rows(phi)
        components.append(delbo_component(q, belief, activations, y, Gaussian(precision), agents))
        posterior = bayes(posterior, phi, y, precision)
        rows.append(phi)
        targets.append(y)
        noise.append(np.full(3, 1 / precision))
    evidence = log_evidence(prior, np.concatenate(rows), np.concatenate(targets), np.concatenate(noise))
    missed = kl(natural(q), posterior) + consensus_divergence(mixed)
    # The terms are up to a few hundred nats; the oracle inverts matrices of condition up to 1e3.
    assert evidence - sum(components) == pytest.approx(missed, abs=1e-8)


def test_the_delbo_is_the_evidence_where_the_agents_agree_and_q_is_the_posterior() -> None:
    generator = np.random.default_rng(4)
    prior = belief_with(generator, "full", 5)
    phi, y = generator.standard_normal((6, 5)), generator.standard_normal(6)
    q = condition(prior, Activations.of_dense_rows(phi), y, Gaussian(2.0)).belief
    parts = [
        delbo_component(q, prior, Activations.of_dense_rows(phi[rows]), y[rows], Gaussian(2.0), 2)
        for rows in (slice(0, 4), slice(4, 6))
    ]
    assert sum(parts) == pytest.approx(log_evidence(natural(prior), phi, y, np.full(6, 0.5)), abs=1e-10)


def test_expected_log_likelihood_is_the_sum_of_the_integrals_over_the_points_that_a_centre_reaches() -> None:
    features = LatticeFeatures(0.5, 0.4, [0.0], [2.0])
    belief = belief_with(np.random.default_rng(5), "full", features.feature_count)
    x, y = np.array([[0.3], [1.7], [90.0]]), np.array([1.0, 0.0, 1.0])
    expected = 0.0
    for point, label in zip(x[:2], y[:2], strict=True):
        phi = features.activate(point[None]).dense()[0]
        m, s = phi @ mean_of(natural(belief)), phi @ np.linalg.inv(belief.information) @ phi
        sign = 2 * label - 1
        expected += gaussian_expectation(lambda f, sign=sign: float(norm.logcdf(0.61 * f * sign)), m, s, 0.0)  # type: ignore[misc]
    found = expected_log_likelihood(belief, features.activate(x), y, Probit())
    assert found == pytest.approx(expected, abs=1e-9)


@either_family
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), agents=st.integers(1, 5), dimension=st.integers(1, 5))
def test_the_consensus_divergence_is_the_mean_divergence_from_the_centre(
    family: Family, seed: int, agents: int, dimension: int
) -> None:
    generator = np.random.default_rng(seed)
    beliefs = [belief_with(generator, family, dimension) for _ in range(agents)]
    expected = [kl(center_of(beliefs), natural(belief)) for belief in beliefs]
    np.testing.assert_allclose(divergences_from_center(beliefs), expected, rtol=0, atol=1e-9)
    assert consensus_divergence(beliefs) == pytest.approx(np.mean(expected), abs=1e-9)


@pytest.mark.parametrize("belief_type", [DiagonalGaussian, FullGaussian])
def test_in_one_dimension_the_consensus_divergence_is_minus_the_log_of_the_integral(
    belief_type: type[DiagonalGaussian] | type[FullGaussian],
) -> None:
    means, information = np.array([-1.0, 0.5, 2.0]), np.array([0.5, 1.0, 4.0])

    def product(theta: float) -> float:
        return float(np.prod(norm.pdf(theta, means, information**-0.5) ** (1 / 3)))

    integral, _ = quad(product, -20, 20, epsabs=1e-13, points=[0, 2])
    beliefs = [
        belief_type(np.array([omega]).reshape((1,) * belief_type._information_dimensions), np.array([omega * mu]))
        for omega, mu in zip(information, means, strict=True)
    ]
    assert consensus_divergence(beliefs) == pytest.approx(-np.log(integral), abs=1e-10)


@either_family
def test_agents_that_agree_have_no_divergence_and_no_error(family: Family) -> None:
    belief = belief_with(np.random.default_rng(6), family, 4)
    assert consensus_divergence([belief] * 3) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(consensus_error([belief] * 3), 0, atol=1e-14)
    np.testing.assert_allclose(pairwise_divergences([belief] * 2), 0, atol=1e-12)
    assert modelling_error([belief] * 3, belief) == pytest.approx(0, abs=1e-12)


def test_the_consensus_error_is_the_distance_from_the_mean_of_means_summed_over_parameters() -> None:
    beliefs = [DiagonalGaussian(np.array([1.0, 2.0]), np.array(shift)) for shift in ([0.0, 0.0], [3.0, 2.0])]
    # Means (0, 0) and (3, 1), their mean (1.5, 0.5).
    np.testing.assert_allclose(consensus_error(beliefs), [2.0, 2.0], rtol=1e-15)
    wider = [*beliefs, DiagonalGaussian(np.array([1.0, 1.0]), np.array([0.0, 2.0]))]
    # Means (0, 0), (3, 1), (0, 2), their mean (1, 1).
    np.testing.assert_allclose(consensus_error(wider), [2.0, 2.0, 2.0], rtol=1e-15)


@either_family
def test_pairwise_divergences_and_the_modelling_error_are_the_closed_form(family: Family) -> None:
    generator = np.random.default_rng(7)
    beliefs = [belief_with(generator, family, 4) for _ in range(3)]
    posterior = belief_with(generator, family, 4)
    expected = [[kl(natural(one), natural(other)) for other in beliefs] for one in beliefs]
    np.testing.assert_allclose(pairwise_divergences(beliefs), expected, rtol=0, atol=1e-10)
    mean = np.mean([kl(natural(one), natural(posterior)) for one in beliefs])
    assert modelling_error(beliefs, posterior) == pytest.approx(mean, abs=1e-10)
