"""Doors and inner walls: what joins and what parts the rooms and corridors of a layout."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csgraph, csr_array

from client.streams.world.geometry import BoolArray
from client.streams.world.layout import Layout
from service.inference.arrays import FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class Doors:
    """The ways from room to room; two neighboring pieces of a corridor have one that is as wide as the corridor."""

    centers: FloatArray  # (doors, 2)
    widths_m: FloatArray  # (doors,)
    joined_rooms: IndexArray  # (doors, 2)


def build_inner_walls(
    rng: np.random.Generator, layout: Layout, door_m: float, extra_doors: float
) -> tuple[Doors, FloatArray]:
    """Doors, and the walls (k, 4) that they leave: each room has a door onto its corridor, and some to other rooms."""
    pairs = layout.pairs
    corridors = layout.is_corridor[pairs].sum(axis=1)
    needed = _spanning_tree(rng, layout) | (rng.random(len(pairs)) < extra_doors)
    is_open = corridors == 2
    has_door = (corridors == 1) | (needed & ~is_open)
    # What two neighboring boxes share is the wall between them: a box without width.
    first, second = layout.rooms[pairs[:, 0]], layout.rooms[pairs[:, 1]]
    shared = np.hstack([np.maximum(first[:, :2], second[:, :2]), np.minimum(first[:, 2:], second[:, 2:])])
    centers, pieces = _cut(rng, shared[has_door], door_m)
    start, end = shared[is_open, :2], shared[is_open, 2:]
    widths_m = np.concatenate([np.full(len(centers), door_m), (end - start).sum(axis=1)])
    joined_rooms = np.vstack([pairs[has_door], pairs[is_open]])
    doors = Doors(np.vstack([centers, (start + end) / 2]), widths_m, joined_rooms)
    return doors, np.vstack([shared[~has_door & ~is_open], pieces])


def room_graph(pairs: IndexArray, cost: FloatArray, rooms: int) -> csr_array:
    """The graph of that many rooms with an edge per pair (pairs, 2), at its cost."""
    return csr_array((cost, (pairs[:, 0], pairs[:, 1])), shape=(rooms, rooms))


def _spanning_tree(rng: np.random.Generator, layout: Layout) -> BoolArray:
    """Which pairs are a random spanning tree of the rooms and, inside, of each wing."""
    pairs, count = layout.pairs, len(layout.rooms)
    # Walls between wings cost more than any wall inside one: the cheapest tree leaves a wing only when it must. Ways
    # over a corridor are there anyway, and cost less than walls between rooms.
    leaves_wing = layout.wings[pairs[:, 0]] != layout.wings[pairs[:, 1]]
    avoids_corridor = ~layout.is_corridor[pairs].any(axis=1)
    cost = 1.0 + rng.random(len(pairs)) + 2.0 * avoids_corridor + 4.0 * leaves_wing
    tree = csgraph.minimum_spanning_tree(room_graph(pairs, cost, count)).tocoo()
    return np.isin(pairs @ [count, 1], tree.row * np.int64(count) + tree.col)


def _cut(rng: np.random.Generator, walls: FloatArray, door_m: float) -> tuple[FloatArray, FloatArray]:
    """Centers of one door per wall, (walls, 2), and the two pieces of each wall that are left, (2 walls, 4)."""
    start, end = walls[:, :2], walls[:, 2:]
    length_m = (end - start).sum(axis=1, keepdims=True)
    along = (end - start) / length_m
    # A hand's breadth of wall stays on both sides of the door.
    center = start + along * rng.uniform(0.6 * door_m, length_m - 0.6 * door_m)
    jamb = along * (door_m / 2)
    return center, np.vstack([np.hstack([start, center - jamb]), np.hstack([center + jamb, end])])
