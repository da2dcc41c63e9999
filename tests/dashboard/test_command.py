"""`delbo dashboard` as people start it and end it; and the one that goes on beside a network."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from client import processes
from client.dashboard import background
from client.dashboard.app import _MOST_LISTENERS
from client.dashboard.background import end_dashboards, kept_dashboard
from service.errors import SettingError
from service.wire.roles import ROLES
from service.wire.tokens import new_token
from tests.conftest import Delbo
from tests.dashboard.dashboards import Dashboard
from tests.network.plans import write_network
from tests.network.runs import Run, processes_of
from tests.processes import PATIENCE_S, ROOT, free_port, until


@contextmanager
def started(folder: Path, *arguments: object) -> Iterator[tuple[Run, str]]:
    """The command at work, and where it says that it is."""
    with Run(folder, "dashboard", *arguments, "--port", 0) as run:
        until(lambda: "http://" in run.text() or run.process.poll() is not None)
        found = re.search(r"http://\S+", run.text())
        assert found, run.text(1)
        yield run, found[0]


@contextmanager
def listening(url: str) -> Iterator[socket.socket]:
    """A browser that hears events, and reads no more of them."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(f"GET /api/events HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
        heard = b""
        while b"data: {" not in heard:
            piece = connection.recv(65_536)
            assert piece, heard
            heard += piece
        yield connection


def end_while_somebody_listens(run: Run, url: str, number: signal.Signals) -> None:
    """It ends at once, without a complaint; and the browser is told that it is over, so that it comes again."""
    with listening(url) as connection:
        run.process.send_signal(number)
        assert run.process.wait(10) == 128 + number
        assert run.text(1).strip() in ("", "delbo: interrupted")
        while piece := connection.recv(65_536):
            assert b"Traceback" not in piece


@pytest.mark.thorough
def test_sigterm_ends_it_though_somebody_listens(tmp_path: Path) -> None:
    with started(tmp_path, "--agent", f"http://127.0.0.1:{free_port()}") as (run, url):
        assert run.text() == f"dashboard of agents: {url}\n"
        end_while_somebody_listens(run, url, signal.SIGTERM)


def test_at_most_so_many_pages_listen_and_who_leaves_makes_room(trio: Dashboard) -> None:
    async def story() -> tuple[list[int], str, int]:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(base_url=trio.url, trust_env=False, limits=limits, timeout=60) as http:

            async def listen() -> httpx2.Response:
                return await http.send(http.build_request("GET", "/api/events"), stream=True)

            answers = await asyncio.gather(*(listen() for _ in range(_MOST_LISTENERS + 6)))
            codes = sorted(answer.status_code for answer in answers)
            refused = [answer for answer in answers if answer.status_code == 503]
            said = (await refused[0].aread()).decode() if refused else ""
            for answer in answers:
                await answer.aclose()
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    again = await listen()
                    await again.aclose()
                    if again.status_code == 200:
                        return codes, said, again.status_code

    codes, said, again = asyncio.run(story())
    assert codes == [200] * _MOST_LISTENERS + [503] * 6
    assert "pages are listening already" in said
    assert again == 200


def test_a_port_that_is_taken_is_told_in_one_sentence(delbo_here: Delbo) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = delbo_here("dashboard", "--agent", "http://127.0.0.1:1", "--port", port)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"delbo: 127.0.0.1:{port} cannot be listened on: ")
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--agent", "http://127.0.0.1:1", "--host", "0.0.0.0", "--port", 0), "say --insecure to let everybody in"),
        (("--agent", "http://127.0.0.1:1", "--host", "::", "--port", 0), "say --insecure to let everybody in"),
        (("--agent", "http://127.0.0.1:1", "--host", "no such host"), "cannot be listened on"),
        ((), "name a network's file, or agents with --agent, and not both"),
        (("NETWORK", "--agent", "http://127.0.0.1:1"), "name a network's file, or agents with --agent, and not both"),
        (("nowhere.yaml",), "nowhere.yaml"),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(
    delbo_here: Delbo, tmp_path: Path, arguments: tuple[object, ...], said: str
) -> None:
    path = write_network(tmp_path, ["a1"])
    refused = delbo_here("dashboard", *(path if one == "NETWORK" else one for one in arguments))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("delbo: ")
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_its_help_tells_every_option(delbo_here: Delbo) -> None:
    told = delbo_here("dashboard", "--help").stdout
    assert "Serve a web page that shows agents as they learn, until you press Ctrl-C." in told
    for option in ("--agent", "--host", "--port", "--every", "--read-only", "--insecure", "--allow-host", "--tokens"):
        assert option in told
    assert "Watch agents learn, on a web page." in delbo_here("--help").stdout


def test_a_file_names_the_agents_and_tokens_may_lack_roles_and_sigint_ends_it(tmp_path: Path) -> None:
    path, tokens = write_network(tmp_path, ["a1", "a2"]), tmp_path / "tokens"
    tokens.mkdir()
    for role in ROLES:
        if role != "control":
            (tokens / role).write_text(f"{new_token()}\n")
    options = ("--runs", tmp_path / "runs", "--tokens", tokens, "--allow-host", "robots.example", "--every", 0.2)
    with started(tmp_path, path, *options) as (run, url), httpx2.Client(base_url=url, trust_env=False) as http:
        state = http.get("/api/state").json()
        assert state["name"] == "small"
        assert [agent["name"] for agent in state["agents"]] == ["a1", "a2"]
        assert state["may"] == {"control": False, "ingest": True, "recent": True}
        assert state["period_s"] == 0.2
        assert http.get("/livez", headers={"host": "robots.example"}).status_code == 200
        assert http.get("/livez", headers={"host": "others.example"}).status_code == 403
        until(lambda: http.get("/api/state").json()["agents"][0]["reason"])
        told = http.get("/api/state").json()["agents"][0]
        assert (told["health"], told["reason"]) == ("unreachable", "a1 does not run, as far as anybody knows")
        end_while_somebody_listens(run, url, signal.SIGINT)  # Ctrl-C


@pytest.mark.thorough
def test_the_dashboard_beside_a_network_takes_a_free_port_and_ends_with_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delbo_here: Delbo
) -> None:
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        write_network(tmp_path / name, ["a1"])
    mine, other = tmp_path / "mine" / "network.yaml", tmp_path / "other" / "network.yaml"
    runs, own_port = tmp_path / "runs", free_port()
    monkeypatch.setattr(background, "_USUAL_PORT", own_port)

    async def keep(network: Path) -> str:
        async with kept_dashboard(network, runs) as url:
            return url

    with started(tmp_path, mine, "--runs", runs) as (by_hand, _), socket.socket() as taken:
        taken.bind(("127.0.0.1", own_port))
        taken.listen()
        try:
            urls = [asyncio.run(keep(network)) for network in (mine, other)]
            assert urls == [f"http://127.0.0.1:{own_port + 1}", f"http://127.0.0.1:{own_port + 2}"]
            assert [httpx2.get(f"{url}/livez", trust_env=False).status_code for url in urls] == [200, 200]
            ended = delbo_here("down", mine, "--runs", runs)
            assert (ended.returncode, ended.stdout) == (0, "ended the dashboard\n"), ended.stderr
            assert by_hand.process.poll() is None  # that is its user's own
            assert processes_of(mine) == [by_hand.process.pid]
            assert len(processes_of(other)) == 1
            assert "ended" not in delbo_here("down", mine, "--runs", runs).stdout
        finally:
            asyncio.run(end_dashboards(mine))
            asyncio.run(end_dashboards(other))
    assert processes_of(other) == []


@pytest.mark.thorough
def test_the_dashboard_beside_a_network_is_ended_if_the_run_fails_or_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_network(tmp_path, ["a1"])
    monkeypatch.setattr(background, "_USUAL_PORT", free_port())

    async def fail() -> None:
        async with kept_dashboard(path, tmp_path / "runs"):
            raise SettingError("the run fails")

    async def stop() -> None:
        """Ctrl-C before the dashboard answers."""
        running = asyncio.ensure_future(fail())
        while not processes_of(path):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.01)
        running.cancel()
        await running

    try:
        with pytest.raises(SettingError, match="the run fails"):
            asyncio.run(fail())
        assert processes_of(path) == []
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(stop())
        assert processes_of(path) == []
    finally:
        asyncio.run(end_dashboards(path))
        processes.reap()


def test_the_wheel_has_all_that_the_page_loads(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ})
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    static = ROOT / "client" / "dashboard" / "static"
    files = {str(file.relative_to(ROOT)) for file in static.rglob("*") if file.is_file()}
    assert "client/dashboard/static/index.html" in files
    assert files <= names
