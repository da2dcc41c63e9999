"""A model, loaded: everything that is built from the model document once, and a round's arithmetic with it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from service.agent.exchange import EXCHANGES, Combined, State
from service.errors import ModelError
from service.inference.arrays import FloatArray
from service.inference.belief import Belief, Evidence
from service.inference.conditioning import ConditioningInfo
from service.inference.features import Features
from service.inference.likelihood import Likelihood
from service.inference.objective import delbo_component, expected_log_likelihood
from service.inference.prediction import Prediction, predict
from service.inference.round import RoundRule, observe
from service.wire.configuration import ModelDocument, NeighborsDocument, ScheduleDocument
from service.wire.observations import ObservationReader
from service.wire.parameters import ParameterCodec, ParameterMessage

_LOCAL_ROWS = 65_536
_DENSE_VALUES = 16_000_000
_FEWEST_ROWS = 256
_LOCAL_POINTS = 16_384
_DENSE_POINT_VALUES = 4_000_000


class Computed(NamedTuple):
    """A round, computed and not yet committed."""

    state: State
    combined: Combined
    info: ConditioningInfo


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """Features, prior and likelihood, ready to use."""

    document: ModelDocument
    features: Features
    prior: Belief
    likelihood: Likelihood

    @classmethod
    def load(cls, document: ModelDocument) -> "LoadedModel":
        """Build everything; a model that does not fit this machine is a ModelError."""
        try:
            features = document.spec.build_features()
            return cls(document, features, document.spec.build_prior(features), document.build_likelihood())
        except MemoryError:
            raise ModelError("the model does not fit into this machine's memory") from None

    @cached_property
    def model_id(self) -> str:
        """What agents must share to mix."""
        return self.document.spec.model_id

    @cached_property
    def codec(self) -> ParameterCodec:
        """Parameter messages of this model."""
        return ParameterCodec(self.model_id, self.prior)

    @cached_property
    def reader(self) -> ObservationReader:
        """Observations for this model and likelihood."""
        return ObservationReader(self.features.dimension, self.likelihood)

    @property
    def outputs(self) -> int | None:
        """Components of y; None if y is a number."""
        return self.likelihood.outputs if self.likelihood.is_vector else None

    def belief(self, state: State) -> Belief:
        """Prior + evidence."""
        return self.prior.plus(state.evidence)

    def compute(
        self,
        state: State,
        answers: Mapping[str, ParameterMessage],
        neighbors: NeighborsDocument,
        schedule: ScheduleDocument,
        x: FloatArray,
        y: FloatArray,
    ) -> Computed:
        """One round: combine with the neighbors' answers, fade, take the observations in order."""
        exchange = EXCHANGES[schedule.exchange]
        combined = exchange.combine(state, answers, neighbors)
        rule = RoundRule(
            self.prior,
            likelihood_weight=schedule.weight_among(neighbors.agents),
            diagonal_step=self.document.spec.step,
            forgetting=schedule.forgetting,
        )
        evidence, info = combined.state.evidence, ConditioningInfo(0, 0, 0)
        for begin in range(0, max(len(y), 1), self._rows_at_once):
            rows = slice(begin, begin + self._rows_at_once)
            evidence, added = observe(evidence, self.features.activate(x[rows]), y[rows], self.likelihood, rule)
            info = ConditioningInfo(*(one + other for one, other in zip(info, added, strict=True)))
            rule = replace(rule, forgetting=1.0)  # once a round
        return Computed(exchange.absorb(combined.state, evidence), combined, info)

    def predict(self, belief: Belief, x: FloatArray) -> Prediction:
        """What the belief says of these points; as many as one likes, for they are taken in parts."""
        size = self.points_at_once
        parts = [
            predict(belief, self.features.activate(x[begin : begin + size]), self.likelihood)
            for begin in range(0, max(len(x), 1), size)
        ]
        if len(parts) == 1:
            return parts[0]
        mean = np.concatenate([part.latent_mean for part in parts])
        return Prediction(mean, np.concatenate([part.latent_variance for part in parts]), self.likelihood)

    def delbo_component(self, q: Belief, mixed: Evidence, x: FloatArray, y: FloatArray, agents: int) -> float:
        """This agent's part of the DELBO, with `mixed` the evidence before its own observations."""
        size = self.points_at_once
        activations = self.features.activate(x[:size])
        value = delbo_component(q, self.prior.plus(mixed), activations, y[:size], self.likelihood, agents)
        for begin in range(size, len(y), size):
            rows = slice(begin, begin + size)
            value += expected_log_likelihood(q, self.features.activate(x[rows]), y[rows], self.likelihood)
        return value

    @property
    def points_at_once(self) -> int:
        """Points whose activations are in memory at a time, where something is asked of a belief."""
        if self.features.cutoff is not None:
            return _LOCAL_POINTS
        return max(_FEWEST_ROWS, _DENSE_POINT_VALUES // self.features.feature_count)

    @property
    def _rows_at_once(self) -> int:
        """Chunks equal the whole; they bound the memory that activations take."""
        if self.features.cutoff is not None:
            return _LOCAL_ROWS
        return max(_FEWEST_ROWS, _DENSE_VALUES // self.features.feature_count)
