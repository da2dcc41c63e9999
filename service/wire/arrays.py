"""Arrays on the wire: raw little-endian bytes with dtype and shape, never lists of floats, never pickle."""

from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from service.errors import WireError
from service.inference.arrays import FloatArray

Precision = Literal["float64", "float32"]

_TYPES: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "|u1")}
_LONGEST = 2**40
MOST_LENGTHS = 1 << 16  # in a shape that is looked at; millions, decoded, would hold the event loop up
PRECISION_TYPES: dict[Precision, str] = {"float64": "<f8", "float32": "<f4"}


class WireArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array as it travels: numpy's name of the type, the shape, and the numbers in C order."""

    dtype: str
    shape: Annotated[tuple[int, ...], msgspec.Meta(max_length=MOST_LENGTHS)]
    data: memoryview


def to_wire(array: npt.NDArray[Any], dtype: str = "<f8") -> WireArray:
    """An array to send; a view of its memory where no conversion is needed."""
    if dtype == "<f8":
        converted = np.ascontiguousarray(array, dtype=np.float64)
    else:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused here
            converted = np.ascontiguousarray(array, dtype=_TYPES[dtype])
        if not np.isfinite(converted).all():
            raise WireError("precision", "the numbers do not fit float32: ask for float64")
    return WireArray(dtype, array.shape, converted.reshape(-1).view(np.uint8).data)


def from_wire(
    name: str, array: WireArray, shape: tuple[int, ...] | None = None, most_dimensions: int = 2
) -> FloatArray:
    """The numbers as float64, in memory of their own, if type and shape are right; their values are not looked at."""
    kind = _TYPES.get(array.dtype)
    if kind is None:
        raise WireError("dtype", f"{name} is of type {array.dtype[:20]!r}: it should be one of {', '.join(_TYPES)}")
    if shape is not None and array.shape != shape:
        raise WireError("shape", f"{name} has shape {list(array.shape)[:8]}: it should be {list(shape)}")
    if len(array.shape) > most_dimensions or any(length < 0 for length in array.shape):
        raise WireError("shape", f"{name} must have at most {most_dimensions} dimensions")
    expected = kind.itemsize
    for length in array.shape:
        expected *= length
    if len(array.data) != expected:
        raise WireError("size", f"{name} has {len(array.data)} bytes: its type and shape need {expected}")
    if max(array.shape, default=0) > _LONGEST:  # then another is 0: there are no numbers, and numpy refuses the shape
        raise WireError("shape", f"{name} has shape {list(array.shape)}: that is too long")
    return np.frombuffer(array.data, kind).reshape(array.shape).astype(np.float64)
