"""Local agents as processes: found again, brought back, ended; and nobody else's process is touched."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from client.agent_client import AgentClient
from client.cluster import Cluster, folder_name
from client.retries import Patience
from service.errors import SettingError
from service.wire.address import Address, read_address, write_address
from service.wire.answers import Status
from service.wire.configuration import check_name
from tests.network.runs import processes_of
from tests.processes import PATIENCE_S, until
from tests.website import website

NAMES = ["-a/b c.d", "ü" * 64]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two agents with names that are no names of folders; none runs yet."""
    cluster = Cluster(tmp_path / "runs" / "small", NAMES)
    yield cluster
    asyncio.run(cluster.down())
    assert processes_of(cluster.folder) == []


def address_of(cluster: Cluster, name: str) -> Address:
    address = read_address(cluster.data_dir(name))
    assert address is not None
    return address


def statuses(urls: dict[str, str]) -> list[Status]:
    async def ask(url: str) -> Status:
        async with AgentClient(url) as agent:
            return await agent.status()

    return [asyncio.run(ask(url)) for url in urls.values()]


@contextmanager
def sleeping(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody's process that has these words on its command line."""
    command = [sys.executable, "-c", "import time; time.sleep(600)", *arguments]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.thorough
def test_agents_are_started_once_brought_back_where_they_were_and_ended(cluster: Cluster) -> None:
    assert asyncio.run(cluster.running()) == {}
    urls = asyncio.run(cluster.up())
    assert list(urls) == NAMES
    before = statuses(urls)
    assert [status.agent for status in before] == NAMES
    processes = processes_of(cluster.folder)
    assert len(processes) == 2

    # Another command, which has started none of them, finds them all.
    other = Cluster(cluster.folder, NAMES)
    assert asyncio.run(other.up()) == urls == asyncio.run(other.running())
    assert processes_of(cluster.folder) == processes

    victim = address_of(cluster, NAMES[1])
    os.kill(victim.pid, signal.SIGKILL)
    until(lambda: NAMES[1] not in asyncio.run(other.running()))
    assert asyncio.run(other.up()) == urls
    assert [status.incarnation for status in statuses(urls)] == [status.incarnation for status in before]
    assert len(processes_of(cluster.folder)) == 2

    assert asyncio.run(cluster.down()) == NAMES
    assert processes_of(cluster.folder) == []
    assert asyncio.run(cluster.down()) == asyncio.run(other.down()) == []

    # Meanwhile somebody else has taken a port.
    with website(int(urls[NAMES[0]].rpartition(":")[2])):
        moved = asyncio.run(cluster.up())
    assert moved[NAMES[0]] != urls[NAMES[0]]
    assert moved[NAMES[1]] == urls[NAMES[1]]

    # Who answers where an agent was need not be that agent.
    stranger = Cluster(cluster.folder, ["stranger"])
    stranger.data_dir("stranger").mkdir()
    write_address(
        stranger.data_dir("stranger"), msgspec.structs.replace(address_of(cluster, NAMES[1]), agent="stranger")
    )
    assert asyncio.run(stranger.running()) == {}
    assert asyncio.run(stranger.down()) == []
    assert asyncio.run(cluster.running()) == moved


@pytest.mark.thorough
def test_of_several_that_start_an_agent_at_once_all_find_the_same_process(tmp_path: Path) -> None:
    clusters = [Cluster(tmp_path, ["a1"]) for _ in range(3)]

    async def start_at_once() -> set[str]:
        return {urls["a1"] for urls in await asyncio.gather(*(cluster.up() for cluster in clusters))}

    assert len(asyncio.run(start_at_once())) == 1
    [pid] = processes_of(tmp_path)
    os.kill(pid, signal.SIGKILL)  # the next time they all have an address to come back to
    assert len(asyncio.run(start_at_once())) == 1
    assert len(processes_of(tmp_path)) == 1
    assert [asyncio.run(cluster.down()) for cluster in clusters] == [["a1"], [], []]
    assert processes_of(tmp_path) == []


def test_an_agent_that_is_still_starting_is_ended_too(cluster: Cluster) -> None:
    async def break_off() -> None:
        up = asyncio.create_task(cluster.up())
        await asyncio.to_thread(until, lambda: len(processes_of(cluster.folder)) == 2)
        up.cancel()
        with suppress(asyncio.CancelledError):
            await up
        await cluster.down()

    asyncio.run(break_off())
    assert processes_of(cluster.folder) == []


def test_a_process_that_has_an_agents_number_by_chance_is_left_alone(tmp_path: Path) -> None:
    """The agent died without a word, and the system has used its number again."""
    cluster = Cluster(tmp_path, ["agent-1", "agent-2"])
    for name in cluster.names:
        cluster.data_dir(name).mkdir()
    folder = str(tmp_path / "agent-1")
    named = ("-m", "service", "--name", "agent-10", "--data-dir", f"{folder}0", "--port", "0")
    with (
        sleeping() as foreign,
        sleeping("tail", "-f", f"{folder}/agent.sqlite3"[:-3]) as reader,
        sleeping(*named) as other,
    ):
        for process in (foreign, reader, other):
            write_address(cluster.data_dir("agent-1"), Address("agent-1", 7, process.pid, "http://127.0.0.1:9"))
            assert asyncio.run(cluster.running()) == {}
            assert asyncio.run(cluster.down()) == []
            assert process.poll() is None
    assert asyncio.run(cluster.down()) == []  # nor one that is no more


@pytest.mark.parametrize(
    "obstacle",
    ["a file that is no database", pytest.param("a file in place of the folder", marks=pytest.mark.thorough)],
)
def test_an_agent_that_cannot_start_is_told_with_its_last_words(tmp_path: Path, obstacle: str) -> None:
    cluster = Cluster(tmp_path, ["bad"])
    if obstacle == "a file in place of the folder":
        cluster.data_dir("bad").write_text("in the way")
        said = "cannot be used"
    else:
        cluster.data_dir("bad").mkdir()
        (cluster.data_dir("bad") / "agent.sqlite3").write_bytes(b"no database" * 1000)
        said = "is damaged, or no agent's file"
    with pytest.raises(SettingError, match=said) as caught:
        asyncio.run(cluster.up())
    assert str(caught.value).startswith("bad did not start: ")
    assert "\n" not in str(caught.value)
    assert processes_of(tmp_path) == []


@pytest.mark.thorough
def test_an_agent_whose_port_is_taken_at_the_last_moment_gets_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with website() as url:
        monkeypatch.setattr("client.cluster._port_to_take", lambda _: int(url.rpartition(":")[2]))
        cluster = Cluster(tmp_path, ["a1"])
        urls = asyncio.run(cluster.up())
        assert urls["a1"] != url
        assert [status.agent for status in statuses(urls)] == ["a1"]
        assert asyncio.run(cluster.down()) == ["a1"]


def test_an_agent_that_somebody_else_has_just_started_is_waited_for(tmp_path: Path) -> None:
    pauses = asyncio.Semaphore(0)

    async def sleep(seconds: float) -> None:
        pauses.release()
        await asyncio.sleep(seconds)

    cluster = Cluster(tmp_path, ["a1"], Patience(sleep=sleep))
    cluster.data_dir("a1").mkdir()
    (cluster.data_dir("a1") / "agent.sqlite3").write_bytes(b"in use" * 1000)  # by the other, which is about to answer

    async def up() -> None:
        with sleeping("-m", "service", "--name=a1", "--data-dir", str(tmp_path / "a1"), "--port", "0") as other:
            starting = asyncio.create_task(cluster.up())
            await asyncio.to_thread(until, lambda: cluster.log("a1").exists() and cluster.log("a1").read_text())
            await asyncio.to_thread(until, lambda: processes_of(tmp_path) == [other.pid])
            for _ in range(pauses._value + 5):
                await asyncio.wait_for(pauses.acquire(), PATIENCE_S)
            assert not starting.done()
            assert processes_of(tmp_path) == [other.pid]
        with pytest.raises(SettingError, match="a1 did not start"):
            await starting

    asyncio.run(up())


@pytest.mark.parametrize("place", ["file/runs", "/proc/runs"])
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SettingError, match="cannot be"):
        asyncio.run(Cluster(tmp_path / place, ["a1"]).up())


def test_what_is_forgotten_is_gone(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, ["a", "b"])
    for name in cluster.names:
        cluster.data_dir(name).mkdir()
        (cluster.data_dir(name) / "agent.sqlite3").touch()
        cluster.log(name).touch()
    (tmp_path / "report.html").touch()
    cluster.forget()
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


names = st.text(min_size=1, max_size=64).filter(lambda text: text.isprintable() and text == text.strip())


@given(st.lists(names, min_size=2, max_size=2, unique=True))
@example(["a", "a.log"])
def test_different_names_have_different_folders_and_logs_side_by_side(pair: list[str]) -> None:
    paths = []
    for name in pair:
        assert check_name(name) == name
        assert folder_name(name) not in ("", ".", "..")
        assert "/" not in folder_name(name)
        assert len(f"{folder_name(name)}.log".encode()) <= 255  # what file systems take
        paths += [folder_name(name), f"{folder_name(name)}.log"]
    assert len(set(paths)) == 4


def test_names_that_folders_can_have_are_kept_as_they_are() -> None:
    assert [folder_name(name) for name in ("agent-1", "north east", "a_b~c")] == ["agent-1", "north east", "a_b~c"]
    assert len({folder_name(name) for name in ("agent-1", "agent-1.log", "a/b", "a%2Fb", "ü" * 64, "ü" * 63)}) == 6
