"""What the command line shows: tables, a progress bar on a terminal, and nothing but plain text in a pipe."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable

from client.result import Result

_PIPE_WIDTH = 120  # where no terminal says how wide it is

# No markup, emoji or highlighting: what is printed holds file names and numbers, to be shown as they are.
_PLAIN: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
out = Console(**_PLAIN, width=None if Console().is_terminal else _PIPE_WIDTH)
err = Console(**_PLAIN, stderr=True)

# What a column is called, in two lines so that the table fits 80 characters, and how its numbers are written.
_COLUMNS = {
    "observations": ("observa-\ntions", "{:,}"),
    "accuracy": ("accuracy", "{:.2%}"),
    "balanced_accuracy": ("balanced\naccuracy", "{:.2%}"),
    "cross_entropy": ("cross\nentropy", "{:.4f}"),
    "calibration_error": ("calib.\nerror", "{:.4f}"),
    "rmse": ("rmse", "{:.4g}"),
    "log_density": ("log\ndensity", "{:.4g}"),
    "consensus_error": ("consensus\nerror", "{:.3g}"),
    "consensus_divergence": ("consensus\ndiverg.", "{:.3g}"),
}
_MOST_ROWS = 20

INEXACT = (
    "the agents did not come to one common round, as one of them was not found: the graph was changed where each of "
    "them stood, so that the newest evidence of some counts a little more"
)


def program() -> str:
    """How to type this program's name here: a newcomer has it in .venv/bin only."""
    beside = Path(sys.executable).parent / "delbo"
    if shutil.which("delbo") or not beside.exists():
        return "delbo"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def note(message: str) -> None:
    """Something that the user should know, apart from the results."""
    err.print(f"note: {message}", soft_wrap=True)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """A function (what, done, of) that moves a bar on the terminal; None where nobody watches."""
    if not err.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("starting")

        def show(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)

        yield show


def show_fit(result: Result) -> None:
    """The final table, and what needs saying about it."""
    summary = result.summary
    together = "together" if len(summary["agents"]) > 1 else ""
    rows = [(agent, agent["name"], together) for agent in summary["agents"][:_MOST_ROWS]]
    rows += [(summary["centralized"], "one agent", "all data")] if "centralized" in summary else []
    rows += [(agent, agent["name"], "alone") for agent in summary.get("isolated", [])[:_MOST_ROWS]]
    columns = [column for column in _COLUMNS if column in summary["agents"][0]]
    table = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("agent")
    table.add_column("")
    for column in columns:
        table.add_column(_COLUMNS[column][0], justify="right", vertical="bottom")
    for agent, name, how in rows:
        table.add_row(name, how, *(_cell(agent, column) for column in columns))
    out.print(table)
    hidden = len(summary["agents"]) - _MOST_ROWS
    if hidden > 0:
        out.print(f"... and {hidden} more agents")
    out.print(
        f"{summary['features']:,} features, {summary['rounds']:,} rounds{took(summary)}; "
        f"{summary['test']['rows']:,} test rows; spectral gap {summary['spectral_gap']:.4g}"
    )
    _show_uncovered(summary)


def took(summary: dict[str, Any]) -> str:
    """How long the learning took, where that was measured."""
    return f", {summary['seconds']:.1f} s" if "seconds" in summary else ""


def _cell(agent: dict[str, Any], column: str) -> str:
    return _COLUMNS[column][1].format(agent[column]) if column in agent else ""


def _show_uncovered(summary: dict[str, Any]) -> None:
    trained = sum(agent["uncovered"] for agent in summary["agents"])
    total = sum(agent["observations"] for agent in summary["agents"])
    if trained:
        note(f"no centre reaches {trained:,} of {total:,} training observations; they were not applied")
    if summary["test"]["uncovered"]:
        rows, missed = summary["test"]["rows"], summary["test"]["uncovered"]
        note(f"no centre reaches {missed:,} of {rows:,} test points; there the model knows only its constant")
