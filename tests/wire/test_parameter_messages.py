"""Parameter messages: what arrives is what was sent, and everything else is refused with its reason."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import WireError
from service.inference.arrays import FloatArray
from service.inference.belief import FAMILIES, Belief, DiagonalGaussian, Evidence, FullGaussian
from service.wire.arrays import Precision
from service.wire.parameters import MOST_PARTS, Header, ParameterCodec, ParameterMessage, Part
from service.wire.problems import problem_slug, problem_type
from tests.inference.builders import belief_with

MODEL = "c0ffee" * 10 + "beef"
HEADER = Header("robot 1", 2**62 - 1, MODEL, 3, 41)
FAMILY_NAMES = list(FAMILIES)


def codec_for(family: str, dimension: int = 3) -> ParameterCodec:
    prior: type[Belief] = FullGaussian if family == "full" else DiagonalGaussian
    return ParameterCodec(MODEL, prior.prior(dimension, 0.2))


def evidence_for(codec: ParameterCodec, family: str, seed: int = 0) -> Evidence:
    generator = np.random.default_rng(seed)
    return belief_with(generator, family, codec.prior.dimension).minus(codec.prior)


def message_of(evidence: Evidence, header: Header = HEADER) -> ParameterMessage:
    return ParameterMessage(header, (Part(header.agent, header.round, 0, evidence),))


def small_message(family: str) -> bytes:
    codec = codec_for(family)
    return codec.encode(message_of(evidence_for(codec, family)))


def rewritten(family: str, place: tuple[str | int, ...], value: Any) -> bytes:
    """A valid message with another value at one place; a key that was not there is added."""
    document = msgspec.msgpack.decode(small_message(family))
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return msgspec.msgpack.encode(document)


def refusal(family: str, data: bytes) -> str:
    with pytest.raises(WireError) as caught:
        codec_for(family).decode(data)
    assert "\n" not in str(caught.value)
    return caught.value.reason


def short(value: Any) -> str:
    """The name of a case, however long its body."""
    return repr(value)[:40]


def array(values: FloatArray | list[float], dtype: str = "<f8", shape: list[int] | None = None) -> dict[str, Any]:
    numbers = np.asarray(values)
    return {
        "dtype": dtype,
        "shape": list(numbers.shape) if shape is None else shape,
        "data": numbers.astype(dtype).tobytes(),
    }


@pytest.mark.parametrize("dimension", [1, 2, 7, 40])
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_message_arrives_bit_for_bit(family: str, dimension: int) -> None:
    codec = codec_for(family, dimension)
    evidence = evidence_for(codec, family, dimension)
    read = codec.decode(codec.encode(message_of(evidence)))
    assert read.header == HEADER
    (part,) = read.parts
    assert (part.origin, part.sequence, part.block) == ("robot 1", 41, 0)
    assert part.evidence.information.shape == evidence.information.shape
    if family == "diagonal":
        assert part.evidence.information.tobytes() == evidence.information.tobytes()
    else:  # the lower triangle travels, and makes both
        lower = np.tril(evidence.information)
        assert np.array_equal(part.evidence.information, lower + np.tril(lower, -1).T)
    assert part.evidence.shift.tobytes() == evidence.shift.tobytes()


def test_a_full_message_is_the_lower_triangle_row_by_row() -> None:
    codec = codec_for("full")
    information = np.array([[1.0, 2.0, 4.0], [2.0, 9.0, 5.0], [4.0, 5.0, 60.0]])
    document = msgspec.msgpack.decode(codec.encode(message_of(Evidence(information, np.arange(3.0)))))
    (part,) = document["parts"]
    assert np.frombuffer(part["information"]["data"], "<f8").tolist() == [1, 2, 9, 4, 5, 60]
    assert part["information"]["shape"] == [6]


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_what_is_decoded_keeps_no_message_alive_and_cannot_be_written_to(family: str) -> None:
    evidence = codec_for(family).decode(small_message(family)).parts[0].evidence
    for numbers in (evidence.information, evidence.shift):
        assert numbers.flags.owndata
        with pytest.raises(ValueError, match="read-only"):
            numbers[0] = 1.0


# float32 has 24 binary digits, so rounding to nearest is off by at most half a unit of the last: 2^-24. Smaller numbers
# than 2^-126 have fewer digits there.
ordinary = st.floats(2.0**-126, 1e30) | st.floats(-1e30, -(2.0**-126)) | st.just(0.0)


@given(
    shift=st.lists(ordinary, min_size=3, max_size=3), information=st.lists(st.floats(0, 1e30), min_size=3, max_size=3)
)
def test_in_float32_every_number_is_off_by_at_most_its_last_binary_digit(
    shift: list[float], information: list[float]
) -> None:
    codec = codec_for("diagonal")
    sent = Evidence(np.array(information) + 2.0**-100, np.array(shift))
    received = codec.decode(codec.encode(message_of(sent), "float32")).parts[0].evidence
    assert (np.abs(received.shift - sent.shift) <= 2.0**-24 * np.abs(sent.shift)).all()
    assert (np.abs(received.information - sent.information) <= 2.0**-24 * np.abs(sent.information)).all()


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_float32_halves_the_numbers(family: str) -> None:
    codec = codec_for(family, 50)
    message = message_of(evidence_for(codec, family))
    saved = len(codec.encode(message)) - len(codec.encode(message, "float32"))
    assert saved == pytest.approx(4 * codec.numbers, abs=8)  # lengths below 2^16 take fewer bytes to write down


@pytest.mark.parametrize("number", [3.5e38, -3.5e38, 1e300])
def test_a_number_too_large_for_float32_is_not_sent_as_infinity(number: float) -> None:
    codec = codec_for("diagonal")
    message = message_of(Evidence(np.zeros(3), np.array([0.0, number, 0.0])))
    with pytest.raises(WireError, match="ask for float64") as caught:
        codec.encode(message, "float32")
    assert caught.value.reason == "precision"
    assert codec.decode(codec.encode(message)).parts[0].evidence.shift[1] == number


@given(
    family=st.sampled_from(FAMILY_NAMES),
    dimension=st.integers(1, 30),
    # Four bytes is the longest that UTF-8 makes of a character; 64 characters is the longest name.
    name=st.text(st.characters(min_codepoint=0x1F300, max_codepoint=0x1F5FF), min_size=64, max_size=64),
    number=st.integers(0, 2**63 - 1),
    precision=st.sampled_from(["float64", "float32"]),
)
@settings(max_examples=50)
def test_no_message_is_longer_than_the_size_limit(
    family: str, dimension: int, name: str, number: int, precision: Precision
) -> None:
    codec = codec_for(family, dimension)
    header = Header(name, number, MODEL, number, number)
    data = codec.encode(message_of(evidence_for(codec, family), header), precision)
    assert len(data) <= codec.size_limit
    assert codec.decode(data).header == header


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_size_limit_leaves_a_stranger_little_room(family: str) -> None:
    codec = codec_for(family, 100)
    longest = len(codec.encode(message_of(evidence_for(codec, family))))
    assert longest <= codec.size_limit <= longest + 4096 * MOST_PARTS


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_message_beyond_the_size_limit_is_refused_unread(family: str) -> None:
    limit = codec_for(family).size_limit
    assert refusal(family, bytes(limit + 1)) == "oversized"
    assert refusal(family, bytes(limit)) == "malformed"


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_message_cut_anywhere_is_refused(family: str) -> None:
    whole = small_message(family)
    codec_for(family).decode(whole)
    assert {refusal(family, whole[:length]) for length in range(len(whole))} == {"malformed"}


@pytest.mark.parametrize("tail", [b"\x00", b"\xc0", b"junk"])
def test_bytes_after_the_message_are_refused(tail: bytes) -> None:
    assert refusal("diagonal", small_message("diagonal") + tail) == "malformed"


NAN, INFINITY = float("nan"), float("inf")
INFORMATION, SHIFT = ("parts", 0, "information"), ("parts", 0, "shift")


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("version",), 2, "version"),
        (("version",), 0, "version"),
        (("version",), "1", "malformed"),
        (("model_id",), "another", "wrong-model"),
        (("model_id",), MODEL.upper(), "wrong-model"),
        (("model_id",), "", "wrong-model"),
        (("epoch",), -1, "malformed"),
        (("round",), -1, "malformed"),
        (("incarnation",), -1, "malformed"),
        (("epoch",), 2**63, "malformed"),
        (("round",), 2**64 - 1, "malformed"),
        (("incarnation",), 2**63, "malformed"),
        (("round",), 1.0, "malformed"),
        (("round",), None, "malformed"),
        (("agent",), 7, "malformed"),
        (("hello",), 1, "malformed"),
        (("parts", 0, "weight"), 1.0, "malformed"),
        ((*INFORMATION, "order"), "F", "malformed"),
        (("parts",), [], "malformed"),
        (("parts",), {}, "malformed"),
        (("parts", 0, "block"), 1, "malformed"),
        (("parts", 0, "block"), -1, "malformed"),
        (("parts", 0, "sequence"), -1, "malformed"),
        (("parts", 0, "sequence"), "0", "malformed"),
        ((*INFORMATION, "dtype"), "<f4", "dtype"),  # not as the shift's
        (INFORMATION, array([1, 1, 1], "<i8"), "dtype"),
        (INFORMATION, array([1, 1, 1], ">f8"), "dtype"),
        ((*INFORMATION, "dtype"), "O", "dtype"),
        ((*SHIFT, "dtype"), "x" * 1000, "dtype"),
        (SHIFT, array([1, 1, 1], "<f4"), "dtype"),
        (INFORMATION, array([1.0, 1.0]), "shape"),
        (INFORMATION, array([1.0, 1.0, 1.0, 1.0]), "shape"),
        (INFORMATION, array(np.ones((1, 3))), "shape"),
        (INFORMATION, array([1.0], shape=[]), "shape"),
        (SHIFT, array([1.0]), "shape"),
        (SHIFT, array([], shape=[0]), "shape"),
        ((*SHIFT, "shape"), [2**64 - 1], "shape"),
        ((*SHIFT, "shape"), [-3], "shape"),
        ((*SHIFT, "data"), b"", "size"),
        ((*SHIFT, "data"), bytes(23), "size"),
        ((*SHIFT, "data"), bytes(32), "size"),
        ((*SHIFT, "data"), "text", "malformed"),
        (SHIFT, array([0.0, NAN, 0.0]), "not-finite"),
        (SHIFT, array([0.0, 0.0, -INFINITY]), "not-finite"),
        (INFORMATION, array([1.0, NAN, 1.0]), "not-finite"),
        (INFORMATION, array([INFINITY, 1.0, 1.0]), "not-finite"),
        (INFORMATION, array([1.0, 1.0, -0.2]), "not-positive-definite"),  # exactly the prior's
        (INFORMATION, array([-1e300, 1.0, 1.0]), "not-positive-definite"),
    ],
)
def test_a_diagonal_message_with_one_fault_is_refused_with_its_reason(
    place: tuple[str | int, ...], value: Any, reason: str
) -> None:
    assert refusal("diagonal", rewritten("diagonal", place, value)) == reason


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (INFORMATION, array([1.0, 2.0, 1.0, 0.0, 0.0, 1.0]), "not-positive-definite"),  # eigenvalues 3.2 and -0.8
        (INFORMATION, array([1.0, 0.0, 1.0, 0.0, 0.0, -0.3]), "not-positive-definite"),
        (INFORMATION, array([1.0, 1e300, 1.0, 0.0, 0.0, 1.0]), "not-positive-definite"),
        (INFORMATION, array([1.0, NAN, 1.0, 0.0, 0.0, 1.0]), "not-finite"),
        (INFORMATION, array(np.eye(3)), "shape"),  # the square is twice the triangle
        (INFORMATION, array([1.0, 1.0, 1.0]), "shape"),
    ],
)
def test_a_full_message_with_one_fault_is_refused_with_its_reason(
    place: tuple[str | int, ...], value: Any, reason: str
) -> None:
    assert refusal("full", rewritten("full", place, value)) == reason


def test_evidence_against_the_prior_is_a_belief_as_long_as_their_sum_is_positive() -> None:
    codec = codec_for("diagonal")
    read = codec.decode(rewritten("diagonal", INFORMATION, array([-0.1, 0.0, -0.19])))
    assert (codec.prior.plus(read.parts[0].evidence).information > 0).all()


def test_more_parts_than_one_are_refused() -> None:
    codec = codec_for("diagonal")
    message = message_of(evidence_for(codec, "diagonal"))
    data = codec.encode(replace(message, parts=message.parts * (MOST_PARTS + 1)))
    assert refusal("diagonal", data) == "malformed"


@pytest.mark.parametrize("missing", ["version", "agent", "incarnation", "model_id", "epoch", "round", "parts"])
def test_a_message_without_one_of_its_fields_is_refused(missing: str) -> None:
    document = msgspec.msgpack.decode(small_message("diagonal"))
    del document[missing]
    assert refusal("diagonal", msgspec.msgpack.encode(document)) == "malformed"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc0",
        b"{}",
        b"\xdf\xff\xff\xff\xff",  # a map of four thousand million entries
        b"\xdd\xff\xff\xff\xff",  # a list of them
        b"\xc6\xff\xff\xff\xff",  # four thousand million bytes
        b"\x91" * 4000,  # lists in lists
        b"\x81\xa7version" + b"\x91" * 4000,
        b"\x81\xa5agent\xa2\xff\xfe",  # not UTF-8
        b"\x81\xa5parts\xdd\xff\xff\xff\xff\xc0",
    ],
    ids=short,
)
def test_what_is_no_message_at_all_is_malformed_at_once(data: bytes) -> None:
    assert refusal("diagonal", data) == "malformed"


def check_harmless(family: str, data: bytes) -> None:
    codec = codec_for(family)
    try:
        message = codec.decode(data)
    except WireError:
        return
    assert message.header.model_id == MODEL
    for part in message.parts:
        belief = codec.prior.plus(part.evidence)
        matrix = np.diag(belief.information) if family == "diagonal" else belief.information
        assert np.isfinite(matrix).all()
        assert np.isfinite(belief.shift).all()
        assert (np.linalg.cholesky(matrix).diagonal() > 0).all()


@given(family=st.sampled_from(FAMILY_NAMES), data=st.binary(max_size=300))
def test_random_bytes_are_refused_and_nothing_worse(family: str, data: bytes) -> None:
    check_harmless(family, data)


@given(
    family=st.sampled_from(FAMILY_NAMES),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 40) | st.just(0),
    inserted=st.binary(max_size=3),
)
@settings(max_examples=400)
def test_a_message_with_bytes_changed_is_refused_or_still_a_belief(
    family: str, changes: list[tuple[int, int]], cut: int, inserted: bytes
) -> None:
    data = bytearray(small_message(family))
    for position, byte in changes:
        data[position % len(data)] = byte
    position = changes[0][0] % len(data)
    data[position : position + cut] = inserted
    check_harmless(family, bytes(data))


@given(
    numbers=st.lists(st.floats(width=64), min_size=6, max_size=6),
    shift=st.lists(st.floats(width=64), min_size=3, max_size=3),
)
@settings(max_examples=300)
def test_whatever_the_numbers_are_the_matrix_that_is_let_in_is_positive_definite(
    numbers: list[float], shift: list[float]
) -> None:
    document = msgspec.msgpack.decode(small_message("full"))
    document["parts"][0] |= {"information": array(numbers), "shift": array(shift)}
    check_harmless("full", msgspec.msgpack.encode(document))


def test_the_prior_itself_is_no_evidence() -> None:
    for family in FAMILY_NAMES:
        codec = codec_for(family)
        assert not codec.nothing.information.any()
        assert not codec.nothing.shift.any()


@pytest.mark.parametrize(
    ("body", "slug"),
    [
        (msgspec.json.encode({"type": problem_type("round-gone"), "title": "x", "status": 410}), "round-gone"),
        (b'{"type": "about:blank"}', None),
        (b'{"type": 3}', None),
        (b"<html>", None),
        (b"", None),
        (b"\xff\xfe", None),
        (b'{"more": ' + b"[" * 100_000 + b"]" * 100_000 + b', "type": "urn:delbo:problem:a"}', None),
    ],
    ids=short,
)
def test_a_problem_is_told_by_its_type_and_a_strange_body_is_none_of_ours(body: bytes, slug: str | None) -> None:
    assert problem_slug(body) == slug


def test_float32_is_sent_only_where_it_still_is_a_belief() -> None:
    """An eigenvalue of 1 beside one of 1e12 is lost when entries of 1e12 are rounded to 2^-24 of themselves."""
    codec = ParameterCodec("model", FullGaussian.prior(3, 1.0))
    direction = np.array([1.0, 1.1, 1.2])
    header = Header("a", 1, "model", 1, 1)
    for scale, is_kept in ((1.0, False), (1e12, True)):
        evidence = Evidence(scale * np.outer(direction, direction), np.ones(3))
        exact = codec.encode(ParameterMessage(header, (Part("a", 1, 0, evidence),)))
        rounded = codec.rounded(exact)
        assert (rounded == exact) == is_kept
        codec.decode(rounded)
