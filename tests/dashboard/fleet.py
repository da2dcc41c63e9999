"""The agents of these tests: few, started once, with one model of every kind that is shown in its own way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from client.tokens import make_tokens
from client.topology import Topology
from service.wire.roles import ROLES
from service.wire.tokens import new_token
from tests.network.networks import Network, make_data, model_of
from tests.processes import AgentProcess, agent_factory, until

PROBIT: dict[str, Any] = {"kind": "probit"}
GAUSSIAN: dict[str, Any] = {"kind": "gaussian", "precision": 4.0}
VECTOR: dict[str, Any] = {"kind": "gaussian", "precision": [[2.0, 0.5], [0.5, 1.0]]}
ROWS = 60
PULLS = frozenset({(0, 1), (1, 2), (2, 0)})  # a1 pulls from a2, a2 from a3, a3 from a1


def lattice(dimension: int, spacing: float, side: float) -> dict[str, Any]:
    """A model's features on a line, a square, a cube."""
    bounds = {"lower": [0] * dimension, "upper": [side] * dimension}
    return {"kind": "lattice", "spacing": spacing, "lengthscale": spacing, "cutoff": 1e-6, **bounds}


class Fleet:
    """a1, a2, a3: maps of labels; r1, r2: of numbers, r2 with tokens; f1: a function; v1: two outputs."""

    def __init__(self, folder: Path, agents: dict[str, AgentProcess], tokens: Path) -> None:
        self.folder, self.agents, self.tokens = folder, agents, tokens

    def __getitem__(self, name: str) -> AgentProcess:
        return self.agents[name]

    @property
    def trio(self) -> list[AgentProcess]:
        """a1, a2, a3."""
        return [self.agents[name] for name in ("a1", "a2", "a3")]

    def schedule(self, name: str, **fields: Any) -> None:
        """Put a schedule with a higher revision than any before."""
        agent = self.agents[name]
        revision = 1 + int(agent.http.get("/v1/schedule").json()["revision"])
        rule = {"exchange": "latest", "observations_per_round": 20, "period_s": 0.05}
        agent.put("schedule", {"revision": revision, **rule, **fields})

    def learn(self, name: str, x: Any, y: Any) -> None:
        """Let an agent take these observations, and pause it."""
        agent = self.agents[name]
        self.schedule(name)
        answer = agent.post(x, y, end=True)
        assert answer.status_code == 200, answer.text
        until(lambda: agent.status()["observations"]["backlog"] == 0)
        self.pause(name)

    def pause(self, *names: str) -> None:
        """Pause agents, and wait until they stand still."""
        for name in names:
            self.schedule(name, paused=True)
        for name in names:
            until(lambda agent=self.agents[name]: agent.status()["phase"] == "paused")  # type: ignore[misc]


@contextmanager
def started_fleet(folder: Path) -> Iterator[Fleet]:
    """Start them side by side, teach them, and pause them."""
    tokens = folder / "tokens"
    make_tokens(tokens)
    master = new_token()  # the tests' own, for everything; the dashboard sends the first of each role
    for role in ROLES:
        with (tokens / role).open("a") as file:
            file.write(f"{master}\n")
    for start in agent_factory(folder):
        agents = {name: start(name, wait=False) for name in ("a1", "a2", "a3", "r1", "f1", "v1")}
        agents["r2"] = start("r2", "--tokens", tokens, wait=False)
        for agent in agents.values():
            agent.wait_ready()
        fleet = Fleet(folder, agents, tokens)
        agents["r2"].http.headers["authorization"] = f"Bearer {master}"
        _teach(fleet)
        yield fleet


def _teach(fleet: Fleet) -> None:
    trio = Network(fleet.trio, model_of("diagonal", PROBIT), [PROBIT] * 3, make_data(0, 3, ROWS, [PROBIT] * 3))
    trio.load()
    trio.connect(Topology(3, PULLS), epoch=1)
    numbers = make_data(1, 2, ROWS, [GAUSSIAN] * 2)
    for name in ("r1", "r2"):
        fleet[name].put("model", {"revision": 1, "model": model_of("diagonal", GAUSSIAN)})
    line = {"features": lattice(1, 0.25, 3.0), "prior": {"information": 0.5}, "likelihood": GAUSSIAN}
    cube = {"features": lattice(3, 0.1, 1.0), "prior": {"information": 0.5}, "likelihood": VECTOR}
    fleet["f1"].put("model", {"revision": 1, "model": line})
    fleet["v1"].put("model", {"revision": 1, "model": cube})
    x = np.random.default_rng(2).uniform(0, 1, (ROWS, 3))
    for name, (points, labels) in zip(("a1", "a2", "a3"), trio.data, strict=True):
        fleet.learn(name, points, labels)
    for name, (points, values) in zip(("r1", "r2"), numbers, strict=True):
        fleet.learn(name, points, values)
    fleet.learn("f1", 3 * x[:, :1], np.sin(3 * x[:, 0]))
    fleet.learn("v1", x, np.column_stack([x[:, 0], -x[:, 1]]))
