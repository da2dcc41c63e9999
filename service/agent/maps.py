"""Maps of an agent's belief: each computed once a round, however many ask for it."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from service.agent.model import LoadedModel
from service.agent.publication import Snapshot
from service.agent.readings import Readings
from service.agent.shared import Shared
from service.errors import ModelError, NoMapError, NumericalError, SettingError
from service.inference.arrays import FloatArray
from service.inference.belief import Belief
from service.inference.prediction import Prediction
from service.inference.raster import Grid, check_raster, default_bounds, raster, raster_work, unlearned
from service.wire.map_files import Nav2Rule, to_nav2, to_npz, to_png
from service.wire.map_query import Format, Layer
from service.wire.palette import DIVERGING, SEQUENTIAL

_MOST_WORK = 6e9  # a centre's share of a pixel each: some ten seconds
_DEFAULT_SIDE = 300  # pixels
_RASTERS_KEPT = 4_000_000  # pixels
_FILES_KEPT = 32 * 2**20  # bytes
_AT_LEAST = 4096  # of either, for what even the smallest map takes

_PRIOR = "prior"  # in the place of a round's name
_USUAL = Nav2Rule()


@dataclass(frozen=True)
class MapRequest:
    """Which map: of what, of where, and as what file."""

    format: Format = "png"
    layer: Layer | None = None
    bounds: tuple[float, float, float, float] | None = None
    resolution: float | None = None
    low: float | None = None
    high: float | None = None
    nav2: Nav2Rule = _USUAL


class Maps:
    """One agent's maps."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._rasters: Shared[tuple[Hashable, Grid], Prediction] = Shared(_RASTERS_KEPT)
        self._files: Shared[tuple[Hashable, MapRequest], bytes] = Shared(_FILES_KEPT)
        self._round: Hashable = None

    async def file(self, snapshot: Snapshot, request: MapRequest) -> bytes:
        """The map of that round as a file."""
        self._forget_before(snapshot.name)
        grid = check_there_is(snapshot, request)
        layers = _layers(snapshot, request)
        size = _AT_LEAST + grid.pixels * (8 * len(layers) if request.format == "npz" else 1)
        return await self._files.get((snapshot.name, request), size, lambda: self._draw(snapshot, request, grid))

    def _forget_before(self, name: Hashable) -> None:
        """Maps of earlier rounds: everybody asks for the newest."""
        if name != self._round:
            self._round = name
            self._files.keep_only(lambda key: key[0] == name)
            self._rasters.keep_only(lambda key: key[0] in (name, _PRIOR))

    async def _draw(self, snapshot: Snapshot, request: MapRequest, grid: Grid) -> bytes:
        seen = await self._raster(snapshot.name, lambda: snapshot.belief, snapshot, grid)
        if request.format != "nav2" or request.nav2.mode == "trinary":
            return await self._readings.answer(grid.pixels, lambda: _encode(snapshot, request, grid, seen, None))
        at_first = await self._raster(_PRIOR, lambda: snapshot.model.prior, snapshot, grid)
        return await self._readings.answer(grid.pixels, lambda: _encode(snapshot, request, grid, seen, at_first))

    async def _raster(self, name: Hashable, belief: Callable[[], Belief], snapshot: Snapshot, grid: Grid) -> Prediction:
        model = snapshot.model

        def compute() -> Prediction:
            with np.errstate(over="ignore", invalid="ignore"):
                return raster(belief(), model.features, model.likelihood, grid.x_axis, grid.y_axis)

        async def make() -> Prediction:
            return await self._readings.answer(grid.pixels, compute)

        return await self._rasters.get((name, grid), _AT_LEAST + grid.pixels, make)


def check_there_is(snapshot: Snapshot, request: MapRequest) -> Grid:
    """The pixels of the map; refuse one that this model has not, or that is too large."""
    model = snapshot.model
    try:
        check_raster(model.features, model.likelihood)
    except ModelError as fault:
        raise NoMapError(str(fault)) from None
    _layers(snapshot, request)
    bounds = default_bounds(model.features) if request.bounds is None else request.bounds
    if request.resolution is None:
        return _usual_grid(model, bounds)
    grid = Grid.over(bounds, request.resolution)
    if _takes_too_long(model, grid):
        raise SettingError(
            f"a map of {grid.width} x {grid.height} pixels would take this model too long: take a coarser resolution "
            "or narrower bounds"
        )
    return grid


def _usual_grid(model: LoadedModel, bounds: tuple[float, float, float, float]) -> Grid:
    """Some 300 pixels on the longer side; fewer of a model for which these would be too many."""
    pixels = _DEFAULT_SIDE
    while True:
        grid = Grid.over(bounds, max(bounds[2] - bounds[0], bounds[3] - bounds[1]) / pixels)
        if pixels == 1 or not _takes_too_long(model, grid):
            return grid
        pixels = max(pixels * 2 // 3, 1)


def _takes_too_long(model: LoadedModel, grid: Grid) -> bool:
    return raster_work(model.document.spec.family, model.features, grid) > _MOST_WORK


def _layers(snapshot: Snapshot, request: MapRequest) -> tuple[Layer, ...]:
    """The layers that are asked for, of those that the model has."""
    binary = snapshot.model.likelihood.is_binary
    if not binary and (request.format == "nav2" or request.layer == "probability"):
        raise NoMapError("this agent's observations are no labels: it has no map of probabilities; ask for the mean")
    if request.layer is not None:
        return (request.layer,)
    every: tuple[Layer, ...] = ("variance", "entropy", "latent_mean", "latent_variance")
    first: Layer = "probability" if binary else "mean"
    return (first, *every) if request.format == "npz" else (first,)


def _encode(
    snapshot: Snapshot, request: MapRequest, grid: Grid, seen: Prediction, at_first: Prediction | None
) -> bytes:
    with np.errstate(over="ignore", invalid="ignore"):
        values: dict[str, FloatArray] = {layer: _values(seen, layer) for layer in _layers(snapshot, request)}
    if request.format == "npz":
        return _npz(snapshot, grid, values)
    if request.format == "png":
        (layer,) = values
        return _png(snapshot, request, grid, layer, values[layer])
    unknown = np.zeros((grid.height, grid.width), bool)
    if at_first is not None:
        model = snapshot.model
        unknown = unlearned(seen, snapshot.belief, at_first, model.prior, model.features, grid)
    return to_nav2(seen.mean, unknown, grid, request.nav2)


def _values(seen: Prediction, layer: Layer) -> FloatArray:
    values: FloatArray = seen.mean if layer == "probability" else getattr(seen, layer)
    if not np.isfinite(values).all():
        raise NumericalError(f"the {layer} is too large for a number somewhere on this map")
    return values


def _png(snapshot: Snapshot, request: MapRequest, grid: Grid, layer: str, values: FloatArray) -> bytes:
    probability = layer == "probability"
    least, most = (0.0, 1.0) if probability else (float(values.min()), float(values.max()))
    # One end that is asked for may lie beyond all values: then it is the other end too.
    low = min(least, most if request.high is None else request.high) if request.low is None else request.low
    high = max(most, low) if request.high is None else request.high
    epoch, number = snapshot.name
    notes = {
        "layer": layer,
        "low": repr(low),
        "high": repr(high),
        "origin": f"{grid.left!r} {grid.bottom!r}",
        "resolution": repr(grid.resolution),
        "epoch": str(epoch),
        "round": str(number),
    }
    return to_png(values, DIVERGING if probability else SEQUENTIAL, low, high, notes)


def _npz(snapshot: Snapshot, grid: Grid, values: Mapping[str, FloatArray]) -> bytes:
    epoch, number = np.array(snapshot.name, np.int64)
    return to_npz({"x": grid.x_axis, "y": grid.y_axis, **values, "epoch": epoch, "round": number})
