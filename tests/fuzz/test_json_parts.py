"""Long lists of JSON are read in parts: what comes out, and what is refused, is the same as at once."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from service.errors import DelboError
from service.wire import points

MESSAGES = 20_000
_body = msgspec.json.Decoder(dict[str, msgspec.Raw])


def texts(generator: random.Random) -> bytes:
    """A list of rows or numbers, with or without spaces, now and then ragged, often with one byte changed."""
    widths = generator.choice([(2,), (2,), (1, 2)])
    rows = [[generator.choice([1, 2.5, -3e10, 7]) for _ in range(generator.choice(widths))] for _ in range(8)]
    rows = rows[: generator.randrange(9)]
    text = msgspec.json.encode(generator.choice([rows, [row[0] for row in rows]]))
    changed = bytearray(msgspec.json.format(text) if generator.random() < 0.3 else text)
    if generator.random() < 0.5:
        changed[generator.randrange(len(changed))] = generator.choice(b'[]{},1 "e-.\n')
    return bytes(changed)


def outcome(read: Callable[[bytes], Sequence[Any]], text: bytes) -> Any:
    try:
        return np.asarray(read(text), float).tolist()
    except (msgspec.DecodeError, DelboError, ValueError):
        return "refused"


def test_a_list_read_in_parts_is_the_list_and_refused_if_the_list_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, read = random.Random(1), 0
    for _ in range(MESSAGES):
        try:
            text = bytes(_body.decode(b'{"x":' + texts(generator) + b"}")["x"])
        except msgspec.DecodeError:
            continue  # no JSON: nobody reads it any further
        for reader in (points.lists_of, points.numbers_of):
            monkeypatch.setattr(points, "_AT_ONCE", 1 << 20)
            whole = outcome(reader, text)
            monkeypatch.setattr(points, "_AT_ONCE", 16)  # bytes: a part is a row or two
            assert outcome(reader, text) == whole, text
            read += whole != "refused"
    assert read > MESSAGES // 10
