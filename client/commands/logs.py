"""`delbo logs`: what local agents have written."""

import time
from pathlib import Path
from typing import Annotated

import typer

from client.commands.app import RUNS, NetworkArgument, RunsOption, app, site_of
from client.console import note, out
from client.network.document import read_network
from service.errors import SettingError

_LOOK_EVERY_S = 0.2


@app.command(name="logs", short_help="Print what local agents have logged.")
def logs_command(
    network: NetworkArgument,
    agent: Annotated[str | None, typer.Argument(help="Only this one.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of each to begin with.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they are written, until Ctrl-C.")] = False,
    runs: RunsOption = RUNS,
) -> None:
    """Print what local agents have logged."""
    document = read_network(network)
    cluster = site_of(document, runs).cluster
    if agent is not None and agent not in cluster.names:
        raise SettingError(f"{network} has no local agent {agent}; it has {', '.join(cluster.names) or 'none'}")
    names = list(cluster.names) if agent is None else [agent]
    read: dict[str, int] = {}
    for name in names:
        log = cluster.log(name)
        content = log.read_bytes() if log.exists() else b""
        read[name] = len(content)
        last = content.decode(errors="replace").splitlines()
        _print_lines(name, last[len(last) - lines :] if lines < len(last) else last, names)
    if not any(cluster.log(name).exists() for name in names):
        note(f"there is no log yet below {cluster.folder}: delbo up {network} starts the agents")
    while follow:
        for name in names:
            read[name] = _print_new(name, cluster.log(name), read[name], names)
        time.sleep(_LOOK_EVERY_S)


def _print_new(name: str, log: Path, begin: int, names: list[str]) -> int:
    """Print the whole lines that were written since; where they end."""
    if not log.exists():
        return 0
    with log.open("rb") as file:
        begin = file.seek(begin if begin <= log.stat().st_size else 0)  # a shorter one is a new one
        content = file.read()
    whole = content[: content.rfind(b"\n") + 1]
    _print_lines(name, whole.decode(errors="replace").splitlines(), names)
    return begin + len(whole)


def _print_lines(name: str, lines: list[str], names: list[str]) -> None:
    for line in lines:
        out.print(f"{name}  {line}" if len(names) > 1 else line, soft_wrap=True)
