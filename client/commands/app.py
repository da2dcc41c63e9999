"""The command line's application, and the options that several commands have."""

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uvloop
from typer.core import TyperGroup

from client.console import out, show_fit
from client.network.document import NetworkDocument
from client.result import Result
from client.site import Site
from client.tokens import TokenFolder
from service.errors import SettingError

Outcome = TypeVar("Outcome")

_ORDER = (
    *("demo", "run", "dashboard", "up", "status", "stream", "evaluate", "predict", "map", "apply", "logs", "down"),
    *("agent", "tokens", "compose", "fit", "weights", "simulate-world"),
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
NetworkArgument = Annotated[Path, typer.Argument(help="The network, a YAML file; see examples and docs/network.md.")]
RunsOption = Annotated[Path, typer.Option("--runs", help="Local agents keep their data below this folder.")]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Remove first what local agents have stored.")]
TokensOption = Annotated[
    Path | None,
    typer.Option(
        "--tokens", envvar="DELBO_TOKENS", help="A folder of tokens, where the agents ask for them; see delbo tokens."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


RUNS = Path("runs")
_STOPPED = 128  # and the signal's number: what a shell says of a process that a signal ended


def wait_for(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Run it to its end. Whoever ends this process politely ends what it has begun, too, as Ctrl-C does."""
    heard: list[int] = []

    async def run() -> Outcome:
        running = asyncio.ensure_future(work)

        def stop(number: int) -> None:
            heard.append(number)
            running.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        return await running

    try:
        return uvloop.run(run())
    except asyncio.CancelledError:
        raise SystemExit(_STOPPED + (heard[0] if heard else signal.SIGINT)) from None


def site_of(document: NetworkDocument, runs: Path, tokens: Path | None = None) -> Site:
    """Where a network's agents are: local ones keep their data below `runs`."""
    return Site(document, runs / document.name, None if tokens is None else TokenFolder(tokens))


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
