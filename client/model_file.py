"""Model files: read a model document from YAML, and settle what it leaves to the data."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from client.randomness import generator_for
from service.errors import ModelError
from service.inference import centers
from service.inference.arrays import FloatArray
from service.wire.model import CentersSpec, Choice, ModelSpec


def read_model(path: Path) -> ModelSpec:
    """The model document in a YAML file, checked."""
    if not path.is_file():
        raise ModelError(f"{path}: there is no such file")
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise ModelError(f"{path}: cannot be read: {fault.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as fault:  # ValueError: a date or a number that is none
        raise ModelError(f"{path}: is no YAML: {' '.join(str(fault).split())}") from None
    return ModelSpec.parse(document, str(path))


def resolve_model(spec: ModelSpec, x: FloatArray, y: FloatArray, seed: int) -> ModelSpec:
    """The same model with its centres chosen from the data; a seed in the document goes before the one given here."""
    if not isinstance(spec.features, CentersSpec) or spec.features.choose is None:
        return spec
    choice = spec.features.choose
    generator = generator_for("centers", seed if choice.seed is None else choice.seed)
    chosen, lengthscale = _choose(choice, spec.features.lengthscale, x, y, generator)
    features = {"choose": None, "centers": chosen.tolist(), "lengthscale": lengthscale}
    document = spec.model_dump()
    return ModelSpec.parse(
        {**document, "features": {**document["features"], **features}}, "the model, with its centres"
    )


def _choose(
    choice: Choice, lengthscale: Any, x: FloatArray, y: FloatArray, generator: np.random.Generator
) -> tuple[FloatArray, Any]:
    """The centres, and the lengthscales that go with them."""
    if isinstance(choice.count, dict):
        chosen, classes = centers.choose_stratified(x, y, choice.count, generator)
        if not isinstance(lengthscale, dict):
            return chosen, lengthscale
        missing = set(choice.count) - set(lengthscale)
        if missing:
            raise ModelError(f"features.lengthscale has no entry for class {min(missing)}")
        return chosen, [lengthscale[int(label)] for label in classes]
    if choice.how == "lattice":
        return centers.choose_lattice(x, choice.spacing or 1.0), lengthscale
    choose = centers.choose_random if choice.how == "random" else centers.choose_latin_hypercube
    return choose(x, choice.count or 1, generator), lengthscale
