"""The verification document: what is read, in both languages, and what is refused, and why."""

from typing import Any

import msgspec
import numpy as np
import pytest

from service.api.problems import problem_of
from service.errors import DelboError
from service.inference.likelihood import Likelihood
from service.inference.likelihoods import Gaussian, Poisson, Probit, VectorGaussian
from service.wire.arrays import to_wire
from service.wire.observations import ObservationReader
from service.wire.points import MOST_POINTS
from service.wire.verification import VerificationDocument

READER = ObservationReader(2, Probit())
X, Y = np.array([[0.1, 2.0], [0.3, 1.9], [1 / 3, -0.0]]), np.array([1.0, 0.0, 1.0])


def wire(array: Any) -> dict[str, Any]:
    """A msgpack array as plain values."""
    packed = to_wire(np.asarray(array, float))
    return {"dtype": packed.dtype, "shape": list(packed.shape), "data": bytes(packed.data)}


def as_json(**fields: Any) -> bytes:
    return msgspec.json.encode({"revision": 1, "every_rounds": 10, "x": X.tolist(), "y": Y.tolist()} | fields)


def as_msgpack(**fields: Any) -> bytes:
    return msgspec.msgpack.encode({"revision": 1, "every_rounds": 10, "x": wire(X), "y": wire(Y)} | fields)


def problem(read: Any, body: bytes, reader: ObservationReader = READER) -> str:
    with pytest.raises(DelboError) as refused:
        read(body, reader)
    return problem_of(refused.value).kind.slug


def check_same(document: VerificationDocument, x: Any, y: Any) -> None:
    assert (document.revision, document.every_rounds, len(document)) == (1, 10, len(y))
    assert document.x.dtype == document.y.dtype == np.float64
    assert np.array_equal(document.x, x)
    assert np.array_equal(document.y, y)


def test_both_languages_say_the_same_to_the_last_bit() -> None:
    from_json = VerificationDocument.from_json(as_json(), READER)
    from_msgpack = VerificationDocument.from_msgpack(as_msgpack(), READER)
    check_same(from_json, X, Y)
    check_same(from_msgpack, X, Y)
    assert from_json == from_msgpack
    assert VerificationDocument.from_json(from_json.to_json(), READER) == from_json
    assert VerificationDocument.from_msgpack(from_json.to_msgpack(), READER) == from_json


def test_one_point_needs_no_lists_around_it() -> None:
    check_same(VerificationDocument.from_json(as_json(x=[0.5, 1.0], y=1), READER), [[0.5, 1.0]], [1.0])


@pytest.mark.parametrize(
    ("likelihood", "shape"), [(Probit(), (0,)), (Gaussian(2.0), (0,)), (VectorGaussian(np.eye(3)), (0, 3))]
)
def test_no_points_are_read_in_the_shapes_of_the_model(likelihood: Likelihood, shape: tuple[int, ...]) -> None:
    reader = ObservationReader(2, likelihood)
    for document in (
        VerificationDocument.from_json(as_json(x=[], y=[]), reader),
        VerificationDocument.from_msgpack(as_msgpack(x=wire(np.empty((0, 2))), y=wire(np.empty(shape))), reader),
    ):
        assert (document.x.shape, document.y.shape, len(document)) == ((0, 2), shape, 0)
        assert VerificationDocument.from_json(document.to_json(), reader) == document


def test_vectors_of_targets_are_rows() -> None:
    reader = ObservationReader(2, VectorGaussian(np.eye(2)))
    document = VerificationDocument.from_json(as_json(y=[[1, 2], [3, 4], [5, 6]]), reader)
    check_same(document, X, [[1, 2], [3, 4], [5, 6]])
    assert problem(VerificationDocument.from_json, as_json(y=[[1], [3], [5]]), reader) == "wrong-dimension"


def test_documents_are_equal_if_all_of_them_is() -> None:
    document = VerificationDocument.from_json(as_json(), READER)
    for changes in ({"revision": 2}, {"every_rounds": 9}, {"x": (X + 1e-15).tolist()}, {"y": [1, 0, 0]}):
        assert VerificationDocument.from_json(as_json(**changes), READER) != document
    assert document != "another thing"
    assert document.number == 1


TOO_MANY = np.zeros((MOST_POINTS + 1, 2))

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("wrong-dimension", {"x": [[0.1], [0.2], [0.3]]}),
    ("wrong-dimension", {"x": [[0.1, 0.2, 0.3]] * 3}),
    ("invalid-target", {"y": [1, 0, 0.5]}),
    ("invalid-target", {"y": [1, 0, -1]}),
    ("invalid-verification", {"y": [1, 0]}),
    ("invalid-verification", {"x": [], "y": [1, 0]}),
    ("invalid-verification", {"y": []}),
    ("invalid-verification", {"revision": 0}),
    ("invalid-verification", {"revision": 1.5}),
    ("invalid-verification", {"every_rounds": 0}),
    ("invalid-verification", {"every_rounds": -1}),
    ("invalid-verification", {"every_rounds": 10**9 + 1}),
    ("invalid-verification", {"every_rounds": None}),
    ("invalid-verification", {"forgetting": 1.0}),
    ("invalid-verification", {"x": None}),
    ("too-many-points", {"x": TOO_MANY.tolist(), "y": TOO_MANY[:, 0].tolist()}),
]


@pytest.mark.parametrize(("slug", "changes"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_wrong_is_refused_with_its_problem(slug: str, changes: dict[str, Any]) -> None:
    assert problem(VerificationDocument.from_json, as_json(**changes)) == slug
    arrays = {name: wire(value) if name in "xy" and value else value for name, value in changes.items()}
    if changes.get("x") != []:  # in msgpack no rows have a shape, and this would be another fault
        arrays |= {name: wire(np.empty(0)) for name in "xy" if changes.get(name) == []}
        assert problem(VerificationDocument.from_msgpack, as_msgpack(**arrays)) == slug


@pytest.mark.parametrize("missing", ["revision", "every_rounds", "x", "y"])
def test_every_field_is_needed(missing: str) -> None:
    for read, encode, body in (
        (VerificationDocument.from_json, msgspec.json.encode, msgspec.json.decode(as_json())),
        (VerificationDocument.from_msgpack, msgspec.msgpack.encode, msgspec.msgpack.decode(as_msgpack())),
    ):
        del body[missing]
        assert problem(read, encode(body)) == "invalid-verification"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_is_refused(value: float) -> None:
    assert problem(VerificationDocument.from_msgpack, as_msgpack(x=wire(np.full((3, 2), value)))) == "not-finite"
    assert problem(VerificationDocument.from_msgpack, as_msgpack(y=wire(np.full(3, value)))) == "not-finite"


@pytest.mark.parametrize(
    "changes",
    [
        {"y": wire(1.0)},
        {"x": wire(1.0), "y": wire(np.empty(0))},
        {"x": wire(1.0), "y": wire(1.0)},
        {"x": wire(np.zeros(3))},
        {"x": wire(np.zeros((3, 2))) | {"shape": [3, 2, 1]}},
        {"x": wire(np.zeros((3, 2))) | {"dtype": "<c16"}},
        {"x": wire(np.zeros((3, 2))) | {"shape": [2**40, 2**40]}},
        {"x": X.tolist()},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_an_array_of_another_kind_is_refused(changes: dict[str, Any]) -> None:
    assert problem(VerificationDocument.from_msgpack, as_msgpack(**changes)) == "invalid-verification"


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"revision": 1, "every_rounds": 1, "x": [[NaN, 1]], "y": [1]}'])
def test_what_is_not_json_is_told_so(body: bytes) -> None:
    assert problem(VerificationDocument.from_json, body) == "invalid-json"


@pytest.mark.parametrize("body", [b"", b"\xc1", as_msgpack()[:-1]])
def test_what_is_not_msgpack_is_told_so(body: bytes) -> None:
    assert problem(VerificationDocument.from_msgpack, body) == "invalid-msgpack"


def test_rows_of_different_lengths_are_refused() -> None:
    body = as_json(x=[[0.1, 1], [0.2], [0.3, 1]])
    assert problem(VerificationDocument.from_json, body) == "invalid-verification"


def test_lists_in_lists_without_end_are_refused() -> None:
    body = as_json().replace(b'"y":', b'"y":' + b"[" * 100_000 + b"1" + b"]" * 100_000 + b',"z":')
    assert problem(VerificationDocument.from_json, body) in ("invalid-verification", "invalid-json")


def test_targets_are_those_of_the_agents_own_likelihood() -> None:
    counts = ObservationReader(2, Poisson())
    assert problem(VerificationDocument.from_json, as_json(y=[1, 2.5, 3]), counts) == "invalid-target"
    check_same(VerificationDocument.from_json(as_json(y=[1, 2, 3]), counts), X, [1, 2, 3])
