"""The document that the browser gets: who is there, who pulls from whom, and nothing that is secret."""

import json
import math
from typing import Any

import httpx2
import msgspec
import pytest

from client.dashboard.agent_watch import AgentWatch
from client.dashboard.places import Place
from client.dashboard.state import StateWriter
from client.tokens import TokenFolder
from service.wire.answers import NeighborStatus, Status
from service.wire.tokens import read_tokens
from tests.dashboard.dashboards import Dashboard, counting_proxy, dashboard, place_of
from tests.dashboard.fleet import PULLS, Fleet

MAY = {"control": True, "ingest": True, "recent": True}


def status_of(name: str, neighbors: dict[str, str], template: dict[str, Any], **changes: Any) -> Status:
    """How an agent is that finds its neighbors so."""
    found = [
        NeighborStatus(other, "http://x", 0.25, state, None, 1.0, 1, 1, {}, {}) for other, state in neighbors.items()
    ]
    status = msgspec.convert({**template, "agent": name, "neighbors": []}, Status)
    return msgspec.structs.replace(status, neighbors=tuple(found), **changes)


def watch_of(number: int, status: Status | None, health: Any = "ok", name: str | None = None) -> AgentWatch:
    http: Any = None  # it is asked for nothing
    watch = AgentWatch(number, Place(name, f"http://host-{number}:1"), http, None, lambda: None)
    watch.status, watch.health = status, health
    return watch


def test_edges_go_from_who_is_pulled_to_who_pulls_with_the_state_that_the_puller_tells(
    trio: Dashboard, fleet: Fleet
) -> None:
    rounds = [agent.status()["rounds_in_all"] for agent in fleet.trio]
    state = trio.wait_for(lambda state: [agent["rounds"] for agent in state["agents"]] == rounds)
    assert [agent["name"] for agent in state["agents"]] == ["a1", "a2", "a3"]
    assert {(edge["to"], edge["from"]) for edge in state["edges"]} == set(PULLS)
    for edge in state["edges"]:
        [told] = fleet.trio[edge["to"]].status()["neighbors"]
        assert told["name"] == f"a{edge['from'] + 1}"
        assert (edge["state"], edge["weight"]) == (told["state"], told["weight"])
    assert state["view"] == {
        "kind": "map",
        "binary": True,
        "layers": ["expected", "variance", "entropy", "disagreement"],
        "lower": [0.0, 0.0],
        "upper": [3.0, 3.0],
        "parameters": state["view"]["parameters"],
    }
    for agent, process in zip(state["agents"], fleet.trio, strict=True):
        told = process.status()
        assert (agent["round"], agent["rounds"], agent["epoch"]) == (told["round"], told["rounds_in_all"], 1)
        applied = told["observations"]["applied"]
        assert (agent["observations"], agent["paused"], agent["url"]) == (applied, True, process.url)


def test_neighbors_that_are_not_watched_appear_as_strangers(fleet: Fleet) -> None:
    with dashboard([place_of(fleet["a1"]), place_of(fleet["r1"])]) as served:
        state = served.state()
    assert [(agent["name"], agent["watched"]) for agent in state["agents"]] == [
        ("a1", True),
        ("r1", True),
        ("a2", False),
    ]
    assert [(edge["from"], edge["to"]) for edge in state["edges"]] == [(2, 0)]
    assert state["agents"][2]["number"] == 2


def test_the_edges_of_an_agent_that_is_gone_are_unknown(fleet: Fleet) -> None:
    with counting_proxy() as proxy:
        port = proxy.to(fleet["a1"].port)
        with dashboard([place_of(fleet["a1"], port), place_of(fleet["a2"])]) as served:
            assert served.state()["edges"][0]["state"] != "unknown"
            proxy.cut = b"GET /v1/status"
            served.wait_for_health(0, "unreachable")
            edges = {edge["to"]: edge["state"] for edge in served.state()["edges"]}
            assert edges[0] == "unknown"
            assert edges[1] != "unknown"
            proxy.cut = None
            served.wait_for_health(0, "idle")
            assert served.state()["edges"][0]["state"] != "unknown"


def test_strangers_have_numbers_of_their_own_also_where_two_agents_have_one_name(fleet: Fleet) -> None:
    template = fleet["a1"].status()
    watches = [
        watch_of(0, status_of("a", {"x": "fresh", "y": "stale", "z": "refused"}, template)),
        watch_of(1, status_of("a", {"z": "fresh"}, template)),
        watch_of(2, None, "loading", "b"),
    ]
    document = StateWriter("small", watches).document(0.0, MAY, 1.0)
    assert [agent["number"] for agent in document["agents"]] == list(range(6))
    assert [agent["name"] for agent in document["agents"]] == ["a", "a", "b", "x", "y", "z"]
    found = [(edge["from"], edge["to"], edge["state"]) for edge in document["edges"]]
    assert found == [(3, 0, "fresh"), (4, 0, "stale"), (5, 0, "refused"), (5, 1, "fresh")]
    assert len({tuple(agent["spot"]) for agent in document["agents"]}) == 6


def test_agents_stay_where_they_are_in_the_picture(fleet: Fleet) -> None:
    template = fleet["a1"].status()
    names = [f"n{number}" for number in range(20)]
    watches = [
        watch_of(number, status_of(name, {names[number - 1]: "fresh"}, template)) for number, name in enumerate(names)
    ]
    picture = StateWriter("small", watches)
    before = [agent["spot"] for agent in picture.document(0.0, MAY, 1.0)["agents"]]
    watches[3].health = "unreachable"
    watches[5].status = status_of("n5", {"n4": "stale"}, template)
    assert [agent["spot"] for agent in picture.document(9.0, MAY, 1.0)["agents"]] == before


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_does_not_break_the_document(fleet: Fleet, number: float) -> None:
    status = status_of("a", {"x": "fresh"}, fleet["a1"].status(), own_weight=number)
    neighbor = msgspec.structs.replace(status.neighbors[0], age_s=number, weight=number)
    watch = watch_of(0, msgspec.structs.replace(status, neighbors=(neighbor,)))
    encoded = msgspec.json.encode(StateWriter("small", [watch]).document(0.0, MAY, 1.0))

    def refuse(constant: str) -> float:
        raise AssertionError(f"a browser cannot read {constant}")

    document = json.loads(encoded, parse_constant=refuse)
    assert document["edges"][0]["weight"] is None
    assert document["agents"][0]["own_weight"] is None


def test_no_token_is_in_anything_that_the_dashboard_answers(fleet: Fleet) -> None:
    tokens = [token for of_role in read_tokens(fleet.tokens).values() for token in of_role]
    with dashboard([place_of(fleet["r2"])], TokenFolder(fleet.tokens)) as served:
        served.wait_for_health(0, "idle")
        answers: list[httpx2.Response] = [
            served.get(path)
            for path in (
                *("/", "/api/state", "/api/curves", "/api/recent", "/api/lines", "/api/agents/0/picture"),
                *("/api/agents/0/map?format=npz", "/api/predictions?at=1,1", "/api/agents/7/picture"),
                "/api/curves.csv?metric=rounds_per_s",
            )
        ]
        answers.append(served.act("pause", {"agents": [0]}))
        answers.append(served.act("observe", {"agent": 0, "x": [1.0], "y": 1.0}))  # of a wrong dimension
        assert [answer.status_code for answer in answers][:2] == [200, 200]
        for answer in answers:
            assert not any(token in answer.text or token in str(answer.headers) for token in tokens), answer.url
