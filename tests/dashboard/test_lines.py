"""Beliefs that are no maps, predictions at a point, curves as files, and what agents were told last."""

import csv
import io
import shutil
from pathlib import Path

import numpy as np
import pytest

from client.dashboard import recents
from client.dashboard.places import Place
from client.tokens import TokenFolder
from tests.dashboard.dashboards import Dashboard, counting_proxy, dashboard, place_of
from tests.dashboard.fleet import Fleet
from tests.processes import free_port, until


def know_models(served: Dashboard) -> None:
    until(lambda: all(agent.facts for agent in served.watching.agents))


def test_a_function_of_one_coordinate_is_what_the_agent_predicts(fleet: Fleet) -> None:
    agent = fleet["f1"]
    with (
        counting_proxy() as proxy,
        dashboard([place_of(agent, proxy.to(agent.port))], period_s=3600) as served,
    ):
        know_models(served)
        told = served.get("/api/lines").json()
        assert served.get("/api/lines").json() == told
        assert proxy.count("POST /v1/predictions") == 1
        view = served.state()["view"]
    assert (view["kind"], view["lower"], view["upper"]) == ("function", [0.0], [3.0])
    assert told["kind"] == "function"
    assert told["x"] == pytest.approx(np.linspace(0, 3, 201).tolist(), abs=1e-5)
    said = agent.http.post("/v1/predictions", json={"x": np.linspace(0, 3, 201)[:, None].tolist()}).json()
    [line] = told["agents"]
    assert line["expected"] == pytest.approx(said["mean"], rel=1e-5, abs=1e-12)
    assert line["deviation"] == pytest.approx(np.sqrt(said["variance"]).tolist(), rel=1e-5)
    assert line["latent"] == pytest.approx(said["latent_mean"], rel=1e-5, abs=1e-12)
    assert line["latent_deviation"] == pytest.approx(np.sqrt(said["latent_variance"]).tolist(), rel=1e-5)
    assert line["round"] == agent.status()["round"]


def test_parameters_are_the_agents_own_and_many_are_thinned_evenly(fleet: Fleet) -> None:
    agent = fleet["v1"]
    with dashboard([place_of(agent)]) as served:
        know_models(served)
        view = served.state()["view"]
        told = served.get("/api/lines").json()
    said = agent.http.get("/v1/belief", params={"full": "true"}).json()
    mean, variance = np.ravel(said["mean"]), np.ravel(said["variance"])
    assert view["kind"] == told["kind"] == "parameters"
    assert view["parameters"] == len(mean) > 2000  # those of both outputs
    assert view["layers"] == []
    rows = np.array(told["x"]).astype(int)
    assert 500 < len(rows) <= 1000
    assert len(set(np.diff(rows).tolist())) == 1
    [line] = told["agents"]
    assert line["expected"] == pytest.approx(mean[rows].tolist(), rel=1e-5, abs=1e-12)
    assert line["deviation"] == pytest.approx(np.sqrt(variance[rows]).tolist(), rel=1e-5)


def test_the_line_of_an_agent_that_is_gone_is_kept_and_one_that_never_came_is_null(fleet: Fleet) -> None:
    agent = fleet["f1"]
    with (
        counting_proxy() as proxy,
        dashboard([place_of(agent, proxy.to(agent.port)), place_of(agent)._replace(name="f2")]) as served,
    ):
        until(lambda: served.watching.agents[0].facts)
        before = served.get("/api/lines").json()
        assert before["agents"][1] is None  # f1 answers there, not f2
        proxy.cut = b"/v1/"
        served.wait_for_health(0, "unreachable")
        assert served.get("/api/lines").json() == before


def test_a_map_has_no_lines(trio: Dashboard) -> None:
    answer = trio.get("/api/lines")
    assert (answer.status_code, answer.json()) == (200, {"detail": "this model is shown as a map"})


def test_predictions_at_a_point_are_every_agents_own(trio: Dashboard, fleet: Fleet) -> None:
    told = trio.get("/api/predictions", params={"at": "0.5,2.25"}).json()
    for agent, one in zip(fleet.trio, told, strict=True):
        said = agent.http.post("/v1/predictions", json={"x": [[0.5, 2.25]]}).json()
        assert one["expected"] == pytest.approx(said["probability"][0])
        assert one["latent_variance"] == pytest.approx(said["latent_variance"][0])
        assert one["entropy"] == pytest.approx(said["entropy"][0])


@pytest.mark.parametrize("at", ["", "a", "1,,2", "1;2"])
def test_what_is_no_point_is_refused_with_a_sentence(trio: Dashboard, at: str) -> None:
    answer = trio.get("/api/predictions", params={"at": at})
    assert (answer.status_code, answer.json()["detail"][:14]) == (422, "at is a point:")


@pytest.mark.parametrize("at", ["1", "1,2,3", "nan,1", "inf,inf"])
def test_a_point_that_no_agent_takes_has_no_predictions(trio: Dashboard, at: str) -> None:
    assert trio.get("/api/predictions", params={"at": at}).json() == [None] * 3


def test_recent_observations_are_shown_with_the_ingest_token_only(fleet: Fleet, tmp_path: Path) -> None:
    shutil.copy(fleet.tokens / "read", tmp_path / "read")
    places = [place_of(fleet["r2"])]
    for tokens, may in ((TokenFolder(fleet.tokens), True), (TokenFolder(tmp_path), False)):
        with dashboard(places, tokens, read_only=True) as served:
            know_models(served)
            [told] = served.get("/api/recent").json()
            assert served.state()["may"] == {"control": False, "ingest": False, "recent": may}
            assert (told is not None) == may
            if told is not None:
                assert len(told["x"]) == len(told["y"]) >= 60
                assert len(told["x"][0]) == 2


def test_where_a_robot_stood_a_minute_ago_is_not_shown(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = fleet["a3"]
    answer = agent.http.post(
        "/v1/observations", params={"position": "1.5,2"}, json={"x": [[1.5, 1.0]], "y": [1], "end": True}
    )
    assert answer.status_code == 200, answer.text
    with dashboard([place_of(agent)]) as served:
        know_models(served)
        [told] = served.get("/api/recent").json()
        assert told["position"] == [1.5, 2.0]
        assert (told["x"][-1], told["y"][-1]) == ([1.5, 1.0], 1.0)
        assert recents._FORGOTTEN_S == 60
        monkeypatch.setattr(recents, "_FORGOTTEN_S", 1e-3)
        until(lambda: not served.get("/api/recent").json()[0]["position"])
        [told] = served.get("/api/recent").json()
        assert told["x"][-1] == [1.5, 1.0]


def test_curves_are_written_as_a_table_that_no_spreadsheet_takes_for_formulas() -> None:
    names = ["=1+1", "+a", "-a", "@a", 'a,"b"', "plain"]
    nowhere = f"http://127.0.0.1:{free_port()}"  # no round comes in between
    with dashboard([Place(name, nowhere) for name in names]) as served:
        for number, agent in enumerate(served.watching.agents):
            agent.curves.series["delbo"].append(1000.5, 3, -0.1 - number)
        answer = served.get("/api/curves.csv", params={"metric": "delbo"})
        refused = served.get("/api/curves.csv", params={"metric": "../secret"})
        shown = served.get("/api/curves").json()
    assert answer.headers["content-disposition"] == 'attachment; filename="delbo.csv"'
    head, *rows = csv.reader(io.StringIO(answer.text, newline=""))
    assert head == ["agent", "seconds_since_1970", "round", "delbo"]
    mine = [row for row in rows if row[1] == "1000.5"]
    assert [row[0] for row in mine] == ["'=1+1", "'+a", "'-a", "'@a", 'a,"b"', "plain"]
    assert [(row[2], float(row[3])) for row in mine] == [("3", -0.1 - number) for number in range(6)]
    assert (refused.status_code, refused.json()) == (422, {"detail": "there is no curve '../secret'"})
    [delbo] = [metric for metric in shown["metrics"] if metric["name"] == "delbo"]
    assert [(one["at"][0], one["round"][0]) for one in delbo["agents"]] == [(1000.5, 3.0)] * 6


def test_curves_are_asked_for_from_a_time_on(trio: Dashboard) -> None:
    everything = trio.get("/api/curves").json()
    recent = trio.get("/api/curves", params={"window_s": 1e-6}).json()
    assert [metric["name"] for metric in everything["metrics"]] == [metric["name"] for metric in recent["metrics"]]
    assert all(len(one["at"]) <= 300 for metric in everything["metrics"] for one in metric["agents"])
    assert not any(one["at"] for metric in recent["metrics"] for one in metric["agents"])
    for window in ("0", "-1", "nan", "x"):
        answer = trio.get("/api/curves", params={"window_s": window})
        assert answer.status_code == 422
        assert isinstance(answer.json()["detail"], str)
