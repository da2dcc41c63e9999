"""The HTML page of a report: it needs no network, plotly's JavaScript is inside."""

import base64
import html
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io
from matplotlib.colors import to_hex
from plotly.subplots import make_subplots

from client.console import took
from client.report.maps import DIVERGING, MOST_AGENTS, SEQUENTIAL, Maps, error_name
from client.result import Result


def write_page(result: Result, maps: Maps | None, agents: Path | None, path: Path) -> Path:
    """The table, the picture of all agents' maps, the first agent's to look into, and the curves."""
    figures = [] if maps is None else [_maps(maps)]
    if result.curves.rounds:
        figures.append(_curves(result))
    plots = "\n".join(_embedded(figure, with_script=number == 0) for number, figure in enumerate(figures))
    page = _PAGE.format(facts=_facts(result), table=_table(result.summary), picture=_picture(agents), plots=plots)
    path.write_text(page, encoding="utf-8")
    return path


def _picture(agents: Path | None) -> str:
    """The picture inside the page, so that the page can be sent around alone."""
    if agents is None:
        return ""
    content = base64.b64encode(agents.read_bytes()).decode()
    return f'<img alt="Every agent\'s map: alone, where compared, and together" src="data:image/png;base64,{content}">'


def _embedded(figure: Any, with_script: bool) -> str:
    figure.update_layout(template="plotly_white", font={"family": "system-ui, sans-serif"})
    settings = {"full_html": False, "include_plotlyjs": with_script, "config": {"displaylogo": False}}
    return str(plotly.io.to_html(figure, **settings))


def _maps(maps: Maps) -> Any:
    first, name = maps.predictions[0], maps.names[0]
    titles = ("truth: test points", f"{name}: {maps.mean_name}", f"{name}: variance of the map")
    figure = make_subplots(1, 3, subplot_titles=titles)
    low, high = maps.range
    marker = {"color": maps.truth.y, "colorscale": DIVERGING, "cmin": low, "cmax": high, "size": 2}
    x, y = maps.truth.x.T
    figure.add_trace(go.Scattergl(x=x, y=y, mode="markers", marker=marker, name="truth", showlegend=False), 1, 1)
    shared = {"x": maps.x, "y": maps.y}
    mean = {"z": first.mean.astype(np.float32), "colorscale": DIVERGING, "zmin": low, "zmax": high}
    figure.add_trace(go.Heatmap(**shared, **mean, colorbar={"x": 0.645, "thickness": 10}), 1, 2)
    variance = {"z": first.latent_variance.astype(np.float32), "colorscale": SEQUENTIAL}
    figure.add_trace(go.Heatmap(**shared, **variance, colorbar={"thickness": 10}), 1, 3)
    for column, suffix in enumerate(("", "2", "3"), start=1):
        figure.update_xaxes(range=maps.extent[:2], constrain="domain", row=1, col=column)
        figure.update_yaxes(range=maps.extent[2:], scaleanchor=f"x{suffix}", constrain="domain", row=1, col=column)
    return figure.update_layout(height=480, margin={"l": 40, "r": 40, "t": 50, "b": 40})


def _curves(result: Result) -> Any:
    figure = make_subplots(1, 2, subplot_titles=(f"test error: {error_name(result)}", "consensus error"))
    for column, values in enumerate((result.curves.errors, result.curves.consensus_errors), start=1):
        for agent, line in enumerate(np.array(values).T[:MOST_AGENTS]):
            name = result.summary["agents"][agent]["name"]
            trace = go.Scatter(x=result.curves.rounds, y=line, name=name, legendgroup=name, showlegend=column == 1)
            figure.add_trace(trace.update(line={"color": to_hex(f"C{agent}")}), 1, column)
    figure.update_xaxes(title_text="round")
    return figure.update_layout(height=380, margin={"l": 40, "r": 40, "t": 50, "b": 40})


def _table(summary: dict[str, Any]) -> str:
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


def _facts(result: Result) -> str:
    summary = result.summary
    agents = len(summary["agents"])
    shown = f" (plots show the first {MOST_AGENTS})" if agents > MOST_AGENTS else ""
    return (
        f"{agents} agent(s){shown}, {summary['features']:,} features, {summary['rounds']:,} rounds{took(summary)}; "
        f"{summary['test']['rows']:,} test rows; model {summary['model_id'][:12]}"
    )


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>delbo: what the agents learned</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1400px; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }}
img {{ max-width: 100% }}
th, td {{ padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }}
th:first-child, td:first-child, td:nth-child(2) {{ text-align: left }}
</style>
</head>
<body>
<h1>Agents that learned one belief together</h1>
<p>{facts}</p>
{table}
{picture}
{plots}
</body>
</html>
"""
