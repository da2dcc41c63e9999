"""What people do through the dashboard, and what it changes at the agents."""

from typing import TYPE_CHECKING, Any

from tests.browser.dashboards import DashboardProcess, set_paused, show, wait
from tests.processes import AgentProcess

if TYPE_CHECKING:
    from playwright.sync_api import Page

ACTIONS: dict[str, Any] = {
    "pause": {"agents": None},
    "resume": {"agents": None},
    "step": {"agents": None},
    "observe": {"agent": 0, "x": [1.0, 1.0], "y": 1},
}


def facts(agents: list[AgentProcess]) -> list[Any]:
    """What actions would change at agents that are paused."""
    found = []
    for agent in agents:
        status = agent.status()
        revision = agent.http.get("/v1/schedule").json()["revision"]
        found.append((revision, status["round"], status["observations"]["collected"]))
    return found


def check_only_reading(page: "Page", agents: list[AgentProcess], dashboard: DashboardProcess) -> None:
    """There are no buttons for what people may not do, and whoever asks for it all the same is refused."""
    set_paused(agents, True)
    before = facts(agents)
    show(page, dashboard, "network")
    wait(page, "() => document.querySelector('#agents tr[data-health=idle]')")
    page.locator("#graph .node").first.click()
    page.locator("#agent-dialog a.button").first.wait_for()
    assert page.locator("[data-action]").count() == 0
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    page.locator(".map canvas[data-tag]").first.wait_for()
    assert page.locator("#post, [data-action]").count() == 0
    for name, body in ACTIONS.items():
        answer = dashboard.act(name, body)
        assert (answer.status_code, "for reading only" in answer.json()["detail"]) == (403, True)
    assert facts(agents) == before
