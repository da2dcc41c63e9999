"""Messages that nobody should send: noise, and msgpack with a few things wrong. The same seed, the same messages."""

import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

Message = dict[str, Any]

_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 255, 2**31, 2**62, 2**63 - 1, 2**64 - 1, -(2**63), 0.0, -0.0, 0.5, 1e-320, 1e308,
    -1e308, float("nan"), float("inf"), -float("inf"), "", "a", "1", "nan", "lockstep", "\x00", "é" * 70, "x" * 300,
    b"", b"\x00" * 8, b"\xff" * 24, [], [[]], [0], [None], [1e308, 1], [[1.0, 2.0]], {}, {"": {}}, {"x": 1}, [{}] * 5,
    {"dtype": "<f8", "shape": [1], "data": bytes(8)}, {"dtype": "<f8", "shape": [2, 2], "data": bytes(32)},
    {"dtype": "|u1", "shape": [0, 2], "data": b""}, {"dtype": "<f8", "shape": [2**40, 0], "data": b""},
)  # fmt: skip
_ODD_PACKED = tuple(msgspec.msgpack.encode(value) for value in _ODD)
_NUMBERS = (float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, -0.0, 1e155, -1e20, 0.0, 1.0)
_DTYPES = ("<f8", "<f4", "<i8", "<i4", "|u1", ">f8", "O", "<c16", "", "float64", "<f8" * 50)
_SHAPES: tuple[list[int], ...] = (
    [],
    [0],
    [-1],
    [3],
    [1, 3],
    [3, 1],
    [2**62, 4],
    [0, 2],
    [2**63 - 1],
    [2**64 - 1],
    [1] * 40,
    [-2, -2],
)
_LENGTHS = tuple(
    kind + size
    for kind in (b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9")  # list, map, bytes, text, extension
    for size in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x0f\xff\xff")
)
_DEEP = (b"\x91", b"\x81\xa1x", b"\x81\x91", b"\xdc\x00\x01")


class Mutator:
    """Makes messages without end."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._of_bytes: Sequence[Callable[[bytes], bytes]] = (
            self._changed, self._changed, self._cut, self._extended, self._inserted, self._with_length, self._nested
        )  # fmt: skip
        self._of_documents: Sequence[Callable[[Message], None]] = (
            self._replace, self._replace, self._remove, self._rename, self._add, self._spoil_array, self._spoil_array
        )  # fmt: skip

    def pick(self, choices: Sequence[Any]) -> Any:
        """One of them."""
        return self._random.choice(choices)

    def message(self, valid: bytes) -> bytes:
        """Another message: mostly like the valid one, now and then the valid one itself, or nothing like it."""
        way = self._random.random()
        if way < 0.1:
            return valid
        if way < 0.2:
            return self._random.randbytes(self._random.randrange(80))
        if way < 0.3:
            return msgspec.msgpack.encode(self._object(4))
        if way < 0.6:
            return bytes(self.pick(self._of_bytes)(valid))
        document = msgspec.msgpack.decode(valid)
        for _ in range(self.pick((1, 1, 1, 2, 3))):
            self.pick(self._of_documents)(document)
        return msgspec.msgpack.encode(document)

    def _odd(self) -> Any:
        return msgspec.msgpack.decode(self.pick(_ODD_PACKED))  # a new one each time, for it may be changed further

    def _object(self, depth: int) -> Any:
        kind = self._random.randrange(4 if depth else 2)
        if kind < 2:
            return self._odd()
        if kind == 2:
            return [self._object(depth - 1) for _ in range(self._random.randrange(4))]
        return {self.pick(("x", "y", "revision", "", "ü", 1)): self._object(depth - 1) for _ in range(3)}

    # Of bytes.

    def _place(self, data: bytes) -> int:
        return self._random.randrange(len(data) + 1)

    def _changed(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.pick((1, 1, 2, 4))):
            changed[self._random.randrange(len(data))] = self._random.randrange(256)
        return bytes(changed)

    def _cut(self, data: bytes) -> bytes:
        return data[: self._random.randrange(len(data))]

    def _extended(self, data: bytes) -> bytes:
        return data + self._random.randbytes(self._random.randrange(1, 9))

    def _inserted(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + self._random.randbytes(self._random.randrange(4)) + data[place + self.pick((0, 1, 8)) :]

    def _with_length(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + self.pick(_LENGTHS) + data[place + self.pick((0, 1, 5)) :]

    def _nested(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + self.pick(_DEEP) * self.pick((2, 40, 900, 3000)) + data[place:]

    # Of documents, in place: they were just decoded for this.

    def _inside(self, document: Message) -> Any:
        """The document, or a list or mapping somewhere in it."""
        inner: Any = document
        while True:
            values = inner.values() if isinstance(inner, dict) else inner
            deeper = [value for value in values if isinstance(value, dict | list) and value]
            if not deeper or self._random.random() < 0.4:
                return inner
            inner = self.pick(deeper)

    def _key(self, inner: Any) -> Any:
        return self.pick(list(inner)) if isinstance(inner, dict) else self._random.randrange(len(inner))

    def _replace(self, document: Message) -> None:
        inner = self._inside(document)
        if inner:
            inner[self._key(inner)] = self._odd()

    def _remove(self, document: Message) -> None:
        inner = self._inside(document)
        if inner:
            del inner[self._key(inner)]

    def _rename(self, document: Message) -> None:
        inner = self._inside(document)
        if isinstance(inner, dict) and inner:
            inner[self.pick(("", "X", "revision ", "model", "é"))] = inner.pop(self._key(inner))

    def _add(self, document: Message) -> None:
        inner = self._inside(document)
        if isinstance(inner, dict):
            inner[self.pick(("more", "x", "paused", "support", "end"))] = self._odd()
        else:
            inner.append(inner[0] if inner and self._random.random() < 0.5 else self._odd())

    def _spoil_array(self, document: Message) -> None:
        """Another type, shape or number in one of the arrays that the document holds."""
        arrays = [one for one in arrays_in(document) if isinstance(one.get("data"), bytes)]
        if not arrays:
            return self._replace(document)
        array = self.pick(arrays)
        what = self._random.randrange(5)
        if what == 0:
            array["dtype"] = self.pick(_DTYPES)
        elif what == 1:
            array["shape"] = list(self.pick(_SHAPES))
        elif what == 2:
            array["data"] = array["data"][: self._place(array["data"])]
        elif len(array["data"]) >= 8:
            data, place = bytearray(array["data"]), 8 * self._random.randrange(len(array["data"]) // 8)
            data[place : place + 8] = struct.pack("<d", self.pick(_NUMBERS))
            array["data"] = bytes(data)
        return None


def arrays_in(value: Any) -> list[Message]:
    """All arrays, wherever they are in a document."""
    if isinstance(value, dict):
        found = [one for part in value.values() for one in arrays_in(part)]
        return [value, *found] if "dtype" in value else found
    return [one for part in value for one in arrays_in(part)] if isinstance(value, list) else []
