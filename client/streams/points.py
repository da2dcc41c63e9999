"""Files of points without targets: where somebody wants a prediction."""

import csv
import gzip
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from service.errors import DataError
from service.inference.arrays import FloatArray, as_points

_NAMES = ("xy", "x")


def read_points(path: Path, dimension: int) -> FloatArray:
    """Points (rows, dimension): the array xy or x of a .npz, or the first columns of a .csv with a header."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    name = path.name.lower()
    if not name.endswith((".npz", ".csv", ".csv.gz")):
        raise DataError(f"{path}: files of points end in .npz, .csv or .csv.gz")
    try:
        points = as_points(_from_npz(path) if name.endswith(".npz") else _from_csv(path, dimension), dimension)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, csv.Error, ValueError) as fault:
        raise DataError(f"{path}: cannot be read: {fault}") from None
    except DataError as fault:
        raise DataError(f"{path}: {fault}") from None
    if len(points) == 0:
        raise DataError(f"{path}: holds no points")
    return points


def _from_npz(path: Path) -> Any:
    with path.open("rb") as file:  # which numpy would leave open where it is no archive
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError("is a single array, not an archive of several: write it with numpy.savez")
        found = next((name for name in _NAMES if name in archive.files), None)
        if found is None:
            raise DataError(f"needs an array xy or x; it has {', '.join(archive.files) or 'none'}")
        points = archive[found]
    if points.dtype.names is not None:
        raise DataError(f"{found} must be numbers, not records")
    return points[:, None] if points.ndim == 1 else points


def _from_csv(path: Path, dimension: int) -> FloatArray:
    content = gzip.decompress(path.read_bytes()) if path.name.lower().endswith(".gz") else path.read_bytes()
    reader = csv.reader(content.decode().splitlines())
    lines = [(reader.line_num, fields) for fields in reader if fields]
    if len(lines) < 2:
        raise DataError("a header line is expected, then one point a line")
    for line, fields in lines:
        if len(fields) < dimension:
            raise DataError(f"line {line} has fewer than {dimension} columns, as many as the model takes")
    if all(_is_number(field) for field in lines[0][1]):
        raise DataError(f"line {lines[0][0]} holds numbers, where a header with the columns' names is expected")
    return np.array([[_number(line, field) for field in fields[:dimension]] for line, fields in lines[1:]])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(line: int, text: str) -> float:
    if not _is_number(text):
        raise DataError(f"line {line}: {text!r} is not a number")
    return float(text)
