"""Observations on the wire: one JSON object, JSON columns, lines of JSON, or msgpack arrays.

    {"x": [0.1, 2.0], "y": 1}                     one observation
    {"x": [[0.1, 2.0], [0.3, 1.9]], "y": [1, 0]}  columns
    {"end": true}                                 the stream is over; may come with the last observations

In msgpack `x` and `y` are arrays: {"dtype": "<f8", "shape": [rows, columns], "data": bytes}.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from service.errors import DataError, DelboError, WireError
from service.inference.arrays import FloatArray, as_points
from service.inference.likelihood import Likelihood
from service.wire.arrays import WireArray, from_wire, to_wire
from service.wire.points import is_rows, lists_of, numbers_of, rows_of, translated

DIGEST_SIZE = 16


@dataclass(frozen=True, eq=False)
class Observations:
    """Points x of shape (rows, dimension), targets y of shape (rows,) or (rows, outputs); `end`: no more will come."""

    x: FloatArray
    y: FloatArray
    end: bool = False

    def __len__(self) -> int:
        return len(self.y)

    @property
    def digest(self) -> bytes:
        """Tells these observations from others; the same however they were written."""
        return _digest(self.x, self.y, self.end)

    def line_digests(self, first: int) -> list[bytes]:
        """The digest of each line from `first` on: rows as if each had come alone, then the end, if it is there."""
        digests = [_digest(self.x[row : row + 1], self.y[row : row + 1], False) for row in range(first, len(self))]
        return [*digests, _digest(self.x[:0], self.y[:0], True)] if self.end else digests


def _digest(x: FloatArray, y: FloatArray, end: bool) -> bytes:
    content = b"%d %d %d " % (*x.shape, end) + x.tobytes() + y.tobytes()
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE).digest()


class _JsonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    x: msgspec.Raw = msgspec.Raw()
    y: msgspec.Raw = msgspec.Raw()
    end: bool = False


class _MsgpackBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    x: WireArray | None = None
    y: WireArray | None = None
    end: bool = False


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    x: list[float] | None = None
    y: float | list[float] | None = None
    end: bool = False


_json_body = msgspec.json.Decoder(_JsonBody)
_msgpack_body = msgspec.msgpack.Decoder(_MsgpackBody)
_line = msgspec.json.Decoder(_Line)
_number = msgspec.json.Decoder(float)
_numbers = msgspec.json.Decoder(list[float])

_BOTH = 'an observation has both x and y, like {"x": [0.1, 2.0], "y": 1}'


class ObservationReader:
    """Bodies to checked observations of one model and likelihood."""

    def __init__(self, dimension: int, likelihood: Likelihood) -> None:
        self.dimension = dimension
        self.likelihood = likelihood

    def from_json(self, body: bytes) -> Observations:
        """One object, or columns."""
        try:
            read = _json_body.decode(body)
            x, y = bytes(read.x), bytes(read.y)
            if not (x and y):
                return self._end(bool(x or y), read.end)
            points, targets = columns(x, y, self.likelihood.is_vector)
            if not len(points) and not len(targets):
                return self._end(False, read.end)
            return self._checked(points, targets, read.end)
        except RecursionError:
            raise DataError("the observations are not as they should be: lists in lists in lists") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise translated(fault, "json", DataError, "observations") from None

    def from_msgpack(self, body: bytes) -> Observations:
        """Raw arrays."""
        try:
            read = _msgpack_body.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise translated(fault, "msgpack", DataError, "observations") from None
        if read.x is None or read.y is None:
            return self._end(read.x is not read.y, read.end)
        try:
            x, y = from_wire("x", read.x), from_wire("y", read.y)
        except WireError as fault:
            raise DataError(str(fault)) from None
        return self._checked(x, y, read.end)

    def from_lines(self, lines: Sequence[bytes]) -> tuple[Observations, DelboError | None]:
        """Lines of JSON: the observations before the first fault, and the fault, if there is one."""
        try:
            return self._lines(lines), None
        except DelboError as fault:
            if len(lines) == 1:
                return self._none(end=False), fault
        # Somewhere there is a fault: the lines before it are good.
        half = len(lines) // 2
        first, fault_there = self.from_lines(lines[:half])
        if fault_there is None and first.end:
            fault_there = DataError("nothing may come after the line that ends the stream")
        if fault_there is not None:
            return first, fault_there
        second, fault_there = self.from_lines(lines[half:])
        joined = Observations(np.concatenate((first.x, second.x)), np.concatenate((first.y, second.y)), second.end)
        return joined, fault_there

    def _lines(self, lines: Sequence[bytes]) -> Observations:
        try:
            read = [_line.decode(line) for line in lines]
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise translated(fault, "json", DataError, "observations") from None
        end = bool(read) and read[-1].end
        if any(one.end for one in read[:-1]):
            raise DataError("nothing may come after the line that ends the stream")
        if end:
            last = read.pop()
            if last.x is not None or last.y is not None:
                raise DataError('the line that ends a stream is {"end": true}, and nothing else')
        if any(one.x is None or one.y is None for one in read):
            raise DataError(_BOTH)
        if not read:
            return self._none(end)
        return self._checked([one.x for one in read], [one.y for one in read], end)

    def _end(self, has_one: bool, end: bool) -> Observations:
        """A body without x, y or both: without both, it must end the stream."""
        if has_one or not end:
            raise DataError(f'{_BOTH}; {{"end": true}} alone ends a stream')
        return self._none(end=True)

    def check(self, x: Any, y: Any) -> tuple[FloatArray, FloatArray]:
        """Points and targets as arrays that fit the model, as many of both."""
        points, targets = as_points(x, self.dimension), self.likelihood.check_targets(y)
        if len(points) != len(targets):
            raise DataError(f"{len(points)} points and {len(targets)} targets: there must be as many of both")
        return points, targets

    @property
    def nothing(self) -> tuple[FloatArray, FloatArray]:
        """No point and no target, in the shapes of the model."""
        shape = (0, self.likelihood.outputs) if self.likelihood.is_vector else (0,)
        return np.empty((0, self.dimension)), np.empty(shape)

    def _checked(self, x: Any, y: Any, end: bool) -> Observations:
        points, targets = self.check(x, y)
        if not len(targets) and not end:
            raise DataError("there is no observation in this body")
        return Observations(points, targets, end)

    def _none(self, end: bool) -> Observations:
        return Observations(*self.nothing, end)


def to_msgpack(observations: Observations) -> bytes:
    """A body that `from_msgpack` reads."""
    body = _MsgpackBody(to_wire(observations.x), to_wire(observations.y), observations.end)
    return msgspec.msgpack.encode(body)


def columns(x: bytes, y: bytes, vector_targets: bool) -> tuple[Sequence[Any], Sequence[Any]]:
    """x and y of JSON as rows; one observation makes one row."""
    if is_rows(x):
        return rows_of(x), (lists_of if vector_targets else numbers_of)(y)
    return rows_of(x), [(_numbers if vector_targets else _number).decode(y)]
