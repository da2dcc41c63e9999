"""Commands for a whole network of agents: start, configure, watch, stream, run, end."""

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live

from client.cluster import Cluster
from client.commands.app import (
    RUNS,
    FreshOption,
    JsonOption,
    NetworkArgument,
    RunsOption,
    TokensOption,
    app,
    prepare,
    present,
    site_of,
    wait_for,
)
from client.console import INEXACT, err, note, out, program
from client.coordinator import Coordinator
from client.dashboard.background import end_dashboards
from client.live import REFUSES_US, LiveView, bar_of, state_of, table_of
from client.network.document import read_network
from client.network.plan import NetworkPlan, load_plan
from client.running import Comparison, compare_plan, run_network
from client.site import Site
from client.streaming import StreamProgress

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
    runs: RunsOption = RUNS,
    tokens: TokensOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a network to its end: start, configure, stream, measure.

    What was begun is gone on with: after an interruption, type the same again.
    """
    plan = load_plan(network)
    plan.observations()  # before anything is started
    _remark(plan)
    prepare(out_dir)
    result = wait_for(_run(plan, site_of(plan.document, runs, tokens), compare, keep, fresh))
    present(result, out_dir, as_json)
    if plan.test is None:
        note("no verification data: the scores are on the training rows")
    if keep and plan.document.local_names and not as_json:
        where = f"{network}{_where(runs, tokens)}"
        out.print(f"\nThe agents go on.  {program()} status {where}    {program()} down {where}", soft_wrap=True)


async def _run(plan: NetworkPlan, site: Site, compare: bool, keep: bool, fresh: bool) -> Any:
    with LiveView() as view:
        view.say("starting")
        async with site.running(fresh=fresh, keep=keep) as urls:
            comparison: Comparison | None = None
            if compare:
                view.say("simulating what to compare with")
                comparison = await asyncio.to_thread(compare_plan, plan)
            return await run_network(plan, urls, view, comparison, keep, site.tokens)


@app.command(name="up", short_help="Start a network's local agents, and configure all.")
def up_command(
    network: NetworkArgument, fresh: FreshOption = False, runs: RunsOption = RUNS, tokens: TokensOption = None
) -> None:
    """Start a network's local agents, and configure all of its agents."""
    plan = load_plan(network)
    _remark(plan)
    site = site_of(plan.document, runs, tokens)

    async def up() -> dict[str, str]:
        async with site.running(fresh=fresh, keep=True) as urls:
            await _configure(plan, urls, site)
            return urls

    for name, url in wait_for(up()).items():
        out.print(f"{name}  {url}", soft_wrap=True)
    out.print(
        f"Try next:  {program()} stream {network}{_where(runs, tokens)}    and  status  and  down", soft_wrap=True
    )


@app.command(name="apply", short_help="Give a running network what has changed in its file.")
def apply_command(network: NetworkArgument, runs: RunsOption = RUNS, tokens: TokensOption = None) -> None:
    """Give a running network what has changed in its file."""
    plan = load_plan(network)
    site = site_of(plan.document, runs, tokens)

    async def apply() -> None:
        await _configure(plan, await site.urls(), site)

    wait_for(apply())
    out.print("the agents have what the file says")


async def _configure(plan: NetworkPlan, urls: dict[str, str], site: Site) -> None:
    async with Coordinator(plan, urls, tokens=site.tokens) as coordinator:
        await coordinator.configure()
        if not coordinator.was_exact:
            note(INEXACT)


@app.command(name="stream", short_help="Post a network's data to its running agents.")
def stream_command(
    network: NetworkArgument,
    rate: Annotated[
        float | None, typer.Option(min=1e-6, help="Observations a second for each agent, instead of the file's.")
    ] = None,
    runs: RunsOption = RUNS,
    tokens: TokensOption = None,
) -> None:
    """Post a network's data to its running agents, and end the streams."""
    plan = load_plan(network)
    _remark(plan)
    site = site_of(plan.document, runs, tokens)

    async def stream() -> StreamProgress:
        progress = StreamProgress()
        async with Coordinator(plan, await site.urls(), tokens=site.tokens) as coordinator:
            await coordinator.check()
            await coordinator.configure()
            if not coordinator.was_exact:
                note(INEXACT)
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
    runs: RunsOption = RUNS,
    tokens: TokensOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how a network's agents are, until you press Ctrl-C."""
    plan = load_plan(network)
    site = site_of(plan.document, runs, tokens)
    if as_json:
        picture = wait_for(site.picture(plan))
        rows = zip(picture.names, picture.statuses, picture.scores, picture.consensus_errors, strict=True)
        told = [_refusing(row[0]) if row[0] in picture.refusing else _row(*row) for row in rows]
        sys.stdout.write(json.dumps(told, allow_nan=False) + "\n")
    elif once or not out.is_terminal:
        out.print(table_of(wait_for(site.picture(plan))))
    else:
        wait_for(_watch(site, plan))


def _refusing(name: str) -> dict[str, Any]:
    return {"name": name, "answers": True, "state": REFUSES_US}


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


@app.command(name="down", short_help="End a network's local agents; what they know stays.")
def down_command(
    network: NetworkArgument,
    fresh: Annotated[bool, typer.Option("--fresh", help="Also remove what they have stored.")] = False,
    runs: RunsOption = RUNS,
    tokens: TokensOption = None,
) -> None:
    """End a network's local agents; what they know stays."""
    document = read_network(network)
    cluster = site_of(document, runs, tokens).cluster
    ended = wait_for(_end(cluster, network))
    if fresh:
        cluster.forget()
    out.print(f"ended {', '.join(ended)}" if ended else "none was running")


async def _end(cluster: Cluster, network: Path) -> list[str]:
    with_dashboard = await end_dashboards(network)
    return [*await cluster.down_all(), *(["the dashboard"] if with_dashboard else [])]


def _where(runs: Path, tokens: Path | None) -> str:
    given = {"--runs": None if runs == RUNS else runs, "--tokens": tokens}
    return "".join(f" {option} {shlex.quote(str(path))}" for option, path in given.items() if path is not None)


def _remark(plan: NetworkPlan) -> None:
    for table in (plan.train, plan.test):
        for remark in () if table is None else table.remarks:
            note(remark)
