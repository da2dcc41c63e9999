"""Grids of pixels: where they lie, what a map of them says and costs, and which of them nobody has learned about."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from service.errors import SettingError
from service.inference import prediction
from service.inference.arrays import FloatArray
from service.inference.belief import FAMILIES, Belief, DiagonalGaussian, Family
from service.inference.conditioning import condition
from service.inference.features import CenterFeatures, Features, LatticeFeatures
from service.inference.likelihoods import Gaussian, Probit, VectorGaussian
from service.inference.prediction import predict
from service.inference.raster import (
    LONGEST_SIDE,
    MOST_PIXELS,
    Grid,
    default_bounds,
    raster,
    raster_work,
    unlearned,
)
from tests.inference.builders import SENSORS, belief_with, center_features, points

Bounds = tuple[float, float, float, float]

both_families = pytest.mark.parametrize("family", FAMILIES)
any_number = st.floats(allow_nan=True, allow_infinity=True)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Bounds, float]:
    """Bounds, and a resolution that is not too fine for them."""
    left, bottom = draw(st.floats(-1e4, 1e4)), draw(st.floats(-1e4, 1e4))
    width, height = draw(st.floats(1e-2, 1e3)), draw(st.floats(1e-2, 1e3))
    resolution = max(width, height) / draw(st.floats(0.3, 500))
    return (left, bottom, left + width, bottom + height), resolution


@given(boxes())
def test_a_grid_begins_at_the_corner_covers_its_bounds_and_has_no_pixel_too_many(box: tuple[Bounds, float]) -> None:
    (left, bottom, right, top), resolution = box
    grid = Grid.over((left, bottom, right, top), resolution)
    assert (grid.left, grid.bottom, grid.resolution) == (left, bottom, resolution)
    slack = 2e-9 * resolution  # a part of a pixel that rounding may have made is no pixel
    for side, count in ((right - left, grid.width), (top - bottom, grid.height)):
        assert (count - 1) * resolution < side <= count * resolution + slack
    assert grid.pixels == grid.width * grid.height
    for axis, start, count in ((grid.x_axis, left, grid.width), (grid.y_axis, bottom, grid.height)):
        corners = start + np.arange(count) * resolution
        np.testing.assert_allclose(axis - corners, resolution / 2, rtol=1e-5)  # 1e4 has 2e-12, and a pixel 2e-5


@given(count=st.integers(1, 2000), tenths=st.integers(1, 30), start=st.integers(-1000, 1000))
def test_sides_of_whole_pixels_have_as_many_though_decimals_are_rounded(count: int, tenths: int, start: int) -> None:
    resolution, left = tenths / 10, start / 10
    grid = Grid.over((left, 0.0, left + count * resolution, resolution), resolution)
    assert (grid.width, grid.height) == (count, 1)


@settings(max_examples=300)
@given(bounds=st.tuples(*[any_number] * 4), resolution=any_number)
def test_any_numbers_give_a_grid_of_distinct_pixels_or_are_refused(bounds: Bounds, resolution: float) -> None:
    try:
        grid = Grid.over(bounds, resolution)
    except SettingError:
        return
    for axis, count in ((grid.x_axis, grid.width), (grid.y_axis, grid.height)):
        assert axis.shape == (count,)
        assert np.isfinite(axis).all()
        assert (np.diff(axis) > 0).all()


@given(magnitude=st.floats(1e16, 1e300), sign=st.sampled_from([-1.0, 1.0]), pixels=st.integers(6, 100))
def test_a_resolution_finer_than_the_coordinates_themselves_is_refused(
    magnitude: float, sign: float, pixels: int
) -> None:
    near = sign * magnitude
    right = near + 2 * np.spacing(magnitude)
    assume(right > near)
    with pytest.raises(SettingError, match="too fine"):
        Grid.over((near, 0.0, right, 1.0), (right - near) / pixels)


def test_a_map_may_have_so_many_pixels_and_no_more() -> None:
    side = round(MOST_PIXELS**0.5)
    assert Grid.over((0, 0, side, side), 1).pixels == MOST_PIXELS
    assert Grid.over((0, 0, LONGEST_SIDE, 1), 1).width == LONGEST_SIDE
    for width, height in [(side + 1, side), (LONGEST_SIDE + 1, 1), (1, LONGEST_SIDE + 1), (1e300, 1e-300)]:
        with pytest.raises(SettingError, match="too large"):
            Grid.over((0, 0, width, height), 1 if width < 1e300 else 1e-300)


@pytest.mark.parametrize(
    ("bounds", "resolution", "words"),
    [
        ((0, 0, 0, 1), 0.1, "encloses nothing"),
        ((0, 1, 1, 0), 0.1, "encloses nothing"),
        ((0, 0, 1, 1), 0.0, "positive"),
        ((0, 0, 1, 1), -1.0, "positive"),
        ((0, 0, float("nan"), 1), 0.1, "finite"),
        ((0, 0, 1, 1), float("inf"), "finite"),
        ((-1e308, 0, 1e308, 1), 0.1, "too large"),
    ],
)
def test_bounds_and_resolutions_that_make_no_grid_are_refused(bounds: Bounds, resolution: float, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Grid.over(bounds, resolution)


def test_a_model_is_about_its_lattices_box_or_about_its_centres_and_a_lengthscale_around() -> None:
    assert default_bounds(LatticeFeatures(0.3, 0.2, [-1, 2], [1, 3])) == (-1, 2, 1, 3)
    assert default_bounds(LatticeFeatures(0.3, 0.2, [-1, 2], [1, 2])) == (-1, 1.8, 1, 2.2)  # a line has no area
    centers = CenterFeatures([[0.0, 1.0], [4.0, -1.0]], [0.5, 0.25])
    assert default_bounds(centers) == pytest.approx((-0.5, -1.5, 4.5, 1.5), rel=1e-14)


# What a map says, and what it costs.

LAYERS = ("mean", "variance", "entropy", "latent_mean", "latent_variance")


@both_families
@pytest.mark.parametrize("sensor", SENSORS)
@settings(max_examples=6)
@given(seed=st.integers(0, 10_000), cutoff=st.sampled_from([None, 1e-2, 1e-6]), gamma1=st.floats(0.3, 2))
def test_every_layer_of_a_map_is_the_prediction_at_each_pixel(
    family: Family, sensor: str, seed: int, cutoff: float | None, gamma1: float
) -> None:
    generator = np.random.default_rng(seed)
    centers = generator.uniform(-2, 2, (15, 2))
    features = CenterFeatures(centers, generator.uniform(0.3, 0.9, 15), gamma1, cutoff)
    belief, kind = belief_with(generator, family, 16), SENSORS[sensor].likelihood
    grid = Grid.over((-3.0, -2.0, 2.5, 4.0), 0.37)
    found = raster(belief, features, kind, grid.x_axis, grid.y_axis)
    expected = predict(belief, features.activate(pixels_of(grid)), kind)
    for layer in LAYERS:
        # Sums of sixteen terms of about 1 in another order; exp of them, for the Poisson likelihood.
        values = getattr(expected, layer).reshape(grid.height, grid.width)
        np.testing.assert_allclose(getattr(found, layer), values, rtol=1e-11, atol=1e-12, err_msg=layer)


def pixels_of(grid: Grid) -> FloatArray:
    return np.array([(x, y) for y in grid.y_axis for x in grid.x_axis])


@pytest.mark.parametrize("kind", [Gaussian(2.0), VectorGaussian([[2.0, 0.5], [0.5, 1.0]])])
def test_a_full_belief_predicts_alike_in_few_rows_at_a_time(
    kind: Gaussian | VectorGaussian, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(3)
    activations = center_features(generator, 9).activate(points(generator, 100))
    belief = belief_with(generator, "full", 10 * kind.outputs)
    whole = predict(belief, activations, kind)
    monkeypatch.setattr(prediction, "_WORK_AT_ONCE", 1)  # so that it takes the fewest rows
    parts = predict(belief, activations, kind)
    np.testing.assert_allclose(parts.latent_variance, whole.latent_variance, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(parts.latent_mean, whole.latent_mean)


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), cutoff=st.floats(1e-6, 0.5), resolution=st.floats(0.1, 1))
def test_the_work_of_a_local_map_counts_every_pixel_that_a_centre_reaches(
    seed: int, cutoff: float, resolution: float
) -> None:
    features = center_features(np.random.default_rng(seed), 12, cutoff=cutoff)
    grid = Grid.over((-2.0, -1.0, 2.0, 2.0), resolution)
    reached = features.activate(pixels_of(grid)).values.size - grid.pixels  # the constant is always active
    work = raster_work("diagonal", features, grid)
    assert reached + grid.pixels <= work <= len(features.centers) * grid.pixels + grid.pixels


def test_work_grows_with_pixels_and_centres_and_most_for_the_full_family() -> None:
    generator = np.random.default_rng(0)
    few, many = center_features(generator, 100), center_features(generator, 1000)
    coarse, fine = Grid.over((0, 0, 1, 1), 0.1), Grid.over((0, 0, 1, 1), 0.01)
    for family in FAMILIES:
        assert raster_work(family, few, fine) == pytest.approx(100 * raster_work(family, few, coarse))
        assert raster_work(family, many, fine) > 5 * raster_work(family, few, fine)
    assert raster_work("full", many, fine) > 100 * raster_work("diagonal", many, fine)


# Where something has been learned. The model is about a square of 4 x 4, and all data lie in one of its corners.

SEEN, FAR = 0.5, 3.2  # no centre that reaches what is seen reaches what is that far
REACH: dict[str, Features] = {
    "lattice": LatticeFeatures(0.25, 0.3, [0, 0], [4, 4], cutoff=1e-3),
    "local centres": CenterFeatures(np.random.default_rng(5).uniform(0, 4, (150, 2)), 0.3, cutoff=1e-3),
    "tiny cutoff": CenterFeatures(np.random.default_rng(5).uniform(0, 4, (150, 2)), 0.3, cutoff=1e-12),
    "all centres": CenterFeatures(np.random.default_rng(5).uniform(0, 4, (150, 2)), 0.3),
}
GRID = Grid.over((-2.0, -2.0, 8.0, 8.0), 0.2)  # well beyond all centres too


def unlearned_pixels(belief: Belief, prior: Belief, features: Features) -> npt.NDArray[np.bool_]:
    now, at_first = (raster(one, features, Probit(), GRID.x_axis, GRID.y_axis) for one in (belief, prior))
    return unlearned(now, belief, at_first, prior, features, GRID)


@both_families
@pytest.mark.parametrize("reach", REACH)
@settings(max_examples=4)
@given(seed=st.integers(0, 1000), information=st.floats(0.05, 4))
def test_a_place_with_data_is_learned_and_one_without_is_not_though_the_constant_has_been(
    family: Family, reach: str, seed: int, information: float
) -> None:
    features = REACH[reach]
    prior = FAMILIES[family].prior(features.feature_count, information, mean=0.3)
    assert unlearned_pixels(prior, prior, features).all()
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, SEEN, (300, 2))
    belief = condition(prior, features.activate(x), x[:, 0] > SEEN / 2, Probit()).belief
    assert belief.variance[0] < 0.95 * prior.variance[0]
    found = unlearned_pixels(belief, prior, features)
    column, row = np.meshgrid(GRID.x_axis, GRID.y_axis)
    seen = (column > 0) & (row > 0) & (column < SEEN) & (row < SEEN)
    assert not found[seen].any()
    assert found[np.maximum(column, row) > FAR].all()


def given_the_constant(belief: Belief) -> Belief:
    """The same belief after the constant has been told, almost to the last digit."""
    added = np.zeros(belief.dimension)
    added[0] = 1e8 * belief.information.max()
    return type(belief)(belief.information + (added if belief.information.ndim == 1 else np.diag(added)), belief.shift)


@both_families
@pytest.mark.parametrize("reach", REACH)
def test_a_place_is_unlearned_if_most_of_its_variance_is_left_were_the_constant_known(
    family: Family, reach: str
) -> None:
    features = REACH[reach]
    prior = FAMILIES[family].prior(features.feature_count, 0.5)
    x = np.random.default_rng(8).uniform(0, 2.5, (40, 2))  # so few that between them much is left
    belief = condition(prior, features.activate(x), x[:, 0] > 1.0, Probit()).belief
    left, before = (
        raster(given_the_constant(one), features, Probit(), GRID.x_axis, GRID.y_axis).latent_variance
        for one in (belief, prior)
    )
    share = left / before
    clear = (before > 1e-4) & (np.abs(share - 0.9) > 1e-3)  # elsewhere the constant's last digits would tell
    found = unlearned_pixels(belief, prior, features)
    np.testing.assert_array_equal(found[clear], (share > 0.9)[clear])
    assert 0.1 < found[clear].mean() < 0.9


def test_a_lattice_is_drawn_the_same_with_tables_of_its_axes_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    features = LatticeFeatures(0.3, 0.4, [-1.0, 0.0], [2.0, 1.7], cutoff=1e-4, gamma1=1.5)
    generator = np.random.default_rng(3)
    size = features.feature_count
    belief = DiagonalGaussian(generator.uniform(0.5, 2, size), generator.normal(size=size))
    axes = np.linspace(-2, 3, 70), np.linspace(-1, 2, 50)
    with_tables = raster(belief, features, Probit(), *axes)
    monkeypatch.setattr("service.inference.raster._VALUES_AT_ONCE", 1)
    without = raster(belief, features, Probit(), *axes)
    np.testing.assert_allclose(with_tables.latent_mean, without.latent_mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(with_tables.latent_variance, without.latent_variance, rtol=1e-13)
