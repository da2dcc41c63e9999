"""Mixing weights: doubly stochastic by every rule, as fast as promised, and checked when they are the user's own."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from client import least_norm, mixing_weights
from client.mixing_weights import (
    RULES,
    check_mixing_weights,
    fastest_mixing,
    metropolis,
    mixing_weights_by_rule,
    rounds_to_shrink,
    sinkhorn,
    spectral_gap,
)
from client.topology import (
    Topology,
    complete,
    from_edges,
    grid,
    line,
    random_connected,
    random_digraph,
    ring,
    star,
)
from service.errors import SettingError, TopologyError
from service.inference.arrays import FloatArray

counts = st.integers(1, 25)
seeds = st.integers(0, 2**32)
degrees = st.floats(1.0, 8.0)
unhurried = settings(deadline=None, max_examples=50)


def deviation(matrix: Any) -> FloatArray:
    dense = matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)
    return np.asarray(dense - 1 / len(dense))


def norm(matrix: Any) -> float:
    return float(np.linalg.norm(deviation(matrix), 2))


def one_way_ring(count: int) -> Topology:
    return from_edges(count, [(agent, (agent + 1) % count) for agent in range(count)], directed=True)


def downhill(count: int) -> Topology:
    """Everyone pulls from everyone further down, and only the lowest from the top: hardly a way back."""
    edges = [(upper, lower) for lower in range(count) for upper in range(lower)]
    return from_edges(count, [*edges, (count - 1, 0)], directed=True)


def assert_doubly_stochastic_on(topology: Topology, matrix: Any, tolerance: float) -> None:
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.dtype == np.float64
    dense = matrix.toarray()
    assert dense.min() >= 0
    assert not dense[topology.adjacency().toarray() == 0].any()
    np.testing.assert_allclose(dense.sum(axis=0), 1, rtol=0, atol=tolerance)
    np.testing.assert_allclose(dense.sum(axis=1), 1, rtol=0, atol=tolerance)
    check_mixing_weights(matrix)


def test_sinkhorn_gives_a_third_to_everyone_on_a_ring_of_four() -> None:
    expected = ring(4).adjacency().toarray() / 3
    np.testing.assert_allclose(sinkhorn(ring(4)).toarray(), expected, rtol=0, atol=1e-12)


@unhurried
@given(count=counts, seed=seeds, degree=degrees)
def test_sinkhorn_scales_rows_and_columns_of_the_adjacency(count: int, seed: int, degree: float) -> None:
    topology = random_digraph(count, np.random.default_rng(seed), degree)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of tiny weights; not the question here
        matrix = sinkhorn(topology)
    assert_doubly_stochastic_on(topology, matrix, 1e-12)
    # diag(left) C diag(right), and nothing else: in logarithms, the sum of a row's and a column's part
    rows, columns = matrix.nonzero()
    assert len(rows) == topology.adjacency().nnz
    design = np.zeros((len(rows), 2 * count))
    design[np.arange(len(rows)), rows] = design[np.arange(len(rows)), count + columns] = 1
    logarithms = np.log(matrix.toarray()[rows, columns])
    parts = np.linalg.lstsq(design, logarithms)[0]
    np.testing.assert_allclose(design @ parts, logarithms, rtol=0, atol=1e-9)


def test_sinkhorn_agrees_with_plain_sweeps() -> None:
    topology = random_digraph(8, np.random.default_rng(1), 3.0)
    plain = topology.adjacency().toarray()
    for _ in range(2000):
        plain /= plain.sum(axis=1, keepdims=True)
        plain /= plain.sum(axis=0)
    np.testing.assert_allclose(sinkhorn(topology).toarray(), plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "topology", [line(400), grid(400), star(400), random_digraph(300, np.random.default_rng(0), 1.3)]
)
def test_sinkhorn_converges_where_sweeps_crawl(topology: Topology) -> None:
    assert_doubly_stochastic_on(topology, sinkhorn(topology), 1e-12)


def test_newton_steps_alone_find_the_scaling_that_sweeps_find(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = sinkhorn(downhill(20)).toarray()
    monkeypatch.setattr(mixing_weights, "MOST_SWEEPS", 0)
    np.testing.assert_allclose(sinkhorn(downhill(20)).toarray(), expected, rtol=0, atol=1e-11)


def test_sinkhorn_warns_of_weights_that_hardly_count() -> None:
    with pytest.warns(UserWarning, match="smallest mixing weight is .*e-15"):
        assert_doubly_stochastic_on(downhill(50), sinkhorn(downhill(50)), 1e-12)


def test_sinkhorn_gives_up_on_a_graph_beyond_the_range_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing_weights, "MOST_NEWTON_STEPS", 3)
    with pytest.raises(TopologyError, match="pull from each other"):
        sinkhorn(downhill(100))


@unhurried
@given(count=counts, seed=seeds, degree=degrees)
def test_metropolis_weighs_a_link_by_the_larger_degree(count: int, seed: int, degree: float) -> None:
    topology = random_connected(count, np.random.default_rng(seed), degree)
    matrix = metropolis(topology)
    assert_doubly_stochastic_on(topology, matrix, 1e-14 * count)
    degree_of = [sum(puller == agent for puller, _ in topology.edges) for agent in range(count)]
    for first, second in topology.edges:
        assert matrix[first, second] == pytest.approx(1 / (1 + max(degree_of[first], degree_of[second])), abs=1e-15)


@pytest.mark.parametrize("count", [2, 3, 4, 7, 12])
def test_fastest_mixing_on_a_line_is_one_half_on_every_link(count: int) -> None:
    matrix = fastest_mixing(line(count))
    # The norm is flat around the optimum, so weights are less accurate than it.
    np.testing.assert_allclose(matrix.diagonal(1), 0.5, rtol=0, atol=1e-4)
    assert norm(matrix) == pytest.approx(np.cos(np.pi / count), abs=1e-6)


@pytest.mark.parametrize("count", [3, 4, 7, 10])
def test_fastest_mixing_on_a_ring_balances_the_two_ends_of_the_spectrum(count: int) -> None:
    # With w on every link the eigenvalues are 1 - 2 w (1 - cos(2 pi k / count)).
    slow, quick = 1 - np.cos(2 * np.pi / count), 1 - np.cos(2 * np.pi * (count // 2) / count)
    assert norm(fastest_mixing(ring(count))) == pytest.approx((quick - slow) / (quick + slow), abs=1e-6)


@pytest.mark.parametrize("count", [1, 2, 6, 15])
def test_fastest_mixing_of_everyone_with_everyone_agrees_at_once(count: int) -> None:
    assert norm(fastest_mixing(complete(count))) == pytest.approx(0, abs=1e-6)


def least_norm_by_cutting_planes(topology: Topology) -> float:
    """A lower bound of the least norm, tight to 3e-7: every vector v demands s >= +-v^T (W - J) v, linear in w."""
    links = np.array([edge for edge in topology.edges if edge[0] < edge[1]])
    size, count = len(links), topology.count
    touches = np.zeros((count, size))
    touches[links.T, np.arange(size)] = 1
    cuts, limits = [np.append(row, 0.0) for row in touches], [1.0] * count
    while True:
        found = linprog(np.append(np.zeros(size), 1.0), np.array(cuts), limits, bounds=(0, 1))
        matrix = np.eye(count) - 1 / count
        for (first, second), link_weight in zip(links, found.x, strict=False):
            ends = np.eye(count)[first] - np.eye(count)[second]
            matrix -= link_weight * np.outer(ends, ends)
        values, vectors = np.linalg.eigh(matrix)
        if np.abs(values).max() <= found.x[-1] + 3e-7:
            return float(found.x[-1])
        for value, vector in zip(values, vectors.T, strict=True):
            along = np.square(vector[links[:, 0]] - vector[links[:, 1]])
            constant = vector @ vector - vector.sum() ** 2 / count
            cuts.append(np.append(-np.sign(value) * along, -1.0))
            limits.append(-np.sign(value) * constant)


@pytest.mark.parametrize("seed", range(4))
def test_fastest_mixing_reaches_the_bound_of_a_linear_program(seed: int) -> None:
    topology = random_connected(4 + seed, np.random.default_rng(seed), 2.8)
    assert norm(fastest_mixing(topology)) == pytest.approx(least_norm_by_cutting_planes(topology), abs=1e-6)


@unhurried
@given(count=counts, seed=seeds, degree=degrees)
def test_fastest_mixing_is_never_slower_than_the_other_rules(count: int, seed: int, degree: float) -> None:
    topology = random_connected(count, np.random.default_rng(seed), degree)
    matrix = fastest_mixing(topology)
    assert_doubly_stochastic_on(topology, matrix, 1e-13)
    assert (abs(matrix - matrix.T)).max() <= 1e-15
    assert norm(matrix) <= min(norm(metropolis(topology)), norm(sinkhorn(topology))) + 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_fastest_mixing_converges_on_dense_graphs_where_many_weights_are_optimal(seed: int) -> None:
    topology = random_connected(12, np.random.default_rng(seed), 8.0)
    assert_doubly_stochastic_on(topology, fastest_mixing(topology), 1e-13)


def test_fastest_mixing_refuses_a_graph_that_would_take_too_long() -> None:
    with pytest.raises(TopologyError, match="too long for 4950 links"):
        fastest_mixing(complete(100))


@pytest.mark.parametrize("limit", ["MOST_INTERIOR_STEPS", "MOST_SHORTENINGS"])
def test_fastest_mixing_that_does_not_finish_is_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_norm, limit, 1)
    with pytest.raises(TopologyError, match="use metropolis or sinkhorn"):
        fastest_mixing(line(5))


@pytest.mark.parametrize("rule", [metropolis, fastest_mixing])
def test_symmetric_rules_refuse_one_way_links(rule: Callable[[Topology], Any]) -> None:
    with pytest.raises(TopologyError, match="both ways"):
        rule(one_way_ring(3))


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_refuses_agents_that_cannot_reach_each_other(rule: str) -> None:
    with pytest.raises(TopologyError, match="agent-1 cannot reach agent-3, agent-4"):
        mixing_weights_by_rule(rule, from_edges(4, [(0, 1), (2, 3)]))


@pytest.mark.parametrize("rule", RULES)
def test_one_agent_keeps_all_of_its_own(rule: str) -> None:
    matrix = mixing_weights_by_rule(rule, line(1))
    assert matrix.toarray().tolist() == [[1.0]]
    assert spectral_gap(matrix) == 1.0
    assert rounds_to_shrink(matrix) == 0


def test_an_unknown_rule_is_refused_with_those_there_are() -> None:
    with pytest.raises(TopologyError, match="one of sinkhorn, metropolis, fastest"):
        mixing_weights_by_rule("uniform", ring(4))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_matrix, list])
def test_given_weights_are_taken_dense_or_sparse(form: Callable[[Any], Any]) -> None:
    weights = [[0.5, 0.5, 0.0], [0.5, 0.2, 0.3], [0.0, 0.3, 0.7]]
    matrix = mixing_weights.given(form(weights))
    assert_doubly_stochastic_on(line(3), matrix, 1e-12)
    assert matrix.toarray().tolist() == weights
    assert matrix.nnz == 7


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ([[0.5, 0.5]], "square matrix, not 1 by 2"),
        (np.zeros((0, 0)), "square matrix, not 0 by 0"),
        ([[1.5, -0.5], [-0.5, 1.5]], r"agent-1's mixing weight for agent-2 \(row 0, column 1\) is -0\.5"),
        ([[0.5, 0.5], [np.nan, 0.5]], r"mixing weights\[1, 0\] is nan"),
        ([[1.0, 0.0], [0.0, 0.0]], r"row 1 \(agent-2\) of the mixing weights has no entry"),
        ([[0.5, 0.5], [0.5, 0.4]], r"row 1 \(agent-2\) of the mixing weights sums to 0\.9"),
        ([[0.5, 0.5], [0.4, 0.6]], r"column 0 \(agent-1\) of the mixing weights sums to 0\.9"),
        ([[0.5, 0.5], [0.5, 0.5 + 2e-9]], r"row 1 .* sums to 1\.000000002"),
        (np.eye(2), "agent-1 cannot reach agent-2"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_weights_that_cannot_work_are_refused_with_the_reason(
    weights: Any, reason: str, form: Callable[[Any], Any]
) -> None:
    with pytest.raises(TopologyError, match=reason):
        check_mixing_weights(form(weights))


@pytest.mark.parametrize("weights", [[0.5, 0.5], "half", [[1.0], [0.5, 0.5]]])
def test_what_is_no_matrix_of_numbers_is_refused(weights: Any) -> None:
    with pytest.raises(TopologyError, match="2 dimension"):
        check_mixing_weights(weights)


def test_rounding_in_given_weights_is_forgiven() -> None:
    check_mixing_weights([[0.5, 0.5], [0.5, 0.5 + 5e-10]])


def test_a_refusal_uses_the_names_of_the_agents() -> None:
    with pytest.raises(TopologyError, match="kitchen cannot reach attic"):
        check_mixing_weights(np.eye(2), ("kitchen", "attic"))


def test_the_spectral_gap_of_a_ring_is_known() -> None:
    # Eigenvalues (1 + 2 cos(2 pi k / 6)) / 3; on the one-way ring (1 + exp(2 pi i k / 6)) / 2.
    assert spectral_gap(sinkhorn(ring(6))) == pytest.approx(1 / 3, abs=1e-12)
    assert spectral_gap(sinkhorn(one_way_ring(6))) == pytest.approx(1 - np.cos(np.pi / 6), abs=1e-12)


def rounds_by_brute_force(matrix: Any, factor: float) -> int:
    dense, power, rounds = matrix.toarray(), np.eye(matrix.shape[0]), 0
    while norm(power) > (1 + 1e-9) / factor:
        power, rounds = power @ dense, rounds + 1
    return rounds


@unhurried
@given(
    count=st.integers(1, 12),
    seed=seeds,
    degree=st.floats(1.0, 4.0),
    factor=st.floats(0.5, 1000.0),
    draw=st.sampled_from([random_connected, random_digraph]),
)
def test_rounds_to_shrink_are_those_of_the_powers(
    count: int, seed: int, degree: float, factor: float, draw: Callable[..., Topology]
) -> None:
    matrix = sinkhorn(draw(count, np.random.default_rng(seed), degree))
    assert rounds_to_shrink(matrix, factor) == rounds_by_brute_force(matrix, factor)


def test_rounds_to_shrink_see_what_eigenvalues_do_not() -> None:
    # Nilpotent up to rounding: the spectral radius of A - J is 0, yet one round is far from enough.
    wave = np.outer([1, -1, 1, -1], [1, 1, -1, -1]) / 4
    matrix = np.full((4, 4), 0.25) + wave
    assert spectral_gap(matrix) == pytest.approx(1, abs=1e-7)
    assert rounds_to_shrink(matrix) == 2


def test_rounds_to_shrink_of_everyone_with_everyone_is_one() -> None:
    assert rounds_to_shrink(sinkhorn(complete(5)), 1e6) == 1


@pytest.mark.parametrize("rounds", [1, 7, 8, 9, 1000, 10**6])
def test_rounds_to_shrink_are_exact_where_two_agents_shrink_by_a_known_rate(rounds: int) -> None:
    rate = 10 ** (-1 / rounds)  # the only eigenvalue left, so its power `rounds` is one tenth
    assert rounds_to_shrink([[(1 + rate) / 2, (1 - rate) / 2], [(1 - rate) / 2, (1 + rate) / 2]]) == rounds


@pytest.mark.parametrize("matrix", [np.eye(3), np.roll(np.eye(3), 1, axis=0), np.eye(2)[::-1]])
def test_agents_that_never_agree_have_no_gap_and_no_number_of_rounds(matrix: FloatArray) -> None:
    assert spectral_gap(matrix) == pytest.approx(0, abs=1e-12)
    assert rounds_to_shrink(matrix) is None


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan")])
def test_a_factor_that_does_not_shrink_is_refused(factor: float) -> None:
    with pytest.raises(SettingError, match="must be positive"):
        rounds_to_shrink(np.eye(2), factor)


@pytest.mark.parametrize("measure", [spectral_gap, rounds_to_shrink])
def test_measures_refuse_what_is_not_doubly_stochastic(measure: Callable[[Any], Any]) -> None:
    with pytest.raises(TopologyError, match="sums to"):
        measure([[0.5, 0.5], [0.4, 0.6]])


@pytest.mark.parametrize(
    ("weights", "circles"),
    [
        ([[0.0, 1.0], [1.0, 0.0]], 2),
        ([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], 3),
        ([[0.0, 0.5, 0.0, 0.5], [0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5], [0.5, 0.0, 0.5, 0.0]], 2),
    ],
)
def test_weights_that_only_pass_beliefs_round_are_refused(weights: list[list[float]], circles: int) -> None:
    with pytest.raises(TopologyError, match=f"in circles of {circles} rounds and never agree"):
        mixing_weights.given(weights)


def test_weights_without_a_diagonal_are_taken_where_agents_still_come_to_agree() -> None:
    third = 1 / 3
    weights = [
        [0.0, third, third, third],
        [third, 0.0, third, third],
        [third, third, 0.0, third],
        [third, third, third, 0],
    ]
    assert mixing_weights.given(weights).shape == (4, 4)
