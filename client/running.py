"""Run a network of real agents: configure, stream, wait until it has settled, measure every agent's belief."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from client.comparison import FitOptions, Runner, compare
from client.concurrently import beside
from client.console import INEXACT, note
from client.coordinator import Coordinator
from client.curves import Curves, sample
from client.evaluation import count_uncovered, evaluate
from client.network.plan import NetworkPlan
from client.result import Result, summarize
from client.simulation import Simulation
from client.streaming import StreamProgress
from client.streams.tables import Table
from client.tokens import Tokens
from service.errors import DelboError
from service.inference.belief import Belief
from service.inference.objective import consensus_error
from service.inference.scores import Scores
from service.wire.answers import Status

_LOOK_EVERY_S = 0.5
_MEASURING_SHARE = 4  # times what measuring took is rested, so that it takes a fifth of a core at most


class View(Protocol):
    """Who watches a run."""

    def say(self, what: str) -> None:
        """What is being done now."""

    def show(self, picture: "Picture") -> None:
        """How the network stands."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A network at one moment."""

    names: Sequence[str]
    statuses: Sequence[Status | None]  # None: it does not answer
    scores: Sequence[Scores | None] = ()
    consensus_errors: Sequence[float | None] = ()
    alone: Sequence[float | None] = ()  # the balanced accuracy that each would have without the others
    progress: StreamProgress | None = None
    refusing: Collection[str] = ()  # who answered, and did not let us in


@dataclass
class Comparison:
    """What the agents reach alone, and one learner with all the data; simulated, with the same rounds."""

    summary: dict[str, Any] = field(default_factory=dict)
    beliefs: list[Belief] = field(default_factory=list)
    alone: list[tuple[list[int], list[float]]] = field(
        default_factory=list
    )  # of each agent: rounds, balanced accuracies

    def accuracies_at(self, statuses: Sequence[Status]) -> list[float | None]:
        """What each agent would have alone after as many rounds; None where that is not known."""
        return [
            float(np.interp(status.rounds_in_all, [0, *rounds], [0.5, *accuracies])) if rounds else None
            for status, (rounds, accuracies) in zip(statuses, self.alone, strict=False)
        ]


def compare_plan(plan: NetworkPlan, progress: Callable[[str, int, int], None] | None = None) -> Comparison:
    """Simulate what the plan's agents are compared with."""
    train, test = _tables(plan)
    rule = plan.document.schedule
    options = FitOptions(batch=max(1, rule.observations_per_round), forgetting=rule.forgetting)
    runner = Runner(train, plan.parts, options, progress)
    likelihoods = [plan.likelihood_of(agent) for agent in range(len(plan.names))]
    comparison = Comparison(alone=[([], []) for _ in plan.names])
    few = sample(test)

    def watch(agent: int, simulation: Simulation) -> None:
        [score] = evaluate(simulation.beliefs, simulation.features, plan.likelihood, few)
        if "balanced_accuracy" in score:
            rounds, accuracies = comparison.alone[agent]
            rounds.append(simulation.round)
            accuracies.append(score["balanced_accuracy"])

    comparison.summary, comparison.beliefs = compare(runner, plan.spec, likelihoods, plan.names, test, watch)
    return comparison


async def run_network(
    plan: NetworkPlan,
    urls: Mapping[str, str],
    view: View,
    comparison: Comparison | None = None,
    keep: bool = False,
    tokens: Tokens | None = None,
) -> Result:
    """Drive agents that answer at these addresses through the whole plan; keep: they are to go on by themselves."""
    _, test = _tables(plan)
    curves, progress = Curves(), StreamProgress()
    async with Coordinator(plan, urls, tokens=tokens) as coordinator:
        view.say("configuring")
        await coordinator.check()
        await coordinator.configure()
        if not coordinator.was_exact:
            note(INEXACT)
        view.say("streaming")
        began = time.perf_counter()
        async with beside(_watch(coordinator, test, curves, comparison, progress, view)):
            await coordinator.stream(progress)
            view.say("settling")
            statuses = await coordinator.wait_until_settled()
        seconds = time.perf_counter() - began
        view.say("measuring")
        result = await measure(coordinator, statuses, curves, comparison)
        result.summary["seconds"] = seconds
        if keep:
            await coordinator.let_go()
    return result


async def measure(
    coordinator: Coordinator,
    statuses: Sequence[Status],
    curves: Curves | None = None,
    comparison: Comparison | None = None,
    test: Table | None = None,
) -> Result:
    """Every agent's belief, measured on the verification data, or on other data."""
    plan, told = coordinator.plan, comparison or Comparison()
    train, own_test = _tables(plan, test)
    verified = own_test if test is None else test
    beliefs = await coordinator.beliefs()
    scores = await asyncio.to_thread(evaluate, beliefs, plan.features, plan.likelihood, verified)
    counts = [status.observations for status in statuses]
    summary = summarize(
        plan.spec,
        plan.mixing_matrix,
        plan.names,
        beliefs,
        scores,
        [count.applied for count in counts],
        [count.uncovered for count in counts],
    )
    summary |= {
        "rounds": max(status.rounds_in_all for status in statuses),
        "likelihood_weight": plan.document.schedule.weight_among(len(plan.names)),
        "test": {"rows": len(verified), "uncovered": count_uncovered(plan.features, verified)},
        **told.summary,
    }
    if curves is not None:
        curves.extend(summary["rounds"], beliefs, plan.features, plan.likelihood, verified)
    return Result(
        plan.spec,
        plan.features,
        plan.likelihood,
        beliefs,
        told.beliefs,
        summary,
        curves or Curves(),
        train,
        verified,
    )


async def _watch(
    coordinator: Coordinator,
    test: Table,
    curves: Curves,
    comparison: Comparison | None,
    progress: StreamProgress,
    view: View,
) -> None:
    """Look at the network again and again, until cancelled; an agent that is away for a while is no fault here."""
    plan, few = coordinator.plan, sample(test)
    while True:
        began = time.perf_counter()
        try:
            statuses, beliefs = await coordinator.statuses(), await coordinator.beliefs()
            scores = await asyncio.to_thread(evaluate, beliefs, plan.features, plan.likelihood, few)
        except DelboError:
            await asyncio.sleep(_LOOK_EVERY_S)
            continue
        curves.append(min(status.rounds_in_all for status in statuses), scores, consensus_error(beliefs))
        alone = [] if comparison is None else comparison.accuracies_at(statuses)
        view.show(Picture(plan.names, statuses, scores, curves.consensus_errors[-1], alone, progress))
        await asyncio.sleep(max(_LOOK_EVERY_S, _MEASURING_SHARE * (time.perf_counter() - began)))


def _tables(plan: NetworkPlan, test: Table | None = None) -> tuple[Table, Table]:
    """Training and test data; without a test set the scores are on the training rows."""
    known = [table for table in (plan.train, plan.test, test) if table is not None]
    train = known[0] if known else plan.observations()
    return train, train if plan.test is None else plan.test
