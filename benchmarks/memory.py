"""The peak memory of `delbo fit` on the Intel points, four agents on the lattice."""

from benchmarks.measure import ROOT, Figure, Result, UnavailableError, peak_memory_mb
from benchmarks.points import intel_file

MODEL = "examples/models/intel-lattice.yaml"
OPTIONS = ("--agents", "4", "--topology", "ring", "--batch", "100", "--holdout", "10", "--json")


def run() -> list[Result]:
    """The whole command, beside an interpreter that only imports what the command imports."""
    data = intel_file()
    for needed in (MODEL, "client/cli.py"):
        if not (ROOT / needed).is_file():
            raise UnavailableError(f"there is no {needed}")
    imports = peak_memory_mb(["-c", "import client.cli"])
    fit = peak_memory_mb(["-m", "client", "fit", MODEL, str(data), *OPTIONS])
    limit = Figure("peak of the fit", fit, "MB", 600, is_limit=True)
    return [Result("memory of delbo fit", "delbo fit", "its imports alone", fit, imports, "MB", figures=(limit,))]
