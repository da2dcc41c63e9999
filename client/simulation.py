"""The same network in one process: n agents in lockstep, by the very arithmetic that the service uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from client.mixing_weights import check_mixing_weights
from service.errors import SettingError
from service.inference.arrays import FloatArray
from service.inference.belief import Belief
from service.inference.conditioning import ConditioningInfo
from service.inference.features import Features
from service.inference.likelihood import Likelihood
from service.inference.round import RoundRule, advance_network
from service.inference.stack import BeliefStack


@dataclass(frozen=True, eq=False)
class Batch:
    """One agent's observations of one round; none is fine."""

    x: FloatArray
    y: FloatArray


class Simulation:
    """n agents: each round all mix what all showed after the last one, then each takes its own batch in order."""

    def __init__(
        self,
        features: Features,
        likelihoods: Likelihood | Sequence[Likelihood],
        rule: RoundRule,
        mixing_matrix: Any,
        start: Sequence[Belief] | None = None,
    ) -> None:
        """One likelihood for all, or one per agent; every agent starts from the prior unless `start` says otherwise."""
        self.mixing_matrix = csr_array(mixing_matrix)
        check_mixing_weights(self.mixing_matrix)
        count = self.mixing_matrix.shape[0]
        self.likelihoods = [likelihoods] * count if isinstance(likelihoods, Likelihood) else list(likelihoods)
        beliefs = [rule.prior] * count if start is None else list(start)
        if len(self.likelihoods) != count or len(beliefs) != count:
            raise SettingError(f"the mixing matrix is for {count} agents: give as many likelihoods and beliefs")
        self.features, self.rule = features, rule
        self.stack = BeliefStack.of(beliefs)
        self.round = 0
        self.observations = np.zeros(count, np.int64)
        self.uncovered = np.zeros(count, np.int64)

    def __len__(self) -> int:
        return len(self.likelihoods)

    @property
    def beliefs(self) -> list[Belief]:
        """Every agent's belief after the last round."""
        return list(self.stack)

    def advance(self, batches: Sequence[Batch]) -> list[ConditioningInfo]:
        """One round of all agents; batches[i] is what agent i observes in it."""
        if len(batches) != len(self):
            raise SettingError(f"{len(self)} agents need as many batches, not {len(batches)}")
        starts = np.cumsum([0, *(len(batch.y) for batch in batches)])
        return self.advance_rows(
            np.concatenate([batch.x for batch in batches]), np.concatenate([batch.y for batch in batches]), starts
        )

    def advance_rows(self, x: FloatArray, y: FloatArray, agent_starts: Any) -> list[ConditioningInfo]:
        """One round, the batches of all agents one below the other: agent i has agent_starts[i] to [i + 1]."""
        starts = np.asarray(agent_starts, np.int64)
        activations = self.features.activate(x)
        self.stack, infos = advance_network(
            self.stack, self.mixing_matrix, activations, y, starts, self.likelihoods, self.rule
        )
        self.round += 1
        self.observations += [info.observations for info in infos]
        self.uncovered += [info.uncovered for info in infos]
        return infos
