"""Which features are active at which point, and how much: what features make of points, row by row."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from service.inference.arrays import FloatArray, IndexArray, StartArray

EVERY_FEATURE: IndexArray = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class Activations:
    """Phi_x for many points x: row r has the features indices[row_starts[r]:row_starts[r + 1]] with those values.

    Feature 0, the constant, is in every row; a row with nothing else belongs to a point that no centre reaches.
    Where every row has every feature, `indices` is left empty, and `values` are the rows of a dense matrix.
    """

    indices: IndexArray
    values: FloatArray
    row_starts: StartArray
    feature_count: int

    @classmethod
    def of_dense_rows(cls, values: FloatArray) -> "Activations":
        """Activations in which all features take part: values of shape (rows, feature_count)."""
        rows, feature_count = values.shape
        starts = np.arange(rows + 1, dtype=np.int64) * feature_count
        return cls(EVERY_FEATURE, np.ascontiguousarray(values).reshape(-1), starts, feature_count)

    def __len__(self) -> int:
        return int(self.row_starts.size - 1)

    @property
    def is_dense(self) -> bool:
        """Whether every row has every feature."""
        return self.indices.size == 0

    @property
    def covered(self) -> npt.NDArray[np.bool_]:
        """Per row: does any centre reach the point?"""
        if self.is_dense:
            return np.ones(len(self), bool)
        return np.diff(self.row_starts) > 1

    def rows(self, begin: int, end: int) -> "Activations":
        """The rows from begin to end, as a view."""
        first, last = self.row_starts[begin], self.row_starts[end]
        indices = self.indices if self.is_dense else self.indices[first:last]
        return Activations(
            indices, self.values[first:last], self.row_starts[begin : end + 1] - first, self.feature_count
        )

    def chunks(self, size: int) -> Iterator["Activations"]:
        """The rows in order, at most `size` at a time."""
        for begin in range(0, len(self), size):
            yield self.rows(begin, min(begin + size, len(self)))

    def dense(self) -> FloatArray:
        """The matrix Phi, shape (rows, feature_count), with its zeros."""
        if self.is_dense:
            return self.values.reshape(len(self), self.feature_count)
        dense: FloatArray = self._sparse(self.values).toarray()
        return dense

    def times(self, columns: FloatArray) -> FloatArray:
        """Phi @ columns, for columns of shape (feature_count,) or (feature_count, k)."""
        return np.asarray(self._matrix(self.values) @ columns)

    def squared_times(self, columns: FloatArray) -> FloatArray:
        """(Phi * Phi) @ columns, elementwise square: the diagonal family's variances."""
        return np.asarray(self._matrix(np.square(self.values)) @ columns)

    def _matrix(self, values: FloatArray) -> Any:
        return values.reshape(len(self), self.feature_count) if self.is_dense else self._sparse(values)

    def _sparse(self, values: FloatArray) -> Any:
        return csr_array((values, self.indices, self.row_starts), shape=(len(self), self.feature_count))


def concatenate(parts: list[Activations]) -> Activations:
    """The rows of all parts, in order; all parts come from the same features."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.row_starts) for part in parts])
    starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    indices = np.concatenate([part.indices for part in parts])
    return Activations(indices, np.concatenate([part.values for part in parts]), starts, parts[0].feature_count)
