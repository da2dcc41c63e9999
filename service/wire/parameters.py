"""The parameter message: what an agent tells its neighbors, as msgpack.

A header (version, agent, incarnation, model_id, epoch, round), and parts of evidence. The full family's information
travels as its lower triangle, row by row. The receiver knows from the model what size to expect and refuses the rest.

Of a large diagonal model, where nothing is known yet evidence is zero, and a map is mostly that for long: then only the
other parameters travel, and `support` says which these are, a bit for each, the first in the highest bit.

With float32 each number is off by at most 2^-24 (6e-8) of itself, or by 1e-45 where it is tinier than 1e-38. Numbers
beyond 3.4e38 cannot be sent so.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from service.errors import NumericalError, WireError
from service.inference import kernels
from service.inference.arrays import FloatArray, owned
from service.inference.belief import Belief, Evidence, FullGaussian
from service.wire.arrays import PRECISION_TYPES, Precision, WireArray, from_wire, to_wire

VERSION: Final = 1
MEDIA_TYPE: Final = "application/vnd.msgpack"
MOST_PARTS = 1  # lockstep and latest send one; a rule that relays other agents' evidence will send more

_FEWEST_FOR_SUPPORT = 256  # parameters: of a smaller model everything travels
_WORTH_IT = 0.75  # the most parameters, as a share of all, for which picking them out pays
_HEADER_ROOM = 4096  # bytes for everything but the numbers
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Header:
    """Whose parameters these are, and of when."""

    agent: str
    incarnation: int
    model_id: str
    epoch: int
    round: int

    @property
    def name(self) -> tuple[int, int]:
        """(epoch, round): grows while an incarnation lives."""
        return self.epoch, self.round


@dataclass(frozen=True, eq=False)
class Part:
    """Evidence from one origin; `sequence` says how new it is, `block` which parameters it is about (0: all)."""

    origin: str
    sequence: int
    block: int
    evidence: Evidence


@dataclass(frozen=True, eq=False)
class ParameterMessage:
    """A header and its parts."""

    header: Header
    parts: tuple[Part, ...]


class _WirePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    origin: str
    sequence: int
    block: int
    information: WireArray
    shift: WireArray
    support: WireArray | None = None


class _WireMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    agent: str
    incarnation: int
    model_id: str
    epoch: int
    round: int
    parts: list[_WirePart]


_decoder = msgspec.msgpack.Decoder(_WireMessage)


class ParameterCodec:
    """Messages of one model to bytes and back."""

    def __init__(self, model_id: str, prior: Belief) -> None:
        self.model_id = model_id
        self.prior = prior
        self._full = isinstance(prior, FullGaussian)

    @cached_property
    def numbers(self) -> int:
        """How many numbers a part holds."""
        d = self.prior.dimension
        return d + (d * (d + 1) // 2 if self._full else d)

    @property
    def size_limit(self) -> int:
        """No message of this model is longer, in bytes."""
        return MOST_PARTS * (8 * self.numbers + _HEADER_ROOM)

    @cached_property
    def nothing(self) -> Evidence:
        """The evidence of the prior itself: zero."""
        return self.prior.minus(self.prior)

    def encode(self, message: ParameterMessage, precision: Precision = "float64") -> bytes:
        """The message as msgpack."""
        header = message.header
        parts = [self._wire_part(part, PRECISION_TYPES[precision]) for part in message.parts]
        return msgspec.msgpack.encode(
            _WireMessage(VERSION, header.agent, header.incarnation, header.model_id, header.epoch, header.round, parts)
        )

    def _wire_part(self, part: Part, dtype: str) -> _WirePart:
        information, shift = part.evidence.information, part.evidence.shift
        support = None if self._full else _support(information, shift)
        if support is not None:
            information, shift = information[support], shift[support]
        return _WirePart(
            part.origin,
            part.sequence,
            part.block,
            to_wire(self._packed(information), dtype),
            to_wire(shift, dtype),
            None if support is None else _bytes_to_wire(np.packbits(support)),
        )

    def rounded(self, data: bytes) -> bytes:
        """A message in float32; where that would be no belief, or out of range, the message as it is."""
        try:
            rounded = self.encode(self.decode(data), "float32")
            self.decode(rounded)
        except WireError:
            return data
        return rounded

    def decode(self, data: bytes) -> ParameterMessage:
        """The message, if it is one of this model and its numbers make a belief; else a WireError with its reason."""
        if len(data) > self.size_limit:
            raise WireError("oversized", f"{len(data)} bytes are more than a message of this model can have")
        try:
            wire = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise WireError("malformed", f"not a parameter message: {fault}") from None
        if wire.version != VERSION:
            raise WireError("version", f"the message has version {wire.version}: this agent speaks {VERSION}")
        if wire.model_id != self.model_id:
            raise WireError("wrong-model", f"the message is of model {wire.model_id[:12]}, not {self.model_id[:12]}")
        if not all(0 <= number <= _LARGEST for number in (wire.epoch, wire.round, wire.incarnation)):
            raise WireError("malformed", "epoch, round and incarnation must be natural numbers")
        if not 1 <= len(wire.parts) <= MOST_PARTS:
            raise WireError("malformed", f"a message has 1 to {MOST_PARTS} parts, not {len(wire.parts)}")
        header = Header(wire.agent, wire.incarnation, wire.model_id, wire.epoch, wire.round)
        return ParameterMessage(header, tuple(self._part(part) for part in wire.parts))

    def _part(self, part: _WirePart) -> Part:
        d = self.prior.dimension
        if part.block != 0 or part.sequence < 0:
            raise WireError("malformed", f"block {part.block} and sequence {part.sequence} are not known here")
        if part.information.dtype not in PRECISION_TYPES.values() or part.information.dtype != part.shift.dtype:
            raise WireError("dtype", f"parameters are <f8 or <f4, not {part.information.dtype[:20]!r}")
        if part.support is None:
            information = from_wire("information", part.information, (self.numbers - d,))
            shift = from_wire("shift", part.shift, (d,))
        else:
            information, shift = self._spread(part, part.support)
        return Part(part.origin, part.sequence, part.block, self._checked(information, shift))

    def _spread(self, part: _WirePart, support: WireArray) -> tuple[FloatArray, FloatArray]:
        """All parameters, of which only some travelled."""
        if self._full:
            raise WireError("malformed", "a model of the full family has no support")
        places = np.flatnonzero(_bits(support, self.prior.dimension))
        spread = []
        for name, array in (("information", part.information), ("shift", part.shift)):
            numbers = np.zeros(self.prior.dimension)
            numbers[places] = from_wire(name, array, places.shape)
            spread.append(numbers)
        return spread[0], spread[1]

    def _checked(self, information: FloatArray, shift: FloatArray) -> Evidence:
        """The evidence, if prior + evidence is a belief."""
        if not self._full and kernels.is_diagonal_belief(self.prior.information, information, shift):
            return Evidence(owned(information), owned(shift))
        if not (np.isfinite(information).all() and np.isfinite(shift).all()):
            raise WireError("not-finite", "the message holds numbers that are not finite")
        evidence = Evidence(owned(self._unpacked(information)), owned(shift))
        try:
            self.prior.plus(evidence)
        except NumericalError as fault:
            raise WireError("not-positive-definite", f"the message is no belief: {fault}") from None
        return evidence

    def _packed(self, information: FloatArray) -> FloatArray:
        if not self._full:
            return information
        packed = np.empty(self.numbers - self.prior.dimension)
        kernels.pack_triangle(information, packed)
        return packed

    def _unpacked(self, information: FloatArray) -> FloatArray:
        if not self._full:
            return information
        matrix = np.empty((self.prior.dimension, self.prior.dimension))
        kernels.unpack_triangle(information, matrix)
        return matrix


def _support(information: FloatArray, shift: FloatArray) -> npt.NDArray[np.bool_] | None:
    """Which parameters have evidence; None where it is not worth telling."""
    if len(shift) < _FEWEST_FOR_SUPPORT:
        return None
    support = (information != 0) | (shift != 0)
    return support if np.count_nonzero(support) < _WORTH_IT * len(shift) else None


def _bytes_to_wire(data: npt.NDArray[np.uint8]) -> WireArray:
    return WireArray("|u1", data.shape, data.data)


def _bits(support: WireArray, dimension: int) -> npt.NDArray[np.bool_]:
    """One truth per parameter; bits beyond the last must not be set."""
    size = -(-dimension // 8)
    if support.dtype != "|u1" or support.shape != (size,) or len(support.data) != size:
        raise WireError("shape", f"support should be {size} bytes, a bit for each parameter")
    bits = np.unpackbits(np.frombuffer(support.data, np.uint8))
    if bits[dimension:].any():
        raise WireError("malformed", "support names parameters that the model does not have")
    return bits[:dimension].view(np.bool_)
