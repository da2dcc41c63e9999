"""The dashboard's network: agents that die, hang and come back; and rounds that people pause, step and resume."""

import signal
from typing import TYPE_CHECKING

from tests.browser.dashboards import Watched, colors, pixels, show, show_maps, wait
from tests.processes import AgentProcess, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

HEALTH = """() => Object.fromEntries([...document.querySelectorAll('#agents tr[data-agent]')].map(
    (row) => [row.dataset.agent, row.dataset.health]))"""

# "a1 takes from a2": "fresh"
EDGES = """() => Object.fromEntries([...document.querySelectorAll('#graph .edge')].map(
    (edge) => [edge.querySelector('title').textContent.split(':')[0], edge.dataset.state]))"""


def send(agent: AgentProcess, number: signal.Signals) -> None:
    """A signal to the agent's process."""
    assert agent.process is not None
    agent.process.send_signal(number)


def test_agents_that_die_or_hang_are_shown_so_with_their_last_maps_until_they_are_back(
    page: "Page", watched: Watched
) -> None:
    watched.let_run()
    _, mortal, sleeper = watched.agents
    show_maps(page, watched.dashboard)
    try:
        send(sleeper, signal.SIGSTOP)
        mortal.kill()
        for number in (1, 2):
            card = page.locator(f'.map[data-agent="{number}"][data-old=true]')
            card.locator(".badge", has_text="old: unreachable").wait_for()
            assert colors(page, number) > 20  # the last map stays
        assert page.get_attribute('.map[data-agent="0"]', "data-old") == "false"

        page.keyboard.press("1")
        until(lambda: page.evaluate(HEALTH) == {"0": "ok", "1": "unreachable", "2": "unreachable"})
        page.locator('#agents tr[data-agent="1"] .state', has_text="unreachable").wait_for()
        page.locator('#agents tr[data-agent="1"] .reason', has_text="last seen").wait_for()
        page.locator('#graph .node[data-agent="2"][data-health=unreachable]').wait_for()
        page.locator("#summary", has_text="1 of 3 agents answer").wait_for()
        for neighbor in ("a2", "a3"):
            until(lambda neighbor=neighbor: page.evaluate(EDGES)[f"a1 takes from {neighbor}"] == "unreachable")  # type: ignore[misc]
        assert page.evaluate(EDGES)["a2 takes from a1"] == "unknown"
    finally:
        send(sleeper, signal.SIGCONT)
        mortal.start()

    until(lambda: set(page.evaluate(HEALTH).values()) == {"ok"})
    until(lambda: set(page.evaluate(EDGES).values()) == {"fresh"})
    assert page.locator('#graph .node[data-health="ok"]').count() == 3
    page.keyboard.press("2")
    wait(page, "() => [...document.querySelectorAll('.map')].every((card) => card.dataset.old === 'false')")
    before = pixels(page, 1)
    assert mortal.post([[1.2, 1.2]] * 10, [0] * 10).status_code == 200
    until(lambda: (pixels(page, 1) != before).any())


def test_pause_step_and_resume_are_for_all_agents(page: "Page", watched: Watched) -> None:
    watched.let_run()
    show(page, watched.dashboard, "network")
    bar = page.locator("#actions")
    bar.get_by_role("button", name="Pause all").click()
    page.locator(".toast", has_text="a1, a2, a3: paused").wait_for()
    for agent in watched.agents:
        assert agent.status()["schedule"]["paused"]
        until(lambda agent=agent: agent.status()["phase"] == "paused")  # type: ignore[misc]
    page.locator("#summary", has_text="paused").wait_for()
    rounds = [agent.status()["round"] for agent in watched.agents]

    bar.get_by_role("button", name="Step all").click()
    page.locator(".toast", has_text="a1, a2, a3: ran a round").wait_for()
    stepped = [agent.status()["round"] for agent in watched.agents]
    assert stepped == [number + 1 for number in rounds]  # that round, and none before or after it

    bar.get_by_role("button", name="Resume all").click()
    page.locator(".toast", has_text="a1, a2, a3: goes on").wait_for()
    for agent, number in zip(watched.agents, stepped, strict=True):
        until(lambda agent=agent, number=number: agent.status()["round"] > number + 1)  # type: ignore[misc]
    until(lambda: bar.get_by_role("button", name="Step all").is_disabled())


def test_pause_step_and_resume_are_for_one_agent_in_its_dialog(page: "Page", watched: Watched) -> None:
    watched.let_run()
    show(page, watched.dashboard, "network")
    page.locator("#agents").get_by_role("button", name="a2").click()
    dialog, agent = page.locator("#agent-dialog"), watched.agents[1]
    dialog.get_by_role("button", name="Pause").click()
    until(lambda: agent.status()["phase"] == "paused")
    number = agent.status()["round"]
    assert [one.status()["schedule"]["paused"] for one in watched.agents] == [False, True, False]
    page.locator('#agents tr[data-agent="1"] .state[data-health=idle]').wait_for()

    dialog.get_by_role("button", name="Step").click()
    page.locator(".toast", has_text="a2: ran a round").wait_for()
    assert agent.status()["round"] == number + 1
    dialog.locator("dd", has_text=f"{number + 1:,} of epoch 1").wait_for()

    dialog.get_by_role("button", name="Resume").click()
    until(lambda: agent.status()["round"] > number + 1)
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()
