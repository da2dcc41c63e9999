"""The report of a fit in a real browser; the page fixture fails on any request to the network or script error."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import DemoRun

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def report(demo: DemoRun) -> Path:
    """The demo's report."""
    return demo.folder / "report.html"


def test_the_report_shows_agents_maps_and_curves_without_a_network(page: "Page", report: Path) -> None:
    page.goto(report.as_uri())
    assert page.title() == "delbo: what the agents learned"
    rows = page.locator("tbody tr")
    assert rows.count() == 4 + 1 + 4  # together, one learner with all data, alone
    assert rows.first.inner_text().startswith("agent-1")
    plots = page.locator(".js-plotly-plot")
    plots.nth(1).locator(".scatterlayer .trace").first.wait_for()
    assert plots.count() == 2
    picture = page.get_by_alt_text("Every agent's map: alone, where compared, and together")
    assert picture.evaluate("image => image.complete && image.naturalWidth > 500")
    assert plots.nth(0).locator(".heatmaplayer .hm").count() == 2  # prediction and variance
    assert plots.nth(1).locator(".scatterlayer .trace").count() == 2 * 4  # two errors of four agents
    titles = plots.nth(0).locator(".annotation-text").all_text_contents()
    assert titles == ["truth: test points", "agent-1: P(label = 1)", "agent-1: variance of the map"]


def test_the_table_fits_a_phone(page: "Page", report: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(report.as_uri())
    page.locator("tbody tr").first.wait_for()
    assert page.locator("table").evaluate("table => table.getBoundingClientRect().right <= innerWidth")
