"""A batch enters a belief: against dense algebra with explicit inverses, plain loops, and itself in pieces."""

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.inference.activations import Activations
from service.inference.belief import FAMILIES, Belief, DiagonalGaussian, Family
from service.inference.conditioning import DiagonalStep, condition
from service.inference.features import LatticeFeatures
from service.inference.likelihoods import Likelihood
from tests.inference.builders import (
    KINDS,
    SENSORS,
    assert_same,
    belief_with,
    center_features,
    natural,
    points,
    snapshot,
    surface,
    targets_for,
)
from tests.inference.oracles import Array, condition_diagonal, condition_full

every_kind = pytest.mark.parametrize("kind", KINDS)
either_step = pytest.mark.parametrize("step", ["paper", "projected"])
family_and_step = st.sampled_from([("full", "paper"), ("diagonal", "paper"), ("diagonal", "projected")])


def batch_for(
    likelihood: Likelihood, count: int, centers: int, seed: int, cutoff: float | None = None
) -> tuple[Activations, Array]:
    generator = np.random.default_rng(seed)
    features = center_features(generator, centers, cutoff=cutoff)
    x = points(generator, count)
    return features.activate(x), targets_for(likelihood, surface(x), generator)


@every_kind
def test_a_full_batch_of_64_at_300_centres_is_the_dense_equations_with_explicit_inverses(kind: str) -> None:
    likelihood, expectations = SENSORS[kind]
    activations, y = batch_for(likelihood, 64, 300, seed=1)
    belief = belief_with(np.random.default_rng(2), "full", 301)
    expected = condition_full(natural(belief), activations.dense(), y, expectations, w=3.0, invert_every=16)
    found = condition(belief, activations, y, likelihood, likelihood_weight=3.0)
    # The information's condition number is about 10: inverses and factors agree to 1e-13, sequences of 64 to 1e-11.
    assert_same(found.belief, expected, 1e-8)
    assert_same(found.evidence, type(expected)(*(a - b for a, b in zip(expected, natural(belief), strict=True))), 1e-8)


@every_kind
def test_a_full_batch_beyond_the_rows_of_one_factor_is_still_the_dense_equations(kind: str) -> None:
    likelihood, expectations = SENSORS[kind]
    activations, y = batch_for(likelihood, 530, 12, seed=3)
    belief = FAMILIES["full"].prior(13, 0.2, 0.1)
    expected = condition_full(natural(belief), activations.dense(), y, expectations, w=1.0)
    assert_same(condition(belief, activations, y, likelihood).belief, expected, 1e-9)


# Not gaussian with the paper's step, which diverges in regression: one observation of it has a test of its own.
STABLE = [(kind, step) for kind in KINDS for step in ("paper", "projected") if (kind, step) != ("gaussian", "paper")]


@pytest.mark.parametrize("cutoff", [None, 1e-3])
@pytest.mark.parametrize(("kind", "step"), STABLE)
def test_a_diagonal_batch_is_the_plain_loop_over_the_equations(
    kind: str, step: DiagonalStep, cutoff: float | None
) -> None:
    likelihood, expectations = SENSORS[kind]
    activations, y = batch_for(likelihood, 80, 40, seed=4, cutoff=cutoff)
    belief = belief_with(np.random.default_rng(5), "diagonal", 41)
    assert activations.covered.all()
    expected = condition_diagonal(natural(belief), activations.dense(), y, expectations, 1.5, step)
    found = condition(belief, activations, y, likelihood, 1.5, step)
    # 64-point sums in another order, and a root to the last digits; 80 steps, each on the result of the last.
    assert_same(found.belief, expected, 1e-9)


@either_step
@every_kind
def test_one_observation_of_a_diagonal_belief_follows_the_equations_to_rounding(kind: str, step: DiagonalStep) -> None:
    likelihood, expectations = SENSORS[kind]
    activations, y = batch_for(likelihood, 1, 10, seed=6)
    belief = belief_with(np.random.default_rng(7), "diagonal", 11)
    expected = condition_diagonal(natural(belief), activations.dense(), y, expectations, 4.0, step)
    assert_same(condition(belief, activations, y, likelihood, 4.0, step).belief, expected, 1e-13)


def test_the_projected_step_reaches_the_exact_mean_of_one_observation() -> None:
    likelihood, expectations = SENSORS["gaussian"]
    activations, y = batch_for(likelihood, 1, 10, seed=8)
    belief = belief_with(np.random.default_rng(9), "diagonal", 11)
    dense = natural(belief)._replace(information=np.diag(belief.information))
    exact = condition_full(dense, activations.dense(), y, expectations, w=2.0)
    found = condition(belief, activations, y, likelihood, 2.0, "projected").belief
    np.testing.assert_allclose(found.mean, np.linalg.solve(exact.information, exact.shift), rtol=1e-12)


def in_pieces(
    belief: Belief, activations: Activations, y: Array, likelihood: Likelihood, step: DiagonalStep, cuts: list[int]
) -> Belief:
    edges = [0, *sorted(cuts), len(y)]
    for begin, end in itertools.pairwise(edges):
        belief = condition(belief, activations.rows(begin, end), y[begin:end], likelihood, 2.0, step).belief
    return belief


@settings(deadline=None, max_examples=40)
@given(
    kind=st.sampled_from(KINDS),
    how=family_and_step,
    cuts=st.lists(st.integers(0, 40), max_size=4),
    cutoff=st.sampled_from([None, 1e-2]),
    seed=st.integers(0, 1000),
)
def test_chunks_equal_the_whole(
    kind: str, how: tuple[Family, DiagonalStep], cuts: list[int], cutoff: float | None, seed: int
) -> None:
    family, step = how
    likelihood = SENSORS[kind].likelihood
    activations, y = batch_for(likelihood, 40, 15, seed, cutoff)
    belief = belief_with(np.random.default_rng(seed), family, 16)
    whole = condition(belief, activations, y, likelihood, 2.0, step).belief
    assert_same(in_pieces(belief, activations, y, likelihood, step, cuts), whole, 1e-9)


@pytest.mark.parametrize(("family", "step"), [("full", "paper"), ("diagonal", "paper"), ("diagonal", "projected")])
@every_kind
def test_a_batch_equals_the_loop_over_its_observations(kind: str, family: Family, step: DiagonalStep) -> None:
    likelihood = SENSORS[kind].likelihood
    count = 300 if family == "full" else 60  # beyond the rows of one factor
    activations, y = batch_for(likelihood, count, 15, seed=12)
    belief = belief_with(np.random.default_rng(13), family, 16)
    if kind == "gaussian" and step == "paper" and family == "diagonal":
        activations, y = activations.rows(0, 3), y[:3]  # before the paper's step diverges
    whole = condition(belief, activations, y, likelihood, 2.0, step).belief
    assert_same(in_pieces(belief, activations, y, likelihood, step, list(range(1, len(y)))), whole, 1e-9)


@pytest.mark.parametrize("family", ["diagonal", "full"])
@every_kind
def test_points_that_no_centre_reaches_are_counted_and_not_applied(kind: str, family: Family) -> None:
    likelihood = SENSORS[kind].likelihood
    features = LatticeFeatures(0.5, 0.3, [0, 0], [2, 2])
    near, far = [[0.4, 0.6], [1.9, 0.1]], [[50.0, 0.5], [0.5, -1e6], [1e300, 1e300]]
    y = np.ones(5)
    belief = FAMILIES[family].prior(features.feature_count, 0.2)
    found = condition(belief, features.activate([far[0], near[0], far[1], near[1], far[2]]), y, likelihood)
    assert found.info == (5, 2, 3)
    assert (found.info.observations, found.info.applied, found.info.uncovered) == (5, 2, 3)
    assert_same(found.belief, condition(belief, features.activate(near), y[:2], likelihood).belief, 1e-14)
    nothing = condition(belief, features.activate(far), y[:3], likelihood)
    assert snapshot(nothing.belief.information, nothing.belief.shift) == snapshot(belief.information, belief.shift)


@pytest.mark.parametrize("family", ["diagonal", "full"])
@every_kind
def test_conditioning_writes_to_none_of_its_inputs(kind: str, family: Family) -> None:
    likelihood = SENSORS[kind].likelihood
    for cutoff in (None, 1e-2):
        activations, y = batch_for(likelihood, 20, 10, seed=14, cutoff=cutoff)
        belief = belief_with(np.random.default_rng(15), family, 11)
        held: list[npt.NDArray[Any]] = [belief.information, belief.shift, y]
        held += [activations.indices, activations.values, activations.row_starts]
        before = snapshot(*held)
        condition(belief, activations, y, likelihood, 2.0)
        assert snapshot(*held) == before


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    how=family_and_step,
    weight=st.floats(1e-3, 50),
    size=st.floats(0, 30),
    seed=st.integers(0, 1000),
)
def test_information_never_falls(
    kind: str, how: tuple[Family, DiagonalStep], weight: float, size: float, seed: int
) -> None:
    family, step = how
    generator = np.random.default_rng(seed)
    likelihood = SENSORS[kind].likelihood
    features = center_features(generator, 6)
    x = points(generator, 3)
    y = targets_for(likelihood, surface(x), generator)
    if not likelihood.is_binary:
        y = np.round(np.abs(y) * size)  # far from what the belief expects, and valid for counts
    belief = belief_with(generator, family, features.feature_count)
    evidence = condition(belief, features.activate(x), y, likelihood, weight, step).evidence
    if isinstance(belief, DiagonalGaussian):
        assert (evidence.information >= 0).all()
    else:  # up to rounding of eigenvalues, relative to the largest
        eigenvalues = np.linalg.eigvalsh(evidence.information)
        assert eigenvalues.min() >= -1e-13 * max(eigenvalues.max(), np.abs(belief.information).max())
    assert evidence.information.max() > 0


def test_an_empty_batch_adds_nothing() -> None:
    features = center_features(np.random.default_rng(16), 5, cutoff=1e-3)
    belief = belief_with(np.random.default_rng(17), "full", 6)
    found = condition(belief, features.activate(np.empty((0, 2))), [], SENSORS["probit"].likelihood)
    assert found.info == (0, 0, 0)
    assert snapshot(found.belief.information, found.belief.shift) == snapshot(belief.information, belief.shift)
    assert not found.evidence.information.any()
    assert not found.evidence.shift.any()
