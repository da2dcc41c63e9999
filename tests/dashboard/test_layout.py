"""Where agents stand in the picture of the network."""

import itertools
import math
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.dashboard.layout import Spot, arrange


def apart(spots: dict[object, Spot]) -> float:
    """The distance of the two that are closest."""
    return min((math.dist(one, other) for one, other in itertools.combinations(spots.values(), 2)), default=1.0)


def ring(count: int) -> list[tuple[int, int]]:
    return [(node, (node + 1) % count) for node in range(count)]


def test_nobody_has_no_spot_and_one_alone_stands_in_the_middle() -> None:
    assert arrange([], [], {}) == {}
    assert arrange([0], [], {}) == {0: (0.5, 0.5)}
    assert arrange([0], [], {0: (17.0, -4.0)}) == {0: (0.5, 0.5)}


def test_positions_of_the_file_are_kept_with_y_downwards() -> None:
    spots = arrange([0, 1, 2], ring(3), {0: (0.0, 0.0), 1: (10.0, 0.0), 2: (0.0, 5.0)})
    assert spots == {0: (0.0, 0.75), 1: (1.0, 0.75), 2: (0.0, 0.25)}


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=2, max_size=20))
def test_positions_keep_their_proportions(given_spots: list[Spot]) -> None:
    positions: dict[Hashable, Spot] = dict(enumerate(given_spots))
    extent = max(max(p[axis] for p in given_spots) - min(p[axis] for p in given_spots) for axis in (0, 1))
    if extent < 1e-3:
        return
    spots = arrange(list(positions), [], positions)
    for one, other in itertools.combinations(positions, 2):
        for axis, sign in ((0, 1), (1, -1)):
            wanted = sign * (positions[one][axis] - positions[other][axis]) / extent
            assert spots[one][axis] - spots[other][axis] == pytest.approx(wanted, abs=1e-9)


def test_positions_of_some_only_do_not_count() -> None:
    assert arrange([0, 1, 2], ring(3), {0: (0.0, 0.0), 1: (1.0, 0.0)}) == arrange([0, 1, 2], ring(3), {})


@pytest.mark.parametrize("count", [2, 3, 5, 12, 61, 200])
def test_few_and_very_many_stand_on_a_circle(count: int) -> None:
    spots = arrange(range(count), ring(count), {})
    xs, ys = zip(*spots.values(), strict=True)
    center = (sum(xs) / count, sum(ys) / count)
    distances = [math.dist(center, spot) for spot in spots.values()]
    assert max(distances) == pytest.approx(min(distances))
    assert ys[0] == min(ys)  # the first is on top


@given(count=st.integers(1, 30), pairs=st.sets(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60))
def test_no_two_agents_share_a_spot_however_they_are_linked(count: int, pairs: set[tuple[int, int]]) -> None:
    edges = sorted((one, other) for one, other in pairs if one < count and other < count)
    spots = arrange(range(count), edges, {})
    assert set(spots) == set(range(count))
    assert all(0 - 1e-9 <= value <= 1 + 1e-9 for spot in spots.values() for value in spot)
    assert apart(dict(spots)) > 0.005
    assert spots == arrange(range(count), edges, {})  # the same picture tomorrow


def test_parts_that_are_not_linked_are_arranged() -> None:
    spots = arrange(range(20), [*ring(10), *((10 + a, 10 + b) for a, b in ring(10))], {})
    assert len(spots) == 20
    assert apart(dict(spots)) > 0.005
