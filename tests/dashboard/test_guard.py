"""Who is let in, by which name, from which page; and what every answer says to the browser."""

import socket
from urllib.parse import urlsplit

import pytest

from client.dashboard.guard import POLICY, Guard
from tests.dashboard.dashboards import Dashboard

JSON = {"content-type": "application/json"}


def raw(served: Dashboard, request: str) -> tuple[int, str]:
    """Send these very bytes; the status, and everything that comes."""
    parts = urlsplit(served.url)
    assert parts.port is not None
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(request.replace("\n", "\r\n").encode("latin-1"))
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
    return int(answer.split(b" ", 2)[1]), answer.decode("latin-1")


def get(served: Dashboard, host: str) -> int:
    return raw(served, f"GET /livez HTTP/1.1\nhost: {host}\nconnection: close\n\n")[0]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:8080", "10.1.2.3:1", "localhost", "LocalHost:80", "[::1]", "[::1]:8080", "[FE80::1]:99"],
)
def test_numbers_and_localhost_are_let_in(trio: Dashboard, host: str) -> None:
    assert get(trio, host) == 200


@pytest.mark.parametrize(
    "host",
    [
        *("", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("[::1", "[", "::1]", "[evil]", "127.0.0.1.", "1271", "127.0.0.1 evil.example", "\xe9", "localhost.", "@"),
    ],
)
def test_other_names_and_what_is_no_name_are_not(trio: Dashboard, host: str) -> None:
    status, answer = raw(trio, f"GET /api/state HTTP/1.1\nhost: {host}\nconnection: close\n\n")
    assert status in (400, 403)
    assert "agents" not in answer
    assert "content-security-policy" in answer or status == 400  # uvicorn itself refuses what is no HTTP


def test_a_name_that_is_allowed_is_let_in_whatever_its_case() -> None:
    guard = Guard(None, ["Robots.Example"])  # type: ignore[arg-type]
    for host in ("robots.example", "ROBOTS.example:8080", "localhost", "127.0.0.1:1", "[::1]:1"):
        assert guard._refusal("GET", "/", {b"host": host.encode()}) is None
    refused = guard._refusal("GET", "/", {b"host": b"other.example"})
    assert refused is not None
    assert "--allow-host" in refused
    assert "other.example" in refused


def test_a_request_without_a_host_is_not_let_in(trio: Dashboard) -> None:
    assert raw(trio, "GET /api/state HTTP/1.0\n\n")[0] == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://[", "http://127.0.0.1:1", "127.0.0.1", "\xe9", "http://[::1"]
)
def test_foreign_pages_can_do_nothing(trio: Dashboard, origin: str) -> None:
    host = urlsplit(trio.url).netloc
    head = f"POST /api/actions/pause HTTP/1.1\nhost: {host}\norigin: {origin}\nconnection: close\n"
    status, answer = raw(trio, f"{head}content-type: application/json\ncontent-length: 13\n\n" + '{"agents":[]}')
    assert status == 403
    assert "the dashboard's own pages only" in answer
    assert "content-security-policy" in answer


def test_what_changes_something_says_where_it_comes_from_and_is_json(trio: Dashboard) -> None:
    body = b'{"agents": [77]}'  # who is let in learns that there is no such agent
    own = {"origin": trio.url}
    for headers, status in (
        ({**own, **JSON}, 404),
        ({**own, "content-type": "application/json; charset=utf-8"}, 404),
        ({**own, **JSON, "sec-fetch-site": "same-origin"}, 404),
        ({**JSON, "sec-fetch-site": "same-origin"}, 404),
        ({"origin": trio.url.upper().replace("HTTP", "http"), **JSON}, 404),
        (JSON, 403),
        ({**own, **JSON, "sec-fetch-site": "cross-site"}, 403),
        ({**own, **JSON, "sec-fetch-site": "same-site"}, 403),
        ({**JSON, "sec-fetch-site": "none"}, 403),
        ({**own, "content-type": "text/plain"}, 403),
        ({**own, "content-type": "application/x-www-form-urlencoded"}, 403),
        (own, 403),
    ):
        answer = trio.http.post("/api/actions/pause", content=body, headers=headers)
        assert answer.status_code == status, headers
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert trio.http.request(method, "/api/state").status_code == 403


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(
            (path, 200)
            for path in ("/", "/static/app.js", "/static/style.css", "/static/plotly.min.js", "/static/icon.svg")
        ),
        *((path, 200) for path in ("/api/state", "/api/curves", "/livez", "/api/palettes/diverging.png")),
        *(
            ("/api/agents/0/picture" + query, status)
            for query, status in (("", 200), ("?box=1", 422), ("?layer=x", 422))
        ),
        *((path, 404) for path in ("/nothing", "/static/nothing.js", "/static/../app.py", "/api/agents/9/picture")),
        *((path, 404) for path in ("/docs", "/openapi.json", "/redoc", "/static/%2e%2e/app.py")),
    ],
)
def test_every_answer_says_what_its_page_may_load(trio: Dashboard, path: str, status: int) -> None:
    answer = trio.get(path)
    assert answer.status_code == status
    assert answer.headers.get_list("content-security-policy") == [POLICY]
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers


def test_nothing_that_is_loaded_may_come_from_elsewhere() -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert "http" not in POLICY


@pytest.mark.parametrize("path", ["/", "/livez", "/static/app.js", "/static/plotly.min.js", "/api/state"])
def test_head_says_what_get_says_without_the_content(trio: Dashboard, path: str) -> None:
    answer, whole = trio.http.head(path), trio.get(path)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == whole.headers["content-type"]
    if path != "/api/state":
        assert answer.headers["content-length"] == whole.headers["content-length"]
    assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_foreign_pages_cannot_let_agents_work(trio: Dashboard, site: str) -> None:
    for path in ("/api/state", "/api/events", "/api/agents/0/picture"):
        assert trio.get(path, headers={"sec-fetch-site": site}).status_code == 403
    assert trio.get("/", headers={"sec-fetch-site": site}).status_code == 200  # a link leads here
    assert trio.get("/api/state", headers={"sec-fetch-site": "none"}).status_code == 200  # typed by hand
