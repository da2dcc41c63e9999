"""`/v1/verification` of real agents: what is answered, what is refused, and scores that survive a kill -9."""

from collections.abc import Iterator
from typing import Any

import httpx2
import numpy as np
import pytest

from service.inference.objective import accuracy, balanced_accuracy, calibration_error, cross_entropy
from service.inference.prediction import predict
from service.wire.configuration import ModelDocument
from service.wire.parameters import MEDIA_TYPE
from service.wire.verification import VerificationDocument
from tests.api.test_events import PAUSED, history, run_rounds
from tests.api.test_reading import make_rows, model_of
from tests.processes import AgentProcess, agent_factory, codec_of, problem, unpack

MODEL = model_of("diagonal")
X, Y = make_rows(40)
DOCUMENT = {"revision": 1, "every_rounds": 2, "x": X[:10].tolist(), "y": Y[:10].astype(int).tolist()}
NOTHING = {"revision": 0, "every_rounds": 0, "points": 0, "epoch": None, "round": None, "scores": None}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AgentProcess, AgentProcess]]:
    """Two agents without a model."""
    for start in agent_factory(tmp_path_factory.mktemp("verification")):
        verified, plain = start("verified", wait=False), start("plain", wait=False)
        yield verified.wait_ready(), plain.wait_ready()


def put(agent: AgentProcess, **changes: Any) -> httpx2.Response:
    return agent.http.put("/v1/verification", json=DOCUMENT | changes)


def shown(agent: AgentProcess) -> dict[str, Any]:
    return dict(agent.http.get("/v1/verification").json())


def expected_scores(agent: AgentProcess, x: Any, y: Any) -> dict[str, float]:
    """Of what the agent shows now, from the inference alone."""
    codec = codec_of(MODEL)
    belief = codec.prior.plus(agent.message(codec).parts[0].evidence)
    document = ModelDocument.parse({"revision": 1, "model": MODEL})
    prediction = predict(belief, document.spec.build_features().activate(x), document.build_likelihood())
    return {
        "accuracy": accuracy(prediction.mean, y),
        "balanced_accuracy": balanced_accuracy(prediction.mean, y),
        "cross_entropy": cross_entropy(prediction.mean, y),
        "calibration_error": calibration_error(prediction.mean, y),
    }


def test_verification_from_the_first_document_to_the_last(pair: tuple[AgentProcess, AgentProcess]) -> None:
    """One story, as each step needs those before it, and agents take seconds to start."""
    verified, plain = pair
    check_needs_a_model(verified)
    for agent in pair:
        agent.put("model", {"revision": 1, "model": MODEL})
        agent.put("schedule", PAUSED | {"observations_per_round": 5})
        assert agent.post(X, Y).status_code == 200
    check_is_taken_once(verified)
    check_what_is_wrong_changes_nothing(verified)
    check_scores(verified)
    check_survives_a_kill(verified)
    run_rounds(plain, verified.status()["rounds_in_all"])
    check_same_beliefs(*pair)
    check_ends(verified)


def check_needs_a_model(agent: AgentProcess) -> None:
    assert shown(agent) == NOTHING
    assert problem(put(agent)) == (409, "no-model")
    assert shown(agent) == NOTHING


def check_is_taken_once(agent: AgentProcess) -> None:
    answer = put(agent)
    assert (answer.status_code, answer.json()) == (200, {"revision": 1, "points": 10})
    assert put(agent).json() == answer.json()
    body = VerificationDocument(1, 2, X[:10], Y[:10].astype(float)).to_msgpack()
    headers = {"content-type": MEDIA_TYPE, "accept": MEDIA_TYPE}
    assert unpack(agent.http.put("/v1/verification", content=body, headers=headers)) == answer.json()
    assert shown(agent) == NOTHING | {"revision": 1, "every_rounds": 2, "points": 10}
    assert unpack(agent.http.get("/v1/verification", headers={"accept": MEDIA_TYPE})) == shown(agent)


def check_what_is_wrong_changes_nothing(agent: AgentProcess) -> None:
    before = shown(agent)
    many = [[0.5, 0.5]] * 100_001
    for changes, expected in (
        ({"every_rounds": 3}, (409, "revision-taken")),
        ({"revision": 2, "x": [[0.1]], "y": [1]}, (422, "wrong-dimension")),
        ({"revision": 2, "y": [0.5] * 10}, (422, "invalid-target")),
        ({"revision": 2, "y": [1]}, (422, "invalid-verification")),
        ({"revision": 2, "every_rounds": 0}, (422, "invalid-verification")),
        ({"revision": 2, "colour": "red"}, (422, "invalid-verification")),
        ({"revision": 2, "x": many, "y": [1] * len(many)}, (413, "too-many-points")),
    ):
        assert problem(put(agent, **changes)) == expected, changes.keys()
    body = VerificationDocument(2, 1, np.full((1, 2), np.nan), np.ones(1)).to_msgpack()
    for content, kind, expected in (
        (body, MEDIA_TYPE, (422, "not-finite")),
        (b"{", "application/json", (400, "invalid-json")),
        (b"\xc1", MEDIA_TYPE, (400, "invalid-msgpack")),
        (b"{}", "text/plain", (415, "unsupported-media-type")),
    ):
        answer = agent.http.put("/v1/verification", content=content, headers={"content-type": kind})
        assert problem(answer) == expected
    assert shown(agent) == before


def check_scores(agent: AgentProcess) -> None:
    for number in range(1, 5):
        assert run_rounds(agent, 1) == number
        if number % 2 == 0:
            assert shown(agent)["scores"] == pytest.approx(expected_scores(agent, X[:10], Y[:10]), rel=1e-12)
            assert (shown(agent)["epoch"], shown(agent)["round"]) == (0, number)
    rounds = history(agent, 10)
    assert [one["number"] for one in rounds if one["scores"] is not None] == [2, 4]
    assert [one["verification"] for one in rounds] == [None, 1, None, 1]
    assert rounds[-1]["scores"] == shown(agent)["scores"]


def check_survives_a_kill(agent: AgentProcess) -> None:
    before, told = shown(agent), history(agent, 10)
    agent.kill()
    agent.start()
    assert (shown(agent), history(agent, 10)) == (before, told)
    run_rounds(agent, 2)
    assert shown(agent)["scores"] == pytest.approx(expected_scores(agent, X[:10], Y[:10]), rel=1e-12)
    assert shown(agent)["round"] == 6
    answer = put(agent, revision=3, x=X[10:13].tolist(), y=Y[10:13].astype(int).tolist())
    assert answer.status_code == 200, answer.text
    assert problem(put(agent, revision=2)) == (409, "older-revision")
    agent.kill()
    agent.start()
    assert shown(agent) == NOTHING | {"revision": 3, "every_rounds": 2, "points": 3}
    run_rounds(agent, 2)
    assert shown(agent)["scores"] == pytest.approx(expected_scores(agent, X[10:13], Y[10:13]), rel=1e-12)


def check_same_beliefs(verified: AgentProcess, plain: AgentProcess) -> None:
    codec = codec_of(MODEL)
    one, other = (agent.message(codec) for agent in (verified, plain))
    assert one.header.name == other.header.name
    for field in ("information", "shift"):
        first, second = (getattr(message.parts[0].evidence, field) for message in (one, other))
        assert first.any()
        assert first.tobytes() == second.tobytes()


def check_ends(agent: AgentProcess) -> None:
    assert put(agent, revision=4, x=[], y=[]).json() == {"revision": 4, "points": 0}
    last = run_rounds(agent, 4)
    assert [one["scores"] for one in history(agent, 4)] == [None] * 4
    assert last % 2 == 0
    assert shown(agent) == NOTHING | {"revision": 4, "every_rounds": 2}
