"""`network.yaml`: agents, graph, mixing weights, model, schedule, data and verification, checked as one document."""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from client.network.sources import Source, WorldSource
from service.errors import SettingError
from service.wire.arrays import Precision
from service.wire.configuration import Name, ScheduleRule, Url
from service.wire.document import Document, sentence
from service.wire.model import LikelihoodSpec, ModelSpec, as_mapping
from service.wire.verification import MOST_ROUNDS

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}"

GraphKind = Literal["ring", "line", "star", "complete", "grid", "random", "digraph", "geometric"]


class AgentSpec(Document):
    """One agent: `delbo` starts those that are `local`; the others run already, where their url says."""

    name: Name
    url: Url | Literal["local"] = "local"
    likelihood: Annotated[LikelihoodSpec, BeforeValidator(as_mapping)] | None = Field(
        default=None, description="Its own sensor, where it differs from the model's."
    )
    position: tuple[float, float] | None = Field(default=None, description="Where it is, for topology: geometric.")


class GraphSpec(Document):
    """A graph by its kind."""

    kind: GraphKind
    degree: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="random, digraph: the mean number of neighbors."
    )
    radius: Annotated[float, Field(gt=0)] | None = Field(default=None, description="geometric: how far a link reaches.")
    seed: Annotated[int, Field(ge=0)] = Field(default=0, description="random, digraph: decides the links.")


class EdgesSpec(Document):
    """A graph by its links."""

    edges: Annotated[list[tuple[Name, Name]], Field(min_length=1)] = Field(description="Pairs of agents' names.")
    directed: bool = Field(default=False, description="Whether in each pair only the first pulls from the second.")


class Streaming(Document):
    """How observations are posted."""

    batch: Annotated[int, Field(ge=1, le=100_000)] = Field(default=1000, description="Observations in one post.")
    rate_per_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Observations a second that each agent gets at most; without it, as fast as it takes."
    )


class Verification(Document):
    """What the maps are measured on: one of holdout, points and source; and how often by the agents themselves."""

    holdout: Annotated[int, Field(ge=2)] | None = Field(
        default=None, description="Rows 0, K, 2K, ... of every data source are not streamed, but kept for this."
    )
    points: Annotated[int, Field(ge=2, le=1_000_000)] | None = Field(
        default=None, description="Points drawn evenly over a simulated world."
    )
    source: Source | None = Field(default=None, description="Data of its own.")
    every_rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS)] | None = Field(
        default=None, description="Agents get some of these points, and score themselves every so many rounds."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if sum(part is not None for part in (self.holdout, self.points, self.source)) != 1:
            raise ValueError("give one of holdout, points and source")
        return self


def _as_agents(value: Any) -> Any:
    """`agents: 4` and `agents: [north, south]` are short for lists of local agents."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= 1000:
            raise ValueError("there can be 1 to 1000 agents")
        return [{"name": f"agent-{number}"} for number in range(1, value + 1)]
    if isinstance(value, list):
        return [{"name": one} if isinstance(one, str) else one for one in value]
    return value


def _as_graph(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


def _graph_type(value: Any) -> str:
    """Which of the two a graph is, so that its faults are told as those of what was meant."""
    has_edges = "edges" in value if isinstance(value, dict) else isinstance(value, EdgesSpec)
    return EdgesSpec.__name__ if has_edges else GraphSpec.__name__


Graph = Annotated[
    Annotated[GraphSpec, Tag(GraphSpec.__name__)] | Annotated[EdgesSpec, Tag(EdgesSpec.__name__)],
    Discriminator(_graph_type),
]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


def _check_folder_name(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name):
        raise ValueError("a network's name has 1 to 40 letters, digits, dots, dashes and underscores, a letter first")
    return name


class NetworkDocument(Document):
    """A network of agents that learn one belief together."""

    name: Annotated[str, AfterValidator(_check_folder_name)] = Field(
        default="network",
        description="Names the folder runs/NAME and the stream; without it, the file's name.",
        json_schema_extra={"pattern": f"^{NAME_PATTERN}$"},
    )
    agents: Annotated[tuple[AgentSpec, ...], BeforeValidator(_as_agents), Field(min_length=1)] = Field(
        description="A number of local agents, or a list of names, or of names with urls."
    )
    topology: Annotated[Graph, BeforeValidator(_as_graph)] = Field(
        default=GraphSpec(kind="ring"), description="Who pulls from whom: a kind of graph, or edges."
    )
    mixing_weights: Literal["sinkhorn", "metropolis", "fastest"] | list[list[float]] = Field(
        default="sinkhorn", description="How weights come from the graph; or the whole matrix, in the agents' order."
    )
    model: ModelSpec | str = Field(description="The model, or the path of its file.")
    schedule: ScheduleRule = ScheduleRule()
    settle_rounds: Literal["auto"] | Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default="auto",
        description="Rounds without observations at the end; auto: until disagreement has shrunk a thousandfold.",
    )
    precision: Precision = Field(default="float64", description="Of the parameters between agents.")
    data: Annotated[tuple[Source, ...], BeforeValidator(_as_list)] = Field(
        default=(), description="Where observations come from, and who gets which."
    )
    stream: Streaming = Streaming()
    verification: Verification | None = None
    seed: Annotated[int, Field(ge=0)] = Field(default=0, description="Decides what is random and has no seed itself.")

    @field_validator("agents")
    @classmethod
    def _different_names(cls, agents: tuple[AgentSpec, ...]) -> tuple[AgentSpec, ...]:
        for what, values in (("name", [one.name for one in agents]), ("url", [one.url for one in agents])):
            twice = sorted({value for value in values if values.count(value) > 1 and value != "local"})
            if twice:
                raise ValueError(f"the {what} {twice[0]} is given twice")
        return agents

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = {agent.name for agent in self.agents}
        if isinstance(self.topology, EdgesSpec):
            _check_known("topology.edges", (end for edge in self.topology.edges for end in edge), names)
        _check_known("data.agent", (one.agent for one in self.data if one.agent is not None), names)
        if isinstance(self.topology, GraphSpec) and self.topology.kind == "geometric":
            placed = sum(agent.position is not None for agent in self.agents)
            if placed not in (0, len(names)):
                raise ValueError("topology: geometric needs the position of every agent, or of none")
        if self.data and self.schedule.observations_per_round == 0:
            raise ValueError("schedule.observations_per_round: with data it must be at least 1, to apply them")
        _check_reachable(self.agents)
        if self.verification is not None and self.verification.points is not None:
            worlds = [source for source in self.data if isinstance(source, WorldSource)]
            if len(worlds) != 1:
                raise ValueError("verification.points goes with one data source of kind: world")
        if self.verification is not None and self.verification.holdout is not None and not self.data:
            raise ValueError("verification.holdout needs data to hold rows of")
        return self

    @property
    def local_names(self) -> list[str]:
        """The agents that `delbo` starts by itself."""
        return [agent.name for agent in self.agents if agent.url == "local"]


def _check_reachable(agents: tuple[AgentSpec, ...]) -> None:
    """Local agents listen on this machine's own address only."""
    local = [agent.name for agent in agents if agent.url == "local"]
    remote = [agent for agent in agents if agent.url != "local" and not _is_here(agent.url)]
    if local and remote:
        raise ValueError(
            f"agents: {remote[0].name}, on another machine, cannot reach {local[0]}, which is local: "
            f"start {local[0]} with delbo agent --host, and give its url"
        )


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _check_known(where: str, used: Iterable[str], names: set[str]) -> None:
    unknown = sorted(set(used) - names)
    if unknown:
        raise ValueError(f"{where}: there is no agent {unknown[0]}")


def read_network(path: Path) -> NetworkDocument:
    """The network in a YAML file, checked; one sentence says what is wrong, and where."""
    if not path.is_file():
        raise SettingError(f"{path}: there is no such file; examples/ has some to start from")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise SettingError(f"{path}: cannot be read: {fault.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as fault:  # ValueError: a date or a number that is none
        raise SettingError(f"{path}: is no YAML: {' '.join(str(fault).split())}") from None
    if isinstance(content, dict):
        content.setdefault("name", _name_of(path))
    return parse_network(content, str(path))


def _name_of(path: Path) -> str:
    """A network's name after its file's."""
    words = re.findall(r"[A-Za-z0-9_]+", path.name.partition(".")[0])
    return "-".join(words).lstrip("_")[:40] or "network"


def parse_network(content: Any, source: str) -> NetworkDocument:
    """The checked document."""
    if not isinstance(content, dict):
        raise SettingError(f"{source}: a network is a mapping with agents, model, data and so on")
    try:
        return NetworkDocument.model_validate(content)
    except ValidationError as fault:
        raise SettingError(f"{source}: {sentence(fault)}") from None


def network_schema() -> dict[str, Any]:
    """The JSON Schema of the document, for editors: what people may write, short forms too."""
    schema = NetworkDocument.model_json_schema()
    properties = schema["properties"]
    agent = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/AgentSpec"}]}
    _widen(properties["agents"], {"type": "integer", "minimum": 1, "maximum": 1000}, {"type": "array", "items": agent})
    _widen(properties["topology"], {"enum": list(get_args(GraphKind))}, *properties["topology"].pop("oneOf"))
    source = properties["data"]["items"]
    _widen(properties["data"], source, {"type": "array", "items": source})
    for owner in ("AgentSpec", "ModelSpec"):
        likelihood = schema["$defs"][owner]["properties"]["likelihood"]
        kinds = {key: likelihood.pop(key) for key in ("anyOf", "oneOf", "discriminator") if key in likelihood}
        _widen(likelihood, {"enum": ["probit", "logistic", "poisson"]}, kinds)  # which need nothing but their kind
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _widen(schema: dict[str, Any], *alternatives: dict[str, Any]) -> None:
    """Let a property be one of several; what it was stays as its description."""
    for key in ("type", "items", "minItems", "$ref"):
        schema.pop(key, None)
    schema["anyOf"] = list(alternatives)


def schema_text() -> str:
    """The schema as the file that is shipped."""
    return json.dumps(network_schema(), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
