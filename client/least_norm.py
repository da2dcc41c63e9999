"""The symmetric weights of a graph with the least norm |W - J|: a small semidefinite program, solved here.

The matrices have as many rows as there are agents, and a link changes them by rank one only: that makes it cheap
enough to do without a general solver.
"""

from collections.abc import Callable

import numpy as np
from scipy import linalg, sparse

from service.inference.arrays import FloatArray

MOST_INTERIOR_STEPS = 60
OPTIMALITY_GAP = 1e-7
FRACTION_TO_BOUNDARY = 0.95
SHORTENING = 0.8
MOST_SHORTENINGS = 100

Blocks = tuple[FloatArray, ...]


class LeastNormProgram:
    """The least norm s over link weights w, as a semidefinite program. These slacks have to be positive definite:

        (2, n, n)            s I - (W - J)  and  s I + (W - J),  where  W = I - B diag(w) B^T
        (links + n, 1, 1)    w  and the diagonal of W, as so many matrices of one entry

    It is solved by a primal-dual interior point method with Mehrotra's predictor and corrector. Every slack has a
    multiplier of its shape; at the optimum their products vanish, and on the way they all tend to a falling target.
    """

    def __init__(self, incidence: sparse.csr_array) -> None:
        agents, links = incidence.shape
        self.incidence = incidence
        self.signs = np.array([1.0, -1.0]).reshape(2, 1, 1)
        self.bounds = sparse.vstack([sparse.eye_array(links), -abs(incidence)]).tocsr()
        self.identity = np.eye(agents)
        self.objective = np.append(np.zeros(links), 1.0)
        self.constant = (
            self.signs * (1 / agents - self.identity),
            np.repeat([0.0, 1.0], [links, agents]).reshape(-1, 1, 1),
        )

    def solve(self, start: FloatArray) -> FloatArray:
        """The w of the optimum, from link weights whose norm is below 1, with a positive diagonal of W.

        All iterates are feasible, so no weights can have a norm below s - gap.
        """
        unknowns, multipliers = self._start(start)
        for _ in range(MOST_INTERIOR_STEPS):
            slacks = _each(np.add, self.constant, self._linear(unknowns))
            gap = _inner(multipliers, slacks)
            if gap < OPTIMALITY_GAP:
                return unknowns[:-1]
            unknowns, multipliers = self._step(unknowns, multipliers, slacks, gap)
        raise ArithmeticError("the gap did not close")

    def _start(self, link_weights: FloatArray) -> tuple[FloatArray, Blocks]:
        """The link weights with a norm above theirs, and multipliers that the constraints cancel out of."""
        agents, links = self.incidence.shape
        matrices = np.stack([self.identity, self.identity]) / (2 * agents)
        scalars = np.repeat([1.0, 0.5], [links, agents]).reshape(-1, 1, 1) / agents
        return np.append(link_weights, 1.1), (matrices, scalars)

    def _step(self, unknowns: FloatArray, multipliers: Blocks, slacks: Blocks, gap: float) -> tuple[FloatArray, Blocks]:
        """Predict how far the gap can fall, then aim there along the path that the prediction shows to be curved."""
        inverses = _each(_inverse, slacks)  # not to solve with: the curvature is made of their entries
        factor = linalg.cho_factor(self._curvature(multipliers, inverses))

        def direction(aim: Blocks) -> tuple[FloatArray, Blocks, Blocks]:
            """Where multipliers are feasible and, to first order, the aim: changes of unknowns, slacks, multipliers."""
            step = linalg.cho_solve(factor, self._adjoint(*aim) - self.objective)
            slack_step = self._linear(step)
            response = _each(_product, multipliers, slack_step, inverses)
            return step, slack_step, _each(lambda to, now, back: to - now - back, aim, multipliers, response)

        _, slack_step, multiplier_step = direction(_each(np.zeros_like, slacks))
        predicted = _inner(_moved(multipliers, multiplier_step), _moved(slacks, slack_step))
        target = gap * (predicted / gap) ** 3 / sum(len(block) * block.shape[1] for block in slacks)
        curved = _each(_product, multiplier_step, slack_step, inverses)
        aim = _each(lambda inverse, correction: target * inverse - correction, inverses, curved)
        step, slack_step, multiplier_step = direction(aim)
        return unknowns + _length(slacks, slack_step) * step, _moved(multipliers, multiplier_step)

    def _linear(self, unknowns: FloatArray) -> Blocks:
        """How the slacks depend on the unknowns (w, s), but for the constant."""
        link_weights, norm = unknowns[:-1], unknowns[-1]
        laplacian = (self.incidence @ sparse.diags_array(link_weights) @ self.incidence.T).toarray()
        return norm * self.identity + self.signs * laplacian, (self.bounds @ link_weights).reshape(-1, 1, 1)

    def _adjoint(self, matrices: FloatArray, scalars: FloatArray) -> FloatArray:
        """The transpose of _linear."""
        on_links = self.incidence.multiply((matrices[0] - matrices[1]) @ self.incidence).sum(axis=0)
        return np.append(on_links + self.bounds.T @ scalars.ravel(), np.trace(matrices, axis1=1, axis2=2).sum())

    def _curvature(self, multipliers: Blocks, inverses: Blocks) -> FloatArray:
        """The matrix of  step -> adjoint(multipliers linear(step) inverses).

        A link enters the slacks with a matrix of rank one, so that two links meet in a product of two numbers.
        """
        ratios = sparse.diags_array((multipliers[1] * inverses[1]).ravel())
        links = (self.bounds.T @ ratios @ self.bounds).toarray()
        for multiplier, inverse in zip(multipliers[0], inverses[0], strict=True):
            links += self._between_links(multiplier) * self._between_links(inverse)
        border = self._adjoint(multipliers[0] @ inverses[0], np.zeros_like(multipliers[1]))
        return np.vstack([np.column_stack([links, border[:-1]]), border])

    def _between_links(self, matrix: FloatArray) -> FloatArray:
        return np.asarray(self.incidence.T @ (matrix @ self.incidence))


def _each(function: Callable[..., FloatArray], *blocks: Blocks) -> Blocks:
    return tuple(function(*parts) for parts in zip(*blocks, strict=True))


def _inner(first: Blocks, second: Blocks) -> float:
    return float(sum(np.vdot(one, other) for one, other in zip(first, second, strict=True)))


def _inverse(matrices: FloatArray) -> FloatArray:
    """Through the Cholesky factor, so that next to the boundary rounding does not make the inverse indefinite."""
    root = np.linalg.inv(np.linalg.cholesky(matrices))
    return root.swapaxes(1, 2) @ root


def _product(first: FloatArray, second: FloatArray, third: FloatArray) -> FloatArray:
    """The symmetric part of the product."""
    product = first @ second @ third
    return (product + product.swapaxes(1, 2)) / 2


def _moved(blocks: Blocks, change: Blocks) -> Blocks:
    length = _length(blocks, change)
    return _each(lambda block, step: block + length * step, blocks, change)


def _length(blocks: Blocks, change: Blocks) -> float:
    """How far to go along the change, at most 1, for all blocks to stay well inside the positive definite ones."""
    pairs = list(zip(blocks, change, strict=True))
    for length in SHORTENING ** np.arange(MOST_SHORTENINGS):
        if all(_is_positive_definite(block + length / FRACTION_TO_BOUNDARY * step) for block, step in pairs):
            return float(length)
    raise ArithmeticError("no step stays inside")


def _is_positive_definite(matrices: FloatArray) -> bool:
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return True
