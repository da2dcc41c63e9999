"""Files of points without targets: read, or refused in one sentence that begins with the file's name."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from client.streams.points import read_points
from service.errors import DataError

Write = Callable[[Path], object]


def test_points_are_the_first_columns_or_an_array_named_xy_or_x(tmp_path: Path) -> None:
    points = np.array([[1.0, 2.0], [0.5, -3.0]])
    text = "a,b,c\n1,2,9\n\n0.5,-3,x\n"
    np.savez(tmp_path / "xy.npz", xy=points, x=points + 1)
    np.savez(tmp_path / "x.npz", x=points.astype(np.float32), label=[1, 0])
    (tmp_path / "points.csv").write_text(text)
    (tmp_path / "POINTS.CSV.GZ").write_bytes(gzip.compress(text.encode()))
    for name in ("xy.npz", "x.npz", "points.csv", "POINTS.CSV.GZ"):
        np.testing.assert_array_equal(read_points(tmp_path / name, 2), points)
    np.savez(tmp_path / "line.npz", x=np.arange(3))
    assert read_points(tmp_path / "line.npz", 1).shape == (3, 1)


def array(values: Any, name: str = "x") -> Write:
    return lambda path: np.savez(path, **{name: values})


def text(content: str) -> Write:
    return lambda path: path.write_text(content)


def content(some: bytes) -> Write:
    return lambda path: path.write_bytes(some)


def single_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("file_name", "write", "said"),
    [
        ("a.npz", single_array, "single array"),
        ("a.npz", array([["a", "b"]]), "numbers"),
        ("a.npz", array(np.zeros((3, 2), complex)), "numbers"),
        ("a.npz", array(np.array([{}, {}])), "cannot be read"),
        ("a.npz", array(np.zeros(3, dtype=[("a", float), ("b", float)])), "numbers"),
        ("a.npz", array(np.full((3, 2), np.nan)), "finite"),
        ("a.npz", array(np.zeros((0, 2))), "holds no points"),
        ("a.npz", array(np.zeros((2, 2, 2))), "dimension"),
        ("a.npz", array(3.0), "dimension"),
        ("a.npz", array(np.zeros((3, 3))), "3 column"),
        ("a.npz", array(np.zeros((3, 2)), "points"), "needs an array xy or x; it has points"),
        ("a.npz", content(b"PK\3\4 no archive"), "cannot be read"),
        ("a.npz", content(b""), "cannot be read"),
        ("a.csv", text(""), "header"),
        ("a.csv", text("a,b\n"), "header"),
        ("a.csv", text("a,b\n1,2\n3\n"), "line 3 has fewer than 2 columns"),
        ("a.csv", text("a,b\n1,2\n\n3,x\n"), "line 4: 'x' is not a number"),
        ("a.csv", text("a,b\n1,inf\n"), "finite"),
        ("a.csv", text("1,2\n3,4\n"), "line 1 holds numbers"),
        ("a.csv", content(b"\xff\xfe"), "cannot be read"),
        ("a.csv", text('a,b\n"1,2\n' + "1" * 200_000), "cannot be read"),
        ("a.csv.gz", content(b"a,b\n1,2\n"), "cannot be read"),
        ("a.csv.gz", content(gzip.compress(b"a,b\n1,2\n" * 1000)[:40]), "cannot be read"),
        ("a.txt", text("a,b\n1,2\n"), "end in .npz, .csv or .csv.gz"),
        ("folder.csv", Path.mkdir, "no such file"),
        ("none.csv", lambda _: None, "no such file"),
    ],
)
def test_a_file_that_holds_no_points_is_refused_in_one_sentence(
    tmp_path: Path, file_name: str, write: Write, said: str
) -> None:
    path = tmp_path / file_name
    write(path)
    with pytest.raises(DataError) as caught:
        read_points(path, 2)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: ")
    assert said in sentence
    assert "\n" not in sentence
