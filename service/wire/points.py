"""Points on the wire: what predictions are asked for, and the rows of numbers that all bodies with points have.

    {"x": [0.1, 2.0]}                  one point
    {"x": [[0.1, 2.0], [0.3, 1.9]]}    rows

In msgpack `x` is an array: {"dtype": "<f8", "shape": [rows, columns], "data": bytes}.
"""

from typing import Any

import msgspec

from service.errors import DataError, DelboError, PointsError, TooManyPointsError, WireError
from service.inference.arrays import FloatArray, as_points
from service.wire.arrays import WireArray, from_wire, to_wire

MOST_POINTS = 100_000  # in one request

_SPACE = b" \t\r\n"
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


def rows_of(x: bytes) -> list[list[float]]:
    """Rows of numbers from JSON; a single row makes one."""
    return _rows.decode(x) if is_rows(x) else [_numbers.decode(x)]


def points_from_json(body: bytes, dimension: int) -> FloatArray:
    """The points of a JSON body, checked."""
    try:
        return _checked(rows_of(bytes(_json_body.decode(body).x)), dimension)
    except RecursionError:
        raise PointsError(f"the points are not as they should be: {_NESTED}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise translated(fault, "json", PointsError, "points") from None


def points_from_msgpack(body: bytes, dimension: int) -> FloatArray:
    """The points of a msgpack body, checked."""
    try:
        return _checked(from_wire("x", _msgpack_body.decode(body).x), dimension)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise translated(fault, "msgpack", PointsError, "points") from None
    except WireError as fault:
        raise PointsError(str(fault)) from None


def points_to_msgpack(x: FloatArray) -> bytes:
    """A body that `points_from_msgpack` reads."""
    return msgspec.msgpack.encode(_MsgpackBody(to_wire(x)))


def translated(fault: Exception, language: str, error: type[DataError], what: str) -> DelboError:
    """The fault of a decoder, in our words: not the language at all, or not what is expected in it."""
    if isinstance(fault, msgspec.ValidationError):
        return error(f"the {what} are not as they should be: {fault}")
    return WireError(f"invalid-{language}", f"this is not {language}: {fault}")


def check_count(count: int) -> None:
    """Refuse more points than one request may have."""
    if count > MOST_POINTS:
        raise TooManyPointsError(f"{count:,} points are more than {MOST_POINTS:,}: send them in parts")


def _checked(x: Any, dimension: int) -> FloatArray:
    check_count(len(x))
    if not len(x):
        raise PointsError('there is no point in this body; it should be like {"x": [[0.1, 2.0], [0.3, 1.9]]}')
    try:
        return as_points(x, dimension)
    except DelboError as fault:
        if type(fault) is DataError:
            raise PointsError(str(fault)) from None
        raise
