"""What all tests share: where the data is, and how to run `delbo`."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from client.cli import run
from tests.processes import AgentProcess, Agents, agent_factory

ROOT = Path(__file__).parent.parent

# A shell starts what runs in the background deaf to Ctrl-C, and so would be all that is started here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a run fails for what was changed; HYPOTHESIS_PROFILE=explore looks for others.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The real data sets; without them a test is skipped, but fails where CI promises them."""
    folder = Path(os.environ.get("DELBO_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        reason = f"no data sets in {folder}; name their folder with DELBO_DATA"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


Delbo = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def delbo_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Delbo:
    """Run the command inside this process: for the many cases that need not pay for a new one."""

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = ["delbo", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", command)
        monkeypatch.chdir(ROOT)
        with pytest.raises(SystemExit) as ended:
            run()
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(command, int(ended.value.code or 0), printed.out, printed.err)

    return call


@pytest.fixture(scope="session")
def delbo() -> Delbo:
    """Run the command in a process of its own, as a user does, from the top of the project."""

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "client", *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    return call


def printed_as_json(delbo: Delbo) -> Callable[..., Any]:
    """The object that the command prints with --json."""

    def call(*arguments: object) -> Any:
        finished = delbo(*arguments, "--json")
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    return call


@pytest.fixture(scope="session")
def delbo_json(delbo: Delbo) -> Callable[..., Any]:
    """The object that the command prints with --json."""
    return printed_as_json(delbo)


@dataclass(frozen=True)
class DemoRun:
    """What `delbo demo --keep` printed, where it wrote, and where its dashboard is."""

    printed: str
    said: str
    folder: Path
    dashboard: str


@pytest.fixture(scope="session")
def demo(delbo: Delbo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoRun]:
    """The demo, run once for all tests that look at what comes of it; its agents and dashboard stay till the end."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    finished = delbo("demo", "--keep", "--out", folder)
    assert finished.returncode == 0, finished.stderr
    try:
        found = re.search(r"^ *(http://\S+) +the dashboard", finished.stdout, re.MULTILINE)
        assert found is not None, finished.stdout
        yield DemoRun(finished.stdout, finished.stderr, folder, found[1])
    finally:
        ended = delbo("down", folder / "network.yaml", "--runs", folder.parent)
    assert ended.stdout == "ended agent-1, agent-2, agent-3, agent-4, the dashboard\n", ended.stderr


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    """Start real agents, by name; they are ended with the test."""
    yield from agent_factory(tmp_path)


@pytest.fixture(scope="module")
def shared_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent without a model, for all tests of a module that change nothing."""
    for start in agent_factory(tmp_path_factory.mktemp("shared")):
        yield start("a1")
