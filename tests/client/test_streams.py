"""Data files, partitions, and the orders in which agents take their rows."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.randomness import Purpose, generator_for
from client.streams.partitions import EVEN_SPLITS, Draw, lost_groups, name_groups, partition_rows
from client.streams.splits import split_table
from client.streams.tables import Table, parse_rows, read_table
from service.errors import DataError, SettingError
from tests.conftest import Delbo


def table(rows: int, **groups: list[int]) -> Table:
    arrays = {name: np.array(values) for name, values in groups.items()}
    return Table("memory", np.arange(2.0 * rows).reshape(rows, 2), np.zeros(rows), arrays)


def test_npz_and_csv_give_the_same_table(tmp_path: Path) -> None:
    x, y = np.array([[0.5, -1.0], [2.0, 3.25]]), np.array([0.0, 1.0])
    np.savez(tmp_path / "data.npz", xy=x.astype(np.float32), label=y.astype(np.uint8), scan=[4, 5], other=[[1, 2, 3]])
    text = "a,b,label\n0.5,-1,0\n2,3.25,1\n"
    (tmp_path / "data.csv").write_text(text)
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("data.npz", "data.csv", "data.csv.gz"):
        read = read_table(tmp_path / name)
        np.testing.assert_array_equal(read.x, x)
        np.testing.assert_array_equal(read.y, y)
    assert list(read_table(tmp_path / "data.npz").groups) == ["scan"]  # only arrays with one entry per row group rows


def test_a_csv_column_that_groups_rows_is_no_coordinate(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("x,robot,y\n0.5,left,0\n1.5,right,1\n2.5,left,1\n")
    read = read_table(tmp_path / "data.csv", "robot")
    assert read.x.tolist() == [[0.5], [1.5], [2.5]]
    parts = partition_rows(read, "robot", None, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[0, 2], [1]]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", "x,y\n1,2\n3\n", "line 3 has 1 fields, but the header has 2"),
        ("a.csv", "x,y\n1,two\n", "line 2, column y: 'two' is not a number"),
        ("a.csv", "x,y\nnan,1\n", "line 2, column x: nan is not finite"),
        ("a.csv", "x,y\n", "holds no observations"),
        ("a.csv", "", "is empty"),
        ("a.csv", "y\n1\n", "at least two columns"),
        ("a.csv", "1,2\n3,4\n", "line 1 holds numbers, where a header"),
        ("a.csv", "x,y\n\n\n1,2\nq,3\n", "line 5, column x: 'q' is not a number"),
        ("a.csv", "x,y\n1," + "2" * 200_000 + "\n", "cannot be read"),
        ("a.npz", "no zip", "cannot be read"),
        ("a.csv.gz", "no gzip", "cannot be read"),
        ("a.log", "no log", "'no' is no CARMEN message"),
        ("a.clf.gz", "ODOM 1", "holds no laser scan"),
        ("a.log", "FLASER 2 0 81.83 0 0 0 0 0 0 1 pc 1", "holds no observations"),
        ("a.txt", "1 2", "end in .npz, .csv, .csv.gz, .log, .log.gz, .clf or .clf.gz"),
    ],
)
def test_a_broken_file_is_named_with_the_place(tmp_path: Path, name: str, content: str, reason: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError) as fault:
        read_table(path)
    assert str(path) in str(fault.value)
    assert reason in str(fault.value)


def test_the_intel_log_is_the_table_of_the_shared_intel_points(data_folder: Path) -> None:
    log, points = read_table(data_folder / "intel.log.gz", "scan"), read_table(data_folder / "intel_points.npz")
    np.testing.assert_allclose(log.x, points.x, rtol=0, atol=1e-6)  # float32 up to 24 m
    np.testing.assert_array_equal(log.y, points.y)
    np.testing.assert_array_equal(log.groups["scan"], points.groups["scan"])
    assert log.remarks == ()


@pytest.mark.parametrize("name", ["a.log", "A.LOG.GZ", "a.clf", "a.clf.gz"])
def test_lines_of_a_log_that_cannot_be_read_are_remarked_and_not_fatal(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content = b"FLASER 2 4.5 1.5 1 2 0 0 0 0 1 pc 1\n?\n?\nFLASER 2 81.8 9.5 1 2 0 0 0 0 1 pc 1\n"
    path.write_bytes(gzip.compress(content) if name.lower().endswith("gz") else content)
    read = read_table(path)
    np.testing.assert_allclose(read.x[read.y == 1], [[1, -2.5], [1, 3.5], [1, 11.5]], atol=1e-12)
    assert read.groups["scan"].tolist() == [0] * 5 + [1] * 5
    assert read.remarks == tuple(f"{path}: line {line}: '?' is no CARMEN message; left out" for line in (2, 3))
    assert read.take(slice(2)).remarks == read.remarks


def test_arrays_that_are_missing_or_differ_in_length_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "keys.npz", points=np.zeros((2, 2)), label=np.zeros(2))
    with pytest.raises(DataError, match=r"needs an array xy or x and an array label or y; it has points, label"):
        read_table(tmp_path / "keys.npz")
    np.savez(tmp_path / "rows.npz", x=np.zeros((2, 2)), y=np.zeros(3))
    with pytest.raises(DataError, match="x has 2 rows, but y has 3"):
        read_table(tmp_path / "rows.npz")


def test_a_damaged_archive_or_a_single_array_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "damaged.npz", x=np.random.default_rng(0).random((99, 2)), y=np.zeros(99))
    content = bytearray((tmp_path / "damaged.npz").read_bytes())
    content[100:400] = bytes(300)
    (tmp_path / "damaged.npz").write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        read_table(tmp_path / "damaged.npz")
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(DataError, match="is a single array"):
        read_table(tmp_path / "array.npz")


def test_groups_of_numbers_are_in_the_order_of_numbers_in_csv_and_npz(tmp_path: Path) -> None:
    robots = np.arange(12).repeat(2)
    np.savez(tmp_path / "data.npz", x=np.zeros((24, 1)), y=np.zeros(24), robot=robots)
    (tmp_path / "data.csv").write_text("x,robot,y\n" + "".join(f"0,{robot},0\n" for robot in robots))
    for name in ("data.npz", "data.csv"):
        parts = partition_rows(read_table(tmp_path / name, "robot"), "robot", 3, np.random.default_rng(0))
        assert [part.tolist() for part in parts] == [list(range(8)), list(range(8, 16)), list(range(16, 24))]


def test_holdout_counts_the_rows_that_are_used_and_test_rows_those_of_the_data() -> None:
    data = table(20)
    held = split_table(data, rows="5:15", holdout=4)
    np.testing.assert_array_equal(held.test.x, data.x[[5, 9, 13]])
    np.testing.assert_array_equal(held.train.x, data.x[[6, 7, 8, 10, 11, 12, 14]])
    apart = split_table(data, rows="0::2", test_rows="1::2")
    np.testing.assert_array_equal(apart.train.x, data.x[0::2])
    np.testing.assert_array_equal(apart.test.x, data.x[1::2])
    assert apart.remark is None
    rest = split_table(data, test_rows="15:")
    np.testing.assert_array_equal(rest.train.x, data.x[:15])  # what is tested is not trained on
    both = split_table(data, rows="0:10", test_rows="5:15")
    assert both.remark == "5 of 10 test rows are training rows too"


def test_one_seed_gives_independent_generators_for_each_purpose() -> None:
    purposes: list[Purpose] = ["centers", "partition", "topology", "shuffle"]
    draws = [generator_for(purpose, 7, *key).random() for purpose in purposes for key in ((), (0,), (0, 1))]
    draws.append(np.random.default_rng(7).random())
    assert len(set(draws)) == len(draws)
    assert generator_for("shuffle", 7, 2, 3).random() == generator_for("shuffle", 7, 2, 3).random()


def test_an_npz_with_pickled_objects_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", x=np.zeros((1, 2)), y=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="cannot be read"):
        read_table(tmp_path / "objects.npz")


@pytest.mark.parametrize("text", ["0:10:0", "5", "a:b", "1:2:3:4", "::-1"])
def test_rows_that_are_no_slice_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="A:B or A:B:STEP"):
        parse_rows(text)


def test_rows_slice_as_python_does() -> None:
    assert np.arange(10)[parse_rows("1::2")].tolist() == [1, 3, 5, 7, 9]
    assert np.arange(10)[parse_rows("2:5")].tolist() == [2, 3, 4]


@given(rows=st.integers(1, 60), agents=st.integers(1, 8), how=st.sampled_from(list(EVEN_SPLITS)))
def test_a_partition_gives_every_row_to_exactly_one_agent(rows: int, agents: int, how: str) -> None:
    if agents > rows:
        with pytest.raises(SettingError, match="each needs at least one"):
            partition_rows(table(rows), how, agents, np.random.default_rng(0))
        return
    parts = partition_rows(table(rows), how, agents, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(rows))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    if how == "sequential":
        assert [part.tolist() for part in parts] == [part.tolist() for part in np.array_split(np.arange(rows), agents)]
    if how == "random":
        assert np.concatenate(parts).tolist() == np.random.default_rng(0).permutation(rows).tolist()
    if how == "round-robin":
        assert [part.tolist() for part in parts] == [list(range(agent, rows, agents)) for agent in range(agents)]


places = st.lists(st.tuples(st.integers(-9, 9), st.integers(-4, 4)), min_size=8, max_size=60)


@given(points=places, agents=st.integers(1, 8))
def test_regions_are_boxes_of_equal_size_that_meet_at_borders_only(points: list[tuple[int, int]], agents: int) -> None:
    x = np.array(points, np.float64)
    data = Table("memory", x, np.zeros(len(x)), {})
    parts = partition_rows(data, "region", agents, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(x)))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert all((np.diff(part) > 0).all() for part in parts)  # a stream stays in its order
    boxes = [(x[part].min(axis=0), x[part].max(axis=0)) for part in parts]
    for number, (lower, upper) in enumerate(boxes):
        for other_lower, other_upper in boxes[:number]:
            assert (upper <= other_lower).any() or (other_upper <= lower).any()


def test_regions_are_cut_across_the_longer_side_in_proportion() -> None:
    across, up = np.meshgrid(np.arange(9.0), np.arange(4.0))
    data = Table("memory", np.column_stack([across.ravel(), up.ravel()])[::-1], np.zeros(36), {})
    parts = partition_rows(data, "region", 3, np.random.default_rng(0))
    # A third of the columns first; what is left is 5 long and 3 high, and cut across its length again.
    assert [sorted(set(data.x[part, 0])) for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    square = data.take(data.x[:, 0] < 4)
    corners = [
        square.x[part].min(axis=0).tolist() for part in partition_rows(square, "region", 4, np.random.default_rng(0))
    ]
    assert corners == [[0, 0], [0, 2], [2, 0], [2, 2]]
    tall = Table("memory", data.x[:, ::-1], data.y, {})
    parts = partition_rows(tall, "region", 2, np.random.default_rng(0))
    assert tall.x[parts[0], 1].max() == 4
    assert tall.x[parts[1], 1].min() == 4


@pytest.mark.parametrize("how", list(EVEN_SPLITS))
def test_a_word_for_a_split_goes_before_a_group_of_that_name(how: str) -> None:
    plain, grouped = table(6), table(6, **{how: [5, 5, 5, 5, 5, 6]})
    parts = [partition_rows(data, how, 3, np.random.default_rng(0)) for data in (plain, grouped)]
    assert [part.tolist() for part in parts[0]] == [part.tolist() for part in parts[1]]
    summary: dict[str, list[dict[str, object]]] = {"agents": [{}, {}, {}]}
    for data in (plain, grouped):
        name_groups(summary, data, how, parts[0])
        assert summary == {"agents": [{}, {}, {}]}
        assert lost_groups(data, data.take(slice(5)), how) is None


def test_fewer_agents_than_groups_keep_groups_whole() -> None:
    grouped = table(6, scan=[10, 10, 11, 12, 12, 13])
    parts = partition_rows(grouped, "scan", 2, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(SettingError, match="scan has only 4 values"):
        partition_rows(grouped, "scan", 5, np.random.default_rng(0))
    with pytest.raises(SettingError, match="known are sequential, random, round-robin, region, scan"):
        partition_rows(grouped, "robot", 2, np.random.default_rng(0))


@given(size=st.integers(1, 20), batch=st.integers(1, 9), passes=st.integers(1, 3))
def test_streamed_and_shuffled_passes_take_every_row_once_per_pass(size: int, batch: int, passes: int) -> None:
    rows = np.arange(100, 100 + size)
    steps = passes * size
    rounds = -(-steps // batch)
    for order in ("stream", "shuffled"):
        draw = Draw(rows, order, steps, seed=3, agent=1)
        taken = np.concatenate([draw.take(number, batch) for number in range(rounds)])
        for begin in range(0, steps, size):
            one_pass = taken[begin : begin + size].tolist()
            assert sorted(one_pass) == rows.tolist()
            assert order == "shuffled" or one_pass == rows.tolist()
        assert draw.take(rounds, batch).size == 0


def test_replay_depends_on_seed_agent_and_round_only() -> None:
    rows = np.arange(1000)
    draw = Draw(rows, "replay", 100, seed=7, agent=2)
    later = Draw(rows, "replay", 100, seed=7, agent=2)
    draw.take(0, 10)
    draw.take(1, 10)
    np.testing.assert_array_equal(draw.take(2, 10), later.take(2, 10))  # as after a restart
    assert draw.take(2, 10).tolist() != Draw(rows, "replay", 100, seed=7, agent=3).take(2, 10).tolist()
    assert draw.take(2, 10).tolist() != draw.take(3, 10).tolist()
    many = Draw(rows[:4], "replay", 40_000, seed=0, agent=0).take(0, 40_000)
    np.testing.assert_allclose(np.bincount(many) / 40_000, 0.25, atol=0.02)  # 8 standard deviations


def test_a_column_named_like_a_way_to_split_evenly_is_a_coordinate_like_any_other(
    delbo_here: Delbo, tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_text("region,b,y\n" + "".join(f"{row},{row},{row % 2}\n" for row in range(8)))
    model = {
        "features": {"kind": "centers", "centers": [[0.0, 0.0]], "lengthscale": 1.0},
        "prior": {"information": 1.0},
        "likelihood": "probit",
    }
    (tmp_path / "model.yaml").write_text(json.dumps(model))
    for partition in ("region", "round-robin"):
        options = ("--agents", 2, "--partition", partition)
        finished = delbo_here("fit", tmp_path / "model.yaml", tmp_path / "data.csv", *options)
        assert finished.returncode == 0, finished.stderr
