"""The command line's application, and the options that several commands have."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from client.console import out, show_fit
from client.result import Result
from service.errors import SettingError

_ORDER = (
    *("demo", "run", "up", "status", "stream", "evaluate", "predict", "apply", "logs", "down"),
    *("agent", "fit", "weights", "simulate-world"),
)


class _InOrder(TyperGroup):
    """Commands as a newcomer would want to know them, not by the alphabet."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=_ORDER.index)


app = typer.Typer(
    cls=_InOrder,
    help="A network of agents that learn one belief together.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class RuleName(StrEnum):
    """The rule that makes mixing weights out of a graph."""

    sinkhorn = "sinkhorn"
    metropolis = "metropolis"
    fastest = "fastest"
    given = "given"


TopologyOption = Annotated[
    str,
    typer.Option(help="ring, line, star, complete, grid, random, digraph, geometric, or a file: edge list or matrix."),
]
RuleOption = Annotated[
    RuleName,
    typer.Option("--mixing-weights", help="How weights come from the graph; given: the matrix file holds them."),
]
DegreeOption = Annotated[
    float | None, typer.Option(help="random, digraph: the mean number of neighbors. [default: 4]", show_default=False)
]
SeedOption = Annotated[int, typer.Option(min=0, help="Decides everything that is random.")]
AgentsOption = Annotated[int | None, typer.Option(min=1, help="The number of agents.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def prepare(out_dir: Path | None) -> None:
    """Make the folder before the work, so that no result is lost for want of it."""
    if out_dir is None:
        return
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise SettingError(f"--out {out_dir}: cannot be made a folder: {fault.strerror}") from None


def present(result: Result, out_dir: Path | None, as_json: bool) -> None:
    """Print first, then write: a plot that fails takes no number with it."""
    if as_json:
        sys.stdout.write(json.dumps(result.summary, allow_nan=False) + "\n")
    else:
        show_fit(result)
    if out_dir is not None:
        from client.report import write_report  # plotting libraries take a second to import

        files = write_report(result, out_dir)
        if not as_json:
            out.print("wrote " + " ".join(str(path) for path in files), soft_wrap=True)
