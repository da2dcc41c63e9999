"""The dashboard when something is missing: rights, pushed news, its server, agents, models, or maps."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.browser.acting import check_only_reading
from tests.browser.conftest import Pages
from tests.browser.dashboards import DashboardProcess, Watched, show, urls_of, wait
from tests.processes import AgentProcess, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

CONNECTION = "() => document.body.dataset.connection"
ROUNDS = "() => Number(document.querySelector('#agents td[data-label=Round]').textContent.replaceAll(',', ''))"


@pytest.mark.parametrize("how", ["cut off", "too busy"])
def test_without_pushed_news_the_page_asks_for_them(pages: Pages, watched: Watched, how: str) -> None:
    pages.expect_errors("Failed to load resource|api/events")
    watched.let_run()
    page = pages.open()
    page.route(
        "**/api/events", lambda route: route.abort() if how == "cut off" else route.fulfill(status=503, body="busy")
    )
    show(page, watched.dashboard, "network")
    until(lambda: page.evaluate(CONNECTION) == "polling")
    before = page.evaluate(ROUNDS)
    until(lambda: page.evaluate(ROUNDS) > before)
    assert page.evaluate(CONNECTION) == "polling"


@pytest.fixture(scope="module")
def read_only(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardProcess]:
    """Another dashboard of the same agents, that is for looking only."""
    log = tmp_path_factory.mktemp("read-only") / "dashboard.log"
    dashboard = DashboardProcess(log, *urls_of(watched.agents), "--read-only")
    try:
        yield dashboard.launch().wait_ready()
    finally:
        dashboard.close()


def test_a_dashboard_for_reading_only_has_no_buttons_and_refuses(
    page: "Page", watched: Watched, read_only: DashboardProcess
) -> None:
    check_only_reading(page, watched.agents, read_only)


def test_a_page_whose_server_is_gone_says_so_and_goes_on_when_it_is_back(
    pages: Pages, watched: Watched, read_only: DashboardProcess
) -> None:
    pages.expect_errors("Failed to load resource|ERR_")
    watched.let_run()
    page = pages.open()
    show(page, read_only, "network")
    until(lambda: page.evaluate(CONNECTION) == "live")
    read_only.kill()
    until(lambda: page.evaluate(CONNECTION) == "lost")
    assert page.locator("#connection").inner_text() == "no connection to the dashboard's server"
    before = page.evaluate(ROUNDS)
    read_only.launch().wait_ready()
    until(lambda: page.evaluate(CONNECTION) == "live")
    until(lambda: page.evaluate(ROUNDS) > before)


def lattice(dimension: int) -> dict[str, Any]:
    """A small regression model of so many coordinates."""
    features = {"kind": "lattice", "spacing": 1.0, "lengthscale": 0.8}
    features |= {"lower": [0] * dimension, "upper": [3] * dimension}
    likelihood = {"kind": "gaussian", "precision": 10.0}
    return {"features": features, "family": "diagonal", "prior": {"information": 1.0}, "likelihood": likelihood}


def load(agent: AgentProcess, dimension: int) -> None:
    """Give it that model, and let it run."""
    agent.put("model", {"revision": 1, "model": lattice(dimension)})
    agent.put("schedule", {"revision": 1, "exchange": "latest", "period_s": 0.05})


BAND = """() => {
    const chart = document.getElementById('lines-chart');
    if (chart.data?.length !== 2) return null;
    const [band, line] = chart.data;
    const count = line.x.length;
    return { x: line.x, middle: line.y, high: band.y.slice(0, count), low: band.y.slice(count).reverse() };
}"""


def band(page: "Page") -> Any:
    """The line and its band, as arrays."""
    return {name: np.array(values) for name, values in wait(page, BAND).items()}


@pytest.mark.thorough
def test_an_agent_that_starts_gets_a_model_and_learns_is_shown_all_the_way(page: "Page", tmp_path: Path) -> None:
    """No agent; one without a model; one coordinate: a function; then another agent with three: parameters."""
    agent = AgentProcess("one", tmp_path / "one")
    other = AgentProcess("three", tmp_path / "three")
    other.port, other.url, other.http.base_url = agent.port, agent.url, agent.http.base_url
    dashboard = DashboardProcess(tmp_path / "dashboard.log", "--agent", agent.url)
    try:
        dashboard.launch().wait_ready()
        show(page, dashboard, "network")
        page.locator("#summary", has_text="No agent answers. Start them with delbo up").wait_for()
        page.locator('#agents tr[data-health="unreachable"]').wait_for()
        page.keyboard.press("2")
        empty = page.locator("#maps-empty", has_text="No agent has a model yet")
        empty.wait_for()

        agent.start()
        page.locator("#summary", has_text="1 agent").wait_for()
        assert empty.is_visible()

        load(agent, 1)
        before = band(page)
        assert not page.locator("#maps-empty").is_visible()
        assert (before["high"] > before["middle"]).all()
        assert agent.post([[1.0]] * 20, [2.0] * 20).status_code == 200
        near = np.abs(before["x"] - 1.0).argmin()
        until(lambda: band(page)["middle"][near] > 1)
        after = band(page)
        width_before, width_after = (one["high"] - one["low"] for one in (before, after))
        assert width_after[near] < width_before[near]
        assert after["high"][near] > 1.5 > after["low"][near] - 1
        page.click('#maps-tools [data-value="function"]')
        until(lambda: (band(page)["high"] - band(page)["low"])[near] < width_after[near])  # without the noise

        agent.kill()
        other.start()
        load(other, 3)
        page.locator("#maps-help", has_text="This model has no map").wait_for()
        count = other.http.get("/v1/belief").json()["parameters"]
        assert count > 60
        until(lambda: len(band(page)["x"]) == count)
        assert page.locator("#post, #maps-tools button").count() == 0
        before = band(page)
        assert other.post([[1.0, 2.0, 1.0]] * 20, [3.0] * 20).status_code == 200
        until(lambda: (np.abs(band(page)["middle"] - before["middle"]) > 0.1).any())
        assert (band(page)["high"] - band(page)["low"] <= before["high"] - before["low"] + 1e-6).all()
    finally:
        page.close()  # or it would miss its server
        for process in (agent, other, dashboard):
            process.close()
