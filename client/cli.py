"""`delbo`: the command line."""

import json
import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from client import mixing_weights
from client.console import err, note, out, progress_bar, show_fit
from client.demo import run_demo
from client.fit import FitOptions, FitResult, fit
from client.model_file import read_model, resolve_model
from client.streams.partitions import partition_rows
from client.streams.tables import Table, parse_rows, read_table
from client.topology import Topology, from_file, read_positions, topology_by_name
from service.errors import DelboError, SettingError, TopologyError

app = typer.Typer(
    help="A network of agents that learn one belief together.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class OrderName(StrEnum):
    """The order in which an agent takes its observations."""

    stream = "stream"
    shuffled = "shuffled"
    replay = "replay"


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
SeedOption = Annotated[int, typer.Option(min=0, help="Decides everything that is random.")]
AgentsOption = Annotated[int | None, typer.Option(min=1, help="The number of agents.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


@app.command(name="fit")
def fit_command(
    model: Annotated[Path, typer.Argument(help="The model, a YAML file; see examples/models.")],
    data: Annotated[Path, typer.Argument(help="Observations: .npz (xy or x; label or y), .csv or .csv.gz.")],
    rows: Annotated[str | None, typer.Option(help="Use only these rows of DATA, A:B or A:B:STEP.")] = None,
    test_rows: Annotated[str | None, typer.Option(help="Test on these rows of DATA, A:B or A:B:STEP.")] = None,
    holdout: Annotated[int | None, typer.Option(min=2, help="Hold out rows 0, K, 2K, ... for the test.")] = None,
    test: Annotated[Path | None, typer.Option(help="Test on another file.")] = None,
    agents: AgentsOption = None,
    topology: TopologyOption = "ring",
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
        str, typer.Option(help="auto (the number of agents), or a number; 1 is the paper's lemmas.")
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
    table = read_table(data, partition)
    train, held_out = _split(table, rows, test_rows, holdout, test)
    parts = partition_rows(train, partition, _agent_count(agents, topology, partition, train), _generator(seed, 0))
    spec = resolve_model(spec, train.x, train.y, seed)
    graph, matrix = _network(topology, len(parts), rule, seed)
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
    with progress_bar() as progress:
        result = fit(spec, train, held_out, parts, matrix, graph.names, options, progress)
    _present(result, out_dir, as_json)


@app.command(name="weights")
def weights_command(
    topology: Annotated[str, typer.Argument(help="As --topology of `delbo fit`.")],
    agents: AgentsOption = None,
    rule: RuleOption = RuleName.sinkhorn,
    degree: Annotated[float | None, typer.Option(help="random, digraph: the mean number of neighbors.")] = None,
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
        sys.stdout.write(json.dumps({**facts, "weights": matrix.toarray().tolist()}) + "\n")
        return
    _print_matrix(graph, matrix)
    out.print(f"spectral gap                           {facts['spectral_gap']:.6g}")
    out.print(f"rounds to shrink disagreement tenfold  {facts['rounds_to_shrink_tenfold']}")
    out.print(f"rounds that lockstep must keep         {facts['history']}")


@app.command(name="demo")
def demo_command(
    agents: Annotated[int, typer.Option(min=2, max=16, help="The number of robots.")] = 4,
    seed: SeedOption = 0,
    out_dir: Annotated[Path, typer.Option("--out", help="Where to write the maps and the report.")] = Path("runs/demo"),
) -> None:
    """Robots explore a simulated building, each its own part; together each learns the whole map."""
    with progress_bar() as progress:
        result = run_demo(agents, seed, progress)
    _present(result, out_dir, as_json=False)
    out.print("\nTry next:  delbo fit --help    delbo weights grid --agents 9    examples/models")


def _split(
    table: Table, rows: str | None, test_rows: str | None, holdout: int | None, test: Path | None
) -> tuple[Table, Table]:
    """Training and test observations; without any word about a test set, both are all rows, and that is said."""
    if sum(option is not None for option in (test_rows, holdout, test)) > 1:
        raise SettingError("give only one of --test-rows, --holdout and --test")
    used = table if rows is None else table.take(parse_rows(rows))
    if holdout is not None:
        held = np.arange(len(used)) % holdout == 0
        train, tested = used.take(~held), used.take(held)
    elif test_rows is not None:
        train, tested = used, table.take(parse_rows(test_rows))
    elif test is not None:
        train, tested = used, read_table(test)
    else:
        note("no test set (--holdout, --test-rows, --test): the scores below are on the training rows")
        train, tested = used, used
    for name, part in (("training", train), ("test", tested)):
        if len(part) == 0:
            raise SettingError(f"{table.source}: no {name} rows are left of {len(table)}")
    return train, tested


def _agent_count(agents: int | None, topology: str, partition: str, train: Table) -> int | None:
    """As told; else as many as the graph's file has, or as there are groups, or one."""
    if agents is None and partition not in train.groups and Path(topology).is_file():
        return from_file(topology)[0].count
    return agents


def _network(
    name: str,
    agents: int | None,
    rule: RuleName,
    seed: int,
    positions: Any = None,
    radius: float | None = None,
    degree: float | None = None,
) -> tuple[Topology, Any]:
    graph = topology_by_name(name, agents, _generator(seed, 1), positions, radius, degree)
    if rule is not RuleName.given:
        return graph, mixing_weights.mixing_weights_by_rule(rule.value, graph)
    values = from_file(name)[1] if Path(name).is_file() else None
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


def _generator(seed: int, purpose: int) -> np.random.Generator:
    """Independent randomness for each purpose of one run."""
    return np.random.default_rng((seed, purpose))


def _present(result: FitResult, out_dir: Path | None, as_json: bool) -> None:
    files: list[Path] = []
    if out_dir is not None:
        from client.report import write_report  # plotting libraries take a second to import

        files = write_report(result, out_dir)
    if as_json:
        sys.stdout.write(json.dumps(result.summary) + "\n")
        return
    show_fit(result)
    if files:
        out.print("wrote " + " ".join(str(path) for path in files), soft_wrap=True)


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


def run() -> None:
    """The console script: an error that delbo raises on purpose is one sentence and exit code 2, no traceback."""
    warnings.showwarning = lambda message, *_, **__: err.print(f"warning: {message}", soft_wrap=True)
    try:
        app()
    except DelboError as fault:
        err.print(f"delbo: {fault}", style="red", soft_wrap=True)
        raise SystemExit(2) from None
