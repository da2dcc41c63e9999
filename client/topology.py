"""Graphs of agents: who pulls whose parameters.

    edge (i, j)    agent i pulls agent j's parameters, so what j learns reaches i
    link i - j     both edges, (i, j) and (j, i)

Every agent also keeps its own parameters: self-loops are implied and never stored.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csgraph
from scipy.spatial.distance import pdist, squareform

from service.errors import SettingError, TopologyError
from service.inference.arrays import FloatArray, as_floats, frozen

Edge = tuple[int, int]

DEFAULT_DEGREE = 4.0
DISTANCE_ROUNDING = 1e-9  # so that on a regular lattice rounding does not tell equal distances apart
MOST_NAMES_SHOWN = 5


@dataclass(frozen=True)
class Topology:
    """Agents 0 ... count - 1 and the edges between them; names are agent-1, agent-2, ... unless given."""

    count: int
    edges: frozenset[Edge]
    names: tuple[str, ...] = ()
    positions: FloatArray | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.count < 1:
            raise TopologyError(f"a network of {self.count} agents cannot work: there must be at least one")
        for puller, pulled in self.edges:
            if puller == pulled or not (0 <= puller < self.count and 0 <= pulled < self.count):
                raise TopologyError(
                    f"edge ({puller}, {pulled}) must join two different agents among 0 ... {self.count - 1}"
                )
        object.__setattr__(self, "names", self.names or default_names(self.count))
        if len(self.names) != self.count or len(set(self.names) - {""}) != self.count:
            raise TopologyError(f"{self.count} agents need as many different names, not '{shortened(self.names)}'")
        if self.positions is not None:
            object.__setattr__(self, "positions", _as_positions(self.positions, self.count))

    @property
    def is_undirected(self) -> bool:
        """Whether every edge has its reverse."""
        return all((pulled, puller) in self.edges for puller, pulled in self.edges)

    def adjacency(self) -> Any:
        """The (count, count) csr_array with a one at [i, j] where i pulls j, and ones on the diagonal."""
        ends = np.fromiter(itertools.chain.from_iterable(self.edges), dtype=np.int32).reshape(-1, 2)
        shape = (self.count, self.count)
        pulls = sparse.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=shape)
        return (pulls + sparse.eye_array(self.count)).tocsr()

    def check_strongly_connected(self) -> None:
        """Refuse a graph where what one agent learns never gets to another, and say which."""
        flow = self.adjacency().T.tocsr()  # parameters run against the pulls
        components, component_of = csgraph.connected_components(flow, directed=True, connection="strong")
        if components == 1:
            return
        everyone = np.arange(self.count)
        for agent in np.unique(component_of, return_index=True)[1]:
            reached = csgraph.breadth_first_order(flow, agent, return_predecessors=False)
            missed = shortened([self.names[other] for other in np.setdiff1d(everyone, reached)])
            if missed:
                name = self.names[agent]
                raise TopologyError(
                    f"{name} cannot reach {missed}: what it learns would never get there; "
                    f"add a link by which one of them pulls from {name}, or from an agent that {name} does reach"
                )

    def history(self) -> int:
        """How many rounds an agent must keep so that a slower one finds the round it asks for.

        If i pulls j, then j is ahead of i by at most the number of pull hops that lead from j back to i, h(j, i):

            history = 1 + max over edges (i, j) of h(j, i)

        2 on every undirected graph with a link, `count` on a one-way ring, 1 for a single agent.
        """
        self.check_strongly_connected()
        one_way = [(puller, pulled) for puller, pulled in self.edges if (pulled, puller) not in self.edges]
        if not one_way:
            return 2 if self.edges else 1
        hops = csgraph.shortest_path(self.adjacency(), method="D", unweighted=True)
        pullers, pulled_ones = np.array(one_way).T
        return 1 + int(hops[pulled_ones, pullers].max())


def default_names(count: int) -> tuple[str, ...]:
    """agent-1, agent-2, ..."""
    return tuple(f"agent-{number}" for number in range(1, count + 1))


def shortened(names: Sequence[str]) -> str:
    """The names for a message: the first few, and how many more there are."""
    shown = ", ".join(names[:MOST_NAMES_SHOWN])
    more = len(names) - MOST_NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def ring(count: int) -> Topology:
    """Every agent linked with the next, and the last with the first."""
    return from_edges(count, ((agent, (agent + 1) % count) for agent in range(count)))


def line(count: int) -> Topology:
    """Every agent linked with the next."""
    return from_edges(count, itertools.pairwise(range(count)))


def star(count: int) -> Topology:
    """The first agent linked with every other."""
    return from_edges(count, ((0, other) for other in range(1, count)))


def complete(count: int) -> Topology:
    """Everyone linked with everyone."""
    return from_edges(count, itertools.combinations(range(count), 2))


def grid(count: int, rows: int | None = None, columns: int | None = None) -> Topology:
    """Rows of agents, each linked with those beside, above and below it; a last row that does not fill is shorter.

    Rows and columns that are not given are chosen as nearly equal as a full grid allows; where none is possible but
    a single row (a prime count), as nearly equal as can be.
    """
    columns = columns or (math.ceil(count / rows) if rows else _nearly_square_columns(count))
    rows = rows or math.ceil(count / columns)
    if rows < 1 or columns < 1 or not (rows - 1) * columns < count <= rows * columns:
        raise TopologyError(f"{count} agents do not fill a grid of {rows} rows and {columns} columns")
    beside = [(agent, agent + 1) for agent in range(count - 1) if (agent + 1) % columns]
    below = [(agent, agent + columns) for agent in range(count - columns)]
    return from_edges(count, beside + below)


def _nearly_square_columns(count: int) -> int:
    square_root = math.isqrt(max(count, 1))
    rows = next(rows for rows in range(square_root, 0, -1) if count % rows == 0)
    return count // rows if rows > 1 else math.ceil(math.sqrt(max(count, 1)))


def random_connected(count: int, rng: np.random.Generator, degree: float = DEFAULT_DEGREE) -> Topology:
    """A random tree and random further links, until agents have `degree` links on average.

    Fewer where there are no more pairs to link, more where the tree alone has more.
    """
    order = rng.permutation(max(count, 0)).tolist()
    tree = {_ascending(order[rank], order[rng.integers(rank)]) for rank in range(1, count)}
    return from_edges(count, _enlarged(tree, itertools.combinations(range(count), 2), count * degree / 2, rng))


def random_digraph(count: int, rng: np.random.Generator, degree: float = DEFAULT_DEGREE) -> Topology:
    """A one-way ring in random order and random further edges, until agents pull from `degree` others on average."""
    order = rng.permutation(max(count, 0)).tolist()
    cycle = {(order[rank - 1], order[rank]) for rank in range(count) if count > 1}
    edges = _enlarged(cycle, itertools.permutations(range(count), 2), count * degree, rng)
    return from_edges(count, edges, directed=True)


def _ascending(first: int, second: int) -> Edge:
    return min(first, second), max(first, second)


def _enlarged(required: set[Edge], possible: Iterable[Edge], wanted: float, rng: np.random.Generator) -> set[Edge]:
    """The required edges, and others drawn among the possible ones until there are as many as wanted."""
    if not wanted >= 0:
        raise SettingError("the mean degree of a random graph must be a number, and not negative")
    others = [edge for edge in possible if edge not in required]
    missing = round(min(wanted, len(required) + len(others))) - len(required)
    drawn = rng.choice(len(others), size=max(missing, 0), replace=False)
    return required | {others[index] for index in drawn}


def geometric(positions: Any, radius: float | None = None) -> Topology:
    """Agents at positions (count, dimensions), linked if not farther apart than the radius.

    Without a radius it is the smallest that connects everyone.
    """
    points = _as_positions(positions)
    if len(points) < 2:
        return Topology(len(points), frozenset(), positions=points)
    distances = pdist(points)
    if radius is None:
        # Single linkage joins clusters at their least distance: its last merger is where all become connected.
        radius = linkage(distances, "single")[-1, 2] * (1 + DISTANCE_ROUNDING)
    near = np.argwhere(np.triu(squareform(distances) <= radius, k=1))
    return replace(from_edges(len(points), near), positions=points)


def _as_positions(positions: Any, count: int | None = None) -> FloatArray:
    points = as_floats("positions", positions, 2, TopologyError)
    if count is not None and len(points) != count:
        raise TopologyError(f"{count} agents need as many positions, not {len(points)}")
    return frozen(points)


def from_edges(
    count: int | None, edges: Iterable[Sequence[int]], *, directed: bool = False, names: tuple[str, ...] = ()
) -> Topology:
    """The graph with those pairs (i, j): links, or if directed edges by which i pulls j.

    A pair (i, i) says nothing new and is left out. Without a count, the agents are 0 ... the largest number named.
    """
    pairs = {(int(first), int(second)) for first, second in edges}
    if count is None:
        count = 1 + max(itertools.chain.from_iterable(pairs), default=0)
    if not directed:
        pairs |= {(second, first) for first, second in pairs}
    return Topology(count, frozenset(pair for pair in pairs if pair[0] != pair[1]), names)


def from_matrix(matrix: Any, names: tuple[str, ...] = ()) -> Topology:
    """The graph where i pulls j if matrix[i, j] is not zero; dense or sparse."""
    rows, columns = matrix.shape
    if rows != columns:
        raise TopologyError(
            f"a matrix of {rows} rows and {columns} columns says nothing about a network: make it square"
        )
    pairs = zip(*(indices.tolist() for indices in matrix.nonzero()), strict=True)
    return from_edges(rows, pairs, directed=True, names=names)
