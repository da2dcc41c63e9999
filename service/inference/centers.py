"""Ways to choose the centres of kernels from data. Randomness comes in as a generator."""

from collections.abc import Mapping

import numpy as np

from service.errors import ModelError
from service.inference.arrays import FloatArray
from service.inference.features import LatticeFeatures


def choose_random(x: FloatArray, count: int, generator: np.random.Generator) -> FloatArray:
    """That many different rows of the data."""
    _check_count(count)
    if count > len(x):
        raise ModelError(f"{count} centres cannot be chosen from {len(x)} points: choose fewer")
    return x[generator.choice(len(x), count, replace=False)]


def choose_stratified(
    x: FloatArray, y: FloatArray, counts: Mapping[int, int], generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """That many rows of each class (300 occupied, 700 free, say): the centres, and the class of each."""
    if len(x) != len(y):
        raise ModelError(f"{len(x)} points and {len(y)} labels: there must be as many of both")
    chosen, classes = [], []
    for label, count in counts.items():
        members = x[y == label]
        if count > len(members):
            raise ModelError(f"{count} centres cannot be chosen from {len(members)} points with label {label}")
        chosen.append(choose_random(members, count, generator))
        classes.append(np.full(count, float(label)))
    return np.concatenate(chosen), np.concatenate(classes)


def choose_latin_hypercube(x: FloatArray, count: int, generator: np.random.Generator) -> FloatArray:
    """Points spread over the data's bounding box so that each of `count` slices of every axis holds exactly one."""
    _check_count(count)
    lower, upper = _bounding_box(x)
    slices = np.stack([generator.permutation(count) for _ in range(x.shape[1])], axis=1)
    return lower + (upper - lower) * (slices + generator.random(slices.shape)) / count


def choose_lattice(x: FloatArray, spacing: float) -> FloatArray:
    """A regular lattice over the data's bounding box, starting at its lower corner."""
    return LatticeFeatures(spacing, spacing, *_bounding_box(x)).centers


def _check_count(count: int) -> None:
    if count < 1:
        raise ModelError(f"at least one centre must be chosen, not {count}")


def _bounding_box(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    if len(x) == 0:
        raise ModelError("centres cannot be chosen from no points at all")
    return x.min(axis=0), x.max(axis=0)
