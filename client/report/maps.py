"""The maps of a report: rasters of every agent's belief over the bounding box of the data."""

from typing import Any

import numpy as np

from client.result import Result
from service.inference.belief import DiagonalGaussian
from service.inference.prediction import Prediction
from service.inference.raster import raster

MOST_AGENTS = 8
DIVERGING, SEQUENTIAL = "PuOr_r", "cividis"  # both can be read by the colour-blind

_PIXELS = {True: 300, False: 100}  # along the longer side; a full belief costs the square of its features per pixel
_MOST_POINTS = 20_000


class Maps:
    """Rasters of a model of two coordinates, and the test points to compare them with."""

    def __init__(self, result: Result) -> None:
        self.result = result
        points = np.concatenate([result.train.x, result.test.x])
        lower, upper = points.min(axis=0), points.max(axis=0)
        # Points all in one place still have a map around them.
        smallest = 1e-6 * max(1.0, float(np.abs(points).max()))
        extent = np.maximum(upper - lower, smallest)
        pixels = _PIXELS[isinstance(result.beliefs[0], DiagonalGaussian)]
        counts = np.maximum(2, np.ceil(pixels * extent / extent.max()).astype(int) + 1)
        self.x, self.y = (np.linspace(lower[axis], lower[axis] + extent[axis], counts[axis]) for axis in (0, 1))
        shown = min(len(result.test), _MOST_POINTS)
        self.truth = result.test.take(np.random.default_rng(0).choice(len(result.test), shown, replace=False))
        self.predictions = [self._raster(belief) for belief in result.beliefs[:MOST_AGENTS]]
        self.isolated = [self._raster(belief) for belief in result.isolated_beliefs[:MOST_AGENTS]]
        binary = result.likelihood.is_binary
        self.range = (0.0, 1.0) if binary else (float(result.test.y.min()), float(result.test.y.max()))
        self.mean_name = "P(label = 1)" if binary else "predicted mean"

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top edge of the outermost pixels."""
        half_x, half_y = (self.x[1] - self.x[0]) / 2, (self.y[1] - self.y[0]) / 2
        return self.x[0] - half_x, self.x[-1] + half_x, self.y[0] - half_y, self.y[-1] + half_y

    @property
    def names(self) -> list[str]:
        """The agents that have a map here."""
        return [agent["name"] for agent in self.result.summary["agents"][:MOST_AGENTS]]

    def _raster(self, belief: Any) -> Prediction:
        return raster(belief, self.result.features, self.result.likelihood, self.x, self.y)


def error_name(result: Result) -> str:
    """What the error curves show."""
    return "misclassified" if result.likelihood.is_binary else "root mean square error"
