"""`delbo predict` and `delbo map`: what one agent knows."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer
from pydantic import ValidationError

from client.agent_client import AgentClient
from client.answers import MapFile
from client.commands.app import RUNS, RunsOption, TokensOption, app, site_of, wait_for
from client.console import note, out
from client.network.document import read_network
from client.retries import Patience
from client.streams.points import read_points
from client.tokens import TokenFolder
from service.errors import AgentRefusedError, NoModelError, SettingError
from service.inference.arrays import FloatArray
from service.wire.answers import Predictions
from service.wire.document import sentence
from service.wire.map_query import MapQuery
from service.wire.points import MOST_POINTS

_PATIENCE = Patience(silent_s=5.0)  # somebody sits and waits for the answer
_FORMATS = {".png": "png", ".npz": "npz", ".zip": "nav2"}

AgentArgument = Annotated[str, typer.Argument(help="An agent's url, or a network's YAML file.")]
NameOption = Annotated[str | None, typer.Option("--agent", help="Which agent of the network; without it, the first.")]


@app.command(name="predict", short_help="Ask an agent what it expects at points.")
def predict_command(
    agent: AgentArgument,
    points: Annotated[Path, typer.Argument(help="Points: .npz (xy or x), or .csv with the coordinates first.")],
    name: NameOption = None,
    file: Annotated[Path | None, typer.Option("--out", help="Write a .csv here instead of printing it.")] = None,
    runs: RunsOption = RUNS,
    tokens: TokensOption = None,
) -> None:
    """Let an agent say what it expects at points: CSV with probability or mean, and how sure it is."""
    client = _client(agent, name, runs, tokens)
    x, answers = wait_for(_predict(client, points))
    if len({(answer.epoch, answer.round) for answer in answers}) > 1:
        note(f"the agent went on meanwhile: these are of rounds {answers[0].round} to {answers[-1].round}")
    header, columns = _columns(x, answers)
    if file is None:
        _write(sys.stdout, header, columns)
        return
    try:
        with file.open("w", encoding="utf-8", newline="") as stream:
            _write(stream, header, columns)
    except OSError as fault:
        raise SettingError(f"--out {file}: cannot be written: {fault.strerror}") from None
    out.print(f"wrote {file}", soft_wrap=True)


@app.command(name="map", short_help="Get an agent's map: a picture, numbers, or for navigation.")
def map_command(
    agent: AgentArgument,
    file: Annotated[Path, typer.Option("--out", help="Where to: .png a picture, .npz numbers, .zip for Nav2.")],
    name: NameOption = None,
    layer: Annotated[
        str | None,
        typer.Option(help="probability, mean, variance, entropy, latent_mean or latent_variance; .npz: all of them."),
    ] = None,
    bounds: Annotated[str | None, typer.Option(help="left,bottom,right,top. [default: all of the model]")] = None,
    resolution: Annotated[float | None, typer.Option(help="The side of a pixel. [default: about 300 pixels]")] = None,
    mode: Annotated[str, typer.Option(help="Nav2: trinary, scale or raw.")] = "trinary",
    occupied_thresh: Annotated[float, typer.Option(help="Nav2: above this probability a cell is occupied.")] = 0.65,
    free_thresh: Annotated[float, typer.Option(help="Nav2: below this probability a cell is free.")] = 0.25,
    runs: RunsOption = RUNS,
    tokens: TokensOption = None,
) -> None:
    """Get the map that an agent has now, of a model with two coordinates: a picture, numbers, or for navigation."""
    if file.suffix not in _FORMATS:
        raise SettingError(f"--out {file}: a map is a .png, an .npz, or a .zip for Nav2")
    asked: dict[str, Any] = {"layer": layer, "bounds": bounds, "resolution": resolution}
    if file.suffix == ".zip":
        asked |= {"mode": mode, "occupied_thresh": occupied_thresh, "free_thresh": free_thresh}
    query = _map_query({"format": _FORMATS[file.suffix], **asked})
    found = wait_for(_map(_client(agent, name, runs, tokens), query))
    try:
        file.write_bytes(found.content)
    except OSError as fault:
        raise SettingError(f"--out {file}: cannot be written: {fault.strerror}") from None
    out.print(f"wrote {file}: round {found.round} of epoch {found.epoch}", soft_wrap=True)


def _client(agent: str, name: str | None, runs: Path, tokens: Path | None) -> AgentClient:
    url = agent if "://" in agent else _url_of(Path(agent), name, runs, tokens)
    return AgentClient(url, _PATIENCE, tokens=None if tokens is None else TokenFolder(tokens))


def _url_of(network: Path, name: str | None, runs: Path, tokens: Path | None) -> str:
    document = read_network(network)
    names = [one.name for one in document.agents]
    chosen = names[0] if name is None else name
    if chosen not in names:
        raise SettingError(f"{network} has no agent {chosen}; it has {', '.join(names)}")
    return wait_for(site_of(document, runs, tokens).url(chosen))


async def _predict(client: AgentClient, path: Path) -> tuple[FloatArray, list[Predictions]]:
    async with client as agent:
        document = await agent.model()
        if document is None:
            raise NoModelError(f"{agent.url} has no model yet: give it one with delbo up, or as docs/agent.md tells")
        x = read_points(path, document.spec.build_features().dimension)
        return x, await _predict_in_parts(agent, x)


async def _predict_in_parts(agent: AgentClient, x: FloatArray) -> list[Predictions]:
    """As many points at a time as the agent takes: of a large model of the full family it takes fewer."""
    size, begin, answers = MOST_POINTS, 0, []
    while begin < len(x):
        try:
            answers.append(await agent.predict(x[begin : begin + size]))
            begin += size
        except AgentRefusedError as refused:
            if refused.slug != "too-many-points" or size == 1:
                raise
            size = max(size // 2, 1)
    return answers


async def _map(client: AgentClient, query: MapQuery) -> MapFile:
    async with client as agent:
        found = await agent.map(query)
        assert found is not None, "there was no other map to be the same as"  # noqa: S101
        return found


def _map_query(asked: dict[str, Any]) -> MapQuery:
    try:
        return MapQuery(**{name: value for name, value in asked.items() if value is not None})
    except ValidationError as fault:
        raise SettingError(f"--{sentence(fault).replace('_', '-')}") from None


def _columns(x: FloatArray, answers: list[Predictions]) -> tuple[list[str], FloatArray]:
    """The coordinates, then what is expected and how sure that is."""

    def whole(name: str) -> Any:
        return np.concatenate([getattr(answer, name) for answer in answers])

    named: list[tuple[str, Any]] = [("x", x)]
    if answers[0].probability is not None:
        named += [(name, whole(name)) for name in ("probability", "entropy", "latent_variance")]
    else:
        variance = whole("variance")
        named += [("mean", whole("mean"))]
        named += [("variance", variance if variance.ndim == 1 else np.diagonal(variance, axis1=1, axis2=2))]
    blocks = [(name, np.asarray(values).reshape(len(x), -1)) for name, values in named]
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
