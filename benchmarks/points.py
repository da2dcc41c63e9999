"""The points that benchmarks run on: the Intel Research Lab's if they are here, else a simulated building's."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.measure import ROOT, UnavailableError
from client.streams.world import explore
from service.inference.arrays import FloatArray
from service.inference.features import LatticeFeatures

LOWER, UPPER = (-20.0, -25.0), (20.0, 15.0)


@dataclass(frozen=True, eq=False)
class Points:
    """Labelled points in order, x (rows, 2) and y (rows,), and where they come from."""

    source: str
    x: FloatArray
    y: FloatArray

    @property
    def remark(self) -> str:
        """What a result says about its data."""
        return f"data: {self.source}"


def intel_file() -> Path:
    """The Intel points' file, in the folder that DELBO_DATA names."""
    path = Path(os.environ.get("DELBO_DATA", ROOT.parent / "shared" / "data")) / "intel_points.npz"
    if not path.is_file():
        raise UnavailableError("there is no intel_points.npz: let DELBO_DATA name the folder that has it")
    return path.resolve()


@cache
def building_points() -> Points:
    """The Intel points, or, where they are absent, those of a simulated building of the same size."""
    try:
        with np.load(intel_file(), allow_pickle=False) as archive:
            return Points("the Intel points", archive["xy"].astype(np.float64), archive["label"].astype(np.float64))
    except UnavailableError:
        data = explore(np.random.default_rng(0), rooms_across=10, rooms_down=8)
        return Points(
            "a simulated building, as there is no intel_points.npz where DELBO_DATA says", data.x + LOWER, data.y
        )


def intel_lattice() -> LatticeFeatures:
    """Centres 0.2 m apart all over the Intel building."""
    return LatticeFeatures(spacing=0.2, lengthscale=0.15, lower=LOWER, upper=UPPER, cutoff=1e-6)
