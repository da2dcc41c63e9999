"""The one-dimensional integrals behind each likelihood, against adaptive integration and the equations they solve."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import expit, gammaln, log_ndtr, ndtr
from scipy.stats import norm, poisson, t

from service.inference.likelihoods import Gaussian, Likelihood, Logistic, Poisson, Probit, StudentT
from tests.inference.oracles import XI, gaussian_expectation

# What 64 nodes leave at each variance s, over means from -12 to 12: measured, then rounded up. It grows with the
# width of N(m, s) measured in widths of the integrand, so it holds for scale 1 and degrees 4 of Student-t.
LOGISTIC_ERRORS = {0.1: (1e-14, 1e-14), 1.0: (1e-14, 1e-14), 10.0: (2e-6, 4e-7), 40.0: (1e-3, 4e-4)}
STUDENT_T_ERRORS = {0.1: (1e-14, 1e-14), 1.0: (1e-12, 1e-12), 10.0: (2e-4, 3e-4), 40.0: (1e-2, 2e-2)}
MEANS = np.linspace(-12, 12, 25).tolist()


@settings(deadline=None, max_examples=40)
@given(y=st.sampled_from([0.0, 1.0]), m=st.floats(-30, 30), s=st.floats(1e-6, 100), w=st.floats(0.1, 50))
def test_probit_expectations_are_the_integrals(y: float, m: float, s: float, w: float) -> None:
    a, e = Probit().expectations(y, m, s, w)
    assert a == pytest.approx(gaussian_expectation(lambda f: XI * norm.pdf(XI * f), m, s, 0.0), abs=1e-8)
    assert e == pytest.approx(gaussian_expectation(lambda f: y - ndtr(XI * f), m, s, 0.0), abs=1e-8)


@settings(deadline=None, max_examples=20)
@given(y=st.floats(-100, 100), m=st.floats(-30, 30), s=st.floats(1e-6, 100), precision=st.floats(0.01, 100))
def test_gaussian_expectations_are_the_integrals(y: float, m: float, s: float, precision: float) -> None:
    a, e = Gaussian(precision).expectations(y, m, s, 1.0)
    assert a == precision
    # The integrand's terms are as large as precision * (|y| + |m| + 12 sqrt(s)).
    assert e == pytest.approx(gaussian_expectation(lambda f: precision * (y - f), m, s), abs=1e-8, rel=1e-8)


@pytest.mark.parametrize("s", LOGISTIC_ERRORS)
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_logistic_expectations_are_the_integrals_to_their_documented_error(y: float, s: float) -> None:
    found = [Logistic().expectations(y, m, s, 1.0) for m in MEANS]
    exact_a = [gaussian_expectation(lambda f: expit(f) * expit(-f), m, s, 0.0) for m in MEANS]
    exact_e = [gaussian_expectation(lambda f: y - expit(f), m, s, 0.0) for m in MEANS]
    np.testing.assert_allclose([a for a, _ in found], exact_a, rtol=0, atol=LOGISTIC_ERRORS[s][0])
    np.testing.assert_allclose([e for _, e in found], exact_e, rtol=0, atol=LOGISTIC_ERRORS[s][1])


@pytest.mark.parametrize("s", STUDENT_T_ERRORS)
def test_student_t_expectations_are_the_integrals_to_their_documented_error(s: float) -> None:
    nu, sigma, y = 4.0, 1.0, 0.7

    def curvature(f: float) -> float:
        return (nu + 1) / (nu * sigma**2 + (y - f) ** 2)

    found = [StudentT(nu, sigma).expectations(y, m, s, 1.0) for m in MEANS]
    exact_a = [gaussian_expectation(curvature, m, s, y) for m in MEANS]
    exact_e = [gaussian_expectation(lambda f: curvature(f) * (y - f), m, s, y) for m in MEANS]
    np.testing.assert_allclose([a for a, _ in found], exact_a, rtol=0, atol=STUDENT_T_ERRORS[s][0])
    np.testing.assert_allclose([e for _, e in found], exact_e, rtol=0, atol=STUDENT_T_ERRORS[s][1])


@settings(deadline=None, max_examples=150)
@given(y=st.integers(0, 1000), m=st.floats(-10, 10), s=st.floats(1e-6, 100), w=st.floats(0.01, 50))
@example(y=10, m=0.0, s=1.0, w=50.0)
@example(y=1000, m=0.0, s=10.0, w=1.0)
@example(y=1000, m=0.0, s=100.0, w=50.0)
@example(y=0, m=10.0, s=100.0, w=50.0)
def test_a_poisson_step_solves_its_pair_of_equations(y: int, m: float, s: float, w: float) -> None:
    """m* = m + s w (y - r), 1/s* = 1/s + w r, r = exp(m* + s*/2), at the (m*, s*) where the step arrives."""
    a, e = Poisson().expectations(float(y), m, s, w)
    s_star = 1 / (1 / s + w * a)
    m_star = s_star * (m / s + w * (a * m + e))
    rate = np.exp(m_star + 0.5 * s_star)
    # Residuals relative to the size of the terms: more digits of the difference do not exist.
    assert abs(1 / s_star - 1 / s - w * rate) * s_star <= 1e-10
    assert abs(m_star - m - s * w * (y - rate)) <= 1e-10 * (1 + s * w * (y + rate))


@settings(deadline=None, max_examples=60)
@given(y=st.integers(0, 50), m=st.floats(-10, 10), s=st.floats(1e-3, 100), w=st.floats(0.01, 50))
def test_a_poisson_step_ends_where_the_weighted_bound_is_highest(y: int, m: float, s: float, w: float) -> None:
    """w E[log p] - KL(N(m*, s*) || N(m, s)), of which the pair of equations is the stationary point."""
    a, e = Poisson().expectations(float(y), m, s, w)
    s_star = 1 / (1 / s + w * a)
    m_star = s_star * (m / s + w * (a * m + e))

    def height(mean: float, variance: float) -> float:
        expected = y * mean - np.exp(mean + 0.5 * variance)
        return float(w * expected - 0.5 * (variance / s + (mean - m) ** 2 / s - 1 - np.log(variance / s)))

    top = height(m_star, s_star)
    for shift in (-0.1, 0.1):
        assert height(m_star + shift * np.sqrt(s_star), s_star) < top
        assert height(m_star, s_star * (1 + shift)) < top


REALS = [Gaussian(3.0), StudentT(5.0, 0.6)]
BINARIES: list[Likelihood] = [Probit(), Logistic()]


@pytest.mark.parametrize(
    ("likelihood", "reference"),
    [
        (Probit(), lambda y, f: log_ndtr(XI * f) if y else log_ndtr(-XI * f)),
        (Logistic(), lambda y, f: np.log(expit(f)) if y else np.log(expit(-f))),
        (Gaussian(3.0), lambda y, f: norm.logpdf(y, f, 1 / np.sqrt(3.0))),
        (StudentT(5.0, 0.6), lambda y, f: t.logpdf(y, 5.0, f, 0.6)),
        (Poisson(), lambda y, f: poisson.logpmf(y, np.exp(f))),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("f", [-3.0, 0.2, 2.5])
def test_log_densities_are_those_of_scipy(
    likelihood: Likelihood, reference: Callable[[float, float], float], y: float, f: float
) -> None:
    found = float(likelihood.log_density(np.array(y), np.array(f)))
    assert found == pytest.approx(float(reference(y, f)), rel=1e-12)


@pytest.mark.parametrize("likelihood", [Logistic(), *REALS, Poisson()], ids=lambda one: type(one).__name__)
def test_gradients_are_the_slopes_of_the_log_density(likelihood: Likelihood) -> None:
    """Not probit's, whose gradient is by design that of the sigmoid it stands in for."""
    f, y = np.linspace(-3, 3, 25), np.ones(25)
    h = 1e-5  # a central difference: h^2 of the third derivative, and rounding / h
    slope = (likelihood.log_density(y, f + h) - likelihood.log_density(y, f - h)) / (2 * h)
    np.testing.assert_allclose(likelihood.gradient(y, f), slope, rtol=0, atol=1e-8)


@pytest.mark.parametrize("likelihood", [Logistic(), Gaussian(3.0), Poisson()], ids=lambda one: type(one).__name__)
def test_curvatures_are_the_falling_slopes_of_the_gradient(likelihood: Likelihood) -> None:
    f, y = np.linspace(-3, 3, 25), np.ones(25)
    h = 1e-5
    slope = (likelihood.gradient(y, f - h) - likelihood.gradient(y, f + h)) / (2 * h)
    np.testing.assert_allclose(likelihood.curvature(y, f), slope, rtol=0, atol=1e-8)


@pytest.mark.parametrize("likelihood", [*BINARIES, *REALS, Poisson()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(("m", "s"), [(0.3, 0.05), (-1.2, 0.6), (1.0, 1.0)])
def test_expected_and_predictive_log_densities_are_the_integrals(likelihood: Likelihood, m: float, s: float) -> None:
    for y in (0.0, 1.0):

        def log_density(f: float, y: float = y) -> float:
            return float(likelihood.log_density(np.array(y), np.array(f)))

        arguments = np.array([y]), np.array([m]), np.array([s])
        expected = gaussian_expectation(log_density, m, s, 0.0)
        # 64 nodes at s = 1 leave 4e-7 of the narrowest of these, Student-t of scale 0.6.
        assert likelihood.expected_log_density(*arguments)[0] == pytest.approx(expected, abs=1e-6)
        predictive = np.log(gaussian_expectation(lambda f: np.exp(log_density(f)), m, s, 0.0, y))
        assert likelihood.log_predictive_density(*arguments)[0] == pytest.approx(predictive, abs=1e-6)


def test_the_poisson_log_density_stays_finite_for_huge_latent_values() -> None:
    found = Poisson().log_density(np.array([3.0]), np.array([1e6]))
    assert np.isfinite(found).all()
    assert Poisson().log_density(np.array([3.0]), np.array([-800.0]))[0] == pytest.approx(-2400 - gammaln(4))
