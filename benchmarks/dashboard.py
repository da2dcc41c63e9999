"""The dashboard with ten agents of 15,000 features: what watching costs an agent, and a frame while panning."""

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import Figure, Result, UnavailableError
from tests.processes import AgentProcess
from tests.soak.ten_agents import chromium, cpu_s, dashboard_of, open_maps, ten_agents

if TYPE_CHECKING:
    from playwright.sync_api import Page

MEASURED_S, TURNS = 20.0, 3
MOVES = 240
SCRIPT = {"FunctionCall", "EventDispatch", "FireAnimationFrame", "TimerFire", "RunMicrotasks", "MinorGC", "MajorGC"}


def run() -> list[Result]:
    """With and without a page that shows all maps, in turns; then the page is dragged."""
    if shutil.which("chromium") is None:
        raise UnavailableError("there is no chromium here")
    with tempfile.TemporaryDirectory() as folder, ten_agents(Path(folder)) as agents:
        alone, watched, frames = [], [], list[float]()
        for _ in range(TURNS):
            alone.append(_cpu_share(agents))
            with dashboard_of(agents, Path(folder) / "dashboard.log") as (url, _), chromium() as browser:
                page = open_maps(browser, url)
                watched.append(_cpu_share(agents))
                frames += _script_ms_by_frame(page)
    cost = float(np.median(watched) - np.median(alone))
    p95 = float(np.percentile(frames, 95))
    figures = (
        Figure("processor of an agent for being watched, per mille", 1000 * cost, "per mille", 50, is_limit=True),
        Figure(f"script per frame while panning, 95th of 100, {len(frames)} frames", p95, "ms", 33, is_limit=True),
    )
    name = "ten agents of 15,000 features, a round a second: one core's share of an agent"
    amounts = (1000 * float(np.median(watched)), 1000 * float(np.median(alone)))
    return [Result(name, "watched", "alone", *amounts, "per mille", figures=figures)]


def _cpu_share(agents: Sequence[AgentProcess]) -> float:
    """What share of a core one agent took, on average, while nothing was done here."""

    def taken() -> float:
        return sum(cpu_s(agent.process.pid) for agent in agents if agent.process is not None)

    begun_at, before = time.monotonic(), taken()
    time.sleep(MEASURED_S)
    return (taken() - before) / (time.monotonic() - begun_at) / len(agents)


def _script_ms_by_frame(page: "Page") -> list[float]:
    """Drag a map to and fro, and add up what scripts took in each frame, as Chromium's own trace tells it."""
    browser = page.context.browser
    assert browser is not None
    box = page.locator(".map canvas").first.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    browser.start_tracing(page=page, categories=["devtools.timeline", "disabled-by-default-devtools.timeline", "v8"])
    page.mouse.move(*middle)
    page.mouse.down()
    for move in range(MOVES):
        angle = move / 10
        page.mouse.move(middle[0] + 60 * np.sin(angle), middle[1] + 40 * np.cos(angle))
    page.mouse.up()
    return _by_frame(json.loads(browser.stop_tracing())["traceEvents"])


def _by_frame(events: Sequence[dict[str, Any]]) -> list[float]:
    """Milliseconds of script between one frame's beginning and the next, on the page's own thread."""
    drawn = [event for event in events if event["name"] == "FireAnimationFrame"]
    thread = (drawn[0]["pid"], drawn[0]["tid"])
    spans = sorted(
        (event["ts"], event["ts"] + event.get("dur", 0))
        for event in events
        if event["name"] in SCRIPT and (event["pid"], event["tid"]) == thread
    )
    begins = sorted(event["ts"] for event in drawn if (event["pid"], event["tid"]) == thread)
    edges = np.array([*begins, begins[-1] + 1e6])
    totals, until = np.zeros(len(begins)), 0.0
    for begin, end in spans:  # one in another counts once
        fresh = max(begin, until)
        until = max(until, end)
        frame = int(np.searchsorted(edges, fresh, side="right")) - 1
        if end > fresh and 0 <= frame < len(totals):
            totals[frame] += (end - fresh) / 1000
    return totals.tolist()
