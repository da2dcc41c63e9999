"""The PNG plots of a report."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from client.report.maps import DIVERGING, MOST_AGENTS, SEQUENTIAL, Maps, error_name
from client.result import Result
from service.inference.arrays import FloatArray


def write_overview(maps: Maps, path: Path) -> Path:
    """Truth, the first agent's prediction, and how uncertain it is."""
    figure = Figure(figsize=(15, 5), layout="constrained")
    truth, mean, variance = figure.subplots(1, 3)
    low, high = maps.range
    x, y = maps.truth.x.T
    size = float(np.clip(8000 / len(maps.truth), 1, 30))
    points = truth.scatter(x, y, c=maps.truth.y, s=size, cmap=DIVERGING, vmin=low, vmax=high, linewidths=0)
    left, right, bottom, top = maps.extent
    truth.set(title=f"truth: {len(maps.truth)} test points", aspect="equal", xlim=(left, right), ylim=(bottom, top))
    figure.colorbar(points, ax=truth, shrink=0.7)
    first, name = maps.predictions[0], maps.names[0]
    figure.colorbar(_image(mean, maps, first.mean, DIVERGING, maps.range), ax=mean, shrink=0.7)
    mean.set_title(f"{name}: {maps.mean_name}")
    figure.colorbar(_image(variance, maps, first.latent_variance, SEQUENTIAL, None), ax=variance, shrink=0.7)
    variance.set_title(f"{name}: variance of the map")
    return _save(figure, path)


def write_agents(maps: Maps, path: Path) -> Path:
    """Every agent's whole map; above, where compared, what it could know alone."""
    rows = [("alone", maps.isolated)] if maps.isolated else []
    rows.append(("together", maps.predictions))
    count = len(maps.predictions)
    figure = Figure(figsize=(3.2 * count, 3.4 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), count, squeeze=False)
    for row, (how, predictions) in enumerate(rows):
        for column, prediction in enumerate(predictions):
            axes = grid[row, column]
            _image(axes, maps, prediction.mean, DIVERGING, maps.range)
            axes.set_title(f"{maps.names[column]}, {how}", fontsize=10)
            axes.set_axis_off()
    return _save(figure, path)


def write_curves(result: Result, path: Path) -> Path:
    """Test error and consensus error over the rounds."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    error, consensus = figure.subplots(1, 2)
    for axes, values in ((error, result.curves.errors), (consensus, result.curves.consensus_errors)):
        for agent, line in enumerate(np.array(values).T[:MOST_AGENTS]):
            axes.plot(result.curves.rounds, line, label=result.summary["agents"][agent]["name"])
        axes.set_xlabel("round")
    error.set_title(f"test error: {error_name(result)}")
    error.legend()
    consensus.set_title("consensus error: distance from the network's average")
    return _save(figure, path)


def _image(axes: Axes, maps: Maps, values: FloatArray, colours: str, limits: tuple[float, float] | None) -> Any:
    """Draw a raster with y upwards."""
    low, high = limits or (None, None)
    return axes.imshow(values, origin="lower", extent=maps.extent, cmap=colours, vmin=low, vmax=high)


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=100)
    return path
