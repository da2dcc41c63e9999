"""Where the agents stand in the picture of the network."""

from collections.abc import Hashable, Iterable, Mapping, Sequence

import networkx as nx
import numpy as np

Spot = tuple[float, float]

_ROUND_TABLE = 12  # so many agents are easy to tell apart on a circle
_MOST_ARRANGED = 60  # beyond that, arranging them takes too long, and nobody sees more than a circle anyway


def arrange(
    nodes: Sequence[Hashable], edges: Iterable[tuple[Hashable, Hashable]], given: Mapping[Hashable, Spot]
) -> dict[Hashable, Spot]:
    """A spot between 0 and 1 for each, y downwards: as given, if all are; on a circle; or by who is linked to whom."""
    if not nodes:
        return {}
    if all(node in given for node in nodes):
        return _scaled({node: (given[node][0], -given[node][1]) for node in nodes})
    graph: nx.Graph[Hashable] = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    if len(nodes) <= _ROUND_TABLE or len(nodes) > _MOST_ARRANGED:
        angles = 2 * np.pi * np.arange(len(nodes)) / len(nodes) - np.pi / 2
        return _scaled({node: (float(np.cos(at)), float(np.sin(at))) for node, at in zip(nodes, angles, strict=True)})
    found = nx.kamada_kawai_layout(graph) if nx.is_connected(graph) else nx.spring_layout(graph, seed=0)
    return _scaled({node: (float(x), float(y)) for node, (x, y) in found.items()})


def _scaled(spots: dict[Hashable, Spot]) -> dict[Hashable, Spot]:
    """The same picture, filling a square of side 1; one alone is in its middle."""
    points = np.array(list(spots.values()))
    lower, upper = points.min(axis=0), points.max(axis=0)
    side = max(float((upper - lower).max()), 1e-12)
    placed = (points - (lower + upper) / 2) / side + 0.5
    return {node: (float(x), float(y)) for node, (x, y) in zip(spots, placed, strict=True)}
