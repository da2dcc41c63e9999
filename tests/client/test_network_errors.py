"""Commands for a network where there is none: one sentence on standard error, exit code 2, nothing started."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.retries import NO_PATIENCE
from tests.conftest import Delbo
from tests.network.plans import write_data, write_network
from tests.website import website

COMMANDS = ["run", "up", "apply", "stream", "status", "evaluate", "logs", "down"]
NEEDS_AGENTS = ["run", "up", "apply", "stream", "evaluate"]


@pytest.fixture
def ask(delbo_here: Delbo, tmp_path: Path) -> Any:
    """Run a command that is refused; the sentence that it says."""

    def call(*arguments: object) -> str:
        refused = delbo_here(*arguments, "--runs", tmp_path / "runs")
        assert (refused.returncode, refused.stdout) == (2, ""), refused.stdout
        *told, sentence = refused.stderr.splitlines()
        assert all(line.startswith(" ") for line in told), refused.stderr  # of a run, what it does
        assert sentence.startswith("delbo: ")
        assert not (tmp_path / "runs").exists()
        return sentence.removeprefix("delbo: ")

    return call


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no such file"),
        ("", "a network is a mapping"),
        ("agents: [", "is no YAML"),
        ("agents: 3\nmodell: x", "model is missing"),
    ],
)
def test_a_file_that_is_no_network_is_told_by_every_command(
    ask: Any, tmp_path: Path, command: str, content: str | None, said: str
) -> None:
    path = tmp_path / "network.yaml"
    if content is not None:
        path.write_text(content)
    sentence = ask(command, path)
    assert sentence.startswith(f"{path}: ")
    assert said in sentence


def test_a_network_without_data_is_not_run(ask: Any, tmp_path: Path) -> None:
    path = write_network(tmp_path, 2, data=None, verification=None)
    assert ask("run", path) == "the network small has no data: name a source under data"


def test_agents_that_do_not_run_are_told_and_how_to_start_them(ask: Any, delbo_here: Delbo, tmp_path: Path) -> None:
    path = write_network(tmp_path, 2)
    for command in ("apply", "stream", "evaluate"):
        assert ask(command, path) == "agent-1 does not run: start the network with delbo up"
    assert ask("predict", path, path) == "agent-1 does not run: start the network with delbo up"
    assert ask("predict", path, path, "--agent", "west") == f"{path} has no agent west; it has agent-1, agent-2"
    assert ask("logs", path, "west") == f"{path} has no local agent west; it has agent-1, agent-2"
    assert delbo_here("logs", path, "--runs", tmp_path).stdout == ""
    assert delbo_here("down", path, "--runs", tmp_path).stdout == "none was running\n"
    shown = delbo_here("status", path, "--once", "--runs", tmp_path)
    assert shown.returncode == 0
    assert shown.stdout.count("does not answer") == 2


@pytest.mark.parametrize("command", ["run", "up"])
def test_a_folder_that_cannot_be_made_is_told(delbo_here: Delbo, tmp_path: Path, command: str) -> None:
    path = write_network(tmp_path, 2)
    refused = delbo_here(command, path, "--runs", path)
    assert refused.returncode == 2
    assert f"delbo: {path}/small: cannot be made a folder: Not a directory\n" in refused.stderr


@pytest.fixture
def closed() -> Iterator[str]:
    """An address where nobody listens, and nobody else can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_an_address_of_something_else_is_told(ask: Any, delbo_here: Delbo, tmp_path: Path) -> None:
    with website() as url:
        path = write_network(tmp_path, [{"name": "a1", "url": url}])
        for command in NEEDS_AGENTS:
            assert ask(command, path) == f"{url}/v1/status answered something else than an agent would"
        assert ask("predict", url, path) == f"{url}/v1/model answered something else than an agent would"
        assert "does not answer" in delbo_here("status", path, "--once").stdout


def test_an_address_where_nobody_answers_is_told(
    ask: Any, tmp_path: Path, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In truth they are asked for a while."""
    monkeypatch.setattr("client.coordinator.Patience", lambda: NO_PATIENCE)
    monkeypatch.setattr("client.commands.measuring._PATIENCE", NO_PATIENCE)
    path = write_network(tmp_path, [{"name": "a1", "url": closed}])
    for command in NEEDS_AGENTS:
        assert ask(command, path).startswith(f"{closed} does not answer: ")
    assert ask("predict", closed, path).startswith(f"{closed} does not answer: ")


@pytest.mark.parametrize("url", ["ftp://x", "http://[::1", "http://", "http://a b", "https://user@host"])
def test_what_is_no_address_is_told(ask: Any, tmp_path: Path, url: str) -> None:
    points = write_data(tmp_path / "points.npz", 5)
    assert ask("predict", url, points) == f"{url!r} is no address of an agent; one is like http://127.0.0.1:8001"
