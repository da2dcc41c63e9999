"""The Intel lab from its laser log, by `delbo run examples/intel.yaml`: four real agents over HTTP."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.processes import Agents

EXAMPLE = ROOT / "examples" / "intel.yaml"

Run = Callable[..., Any]


@pytest.fixture
def run(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a network's file as a user would, from another folder; what it found out."""
    monkeypatch.setenv("DELBO_DATA", str(data_folder.resolve()))

    def call(path: Path, folder: Path) -> Any:
        command = [sys.executable, "-m", "client", "run", str(path), "--runs", str(folder / "runs"), "--json"]
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    return call


def check(result: Any) -> None:
    agents = result["agents"]
    assert len(agents) == 4
    assert min(agent["accuracy"] for agent in agents) >= 0.97
    assert sum(agent["observations"] for agent in agents) == 383_119 - 38_312  # one pass over all but every tenth row
    assert result["test"]["rows"] == 38_312


@pytest.mark.thorough
def test_every_local_agent_maps_the_lab_in_one_pass(run: Run, tmp_path: Path) -> None:
    check(run(EXAMPLE, tmp_path))


@pytest.mark.thorough
def test_the_same_file_works_with_agents_that_run_elsewhere(run: Run, tmp_path: Path, agents: Agents) -> None:
    content = yaml.safe_load(EXAMPLE.read_text())
    running = [agents(f"agent-{number}", wait=False) for number in range(1, 5)]
    content["agents"] = [{"name": agent.name, "url": agent.wait_ready().url} for agent in running]
    content["model"] = str(EXAMPLE.parent / content["model"])
    (tmp_path / "elsewhere.yaml").write_text(yaml.safe_dump(content))
    check(run(tmp_path / "elsewhere.yaml", tmp_path))
    for agent in running:
        assert agent.status()["observations"]["ended"]  # it still runs
    assert not (tmp_path / "runs").exists()
