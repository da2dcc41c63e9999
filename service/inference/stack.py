"""Many beliefs of one family side by side in two arrays: one agent's, or a whole network's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from service.errors import NumericalError
from service.inference.arrays import FloatArray
from service.inference.belief import Belief


@dataclass(frozen=True, eq=False)
class BeliefStack:
    """n beliefs: information of shape (n, d) or (n, d, d), and shift of shape (n, d)."""

    family: type[Belief]
    information: FloatArray
    shift: FloatArray

    @classmethod
    def of(cls, beliefs: Sequence[Belief]) -> "BeliefStack":
        """The beliefs in order; all of one family and size."""
        check_same_kind(beliefs)
        information = np.stack([belief.information for belief in beliefs])
        return cls(type(beliefs[0]), information, np.stack([belief.shift for belief in beliefs]))

    def __len__(self) -> int:
        return len(self.shift)

    def __getitem__(self, agent: int) -> Belief:
        return self.family.computed(self.information[agent].copy(), self.shift[agent].copy())

    def __iter__(self) -> Iterator[Belief]:
        return (self[agent] for agent in range(len(self)))


def check_same_kind(beliefs: Sequence[Belief]) -> None:
    """Refuse no beliefs at all, and beliefs of different families or sizes."""
    kinds = {(type(belief), belief.dimension) for belief in beliefs}
    if len(kinds) != 1:
        raise NumericalError("one or more beliefs are needed, all of one family and as many parameters")
