"""Where a sensor stood when it saw a row: in tables, in a plan, in the posts of a run, and shown by agents."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from client.agent_client import Mark
from client.coordinator import Coordinator
from client.network.plan import NetworkPlan, load_plan
from client.streaming import Pace, StreamProgress, stream_part
from client.streams.carmen import read_carmen
from client.streams.tables import Table, read_table
from client.streams.world.tables import world_tables
from service.wire.answers import Stored, StreamPosition
from tests.client.test_network_plan import plan_of
from tests.network.networks import LATTICE
from tests.network.plans import MODEL, write_data, write_network
from tests.processes import Agents

WORLD = {"kind": "world", "rooms_across": 2, "rooms_down": 1, "scans_per_robot": 3, "beams": 20, "seed": 3}
WIDE = {**MODEL, "features": {**LATTICE, "lower": [-3, -3], "upper": [9, 9]}}
POSES = [(0.5, 1.0), (2.5, -1.0), (3.0, 4.25)]
LOG = {"kind": "carmen", "path": "robot.log"}


def write_log(folder: Path) -> Path:
    """Scans of two beams, each at a pose of its own; odometry, which is elsewhere, comes after it."""
    path = folder / "robot.log"
    path.write_text("".join(f"FLASER 2 1.5 2.5 {x} {y} 0.1 70 80 90 1 pc 1\n" for x, y in POSES))
    return path


# Tables.


def test_a_row_of_a_world_has_the_place_where_its_robot_stood_at_its_scan() -> None:
    tables = world_tables(3, 5, robots=2, scans_per_robot=3, beams=20)
    train, paths = tables.train, tables.world.paths
    assert train.positions is not None
    for row, (robot, scan) in enumerate(zip(train.groups["robot"], train.groups["scan"], strict=True)):
        assert train.positions[row].tolist() == paths[robot].positions[scan].tolist()
    assert len(np.unique(train.positions, axis=0)) == 2 * 3
    assert tables.test.positions is None


def test_a_row_of_a_log_has_the_place_of_its_scan(tmp_path: Path) -> None:
    path = write_log(tmp_path)
    by_network = plan_of(tmp_path, agents=1, model=WIDE, data={**LOG, "free_per_hit": 2}).observations()
    for table in (read_table(path), by_network):
        assert table.positions is not None
        assert table.positions.tolist() == [list(POSES[scan]) for scan in table.groups["scan"]]
        assert set(table.groups["scan"].tolist()) == {0, 1, 2}
    assert read_carmen(path).positions.tolist() == [list(pose) for pose in POSES]


def test_rows_of_other_files_have_no_place(tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("x,y\n1,0\n2,1\n")
    for path in (tmp_path / "points.csv", write_data(tmp_path / "points.npz", 10)):
        assert read_table(path).positions is None
        assert read_table(path).take(slice(3)).positions is None


def test_rows_that_are_taken_keep_their_places() -> None:
    table = Table("memory", np.zeros((4, 2)), np.zeros(4), {}, positions=np.arange(8.0).reshape(4, 2))
    for rows in (slice(1, 3), np.array([False, True, True, False]), np.array([1, 2])):
        taken = table.take(rows).positions
        assert taken is not None
        assert taken.tolist() == [[2, 3], [4, 5]]


def test_tables_below_one_another_have_places_if_all_have_them(tmp_path: Path) -> None:
    write_log(tmp_path)
    write_data(tmp_path / "points.npz", 10)
    world = {**WORLD, "robots": 1}
    both = plan_of(tmp_path, agents=1, model=WIDE, data=[LOG, world]).observations()
    apart = [plan_of(tmp_path, agents=1, model=WIDE, data=one).observations().positions for one in (LOG, world)]
    assert both.positions is not None
    np.testing.assert_array_equal(both.positions, np.concatenate([one for one in apart if one is not None]))
    for other in ([LOG, {"kind": "table", "path": "points.npz"}], [{"kind": "table", "path": "points.npz"}, LOG]):
        assert plan_of(tmp_path, agents=1, model=WIDE, data=other).observations().positions is None


# Posts.


def test_a_post_is_made_where_its_last_row_was_seen(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, agents=2, model=WIDE, data={**WORLD, "partition": "robot"}, stream={"batch": 30})
    train = plan.observations()
    assert train.positions is not None
    for agent in range(2):
        for number in range(plan.batches(agent)):
            x, _ = plan.batch(agent, number)
            (row,) = np.flatnonzero((train.x == x[-1]).all(axis=1))
            position = plan.position(agent, number)
            assert position is not None
            assert position.tolist() == train.positions[row].tolist()


def test_an_empty_post_and_one_of_a_plain_file_are_made_nowhere(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, agents=2, model=WIDE, data={**WORLD, "agent": "agent-1"})
    assert plan.position(1, 0) is None
    write_data(tmp_path / "points.npz", 10)
    assert plan_of(tmp_path, agents=1).position(0, 0) is None


class Listener:
    """What a stream needs of an agent; it writes down where posts were made."""

    def __init__(self) -> None:
        self.told: list[list[float] | None] = []

    async def position(self, client: str) -> StreamPosition:
        return StreamPosition(client, 0, False)

    async def post(self, x: Any, y: Any, mark: Mark, end: bool = False, position: Any = None) -> Stored:
        self.told.append(None if position is None else position.tolist())
        return Stored(len(y), mark.sequence + 1)


def told_by(plan: NetworkPlan) -> list[list[float] | None]:
    listener, progress = Listener(), StreamProgress()
    progress.begin({plan.names[0]: len(plan.parts[0])})
    asyncio.run(stream_part(plan, 0, listener, "run", Pace(None), progress))  # type: ignore[arg-type]
    return listener.told


def test_every_post_of_a_stream_tells_its_place_if_the_model_is_of_a_plane(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, agents=1, model=WIDE, data=WORLD, stream={"batch": 40})
    expected = [plan.position(0, number) for number in range(plan.batches(0))]
    assert told_by(plan) == [None if position is None else position.tolist() for position in expected]
    assert None not in told_by(plan)
    assert len({tuple(place or ()) for place in told_by(plan)}) > 1

    (tmp_path / "line.csv").write_text("x,y\n" + "1,0\n" * 5)
    line = {**MODEL, "features": {**LATTICE, "lower": [0], "upper": [2]}}
    plan = plan_of(tmp_path, agents=1, model=line, data={"kind": "table", "path": "line.csv"}, stream={"batch": 3})
    placed = replace(plan, train=replace(plan.observations(), positions=np.ones((5, 2))))
    assert told_by(placed) == [None, None]


def test_an_agent_shows_where_the_last_post_of_a_run_was_made(agents: Agents, tmp_path: Path) -> None:
    running = agents("a1")
    path = write_network(tmp_path, [running], model=WIDE, data=WORLD, verification=None, stream={"batch": 50})
    plan = load_plan(path)

    async def run() -> None:
        async with Coordinator(plan, {"a1": running.url}) as network:
            await network.configure()
            await network.stream()
            shown = await network.agents[0].recent(7)
        stood = world_tables(3, 0, robots=1, rooms_across=2, rooms_down=1, scans_per_robot=3, beams=20).world.paths[0]
        assert shown.position == stood.positions[-1].tolist()
        np.testing.assert_array_equal(shown.x, plan.observations().x[-7:])
        np.testing.assert_array_equal(shown.y, plan.observations().y[-7:])
        assert shown.collected == len(plan.observations())

    asyncio.run(run())
