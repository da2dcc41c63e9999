"""The programs and snippets that users copy, run as users run them, against a real agent."""

import ast
import csv
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest

from client.tokens import make_tokens
from service import errors
from tests.processes import PATIENCE_S, ROOT, AgentProcess, Agents, agent_factory, until
from tests.test_documentation import blocks

PAGE = ROOT / "docs" / "client.md"
EXAMPLES = ROOT / "examples"
KINDS = ["py", "sh", "js"]
OWN_POINTS = 30  # that an example makes up
ROWS = 23  # of the csv
ROOM = 25  # of the agent's inbox: less than an example posts
LATTICE = {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [10, 10]}
MODEL: dict[str, Any] = {"features": LATTICE, "prior": {"information": 0.2}, "likelihood": {"kind": "probit"}}
RUNNING = {"observations_per_round": 10, "when_short": "go", "period_s": 0}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that applies what it gets; each test takes client names of its own."""
    for start in agent_factory(tmp_path_factory.mktemp("examples")):
        agent = start("a1", "--inbox-limit", ROOM)
        agent.put("model", {"revision": 1, "model": MODEL})
        agent.put("schedule", {"revision": 1, **RUNNING})
        yield agent


def missing(program: str, package: str) -> NoReturn:
    reason = f"{program} is not installed (sudo apt-get install {package}): its example was not tried"
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and CI is set: it must run here", pytrace=False)
    pytest.skip(reason)


def node() -> str:
    """Node of the PATH, else the one that playwright brings along."""
    found = shutil.which("node")
    if found is None and find_spec("playwright") is not None:
        from playwright._impl._driver import compute_driver_executable

        brought = compute_driver_executable()[0]
        runs = Path(brought).exists() and subprocess.run([brought, "--version"], capture_output=True).returncode == 0
        found = brought if runs else None  # without a browser's libraries it does not run
    return found or missing("node", "nodejs")


def command(kind: str, *arguments: object) -> list[str]:
    example = str(EXAMPLES / f"post_observations.{kind}")
    if kind == "sh" and shutil.which("curl") is None:
        missing("curl", "curl")
    program = {"py": lambda: sys.executable, "sh": lambda: "sh", "js": node}[kind]()
    return [program, example, *map(str, arguments)]


def start(kind: str, *arguments: object, **more: str) -> subprocess.Popen[str]:
    """As a user starts it; but with the code that is tested, and without a proxy."""
    variables = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    variables |= {"PYTHONPATH": str(ROOT), **more}
    pipe = subprocess.PIPE
    return subprocess.Popen(command(kind, *arguments), env=variables, stdout=pipe, stderr=pipe, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code, and what it printed."""
    printed, told = process.communicate(timeout=PATIENCE_S)
    return process.returncode, printed, told


def collected(agent: AgentProcess) -> int:
    return int(agent.status()["observations"]["collected"])


def position(agent: AgentProcess, client: str) -> dict[str, Any]:
    return dict(agent.http.get("/v1/streams", params={"client": client}).json())


@pytest.fixture
def points(tmp_path: Path) -> Path:
    """A csv with the line ends that spreadsheets write."""
    path = tmp_path / "points of today.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["east", "north", "occupied"])
        writer.writerows([round(0.3 * n, 2), -1e-3 + n / 7, n % 2] for n in range(ROWS))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_that_runs_twice_at_once_stores_every_observation_once(agent: AgentProcess, kind: str) -> None:
    before = collected(agent)
    for process in [start(kind, agent.url) for _ in range(2)]:
        code, printed, told = finish(process)
        assert code == 0, told
        assert str(OWN_POINTS) in printed
    assert collected(agent) == before + OWN_POINTS


@pytest.mark.parametrize(("name", "kinds"), [("one robot", ["js", "py"]), ("another", ["sh", "sh"])])
def test_an_example_that_runs_again_stores_nothing_twice(
    agent: AgentProcess, points: Path, name: str, kinds: list[str]
) -> None:
    """Even in another language: the same batches are the same marks and the same numbers."""
    before = collected(agent)
    for kind in kinds:
        code, printed, told = finish(start(kind, agent.url, points, name))
        assert code == 0, told
        assert str(ROWS) in printed
    assert collected(agent) == before + ROWS
    assert position(agent, name)["ended"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_tells_what_the_agent_says_against_it(agent: AgentProcess, kind: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("x1,x2,y\n1,2,0\n1,2,7\n")
    before = collected(agent)
    code, _, told = finish(start(kind, agent.url, wrong, f"{kind}-wrong"))
    assert code == 1
    assert "7" in told
    assert "Traceback" not in told
    assert collected(agent) == before + (kind == "sh")  # of lines, those before the fault are stored


def test_examples_send_the_token_of_a_folder(agents: Agents, tmp_path: Path) -> None:
    for kind in KINDS:
        command(kind)  # what is missing is told before anything is started
    folder = tmp_path / "tokens"
    folder.mkdir()
    (folder / "ingest").write_text("# of the robots\n\nthe-token-of-the-robots\nan-older-token-of-theirs\n")
    (folder / "control").write_text("the-token-of-an-operator\n")
    agent = agents("a1", "--tokens", folder)
    agent.http.headers["authorization"] = "Bearer the-token-of-an-operator"
    agent.put("model", {"revision": 1, "model": MODEL})
    for process in [start(kind, agent.url, DELBO_TOKENS=str(folder)) for kind in KINDS]:
        code, printed, told = finish(process)
        assert code == 0, told
        assert str(OWN_POINTS) in printed
    code, _, told = finish(start("js", agent.url))
    assert code == 1
    assert "token of the role ingest" in told


def wait_until_told(process: subprocess.Popen[str], text: str) -> str:
    """Read what it tells until that is there."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"it ended before it told {text}")


@pytest.mark.thorough
def test_examples_survive_an_agent_that_is_away_full_killed_and_started_again(agent: AgentProcess) -> None:
    for kind in KINDS:
        command(kind)  # what is missing is told before anything is started
    before = collected(agent)
    until(lambda: agent.status()["observations"]["backlog"] == 0)
    agent.put("schedule", {"revision": 2, **RUNNING, "paused": True})
    agent.kill()
    running = {kind: start(kind, agent.url, "", f"{kind}-survivor") for kind in KINDS}
    try:
        for kind in ("sh", "js"):
            wait_until_told(running[kind], "trying again")
        agent.start()
        wait_until_told(running["js"], " 429 ")
        agent.kill()
        agent.start()
        agent.put("schedule", {"revision": 3, **RUNNING})
        for process in running.values():
            code, _, told = finish(process)
            assert code == 0, told
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
    assert collected(agent) == before + len(KINDS) * OWN_POINTS
    assert all(position(agent, f"{kind}-survivor")["ended"] for kind in KINDS)


# The page.


@pytest.mark.asyncio
async def test_the_snippets_of_the_page_work_one_after_the_other(
    agent: AgentProcess, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In a running event loop, as in a notebook; with a revision that is still free, and a folder of tokens."""
    before = collected(agent)
    make_tokens(tmp_path)
    namespace: dict[str, Any] = {}
    for snippet in blocks(PAGE, "python"):
        here = snippet.replace("http://127.0.0.1:8001", agent.url).replace(
            'Path("secrets")', f"Path({str(tmp_path)!r})"
        )
        code = compile(
            here.replace('"revision": 1', '"revision": 1000'), str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        result = eval(code, namespace)
        if inspect.isawaitable(result):
            await result
    await namespace["agent"].close()
    assert collected(agent) == before + 3 + 2
    assert position(agent, "robot-7") == {"client": "robot-7", "next_sequence": 3, "ended": True}
    assert "2 1" in capsys.readouterr().out.splitlines()


def test_the_page_names_exceptions_that_there_are() -> None:
    named = re.findall(r"^\| `(\w+Error)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(named) == 5
    assert all(issubclass(getattr(errors, name), errors.DelboError) for name in named)
