"""`delbo demo`: four real agents, four robots, one building."""

import asyncio
import json
import shlex
from pathlib import Path

import httpx2
import numpy as np
import yaml

from client.cluster import Cluster
from client.demo import run_demo
from client.live import LiveView
from client.network.plan import load_plan
from client.streams.world.geometry import distance_to
from client.streams.world.tables import world_tables
from tests.conftest import Delbo, DemoRun
from tests.network.plans import write_data, write_network
from tests.network.runs import processes_of


def test_together_every_agent_knows_the_building_and_alone_none_does(demo: DemoRun) -> None:
    result = json.loads((demo.folder / "result.json").read_text())
    together = result["agents"]
    assert [agent["name"] for agent in together] == ["agent-1", "agent-2", "agent-3", "agent-4"]
    assert min(agent["accuracy"] for agent in together) >= 0.95
    balanced = [agent["balanced_accuracy"] for agent in together]
    assert min(balanced) >= 0.93
    assert max(balanced) - min(balanced) <= 0.005
    assert max(agent["balanced_accuracy"] for agent in result["isolated"]) < 0.8
    assert result["centralized"]["observations"] == sum(agent["observations"] for agent in together)


def test_every_robot_sees_about_a_quarter_and_agents_get_all_of_it_once(demo: DemoRun) -> None:
    plan = load_plan(demo.folder / "network.yaml")
    result = json.loads((demo.folder / "result.json").read_text())
    counts = [len(rows) for rows in plan.parts]
    assert [agent["observations"] for agent in result["agents"]] == counts
    assert min(counts) > 0.2 * sum(counts)


def test_the_test_points_lie_evenly_over_the_building(demo: DemoRun) -> None:
    content = yaml.safe_load((demo.folder / "network.yaml").read_text())
    settings = {key: value for key, value in content["data"].items() if key not in ("kind", "seed")}
    world, _, test = world_tables(content["data"]["seed"], content["verification"]["points"], robots=4, **settings)
    extent = np.array([world.plan.width_m, world.plan.height_m])
    quarters = (test.x > extent / 2).astype(int) @ [1, 2]
    assert (np.bincount(quarters, minlength=4) > 0.2 * len(test)).all()
    assert 0.05 < test.y.mean() < 0.25  # walls take that much of the area, and no more
    near = distance_to(world.plan.surfaces, test.x)
    assert near[test.y == 1].max() <= 0.1
    assert near[test.y == 0].min() >= 0.2


def test_the_demo_tells_how_it_goes_and_what_to_try_next(demo: DemoRun) -> None:
    assert "starting 4 agents" in demo.said
    assert "balanced accuracy" in demo.said
    assert "alone" in demo.said
    assert "Try next:" in demo.printed
    assert f"delbo run {demo.folder / 'network.yaml'} --runs {demo.folder.parent} --fresh" in demo.printed


def test_the_demo_leaves_files_and_where_it_is_told_to_its_agents_and_a_dashboard(demo: DemoRun) -> None:
    names = ["report.html", "maps.png", "agents.png", "curves.png", "result.json", "model.json", "beliefs.npz"]
    for name in names:
        assert (demo.folder / name).stat().st_size > 0
        assert str(demo.folder / name) in demo.printed
    agents = ["agent-1", "agent-2", "agent-3", "agent-4"]
    assert all((demo.folder / agent / "agent.sqlite3").exists() for agent in agents)
    assert sorted(asyncio.run(Cluster(demo.folder, agents).running())) == agents
    assert httpx2.get(f"{demo.dashboard}/api/state", trust_env=False).json()["name"] == "demo"
    assert f"delbo down {demo.folder / 'network.yaml'}" in demo.printed
    assert f"watch them on {demo.dashboard}" in demo.said


def test_the_demo_leaves_no_process_otherwise(tmp_path: Path) -> None:
    """Of a small network, as the demo's own takes long."""
    folder = tmp_path / "runs" / "small"
    folder.mkdir(parents=True)
    write_data(folder / "points.npz", 40)
    result, dashboard = asyncio.run(run_demo(write_network(folder, ["a1"]), False, LiveView()))
    assert result.summary["agents"][0]["name"] == "a1"
    assert dashboard is None
    assert (folder / "a1" / "agent.sqlite3").exists()
    assert processes_of(tmp_path) == []


def test_a_simulated_world_comes_with_what_to_learn_it(delbo: Delbo, tmp_path: Path) -> None:
    finished = delbo("simulate-world", "--robots", 2, "--scans", 8, "--test-points", 200, "--out", tmp_path)
    assert finished.returncode == 0, finished.stderr
    try_next = shlex.split(finished.stdout.partition("Try next:")[2])
    fitted = delbo(*try_next[1:], "--json")
    assert fitted.returncode == 0, fitted.stderr
    result = json.loads(fitted.stdout)
    assert len(result["agents"]) == 2
    assert result["test"] == {"rows": 200, "uncovered": 0}
