"""What a network's file means for each agent: its rows, its weights, what is held out; and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from client.network.document import parse_network
from client.network.plan import NetworkPlan, load_plan, make_plan
from service.errors import DelboError
from tests.network.networks import LATTICE
from tests.network.plans import MODEL, write_data, write_network

ROWS = 240
TABLE = {"kind": "table", "path": "points.npz"}
CHOSEN = {"kind": "centers", "choose": {"how": "random", "count": 5}, "lengthscale": 0.5}
UPSIDE_DOWN = {"kind": "lattice", "spacing": 1, "lengthscale": 1, "lower": [1], "upper": [0]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_data(tmp_path / "points.npz", ROWS)
    return tmp_path


def plan_of(folder: Path, **changes: Any) -> NetworkPlan:
    document = {"agents": 4, "model": MODEL, "data": TABLE, "stream": {"batch": 25}, **changes}
    return make_plan(parse_network(document, "network"), folder, "network")


def rows_of(plan: NetworkPlan) -> list[list[int]]:
    """Which rows of the file each agent gets, in their order, found by the points that are posted."""
    with np.load(Path(str(plan.observations().source).split(", ")[0])) as archive:
        numbers = {tuple(point): row for row, point in enumerate(archive["x"].tolist())}
    posted = [
        [plan.batch(agent, number)[0] for number in range(plan.batches(agent))] for agent in range(len(plan.names))
    ]
    return [[numbers[tuple(point)] for point in np.concatenate(batches).tolist()] for batches in posted]


def test_rows_are_dealt_out_in_pieces_in_turn_by_groups_or_at_random(folder: Path) -> None:
    everything = range(ROWS)
    expected = {
        "sequential": [list(everything[60 * agent : 60 * (agent + 1)]) for agent in range(4)],
        "round-robin": [list(everything[agent::4]) for agent in range(4)],
        "robot": [list(everything[60 * agent : 60 * (agent + 1)]) for agent in range(4)],  # two of eight robots each
    }
    for how, rows in expected.items():
        assert rows_of(plan_of(folder, data={**TABLE, "partition": how})) == rows
    drawn = rows_of(plan_of(folder, data={**TABLE, "partition": "random"}, seed=1))
    assert sorted(row for rows in drawn for row in rows) == list(everything)
    assert [len(rows) for rows in drawn] == [60] * 4
    assert drawn == rows_of(plan_of(folder, data={**TABLE, "partition": "random"}, seed=1))
    assert drawn != rows_of(plan_of(folder, data={**TABLE, "partition": "random"}, seed=2))


def test_regions_are_boxes_with_as_many_rows_each(folder: Path) -> None:
    plan = plan_of(folder, data={**TABLE, "partition": "region"})
    assert [len(rows) for rows in plan.parts] == [60] * 4
    assert all(rows == sorted(rows) for rows in rows_of(plan))
    boxes = [(plan.observations().x[rows].min(0), plan.observations().x[rows].max(0)) for rows in plan.parts]
    for one, (lower, upper) in enumerate(boxes):
        for other, (other_lower, other_upper) in enumerate(boxes):
            assert one == other or (upper < other_lower).any() or (other_upper < lower).any()


def test_sources_follow_each_other_and_one_may_be_for_one_agent(folder: Path) -> None:
    data = [
        {**TABLE, "rows": "0:8"},
        {**TABLE, "rows": "8:12", "agent": "agent-3"},
        {**TABLE, "rows": "12:20", "partition": "round-robin"},
    ]
    assert rows_of(plan_of(folder, data=data)) == [
        [0, 1, 12, 16],
        [2, 3, 13, 17],
        [4, 5, 8, 9, 10, 11, 14, 18],
        [6, 7, 15, 19],
    ]


def test_an_agent_without_rows_has_one_empty_batch_that_ends_its_stream(folder: Path) -> None:
    plan = plan_of(folder, data={**TABLE, "agent": "agent-2"})
    assert [len(rows) for rows in plan.parts] == [0, ROWS, 0, 0]
    assert [plan.batches(agent) for agent in range(4)] == [1, 10, 1, 1]
    assert plan.batch(0, 0)[0].shape == (0, 2)


def test_what_is_held_out_of_every_source_is_not_streamed(folder: Path) -> None:
    data = [{**TABLE, "rows": "0:100"}, {**TABLE, "rows": "100:200", "agent": "agent-1"}]
    plan = plan_of(folder, data=data, verification={"holdout": 7})
    streamed = {row for rows in rows_of(plan) for row in rows}
    held = {*range(0, 100, 7), *range(100, 200, 7)}
    assert streamed == set(range(200)) - held
    assert plan.test is not None
    assert len(plan.test) == len(held)
    with np.load(folder / "points.npz") as archive:
        np.testing.assert_array_equal(plan.test.x, archive["x"][sorted(held)])


def test_verification_may_have_data_of_its_own(folder: Path) -> None:
    write_data(folder / "test.npz", 33, seed=5)
    plan = plan_of(folder, verification={"source": {"kind": "table", "path": "test.npz", "rows": "3:"}})
    assert plan.test is not None
    assert len(plan.test) == 30
    assert sum(len(rows) for rows in plan.parts) == ROWS


def test_a_world_is_explored_by_a_robot_for_each_agent_and_verified_on_points_of_its_own(folder: Path) -> None:
    model = {**MODEL, "features": {**LATTICE, "lower": [-1, -1], "upper": [9, 9]}}
    world = {"kind": "world", "rooms_across": 2, "rooms_down": 1, "scans_per_robot": 2, "beams": 20, "seed": 3}
    plan = plan_of(folder, agents=2, model=model, data=world, verification={"points": 70})
    robots = plan.observations().groups["robot"]
    assert [set(robots[rows].tolist()) for rows in plan.parts] == [{0}, {1}]
    assert plan.test is not None
    assert len(plan.test) == 70
    by_scan = plan_of(folder, agents=2, model=model, data={**world, "partition": "scan"}, verification={"points": 70})
    assert by_scan.observations().x.tolist() == plan.observations().x.tolist()


def test_a_log_is_read_by_its_sources_own_rule(folder: Path) -> None:
    scans = [f"FLASER 3 1.0 2.0 60.0 {number}.0 0 0 {number}.0 0 0 {number}.5 robot {number}.5" for number in range(4)]
    (folder / "robot.log").write_text("\n".join([*scans, "FLASER 3 broken"]) + "\n")
    model = {**MODEL, "features": {**LATTICE, "lower": [-3, -3], "upper": [9, 9]}}
    log = {"kind": "carmen", "path": "robot.log", "partition": "scan", "free_per_hit": 2}
    plan = plan_of(folder, agents=4, model=model, data=log)
    assert [int(plan.observations().y[rows].sum()) for rows in plan.parts] == [2] * 4  # the third beam did not return
    assert len(plan.observations()) == 4 * 2 * 3
    assert "robot.log: line 5" in plan.observations().remarks[0]


def test_a_matrix_is_the_graph_as_well(folder: Path) -> None:
    matrix = [[0.5, 0.5, 0, 0], [0.5, 0.25, 0.25, 0], [0, 0.25, 0.5, 0.25], [0, 0, 0.25, 0.75]]
    plan = plan_of(folder, mixing_weights=matrix)
    np.testing.assert_array_equal(plan.mixing_matrix.toarray(), matrix)
    urls = {name: f"http://10.0.0.1:{8000 + number}" for number, name in enumerate(plan.names)}
    document = plan.neighbors_document(1, urls, epoch=3)
    assert [(one.name, one.weight) for one in document.neighbors] == [("agent-1", 0.5), ("agent-3", 0.25)]
    assert (document.own_weight, document.index, document.agents, document.epoch) == (0.25, 1, 4, 3)


def test_centres_are_chosen_from_the_streamed_rows_the_same_each_time(folder: Path) -> None:
    model = {**MODEL, "features": CHOSEN}
    first, again, other = (plan_of(folder, model=model, seed=seed) for seed in (1, 1, 2))
    assert first.spec.model_id == again.spec.model_id != other.spec.model_id
    first.model_document(0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {**TABLE, "path": "none.npz"}}, "none.npz: there is no such file"),
        ({"data": {**TABLE, "path": "${NOT_SET}/x.npz"}}, "the environment has no NOT_SET"),
        ({"data": {**TABLE, "rows": "500:"}}, "rows 500: leave nothing"),
        ({"data": {**TABLE, "rows": "a:b"}}, "rows are A:B or A:B:STEP"),
        ({"data": {**TABLE, "partition": "colour"}}, "cannot be partitioned by 'colour'"),
        ({"data": {**TABLE, "rows": "0:3"}}, "4 agents cannot share 3 observations"),
        ({"data": {**TABLE, "partition": "robot"}, "agents": 9}, "robot has only 8 values"),
        ({"data": [TABLE, {**TABLE, "path": "three.npz"}]}, "different dimension"),
        ({"data": {**TABLE, "path": "three.npz"}}, "3 coordinate(s), but the model's features take 2"),
        ({"data": {**TABLE, "path": "numbers.npz"}}, "it must be 0 or 1"),
        ({"verification": {"source": {**TABLE, "path": "three.npz"}}}, "3 coordinate(s)"),
        ({"verification": {"source": {**TABLE, "path": "numbers.npz"}}}, "it must be 0 or 1"),
        ({"model": "none.yaml"}, "none.yaml: there is no such file"),
        ({"model": "points.npz"}, "is no YAML"),
        ({"model": "date.yaml"}, "is no YAML"),
        ({"model": {**MODEL, "features": UPSIDE_DOWN}}, "lower"),
        ({"model": {**MODEL, "features": CHOSEN}, "data": []}, "chosen from data"),
        ({"topology": {"edges": [["agent-1", "agent-2"]]}}, "agent-1 cannot reach agent-3"),
        ({"topology": {"kind": "geometric", "radius": 1e-6}}, "cannot reach"),
        ({"mixing_weights": [[1]]}, "4 agents need 4 rows of 4 weights"),
        ({"mixing_weights": np.full((4, 4), 0.3).tolist()}, "sum"),
        ({"mixing_weights": np.full((4, 4), 0.25).tolist(), "topology": "ring"}, "leave out topology"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_started(
    folder: Path, changes: dict[str, Any], said: str
) -> None:
    np.savez(folder / "three.npz", x=np.zeros((50, 3)), y=np.zeros(50))
    np.savez(folder / "numbers.npz", x=np.zeros((50, 2)), y=np.arange(50))
    (folder / "date.yaml").write_text("prior: 2020-99-99")
    with pytest.raises(DelboError) as caught:
        plan_of(folder, **changes)
    assert said in str(caught.value)
    assert str(caught.value).startswith("network: ")
    assert "\n" not in str(caught.value)


def test_a_networks_file_and_all_that_it_names_are_read_from_its_folder(folder: Path) -> None:
    plan = load_plan(write_network(folder, 3))
    assert plan.names == ["agent-1", "agent-2", "agent-3"]
    assert sum(len(rows) for rows in plan.parts) == ROWS - ROWS // 10
