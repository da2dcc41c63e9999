"""`delbo fit`: simulated agents learn one model from one data set, and are measured on held-out rows."""

import time
from collections.abc import Sequence
from typing import Any

from client.comparison import FitOptions, Progress, Runner, compare
from client.curves import Curves
from client.evaluation import check_table, count_uncovered, evaluate
from client.result import Result, summarize
from client.simulation import Simulation
from client.streams.partitions import Rows
from client.streams.tables import Table
from service.inference.belief import Belief
from service.inference.round import RoundRule
from service.wire.model import ModelSpec


def fit(
    spec: ModelSpec,
    train: Table,
    test: Table,
    parts: list[Rows],
    mixing_matrix: Any,
    names: Sequence[str],
    options: FitOptions,
    progress: Progress | None = None,
) -> Result:
    """Run the network (and, to compare, one learner with all data and agents without neighbors), then measure."""
    features, likelihood = spec.build_features(), spec.likelihood.build()
    for table in (train, test):
        check_table(table, features.dimension, likelihood)
    prior = spec.build_prior(features)
    weight = options.likelihood_weight or float(len(parts))
    network = Simulation(features, likelihood, RoundRule(prior, weight, spec.step, options.forgetting), mixing_matrix)
    runner = Runner(train, parts, options, progress)
    curves = Curves()

    def after_round(done: int) -> None:
        if options.curves and runner.is_milestone(done):
            curves.extend(network.round, network.beliefs, features, likelihood, test)

    began = time.perf_counter()
    runner.run("learning together", network, [[agent] for agent in range(len(parts))], after_round)
    seconds = time.perf_counter() - began - curves.seconds
    scores = evaluate(network.beliefs, features, likelihood, test)
    summary = summarize(
        spec,
        network.mixing_matrix,
        names,
        network.beliefs,
        scores,
        network.observations.tolist(),
        network.uncovered.tolist(),
    )
    summary |= {
        "rounds": runner.rounds,
        "seconds": seconds,
        "likelihood_weight": weight,
        "test": {"rows": len(test), "uncovered": count_uncovered(features, test)},
    }
    isolated: list[Belief] = []
    if options.compare:
        compared, isolated = compare(runner, spec, [likelihood] * len(parts), names, test)
        summary |= compared
    return Result(spec, features, likelihood, network.beliefs, isolated, summary, curves, train, test)
