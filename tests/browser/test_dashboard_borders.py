"""What other pages and programs cannot do through the dashboard."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from tests.browser.acting import ACTIONS, facts
from tests.browser.conftest import Pages
from tests.browser.dashboards import Watched
from tests.processes import free_port

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
