"""An agent as a process: its options, its log, and how it ends."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import numpy as np
import pytest

from service import __main__ as program
from service import server
from service.agent.agent import Agent
from service.agent.store import Store
from service.errors import DelboError, StorageError
from service.settings import Settings
from service.wire.address import Address, read_address
from tests.api.line_stream import LineStream, lines_of
from tests.conftest import Delbo
from tests.processes import PATIENCE_S, ROOT, AgentProcess, Agents, agent_factory, free_port, problem, until

pytestmark = pytest.mark.thorough  # `make test-faults` runs them

LATTICE = {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [2, 2]}
MODEL: dict[str, Any] = {"features": LATTICE, "prior": {"information": 0.5}, "likelihood": "probit"}
X, Y = np.linspace(0, 2, 20).reshape(10, 2), np.arange(10) % 2


def load(agent: AgentProcess, model: dict[str, Any] | None = None) -> AgentProcess:
    agent.put("model", {"revision": 1, "model": model or MODEL})
    assert agent.post(X, Y, "robot", 0).status_code == 200
    return agent


def check_ended(agent: AgentProcess) -> None:
    """SIGTERM, exit code 0, and nothing had to be forced."""
    assert agent.terminate() == 0
    log = agent.log.read_text()
    assert "Traceback" not in log
    assert " ERROR " not in log
    assert log.count(" INFO stopping\n") == log.count(" INFO stopped\n") == 1


# SIGTERM.


@contextmanager
def idle(agent: AgentProcess) -> Iterator[None]:
    yield


@contextmanager
def resting(agent: AgentProcess) -> Iterator[None]:
    agent.put("schedule", {"revision": 1, "when_short": "go", "period_s": 86_400})
    until(lambda: agent.status()["phase"] == "resting")
    yield


@contextmanager
def short_of_observations(agent: AgentProcess) -> Iterator[None]:
    agent.put("schedule", {"revision": 1, "when_short": "wait", "period_s": 0})
    until(lambda: agent.status()["phase"] == "observations")
    yield


@contextmanager
def waiting_for_a_dead_neighbor(agent: AgentProcess) -> Iterator[None]:
    neighbors = [{"name": "dead", "url": f"http://127.0.0.1:{free_port()}", "weight": 0.5}]
    agent.put("neighbors", {"epoch": 1, "agents": 2, "own_weight": 0.5, "neighbors": neighbors})
    agent.put("schedule", {"revision": 1, "period_s": 0})
    until(lambda: agent.status()["waits_for"] == ["dead"])
    yield


@contextmanager
def waiting_for_a_silent_neighbor(agent: AgentProcess) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        neighbors = [{"name": "silent", "url": f"http://127.0.0.1:{listener.getsockname()[1]}", "weight": 0.5}]
        agent.put("neighbors", {"epoch": 1, "agents": 2, "own_weight": 0.5, "neighbors": neighbors})
        agent.put("schedule", {"revision": 1, "exchange": "latest", "deadline_s": 30})
        with listener.accept()[0]:
            yield


@pytest.mark.parametrize(
    "situation",
    [idle, resting, short_of_observations, waiting_for_a_dead_neighbor, waiting_for_a_silent_neighbor],
    ids=lambda situation: situation.__name__,
)
def test_a_terminated_agent_ends_whatever_it_waits_for(
    agents: Agents, situation: Callable[[AgentProcess], AbstractContextManager[None]]
) -> None:
    agent = load(agents())
    with situation(agent):
        check_ended(agent)


def test_whoever_waits_for_a_terminated_agent_is_told(agents: Agents) -> None:
    """A long poll, single rounds that wait for observations, and a stream that is still open."""
    agent = load(agents())
    agent.put("schedule", {"revision": 1, "when_short": "wait", "paused": True})
    answers: list[httpx2.Response] = []
    asks: list[Callable[[], httpx2.Response]] = [
        lambda: agent.http.get("/v1/parameters?round=1&wait_s=30"),
        lambda: agent.http.post("/v1/rounds", json={"rounds": 1, "wait_s": 600}),
    ]
    threads = [threading.Thread(target=lambda ask=ask: answers.append(ask())) for ask in asks]
    with LineStream(agent, client="streaming", sequence=0) as stream:
        stream.send(lines_of(X, Y))
        for thread in threads:
            thread.start()
        until(lambda: agent.status()["phase"] == "observations")
        until(lambda: agent.status()["observations"]["collected"] == 2 * len(X))
        check_ended(agent)
        assert stream.read_head() == 503
        last = stream.read_document()
        assert (last["type"], last["stored"]) == ("urn:delbo:problem:stopping", len(X))
    for thread in threads:
        thread.join()
    assert [problem(answer) for answer in answers] == [(503, "stopping")] * 2
    assert all("retry-after" in answer.headers for answer in answers)


def test_a_stream_with_acknowledgements_ends_with_the_reason(agents: Agents) -> None:
    agent = load(agents())
    with LineStream(agent, acknowledged=True) as stream:
        stream.send(lines_of(X, Y))
        assert stream.read_head() == 200
        assert stream.read_line() == {"stored": len(X)}
        check_ended(agent)
        assert stream.read_line()["type"] == "urn:delbo:problem:stopping"


def test_a_round_that_is_computed_is_finished_and_committed(agents: Agents) -> None:
    agent = load(agents(), {**MODEL, "family": "full", "features": {**LATTICE, "spacing": 0.08}})
    count = 8_000
    assert agent.post(np.tile(X, (count // 10, 1)), np.tile(Y, count // 10)).status_code == 200
    agent.put("schedule", {"revision": 1, "observations_per_round": count, "when_short": "go", "period_s": 0})
    until(lambda: agent.status()["phase"] == "computing")
    check_ended(agent)
    agent.options = ("--log-level", "error")
    agent.start()
    history = agent.http.get("/v1/history").json()["rounds"]
    assert (history[0]["round"], history[0]["observations"]) == (1, count)


@pytest.mark.parametrize("end", [AgentProcess.terminate, AgentProcess.kill], ids=["SIGTERM", "SIGKILL"])
def test_what_was_acknowledged_is_there_after_a_restart(agents: Agents, end: Callable[[AgentProcess], Any]) -> None:
    agent = load(agents())
    agent.put("neighbors", {"epoch": 4, "own_weight": 1.0})
    agent.put("schedule", {"revision": 7, "observations_per_round": 3, "when_short": "go", "paused": True})
    assert agent.http.post("/v1/rounds", json={"rounds": 2}).json()["complete"]
    with LineStream(agent, acknowledged=True, client="streaming", sequence=0) as stream:
        stream.send(lines_of(X[:4], Y[:4]))
        stream.read_head()
        assert stream.read_line() == {"stored": 4}
        status, parameters = agent.status(), agent.http.get("/v1/parameters")
        end(agent)
    agent.start()
    assert agent.status() == status
    again = agent.http.get("/v1/parameters")
    assert (again.content, again.headers["etag"]) == (parameters.content, parameters.headers["etag"])
    # The marks are there too, and the stream goes on where it was.
    assert problem(agent.post(-X, Y, "robot", 0)) == (409, "mark-conflict")
    assert agent.http.post(
        "/v1/observations?client=streaming&sequence=0",
        content=lines_of(X, Y),
        headers={"content-type": "application/x-ndjson"},
    ).json() == {"stored": 10, "next_sequence": 10}
    assert agent.status()["observations"]["collected"] == 20


def test_an_interrupt_from_the_keyboard_ends_it_as_well(shared_agent: AgentProcess) -> None:
    """The last test that takes the shared agent."""
    assert shared_agent.process is not None
    shared_agent.process.send_signal(signal.SIGINT)
    assert shared_agent.process.wait(PATIENCE_S) == 0


# The log.


def test_a_log_of_json_is_one_object_a_line(tmp_path: Path) -> None:
    for start in agent_factory(tmp_path):
        agent = load(start('a "b" %s ü', "--log-format", "json"))
        neighbors = [{"name": "dead", "url": f"http://127.0.0.1:{free_port()}", "weight": 0.5}]
        agent.put("neighbors", {"epoch": 1, "agents": 2, "own_weight": 0.5, "neighbors": neighbors})
        with socket.create_connection(("127.0.0.1", agent.port)) as connection:
            connection.sendall(b"this is not HTTP\r\n\r\n")
            connection.recv(1_000)
        assert agent.terminate() == 0
        lines = [json.loads(line) for line in agent.log.read_text().splitlines()]
        assert all(set(line) >= {"time", "agent", "level", "logger", "message"} for line in lines)
        assert {line["agent"] for line in lines} == {'a "b" %s ü'}
        messages = [line["message"] for line in lines]
        assert f"listening on {agent.url}" in messages
        assert messages[-2:] == ["stopping", "stopped"]
        assert any("Invalid HTTP" in message for message in messages)


def test_a_log_of_text_names_the_agent_in_every_line(agents: Agents) -> None:
    agent = load(agents("100%s"))
    assert agent.terminate() == 0
    assert all(re.match(r"[\d-]+ [\d:,]+ 100%s INFO \S", line) for line in agent.log.read_text().splitlines())


def test_port_0_takes_a_free_port_and_the_log_tells_which(tmp_path: Path) -> None:
    """By environment variables alone, through `delbo agent`."""
    variables = {"DELBO_NAME": "by environment", "DELBO_PORT": "0", "DELBO_DATA_DIR": str(tmp_path / "new" / "folder")}
    command = [sys.executable, "-m", "client", "agent"]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **variables}, stderr=subprocess.PIPE, text=True) as one:
        assert one.stderr is not None
        told = re.search(r"listening on (http://127\.0\.0\.1:(\d+))$", one.stderr.readline())
        assert told
        assert int(told[2]) > 0
        with httpx2.Client(base_url=told[1], timeout=PATIENCE_S, trust_env=False) as client:
            assert client.get("/v1/status").json()["agent"] == "by environment"
        one.terminate()
        assert one.wait(PATIENCE_S) == 0
    assert list((tmp_path / "new" / "folder").iterdir())


# The address, beside the data.


def told_address(agent: AgentProcess, before: Address | None = None) -> Address:
    """Wait until the file tells another than before."""
    until(lambda: read_address(agent.folder) not in (None, before))
    told = read_address(agent.folder)
    assert told is not None
    return told


def test_an_agent_tells_its_address_beside_its_data_and_a_restart_tells_it_anew(agents: Agents) -> None:
    agent = agents("a1", "--port", 0, wait=False)
    first = told_address(agent)
    assert agent.process is not None
    assert (first.agent, first.pid) == ("a1", agent.process.pid)
    assert httpx2.get(f"{first.url}/v1/status", trust_env=False).json()["incarnation"] == first.incarnation
    agent.kill()
    assert read_address(agent.folder) == first  # of a process that is no more
    agent.launch()
    second = told_address(agent, before=first)
    assert (second.agent, second.incarnation) == ("a1", first.incarnation)
    assert second.pid == agent.process.pid != first.pid
    assert httpx2.get(f"{second.url}/v1/status", trust_env=False).json()["agent"] == "a1"


@pytest.fixture
def anybody() -> Agent:
    """As much of an agent as an address needs."""
    return cast("Agent", SimpleNamespace(name="a1", store=SimpleNamespace(identity=("a1", 7))))


def test_an_address_that_cannot_be_written_is_a_warning_and_no_more(
    anybody: Agent, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "address.json").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener, caplog.at_level("INFO"):
        server._tell_address(anybody, tmp_path, listener)
        told = [record.levelname for record in caplog.records]
        assert told == ["WARNING", "INFO"]
        assert f"listening on http://127.0.0.1:{listener.getsockname()[1]}" in caplog.text


def test_an_ipv6_address_is_told_in_brackets(anybody: Agent, tmp_path: Path) -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with listener:
        server._tell_address(anybody, tmp_path, listener)
        url = f"http://[::1]:{listener.getsockname()[1]}"
        assert read_address(tmp_path) == Address("a1", 7, os.getpid(), url)


# Options.


def run_agent(*options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service", *map(str, options)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)


def check_one_sentence(text: str, says: str) -> None:
    assert text.startswith("delbo agent: ")
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert says in text
    assert not re.search(r"[A-Z][a-z]+Error", text)  # it is a sentence, not an exception


NAMED = ["--name", "a1", "--data-dir", "unused"]


@pytest.mark.parametrize(
    ("options", "variables", "says"),
    [
        ([], {}, "--name: field required"),
        (["--name", "a1"], {}, "--data-dir: field required"),
        (["--name", "", "--data-dir", "unused"], {}, "--name: a name has 1 to 64 printable characters"),
        (["--name", "a\nb", "--data-dir", "unused"], {}, "--name: a name has"),
        ([*NAMED, "--port", "70000"], {}, "--port: input should be less than or equal to 65535"),
        ([*NAMED, "--port", "-1"], {}, "--port: input should be greater than or equal to 0"),
        ([*NAMED, "--port", "http"], {}, "--port: input should be a valid integer"),
        ([*NAMED, "--log-format", "xml"], {}, "--log-format: input should be 'text' or 'json'"),
        ([*NAMED, "--log-level", "loud"], {}, "--log-level: input should be 'debug'"),
        ([*NAMED, "--inbox-limit", "0"], {}, "--inbox-limit: input should be greater"),
        ([*NAMED, "--history-limit", "0"], {}, "--history-limit: input should be greater"),
        ([*NAMED, "--body-limit", "10"], {}, "--body-limit: input should be greater"),
        (NAMED, {"DELBO_PORT": "many"}, "--port: input should be a valid integer"),
    ],
)
def test_a_wrong_option_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    variables: dict[str, str],
    says: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["delbo agent", *options])
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert program.main() == 2
    check_one_sentence(capsys.readouterr().err, says)


def test_an_unknown_option_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["delbo agent", *NAMED, "--colour", "red"])
    with pytest.raises(SystemExit, match="2"):
        program.main()
    assert capsys.readouterr().err.splitlines()[-1] == "delbo agent: error: unrecognized arguments: --colour red"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    for start in agent_factory(tmp_path_factory.mktemp("running")):
        yield start("a1")


def test_a_port_that_is_taken_is_told_in_one_sentence(running: AgentProcess, tmp_path: Path) -> None:
    finished = run_agent("--name", "a2", "--data-dir", tmp_path, "--port", running.port)
    assert finished.returncode == 1
    check_one_sentence(finished.stderr, f"127.0.0.1:{running.port} cannot be listened on: Address already in use")


def test_a_folder_in_use_is_told_in_one_sentence(running: AgentProcess) -> None:
    finished = run_agent("--name", "a1", "--data-dir", running.folder, "--port", 0)
    assert finished.returncode == 1
    check_one_sentence(finished.stderr, f"{running.folder} is in use")
    assert running.is_ready()
    assert told_address(running).url == running.url  # not that of the other


def refusal_of(folder: Path, host: str = "127.0.0.1") -> str:
    """Why an agent cannot start there; in this process, as it does not get far."""
    with pytest.raises(DelboError) as refused:
        asyncio.run(server.serve(Settings(name="a1", data_dir=folder, host=host, port=0)))
    return str(refused.value)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70, "256.0.0.1", "::x"])
def test_a_host_that_is_not_here_is_told(tmp_path: Path, host: str) -> None:
    assert refusal_of(tmp_path, host).startswith(f"{host}:0 cannot be listened on: ")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_another_agent_is_told(tmp_path: Path) -> None:
    Store(tmp_path, "owner", history_limit=1).close()
    assert "belongs to agent owner, not a1" in refusal_of(tmp_path)


@pytest.mark.parametrize("kind", ["a file", "below a file", "not writable", "not an agent's"])
def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "agent.sqlite3").write_text("this is no database, but a text that is long enough to look like one" * 9)
    folder = {
        "a file": file,
        "below a file": file / "folder",
        "not writable": Path("/proc/self/delbo"),  # not even for root, who runs tests in containers
        "not an agent's": strange,
    }[kind]
    assert str(folder) in refusal_of(folder)


def test_a_port_is_taken_before_the_file_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else two agents that start at once could both believe that it is theirs."""
    port = free_port()

    def open_agent(*_: object) -> None:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
        raise StorageError("that is all")

    monkeypatch.setattr(server, "Agent", open_agent)
    with pytest.raises(StorageError, match="that is all"):
        asyncio.run(server.serve(Settings(name="a1", data_dir=tmp_path, port=port)))


def check_help(text: str) -> None:
    """Every option, its variable and its default, as the settings have them, and no other."""
    text = re.sub(r"(?<=-)\s+", "", text)  # words that were broken at their hyphens
    options = {f"--{name.replace('_', '-')}" for name in Settings.model_fields}
    assert set(re.findall(r"(?<!\S)--[a-z][a-z-]*", text)) - {"--help"} == options
    for name, option in Settings.model_fields.items():
        assert f"DELBO_{name.upper()}" in text
        if option.default and not option.is_required():
            assert re.search(rf"default:?\s+{re.escape(str(option.default))}\b", text), name


def test_the_help_of_delbo_agent_tells_what_the_settings_are(delbo_here: Delbo) -> None:
    finished = delbo_here("agent", "--help")
    assert finished.returncode == 0
    check_help(finished.stdout)


def test_the_help_of_the_service_tells_what_the_settings_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["delbo agent", "--help"])
    with pytest.raises(SystemExit, match="0"):
        program.main()
    check_help(capsys.readouterr().out.partition("options:")[2])


def test_an_option_goes_before_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELBO_PORT", "9001")
    monkeypatch.setenv("DELBO_NAME", "by variable")
    given: dict[str, Any] = {"port": 9002, "data_dir": Path("folder")}
    settings = Settings(**given)
    assert (settings.name, settings.port, settings.data_dir) == ("by variable", 9002, Path("folder"))
