"""The model document: what it builds, and what its identity depends on."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import ModelError
from service.inference.belief import DiagonalGaussian, FullGaussian
from service.inference.features import CenterFeatures, LatticeFeatures
from service.inference.likelihoods import Gaussian, Logistic, Poisson, Probit, StudentT, VectorGaussian
from service.wire.model import ModelSpec

SMALL: dict[str, Any] = {
    "features": {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.5, "lower": [0, 0], "upper": [1, 1]},
    "family": "diagonal",
    "prior": {"mean": 0.0, "information": 0.2},
    "likelihood": {"kind": "probit"},
}
CENTERS: dict[str, Any] = SMALL | {
    "features": {"kind": "centers", "centers": [[0.0, 0.5], [1.0, 2.0]], "lengthscale": [0.5, 0.7]}
}


def changed(document: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """The document with another value at a dotted place."""
    document = copy.deepcopy(document)
    *parents, key = place.split(".")
    inner = document
    for parent in parents:
        inner = inner[parent]
    inner[key] = value
    return document


def identity(document: dict[str, Any]) -> str:
    return ModelSpec.parse(document).model_id


def shuffled(value: Any, generator: np.random.Generator) -> Any:
    if not isinstance(value, dict):
        return value
    keys = list(value)
    return {keys[i]: shuffled(value[keys[i]], generator) for i in generator.permutation(len(keys))}


def test_the_model_id_is_the_sha_256_of_the_canonical_json_for_good() -> None:
    """A literal: agents of different versions must agree on it, so it may change only with the protocol."""
    canonical = (
        '{"diagonal_step":"paper","family":"diagonal","features":{"cutoff":1e-06,"gamma1":1.0,"kind":"lattice",'
        '"lengthscale":0.5,"lower":[0.0,0.0],"spacing":0.5,"upper":[1.0,1.0]},"outputs":1,'
        '"prior":{"information":0.2,"mean":0.0}}'
    )
    assert ModelSpec.parse(SMALL).canonical_json == canonical
    assert identity(SMALL) == "ff536766003cc4820c70ca8ad81dfe8278dbc390c947972bedf1b58e2e01254f"


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000))
def test_the_order_of_keys_does_not_change_the_identity(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for document in (SMALL, CENTERS):
        assert identity(shuffled(document, generator)) == identity(document)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("features.lower", [0.0, 0.0]),
        ("features.upper", [1.0, 1]),
        ("prior.mean", 0),
        ("prior.mean", -0.0),
        ("features.cutoff", 1e-6),  # the default, spelled out
        ("features.gamma1", 1),
        ("diagonal_step", "paper"),
        ("likelihood", "probit"),
    ],
)
def test_another_spelling_of_the_same_model_does_not_change_the_identity(place: str, value: Any) -> None:
    assert identity(changed(SMALL, place, value)) == identity(SMALL)


def test_leaving_out_what_is_default_does_not_change_the_identity() -> None:
    short = {"features": SMALL["features"], "prior": {"information": 0.2}, "likelihood": "probit"}
    assert identity(short) == identity(SMALL)


def test_the_parameters_of_the_likelihood_are_a_sensors_own_and_not_in_the_identity() -> None:
    gaussian = [identity(SMALL | {"likelihood": {"kind": "gaussian", "precision": p}}) for p in (1, 4.0, 9.5)]
    others = [
        identity(SMALL | {"likelihood": {"kind": "student_t", "degrees": 4, "scale": 0.3}}),
        identity(SMALL | {"likelihood": "poisson"}),
        identity(SMALL | {"likelihood": "logistic"}),
        identity(SMALL | {"likelihood": "probit", "diagonal_step": "projected"}),
    ]
    assert len({*gaussian, *others}) == 1


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("features.spacing", 0.25),
        ("features.lengthscale", 0.51),
        ("features.lower", [0, -0.5]),
        ("features.upper", [1, 1.5]),
        ("features.cutoff", 1e-5),
        ("features.gamma1", 2.0),
        ("family", "full"),
        ("diagonal_step", "projected"),
        ("prior.mean", 0.1),
        ("prior.information", 0.3),
        ("likelihood", {"kind": "gaussian", "precision": [[1.0, 0.0], [0.0, 1.0]]}),  # two outputs: other parameters
    ],
)
def test_whatever_the_agents_must_share_changes_the_identity(place: str, value: Any) -> None:
    assert identity(changed(SMALL, place, value)) != identity(SMALL)


def test_centres_and_their_order_are_part_of_the_identity() -> None:
    swapped = changed(CENTERS, "features.centers", [[1.0, 2.0], [0.0, 0.5]])
    moved = changed(CENTERS, "features.centers", [[0.0, 0.5], [1.0, 2.0 + 1e-15]])
    assert len({identity(CENTERS), identity(swapped), identity(moved)}) == 3


def test_the_step_of_the_diagonal_family_is_not_part_of_a_full_models_identity() -> None:
    full = SMALL | {"family": "full"}
    assert identity(full | {"diagonal_step": "paper"}) == identity(full | {"diagonal_step": "projected"})


def test_the_diagonal_step_is_the_papers_for_probit_and_projected_for_every_other_likelihood() -> None:
    assert ModelSpec.parse(SMALL).step == "paper"
    assert ModelSpec.parse(SMALL | {"diagonal_step": "projected"}).step == "projected"
    others: list[Any] = ["logistic", "poisson", {"kind": "gaussian", "precision": 4}]
    others += [{"kind": "student_t", "degrees": 4, "scale": 1}, {"kind": "gaussian", "precision": [[1.0]]}]
    for likelihood in others:
        assert ModelSpec.parse(SMALL | {"likelihood": likelihood}).step == "projected"
        assert ModelSpec.parse(SMALL | {"likelihood": likelihood, "diagonal_step": "paper"}).step == "paper"


def test_a_model_whose_centres_are_still_to_be_chosen_has_no_identity() -> None:
    features = {"kind": "centers", "choose": {"how": "random", "count": 5, "seed": 0}, "lengthscale": 0.5}
    spec = ModelSpec.parse(SMALL | {"features": features})
    assert not spec.is_resolved
    with pytest.raises(ModelError, match="before its centres are chosen"):
        assert spec.model_id
    with pytest.raises(ModelError, match="still to be chosen"):
        spec.build_features()


@pytest.mark.parametrize(
    ("likelihood", "built"),
    [
        ("probit", Probit),
        ("logistic", Logistic),
        ("poisson", Poisson),
        ({"kind": "gaussian", "precision": 4}, Gaussian),
        ({"kind": "gaussian", "precision": [[4.0, 1.0], [1.0, 2.0]]}, VectorGaussian),
        ({"kind": "student_t", "degrees": 3, "scale": 0.5}, StudentT),
    ],
)
def test_each_likelihood_builds_what_it_says(likelihood: Any, built: type) -> None:
    spec = ModelSpec.parse(SMALL | {"likelihood": likelihood})
    assert type(spec.likelihood.build()) is built


def test_features_and_prior_are_built_as_the_document_says() -> None:
    lattice = ModelSpec.parse(SMALL | {"prior": {"mean": 2.0, "information": 0.5}})
    features = lattice.build_features()
    assert isinstance(features, LatticeFeatures)
    assert features.feature_count == 10
    prior = lattice.build_prior(features)
    assert isinstance(prior, DiagonalGaussian)
    np.testing.assert_array_equal(prior.information, np.full(10, 0.5))
    np.testing.assert_array_equal(prior.mean, np.full(10, 2.0))
    centers = ModelSpec.parse(CENTERS | {"family": "full"})
    features = centers.build_features()
    assert isinstance(features, CenterFeatures)
    np.testing.assert_allclose(features.gamma2, [0.5 / 0.5**2, 0.5 / 0.7**2], rtol=1e-15)
    assert isinstance(centers.build_prior(features), FullGaussian)
    assert features.cutoff is None


def test_a_prior_has_one_block_of_parameters_per_output() -> None:
    spec = ModelSpec.parse(CENTERS | {"likelihood": {"kind": "gaussian", "precision": np.eye(3).tolist()}})
    assert spec.outputs == 3
    assert spec.build_prior(spec.build_features()).dimension == 3 * 3


def test_parsing_leaves_the_document_as_it_was_and_the_model_cannot_be_changed() -> None:
    document = copy.deepcopy(CENTERS)
    spec = ModelSpec.parse(document)
    assert document == CENTERS
    with pytest.raises(ValueError, match="frozen"):
        spec.family = "full"
