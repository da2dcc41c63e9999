"""Agents that are left running: they take posts, any of them can be asked, and all of them can be ended."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.blocking import BlockingAgentClient
from client.cluster import Cluster
from service.wire.address import read_address
from tests.conftest import Delbo
from tests.network.plans import statuses_at, write_network
from tests.network.runs import Run, processes_of
from tests.processes import until

pytestmark = pytest.mark.thorough  # `make test-faults` runs them


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "runs" / "small", ["agent-1", "agent-2"])
    yield cluster
    asyncio.run(cluster.down_all())


def url_of(cluster: Cluster, name: str) -> str:
    return asyncio.run(cluster.running())[name]


def test_agents_that_are_kept_take_posts_answer_for_themselves_and_are_all_ended(
    cluster: Cluster, tmp_path: Path, delbo_here: Delbo
) -> None:
    path, runs = write_network(tmp_path, 2), ("--runs", tmp_path / "runs")
    kept = delbo_here("run", path, "--keep", *runs)
    assert kept.returncode == 0, kept.stderr
    assert f"down {path} --runs {tmp_path / 'runs'}" in kept.stdout

    url = url_of(cluster, "agent-1")
    [before] = statuses_at([url])
    with BlockingAgentClient(url) as agent:
        agent.post([[1.0, 1.0], [2.0, 2.0]], [1, 0])
        until(lambda: agent.status().observations.applied == before.observations.collected + 2)

    address = read_address(cluster.data_dir("agent-2"))
    assert address is not None
    asyncio.run(Cluster(cluster.folder, ["agent-2"]).down())
    (tmp_path / "where.csv").write_text("x,y\n1,1\n")
    asked = delbo_here("predict", path, tmp_path / "where.csv", "--agent", "agent-1", *runs)
    assert (asked.returncode, asked.stderr) == (0, "")
    missing = delbo_here("predict", path, tmp_path / "where.csv", "--agent", "agent-2", *runs)
    assert missing.returncode == 2
    assert "agent-2 does not run" in missing.stderr

    smaller = write_network(tmp_path, 1)  # agent-1 alone; agent-2 is no longer in the file
    asyncio.run(Cluster(cluster.folder, ["agent-2"]).up())
    ended = delbo_here("down", smaller, *runs)
    assert (ended.returncode, ended.stdout) == (0, "ended agent-1, agent-2\n")
    assert processes_of(cluster.folder) == []


def test_sigterm_ends_what_a_run_has_started(cluster: Cluster, tmp_path: Path) -> None:
    path = write_network(tmp_path, 2, stream={"batch": 5, "rate_per_s": 10})
    with Run(tmp_path, "run", path, "--runs", tmp_path / "runs") as run:
        until(lambda: len(asyncio.run(cluster.running())) == 2)
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait() == 128 + signal.SIGTERM
        assert "Traceback" not in run.text(1)
    assert processes_of(cluster.folder) == []


@pytest.mark.thorough
def test_a_run_names_the_stream_of_somebody_else_that_holds_it_up(cluster: Cluster, tmp_path: Path) -> None:
    path = write_network(tmp_path, 2)
    runs = ("--runs", tmp_path / "runs")
    with Run(tmp_path, "up", path, *runs) as up:
        assert up.process.wait() == 0, up.text(1)
    with BlockingAgentClient(url_of(cluster, "agent-2")) as agent:
        stream = agent.stream("robot-7")
        stream.post([[1.0, 1.0]], [1])
        with Run(tmp_path, "run", path, *runs) as run:
            until(lambda: "agent-2 waits for data of robot-7" in run.text(1))
            stream.end()
            assert run.process.wait() == 0, run.text(1)


def test_fresh_is_refused_where_an_agent_runs_elsewhere(tmp_path: Path, delbo_here: Delbo) -> None:
    agents = ["agent-1", {"name": "agent-2", "url": "http://127.0.0.1:9"}]
    refused = delbo_here("run", write_network(tmp_path, agents), "--fresh", "--runs", tmp_path / "runs")
    assert refused.returncode == 2
    assert "agent-2 runs elsewhere: start it with an empty data directory" in refused.stderr
    assert not (tmp_path / "runs").exists()


def test_the_demo_refuses_a_folder_that_cannot_name_a_network_or_holds_one(tmp_path: Path, delbo_here: Delbo) -> None:
    odd = delbo_here("demo", "--out", tmp_path / "my demo")
    assert odd.returncode == 2
    assert "take letters, digits" in odd.stderr
    own = write_network(tmp_path, 2)
    before = own.read_text()
    taken = delbo_here("demo", "--out", tmp_path)
    assert taken.returncode == 2
    assert "take another folder" in taken.stderr
    assert own.read_text() == before
