"""One round's arithmetic: mix, forget, condition. For one agent among neighbors, or for a whole network at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from service.errors import SettingError
from service.inference.activations import Activations
from service.inference.arrays import FloatArray, StartArray
from service.inference.belief import Belief, Evidence, check_alike
from service.inference.conditioning import ConditioningInfo, DiagonalStep, condition, condition_stack
from service.inference.likelihood import Likelihood
from service.inference.mixing import mix, mix_stack
from service.inference.stack import BeliefStack, check_same_kind


@dataclass(frozen=True)
class RoundRule:
    """What all rounds of a run share.

    likelihood_weight: n for the DELBO's maximiser (agents average to the centralised posterior), 1 for the lemmas.
    forgetting: the factor on evidence each round; 1 keeps all, less lets old observations fade.
    """

    prior: Belief
    likelihood_weight: float = 1.0
    diagonal_step: DiagonalStep = "paper"
    forgetting: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.forgetting <= 1:
            raise SettingError(f"forgetting must be above 0 and at most 1, not {self.forgetting}")


class Advanced(NamedTuple):
    """An agent after a round: its belief, the mixed (and partly forgotten) belief on the way, the evidence that its
    batch added, and what became of the batch."""

    belief: Belief
    mixed: Belief
    evidence: Evidence
    info: ConditioningInfo


def advance(
    own: Belief,
    neighbors: Sequence[Belief],
    mixing_weights: Any,
    activations: Activations,
    targets: Any,
    likelihood: Likelihood,
    rule: RoundRule,
) -> Advanced:
    """One agent's round: mix with what the neighbors showed, forget, then take the batch, in order.

    mixing_weights: the agent's own weight first, then one per neighbor.
    """
    mixed = forget(mix([own, *neighbors], mixing_weights), rule.prior, rule.forgetting)
    conditioned = condition(mixed, activations, targets, likelihood, rule.likelihood_weight, rule.diagonal_step)
    return Advanced(conditioned.belief, mixed, conditioned.evidence, conditioned.info)


class Observed(NamedTuple):
    """An agent's evidence after a round, and what became of its batch."""

    evidence: Evidence
    info: ConditioningInfo


def observe(
    mixed: Evidence, activations: Activations, targets: Any, likelihood: Likelihood, rule: RoundRule
) -> Observed:
    """The second half of a round, on evidence: what was mixed fades, then the batch is taken, in order.

    `advance` on beliefs is the same: belief = prior + evidence.
    """
    faded = mixed if rule.forgetting == 1 else mixed * rule.forgetting
    prior = rule.prior
    check_alike(prior, faded)
    stack = BeliefStack(type(prior), (prior.information + faded.information)[None], (prior.shift + faded.shift)[None])
    starts = np.array([0, len(activations)])
    infos = condition_stack(
        stack, activations, targets, starts, [likelihood], rule.likelihood_weight, rule.diagonal_step
    )
    after = type(prior).computed(stack.information[0], stack.shift[0])
    return Observed(after.minus(prior), infos[0])


def advance_network(
    stack: BeliefStack,
    mixing_matrix: csr_array,
    activations: Activations,
    targets: Any,
    agent_starts: StartArray,
    likelihoods: Sequence[Likelihood],
    rule: RoundRule,
) -> tuple[BeliefStack, list[ConditioningInfo]]:
    """Every agent's round at once: `advance` for all, with the mixing as one sparse matrix product."""
    mixed = mix_stack(stack, mixing_matrix)
    if rule.forgetting < 1:
        check_same_kind([rule.prior, stack[0]])
        mixed = BeliefStack(
            stack.family,
            _faded(mixed.information, rule.prior.information, rule.forgetting),
            _faded(mixed.shift, rule.prior.shift, rule.forgetting),
        )
    infos = condition_stack(
        mixed, activations, targets, agent_starts, likelihoods, rule.likelihood_weight, rule.diagonal_step
    )
    return mixed, infos


def forget(belief: Belief, prior: Belief, forgetting: float) -> Belief:
    """The belief with its evidence, information and shift alike, scaled: prior + forgetting (belief - prior)."""
    if forgetting == 1:
        return belief
    check_same_kind([belief, prior])
    information = _faded(belief.information, prior.information, forgetting)
    return type(belief).computed(information, _faded(belief.shift, prior.shift, forgetting))


def replay_rows(
    seed: int, agent: int, round_number: int, collected: int, count: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Which of the collected observations a round replays: drawn uniformly, with replacement.

    The draw depends on (seed, agent, round) only, so that an agent that restarts draws the same again.
    """
    if collected < 1:
        raise SettingError("there is nothing to replay before an observation has been collected")
    return np.random.default_rng((seed, agent, round_number)).integers(collected, size=count)


def _faded(values: FloatArray, prior: FloatArray, forgetting: float) -> FloatArray:
    return prior + forgetting * (values - prior)
