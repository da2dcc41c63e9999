"""Agents that ask for tokens: a network of them runs like any other, for who has the tokens and for nobody else."""

import asyncio
import csv
import json
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from client.blocking import BlockingAgentClient
from client.cluster import Cluster
from client.evaluation import evaluate
from client.network.plan import load_plan
from client.retries import NO_PATIENCE
from client.tokens import TokenFolder, make_tokens
from service.errors import AgentRefusedError
from service.wire.address import read_address
from service.wire.roles import ROLES
from service.wire.tokens import new_token, read_tokens
from tests.conftest import Delbo
from tests.network.plans import check_equal, simulate, write_data, write_network
from tests.network.runs import processes_of
from tests.processes import Agents, until

pytestmark = pytest.mark.thorough  # `make test-faults` runs them

NAMES = ["a1", "a2"]


class Here(NamedTuple):
    """A network that has been run with tokens, and whose agents are still there."""

    path: Path
    runs: Path
    tokens: Path
    printed: Any
    said: str

    @property
    def urls(self) -> list[str]:
        """Where the agents are, as their files tell."""
        addresses = [read_address(self.runs / "small" / name) for name in NAMES]
        return [address.url for address in addresses if address is not None]

    def part(self, *roles: str) -> Path:
        """A folder with the tokens of these roles only."""
        folder = self.tokens.with_name("only-" + "-".join(roles))
        folder.mkdir(exist_ok=True)
        for role in roles:
            shutil.copy(self.tokens / role, folder)
        return folder


@pytest.fixture(scope="module")
def here(delbo: Delbo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("here")
    tokens, runs = folder / "tokens", folder / "runs"
    make_tokens(tokens)
    write_data(folder / "points.npz", 160)
    path = write_network(folder, NAMES)
    cluster = Cluster(runs / "small", NAMES, tokens=TokenFolder(tokens))
    try:
        asyncio.run(cluster.up())  # those that were up before stay up, and stand still when it is done
        finished = delbo("run", path, "--runs", runs, "--tokens", tokens, "--json")
        assert finished.returncode == 0, finished.stderr
        yield Here(path, runs, tokens, json.loads(finished.stdout), finished.stdout + finished.stderr)
    finally:
        asyncio.run(cluster.down())


@pytest.fixture(autouse=True)
def no_tokens_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DELBO_TOKENS", raising=False)


def test_a_run_with_tokens_ends_as_any_other(here: Here) -> None:
    plan = load_plan(here.path)
    assert plan.test is not None
    expected, shown = simulate(plan), []
    for url in here.urls:
        with BlockingAgentClient(url, tokens=TokenFolder(here.tokens)) as agent:
            shown.append(plan.prior.plus(agent.parameters(plan.codec).parts[0].evidence))
    check_equal(shown, expected)
    scores = evaluate(expected, plan.features, plan.likelihood, plan.test)
    assert [agent["accuracy"] for agent in here.printed["agents"]] == pytest.approx(
        [score["accuracy"] for score in scores]
    )


def test_status_with_all_tokens_tells_everything(delbo_here: Delbo, here: Here) -> None:
    options = ("--runs", here.runs, "--tokens", here.tokens)
    shown = delbo_here("status", here.path, "--once", *options)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [line.split()[0] for line in shown.stdout.splitlines()[-2:]] == NAMES
    told = json.loads(delbo_here("status", here.path, "--json", *options).stdout)
    assert [(one["name"], one["phase"]) for one in told] == [(name, "finished") for name in NAMES]
    assert [one["accuracy"] for one in told] == [agent["accuracy"] for agent in here.printed["agents"]]


def test_who_may_only_read_sees_the_status_without_scores(delbo_here: Delbo, here: Here) -> None:
    options = ("--runs", here.runs, "--tokens", here.part("read"))
    told = json.loads(delbo_here("status", here.path, "--json", *options).stdout)
    assert [(one["name"], one["answers"], one["phase"]) for one in told] == [(name, True, "finished") for name in NAMES]
    assert [one["observations"] for one in told] == [agent["observations"] for agent in here.printed["agents"]]
    assert [one["consensus_error"] for one in told] == [None, None]
    assert not any("accuracy" in one for one in told)
    shown = delbo_here("status", here.path, "--once", *options)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert all("finished" in line for line in shown.stdout.splitlines()[-2:])


def test_an_agent_with_other_tokens_is_shown_as_such_beside_the_others(
    agents: Agents, delbo_here: Delbo, tmp_path: Path
) -> None:
    for name in NAMES:
        make_tokens(tmp_path / f"tokens of {name}")
    running = [agents(name, "--tokens", tmp_path / f"tokens of {name}") for name in NAMES]
    write_data(tmp_path / "points.npz", 40)
    path = write_network(tmp_path, [{"name": agent.name, "url": agent.url} for agent in running])
    mine = ["--tokens", tmp_path / "tokens of a1"]
    shown = delbo_here("status", path, *mine, "--once")
    assert shown.returncode == 0, shown.stderr
    rows = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert "asks for another token" in rows["a2"]
    assert "asks for another token" not in rows["a1"]
    told = json.loads(delbo_here("status", path, *mine, "--json").stdout)
    assert told[1] == {"name": "a2", "answers": True, "state": "asks for another token"}
    assert told[0]["phase"] == "no-model"


@pytest.mark.parametrize("command", ["status", "run", "up", "apply", "stream", "evaluate", "predict"])
def test_without_the_right_tokens_a_command_is_one_sentence_and_changes_nothing(
    delbo_here: Delbo, here: Here, tmp_path: Path, command: str
) -> None:
    for role in ROLES:
        (tmp_path / role).write_text(f"{new_token()}\n")
    points = tmp_path / "points.csv"
    points.write_text("a,b\n0.5,0.5\n")
    before = processes_of(here.runs)
    arguments = [command, here.path, *([points] if command == "predict" else []), "--runs", here.runs]
    urls = "|".join(re.escape(url) for url in here.urls)
    hint = "; name the tokens' folder with --tokens or DELBO_TOKENS"
    for options, said in (
        ([], "send a token of the role read: 'Authorization: Bearer TOKEN'"),
        (["--tokens", tmp_path], "this token is not known here; one of the role read is needed"),
    ):
        refused = delbo_here(*arguments, *options)
        assert (refused.returncode, refused.stdout) == (2, "")
        *steps, sentence = refused.stderr.splitlines()
        assert re.fullmatch(f"delbo: ({urls}): {re.escape(said + hint)}", sentence), sentence
        assert [step.split()[-1] for step in steps] == (["starting"] if command == "run" else [])
    assert processes_of(here.runs) == before
    with BlockingAgentClient(here.urls[0], tokens=TokenFolder(here.tokens)) as agent:
        assert agent.status().phase == "finished"


def test_a_folder_that_has_no_tokens_is_told(delbo_here: Delbo, here: Here, tmp_path: Path) -> None:
    for command in ("status", "run", "evaluate"):
        refused = delbo_here(command, here.path, "--runs", here.runs, "--tokens", tmp_path)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == f"delbo: {tmp_path}: has no tokens: delbo tokens {tmp_path} makes a set\n"


def test_who_may_read_and_ingest_may_not_configure(delbo_here: Delbo, here: Here) -> None:
    with BlockingAgentClient(here.urls[0], NO_PATIENCE, tokens=TokenFolder(here.tokens)) as agent:
        schedule = agent.schedule()
    with (
        BlockingAgentClient(here.urls[0], NO_PATIENCE, tokens=TokenFolder(here.part("read", "ingest"))) as agent,
        pytest.raises(AgentRefusedError, match="role control"),
    ):
        agent.put_schedule(schedule.model_copy(update={"revision": schedule.revision + 1}))


def test_predict_and_evaluate_ask_with_tokens(delbo_here: Delbo, here: Here, tmp_path: Path) -> None:
    points = tmp_path / "points.csv"
    points.write_text("a,b\n0.5,0.5\n2,1\n")
    first = delbo_here("predict", here.path, points, "--runs", here.runs, "--tokens", here.tokens)
    assert (first.returncode, first.stderr) == (0, "")
    assert [float(row["x1"]) for row in csv.DictReader(first.stdout.splitlines())] == [0.5, 2.0]
    by_url = delbo_here("predict", here.urls[0], points, "--tokens", here.part("read"))
    assert by_url.stdout == first.stdout
    refused = delbo_here("predict", here.urls[0], points, "--tokens", here.part("ingest"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "role read" in refused.stderr
    told = delbo_here("evaluate", here.path, "--json", "--runs", here.runs, "--tokens", here.tokens)
    assert json.loads(told.stdout)["agents"] == here.printed["agents"]


def test_the_environment_may_name_the_tokens(
    delbo_here: Delbo, here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DELBO_TOKENS", str(here.tokens))
    told = delbo_here("status", here.path, "--json", "--runs", here.runs)
    assert (told.returncode, told.stderr) == (0, "")
    assert json.loads(told.stdout)[0]["accuracy"] == here.printed["agents"][0]["accuracy"]
    monkeypatch.setenv("DELBO_TOKENS", str(tmp_path))  # what is typed counts more
    told = delbo_here("status", here.path, "--json", "--runs", here.runs, "--tokens", here.tokens)
    assert told.returncode == 0


def test_no_token_is_written_said_or_shown_to_other_processes(here: Here) -> None:
    tokens = [token.encode() for of_role in read_tokens(here.tokens).values() for token in of_role]
    assert len(tokens) == 4
    seen = [here.said.encode(), *(path.read_bytes() for path in here.runs.rglob("*") if path.is_file())]
    for pid in processes_of(here.runs):
        seen += [Path("/proc", str(pid), file).read_bytes() for file in ("cmdline", "environ")]
    assert len(seen) > 4
    for token in tokens:
        assert not any(token in text for text in seen)


def test_tokens_are_replaced_under_a_network_and_down_needs_none(delbo_here: Delbo, tmp_path: Path) -> None:
    write_data(tmp_path / "points.npz", 40)
    path, tokens, runs = write_network(tmp_path, ["a1"]), tmp_path / "tokens", tmp_path / "runs"
    make_tokens(tokens)
    old = shutil.copytree(tokens, tmp_path / "old")
    options = ("--runs", runs, "--tokens")
    try:
        assert delbo_here("up", path, *options, tokens).returncode == 0
        assert delbo_here("status", path, "--json", *options, old).returncode == 0
        assert delbo_here("tokens", tokens, "--replace", "add").returncode == 0
        both = read_tokens(tokens)["read"]
        assert delbo_here("tokens", tokens, "--replace", "use").returncode == 0
        until(lambda: delbo_here("status", path, "--json", *options, tokens).returncode == 0)
        assert delbo_here("status", path, "--json", *options, old).returncode == 0
        assert delbo_here("tokens", tokens, "--replace", "drop").returncode == 0
        assert read_tokens(tokens)["read"] == both[1:]
        until(lambda: delbo_here("status", path, "--json", *options, old).returncode == 2)
        assert delbo_here("status", path, "--json", *options, tokens).returncode == 0
    finally:
        ended = delbo_here("down", path, "--runs", runs)
    assert (ended.returncode, ended.stdout) == (0, "ended a1\n")
    assert processes_of(runs) == []


def test_agents_without_tokens_take_neither_tokens_nor_an_open_address_from_the_environment(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are for agents that somebody starts by hand, or in a container."""
    monkeypatch.setenv("DELBO_TOKENS", str(here.tokens))
    monkeypatch.setenv("DELBO_HOST", "0.0.0.0")
    monkeypatch.setenv("DELBO_INSECURE", "true")
    cluster = Cluster(tmp_path, ["a1"])
    try:
        [url] = asyncio.run(cluster.up()).values()
        with BlockingAgentClient(url, NO_PATIENCE) as agent:
            assert agent.status().agent == "a1"
        port = urlsplit(url).port
        assert port is not None
        with pytest.raises(ConnectionRefusedError):  # another address of this machine
            socket.create_connection(("127.0.0.2", port)).close()
    finally:
        asyncio.run(cluster.down())
