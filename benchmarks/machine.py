"""What a run was made with: the commit, the machine, and the libraries that do the arithmetic."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT

LIBRARIES = ("numpy", "scipy", "numba", "llvmlite")


def commit() -> dict[str, Any]:
    """The git commit, and whether files differ from it; nothing outside of a repository."""
    try:
        changes = _git("status", "--porcelain")
        return {"id": _git("rev-parse", "--verify", "HEAD"), "is_clean": not changes}
    except (OSError, subprocess.CalledProcessError):
        return {"id": None, "is_clean": None}


def machine() -> dict[str, Any]:
    """Processor, memory, load and versions."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_average": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "blas_threads": os.environ["OPENBLAS_NUM_THREADS"],
        **{library: version(library) for library in LIBRARIES},
    }


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
