"""Maps on the page: the agents' own numbers, asked for rarely, in one scale, kept when an agent is gone."""

import concurrent.futures
import io
from collections.abc import Iterator
from typing import Any

import httpx2
import numpy as np
import pytest
from PIL import Image

from client.dashboard import layers
from client.tokens import TokenFolder
from service.wire.palette import DIVERGING, SEQUENTIAL
from tests.dashboard.dashboards import Dashboard, counting_proxy, dashboard, place_of
from tests.dashboard.fleet import Fleet
from tests.processes import AgentProcess, until

LONG_S = 3600.0  # a period that does not pass


@pytest.fixture(scope="module")
def numbers(fleet: Fleet) -> Iterator[Dashboard]:
    """A dashboard of r1 and r2, which learn numbers."""
    with dashboard([place_of(fleet["r1"]), place_of(fleet["r2"])], TokenFolder(fleet.tokens)) as served:
        until(lambda: served.watching.agents[0].facts and served.watching.agents[1].facts)
        yield served


def picture(served: Dashboard, number: int, layer: str = "expected", **query: Any) -> httpx2.Response:
    headers = query.pop("headers", {})
    return served.get(f"/api/agents/{number}/picture", params={"layer": layer, **query}, headers=headers)


def shown(answer: httpx2.Response) -> tuple[Any, bytes]:
    """A picture's numbers, the first row at the bottom, as its range tells them; and its palette."""
    assert answer.status_code == 200, answer.text
    low, high = map(float, answer.headers["delbo-range"].split(","))
    with Image.open(io.BytesIO(answer.content)) as image:
        assert image.mode == "P"
        return low + np.asarray(image)[::-1] / 255 * (high - low), bytes(image.getpalette() or [])


def exact(agent: AgentProcess, layer: str, **query: Any) -> Any:
    """What the agent itself says, exactly."""
    answer = agent.http.get("/v1/map", params={"format": "npz", "layer": layer, **query})
    assert answer.status_code == 200, answer.text
    with np.load(io.BytesIO(answer.content)) as arrays:
        return arrays[layer] if layer in arrays else arrays[arrays.files[0]]


def test_what_is_expected_has_the_very_pixels_of_the_agents_own_map(trio: Dashboard, fleet: Fleet) -> None:
    for number, agent in enumerate(fleet.trio):
        answer = picture(trio, number)
        assert answer.content == agent.http.get("/v1/map", params={"layer": "probability"}).content
        values, palette = shown(answer)
        assert answer.headers["delbo-range"] == "0.0,1.0"
        assert palette == DIVERGING
        assert np.abs(values - exact(agent, "probability")).max() <= 0.5 / 255 + 1e-9
        assert answer.headers["delbo-round"] == str(agent.status()["round"])
        left, bottom, right, top = map(float, answer.headers["delbo-box"].split(","))
        assert (left, bottom) == (0.0, 0.0)
        assert right == pytest.approx(3.0, abs=0.02)
        assert top == pytest.approx(3.0, abs=0.02)


def test_disagreement_is_the_distance_to_the_mean_of_the_others(trio: Dashboard, fleet: Fleet) -> None:
    fleet.learn("a1", np.full((20, 2), 1.5), np.ones(20))
    fleet.learn("a2", np.full((20, 2), 1.5), np.zeros(20))
    for number, agent in enumerate(fleet.trio):
        newest = str(agent.status()["round"])
        until(lambda number=number, newest=newest: picture(trio, number).headers["delbo-round"] == newest)  # type: ignore[misc]
    maps = [exact(agent, "probability") for agent in fleet.trio]
    for number in range(3):
        values, palette = shown(picture(trio, number, "disagreement"))
        others = [one for other, one in enumerate(maps) if other != number]
        wanted = np.abs(maps[number] - np.mean(others, axis=0))
        assert wanted.max() > 10 / 255  # there is something to see
        assert np.abs(values - wanted).max() <= 2 / 255
        assert palette == SEQUENTIAL


def test_the_variances_of_all_agents_are_drawn_in_one_scale(trio: Dashboard, fleet: Fleet) -> None:
    answers = [picture(trio, number, "variance") for number in range(3)]
    maps = [exact(agent, "latent_variance") for agent in fleet.trio]
    high = max(one.max() for one in maps)
    assert len({answer.headers["delbo-range"] for answer in answers}) == 1
    for answer, wanted in zip(answers, maps, strict=True):
        values, _ = shown(answer)
        assert float(answer.headers["delbo-range"].split(",")[0]) == 0
        assert values.max() <= high * (1 + 1e-9)
        assert np.abs(values - wanted).max() <= 1.5 / 255 * high  # rounded by the agent, and here


def test_entropy_of_labels_has_a_fixed_scale(trio: Dashboard, fleet: Fleet) -> None:
    answer = picture(trio, 1, "entropy")
    values, _ = shown(answer)
    assert [float(end) for end in answer.headers["delbo-range"].split(",")] == [0.0, pytest.approx(np.log(2))]
    assert np.abs(values - exact(fleet["a2"], "entropy")).max() <= 1.5 / 255 * np.log(2)


def test_numbers_are_shown_by_their_mean_in_one_scale(numbers: Dashboard, fleet: Fleet) -> None:
    maps = [exact(fleet[name], "mean") for name in ("r1", "r2")]
    low, high = min(one.min() for one in maps), max(one.max() for one in maps)
    for number in range(2):
        answer = picture(numbers, number)
        values, palette = shown(answer)
        assert [float(end) for end in answer.headers["delbo-range"].split(",")] == pytest.approx([low, high])
        assert np.abs(values - maps[number]).max() <= 1.5 / 255 * (high - low)
        assert palette == SEQUENTIAL
        values, _ = shown(picture(numbers, number, "disagreement"))
        assert np.abs(values - np.abs(maps[0] - maps[1])).max() <= 2 / 255 * (high - low)


def test_a_box_is_drawn_in_detail(trio: Dashboard, fleet: Fleet) -> None:
    answer = picture(trio, 0, box="1,0.5,1.5,0.75")
    values, _ = shown(answer)
    assert values.shape == (150, 300)
    assert list(map(float, answer.headers["delbo-box"].split(","))) == pytest.approx([1, 0.5, 1.5, 0.75])
    wanted = exact(fleet["a1"], "probability", bounds="1,0.5,1.5,0.75", resolution=0.5 / 300)
    assert np.abs(values - wanted).max() <= 0.5 / 255 + 1e-9


@pytest.mark.parametrize(
    "box",
    [
        "nan,0,1,1",
        "0,0,inf,1",
        "1,0,0,1",
        "0,1,1,0",
        "0,0,0,0",
        "1,2,3",
        "1,2,3,4,5",
        "a,b,c,d",
        "",
        "-1e308,0,1e308,1",
    ],
)
def test_a_box_that_is_none_is_refused_with_a_sentence(trio: Dashboard, box: str) -> None:
    answer = picture(trio, 0, box=box)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("box is ")


def test_a_box_that_the_agent_refuses_is_refused_the_same_way_when_it_is_asked_for_again(trio: Dashboard) -> None:
    answers = [picture(trio, 0, box="0,0,1e-13,1e-13") for _ in range(3)]
    assert {answer.status_code for answer in answers} <= {200} or {answer.status_code for answer in answers} == {422}
    assert len({answer.text if answer.status_code != 200 else "" for answer in answers}) == 1


@pytest.mark.parametrize("path", ["/api/agents/0/picture?layer=heat", "/api/agents/x/picture", "/api/palettes/x.png"])
def test_what_there_is_not_is_refused_with_a_sentence(trio: Dashboard, path: str) -> None:
    answer = trio.get(path)
    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], str)


def test_models_without_a_map_say_so(fleet: Fleet) -> None:
    with dashboard([place_of(fleet["f1"]), place_of(fleet["v1"])]) as served:
        until(lambda: all(agent.facts for agent in served.watching.agents))
        for number in range(2):
            answer = picture(served, number)
            assert answer.status_code == 422
            assert "has no map" in answer.json()["detail"]


def test_one_alone_differs_from_nobody(fleet: Fleet) -> None:
    with dashboard([place_of(fleet["a1"])]) as served:
        until(lambda: served.watching.agents[0].facts)
        answer = picture(served, 0, "disagreement")
        assert answer.status_code == 200  # no fault of anybody's: a browser is not to complain of it
        assert "nobody to differ from" in answer.json()["detail"]


def test_an_agent_is_asked_once_a_period_however_many_look(fleet: Fleet) -> None:
    with counting_proxy() as proxy:
        ports = [proxy.to(agent.port) for agent in fleet.trio]
        places = [place_of(agent, port) for agent, port in zip(fleet.trio, ports, strict=True)]
        with dashboard(places, period_s=LONG_S) as served, concurrent.futures.ThreadPoolExecutor(12) as browsers:
            until(lambda: all(agent.facts for agent in served.watching.agents))
            asked = [(number % 3, layer) for number in range(12) for layer in ("expected", "disagreement")]
            answers = list(browsers.map(lambda one: picture(served, *one), asked))
            assert {answer.status_code for answer in answers} == {200}
            assert proxy.count("GET /v1/map") == 3  # expected and disagreement are of the same numbers
            picture(served, 0, "variance")
            assert proxy.count("GET /v1/map") == 6


def test_what_has_not_changed_is_sent_again_neither_to_us_nor_to_the_browser(fleet: Fleet) -> None:
    with counting_proxy() as proxy:
        port = proxy.to(fleet["a1"].port)
        with dashboard([place_of(fleet["a1"], port)]) as served:
            until(lambda: served.watching.agents[0].facts)
            first = picture(served, 0)
            tag = {"if-none-match": first.headers["etag"]}
            until(lambda: picture(served, 0, headers=tag).status_code == 304 and proxy.count("HTTP/1.1 304") >= 2)
            again = picture(served, 0, headers=tag)
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == first.headers["etag"]
            assert picture(served, 0, headers={"if-none-match": '"another"'}).content == first.content
            assert picture(served, 0, "variance", headers=tag).status_code == 200
            fleet.learn("a1", [[0.2, 0.2]], [1.0])
            until(lambda: picture(served, 0, headers=tag).status_code == 200)
            assert picture(served, 0).headers["etag"] != first.headers["etag"]


def test_the_last_map_of_an_agent_that_is_gone_is_kept(fleet: Fleet) -> None:
    with counting_proxy() as proxy:
        ports = [proxy.to(fleet[name].port) for name in ("a1", "a2")]
        with dashboard([place_of(fleet["a1"], ports[0]), place_of(fleet["a2"], ports[1])]) as served:
            until(lambda: all(agent.facts for agent in served.watching.agents))
            before = picture(served, 0)
            proxy.cut = b"GET /v1/"
            served.wait_for_health(0, "unreachable")
            for _ in range(2):
                assert picture(served, 0).content == before.content
            never = picture(served, 0, "entropy")  # nobody has seen this one
            assert never.status_code == 200
            assert "has not shown a map yet" in never.json()["detail"]


def test_few_maps_are_kept_and_that_of_all_the_model_longest(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_MOST_KEPT", 4)
    with (
        counting_proxy() as proxy,
        dashboard([place_of(fleet["a1"], proxy.to(fleet["a1"].port))], period_s=LONG_S) as served,
    ):
        until(lambda: served.watching.agents[0].facts)
        boxes = [f"0,0,{side},1" for side in range(1, 7)]
        assert picture(served, 0).status_code == 200
        for box in (*boxes, boxes[-1]):
            assert picture(served, 0, box=box).status_code == 200
        assert proxy.count("GET /v1/map") == 7
        assert picture(served, 0).status_code == 200
        assert proxy.count("GET /v1/map") == 7  # the whole map is still there
        assert picture(served, 0, box=boxes[0]).status_code == 200
        assert proxy.count("GET /v1/map") == 8  # and this one is not


@pytest.mark.parametrize(("form", "ending"), [("png", "png"), ("npz", "npz"), ("nav2", "zip")])
def test_maps_are_saved_as_the_agent_makes_them(trio: Dashboard, fleet: Fleet, form: str, ending: str) -> None:
    answer = trio.get("/api/agents/2/map", params={"format": form})
    assert answer.content == fleet["a3"].http.get("/v1/map", params={"format": form}).content
    name = f"a3-round-{fleet['a3'].status()['round']}.{ending}"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
