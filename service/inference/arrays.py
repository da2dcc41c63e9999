"""Array types, and the checks at the border of public functions."""

from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import DataError, DelboError, DimensionError, NotFiniteError

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int32]
StartArray = npt.NDArray[np.int64]


def frozen(array: FloatArray) -> FloatArray:
    """The same numbers in an array that nobody can write to: the array itself if it owns its data and is read-only."""
    if array.flags.writeable or array.base is not None:
        array = array.copy()
        array.flags.writeable = False
    return array


def owned(array: FloatArray) -> FloatArray:
    """Mark a freshly made array read-only, so that `frozen` need not copy it."""
    array.flags.writeable = False
    return array


def as_floats(name: str, values: Any, dimensions: int, error: type[DelboError] = DataError) -> FloatArray:
    """Values as a finite C-ordered float64 array with that many dimensions, or a sentence saying why not."""
    try:
        given = np.asarray(values)
        array = None if given.dtype.kind == "c" else np.asarray(given, dtype=np.float64, order="C")
    except (TypeError, ValueError):  # rows of different lengths
        array = None
    if array is None:
        raise error(f"{name} must be numbers, in {dimensions} dimension(s), and all rows of one length")
    if array.ndim != dimensions:
        raise error(f"{name} must have {dimensions} dimension(s), not {array.ndim} (shape {array.shape})")
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0]
        position = ", ".join(str(int(index)) for index in where)
        kind = NotFiniteError if error is DataError else error
        raise kind(f"{name}[{position}] is {array[tuple(where)]}: every value must be finite")
    return array


def as_points(points: Any, dimension: int) -> FloatArray:
    """Points as an (rows, dimension) array of finite numbers."""
    array = as_floats("x", points, 2)
    if array.shape[1] != dimension:
        raise DimensionError(f"x has {array.shape[1]} column(s), but the model's features take {dimension}")
    return array
