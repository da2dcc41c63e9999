"""How good beliefs are on a test set."""

from collections.abc import Iterator, Sequence

import numpy as np

from client.streams.tables import Table
from service.errors import DataError, DelboError, NumericalError
from service.inference.belief import Belief
from service.inference.features import Features
from service.inference.likelihood import Likelihood
from service.inference.prediction import Prediction, predict_all
from service.inference.scores import ErrorSums, Scores, label_scores

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
    scores = (_classification if likelihood.is_binary else _regression)(beliefs, features, likelihood, test)
    for score in scores:
        for name, value in score.items():
            if not np.isfinite(value):
                raise NumericalError(f"{test.source}: the {name} on these targets is {value}: they are far too large")
    return scores


def count_uncovered(features: Features, test: Table) -> int:
    """The number of test points that no centre reaches."""
    return sum(int((~features.activate(test.x[rows]).covered).sum()) for rows in _chunks(test))


def _classification(beliefs: Sequence[Belief], features: Features, likelihood: Likelihood, test: Table) -> list[Scores]:
    probabilities = np.empty((len(beliefs), len(test)))
    for rows, predictions in _predictions(beliefs, features, likelihood, test):
        probabilities[:, rows] = [prediction.mean for prediction in predictions]
    return [label_scores(p, test.y) for p in probabilities]


def _regression(beliefs: Sequence[Belief], features: Features, likelihood: Likelihood, test: Table) -> list[Scores]:
    """Root mean square error, and the mean log predictive density."""
    sums = [ErrorSums()] * len(beliefs)
    for rows, predictions in _predictions(beliefs, features, likelihood, test):
        sums = [one.plus(seen, test.y[rows]) for one, seen in zip(sums, predictions, strict=True)]
    return [one.scores for one in sums]


def _predictions(
    beliefs: Sequence[Belief], features: Features, likelihood: Likelihood, test: Table
) -> Iterator[tuple[slice, list[Prediction]]]:
    """What every belief says of the test points, a bounded number of them at a time."""
    for rows in _chunks(test):
        yield rows, predict_all(beliefs, features.activate(test.x[rows]), likelihood)


def _chunks(test: Table) -> Iterator[slice]:
    return (slice(begin, begin + _ROWS_AT_ONCE) for begin in range(0, len(test), _ROWS_AT_ONCE))
