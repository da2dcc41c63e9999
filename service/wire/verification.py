"""The verification document: labelled points on which an agent scores itself every so many rounds.

    {"revision": 1, "every_rounds": 10, "x": [[0.1, 2.0], [0.3, 1.9]], "y": [1, 0]}

In msgpack `x` and `y` are arrays, as in observations. Without points the agent no longer scores itself.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Self

import msgspec
import numpy as np

from service.errors import DataError, DelboError, VerificationError, WireError
from service.inference.arrays import FloatArray
from service.wire.arrays import WireArray, from_wire, to_wire
from service.wire.observations import ObservationReader, columns
from service.wire.points import check_count, translated

MOST_ROUNDS = 1_000_000_000

Natural = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
Rounds = Annotated[int, msgspec.Meta(ge=1, le=MOST_ROUNDS)]


class _JsonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    revision: Natural
    every_rounds: Rounds
    x: msgspec.Raw
    y: msgspec.Raw


class _MsgpackBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    revision: Natural
    every_rounds: Rounds
    x: WireArray
    y: WireArray


_json_body = msgspec.json.Decoder(_JsonBody)
_msgpack_body = msgspec.msgpack.Decoder(_MsgpackBody)


@dataclass(frozen=True, eq=False)
class VerificationDocument:
    """`PUT /v1/verification`: points x of shape (rows, dimension) with their true targets y, and the period."""

    revision: int
    every_rounds: int
    x: FloatArray
    y: FloatArray

    @property
    def number(self) -> int:
        """The higher one replaces the lower."""
        return self.revision

    def __len__(self) -> int:
        return len(self.y)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VerificationDocument):
            return NotImplemented
        same_head = (self.revision, self.every_rounds) == (other.revision, other.every_rounds)
        return same_head and np.array_equal(self.x, other.x) and np.array_equal(self.y, other.y)

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> bytes:
        """As it is kept."""
        return msgspec.json.encode(
            {"revision": self.revision, "every_rounds": self.every_rounds, "x": self.x.tolist(), "y": self.y.tolist()}
        )

    def to_msgpack(self) -> bytes:
        """As it is sent."""
        return msgspec.msgpack.encode(_MsgpackBody(self.revision, self.every_rounds, to_wire(self.x), to_wire(self.y)))

    @classmethod
    def from_json(cls, body: bytes, reader: ObservationReader) -> "VerificationDocument":
        """The checked document; `reader` knows what points and targets the model takes."""
        try:
            read = _json_body.decode(body)
            x, y = columns(bytes(read.x), bytes(read.y), reader.likelihood.is_vector)
        except RecursionError:
            raise VerificationError("the verification data are not as they should be: lists in lists") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise translated(fault, "json", VerificationError, "verification data") from None
        return cls._checked(read, x, y, reader)

    @classmethod
    def from_msgpack(cls, body: bytes, reader: ObservationReader) -> "VerificationDocument":
        """The checked document."""
        try:
            read = _msgpack_body.decode(body)
            x, y = from_wire("x", read.x), from_wire("y", read.y)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise translated(fault, "msgpack", VerificationError, "verification data") from None
        except WireError as fault:
            raise VerificationError(str(fault)) from None
        return cls._checked(read, x, y, reader)

    @classmethod
    def _checked(cls, head: _JsonBody | _MsgpackBody, x: Any, y: Any, reader: ObservationReader) -> Self:
        if any(isinstance(one, np.ndarray) and one.ndim == 0 for one in (x, y)):
            raise VerificationError("x and y must be rows, not a single number")
        check_count(len(y))
        points, targets = reader.nothing if not len(x) and not len(y) else _pairs(x, y, reader)
        return cls(head.revision, head.every_rounds, points, targets)


def _pairs(x: Any, y: Any, reader: ObservationReader) -> tuple[FloatArray, FloatArray]:
    try:
        return reader.check(x, y)
    except DelboError as fault:
        if type(fault) is DataError:
            raise VerificationError(str(fault)) from None
        raise
