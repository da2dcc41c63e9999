"""The commands for a network, over real agents: what they print, and one sentence for everything that goes wrong."""

import asyncio
import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from client.cluster import Cluster
from client.evaluation import evaluate
from client.network.plan import load_plan
from service.wire.address import read_address
from tests.conftest import Delbo
from tests.network.plans import (
    check_run,
    documents_at,
    simulate,
    statuses_at,
    write_data,
    write_network,
)
from tests.network.runs import Run
from tests.processes import Agents, until

pytestmark = pytest.mark.thorough  # `make test-faults` runs them

NAMES = ["north", "south east", "west"]


class Here(NamedTuple):
    """A network that has been run, and whose agents are still there."""

    path: Path
    runs: Path
    printed: Any

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.runs / "small", NAMES)

    def urls(self) -> dict[str, str]:
        return asyncio.run(self.cluster.running())

    def variant(self, name: str, **changes: Any) -> Path:
        """Another file for a network of the same name, with the same data."""
        folder = self.path.parent / name
        folder.mkdir(exist_ok=True)
        write_data(folder / "points.npz")
        return write_network(folder, changes.pop("agents", NAMES), **changes)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """Run by the installed command, in a folder whose modules have the names of ours."""
    folder = tmp_path_factory.mktemp("here")
    for module in ("service", "client"):
        (folder / module).mkdir()
        (folder / module / "__init__.py").write_text("raise SystemExit('this is not ours')")
    path = write_network(folder, NAMES)
    for arguments in (["up"], ["run", "--json"]):  # what was up before stays up, and stands still when it is done
        command = [str(Path(sys.executable).parent / "delbo"), *arguments, path.name]
        finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
    here = Here(path, folder / "runs", json.loads(finished.stdout))
    try:
        yield here
    finally:
        asyncio.run(here.cluster.down())


def test_an_agent_is_started_by_ours_wherever_one_is(here: Here) -> None:
    command = [
        str(Path(sys.executable).parent / "delbo"),
        "agent",
        "--name",
        "a1",
        "--data-dir",
        "a1",
        "--port",
        "99999",
    ]
    refused = subprocess.run(command, cwd=here.path.parent, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("delbo agent: --port: ")


def test_run_measures_what_the_simulation_has(here: Here) -> None:
    plan = load_plan(here.path)
    assert plan.test is not None
    check_run(here.path, list(here.urls().values()))
    scores = evaluate(simulate(plan), plan.features, plan.likelihood, plan.test)
    assert [agent["name"] for agent in here.printed["agents"]] == NAMES
    for agent, score, rows in zip(here.printed["agents"], scores, plan.parts, strict=True):
        assert agent["observations"] == len(rows)
        assert agent["accuracy"] == pytest.approx(score["accuracy"])
        assert agent["cross_entropy"] == pytest.approx(score["cross_entropy"])


def test_status_is_a_table_or_json(delbo_here: Delbo, here: Here) -> None:
    shown = delbo_here("status", here.path, "--once", "--runs", here.runs)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()[-3:]
    assert all(line.startswith(name) and "finished" in line for name, line in zip(NAMES, lines, strict=True))
    told = json.loads(delbo_here("status", here.path, "--json", "--runs", here.runs).stdout)
    assert [(one["name"], one["answers"], one["phase"], one["backlog"]) for one in told] == [
        (name, True, "finished", 0) for name in NAMES
    ]
    assert [one["accuracy"] for one in told] == [agent["accuracy"] for agent in here.printed["agents"]]


def test_a_dead_agent_is_shown_and_brought_back_by_up(delbo_here: Delbo, here: Here) -> None:
    before = here.urls()
    address = read_address(here.cluster.data_dir("north"))
    assert address is not None
    os.kill(address.pid, signal.SIGKILL)
    until(lambda: "north" not in here.urls())
    shown = delbo_here("status", here.path, "--once", "--runs", here.runs).stdout.splitlines()
    assert shown[-3].split() == ["north", "does", "not", "answer"]
    assert "finished" in shown[-1]
    told = json.loads(delbo_here("status", here.path, "--json", "--runs", here.runs).stdout)
    assert told[0] == {"name": "north", "answers": False}
    for command in (["evaluate", here.path], ["stream", here.path], ["apply", here.path]):
        refused = delbo_here(*command, "--runs", here.runs)
        assert refused.returncode == 2
        assert refused.stderr == "delbo: north does not run: start the network with delbo up\n"
    started = delbo_here("up", here.path, "--runs", here.runs)
    assert started.returncode == 0, started.stderr
    assert [line.split("  ") for line in started.stdout.splitlines()[:3]] == [[name, before[name]] for name in NAMES]
    assert [status.round for status in statuses_at(here.urls().values())] == [here.printed["rounds"]] * 3


def test_evaluate_measures_on_the_files_data_or_on_others(delbo_here: Delbo, here: Here, tmp_path: Path) -> None:
    told = json.loads(delbo_here("evaluate", here.path, "--json", "--runs", here.runs).stdout)
    assert told["agents"] == here.printed["agents"]
    other = write_data(tmp_path / "other.npz", 55, seed=9)
    told = json.loads(delbo_here("evaluate", here.path, "--test", other, "--json", "--runs", here.runs).stdout)
    assert told["test"]["rows"] == 55
    printed = delbo_here("evaluate", here.path, "--runs", here.runs)
    assert printed.returncode == 0, printed.stderr
    assert "south east together" in printed.stdout


def test_predict_prints_what_any_agent_expects(delbo_here: Delbo, here: Here, tmp_path: Path) -> None:
    points = tmp_path / "points.csv"
    points.write_text("a,b\n0.5,0.5\n2,1\n")
    first = delbo_here("predict", here.path, points, "--runs", here.runs)
    rows = list(csv.DictReader(first.stdout.splitlines()))
    assert list(rows[0]) == ["x1", "x2", "probability", "entropy", "latent_variance"]
    assert [(float(row["x1"]), float(row["x2"])) for row in rows] == [(0.5, 0.5), (2.0, 1.0)]
    assert all(0 < float(row["probability"]) < 1 for row in rows)
    by_url = delbo_here("predict", here.urls()["north"], points)
    assert by_url.stdout == first.stdout
    written = delbo_here(
        "predict", here.path, points, "--agent", "west", "--out", tmp_path / "p.csv", "--runs", here.runs
    )
    assert written.stdout == f"wrote {tmp_path / 'p.csv'}\n"
    west = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert [float(row["probability"]) for row in west] == pytest.approx([float(row["probability"]) for row in rows])


def test_map_writes_what_the_suffix_says(delbo_here: Delbo, here: Here, tmp_path: Path) -> None:
    box = ("--bounds", "0,0,2,1", "--resolution", "0.1", "--runs", here.runs)
    for suffix, beginning in ((".png", b"\x89PNG"), (".npz", b"PK"), (".zip", b"PK")):
        file = tmp_path / f"map{suffix}"
        told = delbo_here("map", here.path, "--agent", "west", "--out", file, *box)
        assert (told.returncode, told.stderr) == (0, "")
        assert re.fullmatch(rf"wrote {re.escape(str(file))}: round \d+ of epoch \d+\n", told.stdout)
        assert file.read_bytes().startswith(beginning)
    probability = np.load(tmp_path / "map.npz")["probability"]
    points = tmp_path / "points.csv"
    points.write_text("a,b\n0.05,0.05\n1.95,0.95\n")
    asked = delbo_here("predict", here.path, points, "--agent", "west", "--runs", here.runs)
    expected = [float(row["probability"]) for row in csv.DictReader(asked.stdout.splitlines())]
    assert [probability[0, 0], probability[-1, -1]] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "map.pdf"], "--out map.pdf: a map is a .png, an .npz, or a .zip for Nav2"),
        (["--out", "nowhere/map.png"], "--out nowhere/map.png: cannot be written: No such file or directory"),
        (["--out", "map.png", "--layer", "colour"], "--layer: input should be 'probability', 'mean'"),
        (["--out", "map.png", "--resolution", "0"], "--resolution: input should be greater than 0"),
        (["--out", "map.zip", "--occupied-thresh", "2"], "--occupied-thresh: input should be less than or equal to 1"),
        (["--out", "map.png", "--bounds", "1,2"], "bounds are four numbers: left,bottom,right,top"),
        (["--out", "map.zip", "--free-thresh", "0.9"], "free_thresh 0.9 and occupied_thresh 0.65"),
    ],
)
def test_a_map_that_cannot_be_is_one_sentence(delbo_here: Delbo, here: Here, options: list[str], said: str) -> None:
    refused = delbo_here("map", here.path, *options, "--runs", here.runs)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert said in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_predict_of_numbers_tells_mean_and_variance(delbo_here: Delbo, agents: Agents, tmp_path: Path) -> None:
    agent = agents("a1")
    features = {"kind": "centers", "centers": [[0.0], [1.0]], "lengthscale": 0.5}
    model = {"features": features, "family": "full", "prior": {"information": 1.0}}
    np.savez(tmp_path / "line.npz", x=[0.0, 0.5, 1.0])
    refused = delbo_here("predict", agent.url, tmp_path / "line.npz")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "has no model yet" in refused.stderr
    agent.put("model", {"revision": 1, "model": {**model, "likelihood": {"kind": "gaussian", "precision": 4.0}}})
    rows = list(csv.DictReader(delbo_here("predict", agent.url, tmp_path / "line.npz").stdout.splitlines()))
    assert list(rows[0]) == ["x1", "mean", "variance"]
    assert [float(row["mean"]) for row in rows] == [0.0, 0.0, 0.0]
    assert all(float(row["variance"]) > 0.25 for row in rows)  # the noise alone is 1/4


def test_a_stream_that_is_there_is_not_posted_again_and_another_one_is_refused_and_changes_nothing(
    delbo_here: Delbo, here: Here
) -> None:
    urls = here.urls()
    before = documents_at(urls.values())
    again = delbo_here("stream", here.path, "--runs", here.runs)
    assert again.stdout == "648 observations are with their agents, 648 of them before\n"
    others: list[dict[str, Any]] = [
        {"stream": {"batch": 40}},
        {"data": {"kind": "table", "path": "points.npz", "partition": "random"}},
        {"data": {"kind": "table", "path": "points.npz", "rows": "0:600"}},
        {"data": [{"kind": "table", "path": "points.npz"}] * 2},
    ]
    for number, changes in enumerate(others):
        other = here.variant(f"other-{number}", topology="line", **changes)
        for command in ("stream", "run"):
            refused = delbo_here(command, other, "--runs", here.runs)
            assert (refused.returncode, refused.stdout) == (2, "")
            assert "has already been given other data under the name small" in refused.stderr
    assert documents_at(urls.values()) == before
    assert [status.observations.collected for status in statuses_at(urls.values())] == [216] * 3


def test_apply_of_the_same_file_changes_nothing(delbo_here: Delbo, here: Here) -> None:
    before = documents_at(here.urls().values())
    applied = delbo_here("apply", here.path, "--runs", here.runs)
    assert (applied.returncode, applied.stderr) == (0, "")
    assert applied.stdout == "the agents have what the file says\n"
    assert documents_at(here.urls().values()) == before


def test_logs_are_the_last_lines_of_all_or_of_one(delbo_here: Delbo, here: Here) -> None:
    own = here.cluster.log("west").read_text().splitlines()
    assert delbo_here("logs", here.path, "west", "-n", 2, "--runs", here.runs).stdout.splitlines() == own[-2:]
    assert delbo_here("logs", here.path, "west", "-n", 0, "--runs", here.runs).stdout == ""
    assert delbo_here("logs", here.path, "west", "-n", 9999, "--runs", here.runs).stdout.splitlines() == own
    of_all = delbo_here("logs", here.path, "-n", 1, "--runs", here.runs).stdout.splitlines()
    assert of_all[-1] == f"west  {own[-1]}"
    assert [line.split("  ")[0] for line in of_all] == NAMES


def test_logs_that_are_followed_go_on_until_ctrl_c(here: Here, tmp_path: Path) -> None:
    log = here.cluster.log("north")
    with Run(tmp_path, "logs", here.path, "north", "-n", 1, "-f", "--runs", here.runs) as following:
        until(lambda: following.text())
        with log.open("a") as file:
            file.write("one line [more] and\n")
        until(lambda: following.text().endswith("one line [more] and\n"))
        assert following.interrupt() != 0
        assert "Traceback" not in following.text(1)


def test_an_address_where_another_agent_answers_is_told(delbo_here: Delbo, here: Here) -> None:
    urls = here.urls()
    entries = [{"name": name, "url": urls[other]} for name, other in zip(NAMES, [NAMES[2], *NAMES[:2]], strict=True)]
    path = here.variant("mixed-up", agents=entries)
    for command in ("run", "up", "apply", "stream", "evaluate"):
        refused = delbo_here(command, path, "--runs", here.runs)
        assert refused.returncode == 2
        assert f"delbo: {urls['west']} is west, not north: mend the url or the name\n" in refused.stderr
    assert "is west, not north" in delbo_here("status", path, "--once", "--runs", here.runs).stdout


def test_agents_with_another_model_are_told_by_name(delbo_here: Delbo, here: Here) -> None:
    model = load_plan(here.path).spec.model_dump(exclude_none=True)
    path = here.variant("model", model={**model, "prior": {"information": 0.9}})
    for command in ("run", "up", "apply", "stream", "evaluate"):
        refused = delbo_here(command, path, "--runs", here.runs)
        assert refused.returncode == 2
        assert "delbo: north holds another model" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert delbo_here("status", path, "--once", "--runs", here.runs).stdout.count("holds another model") == 3


def test_data_that_the_model_cannot_take_are_refused_by_the_files_name(
    delbo_here: Delbo, here: Here, tmp_path: Path
) -> None:
    np.savez(tmp_path / "three.npz", x=np.zeros((50, 3)), y=np.zeros(50))
    np.savez(tmp_path / "numbers.npz", x=np.zeros((50, 2)), y=np.arange(50))
    for name, said in (("three", "3 coordinate"), ("numbers", "must be 0 or 1")):
        refused = delbo_here("evaluate", here.path, "--test", tmp_path / f"{name}.npz", "--runs", here.runs)
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"delbo: {tmp_path / name}.npz: ")
        assert said in refused.stderr
        path = write_network(tmp_path, 3, data={"kind": "table", "path": f"{name}.npz"})
        refused = delbo_here("run", path, "--runs", tmp_path / "runs")
        assert refused.returncode == 2
        assert f"{name}.npz: " in refused.stderr
        assert not (tmp_path / "runs").exists()
