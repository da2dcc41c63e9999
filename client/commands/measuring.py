"""`delbo evaluate`: how good the agents are."""

from pathlib import Path
from typing import Annotated

import typer

from client.commands.app import (
    RUNS,
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
from client.console import note
from client.coordinator import Coordinator
from client.evaluation import check_table
from client.network.plan import load_plan
from client.network.rollout import check_models
from client.result import Result
from client.retries import Patience
from client.running import measure
from client.streams.tables import read_table

_PATIENCE = Patience(silent_s=5.0)  # somebody sits and waits for the answer


@app.command(name="evaluate", short_help="Measure the agents of a running network.")
def evaluate_command(
    network: NetworkArgument,
    test: Annotated[Path | None, typer.Option(help="Test on this file instead of the network's own.")] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write plots, a report and the beliefs here.")] = None,
    runs: RunsOption = RUNS,
    tokens: TokensOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure every agent of a running network."""
    plan = load_plan(network)
    table = None if test is None else read_table(test)
    if table is not None:
        check_table(table, plan.features.dimension, plan.likelihood)
    prepare(out_dir)

    async def evaluate() -> Result:
        site = site_of(plan.document, runs, tokens)
        async with Coordinator(plan, await site.urls(), _PATIENCE, site.tokens) as coordinator:
            statuses = await coordinator.wait_for_agents()
            check_models(plan, statuses)
            return await measure(coordinator, statuses, test=table)

    present(wait_for(evaluate()), out_dir, as_json)
    if plan.test is None and table is None:
        note("no verification data: the scores are on the training rows")
