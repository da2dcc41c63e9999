"""Mixing weights: how much of every neighbor's parameters, and of its own, an agent takes.

    A[i, j]    agent i's weight for agent j: not negative, zero where i does not pull j
    J          1 / n everywhere: everyone takes the average of all

Rows sum to 1, so that mixing is an average; columns too, so that everyone's evidence counts alike. The rules:

    sinkhorn      any graph: all links alike, then scaled until the sums are right
    metropolis    undirected graphs: every link from the degrees of its two ends
    fastest       undirected graphs: the symmetric weights that bring agreement soonest
    given         the user's own, checked
"""

import warnings
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from client.least_norm import LeastNormProgram
from client.topology import Topology, default_names, from_matrix
from service.errors import SettingError, TopologyError
from service.inference.arrays import FloatArray, as_floats

SCALING_TOLERANCE = 1e-12
MOST_SWEEPS = 500
MOST_NEWTON_STEPS = 50
SMALLEST_WEIGHT = 1e-9

MOST_LINKS = 3000

SUM_TOLERANCE = 1e-9
NORM_ROUNDING = 1e-9
MOST_DOUBLINGS = 30


def sinkhorn(topology: Topology) -> sparse.csr_array:
    """The doubly stochastic matrix diag(left) C diag(right), C the adjacency matrix with self-loops.

    It exists and is unique if the graph is strongly connected. Sweeps (Sinkhorn-Knopp) find it soon where the graph
    mixes fast; where they crawl, as on a long line, Newton steps take over.
    """
    topology.check_strongly_connected()
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            scaled = _doubly_scaled(topology.adjacency())
    except ArithmeticError:
        raise TopologyError(
            "no scaling makes the weights of this graph sum to 1 both ways with numbers of usable size: "
            "let more agents pull from each other, or make all links mutual and use the rule metropolis"
        ) from None
    if scaled.data.min() < SMALLEST_WEIGHT:
        warnings.warn(
            f"the smallest mixing weight is {scaled.data.min():.1e}: some agents will hardly hear each other; "
            "a few more links against the main direction would help",
            stacklevel=2,
        )
    return scaled


def _doubly_scaled(adjacency: sparse.csr_array) -> sparse.csr_array:
    transposed = adjacency.T.tocsr()
    left = np.ones(adjacency.shape[0])
    for step in range(MOST_SWEEPS + MOST_NEWTON_STEPS):
        right = 1 / (transposed @ left)  # columns now sum to 1, to rounding
        row_sums = left * (adjacency @ right)
        if np.abs(row_sums - 1).max() < SCALING_TOLERANCE / 2:
            return _scaled(left, adjacency, right)
        if step < MOST_SWEEPS:
            left = left / row_sums
        else:
            left = left * _newton_factors(_scaled(left, adjacency, right), row_sums)
    raise ArithmeticError("the row sums did not come to 1")


def _scaled(left: FloatArray, matrix: sparse.csr_array, right: FloatArray) -> sparse.csr_array:
    return (sparse.diags_array(left) @ matrix @ sparse.diags_array(right)).tocsr()


def _newton_factors(scaled: sparse.csr_array, row_sums: FloatArray) -> FloatArray:
    """Factors for the rows, by a damped Newton step on the convex function whose minimum is the scaling.

    In x = log left, with columns kept at sum 1: f(x) = sum_j log sum_i C_ij exp(x_i) - sum_i x_i. Its gradient is
    row_sums - 1, its Hessian a Laplacian, which determines x up to a constant: the first entry stays.
    """
    laplacian = (sparse.diags_array(row_sums) - scaled @ scaled.T).tocsc()
    direction = np.zeros(len(row_sums))
    try:
        direction[1:] = splu(laplacian[1:, 1:]).solve(1 - row_sums[1:])
    except RuntimeError as singular:
        raise ArithmeticError(str(singular)) from None
    # |f'''| <= spread f'' along the direction, so this length is sure to descend, and tends to a full step.
    spread = np.ptp(direction)
    length = np.log1p(spread) / spread if spread > 0 else 1.0
    return np.asarray(np.exp(length * direction))


def metropolis(topology: Topology) -> sparse.csr_array:
    """Link weights 1 / (1 + the larger degree of the two ends); the rest stays with the agent itself."""
    incidence = _incidence(topology, "metropolis")
    return _from_link_weights(incidence, _metropolis_link_weights(incidence))


def _metropolis_link_weights(incidence: sparse.csr_array) -> FloatArray:
    ends = abs(incidence)
    larger_degree = (sparse.diags_array(ends.sum(axis=1)) @ ends).max(axis=0).toarray().ravel()
    return np.asarray(1 / (1 + larger_degree))


def _incidence(topology: Topology, rule: str) -> sparse.csr_array:
    """B (agents, links): 1 and -1 at the two ends of every link of a connected undirected graph."""
    if not topology.is_undirected:
        raise TopologyError(f"the rule {rule} needs links that go both ways: make all mutual, or use sinkhorn")
    topology.check_strongly_connected()
    ends = np.concatenate(sparse.triu(topology.adjacency(), k=1).nonzero())
    count = len(ends) // 2
    signs, links = np.repeat([1.0, -1.0], count), np.tile(np.arange(count), 2)
    return sparse.csr_array((signs, (ends, links)), shape=(topology.count, count))


def _from_link_weights(incidence: sparse.csr_array, link_weights: FloatArray) -> sparse.csr_array:
    """W = I - B diag(link_weights) B^T: symmetric, and its sums are 1 whatever the link weights."""
    laplacian = incidence @ sparse.diags_array(link_weights) @ incidence.T
    return (sparse.eye_array(incidence.shape[0]) - laplacian).tocsr()


def fastest_mixing(topology: Topology) -> sparse.csr_array:
    """The symmetric weights W with the least norm |W - J|, to 1e-6 (the problem of Boyd, Diaconis and Xiao)."""
    incidence = _incidence(topology, "fastest")
    links = incidence.shape[1]
    if links > MOST_LINKS:
        raise TopologyError(
            f"the rule fastest would take too long for {links} links; its limit is {MOST_LINKS}: "
            "use metropolis or sinkhorn"
        )
    try:
        link_weights = LeastNormProgram(incidence).solve(_metropolis_link_weights(incidence)) if links else np.zeros(0)
    except (ArithmeticError, linalg.LinAlgError):
        raise TopologyError("the rule fastest found no weights for this graph: use metropolis or sinkhorn") from None
    return _from_link_weights(incidence, link_weights)


RULES = {"sinkhorn": sinkhorn, "metropolis": metropolis, "fastest": fastest_mixing}


def mixing_weights_by_rule(rule: str, topology: Topology) -> sparse.csr_array:
    """The weights that a user asked for by the name of a rule."""
    if rule not in RULES:
        raise TopologyError(f"there is no rule '{rule}' for mixing weights: use one of {', '.join(RULES)}")
    return RULES[rule](topology)


def given(matrix: Any, names: tuple[str, ...] = ()) -> sparse.csr_array:
    """The user's own weights, dense or sparse, unless agents could not come to agree on the average of all."""
    dense = _doubly_stochastic(matrix, names)
    from_matrix(dense, names).check_strongly_connected()
    weights = sparse.csr_array(dense)
    period = _period(weights)
    if period > 1:
        raise TopologyError(
            f"with these mixing weights beliefs go round in circles of {period} rounds and never agree: "
            "give agents some weight for themselves"
        )
    return weights


def _period(weights: sparse.csr_array) -> int:
    """The greatest common divisor of the lengths of all cycles; above 1 the powers of the weights do not converge."""
    hops = sparse.csgraph.shortest_path(weights, unweighted=True, indices=0).astype(np.int64)
    rows, columns = weights.nonzero()
    return int(np.gcd.reduce(hops[rows] + 1 - hops[columns]))


def check_mixing_weights(matrix: Any, names: tuple[str, ...] = ()) -> None:
    """Refuse what `given` refuses, and say why."""
    given(matrix, names)


def _doubly_stochastic(matrix: Any, names: tuple[str, ...] = ()) -> FloatArray:
    """The weights as a dense matrix, if they are not negative and sum to 1 both ways."""
    dense = as_floats("mixing weights", matrix.toarray() if sparse.issparse(matrix) else matrix, 2, TopologyError)
    if dense.shape[0] != dense.shape[1] or dense.size == 0:
        raise TopologyError(f"mixing weights must be a square matrix, not {dense.shape[0]} by {dense.shape[1]}")
    names = names or default_names(len(dense))
    for row, column in np.argwhere(dense < 0):
        raise TopologyError(
            f"{names[row]}'s mixing weight for {names[column]} (row {row}, column {column}) is "
            f"{dense[row, column]:g}: no weight may be negative"
        )
    for row in np.flatnonzero(~dense.any(axis=1)):
        raise TopologyError(f"row {row} ({names[row]}) of the mixing weights has no entry: it must sum to 1")
    for what, sums in (("row", dense.sum(axis=1)), ("column", dense.sum(axis=0))):
        for index in np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE):
            raise TopologyError(
                f"{what} {index} ({names[index]}) of the mixing weights sums to {sums[index]:.12g}: "
                "every row and every column must sum to 1"
            )
    return dense


def spectral_gap(matrix: Any) -> float:
    """1 - the spectral radius of A - J: the share of disagreement that a round takes away in the long run."""
    return max(0.0, 1.0 - _spectral_radius(_deviation(matrix)))


def rounds_to_shrink(matrix: Any, factor: float = 10.0) -> int | None:
    """The least t with |A^t - J| <= 1 / factor in the spectral norm, so that any disagreement shrinks that much.

    None if 2^30 rounds are not enough. Disagreement never grows, so t can be found by halving; powers, rather than
    eigenvalues, because on a one-way graph the norm may lag behind the spectral radius.
    """
    if not factor > 0:
        raise SettingError(f"the factor by which disagreement is to shrink must be positive, not {factor}")
    power = _deviation(matrix)
    if factor <= 1 or len(power) == 1:
        return 0
    if _is_symmetric(power):
        power = np.array([[_spectral_radius(power)]])  # whose powers have the same norms
    bound = (1 + NORM_ROUNDING) / factor
    powers: list[FloatArray] = []  # (A - J)^(2^k) = A^(2^k) - J, while the norm exceeds the bound
    while linalg.norm(power, 2) > bound:
        if len(powers) == MOST_DOUBLINGS:
            return None
        powers.append(power)
        power = power @ power
    return 1 + _most_rounds_above(bound, powers)


def _most_rounds_above(bound: float, powers: list[FloatArray]) -> int:
    """The largest t for which the norm of the t-th power still exceeds the bound, one binary digit after another."""
    rounds, reached = 0, None
    for digit in reversed(range(len(powers))):
        tried = powers[digit] if reached is None else reached @ powers[digit]
        if linalg.norm(tried, 2) > bound:
            rounds, reached = rounds + 2**digit, tried
    return rounds


def _deviation(matrix: Any) -> FloatArray:
    dense = _doubly_stochastic(matrix)
    return dense - 1 / len(dense)


def _is_symmetric(matrix: FloatArray) -> bool:
    return bool(np.abs(matrix - matrix.T).max() <= SCALING_TOLERANCE)


def _spectral_radius(matrix: FloatArray) -> float:
    eigenvalues = linalg.eigvalsh(matrix) if _is_symmetric(matrix) else linalg.eigvals(matrix)
    return float(np.abs(eigenvalues).max())
