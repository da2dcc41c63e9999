"""`delbo`: the command line."""

import json
import os
import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer

from client import mixing_weights
from client.console import err, note, out, progress_bar, show_fit
from client.demo import run_demo
from client.fit import FitOptions, FitResult, fit
from client.model_file import read_model, resolve_model
from client.randomness import generator_for
from client.streams.partitions import lost_groups, name_groups, partition_rows
from client.streams.splits import split_table
from client.streams.tables import Table, read_table
from client.topology import Topology
from client.topology_choice import KINDS, from_file, read_positions, topology_by_name
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
DegreeOption = Annotated[
    float | None, typer.Option(help="random, digraph: the mean number of neighbors. [default: 4]", show_default=False)
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
    table = read_table(data, partition)
    split = split_table(table, rows, test_rows, holdout, None if test is None else read_table(test, partition))
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
    _prepare(out_dir)
    with progress_bar() as progress:
        result = fit(spec, split.train, split.test, parts, matrix, graph.names, options, progress)
    name_groups(result.summary, split.train, partition, parts)
    _present(result, out_dir, as_json)
    for remark in (split.remark, lost_groups(table, split.train, partition)):
        if remark is not None:
            note(remark)


@app.command(name="weights")
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


@app.command(name="agent")
def agent_command(
    name: Annotated[str, typer.Option(envvar="DELBO_NAME", help="The agent's name, unique in its network.")],
    data_dir: Annotated[
        Path, typer.Option(envvar="DELBO_DATA_DIR", help="Where it keeps its file; one directory per agent.")
    ],
    port: Annotated[
        int | None, typer.Option(envvar="DELBO_PORT", help="The port to listen on; 0 takes a free one. [default: 8001]")
    ] = None,
    host: Annotated[
        str | None, typer.Option(envvar="DELBO_HOST", help="The address to listen on. [default: 127.0.0.1]")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(envvar="DELBO_LOG_FORMAT", help="How log lines look: text or json. [default: text]")
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(envvar="DELBO_LOG_LEVEL", help="What is logged: debug, info, warning or error. [default: info]"),
    ] = None,
    inbox_limit: Annotated[
        int | None,
        typer.Option(
            envvar="DELBO_INBOX_LIMIT",
            help="Observations that may wait, or places for replay. [default: 1000000]",
            show_default=False,
        ),
    ] = None,
    history_limit: Annotated[
        int | None, typer.Option(envvar="DELBO_HISTORY_LIMIT", help="Rounds whose summaries are kept. [default: 10000]")
    ] = None,
    body_limit: Annotated[
        int | None, typer.Option(envvar="DELBO_BODY_LIMIT", help="Bytes that a body may have. [default: 8388608]")
    ] = None,
) -> None:
    """Run one agent; docs/agent.md tells how to talk to it."""
    given = {
        "--name": name,
        "--data-dir": data_dir,
        "--port": port,
        "--host": host,
        "--log-format": log_format,
        "--log-level": log_level,
        "--inbox-limit": inbox_limit,
        "--history-limit": history_limit,
        "--body-limit": body_limit,
    }
    options = [text for option, value in given.items() if value is not None for text in (option, str(value))]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "service", *options])  # noqa: S606 - this very interpreter


@app.command(name="demo")
def demo_command(
    agents: Annotated[int, typer.Option(min=2, max=16, help="The number of robots.")] = 4,
    seed: SeedOption = 0,
    out_dir: Annotated[Path, typer.Option("--out", help="Where to write the maps and the report.")] = Path("runs/demo"),
) -> None:
    """Robots explore a simulated building, each its own part; together each learns the whole map."""
    _prepare(out_dir)
    with progress_bar() as progress:
        result = run_demo(agents, seed, progress)
    _present(result, out_dir, as_json=False)
    out.print("\nTry next:  delbo fit --help    delbo weights grid --agents 9    examples/models")


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


def _prepare(out_dir: Path | None) -> None:
    """Make the folder before the work, so that no result is lost for want of it."""
    if out_dir is None:
        return
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise SettingError(f"--out {out_dir}: cannot be made a folder: {fault.strerror}") from None


def _present(result: FitResult, out_dir: Path | None, as_json: bool) -> None:
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
        _refuse(str(fault))
    except MemoryError:
        _refuse("there is not enough memory: take fewer features or agents, or family: diagonal")


def _refuse(sentence: str) -> NoReturn:
    err.print(f"delbo: {sentence}", style="red", soft_wrap=True)
    raise SystemExit(2) from None
