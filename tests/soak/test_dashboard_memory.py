"""Ten minutes with the dashboard of ten large agents, used all the time: nobody's memory grows."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import note_errors
from tests.processes import AgentProcess
from tests.soak.ten_agents import chromium, dashboard_of, open_maps, resident_bytes, ten_agents

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.thorough  # `make test-dashboard` runs it

MINUTES = float(os.environ.get("DELBO_SOAK_MINUTES", "10"))
ROUNDS = max(6, round(6 * MINUTES))  # of looking at everything, ten seconds each
MB = 2**20

# What the second half may have more than the first, once caches are full: a few per cent, and what noise makes of small
# numbers. Chromium is a dozen processes, whose sum jumps by tens of MB when one of them is started or makes room.
# Pictures that are kept would be far more: each look at everything brings some 60 of them, 360 kB each when drawn.
SHARES, NOISE = {"dashboard": 0.05, "scripts": 0.05, "browser": 0.15, "agents": 0.05}, 12 * MB


def test_memory_is_flat_while_people_look_at_everything(tmp_path: Path) -> None:
    samples: list[dict[str, float]] = []
    with (
        ten_agents(tmp_path) as agents,
        dashboard_of(agents, tmp_path / "dashboard.log") as (url, pid),
        chromium() as browser,
    ):
        page = open_maps(browser, url)
        errors = note_errors(page.context)
        for _ in range(ROUNDS):
            look_at_everything(page)
            samples.append({"dashboard": resident_bytes(pid), **memory_of(browser, page), "agents": total(agents)})
        assert errors == []
    settled = samples[len(samples) // 5 :]  # caches and just-in-time compilers have their fill by then
    half = len(settled) // 2
    for what, share in SHARES.items():
        before, after = (statistics.median(one[what] for one in part) for part in (settled[:half], settled[half:]))
        print(f"{what}: {before / MB:,.1f} and {after / MB:,.1f} MB, of {[round(one[what] / MB) for one in samples]}")
        assert after <= before * (1 + share) + NOISE, f"{what}: {[round(one[what] / MB, 1) for one in samples]} MB"


def look_at_everything(page: "Page") -> None:
    """About ten seconds: all layers, moving, zooming, values at points, the network, curves."""
    for layer in ("variance", "entropy", "disagreement", "expected"):
        page.locator(f"#maps-tools button[data-value={layer}]").click()
        page.wait_for_timeout(1000)
    box = page.locator(".map canvas").nth(3).bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.wheel(0, -800)
    page.mouse.down()
    for step in range(20):
        page.mouse.move(middle[0] + 2 * step, middle[1] + step)
    page.mouse.up()
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Show all of the map").click()
    for view in ("network", "curves", "maps"):
        page.locator(f"nav [data-view={view}]").click()
        page.wait_for_timeout(1500)


def memory_of(browser: "Browser", page: "Page") -> dict[str, float]:
    """What the page's scripts hold after a collection, and what Chromium's processes have."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    whole = browser.new_browser_cdp_session()
    processes = whole.send("SystemInfo.getProcessInfo")["processInfo"]
    whole.detach()
    return {"scripts": used, "browser": sum(resident_bytes(int(one["id"])) for one in processes)}


def total(agents: Sequence[AgentProcess]) -> float:
    """What all agents have."""
    return sum(resident_bytes(agent.process.pid) for agent in agents if agent.process is not None)
