"""Maps as files: PNG to look at, NPZ to calculate with, and the map of Nav2's map_server.

An array is (rows, columns) with row 0 at the lowest y; an image's first row is its top, so images are turned over.
"""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import yaml
from PIL import Image, PngImagePlugin

from service.errors import DataError, NotFiniteError, SettingError
from service.inference.arrays import FloatArray
from service.inference.raster import Grid

Nav2Mode = Literal["trinary", "scale", "raw"]

_Pixels = npt.NDArray[np.uint8]
_BoolArray = npt.NDArray[np.bool_]

_COMPRESSION = 4  # of PNG's 9: above it, maps take longer and hardly shrink further
_NARROWEST_GAP = 0.02  # five greys: enough that some are well inside, however a reader rounds those at the edges
_LEAST_SHARE = 0.006  # of the gap: what lies between the thresholds is read as 1 % to 99 %, never rounded to 0 or 100


def to_png(values: FloatArray, palette: bytes, low: float, high: float, notes: Mapping[str, str]) -> bytes:
    """The values as a picture: low and below in the palette's first colour, high and above in its last.

    Where low equals high, all of it has the first colour.
    """
    indices = _palette_indices(values, low, high)
    image = Image.fromarray(indices[::-1])
    image.putpalette(palette)
    text = PngImagePlugin.PngInfo()
    for key, note in notes.items():
        text.add_text(key, note)
    return _saved_png(image, text)


def to_npz(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The arrays under their names, as numpy.load reads them; the same arrays always give the same bytes."""
    return _zipped({f"{name}.npy": _npy(array) for name, array in arrays.items()}, zipfile.ZIP_STORED)


@dataclass(frozen=True)
class Nav2Rule:
    """How Nav2 is to read a map: above occupied_thresh a cell is occupied, below free_thresh it is free.

    What is between is unknown in trinary mode and a percentage in scale mode; raw mode has percentages everywhere.
    """

    mode: Nav2Mode = "trinary"
    occupied_thresh: float = 0.65
    free_thresh: float = 0.25

    def __post_init__(self) -> None:
        if self.mode not in get_args(Nav2Mode):
            raise SettingError(f"mode must be trinary, scale or raw, not {self.mode!r}")
        ordered = 0 <= self.free_thresh < self.occupied_thresh <= 1
        if not ordered or self.gap < _NARROWEST_GAP - 1e-9:  # 0.3 - 0.28 is a little less in floating point
            raise SettingError(
                f"free_thresh {self.free_thresh} and occupied_thresh {self.occupied_thresh} must lie between 0 and 1, "
                f"the second above the first by {_NARROWEST_GAP} or more"
            )

    @property
    def gap(self) -> float:
        """From one threshold to the other."""
        return self.occupied_thresh - self.free_thresh


def to_nav2(probability: FloatArray, unknown: _BoolArray, grid: Grid, rule: Nav2Rule) -> bytes:
    """A zip file of map.yaml and its image, whose cells Nav2 reads as the rule says of the exact probabilities.

    unknown: where nothing has been learned, whatever the probability there.
    """
    _check_cells(probability, unknown, grid)
    if rule.mode == "scale":
        image = "map.png"
        content = _scale_png(probability, unknown, rule)
    else:
        image = "map.pgm"
        content = _pgm((_trinary_greys if rule.mode == "trinary" else _percentages)(probability, unknown, rule))
    return _zipped({"map.yaml": _nav2_yaml(image, grid, rule), image: content}, zipfile.ZIP_DEFLATED)


def _palette_indices(values: FloatArray, low: float, high: float) -> _Pixels:
    if values.ndim != 2:
        raise DataError(f"a map has rows and columns, not shape {values.shape}")
    if np.isnan(values).any():
        raise NotFiniteError("a map has a value that is not a number")
    if not (low <= high and np.isfinite(high - low)):
        raise SettingError(f"low {low} and high {high} must be finite numbers, low not above high")
    if low == high:
        return np.zeros(values.shape, np.uint8)
    return np.rint((values.clip(low, high) - low) / (high - low) * 255).astype(np.uint8)


def _check_cells(probability: FloatArray, unknown: _BoolArray, grid: Grid) -> None:
    for name, array in (("probability", probability), ("unknown", unknown)):
        if array.shape != (grid.height, grid.width):
            raise DataError(f"{name} has shape {array.shape}: the grid's is {(grid.height, grid.width)}")
    if not ((probability >= 0) & (probability <= 1)).all():
        raise DataError("a probability is not between 0 and 1")


def _trinary_greys(probability: FloatArray, unknown: _BoolArray, rule: Nav2Rule) -> _Pixels:
    """Black, white, and the grey in the middle between the thresholds, which the image's rounding cannot move out."""
    middle = np.rint(255 * (1 - (rule.occupied_thresh + rule.free_thresh) / 2))
    greys = np.where(probability > rule.occupied_thresh, 0, np.where(probability < rule.free_thresh, 255, middle))
    return np.where(unknown, middle, greys).astype(np.uint8)


def _percentages(probability: FloatArray, unknown: _BoolArray, _: Nav2Rule) -> _Pixels:
    return np.where(unknown, 255, np.rint(100 * probability)).astype(np.uint8)


def _scale_png(probability: FloatArray, unknown: _BoolArray, rule: Nav2Rule) -> bytes:
    greys = _scale_greys(probability, rule)
    opacity = np.where(unknown, 0, 255).astype(np.uint8)
    return _saved_png(Image.fromarray(np.stack([greys, opacity], axis=-1)[::-1]))


def _scale_greys(probability: FloatArray, rule: Nav2Rule) -> _Pixels:
    """The nearest grey to each probability of those that Nav2 reads as the same of occupied, free, and between."""
    shown = 1 - np.arange(256) / 255
    margin = _LEAST_SHARE * rule.gap
    between = np.flatnonzero((shown > rule.free_thresh + margin) & (shown < rule.occupied_thresh - margin))
    # Above a threshold of 1 and below one of 0 there is no grey, and no probability that would need one.
    lightest_occupied = np.flatnonzero(shown > rule.occupied_thresh).max(initial=0)
    darkest_free = np.flatnonzero(shown < rule.free_thresh).min(initial=255)
    greys = np.rint(255 * (1 - probability))
    kept = np.where(
        probability > rule.occupied_thresh,
        greys.clip(0, lightest_occupied),
        np.where(probability < rule.free_thresh, greys.clip(darkest_free, 255), greys.clip(between[0], between[-1])),
    )
    return kept.astype(np.uint8)


def _nav2_yaml(image: str, grid: Grid, rule: Nav2Rule) -> bytes:
    document = {
        "image": image,
        "mode": rule.mode,
        "resolution": float(grid.resolution),
        "origin": [float(grid.left), float(grid.bottom), 0.0],
        "negate": 0,
        "occupied_thresh": float(rule.occupied_thresh),
        "free_thresh": float(rule.free_thresh),
    }
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=200).encode()


def _pgm(pixels: _Pixels) -> bytes:
    height, width = pixels.shape
    return f"P5\n{width} {height}\n255\n".encode() + pixels[::-1].tobytes()


def _saved_png(image: Image.Image, text: PngImagePlugin.PngInfo | None = None) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=_COMPRESSION, pnginfo=text)
    return buffer.getvalue()


def _npy(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _zipped(files: Mapping[str, bytes], compression: int) -> bytes:
    """The files with one fixed date, so that the same files always give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16  # without it, unzip makes files that nobody may read
            archive.writestr(entry, content, compression)
    return buffer.getvalue()
