"""Parameter messages of large maps: only the parameters that have evidence travel."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import WireError
from service.inference.belief import Evidence
from service.wire.arrays import Precision
from service.wire.parameters import ParameterCodec
from tests.wire.test_parameter_messages import array, codec_for, message_of

D = 1003  # not a multiple of 8: the last byte of the support has bits to spare


def evidence_at(places: list[int], dimension: int = D) -> Evidence:
    generator = np.random.default_rng(len(places))
    information, shift = np.zeros(dimension), np.zeros(dimension)
    information[places] = generator.uniform(0.5, 2.0, len(places))
    shift[places] = generator.normal(size=len(places))
    return Evidence(information, shift)


def read_back(codec: ParameterCodec, evidence: Evidence, precision: Precision = "float64") -> Evidence:
    return codec.decode(codec.encode(message_of(evidence), precision)).parts[0].evidence


@settings(max_examples=40)
@given(places=st.sets(st.integers(0, D - 1)))
def test_evidence_arrives_bit_for_bit_wherever_it_is(places: set[int]) -> None:
    codec, evidence = codec_for("diagonal", D), evidence_at(sorted(places))
    read = read_back(codec, evidence)
    assert read.information.tobytes() == evidence.information.tobytes()
    assert read.shift.tobytes() == evidence.shift.tobytes()


def test_a_parameter_with_only_a_shift_or_only_information_travels() -> None:
    information, shift = np.zeros(D), np.zeros(D)
    information[3], shift[1002] = 2.0, -1.5
    read = read_back(codec_for("diagonal", D), Evidence(information, shift))
    assert read.information.tobytes() == information.tobytes()
    assert read.shift.tobytes() == shift.tobytes()


def test_the_message_grows_with_the_evidence_and_not_with_the_map() -> None:
    codec = codec_for("diagonal", D)
    sizes = [len(codec.encode(message_of(evidence_at(list(range(count)))))) for count in (0, 100, 200)]
    assert sizes[0] < D // 8 + 300  # the support, and the header
    # Two numbers of 8 bytes each; lengths may take a byte or two more to write down.
    assert sizes[1] - sizes[0] == pytest.approx(1600, abs=8)
    assert sizes[2] - sizes[1] == pytest.approx(1600, abs=8)


def test_a_full_or_small_message_has_no_support() -> None:
    for family, dimension, places in (("diagonal", D, range(D)), ("diagonal", 40, [0]), ("full", 3, [])):
        codec = codec_for(family, dimension)
        evidence = codec.nothing if family == "full" else evidence_at(list(places), dimension)
        assert "support" not in msgspec.msgpack.decode(codec.encode(message_of(evidence)))["parts"][0]


def test_float32_rounds_what_travels_and_leaves_the_rest_zero() -> None:
    evidence = evidence_at([0, 7, 8, 1002])
    read = read_back(codec_for("diagonal", D), evidence, "float32")
    np.testing.assert_allclose(read.information, evidence.information, rtol=2**-24)
    assert np.count_nonzero(read.information) == 4


def packed(bits: Any) -> Any:
    return np.packbits(np.asarray(bits, bool))


def support(bits: Any, dtype: str = "|u1") -> dict[str, Any]:
    return array(packed(bits), dtype)


SOME = np.arange(D) < 5
BEYOND = np.concatenate([SOME, [True]])  # bit 1003 of 1008


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"support": support(np.arange(D) < 4)}, "shape"),  # fewer places than numbers
        ({"support": support(np.arange(D) < 6)}, "shape"),
        ({"support": support(BEYOND)}, "malformed"),
        ({"support": support(SOME[:-8])}, "shape"),
        ({"support": support(np.concatenate([SOME, np.zeros(8, bool)]))}, "shape"),
        ({"support": support(SOME, "<i4")}, "shape"),
        ({"support": array(packed(SOME), "|u1", [2, 63])}, "shape"),
        ({"support": array(packed(SOME)[:-1], "|u1", [126])}, "shape"),
        ({"information": array(np.ones(4))}, "shape"),
        ({"shift": array(np.full(5, np.nan))}, "not-finite"),
        ({"information": array(np.full(5, -9.0))}, "not-positive-definite"),
        ({"information": array(np.ones(5), "<i8")}, "dtype"),
        ({"support": b"\xff"}, "malformed"),
    ],
)
def test_a_support_that_does_not_fit_is_refused(changed: dict[str, Any], reason: str) -> None:
    codec = codec_for("diagonal", D)
    document = msgspec.msgpack.decode(codec.encode(message_of(evidence_at(list(range(5))))))
    codec.decode(msgspec.msgpack.encode(document))
    document["parts"][0] |= changed
    with pytest.raises(WireError) as caught:
        codec.decode(msgspec.msgpack.encode(document))
    assert caught.value.reason == reason


def test_a_full_model_takes_no_support() -> None:
    codec = codec_for("full")
    document = msgspec.msgpack.decode(codec.encode(message_of(codec.nothing)))
    document["parts"][0]["support"] = support([True, True, True])
    with pytest.raises(WireError, match="no support"):
        codec.decode(msgspec.msgpack.encode(document))
