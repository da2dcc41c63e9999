"""Agents on several machines, as docs/deploy.md goes through it; a link is cut, and tokens are replaced."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from client.blocking import BlockingAgentClient
from client.retries import NO_PATIENCE
from client.tokens import TokenFolder, make_tokens
from service.errors import DelboError
from service.wire.answers import Status
from tests.conftest import Delbo
from tests.containers.machines import Machine, machines, typed, why_not
from tests.processes import until

pytestmark = pytest.mark.thorough  # `make test-containers` runs them

NAMES = ["north", "south", "west"]
LATTICE = {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [4, 4]}
ALL_FRESH = {name: ["fresh", "fresh"] for name in NAMES}


class Robots:
    """Three machines with an agent each, and copies of the operator's tokens."""

    def __init__(self, folder: Path, made: list[Machine]) -> None:
        self.folder, self.machines = folder, dict(zip(NAMES, made, strict=True))
        self.secrets = folder / "secrets"
        make_tokens(self.secrets)
        for name in NAMES:
            shutil.copytree(self.secrets, folder / f"{name}-secrets")
        self.network = folder / "building.yaml"
        self.network.write_text(
            yaml.safe_dump(
                {
                    "agents": [{"name": name, "url": self.url(name)} for name in NAMES],
                    "topology": "ring",
                    "model": {"features": LATTICE, "prior": {"information": 0.5}, "likelihood": "probit"},
                    "schedule": {
                        "exchange": "latest",
                        "observations_per_round": 100,
                        "period_s": 0.05,
                        "deadline_s": 0.5,
                    },
                }
            )
        )

    def url(self, name: str) -> str:
        return f"http://{self.machines[name].address}:8001"

    def agent(self, name: str, tokens: Path | None = None) -> BlockingAgentClient:
        return BlockingAgentClient(self.url(name), NO_PATIENCE, 5, TokenFolder(tokens or self.secrets))

    def start(self, name: str) -> None:
        machine = self.machines[name]
        place = ["--host", machine.address, "--data-dir", self.folder / name]
        tokens = ["--tokens", self.folder / f"{name}-secrets"]
        machine.start(self.folder / f"{name}.log", *typed("agent", "--name", name, *place, *tokens))

    def status(self, name: str) -> Status | None:
        try:
            with self.agent(name) as agent:
                return agent.status()
        except DelboError:
            return None

    def states(self) -> dict[str, list[str]]:
        """What every agent says of its neighbors."""
        statuses = {name: self.status(name) for name in NAMES}
        return {name: [link.state for link in status.neighbors] for name, status in statuses.items() if status}

    def replace_tokens(self, operator: Delbo, step: str) -> None:
        """One step on the operator's machine, copied to all, and seen by all."""
        done = operator("tokens", self.secrets, "--replace", step)
        assert done.returncode == 0, done.stderr
        seen = {name: self._changes_seen(name) for name in NAMES}
        for name in NAMES:
            shutil.copytree(self.secrets, self.folder / f"{name}-secrets", dirs_exist_ok=True)
        until(lambda: all(self._changes_seen(name) > seen[name] for name in NAMES))

    def _changes_seen(self, name: str) -> int:
        return (self.folder / f"{name}.log").read_text().count("INFO new tokens: ")


@pytest.fixture
def robots(tmp_path: Path) -> Iterator[Robots]:
    reason = why_not()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(f"{reason}: several machines were not tried")
    with machines(6, 7, 8) as made:
        yield Robots(tmp_path, made)


def test_the_steps_of_the_page_lead_to_a_network_that_survives_a_cut_link_and_new_tokens(
    robots: Robots, delbo: Delbo, tmp_path: Path
) -> None:
    machine = robots.machines["north"]
    place = ["--host", machine.address, "--data-dir", tmp_path / "open"]
    refused = machine.run(*typed("agent", "--name", "north", *place))
    assert refused.returncode == 1
    assert "--tokens" in refused.stderr
    for name in NAMES:
        robots.start(name)
    up = delbo("up", robots.network, "--tokens", robots.secrets)
    assert up.returncode == 0, up.stderr
    until(lambda: robots.states() == ALL_FRESH)

    # Each robot has nothing but the token to post with, and posts to its own agent.
    (tmp_path / "robot").mkdir()
    shutil.copy(robots.secrets / "ingest", tmp_path / "robot")
    generator = np.random.default_rng(0)
    for name in NAMES:
        x = generator.uniform(0, 4, (300, 2))
        with robots.agent(name, tmp_path / "robot") as agent:
            agent.stream(f"robot of {name}").post(x, x[:, 0] > 2)
            with pytest.raises(DelboError, match="role read"):
                agent.status()
    until(lambda: all(status.observations.applied == 300 for status in statuses(robots)))

    # A robot drives out of reach, and comes back.
    before = statuses(robots)[0].rounds_in_all
    robots.machines["south"].plug("down")
    until(lambda: (robots.states().get("north") or [""])[0] != "fresh")
    until(lambda: rounds_of(robots, "north") > before + 10)  # nobody waits for it
    robots.machines["south"].plug("up")
    until(lambda: robots.states() == ALL_FRESH)

    # New tokens while everything runs: at no moment is a neighbor refused.
    errors = [link.pulls.get("error", 0) for status in statuses(robots) for link in status.neighbors]
    old = (robots.secrets / "read").read_text().strip()
    for step in ("add", "use", "drop"):
        robots.replace_tokens(delbo, step)
    for name in NAMES:
        with (
            BlockingAgentClient(robots.url(name), NO_PATIENCE, tokens=old) as stranger,
            pytest.raises(DelboError, match="not known here"),
        ):
            stranger.status()
    assert [link.pulls.get("error", 0) for status in statuses(robots) for link in status.neighbors] == errors
    shown = delbo("status", robots.network, "--tokens", robots.secrets, "--json")
    assert shown.returncode == 0, shown.stderr
    rows: list[dict[str, Any]] = json.loads(shown.stdout)
    assert [(row["name"], row["observations"], set(row["neighbors"].values())) for row in rows] == [
        (name, 300, {"fresh"}) for name in NAMES
    ]


def statuses(robots: Robots) -> list[Status]:
    """Of all three, once all answer."""

    def ask() -> list[Status]:
        found = [robots.status(name) for name in NAMES]
        return [status for status in found if status is not None] if all(found) else []

    return until(ask)


def rounds_of(robots: Robots, name: str) -> int:
    status = robots.status(name)
    return -1 if status is None else status.rounds_in_all
