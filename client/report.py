"""What a fit leaves behind: PNG plots, one self-contained HTML page, and the numbers and beliefs themselves."""

import html
import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import plotly.graph_objects as go
import plotly.io
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from plotly.subplots import make_subplots

from client.fit import FitResult
from service.inference.arrays import FloatArray
from service.inference.prediction import Prediction, raster

matplotlib.use("Agg")

_PIXELS = 300
_MOST_POINTS = 20_000
_MOST_AGENTS = 8
_DIVERGING, _SEQUENTIAL = "PuOr_r", "cividis"  # both can be read by the colour-blind


def write_report(result: FitResult, directory: Path) -> list[Path]:
    """Write everything into the directory; the files written, the page first."""
    directory.mkdir(parents=True, exist_ok=True)
    maps = _Maps(result) if _is_planar(result) else None
    pages = [_write_html(result, maps, directory / "report.html")]
    pictures = [] if maps is None else [maps.write_overview(directory / "maps.png")]
    if maps is not None and len(result.beliefs) > 1:
        pictures.append(maps.write_agents(directory / "agents.png"))
    if result.curves.rounds:
        pictures.append(_write_curves(result, directory / "curves.png"))
    return [*pages, *pictures, *_write_numbers(result, directory)]


def _is_planar(result: FitResult) -> bool:
    return result.features.dimension == 2 and result.likelihood.outputs == 1


def _write_numbers(result: FitResult, directory: Path) -> list[Path]:
    summary, model, beliefs = directory / "result.json", directory / "model.json", directory / "beliefs.npz"
    summary.write_text(json.dumps(result.summary, indent=2) + "\n", encoding="utf-8")
    model.write_text(result.spec.model_dump_json(indent=2, exclude_none=True) + "\n", encoding="utf-8")
    information = np.stack([belief.information for belief in result.beliefs])
    np.savez_compressed(beliefs, information=information, shift=np.stack([belief.shift for belief in result.beliefs]))
    return [summary, model, beliefs]


class _Maps:
    """Rasters of a 2-D model over the bounding box of its data."""

    def __init__(self, result: FitResult) -> None:
        self.result = result
        points = np.concatenate([result.train.x, result.test.x])
        lower, upper = points.min(axis=0), points.max(axis=0)
        step = max(float((upper - lower).max()), 1e-9) / _PIXELS
        self.x = np.arange(lower[0], upper[0] + step, step)
        self.y = np.arange(lower[1], upper[1] + step, step)
        shown = slice(None, None, max(1, len(result.test) // _MOST_POINTS))
        self.truth = result.test.take(shown)
        self.predictions = [self._raster(belief) for belief in result.beliefs[:_MOST_AGENTS]]
        self.isolated = [self._raster(belief) for belief in result.isolated_beliefs[:_MOST_AGENTS]]
        binary = result.likelihood.is_binary
        self.range = (0.0, 1.0) if binary else (float(result.test.y.min()), float(result.test.y.max()))
        self.mean_name = "P(label = 1)" if binary else "predicted mean"

    def _raster(self, belief: Any) -> Prediction:
        return raster(belief, self.result.features, self.result.likelihood, self.x, self.y)

    def image(self, axes: Axes, values: FloatArray, colours: str, limits: tuple[float, float] | None) -> Any:
        """Draw a raster with y upwards."""
        half = (self.x[1] - self.x[0]) / 2 if self.x.size > 1 else 0.5
        extent = (self.x[0] - half, self.x[-1] + half, self.y[0] - half, self.y[-1] + half)
        low, high = limits or (None, None)
        return axes.imshow(values, origin="lower", extent=extent, cmap=colours, vmin=low, vmax=high)

    def write_overview(self, path: Path) -> Path:
        """Truth, the first agent's prediction, and how uncertain it is."""
        figure = Figure(figsize=(15, 5), layout="constrained")
        truth, mean, variance = figure.subplots(1, 3)
        name = self.result.summary["agents"][0]["name"]
        low, high = self.range
        x, y = self.truth.x.T
        points = truth.scatter(x, y, c=self.truth.y, s=1, cmap=_DIVERGING, vmin=low, vmax=high, linewidths=0)
        truth.set(title=f"truth: {len(self.truth)} test points", aspect="equal")
        figure.colorbar(points, ax=truth, shrink=0.7)
        first = self.predictions[0]
        figure.colorbar(self.image(mean, first.mean, _DIVERGING, self.range), ax=mean, shrink=0.7)
        mean.set_title(f"{name}: {self.mean_name}")
        figure.colorbar(self.image(variance, first.latent_variance, _SEQUENTIAL, None), ax=variance, shrink=0.7)
        variance.set_title(f"{name}: variance of the map")
        figure.savefig(path, dpi=100)
        return path

    def write_agents(self, path: Path) -> Path:
        """Every agent's whole map; above, where compared, what it could know alone."""
        rows = [("alone", self.isolated)] if self.isolated else []
        rows.append(("together", self.predictions))
        count = len(self.predictions)
        figure = Figure(figsize=(3.2 * count, 3.4 * len(rows)), layout="constrained")
        grid = figure.subplots(len(rows), count, squeeze=False)
        for row, (how, predictions) in enumerate(rows):
            for column, prediction in enumerate(predictions):
                axes = grid[row, column]
                self.image(axes, prediction.mean, _DIVERGING, self.range)
                axes.set_title(f"{self.result.summary['agents'][column]['name']}, {how}", fontsize=10)
                axes.set_axis_off()
        figure.savefig(path, dpi=100)
        return path


def _error_name(result: FitResult) -> str:
    return "misclassified" if result.likelihood.is_binary else "root mean square error"


def _write_curves(result: FitResult, path: Path) -> Path:
    figure = Figure(figsize=(11, 4), layout="constrained")
    error, consensus = figure.subplots(1, 2)
    for axes, values in ((error, result.curves.errors), (consensus, result.curves.consensus_errors)):
        for agent, line in enumerate(np.array(values).T[:_MOST_AGENTS]):
            axes.plot(result.curves.rounds, line, label=result.summary["agents"][agent]["name"])
        axes.set_xlabel("round")
    error.set_title(f"test error: {_error_name(result)}")
    error.legend()
    consensus.set_title("consensus error: distance from the network's average")
    figure.savefig(path, dpi=100)
    return path


def _write_html(result: FitResult, maps: "_Maps | None", path: Path) -> Path:
    """One page that needs no network: the table, the curves, the maps, and plotly's JavaScript inside."""
    figures = [] if maps is None else [_html_maps(result, maps)]
    if result.curves.rounds:
        figures.append(_html_curves(result))
    parts = []
    for number, figure in enumerate(figures):
        figure.update_layout(template="plotly_white", font={"family": "system-ui, sans-serif"})
        parts.append(
            plotly.io.to_html(figure, full_html=False, include_plotlyjs=number == 0, config={"displaylogo": False})
        )
    path.write_text(
        _PAGE.format(table=_html_table(result.summary), facts=_facts(result), plots="\n".join(parts)), "utf-8"
    )
    return path


def _html_maps(result: FitResult, maps: "_Maps") -> Any:
    names = [agent["name"] for agent in result.summary["agents"]]
    first = maps.predictions[0]
    titles = ("truth: test points", f"{names[0]}: {maps.mean_name}", f"{names[0]}: variance of the map")
    figure = make_subplots(1, 3, subplot_titles=titles)
    low, high = maps.range
    marker = {"color": maps.truth.y, "colorscale": _DIVERGING, "cmin": low, "cmax": high, "size": 2}
    x, y = maps.truth.x.T
    figure.add_trace(go.Scattergl(x=x, y=y, mode="markers", marker=marker, name="truth", showlegend=False), 1, 1)
    shared = {"x": maps.x, "y": maps.y}
    mean = {"z": first.mean.astype(np.float32), "colorscale": _DIVERGING, "zmin": low, "zmax": high}
    figure.add_trace(go.Heatmap(**shared, **mean, colorbar={"x": 0.645, "thickness": 10}), 1, 2)
    variance = {"z": first.latent_variance.astype(np.float32), "colorscale": _SEQUENTIAL}
    figure.add_trace(go.Heatmap(**shared, **variance, colorbar={"thickness": 10}), 1, 3)
    for column, suffix in enumerate(("", "2", "3"), start=1):
        figure.update_yaxes(scaleanchor=f"x{suffix}", row=1, col=column)
    return figure.update_layout(height=480, margin={"l": 40, "r": 40, "t": 50, "b": 40})


def _html_curves(result: FitResult) -> Any:
    figure = make_subplots(1, 2, subplot_titles=(f"test error: {_error_name(result)}", "consensus error"))
    for column, values in enumerate((result.curves.errors, result.curves.consensus_errors), start=1):
        for agent, line in enumerate(np.array(values).T[:_MOST_AGENTS]):
            name = result.summary["agents"][agent]["name"]
            trace = go.Scatter(x=result.curves.rounds, y=line, name=name, legendgroup=name, showlegend=column == 1)
            figure.add_trace(trace.update(line={"color": matplotlib.colors.to_hex(f"C{agent}")}), 1, column)
    figure.update_xaxes(title_text="round")
    return figure.update_layout(height=380, margin={"l": 40, "r": 40, "t": 50, "b": 40})


def _html_table(summary: dict[str, Any]) -> str:
    rows = [("together", agent) for agent in summary["agents"]]
    rows += [("all data", summary["centralized"])] if "centralized" in summary else []
    rows += [("alone", agent) for agent in summary.get("isolated", [])]
    columns = [key for key in summary["agents"][0] if key != "name"]
    head = "".join(f"<th>{column.replace('_', ' ')}</th>" for column in columns)
    body = "".join(
        f"<tr><td>{html.escape(row['name'])}</td><td>{how}</td>"
        + "".join(f"<td>{_number(row.get(column))}</td>" for column in columns)
        + "</tr>"
        for how, row in rows
    )
    return f"<table><thead><tr><th>agent</th><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _facts(result: FitResult) -> str:
    summary = result.summary
    return (
        f"{len(summary['agents'])} agent(s), {summary['features']:,} features, {summary['rounds']:,} rounds in "
        f"{summary['seconds']:.1f} s; {summary['test']['rows']:,} test rows; model {summary['model_id'][:12]}"
    )


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>delbo: fit</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1400px; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }}
th, td {{ padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }}
th:first-child, td:first-child, td:nth-child(2) {{ text-align: left }}
</style>
</head>
<body>
<h1>Agents that learned one belief together</h1>
<p>{facts}</p>
{table}
{plots}
</body>
</html>
"""
