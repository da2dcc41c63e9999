"""`delbo fit` and `delbo weights`, as a user runs them."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from service.wire.model import ModelSpec
from tests.conftest import ROOT, Delbo, printed_as_json

Json = Callable[..., Any]

CHOSEN = {"kind": "centers", "choose": {"how": "random", "count": 5}, "lengthscale": 0.3}
VECTOR = {"kind": "gaussian", "precision": [[4.0]]}
STUDENT_T = {"kind": "student_t", "degrees": 4, "scale": 0.5}
LATTICE = {"kind": "lattice", "spacing": 0.25, "lengthscale": 0.2, "lower": [-1, -1], "upper": [1, 1]}


@pytest.fixture
def delbo(delbo_here: Delbo) -> Delbo:
    """In this process: a new one for each of so many would take as long as all the rest."""
    return delbo_here


@pytest.fixture
def delbo_json(delbo: Delbo) -> Json:
    """The object that the command prints with --json."""
    return printed_as_json(delbo)


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    """Write a model document."""

    def write(**changes: Any) -> Path:
        document = {"features": LATTICE, "prior": {"information": 0.2}, "likelihood": "probit", **changes}
        path = tmp_path / "model.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    return write


@pytest.fixture
def disc(tmp_path: Path) -> Path:
    """Is a point inside the disc? 2,000 points, in four groups by quadrant."""
    x = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    quadrant = 2 * (x[:, 0] > 0) + (x[:, 1] > 0)
    path = tmp_path / "disc.npz"
    np.savez(path, x=x, y=(np.hypot(*x.T) < 0.7).astype(int), quadrant=quadrant)
    return path


def test_agents_that_saw_a_quadrant_each_know_the_whole_disc(
    delbo_json: Json, model: Callable[..., Path], disc: Path
) -> None:
    run = ("fit", model(), disc, "--partition", "quadrant", "--holdout", 5, "--batch", 4, "--passes", 2, "--compare")
    result = delbo_json(*run)
    keys = {"model_id", "features", "rounds", "seconds", "spectral_gap", "agents", "centralized", "isolated"}
    assert keys <= set(result)
    assert result["features"] == 82
    assert result["spectral_gap"] == pytest.approx(2 / 3)
    assert [agent["name"] for agent in result["agents"]] == ["agent-1", "agent-2", "agent-3", "agent-4"]
    assert sum(agent["observations"] for agent in result["agents"]) == 2 * 1600
    assert result["rounds"] == -(-max(agent["observations"] for agent in result["agents"]) // 4)
    scores = {"accuracy", "balanced_accuracy", "cross_entropy", "calibration_error"}
    assert scores | {"consensus_error", "consensus_divergence"} <= set(result["agents"][0])
    assert min(agent["accuracy"] for agent in result["agents"]) > 0.94
    assert max(agent["accuracy"] for agent in result["isolated"]) < 0.92
    network = np.mean([agent["consensus_divergence"] for agent in result["agents"]])
    assert result["consensus_divergence"] == pytest.approx(network, rel=1e-6)
    again = delbo_json(*run)
    assert {**again, "seconds": 0} == {**result, "seconds": 0}  # the same to the last digit


def test_the_seed_decides_what_is_random(delbo_json: Json, model: Callable[..., Path], disc: Path) -> None:
    centers = {"kind": "centers", "choose": {"how": "random", "count": 30}, "lengthscale": 0.3}
    run = ("fit", model(features=centers), disc, "--holdout", 5, "--agents", 3, "--order", "shuffled", "--batch", 10)
    first, same, other = (delbo_json(*run, "--seed", seed) for seed in (4, 4, 5))
    assert first["agents"] == same["agents"]
    assert first["model_id"] == same["model_id"]
    assert first["model_id"] != other["model_id"]


def test_regression_reports_rmse_and_log_density(delbo_json: Json, model: Callable[..., Path], tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (1500, 2))
    y = np.sin(3 * x[:, 0]) + generator.normal(0, 0.1, 1500)
    np.savez(tmp_path / "wave.npz", x=x, y=y)
    changes: dict[str, Any] = {"family": "full", "likelihood": {"kind": "gaussian", "precision": 100.0}}
    run = ("fit", model(**changes), tmp_path / "wave.npz", "--holdout", 5, "--agents", 4, "--batch", 20, "--compare")
    result = delbo_json(*run)
    for agent in [*result["agents"], result["centralized"]]:
        assert agent["rmse"] < 0.12  # the noise alone is 0.1
        assert agent["log_density"] == pytest.approx(0.88, abs=0.1)  # of N(0, 0.1): -log(0.1 sqrt(2 pi e)) = 0.884
        assert "accuracy" not in agent


def test_vectors_of_two_components_are_learned_together(
    delbo_json: Json, model: Callable[..., Path], tmp_path: Path
) -> None:
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, (600, 2))
    y = np.stack([np.sin(2 * x[:, 0]), x[:, 1]], axis=1) + generator.normal(0, 0.1, (600, 2))
    np.savez(tmp_path / "vectors.npz", x=x, y=y)
    for family in ("full", "diagonal"):
        likelihood = {"kind": "gaussian", "precision": [[100.0, 20.0], [20.0, 100.0]]}
        path = model(family=family, likelihood=likelihood)
        result = delbo_json("fit", path, tmp_path / "vectors.npz", "--holdout", 5, "--agents", 2, "--batch", 10)
        assert max(agent["rmse"] for agent in result["agents"]) < 0.2


def test_the_out_folder_holds_plots_a_page_and_the_model(
    delbo: Delbo, model: Callable[..., Path], disc: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    finished = delbo(
        *("fit", model(), disc, "--agents", 2, "--holdout", 5, "--batch", 20, "--compare", "--out", folder)
    )
    assert finished.returncode == 0, finished.stderr
    names = {"report.html", "maps.png", "agents.png", "curves.png", "result.json", "model.json", "beliefs.npz"}
    assert {path.name for path in folder.iterdir()} == names
    assert finished.stderr == ""  # no progress bar in a pipe
    written = json.loads((folder / "result.json").read_text())
    resolved = ModelSpec.parse(json.loads((folder / "model.json").read_text()))
    assert resolved.model_id == written["model_id"]
    with np.load(folder / "beliefs.npz") as beliefs:
        assert beliefs["information"].shape == beliefs["shift"].shape == (2, 82)
    for name in ("maps.png", "agents.png", "curves.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_a_terminal_sees_a_progress_bar(model: Callable[..., Path], disc: Path) -> None:
    """Standard error is a terminal of our own; that a pipe gets none, the test of the out folder shows."""
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "client", "fit", str(model()), str(disc), "--holdout", "5", "--agents", "2"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=end, env={**os.environ, "TERM": "xterm"}
    ) as run:
        os.close(end)
        seen = b""
        with contextlib.suppress(OSError):  # that is how a terminal says that its other end is closed
            while piece := os.read(terminal, 4096):
                seen += piece
    os.close(terminal)
    assert run.returncode == 0
    assert b"learning together" in seen
    assert b"800/800" in seen


def test_points_outside_the_lattice_are_counted_and_reported(
    delbo: Delbo, delbo_json: Json, model: Callable[..., Path], tmp_path: Path
) -> None:
    x = np.vstack([np.random.default_rng(0).uniform(-1, 1, (90, 2)), np.full((10, 2), 40.0)])
    np.savez(tmp_path / "far.npz", x=x, y=np.zeros(100, int))
    run = ("fit", model(), tmp_path / "far.npz", "--rows", ":", "--test-rows", "50:")
    result = delbo_json(*run)
    assert result["agents"][0]["uncovered"] == 10
    assert result["agents"][0]["observations"] == 100
    assert result["test"] == {"rows": 50, "uncovered": 10}
    finished = delbo(*run)
    assert "no centre reaches 10 of 100 training observations" in finished.stderr
    assert "no centre reaches 10 of 50 test points" in finished.stderr
    assert "50 of 50 test rows are training rows too" in finished.stderr


def test_without_a_test_set_the_scores_say_that_they_are_on_training_rows(
    delbo: Delbo, model: Callable[..., Path], disc: Path
) -> None:
    finished = delbo("fit", model(), disc, "--batch", 100)
    assert finished.returncode == 0
    assert "the scores are on the training rows" in finished.stderr


def test_a_test_file_is_read_like_the_data(delbo_json: Json, model: Callable[..., Path], tmp_path: Path) -> None:
    """The column that groups rows is no coordinate in the test file either."""
    (tmp_path / "train.csv").write_text("a,b,robot,y\n0,0,1,1\n0.1,0,2,1\n")
    (tmp_path / "test.csv").write_text("a,b,robot,y\n0,0,7,0\n0.1,0,7,0\n0,0.1,8,0\n")
    run = ("fit", model(), tmp_path / "train.csv", "--test", tmp_path / "test.csv", "--partition", "robot")
    result = delbo_json(*run)
    assert result["test"]["rows"] == 3
    assert [agent["groups"] for agent in result["agents"]] == [[1], [2]]
    assert max(agent["accuracy"] for agent in result["agents"]) == 0  # all labels are the other way round there


def test_a_single_agent_is_the_centralised_learner_and_is_isolated(
    delbo_json: Json, model: Callable[..., Path], disc: Path
) -> None:
    result = delbo_json("fit", model(), disc, "--holdout", 5, "--batch", 12, "--order", "shuffled", "--compare")
    assert result["likelihood_weight"] == 1
    for score in ("accuracy", "cross_entropy", "calibration_error"):
        assert result["agents"][0][score] == result["centralized"][score] == result["isolated"][0][score]


def test_forgetting_and_the_rule_of_mixing_weights_matter(
    delbo_json: Json, model: Callable[..., Path], disc: Path
) -> None:
    run = ("fit", model(), disc, "--holdout", 5, "--agents", 5, "--topology", "line", "--batch", 20)
    plain, fading = delbo_json(*run), delbo_json(*run, "--forgetting", 0.5)
    assert fading["agents"][0]["cross_entropy"] > 1.5 * plain["agents"][0]["cross_entropy"]
    fastest = delbo_json(*run, "--mixing-weights", "fastest")
    assert fastest["spectral_gap"] > plain["spectral_gap"] + 0.01
    assert fastest["spectral_gap"] == pytest.approx(1 - np.cos(np.pi / 5), abs=1e-5)


def test_a_group_without_training_rows_is_noted(delbo: Delbo, model: Callable[..., Path], tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    np.savez(tmp_path / "robots.npz", x=x, y=np.zeros(30, int), robot=np.arange(30) % 3)
    finished = delbo("fit", model(), tmp_path / "robots.npz", "--partition", "robot", "--holdout", 3)
    assert "robot 0: no training rows are left" in finished.stderr


@pytest.mark.parametrize(
    ("points", "target", "changes"),
    [
        (np.full((40, 2), 1e8), np.arange(40) % 2, {"features": CHOSEN}),
        (np.linspace(0, 1, 40), np.arange(40) % 2, {"features": CHOSEN}),
        (np.linspace(0, 1, 120).reshape(40, 3), np.arange(40), {"features": CHOSEN, "likelihood": "poisson"}),
        (np.linspace(0, 1, 80).reshape(40, 2), np.ones((40, 1)), {"likelihood": VECTOR}),
        (np.linspace(0, 1, 80).reshape(40, 2), np.ones(40), {"family": "full", "likelihood": STUDENT_T}),
    ],
    ids=["all points in one place", "a line", "three dimensions", "vectors of one component", "a full family"],
)
def test_every_kind_of_model_leaves_a_report(
    delbo_here: Delbo, model: Callable[..., Path], tmp_path: Path, points: Any, target: Any, changes: dict[str, Any]
) -> None:
    np.savez(tmp_path / "data.npz", x=points, y=target)
    folder = tmp_path / "out"
    run = ("fit", model(**changes), tmp_path / "data.npz", "--agents", 2, "--batch", 5, "--holdout", 4, "--compare")
    finished = delbo_here(*run, "--out", folder)
    assert finished.returncode == 0, finished.stderr
    assert "consensus" in finished.stdout
    names = {path.name for path in folder.iterdir()}
    assert {"report.html", "curves.png", "result.json", "model.json", "beliefs.npz"} <= names
    assert ("maps.png" in names) == (points.ndim == 2 and points.shape[1] == 2 and target.ndim == 1)


def test_weights_tell_how_fast_agents_agree(delbo: Delbo, delbo_json: Json, tmp_path: Path) -> None:
    ring = delbo_json("weights", "ring", "--agents", 4)
    third = pytest.approx(1 / 3, abs=1e-12)
    assert ring["mixing_weights"][0] == [third, third, 0, third]
    assert ring["spectral_gap"] == pytest.approx(2 / 3)
    assert (ring["rounds_to_shrink_tenfold"], ring["history"]) == (3, 2)
    shown = delbo("weights", "ring", "--agents", 4).stdout
    assert "0.3333" in shown
    assert "spectral gap" in shown
    (tmp_path / "cycle.txt").write_text("directed\n0 1\n1 2\n2 3\n3 0\n")
    assert delbo_json("weights", tmp_path / "cycle.txt")["history"] == 4
    (tmp_path / "places.csv").write_text("0,0\n1,0\n2,0\n")
    line = delbo_json(
        *("weights", "geometric", "--positions", tmp_path / "places.csv", "--radius", 1.5),
        *("--mixing-weights", "metropolis"),
    )
    assert line["mixing_weights"][0] == [pytest.approx(2 / 3), third, 0]
    np.savetxt(tmp_path / "own.csv", [[0.9, 0.1], [0.1, 0.9]], delimiter=",")
    own = delbo_json("weights", tmp_path / "own.csv", "--mixing-weights", "given")
    assert own["mixing_weights"] == [[0.9, 0.1], [0.1, 0.9]]
