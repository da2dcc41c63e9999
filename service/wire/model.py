"""The model, one document: what all agents of a network must share, and the sensor they have by default.

The canonical JSON of the resolved features, family, diagonal step, prior and number of outputs has a SHA-256, the
`model_id`. Agents of different model_id never mix. The likelihood is a sensor's, may differ by agent, and is no part.
"""

import hashlib
import json
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from service.errors import ModelError
from service.inference.belief import FAMILIES, Belief, Family
from service.inference.conditioning import DiagonalStep
from service.inference.features import CenterFeatures, Features, LatticeFeatures
from service.inference.likelihoods import (
    Gaussian,
    Likelihood,
    Logistic,
    Poisson,
    Probit,
    StudentT,
    VectorGaussian,
)
from service.wire.document import Document, sentence

Positive = Annotated[float, Field(gt=0)]
Cutoff = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(gt=0, le=10_000_000)]

_LARGEST_FULL = 30_000  # parameters: an information matrix of 7 GB


class LatticeSpec(Document):
    """Centres on a regular lattice, found by arithmetic."""

    kind: Literal["lattice"]
    spacing: Positive
    lengthscale: Positive
    lower: list[float]
    upper: list[float]
    cutoff: Cutoff = 1e-6
    gamma1: Positive = 1.0

    def build(self) -> Features:
        """The features described."""
        return LatticeFeatures(self.spacing, self.lengthscale, self.lower, self.upper, self.cutoff, self.gamma1)


class Choice(Document):
    """How to choose centres from data: resolved once, then fixed."""

    how: Literal["random", "stratified", "latin-hypercube", "lattice"]
    count: Count | dict[int, Count] | None = None
    spacing: Positive | None = None
    seed: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.how == "lattice" and (self.spacing is None or self.count is not None):
            raise ValueError("how: lattice takes a spacing, and no count")
        if self.how != "lattice" and self.count is None:
            raise ValueError(f"how: {self.how} takes a count")
        if (self.how == "stratified") != isinstance(self.count, dict):
            raise ValueError("a count by class, like {1: 300, 0: 700}, goes with how: stratified, and with it only")
        return self


class CentersSpec(Document):
    """Kernels around any centres: given, or chosen from data."""

    kind: Literal["centers"]
    centers: list[list[float]] | None = None
    choose: Choice | None = None
    lengthscale: Positive | list[Positive] | dict[int, Positive]
    cutoff: Cutoff | None = None
    gamma1: Positive = 1.0

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.centers is None) == (self.choose is None):
            raise ValueError("give either centers or choose")
        by_class = isinstance(self.lengthscale, dict)
        if by_class and (self.choose is None or self.choose.how != "stratified"):
            raise ValueError("a lengthscale by class goes with choose: {how: stratified, ...} only")
        return self

    def build(self) -> Features:
        """The features described; choices from data must have been resolved."""
        if self.centers is None:
            raise ModelError("the centres are still to be chosen from data")
        return CenterFeatures(self.centers, self.lengthscale, self.gamma1, self.cutoff)


class PriorSpec(Document):
    """The belief before any observation."""

    mean: float = 0.0
    information: Positive


class ProbitSpec(Document):
    """Class labels, the paper's classifier."""

    kind: Literal["probit"]

    def build(self) -> Likelihood:
        """The likelihood described."""
        return Probit()


class LogisticSpec(Document):
    """Class labels, by the sigmoid itself."""

    kind: Literal["logistic"]

    def build(self) -> Likelihood:
        """The likelihood described."""
        return Logistic()


class PoissonSpec(Document):
    """Counts."""

    kind: Literal["poisson"]

    def build(self) -> Likelihood:
        """The likelihood described."""
        return Poisson()


class GaussianSpec(Document):
    """Numbers with Gaussian noise; vectors of numbers with a precision matrix."""

    kind: Literal["gaussian"]
    precision: Positive | list[list[float]]

    def build(self) -> Likelihood:
        """The likelihood described."""
        return Gaussian(self.precision) if isinstance(self.precision, float) else VectorGaussian(self.precision)


class StudentTSpec(Document):
    """Numbers with heavy-tailed noise."""

    kind: Literal["student_t"]
    degrees: Annotated[float, Field(gt=2)]
    scale: Positive

    def build(self) -> Likelihood:
        """The likelihood described."""
        return StudentT(self.degrees, self.scale)


FeaturesSpec = Annotated[LatticeSpec | CentersSpec, Field(discriminator="kind")]
LikelihoodSpec = Annotated[
    ProbitSpec | LogisticSpec | PoissonSpec | GaussianSpec | StudentTSpec, Field(discriminator="kind")
]


def as_mapping(value: Any) -> Any:
    """`likelihood: probit` is short for `likelihood: {kind: probit}`."""
    return {"kind": value} if isinstance(value, str) else value


class ModelSpec(Document):
    """Features, family, prior, and the agents' default sensor."""

    features: FeaturesSpec
    family: Family = "diagonal"
    diagonal_step: DiagonalStep | None = None
    prior: PriorSpec
    likelihood: Annotated[LikelihoodSpec, BeforeValidator(as_mapping)]

    @classmethod
    def parse(cls, document: Any, source: str = "model") -> Self:
        """The checked document, or one sentence that names the source, the place and the fault."""
        if not isinstance(document, dict):
            raise ModelError(f"{source}: a model is a mapping with features, prior and likelihood")
        try:
            spec = cls.model_validate(document)
            if not isinstance(spec.features, CentersSpec) or spec.is_resolved:
                spec.features.build()
            spec.likelihood.build()
        except ValidationError as fault:
            raise ModelError(f"{source}: {sentence(fault)}") from None
        except ModelError as fault:
            raise ModelError(f"{source}: {fault}") from None
        return spec

    @property
    def is_resolved(self) -> bool:
        """Whether nothing is left to be chosen from data."""
        return not isinstance(self.features, CentersSpec) or self.features.centers is not None

    @property
    def step(self) -> DiagonalStep:
        """The diagonal step: as told, else the paper's for probit, and the projected one for every other likelihood."""
        return self.diagonal_step or ("paper" if isinstance(self.likelihood, ProbitSpec) else "projected")

    @property
    def outputs(self) -> int:
        """The number of components of y."""
        return self.likelihood.build().outputs

    def build_features(self) -> Features:
        """The features, ready to use."""
        return self.features.build()

    def build_prior(self, features: Features) -> Belief:
        """The prior belief over one block of parameters per output."""
        dimension = self.outputs * features.feature_count
        if self.family == "full" and dimension > _LARGEST_FULL:
            raise ModelError(f"{dimension} parameters are too many for family: full; take family: diagonal")
        return FAMILIES[self.family].prior(dimension, self.prior.information, self.prior.mean)

    @cached_property
    def canonical_json(self) -> str:
        """The part that agents must share, in one spelling."""
        if not self.is_resolved:
            raise ModelError("a model has no identity before its centres are chosen")
        shared = {
            "features": {name: value for name, value in self.features if name != "choose"},
            "family": self.family,
            "diagonal_step": self.step if self.family == "diagonal" else None,
            "prior": self.prior.model_dump(),
            "outputs": self.outputs,
        }
        # Piece by piece: json.dumps would keep all other threads waiting until the last of many centres is written.
        return "".join(_encoder.iterencode(_without_negative_zero(shared)))

    @cached_property
    def model_id(self) -> str:
        """The SHA-256 of the canonical JSON, in hexadecimal."""
        return hashlib.sha256(self.canonical_json.encode()).hexdigest()


_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def _without_negative_zero(value: Any) -> Any:
    """The same document with 0.0 for -0.0, which is the same number in another spelling."""
    if isinstance(value, dict):
        return {key: _without_negative_zero(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_negative_zero(part) for part in value]
    return value + 0.0 if isinstance(value, float) else value
