"""Commands for a whole network of agents: start, configure, watch, stream, run, end."""

import asyncio
import json
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import uvloop
from rich.live import Live

from client.commands.app import JsonOption, app, prepare, present
from client.console import err, note, out, program
from client.coordinator import Coordinator
from client.live import LiveView, bar_of, state_of, table_of
from client.network.document import read_network
from client.network.plan import NetworkPlan, load_plan
from client.running import Comparison, compare_plan, run_network
from client.site import Site
from client.streaming import StreamProgress
from service.errors import SettingError

Result = TypeVar("Result")

NetworkArgument = Annotated[Path, typer.Argument(help="The network, a YAML file; see examples and docs/network.md.")]
RunsOption = Annotated[Path, typer.Option("--runs", help="Local agents keep their data below this folder.")]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Remove first what local agents have stored.")]

_RUNS = Path("runs")
_LOOK_EVERY_S = 1.0


@app.command(name="run", short_help="Run a network's file to its end, or go on with it.")
def run_command(
    network: NetworkArgument,
    compare: Annotated[
        bool, typer.Option("--compare", help="Add one learner with all the data, and agents alone, simulated.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave local agents running.")] = False,
    fresh: FreshOption = False,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write plots, a report and the beliefs here.")] = None,
    runs: RunsOption = _RUNS,
    as_json: JsonOption = False,
) -> None:
    """Run a network to its end: start, configure, stream, measure.

    What was begun is gone on with: after an interruption, type the same again.
    """
    plan = load_plan(network)
    plan.observations()  # before anything is started
    _remark(plan)
    prepare(out_dir)
    result = wait_for(_run(plan, Site(plan.document, runs / plan.document.name), compare, keep, fresh))
    present(result, out_dir, as_json)
    if plan.test is None:
        note("no verification data: the scores are on the training rows")
    if keep and plan.document.local_names and not as_json:
        out.print(f"\nThe agents go on.  {program()} status {network}    {program()} down {network}", soft_wrap=True)


async def _run(plan: NetworkPlan, site: Site, compare: bool, keep: bool, fresh: bool) -> Any:
    with LiveView() as view:
        view.say("starting")
        async with site.running(fresh=fresh, keep=keep) as urls:
            comparison: Comparison | None = None
            if compare:
                view.say("simulating what to compare with")
                comparison = await asyncio.to_thread(compare_plan, plan)
            return await run_network(plan, urls, view, comparison)


@app.command(name="up", short_help="Start a network's local agents, and configure all.")
def up_command(network: NetworkArgument, fresh: FreshOption = False, runs: RunsOption = _RUNS) -> None:
    """Start a network's local agents, and configure all of its agents."""
    plan = load_plan(network)
    _remark(plan)
    site = Site(plan.document, runs / plan.document.name)

    async def up() -> dict[str, str]:
        async with site.running(fresh=fresh, keep=True) as urls:
            await _configure(plan, urls)
            return urls

    for name, url in wait_for(up()).items():
        out.print(f"{name}  {url}", soft_wrap=True)
    out.print(f"Try next:  {program()} stream {network}    and  status  and  down", soft_wrap=True)


@app.command(name="apply", short_help="Give a running network what has changed in its file.")
def apply_command(network: NetworkArgument, runs: RunsOption = _RUNS) -> None:
    """Give a running network what has changed in its file."""
    plan = load_plan(network)
    site = Site(plan.document, runs / plan.document.name)

    async def apply() -> None:
        await _configure(plan, await site.urls())

    wait_for(apply())


async def _configure(plan: NetworkPlan, urls: dict[str, str]) -> None:
    async with Coordinator(plan, urls) as coordinator:
        await coordinator.configure()
        if not coordinator.was_exact:
            note("the agents did not come to one common round: the graph was changed where each of them stood")


@app.command(name="stream", short_help="Post a network's data to its running agents.")
def stream_command(
    network: NetworkArgument,
    rate: Annotated[
        float | None, typer.Option(min=1e-6, help="Observations a second for each agent, instead of the file's.")
    ] = None,
    runs: RunsOption = _RUNS,
) -> None:
    """Post a network's data to its running agents, and end the streams."""
    plan = load_plan(network)
    _remark(plan)
    site = Site(plan.document, runs / plan.document.name)

    async def stream() -> StreamProgress:
        progress = StreamProgress()
        async with Coordinator(plan, await site.urls()) as coordinator:
            await coordinator.check()
            await coordinator.configure()
            with _shown(progress):
                await coordinator.stream(progress, rate)
        return progress

    progress = wait_for(stream())
    before = f", {progress.resumed:,} of them before" if progress.resumed else ""
    out.print(f"{sum(progress.posted.values()):,} observations are with their agents{before}")


def _shown(progress: StreamProgress) -> Live:
    """A bar that moves with every post."""
    live = Live(console=err, transient=True, refresh_per_second=8)
    progress.changed = lambda: live.update(bar_of(progress))
    return live


@app.command(name="status", short_help="Show how a network's agents are.")
def status_command(
    network: NetworkArgument,
    once: Annotated[bool, typer.Option("--once", help="Show it once, and do not stay.")] = False,
    runs: RunsOption = _RUNS,
    as_json: JsonOption = False,
) -> None:
    """Show how a network's agents are, until you press Ctrl-C."""
    plan = load_plan(network)
    site = Site(plan.document, runs / plan.document.name)
    if as_json:
        picture = wait_for(site.picture(plan))
        rows = zip(picture.names, picture.statuses, picture.scores, picture.consensus_errors, strict=True)
        sys.stdout.write(json.dumps([_row(*row) for row in rows], allow_nan=False) + "\n")
    elif once or not out.is_terminal:
        out.print(table_of(wait_for(site.picture(plan))))
    else:
        wait_for(_watch(site, plan))


def _row(name: str, status: Any, score: Any, consensus_error: float | None) -> dict[str, Any]:
    if status is None:
        return {"name": name, "answers": False}
    counts = status.observations
    return {
        "name": name,
        "answers": True,
        "epoch": status.epoch,
        "round": status.round,
        "phase": status.phase,
        "state": state_of(status),
        "observations": counts.applied,
        "backlog": counts.backlog,
        "neighbors": {neighbor.name: neighbor.state for neighbor in status.neighbors},
        "consensus_error": consensus_error,
        **(score or {}),
    }


async def _watch(site: Site, plan: NetworkPlan) -> None:
    with Live(console=out, auto_refresh=False) as live:
        while True:
            live.update(table_of(await site.picture(plan)), refresh=True)
            await asyncio.sleep(_LOOK_EVERY_S)


@app.command(name="logs", short_help="Print what local agents have logged.")
def logs_command(
    network: NetworkArgument,
    agent: Annotated[str | None, typer.Argument(help="Only this one.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of each to begin with.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they are written, until Ctrl-C.")] = False,
    runs: RunsOption = _RUNS,
) -> None:
    """Print what local agents have logged."""
    document = read_network(network)
    cluster = Site(document, runs / document.name).cluster
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
    while follow:
        for name in names:
            read[name] += _print_new(name, cluster.log(name), read[name], names)
        time.sleep(0.2)


def _print_new(name: str, log: Path, begin: int, names: list[str]) -> int:
    """What was written since; the number of bytes of whole lines."""
    if not log.exists():
        return 0
    with log.open("rb") as file:
        file.seek(begin)
        content = file.read()
    whole = content[: content.rfind(b"\n") + 1]
    _print_lines(name, whole.decode(errors="replace").splitlines(), names)
    return len(whole)


def _print_lines(name: str, lines: list[str], names: list[str]) -> None:
    for line in lines:
        out.print(f"{name}  {line}" if len(names) > 1 else line, soft_wrap=True)


@app.command(name="down", short_help="End a network's local agents; what they know stays.")
def down_command(
    network: NetworkArgument,
    fresh: Annotated[bool, typer.Option("--fresh", help="Also remove what they have stored.")] = False,
    runs: RunsOption = _RUNS,
) -> None:
    """End a network's local agents; what they know stays."""
    document = read_network(network)
    cluster = Site(document, runs / document.name).cluster
    ended = wait_for(cluster.down())
    if fresh:
        cluster.forget()
    out.print(f"ended {', '.join(ended)}" if ended else "none was running")


def wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    """Run it to its end."""
    return uvloop.run(work)


def _remark(plan: NetworkPlan) -> None:
    for table in (plan.train, plan.test):
        for remark in () if table is None else table.remarks:
            note(remark)
