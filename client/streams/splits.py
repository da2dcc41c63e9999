"""Which rows train and which test."""

from dataclasses import dataclass

import numpy as np

from client.streams.tables import Table, parse_rows
from service.errors import SettingError


@dataclass(frozen=True)
class Split:
    """Training and test observations, and what the user should know of them."""

    train: Table
    test: Table
    remark: str | None = None


def split_table(
    table: Table,
    rows: str | None = None,
    test_rows: str | None = None,
    holdout: int | None = None,
    test: Table | None = None,
) -> Split:
    """Train on `rows`; test on every `holdout`-th of those, on `test_rows` of the table, or on another table.

    Without `rows`, the rows that `test_rows` names are left out of the training.
    """
    if sum(option is not None for option in (test_rows, holdout, test)) > 1:
        raise SettingError("give only one of --test-rows, --holdout and --test")
    every = np.arange(len(table))
    used = every if rows is None else every[parse_rows(rows)]
    if holdout is not None:
        held = np.arange(len(used)) % holdout == 0
        split = Split(table.take(used[~held]), table.take(used[held]))
    elif test_rows is not None:
        tested = every[parse_rows(test_rows)]
        trained = np.setdiff1d(every, tested) if rows is None else used
        both = np.intersect1d(trained, tested).size
        remark = f"{both:,} of {tested.size:,} test rows are training rows too" if both else None
        split = Split(table.take(trained), table.take(tested), remark)
    elif test is not None:
        split = Split(table.take(used), test)
    else:
        remark = "no test set (--holdout, --test-rows, --test): the scores are on the training rows"
        split = Split(table.take(used), table.take(used), remark)
    for name, part in (("training", split.train), ("test", split.test)):
        if len(part) == 0:
            raise SettingError(f"{table.source}: no {name} rows are left of {len(table)}")
    return split
