"""Maps as files: what other programs read in them is what the arrays say."""

import io
import zipfile
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from service.errors import DataError, NotFiniteError, SettingError
from service.inference.arrays import FloatArray
from service.inference.raster import Grid
from service.wire.map_files import Nav2Mode, Nav2Rule, to_nav2, to_npz, to_png
from service.wire.palette import DIVERGING, SEQUENTIAL

NAN, INFINITY = float("nan"), float("inf")
MODES: list[Nav2Mode] = list(get_args(Nav2Mode))


def read_nav2(content: bytes) -> tuple[dict[str, Any], npt.NDArray[np.uint8]]:
    """The YAML document, and the image's pixels with row 0 at the lowest y, (rows, columns) or (rows, columns, 2)."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        document = yaml.safe_load(archive.read("map.yaml"))
        with Image.open(io.BytesIO(archive.read(document["image"]))) as image:
            assert image.mode == ("LA" if document["mode"] == "scale" else "L")
            return document, np.asarray(image)[::-1]


def occupancy(content: bytes, newer: bool = False) -> npt.NDArray[np.int8]:
    """The map as nav_msgs/OccupancyGrid, by map_server's documented rules.

    newer: as its newer releases calculate, in single precision and with the thresholds themselves included.
    """
    document, pixels = read_nav2(content)
    if document["mode"] == "raw":
        return np.where(pixels <= 100, pixels, -1).astype(np.int8)
    number: Any = np.float32 if newer else np.float64
    shade = (pixels if document["mode"] == "trinary" else pixels[..., 0]).astype(number) / number(255)
    occupied = number(1) - shade
    high, low = number(document["occupied_thresh"]), number(document["free_thresh"])
    cells = np.full(shade.shape, -1.0)
    if document["mode"] == "scale":
        cells = np.rint((occupied - low) / (high - low) * number(100)).astype(np.float64)
    cells[occupied >= high if newer else occupied > high] = 100
    cells[occupied <= low if newer else occupied < low] = 0
    if document["mode"] == "scale":
        cells[pixels[..., 1] < 255] = -1
    return cells.astype(np.int8)


def thresholds() -> st.SearchStrategy[tuple[float, float]]:
    """Free and occupied: any, at a grey of the image, and the extremes."""
    special = [0.0, 5e-324, 1e-7, 0.25, 0.65, 1 - 1e-7, float(np.nextafter(1, 0)), 1.0]
    one = st.one_of(st.floats(0, 1), st.integers(0, 255).map(lambda grey: grey / 255), st.sampled_from(special))
    tight = st.floats(0, 0.98).map(lambda free: (free, min(free + 0.02, 1.0)))
    return st.one_of(st.tuples(one, one).map(lambda pair: (min(pair), max(pair))), tight).filter(
        lambda pair: pair[1] - pair[0] >= 0.02
    )


def cells_around(free: float, occupied: float, seed: int) -> tuple[FloatArray, npt.NDArray[np.bool_], Grid]:
    """Probabilities at, next to and near the thresholds, 0, 1 and all greys, some cells unknown, in some order."""
    generator = np.random.default_rng(seed)
    greys = np.arange(511) / 510  # and halfway between them
    ends = np.array([0.0, free, occupied, 1.0])
    edges = np.concatenate([ends, np.nextafter(ends, 0), np.nextafter(ends, 1)])
    near = np.repeat(ends, 20) + generator.normal(scale=0.004, size=80)
    others = generator.permutation(np.concatenate([greys, near, generator.random(57)])).clip(0, 1)
    probability = np.concatenate([edges, others]).reshape(20, -1)
    unknown = generator.random(probability.shape) < 0.2
    unknown.flat[: edges.size] = False
    probability.flags.writeable = unknown.flags.writeable = False
    return probability, unknown, Grid(-1.0, 2.0, 0.1, probability.shape[1], probability.shape[0])


@settings(deadline=None, max_examples=120)
@given(newer=st.booleans(), pair=thresholds(), seed=st.integers(0, 2**32 - 1))
def test_nav2_reads_each_trinary_cell_as_the_exact_probability_has_it(
    newer: bool, pair: tuple[float, float], seed: int
) -> None:
    free, occupied = pair
    probability, unknown, grid = cells_around(free, occupied, seed)
    expected = np.select([unknown, probability > occupied, probability < free], [-1, 100, 0], default=-1)
    content = to_nav2(probability, unknown, grid, Nav2Rule("trinary", occupied, free))
    np.testing.assert_array_equal(occupancy(content, newer), expected)


@settings(deadline=None, max_examples=120)
@given(newer=st.booleans(), pair=thresholds(), seed=st.integers(0, 2**32 - 1))
def test_nav2_reads_each_scale_cell_as_the_exact_probability_has_it(
    newer: bool, pair: tuple[float, float], seed: int
) -> None:
    """Between the thresholds it reads 1 to 99, never what it reads of cells that are free or occupied."""
    free, occupied = pair
    probability, unknown, grid = cells_around(free, occupied, seed)
    cells = occupancy(to_nav2(probability, unknown, grid, Nav2Rule("scale", occupied, free)), newer)
    np.testing.assert_array_equal(cells == -1, unknown)
    np.testing.assert_array_equal(cells == 100, (probability > occupied) & ~unknown)
    np.testing.assert_array_equal(cells == 0, (probability < free) & ~unknown)


def test_thresholds_at_any_grey_are_kept_however_the_reader_rounds() -> None:
    for grey in range(1, 249):
        rule = Nav2Rule("scale", free_thresh=grey / 255, occupied_thresh=(grey + 6) / 255)
        free, occupied = rule.free_thresh, rule.occupied_thresh
        probability = np.array([[np.nextafter(free, 0), free, occupied, np.nextafter(occupied, 1)]])
        content = to_nav2(probability, np.zeros((1, 4), bool), Grid(0, 0, 1, 4, 1), rule)
        for cells in (occupancy(content)[0], occupancy(content, newer=True)[0]):
            assert cells[0] == 0 < cells[1] < cells[2] < 100 == cells[3]


@settings(deadline=None, max_examples=40)
@given(pair=thresholds(), seed=st.integers(0, 2**32 - 1))
def test_a_scale_cell_is_at_most_one_grey_and_one_percent_from_its_probability(
    pair: tuple[float, float], seed: int
) -> None:
    free, occupied = pair
    probability, unknown, grid = cells_around(free, occupied, seed)
    _, pixels = read_nav2(to_nav2(probability, unknown, grid, Nav2Rule("scale", occupied, free)))
    np.testing.assert_array_equal(pixels[..., 1], np.where(unknown, 0, 255))
    assert np.abs(1 - pixels[..., 0] / 255 - probability).max() <= 1 / 255 + 0.01 * (occupied - free)


@settings(deadline=None, max_examples=40)
@given(pair=thresholds(), seed=st.integers(0, 2**32 - 1))
def test_nav2_reads_each_raw_cell_as_its_percentage(pair: tuple[float, float], seed: int) -> None:
    free, occupied = pair
    probability, unknown, grid = cells_around(free, occupied, seed)
    cells = occupancy(to_nav2(probability, unknown, grid, Nav2Rule("raw", occupied, free)))
    np.testing.assert_array_equal(cells, np.where(unknown, -1, np.rint(100 * probability)))


@settings(deadline=None, max_examples=60)
@given(
    mode=st.sampled_from(MODES),
    corner=st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)),
    resolution=st.floats(1e-3, 10),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    data=st.data(),
)
def test_the_cell_at_a_point_is_found_by_origin_and_resolution(
    mode: Nav2Mode, corner: tuple[float, float], resolution: float, size: tuple[int, int], data: st.DataObject
) -> None:
    grid = Grid(*corner, resolution, *size)
    column, row = data.draw(st.integers(0, grid.width - 1)), data.draw(st.integers(0, grid.height - 1))
    inside = st.floats(0.01, 0.99)  # of the cell, well off its sides
    x = grid.left + (column + data.draw(inside)) * resolution
    y = grid.bottom + (row + data.draw(inside)) * resolution
    probability = np.zeros((grid.height, grid.width))
    probability[row, column] = 1
    content = to_nav2(probability, np.zeros_like(probability, bool), grid, Nav2Rule(mode))
    document, cells = read_nav2(content)[0], occupancy(content)
    left, bottom, turn = document["origin"]
    assert turn == 0
    assert cells.shape == (grid.height, grid.width)
    found = int((y - bottom) // document["resolution"]), int((x - left) // document["resolution"])
    assert np.argwhere(cells == 100).tolist() == [list(found)] == [[row, column]]


@given(
    left=st.floats(allow_nan=False, allow_infinity=False),
    bottom=st.floats(allow_nan=False, allow_infinity=False),
    resolution=st.floats(5e-324, allow_infinity=False),
    pair=thresholds(),
)
def test_the_numbers_of_a_map_survive_to_the_last_bit(
    left: float, bottom: float, resolution: float, pair: tuple[float, float]
) -> None:
    rule = Nav2Rule("trinary", pair[1], pair[0])
    document, _ = read_nav2(to_nav2(np.array([[0.5]]), np.array([[False]]), Grid(left, bottom, resolution, 1, 1), rule))
    assert document == {
        "image": "map.pgm",
        "mode": "trinary",
        "resolution": resolution,
        "origin": [left, bottom, 0.0],
        "negate": 0,
        "occupied_thresh": rule.occupied_thresh,
        "free_thresh": rule.free_thresh,
    }
    assert all(type(number) is float for number in [*document["origin"], document["resolution"]])


@pytest.mark.parametrize("mode", MODES)
def test_a_nav2_archive_has_two_readable_files_and_depends_on_the_map_alone(mode: Nav2Mode) -> None:
    probability, unknown, grid = cells_around(0.25, 0.65, 0)
    content = to_nav2(probability, unknown, grid, Nav2Rule(mode))
    assert content == to_nav2(probability.copy(), unknown.copy(), grid, Nav2Rule(mode))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["map.yaml", "map.png" if mode == "scale" else "map.pgm"]
        for entry in archive.infolist():
            assert entry.date_time == (1980, 1, 1, 0, 0, 0)
            assert entry.external_attr >> 16 == 0o644
            assert entry.compress_type == zipfile.ZIP_DEFLATED


@pytest.mark.parametrize(
    ("free", "occupied"),
    [(0.65, 0.25), (0.5, 0.5), (0.5, 0.519), (-0.1, 0.5), (0.5, 1.1), (NAN, 0.5), (0.5, NAN), (-INFINITY, INFINITY)],
)
def test_thresholds_that_no_image_can_keep_apart_are_refused_in_one_sentence(free: float, occupied: float) -> None:
    with pytest.raises(SettingError, match=r"^free_thresh .* and occupied_thresh .* between 0 and 1, [^\n]*0\.02"):
        Nav2Rule("scale", occupied, free)


def test_a_mode_that_nav2_does_not_have_is_refused() -> None:
    mode: Any = "gray"
    with pytest.raises(SettingError, match="trinary, scale or raw, not 'gray'"):
        Nav2Rule(mode)


def test_the_narrowest_gap_is_meant_in_decimal_numbers() -> None:
    assert Nav2Rule("trinary", 0.3, 0.28).gap < 0.02


@pytest.mark.parametrize(
    ("probability", "unknown", "words"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2), bool), r"probability has shape \(2, 3\): the grid's is \(3, 2\)"),
        (np.zeros((3, 2)), np.zeros((1, 1), bool), r"unknown has shape \(1, 1\)"),
        (np.full((3, 2), 1.001), np.zeros((3, 2), bool), "not between 0 and 1"),
        (np.full((3, 2), NAN), np.ones((3, 2), bool), "not between 0 and 1"),
    ],
)
def test_cells_that_are_not_the_grids_probabilities_are_refused(
    probability: FloatArray, unknown: npt.NDArray[np.bool_], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        to_nav2(probability, unknown, Grid(0.0, 0.0, 1.0, 2, 3), Nav2Rule())


def opened(content: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(content))
    image.load()
    return image


def test_a_png_shows_low_to_high_in_the_palettes_colours_with_the_highest_y_on_top() -> None:
    values = np.array([[0.0, 1.0, 2.0], [-7.0, 0.5, INFINITY]])
    image = opened(to_png(values, SEQUENTIAL, 0.0, 2.0, {}))
    assert (image.format, image.mode, image.size) == ("PNG", "P", (3, 2))
    assert image.getpalette() == list(SEQUENTIAL)
    np.testing.assert_array_equal(np.asarray(image), [[0, 64, 255], [0, 128, 255]])
    assert image.convert("RGB").getpixel((2, 0)) == tuple(SEQUENTIAL[-3:])
    assert not np.asarray(opened(to_png(values, SEQUENTIAL, 1.0, 1.0, {}))).any()


@settings(deadline=None, max_examples=50)
@given(low=st.floats(-1e300, 1e300), span=st.floats(0, 1e300), seed=st.integers(0, 1000))
def test_a_value_has_the_nearest_of_256_colours(low: float, span: float, seed: int) -> None:
    share = np.random.default_rng(seed).random((4, 7))
    high = low + span
    values = low + share * span
    indices = np.asarray(opened(to_png(values, DIVERGING, low, high, {})))[::-1]
    exact = (values - low) / (high - low or 1.0) * 255
    assert np.abs(indices - exact).max() <= 0.5


def test_a_png_carries_its_notes_and_depends_on_its_content_alone() -> None:
    notes = {"Software": "delbo", "quantity": "variance", "agent": "Ada's röver", "range": "0 → 1"}
    values = np.arange(6.0).reshape(2, 3)
    content = to_png(values, SEQUENTIAL, 0, 5, notes)
    assert content == to_png(values.copy(), SEQUENTIAL, 0, 5, dict(notes))
    assert opened(content).info == notes
    assert b"tEXtquantity\0variance" in content


def test_a_map_that_has_no_picture_is_refused() -> None:
    with pytest.raises(NotFiniteError, match="not a number"):
        to_png(np.array([[0.0, NAN]]), SEQUENTIAL, 0, 1, {})
    with pytest.raises(DataError, match="rows and columns"):
        to_png(np.zeros(3), SEQUENTIAL, 0, 1, {})
    for low, high in [(1.0, 0.0), (0.0, INFINITY), (NAN, 1.0), (INFINITY, INFINITY), (-1.7e308, 1.7e308)]:
        with pytest.raises(SettingError, match=r"low .* and high .* finite"):
            to_png(np.zeros((2, 2)), SEQUENTIAL, low, high, {})


def test_an_npz_reads_back_equal_without_pickle_and_depends_on_the_arrays_alone() -> None:
    arrays: dict[str, npt.NDArray[Any]] = {
        "mean": np.random.default_rng(0).normal(size=(3, 4)),
        "unknown": np.array([[True, False]]),
        "file": np.array([NAN, -0.0, INFINITY]),  # numpy.savez has an argument of this name
        "upside_down": np.arange(6, dtype=np.float32).reshape(2, 3)[::-1],
    }
    content = to_npz(arrays)
    assert content == to_npz({name: array.copy() for name, array in arrays.items()})
    with np.load(io.BytesIO(content), allow_pickle=False) as read:
        assert list(read) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(read[name], array, strict=True)


def test_objects_are_not_put_into_an_npz() -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        to_npz({"objects": np.array([{}, None])})
