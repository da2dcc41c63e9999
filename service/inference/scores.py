"""How good predictions are where the truth is known: the scores of classifiers, and of regressions."""

from typing import Any, NamedTuple

import numpy as np

from service.errors import DataError
from service.inference.objective import (
    accuracy,
    balanced_accuracy,
    calibration_error,
    cross_entropy,
    root_mean_square_error,
)
from service.inference.prediction import Prediction

Scores = dict[str, float]


def label_scores(probabilities: Any, labels: Any) -> Scores:
    """Of a classifier: the share that is right, overall and by class; cross-entropy and calibration error."""
    return {
        "accuracy": accuracy(probabilities, labels),
        "balanced_accuracy": balanced_accuracy(probabilities, labels),
        "cross_entropy": cross_entropy(probabilities, labels),
        "calibration_error": calibration_error(probabilities, labels),
    }


class ErrorSums(NamedTuple):
    """What a regression's scores are made of; sums, so that points can come in parts."""

    squares: float = 0.0
    log_densities: float = 0.0
    points: int = 0

    def plus(self, prediction: Prediction, targets: Any) -> "ErrorSums":
        """With some more points; what overflows shows in the scores."""
        y = prediction.likelihood.check_targets(targets)
        if len(y) != len(prediction.latent_mean):
            raise DataError(f"{len(prediction.latent_mean)} predictions and {len(y)} targets do not go together")
        with np.errstate(over="ignore", invalid="ignore"):
            squares = root_mean_square_error(prediction.mean, y) ** 2 * len(y)
            logs = prediction.likelihood.log_predictive_density(y, prediction.latent_mean, prediction.latent_variance)
            return ErrorSums(self.squares + squares, self.log_densities + float(logs.sum()), self.points + len(y))

    @property
    def scores(self) -> Scores:
        """The root mean square error, and the mean log predictive density."""
        with np.errstate(over="ignore", invalid="ignore"):
            rmse, density = np.sqrt(np.array(self.squares) / self.points), self.log_densities / self.points
        return {"rmse": float(rmse), "log_density": float(density)}
