"""How good beliefs are on a test set, and how far agents are from each other."""

from collections.abc import Sequence

import numpy as np

from client.streams.tables import Table
from service.errors import DataError, DelboError
from service.inference.arrays import FloatArray
from service.inference.belief import Belief
from service.inference.features import Features
from service.inference.likelihoods import Likelihood
from service.inference.objective import (
    accuracy,
    balanced_accuracy,
    calibration_error,
    cross_entropy,
    root_mean_square_error,
)
from service.inference.prediction import predict_all

Scores = dict[str, float]

_ROWS_AT_ONCE = 2048


def check_table(table: Table, features_dimension: int, likelihood: Likelihood) -> None:
    """Refuse a table whose points or targets the model cannot take, naming the file."""
    if table.x.shape[1] != features_dimension:
        raise DataError(
            f"{table.source}: points have {table.x.shape[1]} coordinate(s), but the model's features take "
            f"{features_dimension}"
        )
    try:
        likelihood.check_targets(table.y)
    except DelboError as fault:
        raise DataError(f"{table.source}: {fault}") from None


def evaluate(beliefs: Sequence[Belief], features: Features, likelihood: Likelihood, test: Table) -> list[Scores]:
    """Every belief's scores on the test set: as a classifier for class labels, else as a regression."""
    if likelihood.is_binary:
        return [_classification(p, test.y) for p in _means(beliefs, features, likelihood, test)]
    return _regression(beliefs, features, likelihood, test)


def count_uncovered(features: Features, test: Table) -> int:
    """The number of test points that no centre reaches."""
    chunks = range(0, len(test), _ROWS_AT_ONCE)
    return sum(int((~features.activate(test.x[begin : begin + _ROWS_AT_ONCE]).covered).sum()) for begin in chunks)


def _means(beliefs: Sequence[Belief], features: Features, likelihood: Likelihood, test: Table) -> FloatArray:
    """E[y] by belief and test row, shape (beliefs, rows)."""
    means = np.empty((len(beliefs), len(test)))
    for begin in range(0, len(test), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        predictions = predict_all(beliefs, features.activate(test.x[rows]), likelihood)
        means[:, rows] = [prediction.mean for prediction in predictions]
    return means


def _classification(probabilities: FloatArray, labels: FloatArray) -> Scores:
    return {
        "accuracy": accuracy(probabilities, labels),
        "balanced_accuracy": balanced_accuracy(probabilities, labels),
        "cross_entropy": cross_entropy(probabilities, labels),
        "calibration_error": calibration_error(probabilities, labels),
    }


def _regression(beliefs: Sequence[Belief], features: Features, likelihood: Likelihood, test: Table) -> list[Scores]:
    """Root mean square error, and the mean log predictive density."""
    squares, logs = np.zeros(len(beliefs)), np.zeros(len(beliefs))
    for begin in range(0, len(test), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        y = test.y[rows]
        for agent, seen in enumerate(predict_all(beliefs, features.activate(test.x[rows]), likelihood)):
            squares[agent] += root_mean_square_error(seen.mean, y) ** 2 * len(y)
            logs[agent] += likelihood.log_predictive_density(y, seen.latent_mean, seen.latent_variance).sum()
    rmse, log_density = np.sqrt(squares / len(test)), logs / len(test)
    return [{"rmse": float(r), "log_density": float(d)} for r, d in zip(rmse, log_density, strict=True)]
