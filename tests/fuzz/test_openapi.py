"""What the OpenAPI document says is so: requests are made from it, right and wrong ones, and answers held to it."""

import itertools
import os
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode, SerializationContext
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service.wire.configuration import LONGEST_WAIT_S
from service.wire.parameters import MEDIA_TYPE
from service.wire.roles import ENDPOINTS
from tests.fuzz.messages import LATTICE
from tests.processes import AgentProcess, agent_factory, problem

EXAMPLES = 300 if os.environ.get("DELBO_THOROUGH") == "1" else 30
EVENTS = ("GET", "/v1/events")  # without end: see the last test
OPERATIONS = [one for one in ENDPOINTS if one[1].startswith("/v1/") and one != EVENTS]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
MODEL = {"features": LATTICE, "prior": {"information": 0.5}, "likelihood": "probit"}
PATIENCE_S = 0.01  # instead of minutes, in requests that wait for something
_numbers, _turns = itertools.count(10), itertools.count()


@schemathesis.serializer(MEDIA_TYPE)
def packed(context: SerializationContext, value: Any) -> bytes:
    """How a request in msgpack is written; bytes are as they should go."""
    if hasattr(value, "data"):
        return bytes(value.data)
    try:
        return msgspec.msgpack.encode(value, enc_hook=str)
    except OverflowError:
        return b"\xc1"  # msgpack has no such integer: this is no msgpack at all


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that has a model, and has run some rounds."""
    for start in agent_factory(tmp_path_factory.mktemp("described")):
        agent = start("a1")
        agent.put("model", {"revision": 1, "model": MODEL})
        x = np.random.default_rng(0).uniform(0, 2, (50, 2))
        assert agent.post(x, x[:, 0] > 1, client="robot").status_code == 200
        agent.put("schedule", {"revision": 1, "paused": True, "observations_per_round": 5})
        agent.put("verification", {"revision": 1, "every_rounds": 1, "x": x.tolist(), "y": [1.0] * 50})
        assert agent.http.post("/v1/rounds", json={"rounds": 5}).json()["complete"]
        yield agent


def described(agent: AgentProcess) -> dict[str, Any]:
    """The agent's own document, made a little stricter: no request may wait for long, or lead to another host."""
    document: dict[str, Any] = agent.http.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    schemas["RoundsRequest"]["properties"]["wait_s"]["maximum"] = PATIENCE_S
    schemas["RoundsRequest"]["required"] = ["wait_s"]
    del document["components"]["securitySchemes"]  # this agent has no tokens: a request without one is not wrong
    for methods in document["paths"].values():
        for operation in methods.values():
            del operation["security"]
    for parameter in document["paths"]["/v1/parameters"]["get"]["parameters"]:
        if parameter["name"] == "wait_s":
            parameter["schema"]["maximum"] = PATIENCE_S
    return document


def sensible(case: Case[Any], mode: GenerationMode) -> Case[Any]:
    """A right request, right also in what a schema cannot say; so that some are taken."""
    body: Any = case.body
    if mode is GenerationMode.POSITIVE and isinstance(body, dict):
        if "x" in body and next(_turns) % 2:  # of as many numbers as the model's points have, and labels
            body |= {"x": [[0.5, 1.5]]} | ({} if case.path == "/v1/predictions" else {"y": [1]})
        if case.path == "/v1/model":
            body |= {"model": MODEL, "likelihood": None}
        if case.path == "/v1/neighbors":
            neighbors = body.get("neighbors", [])
            weight = 1 / (len(neighbors) + 1)
            for number, neighbor in enumerate(neighbors):
                neighbor |= {"name": f"n{number}", "weight": weight}
            body |= {"agents": len(neighbors) + 1, "index": 0, "own_weight": weight}
    return case


def harmless(case: Case[Any]) -> Case[Any]:
    """The same request, unless the agent would wait, run by itself, or pull from somewhere.

    Neighbors are pulled from in rounds: so the schedule stays paused, and those that are put are of this machine, at a
    port where nobody listens. A newcomer's first pull (start_from) is refused before: this agent has evidence.
    """
    body: Any = case.body
    if isinstance(body, dict):
        if case.path == "/v1/rounds":
            body["wait_s"] = PATIENCE_S
        if case.path == "/v1/schedule":
            body["paused"] = True
        for neighbor in body.get("neighbors") or () if isinstance(body.get("neighbors"), list) else ():
            if isinstance(neighbor, dict) and isinstance(neighbor.get("url"), str):
                neighbor["url"] = "http://127.0.0.1:1"
        for name in ("revision", "epoch"):  # above all before, so that it is taken
            if type(body.get(name)) is int and 0 < body[name] <= 2**62:
                body[name] = next(_numbers)
    if case.path == "/v1/parameters" and _waits(case.query.get("wait_s")):
        case.query["wait_s"] = PATIENCE_S
    return case


def _waits(seconds: Any) -> bool:
    """Whether an agent would wait so long, and that is longer than a test may."""
    try:
        return PATIENCE_S < float(seconds) <= LONGEST_WAIT_S
    except (TypeError, ValueError):
        return False


def test_every_endpoint_is_described_and_nothing_else_is(agent: AgentProcess) -> None:
    paths = agent.http.get("/openapi.json").json()["paths"]
    told = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert told == {*OPERATIONS, EVENTS}


POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
# There is no wrong way to ask for these.
PLAIN = ("model", "neighbors", "schedule", "verification", "status", "metrics", "livez", "readyz")
ASKED_NOTHING = [("GET", f"/v1/{name}") for name in PLAIN]
CASES = [
    (*one, mode) for one in OPERATIONS for mode in (POSITIVE, NEGATIVE) if mode is POSITIVE or one not in ASKED_NOTHING
]


@pytest.mark.parametrize(("method", "path", "mode"), CASES, ids=[f"{m} {p} {mode.value}" for m, p, mode in CASES])
def test_every_answer_is_as_described(agent: AgentProcess, method: str, path: str, mode: GenerationMode) -> None:
    operation = schemathesis.openapi.from_dict(described(agent))[path][method]
    checks = CHECKS if method == "GET" or path == "/v1/rounds" else [*CHECKS, negative_data_rejection]
    statuses = set()

    @given(case=operation.as_strategy(generation_mode=mode), accept=st.sampled_from(["application/json", MEDIA_TYPE]))
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    def ask(case: Case[Any], accept: str) -> None:
        answer = harmless(sensible(case, mode)).call(base_url=agent.url, headers={"accept": accept})
        case.validate_response(answer, checks=checks)
        statuses.add(answer.status_code)

    ask()
    if mode is POSITIVE:
        assert 200 in statuses  # else nothing was shown of what is taken
    assert "Traceback" not in agent.log.read_text()


@given(last_event_id=st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=80))
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_events_begin_as_described_whatever_a_listener_says_it_heard_last(
    agent: AgentProcess, last_event_id: str | None
) -> None:
    incarnation = agent.status()["incarnation"]
    for heard in (last_event_id, f"{incarnation:x}-{last_event_id}"):
        headers = {} if heard is None else {"last-event-id": heard}
        with agent.http.stream("GET", "/v1/events", headers=headers) as answer:
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
            assert next(answer.iter_text()).startswith("retry: ")  # and then it is left, for it has no end
    assert "Traceback" not in agent.log.read_text()


@given(query=st.text(min_size=1))
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_events_take_no_query(agent: AgentProcess, query: str) -> None:
    assert problem(agent.http.get("/v1/events", params={query: query})) == (400, "invalid-query")
