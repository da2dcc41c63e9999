"""Observations come in four spellings, mean the same in each, and are checked the same in each."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import DataError, DelboError, DimensionError, NotFiniteError, TargetError, WireError
from service.inference.likelihoods import Gaussian, Poisson, Probit, VectorGaussian
from service.wire.observations import ObservationReader, Observations, to_msgpack

CLASSES = ObservationReader(2, Probit())
NUMBERS = ObservationReader(2, Gaussian(4.0))
VECTORS = ObservationReader(1, VectorGaussian([[2.0, 0.5], [0.5, 1.0]]))
NAN, INFINITY = float("nan"), float("inf")
END = b'{"end": true}'

number = st.floats(allow_nan=False, allow_infinity=False)
row = st.tuples(st.lists(number, min_size=2, max_size=2), number)
vector_row = st.tuples(st.lists(number, min_size=1, max_size=1), st.lists(number, min_size=2, max_size=2))


def same(one: Observations, other: Observations) -> bool:
    return (
        one.x.shape == other.x.shape
        and one.y.shape == other.y.shape
        and one.x.tobytes() == other.x.tobytes()
        and one.y.tobytes() == other.y.tobytes()
        and one.end == other.end
    )


def line(x: Any, y: Any) -> bytes:
    return json.dumps({"x": x, "y": y}).encode()


def columns(rows: list[Any], end: bool = False) -> bytes:
    return json.dumps({"x": [x for x, _ in rows], "y": [y for _, y in rows], "end": end}).encode()


def raw(values: Any, dtype: str = "<f8", **other: Any) -> dict[str, Any]:
    array = np.asarray(values)
    return {"dtype": dtype, "shape": list(array.shape), "data": array.astype(dtype).tobytes()} | other


def packed(**fields: Any) -> bytes:
    return msgspec.msgpack.encode(fields)


@given(rows=st.lists(row, min_size=1, max_size=9), end=st.booleans())
def test_the_four_spellings_give_the_same_observations_and_digest(rows: list[Any], end: bool) -> None:
    x, y = np.array([x for x, _ in rows]), np.array([y for _, y in rows])
    from_columns = NUMBERS.from_json(columns(rows, end))
    from_lines, fault = NUMBERS.from_lines([line(*one) for one in rows] + [END] * end)
    assert fault is None
    from_arrays = NUMBERS.from_msgpack(packed(x=raw(x), y=raw(y), end=end))
    again = NUMBERS.from_msgpack(to_msgpack(from_columns))
    for read in (from_columns, from_lines, from_arrays, again):
        assert same(read, Observations(x, y, end))
        assert read.digest == from_columns.digest
    if len(rows) == 1:
        alone = NUMBERS.from_json(json.dumps({"x": rows[0][0], "y": rows[0][1], "end": end}).encode())
        assert same(alone, from_columns)


@given(rows=st.lists(vector_row, min_size=1, max_size=9))
def test_vector_targets_have_a_row_each_in_every_spelling(rows: list[Any]) -> None:
    x, y = np.array([x for x, _ in rows]), np.array([y for _, y in rows])
    from_lines, fault = VECTORS.from_lines([line(*one) for one in rows])
    assert fault is None
    read = [VECTORS.from_json(columns(rows)), VECTORS.from_msgpack(packed(x=raw(x), y=raw(y))), from_lines]
    if len(rows) == 1:
        read.append(VECTORS.from_json(line(*rows[0])))
    for one in read:
        assert same(one, Observations(x, y))
        assert one.digest == read[0].digest


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i8", "<i4", "|u1"])
def test_arrays_of_every_known_type_become_the_same_numbers(dtype: str) -> None:
    read = CLASSES.from_msgpack(packed(x=raw([[1, 2], [3, 4]], dtype), y=raw([0, 1], "|u1")))
    assert same(read, CLASSES.from_json(b'{"x": [[1, 2], [3, 4]], "y": [0, 1]}'))


def test_white_space_does_not_matter() -> None:
    assert same(
        CLASSES.from_json(b' {\n"y" : [ 1 ] ,\t"x":\r\n [ \n [ 1 ,2 ] ] } '), CLASSES.from_json(b'{"x":[1,2],"y":1}')
    )


def test_different_observations_have_different_digests() -> None:
    x, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])
    flat = Observations(np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([5.0, 6.0]))
    different = [
        Observations(x, y),
        Observations(x, y, end=True),
        Observations(x, y[::-1].copy()),
        Observations(x[::-1].copy(), y),
        Observations(x.T.copy(), y),
        Observations(x[:1], y[:1]),
        Observations(x[:0], y[:0], end=True),
        Observations(np.nextafter(x, 9.0), y),
        flat,
    ]
    assert len({observations.digest for observations in different}) == len(different)


@given(rows=st.lists(row, min_size=1, max_size=6), end=st.booleans(), first=st.integers(0, 6))
def test_a_line_has_the_digest_that_it_would_have_alone(rows: list[Any], end: bool, first: int) -> None:
    observations = NUMBERS.from_json(columns(rows, end))
    alone = [NUMBERS.from_json(line(*one)).digest for one in rows]
    if end:
        alone.append(NUMBERS.from_json(END).digest)
    first = min(first, len(rows))
    assert observations.line_digests(first) == alone[first:]


@pytest.mark.parametrize(
    "body", [END, b'{"x": [], "y": [], "end": true}', b'{"end": true, "x": [ ], "y": [ ]}'], ids=str
)
def test_the_end_may_come_alone(body: bytes) -> None:
    for reader, shapes in ((CLASSES, ((0, 2), (0,))), (VECTORS, ((0, 1), (0, 2)))):
        read = reader.from_json(body)
        assert read.end
        assert (read.x.shape, read.y.shape) == shapes
        assert same(read, reader.from_msgpack(packed(end=True)))
        assert same(read, reader.from_msgpack(to_msgpack(read)))
        assert read.digest == reader.from_msgpack(to_msgpack(read)).digest


def short(value: Any) -> str:
    """The name of a case, however long its body."""
    return getattr(value, "__name__", repr(value)[:40])


def check_fault(read: Any, body: bytes, error: type[DelboError], words: str) -> None:
    with pytest.raises(error) as caught:
        read(body)
    assert type(caught.value) is error
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (b"", WireError, "not json"),
        (b"{", WireError, "not json"),
        (b'{"x": [1, 2], "y": 1} {}', WireError, "not json"),
        (b'{"x": [1, NaN], "y": 1}', WireError, "not json"),
        (b'{"x": [1, 2] "y": 1}', WireError, "not json"),
        (b'{"\xff": 1}', WireError, "not json"),
        (b"\x82\xa1x\x01", WireError, "not json"),
        (b"null", DataError, "null"),
        (b"[]", DataError, "array"),
        (b"3", DataError, "int"),
        (b"{}", DataError, "both x and y"),
        (b'{"end": false}', DataError, "both x and y"),
        (b'{"x": [1, 2]}', DataError, "both x and y"),
        (b'{"y": 1}', DataError, "both x and y"),
        (b'{"x": [1, 2], "end": true}', DataError, "both x and y"),
        (b'{"x": [], "y": []}', DataError, "both x and y"),
        (b'{"x": [1, 2], "y": 1, "z": 3}', DataError, "z"),
        (b'{"x": [1, 2], "y": 1, "end": 1}', DataError, "bool"),
        (b'{"x": null, "y": null}', DataError, "null"),
        (b'{"x": [1, 2], "y": null}', DataError, "null"),
        (b'{"x": [1, 2], "y": [1]}', DataError, "array"),
        (b'{"x": [[1, 2]], "y": 1}', DataError, "int"),
        (b'{"x": [], "y": 1}', DataError, "int"),
        (b'{"x": 1, "y": 1}', DataError, "int"),
        (b'{"x": "[]", "y": 1}', DataError, "str"),
        (b'{"x": {"[": 1}, "y": 1}', DataError, "object"),
        (b'{"x": ["1", "2"], "y": 1}', DataError, "str"),
        (b'{"x": [true, 2], "y": 1}', DataError, "bool"),
        (b'{"x": [[1, 2], 3], "y": [1, 1]}', DataError, "int"),
        (b'{"x": [[1, 2], [3]], "y": [1, 1]}', DataError, "all rows of one length"),
        (b'{"x": [[1, 2], [3, 4]], "y": [1]}', DataError, "2 points and 1 targets"),
        (b'{"x": [[1, 2]], "y": []}', DataError, "1 points and 0 targets"),
        (b'{"x": [1e999, 2], "y": 1}', DataError, "out of range"),
        (b'{"x": [1, 2], "y": 1' + b"0" * 400 + b"}", DataError, "out of range"),
        (b'{"x": ' + DEEP + b', "y": 1}', DataError, "lists in lists"),
        (b'{"x": [1, 2], "y": ' + DEEP + b"}", DataError, "lists in lists"),
        (b'{"x": [1, 2, 3], "y": 1}', DimensionError, "3 column(s)"),
        (b'{"x": [[1], [2]], "y": [1, 1]}', DimensionError, "1 column(s)"),
        (b'{"x": [[], []], "y": [1, 1]}', DimensionError, "0 column(s)"),
        (b'{"x": [1, 2], "y": 0.5}', TargetError, "y[0] is 0.5"),
        (b'{"x": [[1, 2], [1, 2]], "y": [1, -1]}', TargetError, "y[1] is -1"),
    ],
    ids=short,
)
def test_a_fault_in_json_has_its_class_and_one_sentence(body: bytes, error: type[DelboError], words: str) -> None:
    check_fault(CLASSES.from_json, body, error, words)


X, Y = raw([[1.0, 2.0]]), raw([1.0])


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (b"", WireError, "not msgpack"),
        (b"\x81\xa1x", WireError, "not msgpack"),
        (packed(x=X, y=Y) + b"\x00", WireError, "not msgpack"),
        (b"\x81\xa1\xff\x01", WireError, "not msgpack"),
        (b"\x91" * 100_000, DataError, "array"),
        (b"\x81\xa1x" + b"\x91" * 100_000, DataError, "array"),
        (b"\x81\xa1x\x81\xa5shape\xdd\xff\xff\xff\xff", WireError, "not msgpack"),
        (b'{"x": [1, 2], "y": 1}', DataError, "int"),  # JSON begins with what is the number 123 in msgpack
        (packed(), DataError, "both x and y"),
        (packed(x=X), DataError, "both x and y"),
        (packed(y=Y, end=True), DataError, "both x and y"),
        (packed(x=X, y=Y, z=1), DataError, "z"),
        (packed(x=[[1.0, 2.0]], y=[1.0]), DataError, "array"),
        (packed(x=raw([[1.0, 2.0]], order="F"), y=Y), DataError, "order"),
        (packed(x=raw([[1.0, 2.0]], shape=None), y=Y), DataError, "at `$.x.shape`"),
        (packed(x=X | {"dtype": ">f8"}, y=Y), DataError, "'>f8'"),
        (packed(x=X | {"dtype": "O"}, y=Y), DataError, "'O'"),
        (packed(x=X | {"dtype": "z" * 5000}, y=Y), DataError, "type"),
        (packed(x=X | {"shape": [2, 2]}, y=Y), DataError, "16 bytes"),
        (packed(x=X | {"shape": [2**32, 2**32]}, y=Y), DataError, "16 bytes"),
        (packed(x=X | {"shape": [-1, -2]}, y=Y), DataError, "dimensions"),
        (packed(x=X | {"shape": [1, 1, 2]}, y=Y), DataError, "dimensions"),
        (packed(x=X | {"shape": [1] * 5000}, y=Y), DataError, "dimensions"),
        (packed(x=raw([], shape=[0, 2**64 - 1]), y=raw([])), DataError, "too long"),
        (packed(x=raw([], shape=[2**62, 0]), y=raw([])), DataError, "too long"),
        (packed(x=raw([], shape=[0, 2**41]), y=raw([])), DataError, "too long"),
        (packed(x=raw(np.empty((0, 2))), y=raw([])), DataError, "no observation"),
        (packed(x=raw([1.0, 2.0]), y=Y), DataError, "2 dimension(s)"),
        (packed(x=raw(1.0), y=Y), DataError, "2 dimension(s)"),
        (packed(x=X, y=raw([[1.0]])), DataError, "1 dimension(s)"),
        (packed(x=X, y=raw([1.0, 0.0])), DataError, "1 points and 2 targets"),
        (packed(x=raw([[1.0, 2.0, 3.0]]), y=Y), DimensionError, "3 column(s)"),
        (packed(x=raw(np.empty((0, 3))), y=raw([]), end=True), DimensionError, "3 column(s)"),
        (packed(x=raw([[1.0, NAN]]), y=Y), NotFiniteError, "x[0, 1] is nan"),
        (packed(x=raw([[-INFINITY, 1.0]]), y=Y), NotFiniteError, "x[0, 0] is -inf"),
        (packed(x=raw([[INFINITY, 1.0]], "<f4"), y=Y), NotFiniteError, "x[0, 0] is inf"),
        (packed(x=X, y=raw([NAN])), NotFiniteError, "y[0] is nan"),
        (packed(x=X, y=raw([2.0])), TargetError, "y[0] is 2"),
    ],
    ids=short,
)
def test_a_fault_in_msgpack_has_its_class_and_one_sentence(body: bytes, error: type[DelboError], words: str) -> None:
    check_fault(CLASSES.from_msgpack, body, error, words)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"x": [0.5], "y": [1, 2, 3]}', DimensionError),
        (b'{"x": [0.5], "y": 1}', DataError),
        (b'{"x": [[0.5], [1]], "y": [[1, 2], [3]]}', DataError),
        (b'{"x": [[0.5], [1]], "y": [[1, 2]]}', DataError),
        (b'{"x": [[0.5]], "y": [1, 2]}', DataError),
    ],
    ids=short,
)
def test_a_fault_in_vector_targets_has_its_class(body: bytes, error: type[DelboError]) -> None:
    check_fault(VECTORS.from_json, body, error, "")


def test_every_likelihood_says_itself_what_it_takes() -> None:
    counts = ObservationReader(1, Poisson())
    assert counts.from_json(b'{"x": [0], "y": 7}').y.tolist() == [7]
    check_fault(counts.from_json, b'{"x": [0], "y": -1}', TargetError, "y[0] is -1")
    check_fault(counts.from_json, b'{"x": [0], "y": 1.5}', TargetError, "y[0] is 1.5")


BAD_LINES: list[tuple[bytes, type[DelboError], str]] = [
    (b"{", WireError, "not json"),
    (b"", WireError, "not json"),
    (b'{"\xff": 1}', WireError, "not json"),
    (b"7", DataError, "int"),
    (b'{"x": [1, 2]}', DataError, "both x and y"),
    (b'{"end": false}', DataError, "both x and y"),
    (b'{"x": [1, 2], "y": 1, "z": 1}', DataError, "z"),
    (b'{"x": [1, 2], "y": [1]}', DataError, "1 dimension(s)"),
    (b'{"x": ' + DEEP + b', "y": 1}', DataError, "array"),
    (b'{"x": [1, 2, 3], "y": 1}', DimensionError, "3 column(s)"),
    (b'{"x": [1, 2], "y": 7}', TargetError, "y[0] is 7"),
    (b'{"x": [1, 2], "y": 1, "end": true}', DataError, "and nothing else"),
    (b'{"y": 1, "end": true}', DataError, "and nothing else"),
]


@given(
    before=st.lists(st.integers(0, 1), max_size=20),
    bad=st.sampled_from(range(len(BAD_LINES))),
    after=st.lists(st.integers(0, len(BAD_LINES)), max_size=20),
)
@settings(max_examples=300)
def test_of_lines_everything_before_the_first_fault_is_read_and_that_fault_is_told(
    before: list[int], bad: int, after: list[int]
) -> None:
    wrong, error, words = BAD_LINES[bad]
    rest = [END if number == len(BAD_LINES) else BAD_LINES[number][0] for number in after]
    read, fault = CLASSES.from_lines([line([place, 0], y) for place, y in enumerate(before)] + [wrong] + rest)
    assert read.x[:, 0].tolist() == list(range(len(before)))
    assert read.x.shape == (len(before), 2)
    assert read.y.tolist() == before
    assert not read.end
    assert type(fault) is error
    assert words in str(fault)


@given(before=st.integers(0, 12), after=st.lists(st.integers(0, len(BAD_LINES)), min_size=1, max_size=9))
def test_whatever_comes_after_the_end_is_the_fault_and_the_end_stands(before: int, after: list[int]) -> None:
    good = [line([0, 0], 1)] * before
    rest = [good[0] if good and number == len(BAD_LINES) else BAD_LINES[number % len(BAD_LINES)][0] for number in after]
    read, fault = CLASSES.from_lines([*good, END, *rest])
    assert (len(read), read.end) == (before, True)
    assert type(fault) is DataError
    assert "after the line that ends" in str(fault)


def test_two_ends_are_one_too_many() -> None:
    read, fault = CLASSES.from_lines([END, END])
    assert (len(read), read.end) == (0, True)
    assert isinstance(fault, DataError)


def test_no_lines_are_no_observations() -> None:
    read, fault = CLASSES.from_lines([])
    assert (len(read), read.end, fault) == (0, False, None)


def test_of_vector_lines_those_before_the_fault_keep_their_shape() -> None:
    good = line([0.5], [1, 2])
    for number in range(5):
        read, fault = VECTORS.from_lines([good] * number + [line([0.5], 1)] + [good] * 3)
        assert (read.x.shape, read.y.shape) == ((number, 1), (number, 2))
        assert isinstance(fault, DataError)


@given(body=st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_our_own_errors(body: bytes) -> None:
    for read in (CLASSES.from_json, CLASSES.from_msgpack):
        try:
            read(body)
        except (DataError, WireError):
            continue
    observations, fault = CLASSES.from_lines([body])
    assert isinstance(fault, DataError | WireError) or observations.end


GOOD_PACKED = packed(x=raw([[1.0, 2.0], [3.0, 4.0]]), y=raw([1.0, 0.0]), end=False)
GOOD_JSON = b'{"x": [[1.5, 2], [3, 4e1]], "y": [1, 0], "end": false}'


@given(position=st.integers(0, 200), cut=st.integers(0, 3), inserted=st.binary(max_size=3))
@settings(max_examples=400)
def test_a_body_with_bytes_changed_is_refused_or_still_checked(position: int, cut: int, inserted: bytes) -> None:
    for read, good in ((CLASSES.from_msgpack, GOOD_PACKED), (CLASSES.from_json, GOOD_JSON)):
        start = position % len(good)
        try:
            observations = read(good[:start] + inserted + good[start + cut :])
        except (DataError, WireError):
            continue
        assert np.isfinite(observations.x).all()
        assert observations.x.shape == (len(observations), 2)
        assert set(observations.y.tolist()) <= {0.0, 1.0}
