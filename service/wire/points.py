"""Points on the wire: what predictions are asked for, and the rows of numbers that all bodies with points have.

    {"x": [0.1, 2.0]}                  one point
    {"x": [[0.1, 2.0], [0.3, 1.9]]}    rows

In msgpack `x` is an array: {"dtype": "<f8", "shape": [rows, columns], "data": bytes}.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
import numpy as np

from service.errors import DataError, DelboError, PointsError, TooManyPointsError, WireError
from service.inference.arrays import FloatArray, as_points
from service.wire.arrays import MOST_LENGTHS, WireArray, from_wire, to_wire

MOST_POINTS = 100_000  # in one request

_SPACE = b" \t\r\n"
_AT_ONCE = 1 << 17  # bytes that are decoded without a pause
_RAGGED = "x must be numbers, in 2 dimension(s), and all rows of one length"
_NESTED = "lists in lists in lists"


class _JsonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    x: msgspec.Raw


class _MsgpackBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    x: WireArray


_json_body = msgspec.json.Decoder(_JsonBody)
_msgpack_body = msgspec.msgpack.Decoder(_MsgpackBody)
_numbers = msgspec.json.Decoder(list[float])
_rows = msgspec.json.Decoder(list[list[float]])


def is_rows(x: bytes) -> bool:
    """Whether this JSON is a list of lists, or an empty one; else it is one row."""
    return x[1:].lstrip(_SPACE)[:1] in (b"[", b"]")


def rows_of(x: bytes) -> Sequence[Any]:
    """Rows of numbers from JSON; a single row makes one."""
    return lists_of(x) if is_rows(x) else [numbers_of(x)]


def lists_of(x: bytes) -> Sequence[Any]:
    """Rows of numbers from JSON that is a list of lists."""
    return _in_parts(x, b"]", _rows)


def numbers_of(y: bytes) -> Sequence[Any]:
    """A row of numbers from JSON."""
    return _in_parts(y, b",", _numbers)


def _in_parts(text: bytes, end: bytes, decoder: "msgspec.json.Decoder[Any]") -> Sequence[Any]:
    """The elements of a JSON value; `end`: the byte that ends an element, if it is what it should be.

    A decoder holds the interpreter until it is done, also in a thread: so the others have their turn between parts.
    """
    if len(text) <= _AT_ONCE or text[:1] != b"[":
        return cast("Sequence[Any]", decoder.decode(text))
    parts: list[FloatArray] = []
    begin, last = 1, len(text) - 1
    while begin < last:
        cut = text.find(end, begin + _AT_ONCE, last)
        stop = last if cut < 0 else cut + (end == b"]")
        if stop - begin > 4 * _AT_ONCE:
            raise DataError(f"a row of numbers is longer than {_AT_ONCE} bytes")
        parts.append(_array(decoder.decode(b"[" + text[begin:stop] + b"]")))
        begin = last if cut < 0 else text.find(b",", cut, last) + 1 or last
    return cast("Sequence[Any]", _joined(parts))


def _array(values: list[Any]) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except ValueError:
        raise DataError(_RAGGED) from None


def _joined(parts: list[FloatArray]) -> FloatArray:
    if len({part.shape[1:] for part in parts}) > 1:
        raise DataError(_RAGGED)
    return np.concatenate(parts)


def points_from_json(body: bytes, dimension: int) -> FloatArray:
    """The points of a JSON body, checked."""
    try:
        return _checked(rows_of(bytes(_json_body.decode(body).x)), dimension)
    except RecursionError:
        raise PointsError(f"the points are not as they should be: {_NESTED}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise translated(fault, "json", PointsError, "points") from None
    except DelboError as fault:
        raise _about_points(fault) from None


def points_from_msgpack(body: bytes, dimension: int) -> FloatArray:
    """The points of a msgpack body, checked."""
    try:
        return _checked(from_wire("x", _msgpack_body.decode(body).x), dimension)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise translated(fault, "msgpack", PointsError, "points") from None
    except WireError as fault:
        raise PointsError(str(fault)) from None
    except DelboError as fault:
        raise _about_points(fault) from None


def points_to_msgpack(x: FloatArray) -> bytes:
    """A body that `points_from_msgpack` reads."""
    return msgspec.msgpack.encode(_MsgpackBody(to_wire(x)))


def translated(fault: Exception, language: str, error: type[DataError], what: str) -> DelboError:
    """The fault of a decoder, in our words: not the language at all, or not what is expected in it."""
    if isinstance(fault, msgspec.ValidationError) and f"length <= {MOST_LENGTHS}" not in str(fault):
        return error(f"the {what} are not as they should be: {fault}")
    return WireError(f"invalid-{language}", f"this is not {language}: {fault}")


def check_count(count: int) -> None:
    """Refuse more points than one request may have."""
    if count > MOST_POINTS:
        raise TooManyPointsError(f"{count:,} points are more than {MOST_POINTS:,}: send them in parts")


def _checked(x: Any, dimension: int) -> FloatArray:
    if isinstance(x, np.ndarray) and x.ndim == 0:
        raise PointsError("x must be points, not a single number")
    check_count(len(x))
    if not len(x):
        raise PointsError('there is no point in this body; it should be like {"x": [[0.1, 2.0], [0.3, 1.9]]}')
    return as_points(x, dimension)


def _about_points(fault: DelboError) -> DelboError:
    return PointsError(str(fault)) if type(fault) is DataError else fault
