"""Ten agents with 15,000 features each that learn all the time, a dashboard of them, and a page that shows it."""

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from client.mixing_weights import sinkhorn
from client.topology import ring
from tests.browser.conftest import CHROMIUM_ARGUMENTS
from tests.browser.dashboards import DashboardProcess, urls_of
from tests.network.networks import Network
from tests.processes import AgentProcess, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIDES = (24.2, 24.4)  # meters: 122 x 123 centres, and the constant
MODEL: dict[str, Any] = {
    "features": {"kind": "lattice", "spacing": 0.2, "lengthscale": 0.15, "lower": [0, 0], "upper": list(SIDES)},
    "prior": {"information": 0.3},
    "likelihood": {"kind": "probit"},
}
COUNT = 10
PERIOD_S = 1.0
POSTED = 50  # observations for each agent, every period
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@contextmanager
def ten_agents(folder: Path) -> Iterator[list[AgentProcess]]:
    """On a ring, each given observations of its own part all the time, so that every map changes every second."""
    with ExitStack() as stack:
        agents = [AgentProcess(f"agent-{number}", folder / f"agent-{number}") for number in range(1, COUNT + 1)]
        for agent in agents:
            stack.callback(agent.close)
            agent.launch()
        for agent in agents:
            agent.wait_ready()
        network = Network(agents, MODEL, [MODEL["likelihood"]] * COUNT, [])
        network.load()
        network.connect(ring(COUNT), 1, sinkhorn(ring(COUNT)))
        for agent in agents:
            agent.put("schedule", {"revision": 1, "exchange": "latest", "period_s": PERIOD_S})
        stop = threading.Event()
        feeder = threading.Thread(target=_feed, args=(agents, stop))
        feeder.start()
        stack.callback(feeder.join)
        stack.callback(stop.set)
        until(lambda: all(agent.status()["round"] for agent in agents))
        yield agents


def _feed(agents: Sequence[AgentProcess], stop: threading.Event) -> None:
    generator = np.random.default_rng(0)
    while not stop.wait(PERIOD_S):
        for number, agent in enumerate(agents):
            x = generator.uniform(0, 1, (POSTED, 2)) * [SIDES[0] / COUNT, SIDES[1]] + [number * SIDES[0] / COUNT, 0]
            y = (x % 4 < 0.4).any(axis=1)  # walls every four meters
            agent.post(x, y.astype(float))


@contextmanager
def dashboard_of(agents: Sequence[AgentProcess], log: Path) -> Iterator[tuple[str, int]]:
    """A dashboard of them that asks as often as people's do: its address, and the number of its process."""
    dashboard = DashboardProcess(log, *urls_of(agents), every_s=2.0)

    def shows_all() -> bool:
        return all(agent["health"] == "ok" for agent in dashboard.http.get("/api/state").json()["agents"])

    try:
        process = dashboard.launch().wait_ready().process
        assert process is not None
        until(shows_all)
        yield dashboard.url, process.pid
    finally:
        dashboard.close()


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Debian's Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def open_maps(browser: "Browser", url: str) -> "Page":
    """The page with all ten maps drawn."""
    from playwright.sync_api import expect

    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{url}/#maps")
    expect(page.locator(".map canvas[data-round]")).to_have_count(COUNT, timeout=120_000)
    return page


def cpu_s(pid: int) -> float:
    """The processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident_bytes(pid: int) -> int:
    """The memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
