"""The documents that configure an agent: what is accepted, and the sentence for everything that is not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import DelboError, ModelError, SettingError, TopologyError
from service.wire.configuration import (
    NO_NEIGHBORS,
    NO_SCHEDULE,
    ModelDocument,
    NeighborsDocument,
    RoundsRequest,
    ScheduleDocument,
)
from tests.wire.test_model import CENTERS, SMALL, changed

DocumentType = type[ModelDocument] | type[NeighborsDocument] | type[ScheduleDocument]
DOCUMENTS: dict[str, DocumentType] = {
    "model": ModelDocument,
    "neighbors": NeighborsDocument,
    "schedule": ScheduleDocument,
}
NAN, INFINITY = float("nan"), float("inf")
VECTOR = {"kind": "gaussian", "precision": [[2.0, 0.5], [0.5, 1.0]]}

MODEL: dict[str, Any] = {"revision": 1, "model": SMALL}
NEIGHBORS: dict[str, Any] = {
    "epoch": 3,
    "agents": 4,
    "index": 1,
    "own_weight": 0.5,
    "neighbors": [
        {"name": "a1", "url": "http://10.0.0.7:8001", "weight": 0.25},
        {"name": "Ada's röver", "url": "https://rover.example/agents/7/", "weight": 0.25},
    ],
    "history": 2,
    "precision": "float32",
    "start_from": "a1",
}
SCHEDULE: dict[str, Any] = {
    "revision": 2,
    "exchange": "latest",
    "observations_per_round": 10,
    "when_short": "wait",
    "source": "replay",
    "seed": 7,
    "likelihood_weight": 2.5,
    "forgetting": 0.99,
    "period_s": 0,
    "deadline_s": 1.5,
    "stale_after_s": 60,
    "until_round": 100,
    "paused": True,
}


def neighbor(**changes: Any) -> dict[str, Any]:
    """The whole document with something changed in its first neighbor."""
    first = NEIGHBORS["neighbors"][0] | changes
    return NEIGHBORS | {"neighbors": [first, NEIGHBORS["neighbors"][1]]}


def without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


def fault_of(kind: str, body: Any) -> DelboError:
    with pytest.raises(DelboError) as caught:
        DOCUMENTS[kind].parse(body)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("model", MODEL),
        ("model", {"revision": 2**62, "model": CENTERS, "likelihood": "logistic"}),
        ("model", {"revision": 1, "model": SMALL, "likelihood": {"kind": "gaussian", "precision": 4}}),
        ("model", {"revision": 1, "model": SMALL | {"likelihood": VECTOR}}),
        ("model", {"revision": 1, "model": SMALL | {"likelihood": VECTOR, "family": "full"}, "likelihood": VECTOR}),
        ("neighbors", NEIGHBORS),
        ("neighbors", {"epoch": 1, "own_weight": 1}),
        ("neighbors", neighbor(url="http://[fe80::1]:80")),
        ("neighbors", neighbor(url="http://host")),
        ("neighbors", neighbor(weight=0) | {"own_weight": 0.75}),
        ("schedule", SCHEDULE),
        ("schedule", {"revision": 1}),
        ("schedule", {"revision": 1, "likelihood_weight": "auto", "observations_per_round": 0}),
    ],
)
def test_a_document_survives_its_way_to_the_disk_and_back(kind: str, body: dict[str, Any]) -> None:
    document = DOCUMENTS[kind].parse(body)
    again = DOCUMENTS[kind].model_validate_json(document.model_dump_json())
    assert again == document
    assert again.model_dump_json() == document.model_dump_json()
    assert DOCUMENTS[kind].parse(json.loads(document.model_dump_json())) == document


@given(own=st.floats(0, 1), first=st.floats(0, 1), likelihood_weight=st.floats(1e-300, 1e300))
def test_numbers_survive_to_the_last_bit(own: float, first: float, likelihood_weight: float) -> None:
    body = neighbor(weight=first) | {"own_weight": own}
    document = NeighborsDocument.model_validate(body)
    assert NeighborsDocument.model_validate_json(document.model_dump_json()).mixing_row == [own, first, 0.25]
    schedule = ScheduleDocument.parse({"revision": 1, "likelihood_weight": likelihood_weight})
    assert ScheduleDocument.model_validate_json(schedule.model_dump_json()).likelihood_weight == likelihood_weight


def test_a_document_is_the_same_whether_or_not_its_model_was_built_from_it() -> None:
    used, unused = ModelDocument.parse(MODEL), ModelDocument.model_validate(MODEL)
    assert used.spec.model_id
    assert used == unused
    assert used != ModelDocument.parse(MODEL | {"revision": 2})
    assert used != ModelDocument.parse(changed(MODEL, "model.prior.information", 0.3))


def test_the_number_of_a_document_is_its_revision_or_epoch() -> None:
    assert ModelDocument.parse(MODEL).number == 1
    assert NeighborsDocument.parse(NEIGHBORS).number == 3
    assert ScheduleDocument.parse(SCHEDULE).number == 2


def test_any_first_document_replaces_what_is_in_force_without_one() -> None:
    assert NO_NEIGHBORS.number == NO_SCHEDULE.number == 0
    assert NO_NEIGHBORS.mixing_row == [1.0]
    assert NO_NEIGHBORS.neighbors == ()
    assert NO_SCHEDULE.paused


def test_a_model_document_builds_the_agents_own_sensor() -> None:
    assert ModelDocument.parse(MODEL).own_likelihood.kind == "probit"
    assert ModelDocument.parse(MODEL | {"likelihood": "poisson"}).own_likelihood.kind == "poisson"
    assert ModelDocument.parse(MODEL | {"likelihood": "poisson"}).spec.likelihood.kind == "probit"


def test_a_trailing_slash_of_a_url_is_dropped() -> None:
    assert NeighborsDocument.parse(NEIGHBORS).neighbors[1].url == "https://rover.example/agents/7"


@pytest.mark.parametrize(
    ("exchange", "when_short", "waits"),
    [
        ("lockstep", None, True),
        ("latest", None, False),
        ("lockstep", "go", False),
        ("latest", "wait", True),
    ],
)
def test_lockstep_waits_for_observations_and_latest_does_not_unless_told(
    exchange: str, when_short: str | None, waits: bool
) -> None:
    assert ScheduleDocument.parse({"revision": 1, "exchange": exchange, "when_short": when_short}).waits is waits


def test_an_automatic_likelihood_weight_is_the_number_of_agents() -> None:
    assert ScheduleDocument.parse({"revision": 1}).weight_among(7) == 7.0
    assert ScheduleDocument.parse({"revision": 1, "likelihood_weight": 2}).weight_among(7) == 2.0


UNRESOLVED = SMALL | {
    "features": {"kind": "centers", "choose": {"how": "random", "count": 3, "seed": 0}, "lengthscale": 1}
}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (without(MODEL, "revision"), "revision is missing"),
        (without(MODEL, "model"), "model is missing"),
        (MODEL | {"revision": 0}, "revision: "),
        (MODEL | {"revision": 2**62 + 1}, "revision: "),
        (MODEL | {"revision": 1.5}, "revision: "),
        (MODEL | {"colour": "red"}, "colour is not known"),
        (MODEL | {"model": [1]}, "model: "),
        (MODEL | {"model": UNRESOLVED}, "still to be chosen"),
        (changed(MODEL, "model.prior.information", -1), "model: prior.information: "),
        (changed(MODEL, "model.features.spacing", NAN), "model: features.spacing: "),
        (changed(MODEL, "model.colour", 1), "model: colour is not known"),
        (MODEL | {"likelihood": VECTOR}, "2 output(s) do not go with a model of 1"),
        ({"revision": 1, "model": SMALL | {"likelihood": VECTOR}, "likelihood": "probit"}, "1 output(s)"),
        (MODEL | {"likelihood": "probbit"}, "likelihood.kind"),
        (MODEL | {"likelihood": {"kind": "gaussian", "precision": [[1, 2], [2, 1]]}}, "positive definite"),
        (MODEL | {"likelihood": {"kind": "gaussian", "precision": -1}}, "likelihood.precision"),
    ],
)
def test_a_wrong_model_document_is_refused_in_one_sentence(body: Any, words: str) -> None:
    fault = fault_of("model", body)
    assert type(fault) is ModelError
    assert words in str(fault)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (without(NEIGHBORS, "epoch"), "epoch is missing"),
        (without(NEIGHBORS, "own_weight"), "own_weight is missing"),
        (NEIGHBORS | {"epoch": 0}, "epoch: "),
        (NEIGHBORS | {"epoch": -1}, "epoch: "),
        (NEIGHBORS | {"epoch": None}, "epoch: "),
        (NEIGHBORS | {"agents": 0}, "agents: "),
        (NEIGHBORS | {"index": 4}, "index: 4 is not below the number of agents, 4"),
        (NEIGHBORS | {"index": -1}, "index: "),
        (NEIGHBORS | {"agents": 2}, "neighbors: 2 cannot be among 2 agents"),
        (NEIGHBORS | {"history": 0}, "history: "),
        (NEIGHBORS | {"history": 10_001}, "history: "),
        (NEIGHBORS | {"precision": "float16"}, "precision: "),
        (NEIGHBORS | {"start_from": "a9"}, "start_from: a9 is not among the neighbors"),
        (NEIGHBORS | {"start_from": ""}, "start_from"),
        (NEIGHBORS | {"colour": 1}, "colour is not known"),
        (NEIGHBORS | {"own_weight": NAN}, "own_weight: "),
        (NEIGHBORS | {"own_weight": "much"}, "own_weight: "),
        (neighbor(name="Ada's röver"), "neighbors: Ada's röver is named twice"),
        (neighbor(weight=INFINITY), "neighbors.0.weight: "),
        (neighbor(colour=1), "neighbors.0.colour is not known"),
        (NEIGHBORS | {"neighbors": [{"name": "a1"}]}, "neighbors.0."),
        (NEIGHBORS | {"neighbors": NEIGHBORS["neighbors"] * 501}, "neighbors: "),
        (neighbor(name=""), "neighbors.0.name: "),
        (neighbor(name="a" * 65), "neighbors.0.name: "),
        (neighbor(name=" a"), "neighbors.0.name: "),
        (neighbor(name="a\n"), "neighbors.0.name: "),
        (neighbor(name="a\x00b"), "neighbors.0.name: "),
        (neighbor(name="a\x1b[31mb"), "neighbors.0.name: "),
        (neighbor(name="a\u202eb"), "neighbors.0.name: "),  # turns the rest of a line round
        (neighbor(name=7), "neighbors.0.name: "),
        (neighbor(url=""), "neighbors.0.url: "),
        (neighbor(url="10.0.0.7:8001"), "neighbors.0.url: "),
        (neighbor(url="ftp://host"), "neighbors.0.url: "),
        (neighbor(url="file:///etc/passwd"), "neighbors.0.url: "),
        (neighbor(url="http://"), "neighbors.0.url: "),
        (neighbor(url="http://:80"), "neighbors.0.url: "),
        (neighbor(url="http://host:0"), "neighbors.0.url: "),
        (neighbor(url="http://host:65536"), "neighbors.0.url: "),
        (neighbor(url="http://host:port"), "neighbors.0.url: "),
        (neighbor(url="http://[fe80::1"), "neighbors.0.url: "),
        (neighbor(url="http://host?a=b"), "neighbors.0.url: "),
        (neighbor(url="http://host#a"), "neighbors.0.url: "),
        (neighbor(url="http://ho st"), "neighbors.0.url: "),
        (neighbor(url="http://host\r\nX-Evil: 1"), "neighbors.0.url: "),
        (neighbor(url="http://ho\tst"), "neighbors.0.url: "),
        (neighbor(url="http://host/" + "a" * 2000), "neighbors.0.url: "),
        ([], "the document: input should be a mapping"),
        (None, "the document: input should be a mapping"),
    ],
)
def test_a_wrong_neighbors_document_is_refused_in_one_sentence(body: Any, words: str) -> None:
    fault = fault_of("neighbors", body)
    assert type(fault) is SettingError
    assert words in str(fault)


@pytest.mark.parametrize(
    "body",
    [
        NEIGHBORS | {"own_weight": 0.5001},
        NEIGHBORS | {"own_weight": 0.0},
        neighbor(weight=-0.25) | {"own_weight": 1.0},
        NEIGHBORS | {"own_weight": -0.5, "neighbors": [NEIGHBORS["neighbors"][0] | {"weight": 1.5}]},
        {"epoch": 1, "own_weight": 0.9},
    ],
)
def test_mixing_weights_that_are_negative_or_do_not_sum_to_one_are_a_fault_of_the_topology(body: Any) -> None:
    fault = fault_of("neighbors", body)
    assert type(fault) is TopologyError
    assert str(fault).startswith("own_weight and the neighbors' weights: ")


def test_mixing_weights_may_miss_one_by_rounding_only() -> None:
    NeighborsDocument.parse(NEIGHBORS | {"own_weight": 0.5 + 0.9e-9})
    fault_of("neighbors", NEIGHBORS | {"own_weight": 0.5 + 1.1e-9})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (without(SCHEDULE, "revision"), "revision is missing"),
        (SCHEDULE | {"revision": 0}, "revision: "),
        (SCHEDULE | {"exchange": "ledger"}, "exchange: "),
        (SCHEDULE | {"observations_per_round": -1}, "observations_per_round: "),
        (SCHEDULE | {"observations_per_round": 1_000_001}, "observations_per_round: "),
        (SCHEDULE | {"when_short": "stop"}, "when_short: "),
        (SCHEDULE | {"source": "both"}, "source: "),
        (SCHEDULE | {"seed": -1}, "seed: "),
        (SCHEDULE | {"likelihood_weight": 0}, "likelihood_weight"),
        (SCHEDULE | {"likelihood_weight": -2.0}, "likelihood_weight"),
        (SCHEDULE | {"likelihood_weight": INFINITY}, "likelihood_weight"),
        (SCHEDULE | {"likelihood_weight": "much"}, "likelihood_weight"),
        (SCHEDULE | {"forgetting": 0}, "forgetting: "),
        (SCHEDULE | {"forgetting": 1.01}, "forgetting: "),
        (SCHEDULE | {"period_s": -1}, "period_s: "),
        (SCHEDULE | {"period_s": NAN}, "period_s: "),
        (SCHEDULE | {"deadline_s": 0}, "deadline_s: "),
        (SCHEDULE | {"deadline_s": 31}, "deadline_s: "),
        (SCHEDULE | {"stale_after_s": 86_401}, "stale_after_s: "),
        (SCHEDULE | {"until_round": -1}, "until_round: "),
        (SCHEDULE | {"paused": "perhaps"}, "paused: "),
        (SCHEDULE | {"colour": 1}, "colour is not known"),
        ("paused", "the document: input should be a mapping"),
    ],
)
def test_a_wrong_schedule_is_refused_in_one_sentence(body: Any, words: str) -> None:
    fault = fault_of("schedule", body)
    assert type(fault) is SettingError
    assert words in str(fault)


@pytest.mark.parametrize("body", [{"rounds": 0}, {"rounds": 10_001}, {"wait_s": 0}, {"wait_s": 601}, {"round": 1}, 3])
def test_a_wrong_request_for_rounds_is_refused(body: Any) -> None:
    with pytest.raises(SettingError):
        RoundsRequest.parse(body)


def test_a_request_for_rounds_may_be_empty() -> None:
    assert RoundsRequest.parse({}).rounds == 1
