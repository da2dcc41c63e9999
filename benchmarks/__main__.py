"""`python -m benchmarks [NAME ...] [--out FILE]`: run, print a table, write JSON.

A missed target is shown and changes nothing else; only a benchmark that crashes makes the exit code 1.
"""

import argparse
import json
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import (
    agent_ingest,
    agent_process,
    agent_rounds,
    asking,
    container,
    dashboard,
    diagonal,
    full,
    lattice,
    memory,
    network,
    network_stream,
    raster,
)
from benchmarks.machine import commit, machine
from benchmarks.measure import Result, UnavailableError

BENCHMARKS: dict[str, Callable[[], list[Result]]] = {
    "diagonal": diagonal.run,
    "lattice": lattice.run,
    "full": full.run,
    "raster": raster.run,
    "memory": memory.run,
    "network": network.run,
    "agent-rounds": agent_rounds.run,
    "agent-ingest": agent_ingest.run,
    "agent-process": agent_process.run,
    "asking": asking.run,
    "network-stream": network_stream.run,
    "container": container.run,
    "dashboard": dashboard.run,
}


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ratios, measured in one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run, of {', '.join(BENCHMARKS)}; else all")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the results as JSON")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}: choose from {', '.join(BENCHMARKS)}")
    console = Console(width=None if sys.stdout.isatty() else 140)
    document: dict[str, Any] = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
    }
    results, left_out, crashed = _run(arguments.names or list(BENCHMARKS), console)
    console.print(_table(results))
    for remark in dict.fromkeys(result.remark for result in results if result.remark):
        console.print(remark, markup=False)
    for name, reason in {**left_out, **crashed}.items():
        console.print(f"{name}: {'left out' if name in left_out else 'crashed'}: {reason}", markup=False)
    if arguments.out:
        document |= {"results": [result.document() for result in results], "left_out": left_out, "crashed": crashed}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(document, indent=2) + "\n")
        console.print(f"written to {arguments.out}", markup=False)
    return 1 if crashed else 0


def _run(names: list[str], console: Console) -> tuple[list[Result], dict[str, str], dict[str, str]]:
    """The results, the reasons of those left out, and the errors of those that crashed."""
    results: list[Result] = []
    left_out: dict[str, str] = {}
    crashed: dict[str, str] = {}
    for name in names:
        try:
            with console.status(f"measuring: {name}"):
                results += BENCHMARKS[name]()
        except UnavailableError as reason:
            left_out[name] = str(reason)
        except Exception as error:  # the others still run; the exit code says that one did not
            traceback.print_exc()
            crashed[name] = f"{type(error).__name__}: {error}"
    return results, left_out, crashed


def _table(results: list[Result]) -> Table:
    table = Table(title="ratio: how many times as much the other takes", title_justify="left", pad_edge=False)
    for heading in ("benchmark", "ours", "", "the other", ""):
        table.add_column(heading, justify="right" if heading in ("ours", "the other") else "left")
    for heading in ("ratio", "target", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        target = "" if result.target is None else f">= {result.target:g}"
        ours, other = (_amount(amount, result.unit) for amount in (result.ours_amount, result.other_amount))
        verdict = "" if result.target is None else _verdict(result.ratio >= result.target)
        table.add_row(
            result.name, ours, result.ours, other, result.other, f"[bold]{_ratio(result.ratio)}[/bold]", target, verdict
        )
        for figure in result.figures:
            limit = f"{'<' if figure.is_limit else '>='} {figure.target:,.0f}"
            value = f"{figure.value:,.0f} {figure.unit}"
            table.add_row(f"  {figure.name}", "", value, "", "", "", limit, _verdict(figure.is_met))
    return table


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "[bold red]missed[/bold red]"


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}" if ratio < 1 else f"{ratio:.1f}"


def _amount(amount: float, unit: str) -> str:
    if not unit.startswith("s "):
        return f"{amount:.0f} {unit}"
    scale, name = next((s, n) for s, n in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")) if amount >= s or n == "us")
    return f"{amount / scale:.3g} {name}"


if __name__ == "__main__":
    sys.exit(main())
