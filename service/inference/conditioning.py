"""Conditioning: a batch of observations enters a belief, one after the other, each at the belief the last one left.

An observation adds  w a Phi Phi^T  to the information and  w (a m + e) Phi  to the shift, with m = Phi^T mu,
s = Phi^T Omega^-1 Phi, and the likelihood's expected curvature a and gradient e under N(m, s) (Lemmas 5 and 7).
The diagonal family keeps the diagonal, and steps the mean in one of two ways (Lemma 6, and the notes in docs/math.md).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from service.errors import DataError, ModelError, SettingError
from service.inference import kernels
from service.inference.activations import Activations
from service.inference.arrays import FloatArray, StartArray, as_floats
from service.inference.belief import Belief, DiagonalGaussian, Evidence, FullGaussian
from service.inference.likelihoods import Gaussian, Likelihood, VectorGaussian
from service.inference.stack import BeliefStack

DiagonalStep = Literal["paper", "projected"]

_ROWS_PER_FACTOR = 256  # the full family works in the space of the observations; beyond this, a new Cholesky is cheaper


class ConditioningInfo(NamedTuple):
    """What became of a batch."""

    observations: int
    applied: int
    uncovered: int  # observations that no centre reaches: counted, not applied


class Conditioned(NamedTuple):
    """A belief after a batch, the evidence that the batch added, and what became of it."""

    belief: Belief
    evidence: Evidence
    info: ConditioningInfo


def condition(
    belief: Belief,
    activations: Activations,
    targets: Any,
    likelihood: Likelihood,
    likelihood_weight: float = 1.0,
    diagonal_step: DiagonalStep = "paper",
) -> Conditioned:
    """The belief after a batch, observations one after the other; nothing is written to."""
    stack = BeliefStack.of([belief])
    starts = np.array([0, len(activations)])
    info = condition_stack(stack, activations, targets, starts, [likelihood], likelihood_weight, diagonal_step)
    after = stack[0]
    return Conditioned(after, after.minus(belief), info[0])


def condition_stack(
    stack: BeliefStack,
    activations: Activations,
    targets: Any,
    agent_starts: StartArray,
    likelihoods: Sequence[Likelihood],
    likelihood_weight: float = 1.0,
    diagonal_step: DiagonalStep = "paper",
) -> list[ConditioningInfo]:
    """Apply rows agent_starts[i] to agent_starts[i + 1] to the i-th belief, in place: the arrays of `stack` change."""
    _check(stack, activations, agent_starts, likelihoods, likelihood_weight, diagonal_step)
    y = _checked_targets(targets, agent_starts, likelihoods)
    if len(y) != len(activations):
        raise DataError(f"{len(activations)} points and {len(y)} targets: there must be as many of both")
    if issubclass(stack.family, DiagonalGaussian) and all(likelihood.kernel for likelihood in likelihoods):
        _condition_diagonals(stack, activations, y, agent_starts, likelihoods, likelihood_weight, diagonal_step)
    else:
        for agent, likelihood in enumerate(likelihoods):
            begin, end = int(agent_starts[agent]), int(agent_starts[agent + 1])
            if begin < end:
                rows, own = activations.rows(begin, end), y[begin:end]
                _condition_one(stack, agent, rows, own, likelihood, likelihood_weight, diagonal_step)
    return _counted(activations, agent_starts.tolist())


def _counted(activations: Activations, agent_starts: list[int]) -> list[ConditioningInfo]:
    counts = [end - begin for begin, end in pairwise(agent_starts)]
    if activations.is_dense:
        return [ConditioningInfo(count, count, 0) for count in counts]
    missed = np.concatenate(([0], np.cumsum(~activations.covered)))[agent_starts].tolist()
    uncovered = [end - begin for begin, end in pairwise(missed)]
    return [ConditioningInfo(count, count - lost, lost) for count, lost in zip(counts, uncovered, strict=True)]


def _condition_diagonals(
    stack: BeliefStack,
    activations: Activations,
    y: FloatArray,
    agent_starts: StartArray,
    likelihoods: Sequence[Likelihood],
    likelihood_weight: float,
    diagonal_step: DiagonalStep,
) -> None:
    known = [likelihood.kernel for likelihood in likelihoods if likelihood.kernel]
    kernels.condition_diagonal(
        agent_starts,
        activations.indices,
        activations.values,
        activations.row_starts,
        y,
        np.array([kernel.kind for kernel in known], np.int64),
        np.array([kernel.parameters for kernel in known]),
        float(likelihood_weight),
        diagonal_step == "projected",
        stack.information,
        stack.shift,
    )


def _condition_one(
    stack: BeliefStack,
    agent: int,
    activations: Activations,
    y: FloatArray,
    likelihood: Likelihood,
    weight: float,
    diagonal_step: DiagonalStep,
) -> None:
    information, shift = stack.information[agent], stack.shift[agent]
    if issubclass(stack.family, FullGaussian):
        for begin in range(0, len(activations), _ROWS_PER_FACTOR):
            end = min(begin + _ROWS_PER_FACTOR, len(activations))
            _condition_full(information, shift, activations.rows(begin, end), y[begin:end], likelihood, weight)
        return
    for row in np.flatnonzero(activations.covered).tolist():
        one = activations.rows(row, row + 1)
        active = np.arange(one.feature_count) if one.is_dense else one.indices
        blocks = _blocks(shift, likelihood.outputs)[:, active], _blocks(information, likelihood.outputs)[:, active]
        gained, added = _diagonal_step(*blocks, one.values, y[row], likelihood, weight, diagonal_step)
        _blocks(information, likelihood.outputs)[:, active] += gained
        _blocks(shift, likelihood.outputs)[:, active] += added


def _diagonal_step(
    eta: FloatArray,
    d: FloatArray,
    phi: FloatArray,
    y: Any,
    likelihood: Likelihood,
    weight: float,
    diagonal_step: DiagonalStep,
) -> tuple[FloatArray, FloatArray]:
    """What one observation adds to the diagonals and shifts of its active features, (p, active) for p outputs.

    paper:      mu' = mu + w (Phi e) / D'
    projected:  mu' = mu + D^-1 Phi g,  g = (I + w A diag(s))^-1 w e: the exact mean for one observation
    """
    mean, variance = (eta / d) @ phi, (1 / d) @ phi**2  # m and s of each output
    if isinstance(likelihood, VectorGaussian):
        curvature, gradient = likelihood.precision, likelihood.precision @ (y - mean)
    else:
        a, e = likelihood.expectations(float(y), float(mean[0]), float(variance[0]), weight)
        curvature, gradient = np.array([[a]]), np.array([e])
    gained = weight * np.diagonal(curvature)[:, None] * phi**2
    if diagonal_step == "projected":
        gain = np.linalg.solve(np.eye(len(variance)) + weight * curvature * variance, weight * gradient)
        mu = eta / d + gain[:, None] * phi / d
    else:
        mu = eta / d + weight * gradient[:, None] * phi / (d + gained)
    return gained, (d + gained) * mu - eta


def _condition_full(
    information: FloatArray,
    shift: FloatArray,
    activations: Activations,
    y: FloatArray,
    likelihood: Likelihood,
    weight: float,
) -> None:
    """One Cholesky of the information, then everything in the space of the batch's own projections Phi^T theta.

    With L L^T = Omega and U = L^-1 Phi^T, the projections are N(U^T L^-1 eta, U^T U); each observation corrects those
    after it by rank one. What all of them add is two products at the end.
    """
    covered = activations.covered
    phi = activations.dense()[covered]
    y = y[covered]
    if isinstance(likelihood, VectorGaussian):  # exact Bayes, whatever the mean is: Omega += w S (x) Phi^T Phi
        information += weight * np.kron(likelihood.precision, phi.T @ phi)
        shift += weight * (likelihood.precision @ y.T @ phi).reshape(-1)
        return
    if isinstance(likelihood, Gaussian):
        curvatures = np.full(len(y), weight * likelihood.precision)
        shifts = curvatures * y
    else:
        curvatures, shifts = _project_and_condition(information, shift, phi, y, likelihood, weight)
    scaled = np.sqrt(curvatures)[:, None] * phi  # a product of a matrix with itself comes out exactly symmetric
    information += scaled.T @ scaled
    shift += shifts @ phi


def _project_and_condition(
    information: FloatArray, shift: FloatArray, phi: FloatArray, y: FloatArray, likelihood: Likelihood, weight: float
) -> tuple[FloatArray, FloatArray]:
    belief = FullGaussian.computed(information.view(), shift.view())
    whitened = belief.whiten(np.ascontiguousarray(phi.T))
    covariance = np.ascontiguousarray(whitened.T @ whitened)
    means = whitened.T @ belief.whiten(shift)
    curvatures, shifts = np.empty(len(y)), np.empty(len(y))
    if likelihood.kernel is None:
        _condition_projections(y, likelihood, weight, covariance, means, curvatures, shifts)
    else:
        kind, parameters = likelihood.kernel.kind, likelihood.kernel.parameters
        kernels.condition_projections(y, kind, parameters, float(weight), covariance, means, curvatures, shifts)
    return curvatures, shifts


def _condition_projections(
    y: FloatArray,
    likelihood: Likelihood,
    weight: float,
    covariance: FloatArray,
    means: FloatArray,
    curvatures: FloatArray,
    shifts: FloatArray,
) -> None:
    """What the kernel of the same name does, for a likelihood that only Python knows."""
    for row in range(len(y)):
        variance = max(float(covariance[row, row]), 0.0)
        a, e = likelihood.expectations(float(y[row]), float(means[row]), variance, weight)
        curvatures[row], shifts[row] = weight * a, weight * (a * means[row] + e)
        shared = covariance[row].copy()
        means += weight * e / (1 + weight * a * variance) * shared
        covariance -= weight * a / (1 + weight * a * variance) * np.outer(shared, shared)


def _blocks(vector: FloatArray, outputs: int) -> FloatArray:
    """A view of a parameter vector as one row of features per output."""
    return vector.reshape(outputs, -1)


def _checked_targets(targets: Any, agent_starts: StartArray, likelihoods: Sequence[Likelihood]) -> FloatArray:
    kinds = list(likelihoods)
    if all(likelihood is kinds[0] for likelihood in kinds):
        return kinds[0].check_targets(targets)
    y = as_floats("y", targets, 2 if kinds[0].is_vector else 1)
    parts = zip(kinds, agent_starts.tolist(), np.split(y, agent_starts[1:-1]), strict=False)
    return np.concatenate([kind.check_targets(part, begin) for kind, begin, part in parts])


def _check(
    stack: BeliefStack,
    activations: Activations,
    agent_starts: StartArray,
    likelihoods: Sequence[Likelihood],
    weight: float,
    diagonal_step: str,
) -> None:
    if not (np.isfinite(weight) and weight > 0):
        raise SettingError(f"the likelihood weight must be a positive number, not {weight}")
    if diagonal_step not in ("paper", "projected"):
        raise ModelError(f"diagonal_step must be paper or projected, not {diagonal_step}")
    if not len(stack) == len(likelihoods) == len(agent_starts) - 1:
        raise DataError(
            f"{len(stack)} beliefs, {len(likelihoods)} likelihoods and {len(agent_starts) - 1} batches differ"
        )
    starts = agent_starts.tolist()
    if starts[0] != 0 or starts[-1] != len(activations) or any(begin > end for begin, end in pairwise(starts)):
        raise DataError(f"the agents' batches must cover the {len(activations)} rows of activations")
    outputs = {likelihood.outputs for likelihood in likelihoods}
    expected = [count * activations.feature_count for count in outputs]
    if expected != [stack.shift.shape[1]]:
        raise DataError(f"a belief of {stack.shift.shape[1]} parameters does not belong to {expected} features")
