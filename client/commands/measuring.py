"""`delbo evaluate` and `delbo predict`: what agents know."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer

from client.agent_client import AgentClient
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
from client.console import note, out
from client.coordinator import Coordinator
from client.evaluation import check_table
from client.network.document import read_network
from client.network.plan import load_plan
from client.network.rollout import check_models
from client.result import Result
from client.retries import Patience
from client.running import measure
from client.streams.points import read_points
from client.streams.tables import read_table
from client.tokens import TokenFolder
from service.errors import NoModelError, SettingError
from service.inference.arrays import FloatArray
from service.inference.prediction import Prediction, predict
from service.wire.parameters import ParameterCodec

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


@app.command(name="predict", short_help="Ask an agent what it expects at points.")
def predict_command(
    agent: Annotated[str, typer.Argument(help="An agent's url, or a network's YAML file.")],
    points: Annotated[Path, typer.Argument(help="Points: .npz (xy or x), or .csv with the coordinates first.")],
    name: Annotated[
        str | None, typer.Option("--agent", help="Which agent of the network; without it, the first.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--out", help="Write a .csv here instead of printing it.")] = None,
    runs: RunsOption = RUNS,
    tokens: TokensOption = None,
) -> None:
    """Let an agent say what it expects at points: CSV with probability or mean, and how sure it is."""
    url = agent if "://" in agent else _url_of(Path(agent), name, runs, tokens)
    x, prediction = wait_for(_predict(url, points, None if tokens is None else TokenFolder(tokens)))
    header, columns = _columns(x, prediction)
    if file is None:
        _write(sys.stdout, header, columns)
        return
    try:
        with file.open("w", encoding="utf-8", newline="") as stream:
            _write(stream, header, columns)
    except OSError as fault:
        raise SettingError(f"--out {file}: cannot be written: {fault.strerror}") from None
    out.print(f"wrote {file}", soft_wrap=True)


def _url_of(network: Path, name: str | None, runs: Path, tokens: Path | None) -> str:
    document = read_network(network)
    names = [one.name for one in document.agents]
    chosen = names[0] if name is None else name
    if chosen not in names:
        raise SettingError(f"{network} has no agent {chosen}; it has {', '.join(names)}")
    return wait_for(site_of(document, runs, tokens).url(chosen))


async def _predict(url: str, path: Path, tokens: TokenFolder | None) -> tuple[FloatArray, Prediction]:
    async with AgentClient(url, _PATIENCE, tokens=tokens) as agent:
        document = await agent.model()
        if document is None:
            raise NoModelError(f"{url} has no model yet: give it one with delbo up, or as docs/agent.md tells")
        features = document.spec.build_features()
        x = read_points(path, features.dimension)
        prior = document.spec.build_prior(features)
        message = await agent.parameters(ParameterCodec(document.spec.model_id, prior))
    belief = prior.plus(message.parts[0].evidence)
    return x, predict(belief, features.activate(x), document.build_likelihood())


def _columns(x: FloatArray, prediction: Prediction) -> tuple[list[str], FloatArray]:
    """The coordinates, then what is expected and how sure that is."""
    rows = len(x)
    named: list[tuple[str, Any]] = [("x", x)]
    if prediction.likelihood.is_binary:
        named += [("probability", prediction.mean), ("entropy", prediction.entropy)]
        named += [("latent_variance", prediction.latent_variance)]
    elif prediction.likelihood.is_vector:
        named += [("mean", prediction.mean), ("variance", np.diagonal(prediction.variance, axis1=1, axis2=2))]
    else:
        named += [("mean", prediction.mean), ("variance", prediction.variance)]
    blocks = [(name, np.asarray(values).reshape(rows, -1)) for name, values in named]
    header = [
        f"{name}{column + 1}" if block.shape[1] > 1 or name == "x" else name
        for name, block in blocks
        for column in range(block.shape[1])
    ]
    return header, np.hstack([block for _, block in blocks])


def _write(stream: TextIO, header: list[str], columns: FloatArray) -> None:
    writer = csv.writer(stream)
    writer.writerow(header)
    writer.writerows([repr(value) for value in row] for row in columns.tolist())
