"""Data files, partitions, and the orders in which agents take their rows."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.randomness import Purpose, generator_for
from client.streams.partitions import Draw, partition_rows
from client.streams.splits import split_table
from client.streams.tables import Table, parse_rows, read_table
from service.errors import DataError, SettingError


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
        ("a.txt", "1 2", "end in .npz, .csv or .csv.gz"),
    ],
)
def test_a_broken_file_is_named_with_the_place(tmp_path: Path, name: str, content: str, reason: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError) as fault:
        read_table(path)
    assert str(path) in str(fault.value)
    assert reason in str(fault.value)


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


@given(rows=st.integers(1, 60), agents=st.integers(1, 8), how=st.sampled_from(["sequential", "random"]))
def test_a_partition_gives_every_row_to_exactly_one_agent(rows: int, agents: int, how: str) -> None:
    if agents > rows:
        with pytest.raises(SettingError, match="each needs at least one"):
            partition_rows(table(rows), how, agents, np.random.default_rng(0))
        return
    parts = partition_rows(table(rows), how, agents, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(rows))
    if how == "sequential":
        assert [part.tolist() for part in parts] == [part.tolist() for part in np.array_split(np.arange(rows), agents)]


def test_fewer_agents_than_groups_keep_groups_whole() -> None:
    grouped = table(6, scan=[10, 10, 11, 12, 12, 13])
    parts = partition_rows(grouped, "scan", 2, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(SettingError, match="scan has only 4 values"):
        partition_rows(grouped, "scan", 5, np.random.default_rng(0))
    with pytest.raises(SettingError, match="known are sequential, random, scan"):
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
