"""`POST /v1/predictions`: what the belief says of points."""

from collections.abc import Callable

import numpy as np
from fastapi import Request, Response

from service.agent.agent import Agent
from service.agent.publication import Snapshot
from service.api.bodies import BodyReader
from service.api.documents import Language, language_of, write_document
from service.errors import NumericalError, TooManyPointsError
from service.inference.arrays import FloatArray
from service.wire.answers import Predictions
from service.wire.points import points_from_json, points_from_msgpack

_BYTES_OF_A_POINT = 8  # at least; while it waits, the body is in memory
_MOST_WORK = 2.5e11  # multiplications of the full family: 100,000 points with 1,500 features

_READERS: dict[Language, Callable[[bytes, int], FloatArray]] = {
    "json": points_from_json,
    "msgpack": points_from_msgpack,
}


async def post_predictions(request: Request, agent: Agent, bodies: BodyReader) -> Response:
    """All points are answered from one snapshot, whatever rounds are committed meanwhile."""
    read = _READERS[language_of(request)]
    dimension = agent.model.features.dimension
    body = await bodies.whole(request.scope, request.receive)
    snapshot = agent.snapshot

    def answer() -> Response:
        return write_document(request, predictions(snapshot, read(body, dimension)))

    return await agent.readings.answer(1 + len(body) // _BYTES_OF_A_POINT, answer)


def predictions(snapshot: Snapshot, x: FloatArray) -> Predictions:
    """The answer to points that fit the model."""
    model = snapshot.model
    if model.document.spec.family == "full":
        most = int(_MOST_WORK / model.prior.dimension**2)
        if len(x) > most:
            raise TooManyPointsError(f"{len(x):,} points would take so large a model too long: send {most:,} at a time")
    with np.errstate(over="ignore", invalid="ignore"):
        seen = model.predict(snapshot.belief, x)
        told = {
            "probability" if model.likelihood.is_binary else "mean": seen.mean,
            "variance": seen.variance,
            "entropy": seen.entropy,
            "latent_mean": seen.latent_mean,
            "latent_variance": seen.latent_variance,
        }
    for name, values in told.items():
        if not np.isfinite(values).all():
            raise NumericalError(f"the {name} is too large for a number at one of these points")
    epoch, number = snapshot.name
    return Predictions(epoch, number, model.model_id, **told)
