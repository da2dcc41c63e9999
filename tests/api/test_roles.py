"""Who gets in: every endpoint with a token of every role, and with none; tokens that come, go and are replaced."""

import hmac
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from fastapi import FastAPI

from client.agent_client import AgentClient
from client.retries import NO_PATIENCE
from service.agent.tokens import Tokens
from service.api import app as application
from service.errors import AgentRefusedError
from service.wire.roles import ROLES
from tests.api.line_stream import LineStream, lines_of
from tests.api.test_process import MODEL, X, Y
from tests.processes import AgentProcess, Agents, agent_factory, problem, until

# What the API promises, written down once more: nobody shall change it by changing the code's own table.
ENDPOINTS = {
    "PUT /v1/model": "control",
    "PUT /v1/neighbors": "control",
    "PUT /v1/schedule": "control",
    "PUT /v1/verification": "control",
    "POST /v1/rounds": "control",
    "POST /v1/observations": "ingest",
    "GET /v1/observations": "ingest",
    "GET /v1/streams": "ingest",
    "GET /v1/parameters": "peer",
    "GET /v1/model": "read",
    "GET /v1/neighbors": "read",
    "GET /v1/schedule": "read",
    "GET /v1/belief": "read",
    "GET /v1/status": "read",
    "GET /v1/history": "read",
    "GET /v1/verification": "read",
    "POST /v1/predictions": "read",
    "GET /v1/map": "read",
    "GET /v1/events": "read",
    "GET /v1/metrics": None,
    "GET /metrics": None,
    "GET /v1/livez": None,
    "GET /v1/readyz": None,
    "GET /livez": None,
    "GET /readyz": None,
    "GET /docs": None,
    "GET /openapi.json": None,
}
TOKENS: dict[str, str] = {role: f"{role}-token-of-{role}" for role in ROLES}
NOT_IN = ("", "Bearer", "Bearer unknown-token-of-nobody", "Basic cmVhZDpyZWFk", f"Digest {TOKENS['read']}")


def write_tokens(folder: Path, **tokens: str) -> Path:
    """A folder with these tokens, several of a role with spaces between."""
    folder.mkdir(exist_ok=True)
    for role, text in tokens.items():
        (folder / role).write_text(text.replace(" ", "\n") + "\n")
    return folder


def ask(agent: AgentProcess, endpoint: str, authorization: str | None, **more: str) -> httpx2.Response:
    method, path = endpoint.split()
    headers = {**more, **({} if authorization is None else {"authorization": authorization})}
    body = None if method == "GET" else {"revision": "?"}
    with agent.http.stream(method, path, headers=headers, json=body) as answer:
        if answer.headers.get("content-type") != "text/event-stream":  # which has no end
            answer.read()
        return answer


def bearer(role: str) -> str:
    return f"Bearer {TOKENS[role]}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent with a token for each role."""
    folder = tmp_path_factory.mktemp("guarded")
    for start in agent_factory(folder):
        yield start("a1", "--tokens", write_tokens(folder / "tokens", **TOKENS))


@pytest.mark.parametrize("role", [*ROLES, None])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_endpoint_lets_in_the_role_that_it_is_for_and_no_other(
    guarded: AgentProcess, endpoint: str, role: str | None
) -> None:
    answer = ask(guarded, endpoint, None if role is None else bearer(role))
    wanted = ENDPOINTS[endpoint]
    if wanted is None or role == wanted:
        assert answer.status_code not in (401, 403)
    elif role is None:
        assert problem(answer) == (401, "token-needed")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert wanted in answer.json()["detail"]
    else:
        assert problem(answer) == (403, "wrong-role")
        assert f"for {role}; this is for {wanted}" in answer.json()["detail"]


@pytest.mark.parametrize("authorization", NOT_IN)
@pytest.mark.parametrize("endpoint", [endpoint for endpoint, role in ENDPOINTS.items() if role is not None])
def test_nobody_gets_in_with_something_else_than_a_token(
    guarded: AgentProcess, endpoint: str, authorization: str
) -> None:
    assert problem(ask(guarded, endpoint, authorization)) == (401, "token-needed")


@pytest.mark.parametrize("more", [{}, {"x-odd": "1"}], ids=["short way", "uvicorn's"])
def test_both_ways_to_the_parameters_have_the_same_guard(guarded: AgentProcess, more: dict[str, str]) -> None:
    answers: dict[str | None, int] = {}
    for role in (*ROLES, None):
        lines = ["Accept: */*", *(f"{name}: {value}" for name, value in more.items())]
        lines += [] if role is None else [f"Authorization: bearer  {TOKENS[role]}"]
        with socket.create_connection(("127.0.0.1", guarded.port)) as connection:
            request = "\r\n".join(["GET /v1/parameters HTTP/1.1", "Host: a", *lines, "", ""])
            connection.sendall(request.encode())
            answers[role] = int(connection.makefile("rb").readline().split()[1])
    assert answers == {"peer": 409, "ingest": 403, "read": 403, "control": 403, None: 401}  # 409: it has no model


def test_the_table_of_this_test_has_every_endpoint_of_the_api(guarded: AgentProcess) -> None:
    document = guarded.http.get("/openapi.json").json()
    told = {
        f"{method.upper()} {path}": operation["tags"][0] if operation["security"] else None
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert told == {endpoint: role for endpoint, role in ENDPOINTS.items() if endpoint in told}
    unseen = set(ENDPOINTS) - set(told)
    assert unseen == {"GET /livez", "GET /readyz", "GET /metrics", "GET /docs", "GET /openapi.json"}


def test_an_endpoint_without_a_role_keeps_the_application_from_starting() -> None:
    forgetful = FastAPI(docs_url=None, redoc_url=None)

    @forgetful.get("/v1/secrets")
    async def get_secrets() -> None: ...

    with pytest.raises(RuntimeError, match="/v1/secrets"):
        application._check_all_known(forgetful.routes)
    outer = FastAPI(docs_url=None, redoc_url=None)
    outer.mount("/v1", forgetful)
    with pytest.raises(RuntimeError, match="no role"):
        application._check_all_known(outer.routes)


SPELLINGS = ["{}/", "/{}", "{}%0A", "{}%0D", "{}%0D%0A", "{}%0A%0A", "{}%00", "{}%20", "{}%3F", "{}%23", "{};", "{}//"]
SPELLINGS += ["/.{}", "/v1/..{}", "http://a{}%0A", "%2F{}", "{}%C2%85", "{}%E2%80%A8"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("endpoint", [endpoint for endpoint, role in ENDPOINTS.items() if role is not None])
def test_no_other_spelling_of_an_address_leads_past_the_guard(
    guarded: AgentProcess, endpoint: str, spelling: str
) -> None:
    """Of all methods, with the guard's own and all others; %0A once did: a router's `$` also matches before it."""
    method, path = endpoint.split()
    body = '{"revision": 1}'
    with socket.create_connection(("127.0.0.1", guarded.port)) as connection:
        head = f"{method} {spelling.format(path)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        connection.sendall(
            f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        answer = connection.makefile("rb").read()
    assert int(answer.split()[1]) in (400, 401, 404)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PATCH", "DELETE", "get"])
@pytest.mark.parametrize("path", ["/v1/status", "/v1/parameters", "/v1/observations", "/v1/model"])
def test_no_other_method_gets_in(guarded: AgentProcess, method: str, path: str) -> None:
    with socket.create_connection(("127.0.0.1", guarded.port)) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        assert int(connection.makefile("rb").read().split()[1]) in (400, 405)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("token", "slug"), [("unknown-token-of-nobody", "token-needed"), (TOKENS["peer"], "wrong-role")]
)
async def test_who_sends_a_large_body_and_is_refused_gets_to_know_why(
    guarded: AgentProcess, token: str, slug: str
) -> None:
    """A connection that is closed while bytes are unread is reset, and takes the answer with it."""
    x = np.zeros((300_000, 2))  # 7 MB
    async with AgentClient(guarded.url, NO_PATIENCE, tokens=token) as client:
        for _ in range(5):
            with pytest.raises(AgentRefusedError) as refused:
                await client.post(x, x[:, 0])
            assert refused.value.slug == slug


def test_who_asks_before_sending_is_refused_before_sending(guarded: AgentProcess) -> None:
    with socket.create_connection(("127.0.0.1", guarded.port)) as connection:
        lines = ["POST /v1/observations HTTP/1.1", "Host: a", "Content-Length: 1000000", "Expect: 100-continue", "", ""]
        connection.sendall("\r\n".join(lines).encode())
        answer = connection.makefile("rb").read()  # to its end: the agent closes, and waits for nothing
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_what_is_refused_has_changed_nothing_and_is_not_read(guarded: AgentProcess) -> None:
    for role in ("peer", "ingest", "read"):
        headers = {"authorization": bearer(role)}
        answer = guarded.http.put("/v1/model", json={"revision": 1, "model": MODEL}, headers=headers)
        assert answer.status_code == 403
        assert answer.headers["connection"] == "close"  # a body of any size may still be on its way
    answer = guarded.http.get("/v1/model", headers={"authorization": bearer("read")})
    assert problem(answer) == (409, "no-model")


def test_one_token_may_be_for_several_roles_and_a_role_may_have_several_tokens(agents: Agents, tmp_path: Path) -> None:
    both, second = "a-token-for-two-roles", "another-for-reading"
    agent = agents("a1", "--tokens", write_tokens(tmp_path / "tokens", read=f"{both} {second}", control=both))

    def statuses(token: str) -> list[int]:
        return [
            ask(agent, endpoint, f"Bearer {token}").status_code
            for endpoint in ("GET /v1/status", "PUT /v1/model", "POST /v1/observations")
        ]

    assert statuses(both) == [200, 422, 403]
    assert statuses(second) == [200, 403, 403]


def test_tokens_are_read_again_without_a_restart_and_what_cannot_be_read_changes_nothing(
    agents: Agents, tmp_path: Path
) -> None:
    folder = write_tokens(tmp_path / "tokens", read="the-first-of-the-tokens", control=TOKENS["control"])
    agent = agents("a1", "--tokens", folder)

    def status(token: str) -> int:
        return ask(agent, "GET /v1/status", f"Bearer {token}").status_code

    write_tokens(folder, read="the-first-of-the-tokens the-second-of-the-tokens")
    until(lambda: status("the-second-of-the-tokens") == 200)
    assert status("the-first-of-the-tokens") == 200
    (folder / "read").write_text("")  # as who copies a file leaves it for a moment
    until(lambda: "stay in force" in agent.log.read_text())
    assert status("the-first-of-the-tokens") == status("the-second-of-the-tokens") == 200
    write_tokens(folder, read="the-second-of-the-tokens")
    until(lambda: status("the-first-of-the-tokens") == 401)
    assert status("the-second-of-the-tokens") == 200
    (folder / "read").unlink()
    until(lambda: status("the-second-of-the-tokens") == 401)
    assert ask(agent, "GET /v1/status", bearer("control")).status_code == 403
    log = agent.log.read_text()
    assert log.count("stay in force") == 1  # not once a second
    assert not re.search(r"the-(first|second)|control-token", log)


def test_a_stream_ends_when_its_token_is_taken_back(agents: Agents, tmp_path: Path) -> None:
    folder = write_tokens(tmp_path / "tokens", **TOKENS)
    agent = agents("a1", "--tokens", folder)
    agent.http.headers["authorization"] = bearer("control")
    agent.put("model", {"revision": 1, "model": MODEL})
    with LineStream(agent, True, TOKENS["ingest"], client="robot", sequence=0) as stream:
        stream.send(lines_of(X[:1], Y[:1]))
        assert stream.read_head() == 200
        assert stream.read_line() == {"stored": 1}
        (folder / "ingest").write_text("another-token-for-ingest\n")
        until(lambda: ask(agent, "GET /v1/streams", bearer("ingest")).status_code == 401)
        stream.send(lines_of(X[1:2], Y[1:2]))
        last = stream.read_line()
    assert (last["status"], last["stored"]) == (401, 1)
    agent.http.headers["authorization"] = bearer("read")
    assert agent.status()["observations"]["collected"] == 1


def test_peers_need_one_anothers_tokens_and_find_together_once_they_have_them(agents: Agents, tmp_path: Path) -> None:
    folders = [write_tokens(tmp_path / name, **TOKENS | {"peer": f"peer-token-of-{name}"}) for name in ("b1", "b2")]
    pair = [agents(f"a{number}", "--tokens", folder) for number, folder in enumerate(folders)]
    for index, (agent, other) in enumerate(zip(pair, reversed(pair), strict=True)):
        agent.http.headers["authorization"] = bearer("control")
        agent.put("model", {"revision": 1, "model": MODEL})
        neighbors = [{"name": other.name, "url": other.url, "weight": 0.5}]
        agent.put("neighbors", {"epoch": 1, "agents": 2, "index": index, "own_weight": 0.5, "neighbors": neighbors})
        agent.put("schedule", {"revision": 1, "when_short": "go", "period_s": 0})
        agent.http.headers["authorization"] = bearer("read")

    def link(agent: AgentProcess) -> dict[str, Any]:
        return dict(agent.status()["neighbors"][0])

    until(lambda: all(link(agent)["reason"] == "it answered 401 token-needed" for agent in pair))
    assert [agent.status()["round"] for agent in pair] == [0, 0]
    write_tokens(folders[1], peer=(folders[0] / "peer").read_text().strip())
    until(lambda: all(agent.status()["round"] > 3 for agent in pair))
    assert [link(agent)["state"] for agent in pair] == ["fresh", "fresh"]


@pytest.mark.parametrize("host", ["0.0.0.0", ""])
def test_an_agent_refuses_to_be_reached_by_others_without_tokens(host: str, tmp_path: Path) -> None:
    agent = AgentProcess("a1", tmp_path / "a1", "--host", host)
    try:
        agent.launch()
        assert agent.process is not None
        assert agent.process.wait(60) == 1
    finally:
        agent.close()
    said = agent.log.read_text()
    assert said.count("\n") == 1
    assert "--tokens" in said
    assert "--insecure" in said
    assert not (tmp_path / "a1").exists()  # it did not begin


@pytest.mark.parametrize("options", [("--insecure",), ("--tokens", "tokens")], ids=["insecure", "tokens"])
def test_an_agent_is_open_to_others_if_that_is_said_or_it_has_tokens(
    agents: Agents, tmp_path: Path, options: tuple[str, ...]
) -> None:
    folder = write_tokens(tmp_path / "tokens", **TOKENS)
    agent = agents("a1", "--host", "0.0.0.0", *(str(folder) if text == "tokens" else text for text in options))
    assert agent.http.get("/v1/status").status_code == (200 if options == ("--insecure",) else 401)


def test_every_known_token_is_compared_whatever_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each comparison is hmac's, which takes as long for a near miss as for any other."""
    tokens = Tokens(write_tokens(tmp_path / "tokens", **TOKENS | {"read": "first-for-reading second-for-reading"}))
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr("service.agent.tokens.hmac", type("Hmac", (), {"compare_digest": staticmethod(compare)}))
    for token, roles in ((TOKENS["peer"], {"peer"}), ("second-for-reading", {"read"}), ("unknown", set())):
        compared.clear()
        assert tokens.roles_of(token) == roles
        assert len(compared) == 5
        assert {len(part) for pair in compared for part in pair} == {32}
