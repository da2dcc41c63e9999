"""The map for navigation: read by map_server's rules it decides of held-out points as the probabilities do."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import yaml
from scipy.spatial import cKDTree

from client.demo_world import DEMO_MODEL, DEMO_WORLD
from client.streams.splits import Split, split_table
from client.streams.tables import read_table
from client.streams.world.tables import world_tables
from service.inference.arrays import FloatArray
from service.inference.raster import Grid, default_bounds, raster, unlearned
from service.wire.points import points_to_msgpack
from tests.api.asked import arrays_of
from tests.api.every_model import Direct
from tests.processes import ROOT, AgentProcess, agent_factory, codec_of
from tests.wire.test_map_files import MODES, occupancy, read_nav2

OCCUPIED, FREE = 0.65, 0.25  # map_server's own
RESOLUTION = 0.05
AT_ONCE = 100_000  # observations in a body, and in a round

Cells = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Mapped:
    """An agent that has learned a building, and rows of it that it has not been shown."""

    agent: AgentProcess
    model: dict[str, Any]
    split: Split

    def archive(self, **query: Any) -> bytes:
        """The zip file."""
        answer = self.agent.http.get("/v1/map", params={"format": "nav2", "resolution": RESOLUTION, **query})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/zip"
        assert answer.headers["content-disposition"] == 'attachment; filename="map.zip"'
        return answer.content

    @cached_property
    def direct(self) -> Direct:
        """The same belief, by the mathematics alone."""
        return Direct(self.model, self.agent.message(codec_of(self.model)))

    def probabilities(self, x: FloatArray) -> FloatArray:
        """P(occupied) at these points, as the agent tells it."""
        headers = {"content-type": "application/vnd.msgpack", "accept": "application/vnd.msgpack"}
        answer = self.agent.http.post("/v1/predictions", content=points_to_msgpack(x), headers=headers)
        assert answer.status_code == 200, answer.text
        return np.asarray(arrays_of(answer)["probability"])


def simulated() -> tuple[dict[str, Any], Split]:
    return DEMO_MODEL, split_table(world_tables(0, **DEMO_WORLD).train, holdout=10)


def intel(folder: Path) -> tuple[dict[str, Any], Split]:
    """A quarter of the rows is enough for a good map."""
    model = yaml.safe_load((ROOT / "examples/models/intel-lattice.yaml").read_text())
    whole = split_table(read_table(folder / "intel_points.npz"), holdout=10)
    return model, Split(whole.train.take(slice(None, None, 4)), whole.test)


@pytest.fixture(scope="module", params=["simulated", "intel"])
def mapped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapped]:
    """A real agent, taught by HTTP."""
    model, split = simulated() if request.param == "simulated" else intel(request.getfixturevalue("data_folder"))
    for start in agent_factory(tmp_path_factory.mktemp("nav2")):
        agent = start(request.param)
        agent.put("model", {"revision": 1, "model": model})
        assert len(split.train) <= AT_ONCE
        assert agent.post(split.train.x, split.train.y).status_code == 200
        agent.put("schedule", {"revision": 1, "observations_per_round": len(split.train), "paused": True})
        assert agent.http.post("/v1/rounds", json={"rounds": 1}).json()["complete"]
        yield Mapped(agent, model, split)


def look_up(content: bytes, x: FloatArray) -> tuple[Cells, FloatArray]:
    """What the map says at each point, and the centre of its cell, by what map.yaml tells alone."""
    document, cells = read_nav2(content)[0], occupancy(content)
    origin, resolution = np.array(document["origin"][:2]), document["resolution"]
    column, row = np.floor((x - origin) / resolution).astype(int).T
    return cells[row, column], origin + (np.column_stack([column, row]) + 0.5) * resolution


def inside_of(mapped: Mapped, content: bytes) -> tuple[FloatArray, FloatArray]:
    """The held-out rows that lie on the map: noise puts a few outside."""
    document, cells = read_nav2(content)[0], occupancy(content)
    corner = np.array(document["origin"][:2])
    sides = np.array(cells.shape[::-1]) * document["resolution"]
    test = mapped.split.test
    on = ((test.x >= corner) & (test.x < corner + sides)).all(axis=1)
    assert on.mean() > 0.99
    return test.x[on], test.y[on]


@pytest.mark.parametrize("thresholds", [(OCCUPIED, FREE), (0.9, 0.1)])
def test_a_trinary_map_decides_of_held_out_points_as_the_probability_of_their_cell_does(
    mapped: Mapped, thresholds: tuple[float, float]
) -> None:
    occupied, free = thresholds
    content = mapped.archive(occupied_thresh=occupied, free_thresh=free)
    x, y = inside_of(mapped, content)
    found, centres = look_up(content, x)
    probability = mapped.probabilities(centres)
    expected = np.select([probability > occupied, probability < free], [100, 0], default=-1)
    np.testing.assert_array_equal(found, expected)
    decided = found >= 0
    assert decided.mean() > 0.75
    right = (found == 100) == (y == 1)
    assert right[decided].mean() == ((probability > occupied) == (y == 1))[decided].mean()
    assert right[decided].mean() > 0.95


@pytest.mark.parametrize("mode", MODES[1:])
def test_a_map_of_percentages_says_of_each_cell_what_its_probability_says_and_where_nobody_has_been(
    mapped: Mapped, mode: str
) -> None:
    content = mapped.archive(mode=mode)
    x, y = inside_of(mapped, content)
    found, centres = look_up(content, x)
    probability = mapped.probabilities(centres)
    known = found >= 0
    assert known.mean() > 0.97  # where a beam passed, its neighbors did
    if mode == "raw":
        np.testing.assert_array_equal(found[known], np.rint(100 * probability[known]))
    else:
        np.testing.assert_array_equal((found == 100)[known], (probability > OCCUPIED)[known])
        np.testing.assert_array_equal((found == 0)[known], (probability < FREE)[known])
        # A percentage of the way from one threshold to the other, of one of 256 greys.
        between = known & (found > 0) & (found < 100)
        share = (probability - FREE) / (OCCUPIED - FREE)
        assert np.abs(found / 100 - share)[between].max() < 0.03
    right = (found >= 50) == (y == 1)
    assert right[known].mean() > 0.93


@pytest.mark.parametrize("mode", MODES[1:])
def test_a_cell_is_unknown_exactly_where_the_centres_have_learned_nothing(mapped: Mapped, mode: str) -> None:
    direct = mapped.direct
    grid = Grid.over(default_bounds(direct.features), RESOLUTION)
    at_first = raster(direct.prior, direct.features, direct.likelihood, grid.x_axis, grid.y_axis)
    expected = unlearned(direct.raster(grid), direct.belief, at_first, direct.prior, direct.features, grid)
    cells = occupancy(mapped.archive(mode=mode))
    np.testing.assert_array_equal(cells == -1, expected)


def test_cells_with_an_observation_are_known_and_those_far_from_all_are_not(mapped: Mapped) -> None:
    cells = occupancy(mapped.archive(mode="raw"))
    grid = Grid.over(default_bounds(mapped.direct.features), RESOLUTION)
    centres = np.stack(np.meshgrid(grid.x_axis, grid.y_axis), axis=-1)
    distance, _ = cKDTree(mapped.split.train.x).query(centres)
    near, far = distance < RESOLUTION, distance > 0.5  # more than three lengthscales
    assert near.any()
    assert (cells[near] >= 0).all()
    assert far.any()
    assert (cells[far] == -1).all()


def test_the_map_lies_where_its_document_says(mapped: Mapped) -> None:
    document, pixels = read_nav2(mapped.archive(bounds="2,3,5,4.5"))
    assert (document["origin"], document["resolution"]) == ([2.0, 3.0, 0.0], RESOLUTION)
    assert (document["occupied_thresh"], document["free_thresh"], document["mode"]) == (OCCUPIED, FREE, "trinary")
    assert pixels.shape == (30, 60)
