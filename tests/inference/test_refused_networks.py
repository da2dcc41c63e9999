"""Wrong mixing weights, batches and priors: a sentence of delbo's own, never a crash or a stretched array."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import csr_array

from service.errors import DataError, DelboError, TopologyError
from service.inference.belief import Belief, DiagonalGaussian, FullGaussian
from service.inference.conditioning import condition_stack
from service.inference.likelihoods import Gaussian, Probit
from service.inference.mixing import mix, mix_stack
from service.inference.objective import (
    accuracy,
    balanced_accuracy,
    calibration_error,
    consensus_divergence,
    consensus_error,
    cross_entropy,
    delbo_component,
    divergences_from_center,
    modelling_error,
    root_mean_square_error,
)
from service.inference.prediction import predict_all
from service.inference.round import RoundRule, advance, advance_network, forget, replay_rows
from service.inference.stack import BeliefStack
from tests.inference.builders import center_features, points, starts_of

ACTIVATIONS = center_features(np.random.default_rng(0), 4).activate(points(np.random.default_rng(1), 3))
PRIOR = DiagonalGaussian.prior(5, 0.2)
FULL = FullGaussian.prior(5, 0.2)
LABELS = [0, 1, 1]
both = pytest.mark.parametrize("belief", [PRIOR, FULL], ids=["diagonal", "full"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, 0.4], "must sum to 1, not 0.9"),
        ([1.5, -0.5], "must not be negative, but one is -0.5"),
        ([1.0], "2 beliefs need as many mixing weights, not 1"),
        ([0.5, np.nan], r"mixing_weights\[1\] is nan"),
        ([[0.5, 0.5]], "must have 1 dimension"),
    ],
)
def test_mixing_weights_that_cannot_work_are_refused(row: object, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        mix([PRIOR, PRIOR], row)
    with pytest.raises(TopologyError, match=message):
        advance(PRIOR, [PRIOR], row, ACTIVATIONS, LABELS, Probit(), RoundRule(PRIOR))


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.5, 0.4], [0.5, 0.5]],
        [[1.5, -0.5], [0.0, 1.0]],
        [[0.5, np.nan], [0.5, 0.5]],
        [[1.0], [1.0]],
        [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]],
    ],
    ids=["sum", "negative", "nan", "narrow", "wide"],
)
def test_a_mixing_matrix_that_cannot_work_is_refused(matrix: list[list[float]]) -> None:
    stack = BeliefStack.of([PRIOR, PRIOR])
    rule, likelihoods = RoundRule(PRIOR), [Probit(), Probit()]
    with pytest.raises(TopologyError):
        advance_network(stack, csr_array(matrix), ACTIVATIONS, LABELS, starts_of([2, 1]), likelihoods, rule)
    with pytest.raises(TopologyError):
        mix_stack(stack, csr_array(matrix))


def test_beliefs_of_different_families_or_sizes_never_mix() -> None:
    for other in (FULL, DiagonalGaussian.prior(4, 0.2)):
        with pytest.raises(DelboError, match="one family"):
            mix([PRIOR, other], [0.5, 0.5])
        with pytest.raises(DelboError, match="one family"):
            BeliefStack.of([PRIOR, other])
        with pytest.raises(DelboError):
            predict_all([PRIOR, other], ACTIVATIONS, Probit())
        with pytest.raises(DelboError):
            consensus_error([PRIOR, other])
        with pytest.raises(DelboError):
            consensus_divergence([PRIOR, other])


@both
def test_a_prior_of_another_size_or_family_is_not_forgotten_towards(belief: Belief) -> None:
    one, other = type(belief).prior(1, 1.0), FULL if belief is PRIOR else PRIOR
    for prior in (one, other):
        with pytest.raises(DelboError):
            forget(belief, prior, 0.5)
        rule = RoundRule(prior, forgetting=0.5)
        with pytest.raises(DelboError):
            advance(belief, [], [1.0], ACTIVATIONS, LABELS, Probit(), rule)
        stack, matrix = BeliefStack.of([belief]), csr_array(np.eye(1))
        with pytest.raises(DelboError):
            advance_network(stack, matrix, ACTIVATIONS, LABELS, starts_of([3]), [Probit()], rule)


@both
@pytest.mark.parametrize("starts", [[0, 1, 2], [1, 2, 3], [0, 1, 1, 3], [0, 3], [0, 2, 1, 3]])
def test_batches_that_do_not_divide_the_rows_among_the_agents_are_refused(belief: Belief, starts: list[int]) -> None:
    likelihoods = [Probit()] * (3 if starts == [0, 2, 1, 3] else 2)
    stack = BeliefStack.of([belief] * len(likelihoods))
    with pytest.raises(DataError):
        condition_stack(stack, ACTIVATIONS, LABELS, np.array(starts, np.int64), likelihoods)


def test_a_fault_in_a_later_agents_targets_is_named_by_its_row() -> None:
    stack = BeliefStack.of([PRIOR, PRIOR])
    with pytest.raises(DataError, match=r"y\[2\] is 7"):
        condition_stack(stack, ACTIVATIONS, [0.0, 1.0, 7.0], starts_of([2, 1]), [Gaussian(1.0), Probit()])


METRICS = [cross_entropy, accuracy, balanced_accuracy, calibration_error]


@pytest.mark.parametrize(
    ("p", "y"),
    [
        ([0.5, 0.5], [1]),
        ([0.5], [1, 0]),
        ([], []),
        ([np.nan], [1]),
        ([0.5], [np.nan]),
        ([0.5], [2]),
        ([0.5], [-1]),
        ([1.5], [1]),
        ([-0.5], [1]),
        ([[0.5]], [[1]]),
    ],
)
@pytest.mark.parametrize("metric", METRICS)
def test_probabilities_and_labels_that_are_none_are_refused(
    metric: Callable[[object, object], float], p: list[float], y: list[float]
) -> None:
    with pytest.raises(DataError):
        metric(p, y)


@pytest.mark.parametrize(("means", "targets"), [([1.0, 2.0], [1.0]), ([], []), ([np.nan], [1.0]), ([1.0], ["a"])])
def test_means_and_targets_that_do_not_compare_are_refused(means: list[float], targets: list[float]) -> None:
    with pytest.raises(DataError):
        root_mean_square_error(means, targets)


@pytest.mark.parametrize("measure", [consensus_error, consensus_divergence, divergences_from_center])
def test_no_agents_at_all_are_refused(measure: Callable[[list[Belief]], object]) -> None:
    with pytest.raises(DelboError):
        measure([])


def test_nothing_to_predict_or_to_compare_with_is_refused() -> None:
    with pytest.raises(DelboError):
        predict_all([], ACTIVATIONS, Probit())
    with pytest.raises(DelboError):
        modelling_error([], PRIOR)
    with pytest.raises(DelboError):
        calibration_error([0.5], [1], bins=0)
    with pytest.raises(DelboError):
        delbo_component(PRIOR, PRIOR, ACTIVATIONS, LABELS, Probit(), agents=0)
    with pytest.raises(DelboError):
        replay_rows(0, 0, 0, collected=0, count=1)
