"""The quality of predictions, against numbers worked out by hand."""

import numpy as np
import pytest

from service.inference.objective import (
    accuracy,
    balanced_accuracy,
    calibration_error,
    cross_entropy,
    root_mean_square_error,
)

PROBABILITIES = [0.9, 0.8, 0.3, 0.6, 0.5]
LABELS = [1, 1, 0, 0, 0]


def test_cross_entropy_is_the_mean_of_minus_the_log_of_the_true_labels_probability() -> None:
    by_hand = -(np.log(0.9) + np.log(0.8) + np.log(0.7) + np.log(0.4) + np.log(0.5)) / 5
    assert cross_entropy(PROBABILITIES, LABELS) == pytest.approx(by_hand, rel=1e-14)
    assert cross_entropy([0.5, 0.5], [0, 1]) == pytest.approx(np.log(2), rel=1e-14)


def test_cross_entropy_of_a_certain_mistake_is_large_and_finite() -> None:
    assert cross_entropy([1.0], [0]) == pytest.approx(-np.log(1e-15), rel=1e-2)
    assert cross_entropy([0.0], [1]) == pytest.approx(-np.log(1e-15), rel=1e-12)
    assert cross_entropy([1.0, 0.0], [1, 0]) == pytest.approx(0, abs=1e-14)


def test_accuracy_counts_the_more_probable_label_and_one_half_as_label_1() -> None:
    assert accuracy(PROBABILITIES, LABELS) == 3 / 5
    assert accuracy([0.5], [1]) == 1.0
    assert accuracy([0.5], [0]) == 0.0


def test_balanced_accuracy_is_the_mean_of_the_classes_own_accuracies() -> None:
    assert balanced_accuracy(PROBABILITIES, LABELS) == pytest.approx((2 / 2 + 1 / 3) / 2, rel=1e-15)
    assert balanced_accuracy([0.9, 0.2], [1, 1]) == 0.5  # only one class is there


def test_calibration_error_is_the_gap_per_bin_weighed_by_the_points_in_it() -> None:
    # Bins of a tenth: {0.91, 0.99} with both labels 1, {0.25} with 1, {0.41, 0.45, 0.49} with 1, 0, 0.
    p = [0.91, 0.99, 0.25, 0.41, 0.45, 0.49]
    y = [1, 1, 1, 1, 0, 0]
    by_hand = (2 * (1 - 0.95) + 1 * (1 - 0.25) + 3 * (0.45 - 1 / 3)) / 6
    assert calibration_error(p, y) == pytest.approx(by_hand, rel=1e-13)


def test_calibration_error_puts_certainty_into_the_last_bin_and_opposite_gaps_of_one_bin_cancel() -> None:
    assert calibration_error([1.0, 0.95], [1, 1]) == pytest.approx(0.025, rel=1e-13)
    assert calibration_error([0.55, 0.55], [0, 1]) == pytest.approx(0.05, rel=1e-13)
    assert calibration_error([0.2, 0.8], [0, 1], bins=1) == pytest.approx(0, abs=1e-15)


def test_the_root_mean_square_error_is_that() -> None:
    assert root_mean_square_error([1.0, 2.0, 3.0], [1.0, 0.0, 4.0]) == pytest.approx(np.sqrt(5 / 3), rel=1e-15)
    two_outputs = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert root_mean_square_error(two_outputs, two_outputs + 2.0) == pytest.approx(2.0, rel=1e-15)
