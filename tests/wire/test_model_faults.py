"""A wrong model document gives one sentence: the file, the place as its author wrote it, and the fault."""

from typing import Any

import pytest

from service.errors import ModelError
from service.wire.model import ModelSpec
from tests.wire.test_model import CENTERS, SMALL, changed

NAN = float("nan")


def sentence_about(document: Any) -> str:
    with pytest.raises(ModelError) as caught:
        ModelSpec.parse(document, "robots.yaml")
    sentence = str(caught.value)
    assert sentence.startswith("robots.yaml: ")
    assert "\n" not in sentence
    return sentence.removeprefix("robots.yaml: ")


def without(document: dict[str, Any], place: str) -> dict[str, Any]:
    document = changed(document, place, None)
    *parents, key = place.split(".")
    inner = document
    for parent in parents:
        inner = inner[parent]
    del inner[key]
    return document


def choosing(**choice: Any) -> dict[str, Any]:
    features = {"kind": "centers", "choose": choice, "lengthscale": 0.5}
    return SMALL | {"features": features}


@pytest.mark.parametrize(
    ("document", "place", "fault"),
    [
        (changed(SMALL, "features.kind", "grid"), "features.kind", "'lattice', 'centers'"),
        (changed(SMALL, "likelihood", "probbit"), "likelihood.kind", "'probit'"),
        (changed(SMALL, "family", "fill"), "family", "'diagonal' or 'full'"),
        (changed(SMALL, "diagonal_step", "newton"), "diagonal_step", "'paper' or 'projected'"),
        (without(SMALL, "features.kind"), "features.kind", "missing"),
        (without(SMALL, "features.spacing"), "features.spacing", "missing"),
        (without(SMALL, "features"), "features", "missing"),
        (without(SMALL, "prior.information"), "prior.information", "missing"),
        (changed(SMALL, "likelihood", {"kind": "gaussian"}), "likelihood.precision", "missing"),
        (changed(SMALL, "features.lengthscale", -1), "features.lengthscale", "greater than 0, not -1"),
        (changed(SMALL, "features.spacing", 0), "features.spacing", "greater than 0, not 0"),
        (changed(SMALL, "features.spacing", NAN), "features.spacing", "finite number, not nan"),
        (changed(SMALL, "features.lower", [0, NAN]), "features.lower.1", "finite number, not nan"),
        (changed(SMALL, "features.cutoff", 2), "features.cutoff", "less than 1, not 2"),
        (changed(SMALL, "prior.information", -0.1), "prior.information", "greater than 0, not -0.1"),
        (changed(SMALL, "prior.mean", float("inf")), "prior.mean", "finite number, not inf"),
        (changed(SMALL, "features.color", "red"), "features.color", "not known"),
        (changed(SMALL, "colour", "red"), "colour", "not known"),
        (changed(SMALL, "likelihood", {"kind": "probit", "slope": 1}), "likelihood.slope", "not known"),
        (
            changed(SMALL, "likelihood", {"kind": "student_t", "degrees": 1, "scale": 1}),
            "likelihood.degrees",
            "greater than 2, not 1",
        ),
        (changed(SMALL, "likelihood", {"kind": "gaussian", "precision": -1}), "likelihood.precision", "not -1"),
        (changed(SMALL, "likelihood", {"kind": "gaussian", "precision": "x"}), "likelihood.precision", "not 'x'"),
        (changed(CENTERS, "features.lengthscale", -1), "features.lengthscale", "greater than 0, not -1"),
        (changed(CENTERS, "features.lengthscale", "wide"), "features.lengthscale", "not 'wide'"),
        (changed(CENTERS, "features.centers", [[0, NAN], [1, 1]]), "features.centers.0.1", "finite number, not nan"),
        (changed(CENTERS, "features.centers", [1, 2]), "features.centers.0", "list, not 1"),
        (changed(CENTERS, "features.centers", "abc"), "features.centers", "list, not 'abc'"),
        (choosing(how="random", count=0), "features.choose.count", "greater than 0, not 0"),
        (choosing(how="nearest", count=3), "features.choose.how", "'random'"),
        (choosing(how="lattice", spacing=-1), "features.choose.spacing", "greater than 0, not -1"),
    ],
)
def test_a_fault_is_named_with_its_place(document: Any, place: str, fault: str) -> None:
    sentence = sentence_about(document)
    assert sentence.split(" ")[0].rstrip(":") == place
    assert fault in sentence


@pytest.mark.parametrize("lengthscale", [[0.5, -1.0], [0.5, NAN]])
def test_a_fault_in_a_list_of_lengthscales_is_named_with_its_number(lengthscale: list[float]) -> None:
    sentence = sentence_about(changed(CENTERS, "features.lengthscale", lengthscale))
    assert sentence.startswith("features.lengthscale.1:")
    assert f"not {lengthscale[1]}" in sentence


def test_a_fault_in_the_counts_by_class_is_named_with_its_class() -> None:
    sentence = sentence_about(choosing(how="stratified", count={0: 3, 1: -1}))
    assert sentence.startswith("features.choose.count.1:")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (changed(SMALL, "features.upper", [1, -1]), ["upper", "must not lie below lower"]),
        (changed(SMALL, "features.upper", [1]), ["as many lower as upper bounds", "lower has 2, upper 1"]),
        (changed(SMALL, "features.lower", []), ["lower"]),
        (changed(SMALL, "features.upper", [1e9, 1e9]), ["too large", "wider spacing"]),
        (changed(SMALL, "features.cutoff", 1e-305), ["cutoff"]),
        (changed(CENTERS, "features.centers", []), ["centers"]),
        (changed(CENTERS, "features.centers", [[], []]), ["centers", "at least one"]),
        (changed(CENTERS, "features.centers", [[0, 0], [1]]), ["centers"]),
        (changed(CENTERS, "features.lengthscale", [0.5]), ["lengthscale", "one per centre (2)"]),
        (changed(CENTERS, "features.lengthscale", {0: 0.5, 1: 0.7}), ["lengthscale by class", "stratified"]),
        (changed(CENTERS, "features.choose", {"how": "random", "count": 3}), ["features", "either centers or choose"]),
        (without(CENTERS, "features.centers"), ["features", "either centers or choose"]),
        (choosing(how="random"), ["features.choose", "takes a count"]),
        (choosing(how="random", count={0: 3}), ["features.choose", "a count by class", "stratified"]),
        (choosing(how="stratified", count=3), ["features.choose", "a count by class", "stratified"]),
        (choosing(how="lattice"), ["features.choose", "takes a spacing"]),
        (choosing(how="lattice", spacing=0.5, count=3), ["features.choose", "no count"]),
        (changed(SMALL, "likelihood", {"kind": "gaussian", "precision": [[1, 2], [2, 1]]}), ["positive definite"]),
        (changed(SMALL, "likelihood", {"kind": "gaussian", "precision": [[1, 2], [0, 5]]}), ["symmetric"]),
        (changed(SMALL, "likelihood", {"kind": "gaussian", "precision": []}), ["precision"]),
        (changed(SMALL, "prior", 4), ["prior", "not 4"]),
        (changed(SMALL, "features", None), ["features"]),
        (changed(SMALL, "likelihood", None), ["likelihood"]),
    ],
)
def test_a_document_that_contradicts_itself_says_where_and_why(document: Any, words: list[str]) -> None:
    sentence = sentence_about(document)
    for word in words:
        assert word in sentence


@pytest.mark.parametrize("document", [None, [], "probit", 3, {}])
def test_what_is_no_model_at_all_is_told_what_a_model_is(document: Any) -> None:
    assert "features" in sentence_about(document)


@pytest.mark.parametrize("document", [changed(SMALL, "prior", 3), changed(SMALL, "features", None)])
def test_a_sentence_speaks_of_the_document_and_not_of_python(document: Any) -> None:
    sentence = sentence_about(document)
    for word in ("Spec", "dictionary", "instance", "object", "constrained"):
        assert word not in sentence


def test_a_sentence_stays_short_however_long_the_wrong_value() -> None:
    assert len(sentence_about(changed(SMALL, "prior", [0.5] * 5000))) < 500
