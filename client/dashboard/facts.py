"""What a model is about, as far as it decides how its belief is shown."""

from typing import Literal, NamedTuple

from service.inference.features import Features
from service.wire.configuration import ModelDocument

Kind = Literal["map", "function", "parameters"]

MAP_LAYERS = ("expected", "variance", "entropy", "disagreement")
FUNCTION_LAYERS = ("expected", "function")


class Facts(NamedTuple):
    """How a belief is shown: a map, a function with its band, or parameters with their bands."""

    kind: Kind
    is_binary: bool  # whether y is a label
    lower: tuple[float, ...]  # where the model begins, by coordinate
    upper: tuple[float, ...]
    parameters: int

    @property
    def layers(self) -> tuple[str, ...]:
        """What there is to choose from."""
        return {"map": MAP_LAYERS, "function": FUNCTION_LAYERS, "parameters": ()}[self.kind]


def facts_of(document: ModelDocument) -> Facts:
    """The facts of a model; building it takes a while."""
    likelihood = document.build_likelihood()
    features: Features = document.spec.build_features()
    kinds: dict[int, Kind] = {} if likelihood.is_vector else {1: "function", 2: "map"}
    lower, upper = features.extent
    return Facts(
        kinds.get(features.dimension, "parameters"),
        likelihood.is_binary,
        tuple(map(float, lower)),
        tuple(map(float, upper)),
        features.feature_count * likelihood.outputs,
    )
