"""Ten agents with 15,000 features each that learn all the time, a dashboard of them, and a page that shows it."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import numpy as np

from client.mixing_weights import sinkhorn
from client.topology import ring
from tests.browser.conftest import CHROMIUM_ARGUMENTS
from tests.network.networks import Network
from tests.processes import ROOT, AgentProcess, free_port, until

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
    """A dashboard of them as people start it: its address, and the number of its process."""
    port = free_port()
    named = [text for agent in agents for text in ("--agent", agent.url)]
    command = [sys.executable, "-m", "client", "dashboard", *named, "--port", str(port)]
    with log.open("ab") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)
    url = f"http://127.0.0.1:{port}"

    def shows_all() -> bool:
        try:
            shown = httpx2.get(f"{url}/api/state", trust_env=False).json()["agents"]
        except httpx2.TransportError:
            return False
        return all(agent["health"] == "ok" for agent in shown)

    try:
        until(shows_all)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Debian's Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM_ARGUMENTS)
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
