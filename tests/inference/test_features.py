"""Activations of centres and lattices, against a double loop over points and centres."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.inference import kernels
from service.inference.activations import Activations, concatenate
from service.inference.arrays import FloatArray
from service.inference.features import CenterFeatures, Features, LatticeFeatures
from tests.inference.builders import center_features, points, snapshot
from tests.inference.oracles import Array, kernel_features

# A product of up to three exponentials against one, each to two units in the last place.
ROUNDING = 1e-12


def sorted_rows(activations: Activations) -> list[dict[int, float]]:
    """Each row's features and values; a feature that came twice would be lost here, so lengths are compared too."""
    rows = []
    for begin, end in zip(activations.row_starts, activations.row_starts[1:], strict=False):
        row = dict(zip(activations.indices[begin:end].tolist(), activations.values[begin:end].tolist(), strict=True))
        assert len(row) == end - begin
        rows.append(row)
    return rows


def assert_equal_rows(one: Activations, other: Activations) -> None:
    assert one.feature_count == other.feature_count
    for left, right in zip(sorted_rows(one), sorted_rows(other), strict=True):
        assert left.keys() == right.keys()
        np.testing.assert_allclose(
            [left[key] for key in sorted(left)], [right[key] for key in sorted(left)], rtol=ROUNDING
        )


def as_centers(lattice: LatticeFeatures) -> CenterFeatures:
    return CenterFeatures(lattice.centers, lattice.lengthscale, lattice.gamma1, lattice.cutoff)


def brute_force(features: Features, x: Array) -> Array:
    return kernel_features(x, features.centers, features.gamma2, features.gamma1, features.cutoff)


@pytest.mark.parametrize("cutoff", [1e-6, 0.05, 0.7])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_lattice_equals_its_centres_with_the_same_cutoff(dimension: int, cutoff: float) -> None:
    generator = np.random.default_rng(dimension)
    lower, upper = [-0.7, 0.3, 1.0][:dimension], [0.9, 1.4, 1.9][:dimension]
    lattice = LatticeFeatures(0.2, 0.17, lower, upper, cutoff, gamma1=1.7)
    inside = generator.uniform(lower, upper, (60, dimension))
    outside = generator.uniform(np.array(lower) - 1.5, np.array(upper) + 1.5, (60, dimension))
    halfway = lattice.centers[::3] + 0.1
    far = np.array([[1e6] * dimension, [-1e6] * dimension, [1e300] * dimension, [-1e300] * dimension])
    x = np.concatenate([inside, outside, lattice.centers, halfway, far])
    assert_equal_rows(lattice.activate(x), as_centers(lattice).activate(x))
    np.testing.assert_allclose(lattice.activate(x[:-4]).dense(), brute_force(lattice, x[:-4]), rtol=1e-11)


@pytest.mark.parametrize("steps", range(1, 9))
def test_a_lattice_finds_the_centres_that_lie_exactly_at_its_reach(steps: int) -> None:
    """The cutoff is the kernel's value a whole number of steps away: rounding decides at both ends of the line."""
    for spacing, lengthscale in ((1.0, 2.0), (0.5, 1.0), (0.25, 1.5), (0.25, 2.0), (0.1, 0.15)):
        cutoff = float(np.exp(-0.5 * (steps * spacing / lengthscale) ** 2))
        lattice = LatticeFeatures(spacing, lengthscale, [0.0], [100 * spacing], cutoff)
        assert_equal_rows(lattice.activate(lattice.centers), as_centers(lattice).activate(lattice.centers))


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    dimension=st.integers(1, 3),
    spacing=st.floats(0.1, 1.0),
    lengthscale=st.floats(0.05, 1.0),
    cutoff=st.floats(1e-12, 0.99),
)
def test_any_lattice_equals_its_centres(
    seed: int, dimension: int, spacing: float, lengthscale: float, cutoff: float
) -> None:
    generator = np.random.default_rng(seed)
    lower = generator.uniform(-5, 5, dimension)
    lattice = LatticeFeatures(spacing, lengthscale, lower, lower + generator.uniform(0, 2, dimension), cutoff)
    x = np.concatenate([generator.uniform(lower - 2, lower + 4), *lattice.centers[:20]]).reshape(-1, dimension)
    assert_equal_rows(lattice.activate(x), as_centers(lattice).activate(x))


@pytest.mark.parametrize("cutoff", [1e-8, 1e-2, 0.6])
@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5])
def test_centres_with_a_cutoff_equal_brute_force_in_any_dimension(dimension: int, cutoff: float) -> None:
    generator = np.random.default_rng(10 * dimension)
    features = CenterFeatures(
        generator.uniform(-2, 2, (70, dimension)), generator.uniform(0.05, 1.2, 70), gamma1=0.8, cutoff=cutoff
    )
    x = np.concatenate([generator.uniform(-4, 4, (80, dimension)), features.centers[:20]])
    found = features.activate(x)
    expected = brute_force(features, x)
    np.testing.assert_allclose(found.dense(), expected, rtol=ROUNDING)
    assert [len(row) for row in sorted_rows(found)] == (expected != 0).sum(axis=1).tolist()
    np.testing.assert_array_equal(found.covered, (expected[:, 1:] != 0).any(axis=1))


def test_many_active_centres_in_one_cell_all_come_out() -> None:
    generator = np.random.default_rng(0)
    crowd = CenterFeatures(0.01 * generator.standard_normal((500, 2)), 1.0, cutoff=1e-3)
    x = 0.01 * generator.standard_normal((7, 2))
    np.testing.assert_allclose(crowd.activate(x).dense(), brute_force(crowd, x), rtol=ROUNDING)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_centres_without_a_cutoff_equal_numpy(dimension: int) -> None:
    generator = np.random.default_rng(dimension)
    centers, scales = generator.uniform(-2, 2, (30, dimension)), generator.uniform(0.2, 2.0, 30)
    x = generator.uniform(-3, 3, (40, dimension))
    squares = ((x[:, None, :] - centers) ** 2).sum(axis=-1)
    expected = np.column_stack([np.ones(40), 2.5 * np.exp(-squares / (2 * scales**2))])
    found = CenterFeatures(centers, scales, gamma1=2.5).activate(x)
    assert found.is_dense
    # The exponent, up to 300, carries its own rounding into the value.
    np.testing.assert_allclose(found.dense(), expected, rtol=1e-13 * 10)


def test_a_lengthscale_is_the_distance_at_which_a_kernel_has_fallen_to_exp_of_minus_one_half() -> None:
    features = CenterFeatures([[0.0], [10.0]], [0.5, 2.0])
    np.testing.assert_allclose(features.gamma2, [2.0, 0.125], rtol=1e-15)
    np.testing.assert_allclose(features.activate([[0.5]]).dense()[0, 1], np.exp(-0.5), rtol=1e-15)


@pytest.mark.parametrize(
    ("lower", "upper", "spacing", "counts"),
    [
        ([0.0], [0.3], 0.1, [4]),  # 0.3 / 0.1 rounds below three: the 1e-9 saves the last centre
        ([0.0], [0.2999], 0.1, [3]),
        ([-20.0, -25.0], [20.0, 15.0], 0.2, [201, 201]),
        ([0.0, 0.0], [0.99, 1.0], 0.5, [2, 3]),
        ([1.0, 2.0, 3.0], [1.0, 2.9, 4.0], 0.3, [1, 4, 4]),
    ],
)
def test_a_lattice_has_as_many_centres_as_the_formula_says(
    lower: list[float], upper: list[float], spacing: float, counts: list[int]
) -> None:
    lattice = LatticeFeatures(spacing, 0.2, lower, upper)
    assert lattice.counts.tolist() == counts
    assert lattice.feature_count == np.prod(counts) + 1
    assert lattice.centers.shape == (np.prod(counts), len(lower))


def test_a_lattice_counts_its_centres_row_by_row_the_last_axis_fastest() -> None:
    lattice = LatticeFeatures(1.0, 0.2, [0, 10, 20], [1, 12, 21])
    expected = [[i, j, k] for i in (0, 1) for j in (10, 11, 12) for k in (20, 21)]
    np.testing.assert_array_equal(lattice.centers, expected)
    for feature, center in enumerate(expected, start=1):
        activations = lattice.activate([center])
        assert activations.indices[np.argmax(activations.values[1:]) + 1] == feature


def test_the_constant_is_feature_zero_of_every_point_even_where_no_centre_reaches() -> None:
    for features in (LatticeFeatures(0.5, 0.2, [0, 0], [1, 1]), CenterFeatures([[0, 0]], 0.2, cutoff=1e-6)):
        activations = features.activate([[0.1, 0.1], [99, 99]])
        np.testing.assert_array_equal(activations.dense()[:, 0], 1.0)
        assert activations.covered.tolist() == [True, False]


def test_points_in_many_pieces_activate_as_one_by_one() -> None:
    generator = np.random.default_rng(5)
    x = generator.uniform(-1, 3, (9000, 2))
    for features in (LatticeFeatures(0.5, 0.2, [0, 0], [2, 2]), center_features(generator, 9, cutoff=1e-2)):
        whole = features.activate(x)
        assert len(whole) == 9000
        for row in (0, 4095, 4096, 8191, 8192, 8999):
            assert_equal_rows(whole.rows(row, row + 1), features.activate(x[row : row + 1]))
        parts = concatenate(list(whole.chunks(2500)))
        np.testing.assert_array_equal(parts.row_starts, whole.row_starts)
        assert snapshot(parts.indices, parts.values) == snapshot(whole.indices, whole.values)


def test_products_with_activations_are_products_with_their_dense_matrix() -> None:
    generator = np.random.default_rng(6)
    columns = generator.standard_normal((21, 3))
    for cutoff in (None, 1e-2):
        activations = center_features(generator, 20, cutoff=cutoff).activate(points(generator, 15))
        np.testing.assert_allclose(activations.times(columns), activations.dense() @ columns, rtol=0, atol=1e-14)
        squares = activations.dense() ** 2 @ columns
        np.testing.assert_allclose(activations.squared_times(columns), squares, rtol=0, atol=1e-14)


def test_activating_writes_to_neither_points_nor_centres() -> None:
    x, centers = np.random.default_rng(7).uniform(0, 1, (2, 10, 2))
    before = snapshot(x, centers)
    for cutoff in (None, 1e-3):
        CenterFeatures(centers, 0.3, cutoff=cutoff).activate(x)
    LatticeFeatures(0.2, 0.2, centers.min(axis=0), centers.max(axis=0)).activate(x)
    assert snapshot(x, centers) == before


def kernel_errors(features: Features, x: FloatArray) -> float:
    """The largest relative error against numpy's exp of the same exponent, -x^2 / 2, of one centre at the origin."""
    expected = np.exp(-0.5 * x[:, 0] * x[:, 0])
    return float(np.max(np.abs(features.activate(x).dense()[:, 1] / expected - 1)))


def test_kernel_values_are_exp_to_three_units_in_the_last_place_over_all_exponents() -> None:
    allowed = 3 * 2.0**-52  # two of the kernel's, and one of numpy's own
    exponents = np.concatenate([-np.linspace(0, 699.999, 40_001), -np.geomspace(1e-300, 690, 20_001)])
    x = np.sqrt(-2 * exponents)[:, None]
    assert kernel_errors(CenterFeatures([[0.0]], 1.0), x) <= allowed
    reached = x[x[:, 0] ** 2 < 2 * 690]  # a cutoff is at least 1e-300
    assert kernel_errors(CenterFeatures([[0.0]], 1.0, cutoff=1e-300), reached) <= allowed
    assert kernel_errors(LatticeFeatures(1.0, 1.0, [0.0], [0.0], cutoff=1e-300), reached) <= allowed
    direct = np.array([kernels.exp_negative(exponent) for exponent in (0.0, -1e-20, -0.5, -345.6, -700.0)])
    np.testing.assert_allclose(direct, np.exp([0.0, -1e-20, -0.5, -345.6, -700.0]), rtol=allowed)


def test_a_kernel_beyond_the_smallest_exponent_is_zero_and_never_subnormal() -> None:
    x = np.array([[np.sqrt(2 * 701.0)], [np.sqrt(2 * 745.0)], [1e5], [1e200]])
    np.testing.assert_array_equal(CenterFeatures([[0.0]], 1.0).activate(x).dense()[:, 1], 0.0)
