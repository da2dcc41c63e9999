"""What an agent shows: its belief, status, history and parameters, also while it computes."""

import re
import threading
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import httpx2
import numpy as np
import pytest
from fastapi.openapi.models import OpenAPI

from service.wire.arrays import WireArray, from_wire
from service.wire.parameters import MEDIA_TYPE
from tests.processes import AgentProcess, Agents, agent_factory, codec_of, problem, unpack, until

FAMILIES = ["diagonal", "full"]
ROUNDS, BATCH = 80, 5
HISTORY_LIMIT = 10
PRUNE_EVERY = 64  # rounds: the history may be longer than its limit by that many


def model_of(family: str, spacing: float = 0.5) -> dict[str, Any]:
    lattice = {"kind": "lattice", "spacing": spacing, "lengthscale": 0.4, "lower": [0, 0], "upper": [2, 2]}
    return {"features": lattice, "family": family, "prior": {"information": 0.5}, "likelihood": "probit"}


def make_rows(count: int) -> tuple[Any, Any]:
    x = np.random.default_rng(0).uniform(0, 2, (count, 2))
    return x, x[:, 0] > 1


@pytest.fixture(scope="module", params=FAMILIES)
def agent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that has run its rounds and is finished."""
    for start in agent_factory(tmp_path_factory.mktemp("reading")):
        yield finished(start(request.param, "--history-limit", HISTORY_LIMIT))


def finished(agent: AgentProcess) -> AgentProcess:
    agent.put("model", {"revision": 1, "model": model_of(agent.name)})
    assert agent.post(*make_rows(ROUNDS * BATCH - 2), client="robot", end=True).status_code == 200
    schedule = {"observations_per_round": BATCH, "period_s": 0, "until_round": ROUNDS}
    agent.put("schedule", {"revision": 1, **schedule})
    until(lambda: agent.status()["phase"] == "finished")
    return agent


def get(agent: AgentProcess, path: str, accept: str = "*/*") -> httpx2.Response:
    answer = agent.http.get(path, headers={"accept": accept})
    assert answer.status_code == 200, answer.text
    return answer


def array_of(packed: dict[str, Any]) -> Any:
    return from_wire("array", WireArray(packed["dtype"], tuple(packed["shape"]), memoryview(packed["data"])))


# The belief.


def test_the_belief_is_the_prior_and_the_evidence_that_peers_get(agent: AgentProcess) -> None:
    family = agent.name
    codec = codec_of(model_of(family))
    message = agent.message(codec)
    belief = codec.prior.plus(message.parts[0].evidence)
    shown = get(agent, "/v1/belief?full=true").json()
    assert (shown["epoch"], shown["round"]) == message.header.name == (0, ROUNDS)
    assert (shown["family"], shown["model_id"]) == (family, codec.model_id)
    assert shown["parameters"] == belief.dimension
    # By the definition, not by the code that is tested.
    covariance = np.linalg.inv(belief.information if family == "full" else np.diag(belief.information))
    assert shown["variance"] == pytest.approx(np.diag(covariance), rel=1e-9)
    assert shown["mean"] == pytest.approx(covariance @ belief.shift, rel=1e-9, abs=1e-12)
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]
    assert shown["entropy"] == pytest.approx(entropy)
    assert shown["information_gain"] == pytest.approx(codec.prior.entropy - entropy)
    assert shown["information_gain"] > 0
    assert (shown["smallest_variance"], shown["largest_variance"]) == (min(shown["variance"]), max(shown["variance"]))


def test_the_belief_is_a_summary_unless_all_is_asked_for(agent: AgentProcess) -> None:
    summary, full = get(agent, "/v1/belief").json(), get(agent, "/v1/belief?full=true").json()
    assert "mean" not in summary
    assert full == summary | {"mean": full["mean"], "variance": full["variance"]}
    assert get(agent, "/v1/belief?full=false").json() == summary


@pytest.mark.parametrize("path", ["/v1/belief", "/v1/history", "/v1/status", "/v1/readyz"])
def test_msgpack_says_the_same_as_json(agent: AgentProcess, path: str) -> None:
    as_json = get(agent, path, "application/json")
    assert as_json.headers["content-type"] == "application/json"
    assert unpack(get(agent, path, MEDIA_TYPE)) == as_json.json()


def test_arrays_are_lists_in_json_and_raw_in_msgpack(agent: AgentProcess) -> None:
    as_json = get(agent, "/v1/belief?full=true").json()
    packed = unpack(get(agent, "/v1/belief?full=true", MEDIA_TYPE))
    for name in ("mean", "variance"):
        assert array_of(packed.pop(name)).tolist() == as_json.pop(name)  # to the last bit
    assert packed == as_json


# Status and history.


def test_the_status_tells_how_the_agent_is(agent: AgentProcess) -> None:
    status = agent.status()
    assert status["agent"] == agent.name
    assert (status["epoch"], status["round"], status["rounds_in_all"]) == (0, ROUNDS, ROUNDS)
    assert status["phase"] == "finished"
    assert status["model_id"] == codec_of(model_of(agent.name)).model_id
    total = ROUNDS * BATCH - 2
    assert status["observations"] == {
        "collected": total, "applied": total, "backlog": 0, "uncovered": 0, "ended": True, "open_streams": [],
    }  # fmt: skip
    assert (status["neighbors"], status["own_weight"]) == ([], 1.0)
    assert (status["faults"], status["waits_for"]) == ({}, [])
    assert status["schedule"]["until_round"] == ROUNDS
    assert status["schedule"]["exchange"] == "lockstep"


def test_the_history_tells_the_newest_rounds_oldest_first(agent: AgentProcess) -> None:
    rounds = get(agent, "/v1/history?limit=3").json()["rounds"]
    assert [one["round"] for one in rounds] == [ROUNDS - 2, ROUNDS - 1, ROUNDS]
    assert [one["observations"] for one in rounds] == [BATCH, BATCH, BATCH - 2]
    for one in rounds:
        assert (one["epoch"], one["own_weight"], one["mixed"], one["missing"]) == (0, 1.0, [], [])
        assert one["computed_s"] >= 0
        assert one["waited_s"] >= 0


def test_the_history_is_bounded(agent: AgentProcess) -> None:
    kept = [one["round"] for one in get(agent, "/v1/history?limit=1000").json()["rounds"]]
    assert HISTORY_LIMIT <= len(kept) < ROUNDS
    assert len(kept) <= HISTORY_LIMIT + PRUNE_EVERY
    assert kept == list(range(ROUNDS - len(kept) + 1, ROUNDS + 1))


# Parameters.


def test_parameters_that_are_known_are_not_sent_again(agent: AgentProcess) -> None:
    first = get(agent, "/v1/parameters")
    etag = first.headers["etag"]
    again = agent.http.get("/v1/parameters", headers={"if-none-match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    others = {
        get(agent, f"/v1/parameters?round={ROUNDS - 1}").headers["etag"],
        get(agent, "/v1/parameters?precision=float32").headers["etag"],
    }
    assert len(others | {etag}) == 3
    for other in [*others, etag.strip('"'), '"nonsense"']:
        answer = agent.http.get("/v1/parameters", headers={"if-none-match": other})
        assert (answer.status_code, answer.content) == (200, first.content)


def test_the_last_round_and_the_one_before_are_kept(agent: AgentProcess) -> None:
    codec = codec_of(model_of(agent.name))
    newest = get(agent, "/v1/parameters").content
    assert get(agent, f"/v1/parameters?round={ROUNDS}").content == newest
    assert get(agent, f"/v1/parameters?epoch=0&round={ROUNDS}").content == newest
    assert agent.message(codec, round=ROUNDS - 1).header.round == ROUNDS - 1
    assert problem(agent.http.get(f"/v1/parameters?round={ROUNDS - 2}")) == (410, "round-gone")


def test_float32_is_half_as_long_and_off_by_its_rounding_only(agent: AgentProcess) -> None:
    codec = codec_of(model_of(agent.name))
    exact, short = get(agent, "/v1/parameters"), get(agent, "/v1/parameters?precision=float32")
    assert exact.headers["content-type"] == short.headers["content-type"] == MEDIA_TYPE
    assert len(exact.content) - len(short.content) == pytest.approx(4 * codec.numbers, abs=8)
    assert get(agent, "/v1/parameters?precision=float64").content == exact.content
    full, rounded = codec.decode(exact.content), codec.decode(short.content)
    assert rounded.header == full.header
    for name in ("information", "shift"):
        before, after = getattr(full.parts[0].evidence, name), getattr(rounded.parts[0].evidence, name)
        assert np.array_equal(after, before.astype(np.float32))
        assert not np.array_equal(after, before)


# Probes.


def test_an_agent_is_ready_before_it_has_a_model(shared_agent: AgentProcess) -> None:
    assert get(shared_agent, "/v1/livez").json() == {"alive": True}
    assert get(shared_agent, "/v1/readyz").json() == {"ready": True, "faults": {}}
    status = shared_agent.status()
    assert (status["phase"], status["model_id"], status["round"]) == ("no-model", None, None)


def test_an_agent_whose_neighbor_keeps_too_few_rounds_is_not_ready(agents: Agents) -> None:
    ahead, behind = agents("ahead"), agents("behind")
    for one in (ahead, behind):
        one.put("model", {"revision": 1, "model": model_of("diagonal")})
    ahead.put("neighbors", {"epoch": 1, "own_weight": 1.0, "history": 1})
    ahead.put("schedule", {"revision": 1, "when_short": "go", "period_s": 0, "until_round": 3})
    until(lambda: ahead.status()["phase"] == "finished")
    neighbors = [{"name": "ahead", "url": ahead.url, "weight": 0.5}]
    behind.put("schedule", {"revision": 1, "when_short": "go", "period_s": 0})
    behind.put("neighbors", {"epoch": 1, "agents": 2, "own_weight": 0.5, "neighbors": neighbors})
    until(lambda: behind.http.get("/v1/readyz").status_code == 503)
    faults = behind.http.get("/v1/readyz").json()["faults"]
    assert list(faults) == ["round-gone"]
    assert "ahead" in faults["round-gone"]
    assert get(behind, "/v1/livez").json() == {"alive": True}
    assert behind.status()["waits_for"] == ["ahead"]
    behind.put("neighbors", {"epoch": 2, "own_weight": 1.0})
    until(lambda: behind.http.get("/v1/readyz").status_code == 200)


def test_an_agent_answers_while_it_computes_a_long_round(agents: Agents) -> None:
    agent, count, model = agents(), 50_000, model_of("full", spacing=0.08)
    agent.put("model", {"revision": 1, "model": model})
    codec = codec_of(model)
    assert codec.prior.dimension > 600
    assert agent.post(*make_rows(count)).status_code == 200
    agent.put("schedule", {"revision": 1, "observations_per_round": count, "when_short": "go", "until_round": 1})
    until(lambda: agent.status()["phase"] == "computing")
    assert get(agent, "/v1/livez").json() == {"alive": True}
    assert get(agent, "/v1/readyz").json()["ready"]
    assert agent.message(codec).header.round == 0  # only what is committed
    assert agent.post(*make_rows(1)).status_code == 200
    status = agent.status()
    assert (status["phase"], status["round"]) == ("computing", 0)
    assert (status["observations"]["applied"], status["observations"]["collected"]) == (0, count + 1)


# Waiting for a round.


def test_a_long_poll_is_answered_as_soon_as_the_round_is_there(agents: Agents) -> None:
    agent = agents()
    agent.put("model", {"revision": 1, "model": model_of("diagonal")})
    agent.put("schedule", {"revision": 1, "when_short": "go", "paused": True})
    answers: dict[int, httpx2.Response] = {}

    def ask(number: int) -> None:
        answers[number] = agent.http.get(f"/v1/parameters?epoch=0&round={number}&wait_s=30")

    waiting = {number: threading.Thread(target=ask, args=(number,)) for number in (1, 2, 3)}
    for thread in waiting.values():
        thread.start()
    for number in (1, 2):
        assert number not in answers
        agent.http.post("/v1/rounds", json={"rounds": 1})
        waiting[number].join()
        assert codec_of(model_of("diagonal")).decode(answers[number].content).header.round == number
    assert 3 not in answers
    agent.put("neighbors", {"epoch": 1, "own_weight": 1.0})
    waiting[3].join()
    assert problem(answers[3]) == (410, "round-gone")  # the epoch ended before that round came
    late = agent.http.get("/v1/parameters?epoch=1&round=1&wait_s=0.01")
    assert problem(late) == (404, "round-unknown")


def test_a_round_that_is_there_is_not_waited_for(agent: AgentProcess) -> None:
    assert get(agent, f"/v1/parameters?round={ROUNDS}&wait_s=30").content == get(agent, "/v1/parameters").content


# The description.

PATHS = {
    "/v1/model": {"get", "put"},
    "/v1/neighbors": {"get", "put"},
    "/v1/schedule": {"get", "put"},
    "/v1/streams": {"get"},
    "/v1/rounds": {"post"},
    "/v1/observations": {"get", "post"},
    "/v1/parameters": {"get"},
    "/v1/belief": {"get"},
    "/v1/status": {"get"},
    "/v1/history": {"get"},
    "/v1/verification": {"get", "put"},
    "/v1/predictions": {"post"},
    "/v1/map": {"get"},
    "/v1/events": {"get"},
    "/v1/metrics": {"get"},
    "/v1/livez": {"get"},
    "/v1/readyz": {"get"},
}


def test_the_description_is_valid_and_names_everything(shared_agent: AgentProcess) -> None:
    document = get(shared_agent, "/openapi.json").json()
    OpenAPI.model_validate(document)
    assert document["openapi"].startswith("3.1")
    assert document["info"]["version"] == version("delbo")
    assert {path: set(methods) for path, methods in document["paths"].items()} == PATHS
    for target in set(re.findall(r'"\$ref": ?"([^"]+)"', get(shared_agent, "/openapi.json").text)):
        place = document
        for step in target.removeprefix("#/").split("/"):
            place = place[step]
        assert place, target


def test_every_answer_but_success_is_described_as_a_problem(shared_agent: AgentProcess) -> None:
    document = get(shared_agent, "/openapi.json").json()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["tags"]
            assert "200" in operation["responses"]
            for status, answer in operation["responses"].items():
                if status[0] in "45" and path != "/v1/readyz":
                    assert list(answer["content"]) == ["application/problem+json"], (path, status)


def test_every_body_that_is_taken_is_described(shared_agent: AgentProcess) -> None:
    document = get(shared_agent, "/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method == "get":
                assert "requestBody" not in operation
                continue
            content = operation["requestBody"]["content"]
            assert {"application/json", MEDIA_TYPE} <= set(content), path
    schedule = document["components"]["schemas"]["ScheduleDocument"]
    assert schedule["required"] == ["revision"]
    assert "until_round" in schedule["properties"]


def test_where_an_observer_stands_is_described_as_numbers_with_commas_between(shared_agent: AgentProcess) -> None:
    told = get(shared_agent, "/openapi.json").json()["paths"]["/v1/observations"]["post"]["parameters"]
    (position,) = (one for one in told if one["name"] == "position")
    assert position["schema"] == {"type": "array", "items": {"type": "number"}}
    assert (position["in"], position["style"], position["explode"], position["required"]) == (
        "query",
        "form",
        False,
        False,
    )


def test_the_description_can_be_read_as_a_page(shared_agent: AgentProcess) -> None:
    page = get(shared_agent, "/docs")
    assert "<code>?bounds</code>" in page.text
    assert "<code>If-None-Match</code>" in page.text  # a header is no part of the address
    assert page.headers["content-type"].startswith("text/html")
    assert "/openapi.json" in page.text
