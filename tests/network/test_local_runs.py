"""`delbo run` with agents that it starts itself: interrupted, killed, and run again."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.cluster import Cluster
from tests.conftest import Delbo
from tests.network.plans import check_run, documents_at, statuses_at, write_network
from tests.network.runs import Run, processes_of
from tests.processes import until
from tests.website import website

NAMES = ["agent-1", "agent-2", "agent-3"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "runs" / "small", NAMES)
    yield cluster
    asyncio.run(cluster.down())


def urls(cluster: Cluster) -> list[str]:
    return list(asyncio.run(cluster.running()).values())


def collected(cluster: Cluster) -> int:
    """Observations that the agents have, once all three run; 0 before."""
    running = urls(cluster)
    return sum(status.observations.collected for status in statuses_at(running)) if len(running) == 3 else 0


@pytest.mark.thorough
def test_ctrl_c_ends_the_agents_that_it_started_and_kill_leaves_them_and_the_next_run_goes_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = write_network(tmp_path, 3, topology="line", stream={"batch": 6, "rate_per_s": 10})  # it would take 20 s
    command = ("run", path, "--runs", tmp_path / "runs", "--json")

    with Run(tmp_path, *command) as run:
        until(lambda: collected(cluster) > 30)
        code = run.interrupt()
        assert code != 0
        assert "Traceback" not in run.text(1)
    assert processes_of(cluster.folder) == []

    with Run(tmp_path, *command) as run:
        until(lambda: collected(cluster) > 60)
        run.kill()
    left = processes_of(cluster.folder)
    assert len(left) == len(urls(cluster)) == 3

    write_network(tmp_path, 3, topology="line", stream={"batch": 6})  # the rest as fast as it goes
    with Run(tmp_path, *command) as run:
        run.finish()
    assert processes_of(cluster.folder) == left  # found, not started
    check_run(path, urls(cluster))  # and so left


def test_ctrl_c_while_agents_start_leaves_none(cluster: Cluster, tmp_path: Path) -> None:
    path = write_network(tmp_path, 3)
    with Run(tmp_path, "run", path, "--runs", tmp_path / "runs") as run:
        until(lambda: cluster.log(NAMES[2]).exists())  # the last of them is being started
        run.process.send_signal(signal.SIGINT)
        run.process.wait()
        assert "Traceback" not in run.text(1)
    assert processes_of(cluster.folder) == []


@pytest.mark.thorough
def test_an_agent_whose_port_is_taken_gets_another_and_its_neighbors_are_told(
    cluster: Cluster, tmp_path: Path, delbo_here: Delbo, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_network(tmp_path, 3, topology="line")
    assert delbo_here("run", path, "--runs", tmp_path / "runs", "--keep").returncode == 0
    before = asyncio.run(cluster.running())
    asyncio.run(cluster.down())
    monkeypatch.setattr("client.gathering._STANDSTILL_S", 0.5)  # they cannot come together before they are told
    with website(int(before[NAMES[0]].rpartition(":")[2])):
        started = delbo_here("up", path, "--runs", tmp_path / "runs")
    assert started.returncode == 0, started.stderr
    assert "did not come to one common round" in started.stderr
    after = asyncio.run(cluster.running())
    assert after[NAMES[0]] != before[NAMES[0]]
    _, (_, neighbors, _), _ = documents_at(after.values())
    assert neighbors.epoch == 2
    assert {link.name: link.url for link in neighbors.neighbors} == {name: after[name] for name in NAMES[::2]}
    until(lambda: all(status.phase == "finished" and status.epoch == 2 for status in statuses_at(after.values())))
