"""A simulated world as tables, and on disk."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from client.streams.tables import Table, read_table
from client.streams.world.files import write_world
from client.streams.world.geometry import sides
from client.streams.world.tables import WorldTables, world_tables


@pytest.fixture(scope="module")
def small() -> WorldTables:
    return world_tables(3, test_points=500, robots=2, scans_per_robot=6, beams=40)


@pytest.fixture(scope="module")
def folder(small: WorldTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / "new"
    written = write_world(folder, small)
    assert sorted(written) == sorted(folder.iterdir())
    return folder


def assert_same(table: Table, other: Table) -> None:
    np.testing.assert_array_equal(table.x, other.x)
    np.testing.assert_array_equal(table.y, other.y)
    assert table.groups.keys() == other.groups.keys()
    for name, values in table.groups.items():
        np.testing.assert_array_equal(values, other.groups[name])


def test_a_seed_gives_the_same_tables_and_another_one_others(small: WorldTables) -> None:
    again, other = (world_tables(seed, test_points=500, robots=2, scans_per_robot=6, beams=40) for seed in (3, 4))
    assert_same(again.train, small.train)
    assert_same(again.test, small.test)
    assert not np.array_equal(other.test.x, small.test.x)


def test_training_rows_can_be_grouped_by_robot_and_scan(small: WorldTables) -> None:
    pairs = set(zip(small.train.groups["robot"].tolist(), small.train.groups["scan"].tolist(), strict=True))
    assert pairs == {(robot, number) for robot in range(2) for number in range(6)}


def test_test_points_cover_the_building_of_the_training_rows(small: WorldTables) -> None:
    assert len(small.test) == 500
    assert small.test.groups == {}
    for table in (small.train, small.test):
        np.testing.assert_allclose(table.x.max(axis=0), (small.world.plan.width_m, small.world.plan.height_m), atol=0.3)


def test_written_data_is_read_back_as_it_was(small: WorldTables, folder: Path) -> None:
    assert_same(read_table(folder / "world.npz"), small.train)
    assert_same(read_table(folder / "test.npz"), small.test)


def test_the_written_plan_is_the_building_and_the_ways_through_it(small: WorldTables, folder: Path) -> None:
    document = json.loads((folder / "plan.json").read_text())
    plan = small.world.plan
    surfaces = np.vstack([document["walls"], sides(np.array(document["furniture"]))])
    np.testing.assert_array_equal(surfaces, plan.surfaces)
    assert (document["width_m"], document["height_m"]) == (plan.width_m, plan.height_m)
    assert [room["wing"] for room in document["rooms"]] == plan.wings.tolist()
    assert [room["box"] for room in document["rooms"] if room["is_corridor"]] == plan.rooms[plan.is_corridor].tolist()
    assert [door["rooms"] for door in document["doors"]] == plan.joined_rooms.tolist()
    assert [door["center"] for door in document["doors"]] == plan.doors.tolist()
    assert [door["width_m"] for door in document["doors"]] == plan.door_widths_m.tolist()
    for path, written in zip(small.world.paths, document["paths"], strict=True):
        assert written == {
            "positions": path.positions.tolist(),
            "headings": path.headings.tolist(),
            "way_points": path.way_points.tolist(),
        }


def test_the_picture_has_the_shape_of_the_building_and_a_colour_per_robot(small: WorldTables, folder: Path) -> None:
    picture = imread(folder / "plan.png")[..., :3]
    assert picture.shape[1] / picture.shape[0] == pytest.approx(16 / 10, abs=0.15)
    colours = {tuple(pixel) for pixel in (picture.reshape(-1, 3) * 255).round().astype(int)[::7].tolist()}
    for robot_colour in [(31, 119, 180), (255, 127, 14)]:
        assert min(sum(abs(a - b) for a, b in zip(colour, robot_colour, strict=True)) for colour in colours) < 10
