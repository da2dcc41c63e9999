"""One small model of every kind, rows to learn from, and what `service.inference` says of the same parameters."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from service.inference.arrays import FloatArray
from service.inference.belief import Belief
from service.inference.features import Features
from service.inference.likelihood import Likelihood
from service.inference.prediction import Prediction, predict
from service.inference.raster import Grid, raster
from service.wire.model import ModelSpec
from service.wire.parameters import ParameterMessage

_CENTERS = np.random.default_rng(0).uniform(0, 2, (12, 2)).round(3).tolist()

FEATURES: dict[str, dict[str, Any]] = {
    "dense": {"kind": "centers", "centers": _CENTERS, "lengthscale": [0.3 + 0.02 * number for number in range(12)]},
    "cutoff": {"kind": "centers", "centers": _CENTERS, "lengthscale": 0.4, "cutoff": 0.01, "gamma1": 1.3},
    "lattice": {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [2, 1.5]},
}
LIKELIHOODS: dict[str, Any] = {
    "probit": "probit",
    "logistic": "logistic",
    "gaussian": {"kind": "gaussian", "precision": 4.0},
    "poisson": "poisson",
    "student_t": {"kind": "student_t", "degrees": 4.0, "scale": 0.5},
    "vector": {"kind": "gaussian", "precision": [[2.0, 0.5], [0.5, 1.0]]},
}
LABELS = ("probit", "logistic")
FAMILIES = ("diagonal", "full")


def model_of(features: str = "lattice", family: str = "diagonal", likelihood: str = "probit") -> dict[str, Any]:
    """The model of that kind."""
    return {
        "features": FEATURES[features],
        "family": family,
        "prior": {"information": 0.5, "mean": 0.1},
        "likelihood": LIKELIHOODS[likelihood],
    }


def rows_for(likelihood: str, count: int = 60) -> tuple[FloatArray, FloatArray]:
    """Points in the square of the centres, and targets that the likelihood takes."""
    x = np.random.default_rng(1).uniform(0, 2, (count, 2))
    f = np.sin(3 * x[:, 0]) + x[:, 1] - 1
    if likelihood in LABELS:
        return x, (f > 0).astype(np.float64)
    if likelihood == "poisson":
        return x, np.floor(np.exp(f))
    return x, np.column_stack([f, -f]) if likelihood == "vector" else f


@dataclass(frozen=True)
class Direct:
    """The model of a document with the parameters of a message, by the mathematics alone."""

    document: dict[str, Any]
    message: ParameterMessage

    @cached_property
    def spec(self) -> ModelSpec:
        """The document, checked."""
        return ModelSpec.parse(self.document)

    @cached_property
    def features(self) -> Features:
        """Its features."""
        return self.spec.build_features()

    @property
    def likelihood(self) -> Likelihood:
        """Its likelihood."""
        return self.spec.likelihood.build()

    @cached_property
    def prior(self) -> Belief:
        """Its prior."""
        return self.spec.build_prior(self.features)

    @cached_property
    def belief(self) -> Belief:
        """Prior + evidence."""
        return self.prior.plus(self.message.parts[0].evidence)

    def predict(self, x: FloatArray) -> Prediction:
        """At these points."""
        return predict(self.belief, self.features.activate(x), self.likelihood)

    def raster(self, grid: Grid) -> Prediction:
        """At these pixels."""
        return raster(self.belief, self.features, self.likelihood, grid.x_axis, grid.y_axis)

    def expected(self, x: FloatArray) -> dict[str, FloatArray]:
        """What an answer should say of these points, by the names that it uses."""
        return layers_of(self.predict(x))


def layers_of(seen: Prediction) -> dict[str, FloatArray]:
    """Everything that is told about a prediction."""
    return {
        "probability" if seen.likelihood.is_binary else "mean": seen.mean,
        "variance": seen.variance,
        "entropy": seen.entropy,
        "latent_mean": seen.latent_mean,
        "latent_variance": seen.latent_variance,
    }


def check_layers(found: dict[str, Any], expected: dict[str, FloatArray]) -> None:
    """They are the same to 1e-12: JSON and raw bytes keep every bit, and only the order of sums may differ."""
    assert set(found) == set(expected)
    for name, values in expected.items():
        told = np.asarray(found[name])
        assert told.shape == values.shape, name
        np.testing.assert_allclose(told, values, rtol=1e-12, atol=1e-12, err_msg=name)
