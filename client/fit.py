"""`delbo fit`: simulated agents learn one model from one data set, and are measured on held-out rows."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from client.evaluation import Scores, check_table, count_uncovered, evaluate
from client.mixing_weights import spectral_gap
from client.simulation import Simulation
from client.streams.partitions import Draw, Order, Rows
from client.streams.tables import Table
from service.errors import SettingError
from service.inference.belief import Belief
from service.inference.features import Features
from service.inference.likelihood import Likelihood
from service.inference.objective import consensus_divergence, consensus_error, divergences_from_center
from service.inference.round import RoundRule
from service.wire.model import ModelSpec

_CURVE_POINTS = 40
_CURVE_TEST_ROWS = 2000

Progress = Callable[[str, int, int], None]


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


@dataclass
class Curves:
    """Error and consensus error of every agent on the way: lists over `rounds` of one number per agent."""

    rounds: list[int] = field(default_factory=list)
    errors: list[list[float]] = field(default_factory=list)
    consensus_errors: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0  # that measuring them took

    def extend(self, network: Simulation, test: Table) -> None:
        """Measure the network where it stands."""
        began = time.perf_counter()
        count = min(len(test), _CURVE_TEST_ROWS)  # drawn, not every k-th: rows often repeat a pattern, beam after beam
        sample = test.take(np.random.default_rng(0).choice(len(test), count, replace=False))
        scores = evaluate(network.beliefs, network.features, network.likelihoods[0], sample)
        self.rounds.append(network.round)
        self.errors.append([1 - score["accuracy"] if "accuracy" in score else score["rmse"] for score in scores])
        self.consensus_errors.append(consensus_error(network.beliefs).tolist())
        self.seconds += time.perf_counter() - began


@dataclass(frozen=True, eq=False)
class FitResult:
    """Everything that a fit found out."""

    spec: ModelSpec
    features: Features
    likelihood: Likelihood
    beliefs: list[Belief]
    isolated_beliefs: list[Belief]
    summary: dict[str, Any]
    curves: Curves
    train: Table
    test: Table


def fit(
    spec: ModelSpec,
    train: Table,
    test: Table,
    parts: list[Rows],
    mixing_matrix: Any,
    names: Sequence[str],
    options: FitOptions,
    progress: Progress | None = None,
) -> FitResult:
    """Run the network (and, to compare, one learner with all data and agents without neighbors), then measure."""
    features, likelihood = spec.build_features(), spec.likelihood.build()
    for table in (train, test):
        check_table(table, features.dimension, likelihood)
    prior = spec.build_prior(features)
    weight = options.likelihood_weight or float(len(parts))
    network = Simulation(features, likelihood, _rule(spec, prior, weight, options), mixing_matrix)
    runner = _Runner(train, parts, options, progress)
    curves = Curves()

    def after_round(done: int) -> None:
        if options.curves and runner.is_milestone(done):
            curves.extend(network, test)

    began = time.perf_counter()
    runner.run("learning together", network, [[agent] for agent in range(len(parts))], after_round)
    seconds = time.perf_counter() - began - curves.seconds
    scores = evaluate(network.beliefs, features, likelihood, test)
    summary = {
        "model_id": spec.model_id,
        "features": features.feature_count,
        "rounds": runner.rounds,
        "seconds": seconds,
        "spectral_gap": spectral_gap(network.mixing_matrix),
        "likelihood_weight": weight,
        "consensus_divergence": consensus_divergence(network.beliefs),
        "test": {"rows": len(test), "uncovered": count_uncovered(features, test)},
        "agents": _agent_summaries(names, network, scores),
    }
    isolated: list[Belief] = []
    if options.compare:
        # Alone, or with all the data in one place, Bayes' rule takes every observation once.
        alone = partial(Simulation, features, likelihood, _rule(spec, prior, 1.0, options), np.eye(1))
        compared, isolated = _compare(runner, alone, names, test)
        summary |= compared
    return FitResult(spec, features, likelihood, network.beliefs, isolated, summary, curves, train, test)


def _rule(spec: ModelSpec, prior: Belief, weight: float, options: FitOptions) -> RoundRule:
    return RoundRule(prior, weight, spec.step, options.forgetting)


class _Runner:
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


def _compare(
    runner: _Runner, alone: Callable[[], Simulation], names: Sequence[str], test: Table
) -> tuple[dict[str, Any], list[Belief]]:
    """One learner that takes all agents' batches, and every agent without neighbors."""
    central = alone()
    runner.run("one learner", central, [list(range(len(names)))])
    summaries: list[dict[str, Any]] = []
    beliefs: list[Belief] = []
    for agent, name in enumerate(names):
        single = alone()
        runner.run(f"{name} alone", single, [[agent]])
        summaries.append(_summary(name, single, test))
        beliefs += single.beliefs
    return {"centralized": _summary("centralized", central, test), "isolated": summaries}, beliefs


def _agent_summaries(names: Sequence[str], network: Simulation, scores: list[Scores]) -> list[dict[str, Any]]:
    errors = consensus_error(network.beliefs).tolist()
    divergences = divergences_from_center(network.beliefs).tolist()
    return [
        {
            "name": name,
            "observations": int(network.observations[agent]),
            "uncovered": int(network.uncovered[agent]),
            **scores[agent],
            "consensus_error": errors[agent],
            "consensus_divergence": divergences[agent],
        }
        for agent, name in enumerate(names)
    ]


def _summary(name: str, simulation: Simulation, test: Table) -> dict[str, Any]:
    [score] = evaluate(simulation.beliefs, simulation.features, simulation.likelihoods[0], test)
    counts = {"observations": int(simulation.observations[0]), "uncovered": int(simulation.uncovered[0])}
    return {"name": name, **counts, **score}
