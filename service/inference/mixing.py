"""Mixing: the weighted geometric average of beliefs, which is the weighted average of natural parameters (Lemma 3)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from service.errors import TopologyError
from service.inference.arrays import FloatArray, as_floats, owned
from service.inference.belief import Belief, Evidence, check_alike
from service.inference.stack import BeliefStack

SUM_TOLERANCE = 1e-9


def mix(beliefs: Sequence[Belief], mixing_weights: Any) -> Belief:
    """The belief proportional to prod_j q_j^(A_j).

    Omega = sum_j A_j Omega_j,  eta = sum_j A_j eta_j;  mixing_weights: one row A of the doubly stochastic matrix.
    """
    row = check_mixing_row(mixing_weights, len(beliefs))
    stack = BeliefStack.of(beliefs)
    return stack.family.computed(np.tensordot(row, stack.information, axes=1), row @ stack.shift)


def mix_evidence(evidences: Sequence[Evidence], mixing_weights: Sequence[float]) -> Evidence:
    """The evidence of the mixed belief, for beliefs of one prior: a row sums to 1, so the prior can be taken off first.

    sum_j A_j (Omega_0 + E_j) = Omega_0 + sum_j A_j E_j,  and the same for the shifts.
    """
    row = list(mixing_weights)
    if len(row) != len(evidences) or min(row) < 0 or not abs(sum(row) - 1) <= SUM_TOLERANCE:
        check_mixing_row(row, len(evidences))  # says what is wrong
    information, shift = evidences[0].information * row[0], evidences[0].shift * row[0]
    for evidence, weight in zip(evidences[1:], row[1:], strict=True):
        check_alike(evidences[0], evidence)
        information += evidence.information * weight
        shift += evidence.shift * weight
    return Evidence(owned(information), owned(shift))


def check_mixing_row(mixing_weights: Any, count: int) -> FloatArray:
    """One row of the doubly stochastic matrix: that many numbers, none negative, that sum to 1."""
    row = as_floats("mixing_weights", mixing_weights, 1, TopologyError)
    if row.size != count:
        raise TopologyError(f"{count} beliefs need as many mixing weights, not {row.size}")
    if (row < 0).any():
        raise TopologyError(f"mixing weights must not be negative, but one is {row.min()}")
    if abs(row.sum() - 1) > SUM_TOLERANCE:
        raise TopologyError(f"mixing weights must sum to 1, not {row.sum():.12g}")
    return row


def mix_stack(stack: BeliefStack, mixing_matrix: csr_array) -> BeliefStack:
    """Every agent's mixed belief at once, as sparse matrix products: A Omega and A eta over the agents."""
    if mixing_matrix.shape != (len(stack), len(stack)):
        raise TopologyError(f"{len(stack)} agents need a mixing matrix of as many rows and columns")
    row_sums = mixing_matrix @ np.ones(len(stack))
    if not (np.abs(row_sums - 1) <= SUM_TOLERANCE).all() or not (mixing_matrix.data >= 0).all():
        raise TopologyError("mixing weights must not be negative, and each agent's must sum to 1")
    information = _product(mixing_matrix, stack.information)
    return BeliefStack(stack.family, information, _product(mixing_matrix, stack.shift))


def _product(mixing_matrix: csr_array, values: FloatArray) -> FloatArray:
    rows = mixing_matrix.shape[0]
    flat = values.reshape(len(values), -1)
    return np.asarray(mixing_matrix @ flat).reshape(rows, *values.shape[1:])
