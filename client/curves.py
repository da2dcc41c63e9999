"""Curves: how a network's errors fall on the way."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from client.evaluation import evaluate
from client.streams.tables import Table
from service.inference.arrays import FloatArray
from service.inference.belief import Belief
from service.inference.features import Features
from service.inference.likelihood import Likelihood
from service.inference.objective import consensus_error
from service.inference.scores import Scores

_TEST_ROWS = 2000


@dataclass
class Curves:
    """Error and consensus error of every agent on the way: lists over `rounds` of one number per agent."""

    rounds: list[int] = field(default_factory=list)
    errors: list[list[float]] = field(default_factory=list)
    consensus_errors: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0  # that measuring them took

    def extend(
        self, round_number: int, beliefs: Sequence[Belief], features: Features, likelihood: Likelihood, test: Table
    ) -> None:
        """Measure the network where it stands, on some rows of the test set."""
        began = time.perf_counter()
        self.append(round_number, evaluate(beliefs, features, likelihood, sample(test)), consensus_error(beliefs))
        self.seconds += time.perf_counter() - began

    def append(self, round_number: int, scores: Sequence[Scores], consensus_errors: FloatArray) -> None:
        """Take what was measured."""
        self.rounds.append(round_number)
        self.errors.append([1 - score["accuracy"] if "accuracy" in score else score["rmse"] for score in scores])
        self.consensus_errors.append(consensus_errors.tolist())


def sample(test: Table) -> Table:
    """Some rows, always the same; drawn, not every k-th: rows often repeat a pattern, beam after beam."""
    count = min(len(test), _TEST_ROWS)
    return test.take(np.random.default_rng(0).choice(len(test), count, replace=False))
