"""Two palettes for maps, of 256 colours each, that colour-blind people can read too."""

import numpy as np

from service.inference.arrays import FloatArray

_NAVY_TO_PALE_YELLOW = ["#0b1440", "#1d3f87", "#15778f", "#54ad72", "#bcd65c", "#fdf8c4"]
_BLUE_TO_WHITE = ["#0d43a8", "#5a9ce2", "#f4f3f1"]
_WHITE_TO_BROWN = ["#f4f3f1", "#e88d2c", "#7a3400"]

# OKLab (B. Ottosson, 2020): linear sRGB to cone responses, and their cube roots to lightness and two hue axes.
_CONES_OF_RGB = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB_OF_ROOTS = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear_rgb(colors: bytes) -> FloatArray:
    """The light of some 8-bit sRGB colours, (colours, 3), each from 0 to 1."""
    encoded = np.frombuffer(colors, np.uint8).reshape(-1, 3) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def to_oklab(linear: FloatArray) -> FloatArray:
    """Lightness (0 to 1), green to red, and blue to yellow, such that equal distances look about equally far."""
    oklab: FloatArray = np.cbrt(linear @ _CONES_OF_RGB.T) @ _LAB_OF_ROOTS.T
    return oklab


def _to_srgb(oklab: FloatArray) -> bytes:
    roots = np.linalg.solve(_LAB_OF_ROOTS, oklab.T)
    linear = np.linalg.solve(_CONES_OF_RGB, roots**3).T.clip(0, 1)
    encoded = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return bytes(np.rint(255 * encoded).astype(np.uint8))


def _between(anchors: list[str], places: FloatArray) -> bytes:
    """The colours at some places from 0 to 1 of a ramp; the anchors stand where its lightness is linear."""
    oklab = to_oklab(linear_rgb(bytes.fromhex("".join(anchor[1:] for anchor in anchors))))
    lightness = oklab[:, 0]
    stands = (lightness - lightness[0]) / (lightness[-1] - lightness[0])
    return _to_srgb(np.stack([np.interp(places, stands, axis) for axis in oklab.T], axis=1))


_PLACES = np.arange(256) / 255

# For mean, variance and entropy: the larger, the lighter.
SEQUENTIAL = _between(_NAVY_TO_PALE_YELLOW, _PLACES)

# For a probability: blue is free, white undecided, brown occupied; the surer, the darker.
DIVERGING = _between(_BLUE_TO_WHITE, 2 * _PLACES[:128]) + _between(_WHITE_TO_BROWN, 2 * _PLACES[128:] - 1)
