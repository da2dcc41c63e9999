"""What a network is compared with: one learner that has all the data, and every agent alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from client.evaluation import evaluate
from client.simulation import Simulation
from client.streams.partitions import Draw, Order, Rows
from client.streams.tables import Table
from service.errors import SettingError
from service.inference.belief import Belief
from service.inference.likelihood import Likelihood
from service.inference.round import RoundRule
from service.wire.model import ModelSpec

_CURVE_POINTS = 40

Progress = Callable[[str, int, int], None]
Watch = Callable[[int, Simulation], None]  # the agent's number, and where it stands


@dataclass(frozen=True)
class FitOptions:
    """How the agents take their data. steps: observations per agent; else so many passes over its own."""

    batch: int = 1
    passes: int = 1
    steps: int | None = None
    order: Order = "stream"
    likelihood_weight: float | None = None  # None: as many as there are agents
    forgetting: float = 1.0
    seed: int = 0
    compare: bool = False
    curves: bool = False

    def __post_init__(self) -> None:
        for name in ("batch", "passes", "steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"--{name} must be at least 1, not {value}")
        if self.seed < 0:
            raise SettingError(f"--seed must not be negative, not {self.seed}")


class Runner:
    """Feeds simulations with the same rows in the same rounds, whoever takes them."""

    def __init__(self, train: Table, parts: list[Rows], options: FitOptions, progress: Progress | None) -> None:
        self.train, self.parts, self.options, self.progress = train, parts, options, progress
        self.steps = [options.steps or options.passes * len(rows) for rows in parts]
        self.rounds = -(-max(self.steps) // options.batch)

    def run(
        self,
        what: str,
        simulation: Simulation,
        shares: list[list[int]],
        after_round: Callable[[int], None] | None = None,
    ) -> None:
        """All rounds; shares[i] names the parts that agent i of the simulation takes in each round, in order."""
        options = self.options
        parts = [part for share in shares for part in share]
        draws = [Draw(self.parts[part], options.order, self.steps[part], options.seed, part) for part in parts]
        ends = np.cumsum([0, *(len(share) for share in shares)])
        for number in range(self.rounds):
            taken = [draw.take(number, options.batch) for draw in draws]
            rows = np.concatenate(taken)
            starts = np.cumsum([0, *(len(piece) for piece in taken)])[ends]
            simulation.advance_rows(self.train.x[rows], self.train.y[rows], starts)
            if self.progress is not None:
                self.progress(what, number + 1, self.rounds)
            if after_round is not None:
                after_round(number + 1)

    def is_milestone(self, done: int) -> bool:
        """Whether a curve has a point here: some forty of them, and the end."""
        return done % max(1, self.rounds // _CURVE_POINTS) == 0 or done == self.rounds


def compare(
    runner: Runner,
    spec: ModelSpec,
    likelihoods: Sequence[Likelihood],
    names: Sequence[str],
    test: Table,
    watch: Watch | None = None,
) -> tuple[dict[str, Any], list[Belief]]:
    """One learner that takes all agents' batches, if they have one sensor; and every agent without neighbors.

    watch sees the agents alone at the milestones.
    """
    features = spec.build_features()
    # Alone, or with all the data in one place, Bayes' rule takes every observation once.
    rule = RoundRule(spec.build_prior(features), 1.0, spec.step, runner.options.forgetting)
    compared: dict[str, Any] = {}
    if all(type(one) is type(likelihoods[0]) for one in likelihoods):
        central = Simulation(features, likelihoods[0], rule, np.eye(1))
        runner.run("one learner", central, [list(range(len(names)))])
        compared["centralized"] = _summary("centralized", central, likelihoods[0], test)
    summaries: list[dict[str, Any]] = []
    beliefs: list[Belief] = []
    for agent, name in enumerate(names):
        single = Simulation(features, likelihoods[agent], rule, np.eye(1))

        def after_round(done: int, agent: int = agent, single: Simulation = single) -> None:
            if watch is not None and runner.is_milestone(done):
                watch(agent, single)

        runner.run(f"{name} alone", single, [[agent]], after_round)
        summaries.append(_summary(name, single, likelihoods[0], test))
        beliefs += single.beliefs
    return compared | {"isolated": summaries}, beliefs


def _summary(name: str, simulation: Simulation, likelihood: Likelihood, test: Table) -> dict[str, Any]:
    [score] = evaluate(simulation.beliefs, simulation.features, likelihood, test)
    counts = {"observations": int(simulation.observations[0]), "uncovered": int(simulation.uncovered[0])}
    return {"name": name, **counts, **score}
