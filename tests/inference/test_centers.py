"""Ways to choose centres from data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import DelboError, ModelError
from service.inference.centers import choose_latin_hypercube, choose_lattice, choose_random, choose_stratified

X = np.random.default_rng(0).uniform(-3, 5, (60, 2))
LABELS = np.arange(60) % 3 == 0


def rows_of(chosen: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[int]:
    """Which rows of X were chosen."""
    return [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in chosen]


def test_random_centres_are_different_rows_of_the_data_and_the_same_for_the_same_seed() -> None:
    chosen = choose_random(X, 60, np.random.default_rng(1))
    assert sorted(rows_of(chosen)) == list(range(60))
    np.testing.assert_array_equal(chosen, choose_random(X, 60, np.random.default_rng(1)))
    assert rows_of(choose_random(X, 10, np.random.default_rng(2))) != rows_of(
        choose_random(X, 10, np.random.default_rng(3))
    )


def test_stratified_centres_are_as_many_of_each_class_as_told() -> None:
    y = LABELS.astype(np.float64)
    chosen, classes = choose_stratified(X, y, {1: 20, 0: 7}, np.random.default_rng(4))
    assert classes.tolist() == [1.0] * 20 + [0.0] * 7
    rows = rows_of(chosen)
    assert len(set(rows)) == 27
    np.testing.assert_array_equal(y[rows], classes)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), count=st.integers(1, 30))
def test_a_latin_hypercube_has_one_centre_in_each_slice_of_every_axis(seed: int, count: int) -> None:
    chosen = choose_latin_hypercube(X, count, np.random.default_rng(seed))
    lower, upper = X.min(axis=0), X.max(axis=0)
    slices = np.floor((chosen - lower) / (upper - lower) * count).astype(int)
    for axis in range(2):
        assert sorted(slices[:, axis].tolist()) == list(range(count))


def test_lattice_centres_start_at_the_lower_corner_of_the_data_and_stay_inside() -> None:
    chosen = choose_lattice(X, 0.5)
    lower, upper = X.min(axis=0), X.max(axis=0)
    np.testing.assert_array_equal(chosen[0], lower)
    assert (chosen <= upper + 1e-9).all()
    counts = np.floor((upper - lower) / 0.5 + 1e-9) + 1
    assert len(chosen) == counts.prod()


def test_more_centres_than_points_are_refused_in_a_sentence() -> None:
    with pytest.raises(ModelError, match="61 centres cannot be chosen from 60 points"):
        choose_random(X, 61, np.random.default_rng(5))
    with pytest.raises(ModelError, match="21 centres cannot be chosen from 20 points with label 1"):
        choose_stratified(X, LABELS.astype(np.float64), {1: 21}, np.random.default_rng(5))
    with pytest.raises(ModelError, match="from 0 points with label 7"):
        choose_stratified(X, LABELS.astype(np.float64), {7: 1}, np.random.default_rng(5))


def test_classes_of_another_length_than_the_points_are_refused() -> None:
    with pytest.raises(DelboError):
        choose_stratified(X, np.ones(3), {1: 1}, np.random.default_rng(6))


def test_choosing_from_no_points_is_refused() -> None:
    nothing = np.empty((0, 2))
    with pytest.raises(DelboError):
        choose_latin_hypercube(nothing, 3, np.random.default_rng(7))
    with pytest.raises(DelboError):
        choose_lattice(nothing, 0.5)


def test_choosing_fewer_than_one_centre_is_refused() -> None:
    for choose in (choose_random, choose_latin_hypercube):
        for count in (0, -1):
            with pytest.raises(DelboError):
                choose(X, count, np.random.default_rng(8))
