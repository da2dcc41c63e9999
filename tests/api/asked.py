"""What is asked of a belief, and the answers as arrays."""

import io
import json
from typing import Any

import httpx2
import msgspec
import numpy as np

from service.inference.arrays import FloatArray
from service.wire.arrays import WireArray, from_wire
from service.wire.parameters import MEDIA_TYPE
from tests.api.every_model import Direct, check_layers

JSON = "application/json"
_HEAD = ("epoch", "round", "model_id")


def arrays_of(answer: httpx2.Response) -> dict[str, Any]:
    """A msgpack answer with its arrays as arrays."""
    assert answer.headers["content-type"] == MEDIA_TYPE
    document: dict[str, Any] = msgspec.msgpack.decode(answer.content)
    return {name: _array(value) if isinstance(value, dict) else value for name, value in document.items()}


def _array(packed: dict[str, Any]) -> FloatArray:
    array = WireArray(packed["dtype"], tuple(packed["shape"]), memoryview(packed["data"]))
    return from_wire("array", array, most_dimensions=3)


def as_json(x: FloatArray) -> bytes:
    """A body that asks for these points."""
    return json.dumps({"x": x.tolist()}).encode()


def split(document: dict[str, Any]) -> tuple[tuple[int, int], dict[str, Any]]:
    """The round that an answer names, and the rest of it."""
    return (document["epoch"], document["round"]), {name: document[name] for name in document if name not in _HEAD}


def check_map(content: bytes, direct: Direct) -> tuple[int, int]:
    """Every layer of the numbers is the prediction at each pixel; the round that they name."""
    with np.load(io.BytesIO(content), allow_pickle=False) as read:
        found = dict(read)
    x, y = found.pop("x"), found.pop("y")
    name = int(found.pop("epoch")), int(found.pop("round"))
    pixels = np.array([(column, row) for row in y for column in x])
    expected = {layer: values.reshape(len(y), len(x)) for layer, values in direct.expected(pixels).items()}
    check_layers(found, expected)
    return name
