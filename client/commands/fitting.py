"""`delbo fit` and `delbo weights`: a network in one process, and what a topology is worth."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from client import mixing_weights
from client.commands.app import (
    AgentsOption,
    DegreeOption,
    JsonOption,
    RuleName,
    RuleOption,
    SeedOption,
    TopologyOption,
    app,
    prepare,
    present,
)
from client.comparison import FitOptions
from client.console import note, out, progress_bar
from client.fit import fit
from client.model_file import read_model, resolve_model
from client.randomness import generator_for
from client.streams.partitions import group_of, lost_groups, name_groups, partition_rows
from client.streams.splits import split_table
from client.streams.tables import Table, read_table
from client.topology import Topology
from client.topology_choice import KINDS, from_file, read_positions, topology_by_name
from service.errors import SettingError, TopologyError


class OrderName(StrEnum):
    """The order in which an agent takes its observations."""

    stream = "stream"
    shuffled = "shuffled"
    replay = "replay"


@app.command(name="fit", short_help="Learn from a file, with simulated agents.")
def fit_command(
    model: Annotated[Path, typer.Argument(help="The model, a YAML file; see examples/models.")],
    data: Annotated[Path, typer.Argument(help="Observations: .npz (xy or x; label or y), .csv or .csv.gz.")],
    rows: Annotated[str | None, typer.Option(help="Use only these rows of DATA, A:B or A:B:STEP.")] = None,
    test_rows: Annotated[str | None, typer.Option(help="Test on these rows of DATA, A:B or A:B:STEP.")] = None,
    holdout: Annotated[int | None, typer.Option(min=2, help="Hold out rows 0, K, 2K, ... for the test.")] = None,
    test: Annotated[Path | None, typer.Option(help="Test on another file.")] = None,
    agents: AgentsOption = None,
    topology: TopologyOption = "ring",
    degree: DegreeOption = None,
    rule: RuleOption = RuleName.sinkhorn,
    partition: Annotated[
        str, typer.Option(help="Who gets which rows: sequential, random, or the name of an array or column.")
    ] = "sequential",
    order: Annotated[
        OrderName, typer.Option(help="stream: as they come; shuffled: each pass anew; replay: drawn with replacement.")
    ] = OrderName.stream,
    batch: Annotated[int, typer.Option(min=1, help="Observations per agent and round.")] = 1,
    passes: Annotated[
        int | None, typer.Option(min=1, help="Passes over each agent's observations. [default: 1]")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Observations per agent, instead of passes.")] = None,
    likelihood_weight: Annotated[
        str, typer.Option(help="How much an observation counts: auto (as many times as there are agents), or a number.")
    ] = "auto",
    forgetting: Annotated[float, typer.Option(help="The factor on old evidence each round; 1 keeps all.")] = 1.0,
    seed: SeedOption = 0,
    compare: Annotated[
        bool, typer.Option("--compare", help="Add one learner with all the data, and agents alone.")
    ] = False,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write plots, a report and the beliefs here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Let N simulated agents learn MODEL from DATA, and measure each on held-out rows."""
    if passes is not None and steps is not None:
        raise SettingError("give either --passes or --steps, not both")
    spec = read_model(model)
    group = group_of(partition)
    table = read_table(data, group)
    split = split_table(table, rows, test_rows, holdout, None if test is None else read_table(test, group))
    count = _agent_count(agents, topology, partition, split.train)
    parts = partition_rows(split.train, partition, count, generator_for("partition", seed))
    spec = resolve_model(spec, split.train.x, split.train.y, seed)
    graph, matrix = _network(topology, len(parts), rule, seed, degree=degree)
    options = FitOptions(
        batch=batch,
        passes=passes or 1,
        steps=steps,
        order=order.value,
        likelihood_weight=_weight(likelihood_weight),
        forgetting=forgetting,
        seed=seed,
        compare=compare,
        curves=out_dir is not None,
    )
    prepare(out_dir)
    with progress_bar() as progress:
        result = fit(spec, split.train, split.test, parts, matrix, graph.names, options, progress)
    name_groups(result.summary, split.train, partition, parts)
    present(result, out_dir, as_json)
    for remark in (split.remark, lost_groups(table, split.train, partition)):
        if remark is not None:
            note(remark)


@app.command(name="weights", short_help="See mixing weights, and how fast they bring agreement.")
def weights_command(
    topology: Annotated[str, typer.Argument(help="As --topology of `delbo fit`.")],
    agents: AgentsOption = None,
    rule: RuleOption = RuleName.sinkhorn,
    degree: DegreeOption = None,
    radius: Annotated[float | None, typer.Option(help="geometric: how far a link reaches.")] = None,
    positions: Annotated[Path | None, typer.Option(help="geometric: a file with one position a line.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Print a network's mixing weights, and how fast they bring agreement."""
    places = None if positions is None else read_positions(positions)
    graph, matrix = _network(topology, agents, rule, seed, places, radius, degree)
    facts = {
        "agents": list(graph.names),
        "spectral_gap": mixing_weights.spectral_gap(matrix),
        "rounds_to_shrink_tenfold": mixing_weights.rounds_to_shrink(matrix),
        "history": graph.history(),
    }
    if as_json:
        sys.stdout.write(json.dumps({**facts, "mixing_weights": matrix.toarray().tolist()}) + "\n")
        return
    _print_matrix(graph, matrix)
    out.print(f"spectral gap                           {facts['spectral_gap']:.6g}")
    out.print(f"rounds to shrink disagreement tenfold  {facts['rounds_to_shrink_tenfold']}")
    out.print(f"rounds that lockstep must keep         {facts['history']}")


def _agent_count(agents: int | None, topology: str, partition: str, train: Table) -> int | None:
    """As told; else as many as the graph's file has, or as there are groups, or one."""
    if agents is None and partition not in train.groups and _is_file(topology):
        return from_file(topology)[0].count
    return agents


def _is_file(topology: str) -> bool:
    """Whether the word means a file: the names of graphs go first."""
    return topology not in KINDS and Path(topology).is_file()


def _network(
    name: str,
    agents: int | None,
    rule: RuleName,
    seed: int,
    positions: Any = None,
    radius: float | None = None,
    degree: float | None = None,
) -> tuple[Topology, Any]:
    graph = topology_by_name(name, agents, generator_for("topology", seed), positions, radius, degree)
    if rule is not RuleName.given:
        return graph, mixing_weights.mixing_weights_by_rule(rule.value, graph)
    values = from_file(name)[1] if _is_file(name) else None
    if values is None:
        raise TopologyError("--mixing-weights given needs a matrix file as the topology")
    return graph, mixing_weights.given(values)


def _weight(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        weight = float(text)
    except ValueError:
        weight = float("nan")
    if not (np.isfinite(weight) and weight > 0):
        raise SettingError(f"--likelihood-weight is auto or a positive number, not {text!r}")
    return weight


def _print_matrix(graph: Topology, matrix: Any) -> None:
    """Every row for a small network; for a large one each agent's own list of neighbors."""
    if graph.count <= 12:
        for name, row in zip(graph.names, matrix.toarray(), strict=True):
            out.print(
                f"{name:>12}  " + "  ".join(f"{value:.4f}" if value else "     ." for value in row), soft_wrap=True
            )
        return
    for agent, name in enumerate(graph.names):
        row = matrix[[agent], :].tocoo()
        pairs = "  ".join(f"{graph.names[j]} {value:.4f}" for j, value in zip(row.col, row.data, strict=True))
        out.print(f"{name:>12}  {pairs}", soft_wrap=True)
