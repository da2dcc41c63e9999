"""Files of points without targets: where somebody wants a prediction."""

import csv
import gzip
import zipfile
import zlib
from pathlib import Path

import numpy as np

from service.errors import DataError
from service.inference.arrays import FloatArray, as_points

_NAMES = ("xy", "x")


def read_points(path: Path, dimension: int) -> FloatArray:
    """Points (rows, dimension): the array xy or x of a .npz, or the first columns of a .csv with a header."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    name = path.name.lower()
    try:
        if name.endswith(".npz"):
            return as_points(_from_npz(path), dimension)
        if name.endswith((".csv", ".csv.gz")):
            return as_points(_from_csv(path, dimension), dimension)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, csv.Error, ValueError) as fault:
        raise DataError(f"{path}: cannot be read: {fault}") from None
    except DataError as fault:
        raise DataError(f"{path}: {fault}") from None
    raise DataError(f"{path}: files of points end in .npz, .csv or .csv.gz")


def _from_npz(path: Path) -> FloatArray:
    with np.load(path, allow_pickle=False) as archive:
        found = next((name for name in _NAMES if name in archive.files), None)
        if found is None:
            raise DataError(f"needs an array xy or x; it has {', '.join(archive.files) or 'none'}")
        points = np.asarray(archive[found], float)
    return points[:, None] if points.ndim == 1 else points


def _from_csv(path: Path, dimension: int) -> FloatArray:
    content = gzip.decompress(path.read_bytes()) if path.name.lower().endswith(".gz") else path.read_bytes()
    rows = [fields for fields in csv.reader(content.decode().splitlines()) if fields]
    if len(rows) < 2:
        raise DataError("a header line is expected, then one point a line")
    short = [number for number, fields in enumerate(rows, 1) if len(fields) < dimension]
    if short:
        raise DataError(f"line {short[0]} has fewer than {dimension} columns, as many as the model takes")
    return np.array([[float(field) for field in fields[:dimension]] for fields in rows[1:]])
