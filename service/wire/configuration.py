"""The documents that configure an agent: model, neighbors, schedule. Each is put whole, and has a number.

A document with a higher number replaces the one in force; the same number with another body, and a lower number, are
refused. The neighbors document's number is the epoch.
"""

from abc import abstractmethod
from functools import cached_property
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, FailFast, Field, ValidationError

from service.errors import DelboError, ModelError, SettingError, TopologyError
from service.inference.likelihood import Likelihood
from service.inference.mixing import check_mixing_row
from service.wire.arrays import Precision
from service.wire.document import Document, sentence
from service.wire.model import LikelihoodSpec, ModelSpec, as_mapping

LONGEST_WAIT_S = 30.0  # of one long poll
MOST_HISTORY = 10_000  # rounds

Number = Annotated[int, Field(ge=1, le=2**62)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]
ExchangeName = Literal["lockstep", "latest"]


def check_name(name: str) -> str:
    """A name of an agent or client: any printable text, not too long."""
    if not 1 <= len(name) <= 64 or not name.isprintable() or name != name.strip():
        raise ValueError("a name has 1 to 64 printable characters, and no space around it")
    return name


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = (
            url.isascii()
            and url.isprintable()
            and " " not in url
            and "@" not in url  # tokens come from files, not from addresses
            and parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
        )
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or len(url) > 2000:
        raise ValueError("a url is like http://10.0.0.7:8001")
    return url.rstrip("/")


Name = Annotated[str, AfterValidator(check_name)]
Url = Annotated[str, AfterValidator(_check_url)]


class _Request(Document):
    """A document that comes in a request."""

    @classmethod
    def parse(cls, body: Any) -> Self:
        """The checked document, or one sentence that names the place and the fault."""
        try:
            document = cls.model_validate(body)
        except ValidationError as fault:
            raise cls._error()(sentence(fault)) from None
        document._check()
        return document

    @classmethod
    def _error(cls) -> type[DelboError]:
        return SettingError

    def _check(self) -> None:
        """What a field alone cannot tell."""


class RoundsRequest(_Request):
    """`POST /v1/rounds`: run that many rounds of a paused agent, and wait for them so long at most."""

    rounds: Annotated[int, Field(ge=1, le=10_000)] = 1
    wait_s: Annotated[float, Field(gt=0, le=600)] = 30.0


class _Numbered(_Request):
    """A document with a number of its own."""

    @property
    @abstractmethod
    def number(self) -> int:
        """The higher one replaces the lower."""


class ModelDocument(_Numbered):
    """`PUT /v1/model`: what the network shares, and this agent's own sensor where it differs."""

    revision: Number
    model: dict[str, Any]
    likelihood: Annotated[LikelihoodSpec, BeforeValidator(as_mapping)] | None = None

    @classmethod
    def _error(cls) -> type[DelboError]:
        return ModelError

    def _check(self) -> None:
        spec = self.spec
        if not spec.is_resolved:
            raise ModelError("model: its centres are still to be chosen from data; an agent takes them as a list")
        _ = spec.model_id  # of many centres it takes a while: here, and not on an event loop
        outputs = self.build_likelihood().outputs
        if outputs != spec.outputs:
            raise ModelError(f"likelihood: {outputs} output(s) do not go with a model of {spec.outputs}")

    @property
    def number(self) -> int:
        return self.revision

    @cached_property
    def spec(self) -> ModelSpec:
        """The model proper."""
        return ModelSpec.parse(self.model)

    @property
    def own_likelihood(self) -> LikelihoodSpec:
        """This agent's sensor."""
        return self.spec.likelihood if self.likelihood is None else self.likelihood

    def build_likelihood(self) -> Likelihood:
        """This agent's sensor, ready to use."""
        return self.own_likelihood.build()


class Neighbor(Document):
    """An agent whose parameters this one pulls, and the weight that they get."""

    name: Name
    url: Url
    weight: float


class NeighborsDocument(_Numbered):
    """`PUT /v1/neighbors`: this agent's row of the mixing weights, and where its neighbors are."""

    epoch: Number
    agents: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    index: Annotated[int, Field(ge=0)] = 0
    own_weight: float
    neighbors: Annotated[tuple[Neighbor, ...], Field(max_length=1000), FailFast()] = ()
    history: Annotated[int, Field(ge=1, le=MOST_HISTORY)] = 2
    precision: Precision = "float64"
    start_from: str | None = None

    def _check(self) -> None:
        names = [neighbor.name for neighbor in self.neighbors]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SettingError(f"neighbors: {twice[0]} is named twice")
        if self.start_from is not None and self.start_from not in names:
            raise SettingError(f"start_from: {self.start_from} is not among the neighbors")
        if self.index >= self.agents:
            raise SettingError(f"index: {self.index} is not below the number of agents, {self.agents}")
        if len(names) >= self.agents:
            raise SettingError(f"neighbors: {len(names)} cannot be among {self.agents} agents, itself not counted")
        try:
            check_mixing_row(self.mixing_row, len(names) + 1)
        except TopologyError as fault:
            raise TopologyError(f"own_weight and the neighbors' weights: {fault}") from None

    @property
    def number(self) -> int:
        return self.epoch

    @property
    def mixing_row(self) -> list[float]:
        """The agent's own mixing weight, then its neighbors'."""
        return [self.own_weight, *(neighbor.weight for neighbor in self.neighbors)]


class ScheduleRule(Document):
    """When a round runs, and what it does."""

    exchange: ExchangeName = "lockstep"
    observations_per_round: Annotated[int, Field(ge=0, le=1_000_000)] = 100
    when_short: Literal["wait", "go"] | None = None
    source: Literal["stream", "replay"] = "stream"
    seed: Annotated[int, Field(ge=0, le=2**62)] = 0
    likelihood_weight: Literal["auto"] | Annotated[float, Field(gt=0)] = "auto"
    forgetting: Annotated[float, Field(gt=0, le=1)] = 1.0
    period_s: Seconds = 0.1
    deadline_s: Annotated[float, Field(gt=0, le=LONGEST_WAIT_S)] = 5.0
    stale_after_s: Seconds = 30.0

    @property
    def waits(self) -> bool:
        """Whether a round waits for a full batch, or for the end of the streams."""
        return (self.when_short or {"lockstep": "wait", "latest": "go"}[self.exchange]) == "wait"

    def weight_among(self, agents: int) -> float:
        """The likelihood weight in a network of that many agents: lockstep and latest average, so `auto` is n."""
        return float(agents) if self.likelihood_weight == "auto" else self.likelihood_weight


class ScheduleDocument(ScheduleRule, _Numbered):
    """`PUT /v1/schedule`: the rule, and for how long."""

    revision: Number
    until_round: Annotated[int, Field(ge=0, le=2**62)] | None = None
    paused: bool = False

    @property
    def number(self) -> int:
        return self.revision


NO_NEIGHBORS = NeighborsDocument.model_construct(epoch=0, own_weight=1.0)
"""In force before any other: an agent alone."""

NO_SCHEDULE = ScheduleDocument.model_construct(revision=0, paused=True)
"""In force before any other: nothing happens by itself."""
