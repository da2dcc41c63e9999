"""The graph that a user asks for: by name, or in a file."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from client.topology import (
    DEFAULT_DEGREE,
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
from service.errors import TopologyError
from service.inference.arrays import FloatArray, as_floats


def from_file(path: str | Path, *, directed: bool | None = None) -> tuple[Topology, FloatArray | None]:
    """The graph in a file, and the numbers in it if the file is a matrix.

    - An edge list is text with two agents a line, `i j` or `i,j`, by number or name; an agent alone on its line is only
      made known; `#` starts a comment. Lines are links, both ways, unless the first line is the word `directed`: then
      i pulls j. The argument `directed` overrules the file. Numbered agents come in the order of their numbers, named
      ones as they first appear.
    - A square matrix is a .npy file, or text with more than two columns or with a decimal point somewhere: i pulls j if
      [i, j] is not zero. (So a text matrix for two agents has to be written with decimal points.)
    """
    content = _content(path)
    if isinstance(content, np.ndarray) or _is_matrix(content):
        matrix = as_floats(f"the matrix in {path}", content, 2, TopologyError)
        return from_matrix(matrix), matrix
    return _from_edge_list(content, directed), None


def read_positions(path: str | Path) -> FloatArray:
    """The positions (count, dimensions) in a file: .npy, or text with one position a line, as `x y` or `x,y`."""
    return as_floats(f"the positions in {path}", _content(path), 2, TopologyError)


def _content(path: str | Path) -> Any:
    """The array in a .npy file; or of any other file the lines, each as its fields: between commas, else blanks."""
    path = Path(path)
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        lines = [line.partition("#")[0].strip() for line in path.read_text("utf-8-sig").splitlines()]
    except (OSError, ValueError, EOFError) as cause:
        raise TopologyError(f"{path} cannot be read: {cause}") from None
    if not any(lines):
        raise TopologyError(f"{path} is empty")
    return [[part.strip() for part in line.split("," if "," in line else None)] for line in lines if line]


def _is_matrix(rows: list[list[str]]) -> bool:
    return any(len(row) > 2 or any(_is_decimal(part) for part in row) for row in rows)


def _is_decimal(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.lstrip("+-").isdecimal()


def _from_edge_list(rows: list[list[str]], directed: bool | None) -> Topology:
    if rows[0] in (["directed"], ["undirected"]):
        directed = rows[0] == ["directed"] if directed is None else directed
        rows = rows[1:]
    labels = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
    names = tuple(labels)
    if all(label.isdecimal() for label in labels):
        labels.sort(key=int)
        names = tuple(f"agent-{label}" for label in labels)
    number = {label: index for index, label in enumerate(labels)}
    pairs = [(number[row[0]], number[row[-1]]) for row in rows]
    return from_edges(len(labels), pairs, directed=bool(directed), names=names)


FIXED_KINDS = {"ring": ring, "line": line, "star": star, "complete": complete, "grid": grid}
RANDOM_KINDS = {"random": random_connected, "digraph": random_digraph}
KINDS = (*FIXED_KINDS, *RANDOM_KINDS, "geometric")


def topology_by_name(
    name: str,
    count: int | None,
    rng: np.random.Generator,
    positions: Any = None,
    radius: float | None = None,
    degree: float | None = None,
) -> Topology:
    """The graph that a user asked for: one of KINDS, or the path of a file.

    Geometric draws positions in the unit square if none are given; any other graph just keeps those that are. Without
    a count there are as many agents as positions, or as the file has.
    """
    count = len(positions) if count is None and positions is not None else count
    if name in FIXED_KINDS:
        topology = FIXED_KINDS[name](_known(count))
    elif name in RANDOM_KINDS:
        topology = RANDOM_KINDS[name](_known(count), rng, DEFAULT_DEGREE if degree is None else degree)
    elif name == "geometric":
        topology = geometric(rng.random((_known(count), 2)) if positions is None else positions, radius)
    elif Path(name).is_file():
        topology, _ = from_file(name)
    else:
        raise TopologyError(f"there is no graph '{name}': give the path of a file, or one of {', '.join(KINDS)}")
    if count not in (None, topology.count):
        raise TopologyError(f"the graph '{name}' has {topology.count} agents, but {count} were asked for")
    return topology if positions is None else replace(topology, positions=positions)


def _known(count: int | None) -> int:
    if count is None or count < 1:
        raise TopologyError("say how many agents there are: at least one")
    return count
