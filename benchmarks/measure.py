"""How alternatives are measured, and what comes of it."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# A process keeps the peak of the one that started it until its own is higher, so a small one starts what is measured.
_MEASURE_CHILD = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(status)
"""


class UnavailableError(Exception):
    """Something that a benchmark needs is not here: it is left out, and says why."""


@dataclass(frozen=True)
class Work:
    """An alternative: what to call, and how many units (observations, rounds) one call gets through."""

    name: str
    run: Callable[[], object]
    units: int = 1


@dataclass(frozen=True)
class Figure:
    """A number beside the ratio, and the target that it should reach, or stay below."""

    name: str
    value: float
    unit: str
    target: float
    is_limit: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the value is on the right side of its target."""
        return self.value < self.target if self.is_limit else self.value >= self.target


@dataclass(frozen=True)
class Result:
    """Two alternatives side by side: what each takes per unit, and how many times more the other takes."""

    name: str
    ours: str
    other: str
    ours_amount: float
    other_amount: float
    unit: str
    target: float | None = None
    figures: tuple[Figure, ...] = ()
    remark: str = ""

    @property
    def ratio(self) -> float:
        """The other's amount over ours: above 1, ours is better."""
        return self.other_amount / self.ours_amount

    @property
    def is_met(self) -> bool | None:
        """Whether the ratio and all figures reach their targets; None where there is none."""
        verdicts = [figure.is_met for figure in self.figures]
        if self.target is not None:
            verdicts.append(self.ratio >= self.target)
        return all(verdicts) if verdicts else None

    def document(self) -> dict[str, Any]:
        """The result as it is written to a file."""
        return {**asdict(self), "ratio": self.ratio, "is_met": self.is_met}


def compare(
    name: str,
    ours: Work,
    other: Work,
    unit: str,
    target: float | None = None,
    repetitions: int = 7,
    remark: str = "",
) -> Result:
    """Both alternatives in turn, so that a busy moment hits both; the best CPU time of each, per unit."""
    best = [float("inf"), float("inf")]
    ours.run()  # what is computed once and kept is not what is compared
    for _ in range(repetitions):
        for which, work in enumerate((ours, other)):
            best[which] = min(best[which], _cpu_seconds(work.run) / work.units)
    return Result(name, ours.name, other.name, best[0], best[1], f"s per {unit}", target, remark=remark)


def peak_memory_mb(command: Sequence[str]) -> float:
    """The most memory that a command holds at once, run in the repository's root with this interpreter."""
    run = subprocess.run(
        [sys.executable, "-c", _MEASURE_CHILD, sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if run.returncode != 0:
        raise RuntimeError(f"python {' '.join(command)} failed:\n{run.stderr.strip()}")
    return float(run.stdout) / 1e6


def _cpu_seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began
