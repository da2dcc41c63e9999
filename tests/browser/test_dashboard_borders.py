"""Who may do what through the dashboard: its own page, with the roles that it has; and no token leaves its server."""

import http.server
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from service.wire.tokens import read_tokens
from tests.browser.conftest import Pages
from tests.browser.dashboards import (
    DashboardProcess,
    OddlyNamed,
    Watched,
    set_paused,
    show,
    show_maps,
    wait,
)
from tests.processes import AgentProcess, free_port, until

if TYPE_CHECKING:
    from playwright.sync_api import Page, Response

ACTIONS: dict[str, Any] = {
    "pause": {"agents": None},
    "resume": {"agents": None},
    "step": {"agents": None},
    "observe": {"agent": 0, "x": [1.0, 1.0], "y": 1},
}
FOREIGN: dict[str, dict[str, str | None]] = {
    "foreign origin": {"origin": "http://127.0.0.1:1"},
    "null origin": {"origin": "null"},
    "cross-site": {"sec_fetch_site": "cross-site"},
    "another port": {"sec_fetch_site": "same-site"},
    "neither": {"origin": None, "sec_fetch_site": None},
    "form": {"content_type": "application/x-www-form-urlencoded"},
    "plain text": {"content_type": "text/plain"},
    "foreign name": {"host": "evil.example", "origin": "http://evil.example"},
}


def facts(agents: list[AgentProcess]) -> list[Any]:
    """What actions would change at agents that are paused."""
    found = []
    for agent in agents:
        status = agent.status()
        revision = agent.http.get("/v1/schedule").json()["revision"]
        found.append((revision, status["round"], status["observations"]["collected"]))
    return found


def test_what_does_not_come_from_the_own_page_is_refused_and_changes_nothing(watched: Watched) -> None:
    watched.pause()
    before = facts(watched.agents)
    for changes in FOREIGN.values():
        for name, body in ACTIONS.items():
            answer = watched.dashboard.act(name, body, **changes)
            assert answer.status_code == 403, (name, changes)
            assert len(answer.text.splitlines()) == 1
    assert watched.dashboard.http.get("/", headers={"host": "evil.example"}).status_code == 403
    assert facts(watched.agents) == before
    assert watched.dashboard.act("pause", {"agents": None}).status_code == 200  # so the rest of the request is right


@pytest.fixture
def elsewhere(watched: Watched) -> Iterator[str]:
    """A page at another port of this machine, that wants to pause the agents of the dashboard."""
    act = f"{watched.dashboard.url}/api/actions/step"
    content = f"""<!doctype html><link rel="icon" href="data:,">
        <form method="post" enctype="text/plain" action="{act}"><input name='{{"agents":null,"x":"' value='"}}'></form>
        <script>
          const body = JSON.stringify({{ agents: null }});
          const post = (options) => fetch("{act}", {{ method: "POST", body, ...options }}).then(() => "sent", String);
          window.tried = Promise.all([
            post({{ headers: {{ "content-type": "application/json" }} }}),
            post({{ mode: "no-cors" }}),
            post({{ mode: "no-cors", body: new Blob([body], {{ type: "application/json" }}) }}),
            fetch("{watched.dashboard.url}/api/state").then(() => "read", String),
          ]);
        </script>""".encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_of_another_port_can_neither_act_nor_read(pages: Pages, watched: Watched, elsewhere: str) -> None:
    pages.expect_errors("CORS|Failed to load resource|Cross-Origin")
    watched.pause()
    before, page = facts(watched.agents), pages.open()
    page.goto(elsewhere)
    told = page.evaluate("() => window.tried")
    assert "read" not in told
    assert told[0].startswith("TypeError")
    with page.expect_response("**/api/actions/step") as answered:
        page.evaluate("() => document.forms[0].submit()")
    assert answered.value.status == 403
    assert facts(watched.agents) == before


@pytest.mark.parametrize("which", ["no token for it", "--read-only"])
def test_who_may_only_read_finds_no_buttons_and_is_refused(
    page: "Page", watched: Watched, oddly_named: OddlyNamed, which: str
) -> None:
    agents = watched.agents if which == "--read-only" else oddly_named.agents
    dashboard = watched.read_only if which == "--read-only" else oddly_named.reader
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


def test_no_token_reaches_the_browser(page: "Page", oddly_named: OddlyNamed) -> None:
    tokens = [token for of_role in read_tokens(oddly_named.tokens).values() for token in of_role]
    assert len(tokens) == 4
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    set_paused(oddly_named.agents, True)
    show_maps(page, oddly_named.dashboard, observations=True)
    page.locator(".map canvas").first.hover()
    wait(page, "() => document.querySelector('.readout').dataset.at")
    page.click("#actions [data-action=step]")
    page.locator(".toast", has_text="ran a round").wait_for()
    page.keyboard.press("3")
    wait(page, """() => document.querySelector('[data-metric="delbo"]')?.dataset.points > 0""")
    seen = [page.content(), page.evaluate("() => JSON.stringify(localStorage) + document.cookie")]
    paths = set()
    for answer in answers:
        request = answer.request
        paths.add(request.url.removeprefix(oddly_named.dashboard.url).partition("?")[0])
        seen += [str(request.all_headers()), str(answer.all_headers()), request.url, request.post_data or ""]
        if not request.url.endswith("/api/events"):  # it does not end
            seen.append(content_of(answer, oddly_named.dashboard).decode("latin-1"))
    with oddly_named.dashboard.http.stream("GET", "/api/events") as events:
        lines = events.iter_lines()
        seen += [until(lambda: next(line for line in lines if line.startswith("data:")))]
    assert {"/", "/api/events", "/api/recent", "/api/predictions", "/api/curves", "/api/actions/step"} <= paths
    for text in seen:
        assert not any(token in text for token in tokens)
        assert "bearer" not in text.lower()


def content_of(answer: "Response", dashboard: DashboardProcess) -> bytes:
    """What an answer brought; where the browser has not kept it, as of a picture that was the same, asked for again."""
    from playwright.sync_api import Error

    try:
        return answer.body()
    except Error:
        assert answer.request.method == "GET"
        return dashboard.http.get(answer.url).content
