"""Verification: labelled points, ready to be scored in the rounds that they are for."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from service.agent.model import LoadedModel
from service.inference.activations import Activations
from service.inference.belief import Belief
from service.inference.prediction import predict
from service.inference.scores import ErrorSums, Scores, label_scores
from service.wire.verification import VerificationDocument

_KEPT_VALUES = 4_000_000  # activations; those of more points or features are computed every time


@dataclass(frozen=True, eq=False)
class LoadedVerification:
    """A verification document with the activations of its points."""

    document: VerificationDocument
    model: LoadedModel

    def prepared_json(self) -> str:
        """The document as it is kept; and the activations are made now, not in a round."""
        _ = self._kept
        return self.document.to_json().decode()

    def is_due(self, round_number: int) -> bool:
        """Whether that round is one of those to be scored."""
        return len(self.document) > 0 and round_number % self.document.every_rounds == 0

    def scores(self, belief: Belief) -> Scores:
        """The belief's scores; what cannot be told in finite numbers is left out."""
        likelihood, y = self.model.likelihood, self.document.y
        with np.errstate(all="ignore"):
            if likelihood.is_binary:
                parts = [predict(belief, activations, likelihood).mean for _, activations in self._parts()]
                scores = label_scores(np.concatenate(parts), y)
            else:
                sums = ErrorSums()
                for rows, activations in self._parts():
                    sums = sums.plus(predict(belief, activations, likelihood), y[rows])
                scores = sums.scores
        return {name: value for name, value in scores.items() if np.isfinite(value)}

    def _parts(self) -> Iterator[tuple[slice, Activations]]:
        size = self.model.points_at_once
        for part, begin in enumerate(range(0, len(self.document), size)):
            rows = slice(begin, begin + size)
            yield rows, self._kept[part] if self._kept else self.model.features.activate(self.document.x[rows])

    @cached_property
    def _kept(self) -> list[Activations]:
        """The activations of all parts, or none, if they would take too much memory."""
        size, kept, values = self.model.points_at_once, [], 0
        for begin in range(0, len(self.document), size):
            activations = self.model.features.activate(self.document.x[begin : begin + size])
            values += activations.values.size
            if values > _KEPT_VALUES:
                return []
            kept.append(activations)
        return kept
