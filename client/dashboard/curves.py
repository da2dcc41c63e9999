"""Figures over time, for the browser and as files."""

import csv
import io
import time
from typing import Annotated

from fastapi import APIRouter, Query, Response

from client.dashboard.agent_watch import AgentWatch
from client.dashboard.answers import file_answer, json_answer
from client.dashboard.series import METRICS
from client.dashboard.watching import Watching
from service.errors import SettingError

_POINTS_SHOWN = 300  # of a curve
_FORMULA = ("=", "+", "-", "@")  # what a spreadsheet would take a name for


def curves(watching: Watching) -> APIRouter:
    """The routes."""
    router = APIRouter()

    @router.get("/api/curves")
    async def get_curves(window_s: Annotated[float | None, Query(gt=0)] = None) -> Response:
        since = float("-inf") if window_s is None else time.time() - window_s
        shown = [
            {**metric._asdict(), "agents": [_columns(agent, metric.name, since) for agent in watching.agents]}
            for metric in METRICS
        ]
        return json_answer({"now": time.time(), "metrics": shown})

    @router.get("/api/curves.csv")
    async def get_csv(metric: str) -> Response:
        if metric not in {one.name for one in METRICS}:
            raise SettingError(f"there is no curve {metric[:40]!r}")
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(["agent", "seconds_since_1970", "round", metric])
        for agent in watching.agents:
            name = f"'{agent.name}" if agent.name.startswith(_FORMULA) else agent.name
            for point in agent.curves.series[metric].since(float("-inf")):
                writer.writerow([name, repr(point.at), int(point.round), repr(point.value)])
        return file_answer(text.getvalue(), "text/csv", f"{metric}.csv")

    return router


def _columns(agent: AgentWatch, name: str, since: float) -> dict[str, list[float]]:
    points = agent.curves.series[name].since(since, _POINTS_SHOWN)
    return {
        "at": [round(point.at, 2) for point in points],
        "round": [point.round for point in points],
        "value": [float(f"{point.value:.6g}") for point in points],
    }
