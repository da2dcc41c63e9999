"""The palettes of maps: what is more looks lighter or surer, to colour-blind people too."""

import subprocess
import sys

import numpy as np
import pytest

from service.inference.arrays import FloatArray
from service.wire.palette import DIVERGING, SEQUENTIAL, linear_rgb, to_oklab

# Machado, Oliveira and Fernandes (2009), severity 1.0: what linear RGB looks like to someone without one cone.
SIGHTS = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
NOTICEABLE = 0.02  # in OKLab, as CSS Color 4 has it: nearer colours look the same
FAR = 10 * NOTICEABLE  # two colours that nobody takes for each other, even far apart on a map


def seen(palette: bytes, sight: str) -> FloatArray:
    """The palette in OKLab as it looks with this sight, (256, 3)."""
    return to_oklab((linear_rgb(palette) @ SIGHTS[sight].T).clip(0, 1))


def distance(one: FloatArray, other: FloatArray) -> float:
    return float(np.linalg.norm(one - other))


def test_a_palette_is_256_colours_all_different() -> None:
    for palette in (SEQUENTIAL, DIVERGING):
        assert len(palette) == 768
        assert len({palette[begin : begin + 3] for begin in range(0, 768, 3)}) == 256


def test_oklab_is_as_published() -> None:
    """White, red and blue of the author's page, to the digits that are given there and elsewhere."""
    white, red, blue = to_oklab(linear_rgb(bytes([255, 255, 255, 255, 0, 0, 0, 0, 255])))
    np.testing.assert_allclose(white, [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(red, [0.62796, 0.22486, 0.12585], atol=1e-5)
    np.testing.assert_allclose(blue, [0.45201, -0.03246, -0.31153], atol=1e-5)


def test_the_palettes_have_the_colours_that_they_promise() -> None:
    sequential, diverging = (np.frombuffer(palette, np.uint8).reshape(256, 3) for palette in (SEQUENTIAL, DIVERGING))
    assert sequential[0].max() == sequential[0][2] < 0x60  # navy
    assert sequential[255].min() == sequential[255][2] > 0xA0  # pale yellow
    assert diverging[0].argmax() == 2  # blue: free
    assert diverging[255].argsort().tolist() == [2, 1, 0]  # brown: occupied
    for middle in diverging[127:129].astype(int):
        assert middle.min() > 0xE0
        assert np.ptp(middle) < 8  # neutral


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_larger_value_is_the_lighter_to_everyone(sight: str) -> None:
    lightness = seen(SEQUENTIAL, sight)[:, 0]
    assert (np.diff(lightness) > 0).all()
    assert lightness[-1] - lightness[0] > 0.6  # of black to white


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_surer_probability_is_the_darker_to_everyone(sight: str) -> None:
    lightness = seen(DIVERGING, sight)[:, 0]
    assert (np.diff(lightness[:128]) > 0).all()
    assert (np.diff(lightness[128:]) < 0).all()


@pytest.mark.parametrize("sight", SIGHTS)
def test_free_occupied_and_undecided_are_far_apart_to_everyone(sight: str) -> None:
    colors = seen(DIVERGING, sight)
    assert distance(colors[0], colors[255]) > FAR
    for middle in (127, 128):
        assert distance(colors[0], colors[middle]) > 2 * FAR
        assert distance(colors[255], colors[middle]) > 2 * FAR


@pytest.mark.parametrize("sight", SIGHTS)
def test_equally_sure_of_free_and_of_occupied_look_different_to_everyone(sight: str) -> None:
    """From 0.4 and 0.6 outwards; nearer the middle both are almost white, as they should be."""
    colors = seen(DIVERGING, sight)
    outer = np.arange(102 + 1)
    assert np.linalg.norm(colors[outer] - colors[255 - outer], axis=1).min() > 4 * NOTICEABLE


def test_the_palettes_do_not_need_a_plotting_library() -> None:
    script = "import sys, service.wire.palette; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
