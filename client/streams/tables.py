"""Data files: points, targets, and further columns by which to group them, from .npz, .csv[.gz] or a laser log."""

import csv
import gzip
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from client.streams.carmen import read_carmen
from client.streams.scans import beams_of, labelled_points
from service.errors import DataError, SettingError
from service.inference.arrays import FloatArray, as_floats

_POINT_NAMES = ("xy", "x")
_TARGET_NAMES = ("label", "y")
_CSV_ENDINGS = (".csv", ".csv.gz")
_LOG_ENDINGS = (".log", ".log.gz", ".clf", ".clf.gz")


@dataclass(frozen=True, eq=False)
class Table:
    """Observations in order: x (rows, dimension), y (rows,) or (rows, outputs), and arrays to group rows by."""

    source: str
    x: FloatArray
    y: FloatArray
    groups: dict[str, npt.NDArray[Any]]
    remarks: tuple[str, ...] = ()  # what the user should know of the file
    positions: FloatArray | None = None  # (rows, 2) where the sensor stood when it saw a row, if that is known

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Any) -> "Table":
        """The rows that a slice, mask or index array picks."""
        groups = {name: values[rows] for name, values in self.groups.items()}
        positions = None if self.positions is None else self.positions[rows]
        return replace(self, x=self.x[rows], y=self.y[rows], groups=groups, positions=positions)


def read_table(path: Path, group: str | None = None) -> Table:
    """The table in a file; `group` names the column that is there to group by, and so no coordinate (csv)."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    name = path.name.lower()
    try:
        if name.endswith(".npz"):
            table = _read_npz(path)
        elif name.endswith(_CSV_ENDINGS):
            table = _read_csv(path, group)
        elif name.endswith(_LOG_ENDINGS):
            table = _read_log(path)
        else:
            endings = ", ".join([".npz", *_CSV_ENDINGS, *_LOG_ENDINGS[:-1]])
            raise DataError(f"{path}: data files end in {endings} or {_LOG_ENDINGS[-1]}")
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, csv.Error, UnicodeDecodeError, ValueError) as fault:
        raise DataError(f"{path}: cannot be read: {fault}") from None
    if len(table) == 0:
        raise DataError(f"{path}: holds no observations")
    return table


def _read_npz(path: Path) -> Table:
    archive = np.load(path, allow_pickle=False)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise DataError(f"{path}: is a single array, not an archive of several: write it with numpy.savez")
    with archive:
        arrays = {name: archive[name] for name in archive.files}
    x_name = next((name for name in _POINT_NAMES if name in arrays), None)
    y_name = next((name for name in _TARGET_NAMES if name in arrays), None)
    if x_name is None or y_name is None:
        raise DataError(f"{path}: needs an array xy or x and an array label or y; it has {', '.join(arrays) or 'none'}")
    points = arrays[x_name]
    x = as_floats(f"{path}: {x_name}", points[:, None] if points.ndim == 1 else points, 2)
    targets = arrays[y_name]
    y = as_floats(f"{path}: {y_name}", targets, 2 if targets.ndim == 2 else 1)
    if len(x) != len(y):
        raise DataError(f"{path}: {x_name} has {len(x)} rows, but {y_name} has {len(y)}")
    others = {name: values for name, values in arrays.items() if name not in (x_name, y_name)}
    return Table(str(path), x, y, {name: values for name, values in others.items() if values.shape == (len(y),)})


def _read_csv(path: Path, group: str | None) -> Table:
    content = gzip.decompress(path.read_bytes()) if path.name.lower().endswith(".gz") else path.read_bytes()
    reader = csv.reader(content.decode("utf-8-sig").splitlines())
    lines = [(reader.line_num, fields) for fields in reader if fields]
    if not lines:
        raise DataError(f"{path}: is empty; a header line is expected, then one observation a line")
    header, rows = [name.strip() for name in lines[0][1]], lines[1:]
    if all(_is_number(name) for name in header):
        raise DataError(f"{path}: line {lines[0][0]} holds numbers, where a header with the columns' names is expected")
    coordinates = [column for column in range(len(header) - 1) if header[column] != group]
    if not coordinates:
        raise DataError(f"{path}: needs at least two columns, coordinates and then the target; it has {header}")
    numbers = _numbers(path, header, rows, [*coordinates, len(header) - 1])
    groups = {}
    if group is not None and group in header[:-1]:
        groups[group] = _as_group([fields[header.index(group)] for _, fields in rows])
    return Table(str(path), numbers[:, :-1], numbers[:, -1].copy(), groups)


def _read_log(path: Path) -> Table:
    """Labelled points along the beams of a CARMEN log, the same ones each time, which can be grouped by scan."""
    log = read_carmen(path)
    points = labelled_points(beams_of(log.scans), np.random.default_rng(0))
    return Table(str(path), points.x, points.y, {"scan": points.scan}, log.remarks(path), log.positions[points.scan])


def _numbers(path: Path, header: list[str], rows: list[tuple[int, list[str]]], columns: list[int]) -> FloatArray:
    numbers = np.empty((len(rows), len(columns)))
    for row, (line, fields) in enumerate(rows):
        if len(fields) != len(header):
            raise DataError(f"{path}: line {line} has {len(fields)} fields, but the header has {len(header)}")
        for target, column in enumerate(columns):
            place = f"{path}: line {line}, column {header[column]}"
            if not _is_number(fields[column]):
                raise DataError(f"{place}: {fields[column]!r} is not a number")
            numbers[row, target] = float(fields[column])
            if not np.isfinite(numbers[row, target]):
                raise DataError(f"{place}: {fields[column]} is not finite")
    return numbers


def _as_group(values: list[str]) -> npt.NDArray[Any]:
    """Numbers where all values are numbers, so that 10 comes after 9 and not after 1."""
    return np.array([float(value) for value in values] if all(map(_is_number, values)) else values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_rows(text: str) -> slice:
    """`A:B` or `A:B:STEP` as Python slices rows; any part may be left out."""
    parts = text.split(":")
    try:
        numbers = [int(part) if part.strip() else None for part in parts]
    except ValueError:
        numbers = []
    if not 2 <= len(numbers) <= 3 or (len(numbers) == 3 and numbers[2] is not None and numbers[2] <= 0):
        raise SettingError(f"rows are A:B or A:B:STEP, like 0:1000 or 1::2, with a positive step, not {text!r}")
    return slice(*numbers)
