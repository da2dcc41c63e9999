"""Graphs of agents: their shapes, what they refuse, how many rounds must be kept, and how they are read from files."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.topology import (
    Topology,
    complete,
    from_edges,
    from_matrix,
    geometric,
    grid,
    line,
    random_connected,
    random_digraph,
    ring,
    star,
)
from client.topology_choice import KINDS, from_file, read_positions, topology_by_name
from service.errors import DelboError, SettingError, TopologyError

RECIPES: dict[Callable[[int], Topology], Callable[[int], "nx.Graph[int]"]] = {
    ring: nx.cycle_graph,
    line: nx.path_graph,
    star: lambda count: nx.star_graph(count - 1),
    complete: nx.complete_graph,
}
counts = st.integers(1, 40)
seeds = st.integers(0, 2**32)
degrees = st.floats(0.5, 12.0)
unhurried = settings(deadline=None, max_examples=60)


def one_way_ring(count: int) -> Topology:
    return from_edges(count, [(agent, (agent + 1) % count) for agent in range(count)], directed=True)


def digraph(topology: Topology) -> "nx.DiGraph[int]":
    graph: nx.DiGraph[int] = nx.DiGraph(topology.edges)
    graph.add_nodes_from(range(topology.count))
    return graph


@pytest.mark.parametrize("build", RECIPES)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_named_shapes_are_those_of_networkx(build: Callable[[int], Topology], count: int) -> None:
    expected: nx.DiGraph[int] = nx.DiGraph(RECIPES[build](count))
    expected.remove_edges_from([(agent, agent) for agent in range(count)])
    assert build(count).edges == set(expected.edges)


@pytest.mark.parametrize(("count", "rows", "columns"), [(4, 2, 2), (12, 3, 4), (10, 2, 5), (1, 1, 1), (2, 1, 2)])
def test_a_grid_is_as_nearly_square_as_a_full_one_can_be(count: int, rows: int, columns: int) -> None:
    expected = nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns), ordering="sorted")
    assert grid(count).edges == set(nx.DiGraph(expected).edges)
    assert grid(count) == grid(count, rows, columns)


def test_a_grid_of_a_prime_count_has_a_shorter_last_row() -> None:
    links = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5), (3, 6)]
    assert grid(7) == from_edges(7, links)


def test_a_grid_takes_explicit_rows_or_columns() -> None:
    assert grid(6, rows=1) == line(6)
    assert grid(6, columns=1) == line(6)


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 5), (8, 1), (-1, None), (None, -3)])
def test_a_grid_that_the_agents_do_not_fill_is_refused(rows: int | None, columns: int | None) -> None:
    with pytest.raises(TopologyError, match="do not fill a grid"):
        grid(7, rows, columns)


@unhurried
@given(count=st.integers(1, 200))
def test_every_grid_is_connected(count: int) -> None:
    grid(count).check_strongly_connected()


@unhurried
@given(count=counts, seed=seeds, degree=degrees)
def test_a_random_graph_is_connected_undirected_and_has_the_mean_degree(count: int, seed: int, degree: float) -> None:
    topology = random_connected(count, np.random.default_rng(seed), degree)
    links = len(topology.edges) // 2
    assert topology.is_undirected
    assert nx.is_strongly_connected(digraph(topology))
    assert links == max(count - 1, min(round(count * degree / 2), count * (count - 1) // 2))


@unhurried
@given(count=counts, seed=seeds, degree=degrees)
def test_a_random_digraph_is_strongly_connected_and_has_the_mean_degree(count: int, seed: int, degree: float) -> None:
    topology = random_digraph(count, np.random.default_rng(seed), degree)
    assert nx.is_strongly_connected(digraph(topology))
    least = count if count > 1 else 0
    assert len(topology.edges) == max(least, min(round(count * degree), count * (count - 1)))


@pytest.mark.parametrize("draw", [random_connected, random_digraph])
def test_a_seed_determines_a_random_graph(draw: Callable[[int, np.random.Generator], Topology]) -> None:
    first, again, other = (draw(12, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert first == again
    assert first != other


@pytest.mark.parametrize("degree", [-1.0, float("nan")])
def test_a_mean_degree_that_is_no_degree_is_refused(degree: float) -> None:
    with pytest.raises(SettingError, match="mean degree"):
        random_connected(5, np.random.default_rng(0), degree)


def test_geometric_links_exactly_those_within_the_radius() -> None:
    topology = geometric([[0.0, 0.0], [3.0, 4.0], [3.0, 10.0]], radius=5.0)
    assert topology == from_edges(3, [(0, 1)])
    assert topology.positions is not None
    assert topology.positions[2].tolist() == [3.0, 10.0]


@unhurried
@given(count=counts, seed=seeds)
def test_geometric_without_a_radius_takes_the_smallest_that_connects(count: int, seed: int) -> None:
    positions = np.random.default_rng(seed).integers(0, 8, (count, 2)) / 7  # on few places, so that some coincide
    graph = nx.Graph(from_edges(count, complete(count).edges).edges)
    for first, second, link in graph.edges(data=True):
        link["weight"] = float(np.linalg.norm(positions[first] - positions[second]))
    needed = max((link["weight"] for _, _, link in nx.minimum_spanning_edges(graph)), default=0.0)
    topology = geometric(positions)
    topology.check_strongly_connected()
    assert topology == geometric(positions, needed * (1 + 1e-9))


@pytest.mark.parametrize("kind", KINDS)
def test_one_agent_is_a_network(kind: str) -> None:
    topology = topology_by_name(kind, 1, np.random.default_rng(0))
    topology.check_strongly_connected()
    assert (topology.count, topology.edges, topology.history()) == (1, frozenset(), 1)
    assert topology.adjacency().toarray().tolist() == [[1.0]]


def test_a_directed_edge_means_that_the_first_pulls_the_second() -> None:
    topology = from_edges(None, [(0, 2), (1, 1)], directed=True)
    assert topology.count == 3
    assert topology.adjacency().toarray().tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 1]]
    assert not topology.is_undirected
    assert from_edges(3, [(0, 2)]).is_undirected


@unhurried
@given(count=counts, seed=seeds)
def test_a_matrix_gives_back_the_graph_that_it_came_from(count: int, seed: int) -> None:
    topology = random_digraph(count, np.random.default_rng(seed))
    assert from_matrix(topology.adjacency()) == topology
    assert from_matrix(topology.adjacency().toarray()) == topology


@pytest.mark.parametrize("edge", [(0, 0), (0, 3), (-1, 0)])
def test_an_edge_outside_the_agents_is_refused(edge: tuple[int, int]) -> None:
    with pytest.raises(TopologyError, match=r"two different agents among 0 \.\.\. 2"):
        Topology(3, frozenset({edge}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, -2])
def test_a_network_without_agents_is_refused(kind: str, count: int) -> None:
    with pytest.raises(TopologyError, match="at least one"):
        topology_by_name(kind, count, np.random.default_rng(0))


@pytest.mark.parametrize("build", [ring, line, star, complete, grid])
def test_a_shape_without_agents_is_refused(build: Callable[[int], Topology]) -> None:
    with pytest.raises(DelboError):
        build(0)


@pytest.mark.parametrize("names", [("a", "a"), ("a",), ("a", "")])
def test_names_that_do_not_tell_agents_apart_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(TopologyError, match="different names"):
        from_edges(2, [(0, 1)], names=names)


def test_the_refusal_of_a_one_way_street_names_who_cannot_be_reached() -> None:
    # 1 and 2 pull from each other and from 0; nobody's news gets to 0.
    topology = from_edges(3, [(1, 2), (2, 1), (1, 0)], directed=True)
    with pytest.raises(TopologyError, match=r"^agent-2 cannot reach agent-1: .* add a link"):
        topology.check_strongly_connected()


def test_a_refusal_shortens_a_long_list_of_agents() -> None:
    with pytest.raises(TopologyError, match=r"^agent-1 cannot reach agent-2, .*, agent-6 and 94 more: "):
        from_edges(100, pairwise(range(1, 100))).check_strongly_connected()


@unhurried
@given(count=st.integers(1, 7), pairs=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14))
def test_strong_connectedness_is_that_of_networkx(count: int, pairs: set[tuple[int, int]]) -> None:
    topology = from_edges(count, [pair for pair in pairs if max(pair) < count], directed=True)
    if nx.is_strongly_connected(digraph(topology)):
        topology.check_strongly_connected()
    else:
        with pytest.raises(TopologyError, match="cannot reach"):
            topology.check_strongly_connected()


@pytest.mark.parametrize("count", [2, 3, 10])
def test_history_is_two_both_ways_and_the_count_on_a_one_way_ring(count: int) -> None:
    assert ring(count).history() == 2
    assert one_way_ring(count).history() == count


@unhurried
@given(count=counts, seed=seeds, degree=st.floats(1.0, 3.0))
def test_history_is_one_more_than_the_longest_way_back(count: int, seed: int, degree: float) -> None:
    topology = random_digraph(count, np.random.default_rng(seed), degree)
    hops = dict(nx.all_pairs_shortest_path_length(digraph(topology)))
    assert topology.history() == 1 + max((hops[pulled][puller] for puller, pulled in topology.edges), default=0)


def test_history_of_agents_that_cannot_reach_each_other_is_refused() -> None:
    with pytest.raises(TopologyError, match="cannot reach"):
        from_edges(2, [(0, 1)], directed=True).history()


def written(folder: Path, text: str, name: str = "graph.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", ["0 1\n1 2\n", "# a line\n0,1\n\n1, 2  # and on\n", "undirected\n2 1\n1 0\n1 2\n"])
def test_an_edge_list_is_links_unless_it_says_otherwise(tmp_path: Path, text: str) -> None:
    topology, matrix = from_file(written(tmp_path, text))
    assert topology.edges == line(3).edges
    assert matrix is None


def test_an_edge_list_is_directed_by_its_first_line_or_by_the_argument(tmp_path: Path) -> None:
    says_so = written(tmp_path, "directed\n0 1\n1 2\n2 0\n")
    silent = written(tmp_path, "0 1\n1 2\n2 0\n", "silent.csv")
    assert from_file(says_so)[0].edges == one_way_ring(3).edges
    assert from_file(says_so, directed=False)[0].edges == ring(3).edges
    assert from_file(silent, directed=True)[0].edges == one_way_ring(3).edges


def test_agents_in_a_file_are_numbered_in_order_and_keep_their_labels(tmp_path: Path) -> None:
    numbered, _ = from_file(written(tmp_path, "10 2\n2 1\n"))
    assert numbered.names == ("agent-1", "agent-2", "agent-10")
    assert numbered.edges == line(3).edges
    named, _ = from_file(written(tmp_path, "kitchen, front door\nfront door, attic\n"))
    assert named.names == ("kitchen", "front door", "attic")
    assert named.edges == line(3).edges


def test_an_agent_alone_on_its_line_is_part_of_the_network(tmp_path: Path) -> None:
    topology, _ = from_file(written(tmp_path, "rover\n"))
    assert (topology.names, topology.edges) == (("rover",), frozenset())


@pytest.mark.parametrize("text", ["0.5 0.5\n0.5 0.5\n", "0.5,0.5,0\n0.5,0.25,0.25\n0,0.25,0.75\n"])
def test_a_matrix_in_a_text_file_returns_its_values(tmp_path: Path, text: str) -> None:
    topology, matrix = from_file(written(tmp_path, text, "matrix.csv"))
    expected = np.array([[float(field) for field in row.replace(",", " ").split()] for row in text.splitlines()])
    np.testing.assert_array_equal(matrix, expected)
    assert topology.edges == line(len(expected)).edges


def test_a_matrix_in_an_npy_file_keeps_directions(tmp_path: Path) -> None:
    np.save(tmp_path / "graph.npy", one_way_ring(4).adjacency().toarray().astype(int))
    topology, matrix = from_file(tmp_path / "graph.npy")
    assert topology == one_way_ring(4)
    assert matrix is not None
    assert matrix.dtype == np.float64


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# nothing\n", "is empty"),
        ("directed\n", "at least one"),
        ("1 0 0\n0 1 0\n", "make it square"),
        ("0 1 0.5\n1 x 0.5\n2 0 0.5\n", "must be numbers"),
        ("1 0 0\n0 1\n0 0 1\n", "must be numbers"),
        ("1 0 0\n0 nan 0\n0 0 1\n", "is nan"),
        ("a,\n", "different names"),
    ],
)
def test_a_file_that_is_no_graph_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(TopologyError, match=reason):
        from_file(written(tmp_path, text))


@pytest.mark.parametrize("name", ["missing.txt", "binary.txt", "broken.npy"])
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken.npy").write_bytes(b"0 1")
    with pytest.raises(TopologyError, match=f"{name} cannot be read"):
        from_file(tmp_path / name)


def test_positions_are_read_from_text_or_npy(tmp_path: Path) -> None:
    expected = [[0.0, 1.5], [2.0, -3.0]]
    np.save(tmp_path / "places.npy", expected)
    assert read_positions(written(tmp_path, "# x y\n0 1.5\n2, -3\n")).tolist() == expected
    assert read_positions(tmp_path / "places.npy").tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_that_is_offered_connects_its_agents(kind: str) -> None:
    topology = topology_by_name(kind, 12, np.random.default_rng(3))
    assert topology.count == 12
    topology.check_strongly_connected()


def test_a_name_may_be_a_file_which_knows_its_own_count(tmp_path: Path) -> None:
    path = str(written(tmp_path, "0 1\n1 2\n"))
    rng = np.random.default_rng(0)
    assert topology_by_name(path, None, rng).edges == line(3).edges
    with pytest.raises(TopologyError, match="has 3 agents, but 5 were asked for"):
        topology_by_name(path, 5, rng)


def test_a_name_that_is_neither_kind_nor_file_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(TopologyError, match="path of a file, or one of ring, line, star"):
        topology_by_name("torus", 4, np.random.default_rng(0))


def test_a_kind_without_a_count_is_refused() -> None:
    with pytest.raises(TopologyError, match="how many agents"):
        topology_by_name("ring", None, np.random.default_rng(0))


def test_positions_by_name_are_used_by_geometric_and_kept_by_others() -> None:
    positions = [[0.0, 0.0], [0.0, 1.0], [0.0, 3.0]]
    rng = np.random.default_rng(0)
    assert topology_by_name("geometric", None, rng, positions, radius=1.0) == from_edges(3, [(0, 1)])
    kept = topology_by_name("ring", None, rng, positions).positions
    assert kept is not None
    assert kept.tolist() == positions
    with pytest.raises(TopologyError, match="4 agents need as many positions, not 3"):
        topology_by_name("ring", 4, rng, positions)


def test_positions_of_a_topology_cannot_be_written_to() -> None:
    positions = np.zeros((2, 2))
    topology = Topology(2, frozenset(), positions=positions)
    positions[0, 0] = 1.0
    assert topology.positions is not None
    assert not topology.positions.any()
    with pytest.raises(ValueError, match="read-only"):
        topology.positions[0, 0] = 1.0


def test_a_degree_by_name_is_the_mean_degree() -> None:
    assert len(topology_by_name("random", 20, np.random.default_rng(0), degree=6.0).edges) == 120
    assert len(topology_by_name("digraph", 20, np.random.default_rng(0), degree=2.0).edges) == 40
