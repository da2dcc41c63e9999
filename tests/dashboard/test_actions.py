"""What people do from the page: to whom it happens, what they are told, and who may not."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from client.dashboard import actions
from client.dashboard.agent_watch import AgentWatch
from client.dashboard.places import Place
from client.tokens import TokenFolder
from service.errors import AgentRefusedError
from tests.client.raw_server import Asked, Reply, passed_on, raw_server
from tests.dashboard.dashboards import Dashboard, counting_proxy, dashboard, place_of
from tests.dashboard.fleet import Fleet
from tests.processes import free_port, until


@pytest.fixture(autouse=True)
def paused_again(fleet: Fleet) -> Iterator[None]:
    yield
    for agent in fleet.trio:
        if agent.status()["phase"] != "paused":
            fleet.pause(agent.name)


def schedule_of(fleet: Fleet, name: str) -> dict[str, Any]:
    return dict(fleet[name].http.get("/v1/schedule").json())


def test_agents_are_resumed_and_paused_and_the_rest_of_their_schedules_stays(trio: Dashboard, fleet: Fleet) -> None:
    before = [schedule_of(fleet, agent.name) for agent in fleet.trio]
    assert trio.said("resume", {}) == "a1, a2, a3: goes on"
    begun = [agent.status()["rounds_in_all"] for agent in fleet.trio]
    until(lambda: all(agent.status()["rounds_in_all"] > was for agent, was in zip(fleet.trio, begun, strict=True)))
    assert trio.said("pause", {"agents": None}) == "a1, a2, a3: paused"
    for agent, was in zip(fleet.trio, before, strict=True):
        assert schedule_of(fleet, agent.name) == {**was, "revision": was["revision"] + 2}
    trio.wait_for(lambda state: all(one["paused"] for one in state["agents"]))


def test_what_is_so_already_puts_no_schedule(trio: Dashboard, fleet: Fleet) -> None:
    before = schedule_of(fleet, "a2")
    assert before["paused"]
    assert trio.said("pause", {"agents": [1]}) == "a2: paused"
    assert schedule_of(fleet, "a2") == before


def test_a_step_is_one_round_of_each_that_is_meant(trio: Dashboard, fleet: Fleet) -> None:
    before = [agent.status()["rounds_in_all"] for agent in fleet.trio]
    assert trio.said("step", {"agents": [0, 2, 0]}) == "a1, a3: ran a round"
    after = [agent.status()["rounds_in_all"] for agent in fleet.trio]
    assert [now - was for now, was in zip(after, before, strict=True)] == [1, 0, 1]


def test_a_step_of_an_agent_that_runs_is_refused_with_its_words(trio: Dashboard, fleet: Fleet) -> None:
    trio.said("resume", {"agents": [0]})
    answer = trio.act("step", {"agents": [0]})
    assert answer.status_code == 409
    assert "this agent runs by itself: pause it" in answer.json()["detail"]
    said = trio.said("step", {"agents": [0, 1]})  # one of them can
    assert "a2: ran a round" in said
    assert "a1: " in said


def test_a_schedule_that_somebody_else_puts_at_the_same_moment_is_not_lost(fleet: Fleet) -> None:
    async def story(others: int) -> str:
        async def answer(asked: Asked) -> Reply:
            nonlocal others
            if asked.method == "PUT" and others > 0:
                others -= 1
                fleet.schedule("a1", paused=True, period_s=0.5 + others, observations_per_round=7)
            return await passed_on(fleet["a1"])(asked)

        async with httpx2.AsyncClient(trust_env=False, verify=False) as http, raw_server(answer) as server:
            watch = AgentWatch(0, Place("a1", server.url), http, None, lambda: None)
            await watch.poll()
            return await actions.resume([watch])

    before = schedule_of(fleet, "a1")
    assert asyncio.run(story(1)) == "a1: goes on"
    after = schedule_of(fleet, "a1")
    assert (after["period_s"], after["observations_per_round"], after["paused"]) == (0.5, 7, False)
    assert after["revision"] == before["revision"] + 2
    fleet.pause("a1")
    with pytest.raises(AgentRefusedError):  # somebody who never stops is told of
        asyncio.run(story(2))
    assert schedule_of(fleet, "a1")["paused"]


def test_one_of_three_that_is_gone_does_not_keep_the_others_from_being_paused(fleet: Fleet) -> None:
    places = [place_of(fleet["a1"]), Place("gone", f"http://127.0.0.1:{free_port()}"), place_of(fleet["a3"])]
    with dashboard(places) as served:
        served.wait_for_health(1, "unreachable")
        assert served.said("resume", {}) == "a1, a3: goes on"  # all that answer
        said = served.said("pause", {"agents": [0, 1, 2]})
        assert "a1, a3: paused" in said
        assert "gone: " in said
        assert "nobody listens there" in said
        alone = served.act("pause", {"agents": [1]})
        assert alone.status_code == 503
        assert "nobody listens there" in alone.json()["detail"]
    assert [fleet[name].status()["phase"] for name in ("a1", "a3")] == ["paused", "paused"]
    with dashboard(places[1:2]) as served:
        nobody = served.act("pause", {})
        assert (nobody.status_code, nobody.json()) == (503, {"detail": "no agent answers"})


def test_an_observation_is_sent_once_and_leaves_no_stream_open(fleet: Fleet) -> None:
    with (
        counting_proxy() as proxy,
        dashboard([place_of(fleet["a1"], proxy.to(fleet["a1"].port))]) as served,
    ):
        before = fleet["a1"].status()["observations"]
        said = served.said("observe", {"agent": 0, "x": [1.0, 2.0], "y": 1})
        assert said == "a1 has stored it, and applies it when its rounds go on"
        after = fleet["a1"].status()["observations"]
        assert (after["collected"], after["open_streams"]) == (before["collected"] + 1, [])
        assert after["ended"]
        assert proxy.count("POST /v1/observations") == 1
        proxy.cut = b'{"stored"'  # it arrives, and the answer is lost
        assert served.act("observe", {"agent": 0, "x": [1.0, 2.0], "y": 0}).status_code == 503
        proxy.cut = None
        assert proxy.count("POST /v1/observations") == 2
        assert fleet["a1"].status()["observations"]["collected"] == before["collected"] + 2


def test_an_observation_does_not_end_a_stream_of_somebody_else(trio: Dashboard, fleet: Fleet) -> None:
    assert fleet["a2"].post([[1.0, 1.0]], [1.0]).status_code == 200
    trio.said("observe", {"agent": 1, "x": [1.0, 2.0], "y": 1})
    assert fleet["a2"].status()["observations"]["open_streams"] == [""]
    assert fleet["a2"].post([[1.0, 1.0]], [1.0], end=True).status_code == 200
    assert fleet["a2"].status()["observations"]["open_streams"] == []


def test_an_observation_that_the_agent_does_not_take_is_refused_with_its_words(trio: Dashboard) -> None:
    for x, y in (([1.0], 1), ([1.0, 2.0], 0.5)):
        answer = trio.act("observe", {"agent": 0, "x": x, "y": y})
        assert answer.status_code == 422
        assert len(answer.json()["detail"]) > 20


@pytest.mark.parametrize("name", ["pause", "resume", "step"])
def test_unknown_agents_are_not_found_and_nothing_is_done(trio: Dashboard, fleet: Fleet, name: str) -> None:
    before = [schedule_of(fleet, agent.name) for agent in fleet.trio]
    for numbers in ([7], [0, 1, 2, 3], [-1]):
        answer = trio.act(name, {"agents": numbers})
        assert (answer.status_code, answer.json()["detail"][:17]) == (404, "there is no agent")
    assert trio.act("observe", {"agent": 3, "x": [1, 1], "y": 1}).status_code == 404
    assert [schedule_of(fleet, agent.name) for agent in fleet.trio] == before


@pytest.mark.parametrize(
    ("name", "body"),
    [
        *(
            ("pause", body)
            for body in ("", "{", "[]", "null", '"a"', '{"agents": ["a"]}', '{"agents": 1}', '{"who": []}')
        ),
        ("pause", json.dumps({"agents": [0] * 1001})),
        *(
            ("observe", body)
            for body in (
                '{"agent": 0, "x": [], "y": 1}',
                '{"agent": 0, "x": [NaN, 1], "y": 1}',
                '{"agent": 0, "x": [1, 1], "y": Infinity}',
                '{"agent": 0, "x": [1e999, 1], "y": 1}',
                '{"agent": 0, "x": [1, 1]}',
                '{"agent": 0, "x": "ab", "y": 1}',
                '{"agent": 0.5, "x": [1, 1], "y": 1}',
            )
        ),
    ],
)
def test_bad_bodies_are_refused_with_a_sentence(trio: Dashboard, name: str, body: str) -> None:
    headers = {"origin": trio.url, "content-type": "application/json"}
    answer = trio.http.post(f"/api/actions/{name}", content=body, headers=headers)
    assert answer.status_code == 422, answer.text
    assert isinstance(answer.json()["detail"], str)


def test_who_has_not_the_role_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    observation = {"agent": 0, "x": [1, 1], "y": 1}
    for role, allowed in (("read", ()), ("control", ("pause",)), ("ingest", ("observe",))):
        folder = tmp_path / role
        folder.mkdir()
        for name in {"read", role}:
            shutil.copy(fleet.tokens / name, folder / name)
        with dashboard([place_of(fleet["r2"])], TokenFolder(folder)) as served:
            may = served.state()["may"]
            assert (may["control"], may["ingest"]) == (role == "control", role == "ingest")
            for name, body in (("pause", {}), ("observe", observation)):
                answer = served.act(name, body)
                assert (answer.status_code == 403) == (name not in allowed), (role, name)
                if name not in allowed:
                    assert "has no token of the role" in answer.json()["detail"]


def test_who_may_only_look_changes_nothing(fleet: Fleet) -> None:
    before = schedule_of(fleet, "a1"), fleet["a1"].status()["observations"]
    with dashboard([place_of(fleet["a1"])], read_only=True) as served:
        assert served.state()["may"] == {"control": False, "ingest": False, "recent": True}
        for name in ("pause", "resume", "step"):
            assert served.act(name, {}).status_code == 403
        assert served.act("observe", {"agent": 0, "x": [1, 1], "y": 1}).status_code == 403
    assert (schedule_of(fleet, "a1"), fleet["a1"].status()["observations"]) == before
