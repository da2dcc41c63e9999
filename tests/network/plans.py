"""Small networks as files, what they must end with, and agents that are found by their addresses."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from client.blocking import BlockingAgentClient
from client.network.plan import NetworkPlan, load_plan
from client.simulation import Batch, Simulation
from service.inference.belief import Belief
from service.inference.round import RoundRule
from service.wire.answers import Status
from tests.network.networks import model_of
from tests.processes import AgentProcess, Agents

Answer = TypeVar("Answer")

ROWS = 720
MODEL = model_of("diagonal", {"kind": "probit"})


def start(agents: Agents, count: int) -> list[AgentProcess]:
    """Agents a1, a2, ..., started at once."""
    started = [agents(f"a{number}", wait=False) for number in range(1, count + 1)]
    return [agent.wait_ready() for agent in started]


def write_data(path: Path, rows: int = ROWS, seed: int = 0) -> Path:
    """Points of a square, the label of each, and the robot that saw it: eight of them, one after the other."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 3, (rows, 2))
    y = (np.sin(2 * x[:, 0]) + np.cos(x[:, 1]) + generator.normal(0, 0.5, rows) > 0).astype(float)
    np.savez(path, x=x, y=y, robot=np.arange(rows) * 8 // rows)
    return path


def write_network(folder: Path, agents: Any = 4, **changes: Any) -> Path:
    """A network's file, with its data beside it; agents: as in the file, or processes that run."""
    if not isinstance(agents, int) and all(isinstance(agent, AgentProcess) for agent in agents):
        agents = [{"name": agent.name, "url": agent.url} for agent in agents]
    if not (folder / "points.npz").exists():
        write_data(folder / "points.npz")
    document = {
        "name": "small",
        "agents": agents,
        "model": MODEL,
        "schedule": {"observations_per_round": 10, "period_s": 0},
        "data": {"kind": "table", "path": "points.npz"},
        "verification": {"holdout": 10},
        "stream": {"batch": 30},
        **changes,
    }
    path = folder / "network.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in document.items() if value is not None}))
    return path


def rounds_of(plan: NetworkPlan) -> int:
    """How many rounds a run that is never interrupted has: those with data, and those that settle it."""
    per_round = plan.document.schedule.observations_per_round
    return max(-(-len(rows) // per_round) for rows in plan.parts) + plan.settle_rounds


def simulation_of(plan: NetworkPlan, start: Sequence[Belief] | None = None) -> Simulation:
    """The plan's network in one process, before its first round."""
    rule = plan.document.schedule
    weight = rule.weight_among(len(plan.names))
    likelihoods = [plan.likelihood_of(agent) for agent in range(len(plan.names))]
    round_rule = RoundRule(plan.prior, weight, plan.spec.step, rule.forgetting)
    return Simulation(plan.features, likelihoods, round_rule, plan.mixing_matrix, start)


def simulate(plan: NetworkPlan) -> list[Belief]:
    """What the agents of a plan end with, if each takes its observations in order, in full batches."""
    simulation, per_round = simulation_of(plan), plan.document.schedule.observations_per_round
    for number in range(rounds_of(plan)):
        take(simulation, plan, [number * per_round] * len(plan.names), [per_round] * len(plan.names))
    return simulation.beliefs


def take(simulation: Simulation, plan: NetworkPlan, begins: Iterable[int], counts: Iterable[int]) -> None:
    """One round, in which each agent takes so many of its rows, from there on."""
    assert plan.train is not None
    rows = [part[begin : begin + count] for part, begin, count in zip(plan.parts, begins, counts, strict=True)]
    simulation.advance([Batch(plan.train.x[own], plan.train.y[own]) for own in rows])


def check_equal(beliefs: Sequence[Belief], expected: Sequence[Belief], tolerance: float = 1e-9) -> None:
    """Two networks know the same, agent by agent."""
    for agent, (shown, belief) in enumerate(zip(beliefs, expected, strict=True)):
        scale = max(1.0, float(np.abs(belief.information).max()), float(np.abs(belief.shift).max()))
        assert np.abs(shown.information - belief.information).max() <= tolerance * scale, agent
        assert np.abs(shown.shift - belief.shift).max() <= tolerance * scale, agent


def ask_all(urls: Iterable[str], ask: Callable[[BlockingAgentClient], Answer]) -> list[Answer]:
    """What each of the agents at these addresses answers."""
    answers = []
    for url in urls:
        with BlockingAgentClient(url) as agent:
            answers.append(ask(agent))
    return answers


def statuses_at(urls: Iterable[str]) -> list[Status]:
    """How the agents are."""
    return ask_all(urls, lambda agent: agent.status())


def documents_at(urls: Iterable[str]) -> list[tuple[Any, Any, Any]]:
    """What is in force at each."""
    return ask_all(urls, lambda agent: (agent.model(), agent.neighbors(), agent.schedule()))


def beliefs_at(plan: NetworkPlan, urls: Iterable[str]) -> list[Belief]:
    """What the agents show."""
    messages = ask_all(urls, lambda agent: agent.parameters(plan.codec))
    return [plan.prior.plus(message.parts[0].evidence) for message in messages]


def check_run(path: Path, urls: Sequence[str]) -> None:
    """The agents have ended as an uninterrupted run does: every observation once, and the simulation's beliefs."""
    plan = load_plan(path)
    for status, rows in zip(statuses_at(urls), plan.parts, strict=True):
        counts = status.observations
        assert (counts.collected, counts.applied, counts.ended) == (len(rows), len(rows), True), status.agent
        assert (status.epoch, status.round, status.phase) == (1, rounds_of(plan), "finished"), status.agent
    check_equal(beliefs_at(plan, urls), simulate(plan))
