"""The short way for peers, byte by byte over raw sockets: whatever else comes on the connection is answered too."""

import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.processes import PATIENCE_S, AgentProcess, Agents, agent_factory, until

LATTICE = {"kind": "lattice", "spacing": 0.5, "lengthscale": 0.4, "lower": [0, 0], "upper": [2, 2]}
MODEL: dict[str, Any] = {"features": LATTICE, "prior": {"information": 0.5}, "likelihood": "probit"}
X, Y = np.linspace(0, 2, 20).reshape(10, 2), np.arange(10) % 2
SLOW = "X-Odd: 1"  # makes uvicorn take over
SHOWN = 4  # rounds; two of them are kept


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """A raw connection to an agent."""

    def __init__(self, agent: AgentProcess) -> None:
        self.socket = socket.create_connection(("127.0.0.1", agent.port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.stream.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, head_only: bool = False) -> Answer:
        """One answer: all of the agent's have a length."""
        status = int(self.stream.readline().split(b" ")[1])
        headers: dict[str, str] = {}
        while line := self.stream.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name] = value
        return Answer(status, headers, b"" if head_only else self.stream.read(int(headers["content-length"])))

    def ask(self, target: str, *lines: str) -> Answer:
        self.send(request(target, *lines))
        return self.read()

    def is_closed(self) -> bool:
        return self.stream.read(1) == b""


def request(target: str, *lines: str, start: str = "GET {} HTTP/1.1") -> bytes:
    return "\r\n".join([start.format(target), "Host: agent", *lines, "", ""]).encode("latin-1")


def parameters(query: str = "", *lines: str, start: str = "GET {} HTTP/1.1") -> bytes:
    return request(f"/v1/parameters{query}", *lines, start=start)


def load(agent: AgentProcess) -> AgentProcess:
    agent.put("model", {"revision": 1, "model": MODEL})
    agent.put("neighbors", {"epoch": 1, "own_weight": 1.0, "history": 2})
    agent.put("schedule", {"revision": 1, "observations_per_round": 2, "when_short": "go", "paused": True})
    assert agent.post(X, Y).status_code == 200
    return agent


def step(agent: AgentProcess, count: int = 1) -> None:
    assert agent.http.post("/v1/rounds", json={"rounds": count}).json()["complete"]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """Shows round 4 of epoch 1, and keeps round 3."""
    for start in agent_factory(tmp_path_factory.mktemp("peers")):
        made = load(start("a1"))
        step(made, SHOWN)
        yield made


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """For tests that run rounds."""
    for start in agent_factory(tmp_path_factory.mktemp("stepped")):
        yield load(start("a1"))


def newest(agent: AgentProcess) -> int:
    return int(agent.status()["round"])


def descriptors(agent: AgentProcess) -> int:
    assert agent.process is not None
    return len(list(Path(f"/proc/{agent.process.pid}/fd").iterdir()))


def resident_bytes(agent: AgentProcess) -> int:
    assert agent.process is not None
    return int(Path(f"/proc/{agent.process.pid}/statm").read_text().split()[1]) * 4096


# The short way and the long way.


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 200),
        ("?", 200),
        ("?round=4", 200),
        ("?epoch=1&round=3&wait_s=5", 200),
        ("?precision=float32", 200),
        ("?precision=float64&epoch=1&round=4", 200),
        ("?round=5", 404),
        ("?round=5&wait_s=0.01", 404),
        ("?epoch=2&round=0", 404),
        ("?round=0", 410),
        ("?epoch=0&round=0", 410),
        ("?round=x", 400),
        ("?round=-1", 400),
        ("?epoch=1", 400),
        ("?wait_s=nan", 400),
        ("?wait_s=31", 400),
        ("?precision=float16", 400),
        ("?colour=red", 400),
        ("?round=%34", 400),
        ("?round=4#fragment", 200),
        ("?round=\xff", 400),
        ("?round=\x01", 400),
        ("s", 404),
        ("/", 404),
    ],
)
def test_both_ways_give_the_same_answer(agent: AgentProcess, query: str, status: int) -> None:
    with Connection(agent) as short, Connection(agent) as long:
        answers = [short.ask(f"/v1/parameters{query}"), long.ask(f"/v1/parameters{query}", SLOW)]
    assert answers[0] == answers[1]
    assert answers[0].status == status
    if status == 200:
        assert set(answers[0].headers) == {"content-type", "etag", "content-length"}


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ("If-None-Match: {}", 304),
        ("if-none-match:{}", 304),
        ("IF-NONE-MATCH:   {}", 304),
        ('If-None-Match: "other"', 200),
        ("If-None-Match:", 200),
        ('If-None-Match: "x"\r\nIf-None-Match: {}', 200),
        ("If-None-Match: {}\r\nIf-None-Match: y", 304),
        ("If-None-Match: {}  ", None),
        ("If-None-Match: \x00{}", 400),
        ("Accept: a\nb", 400),
        ("Accept: a\rb", 400),
        ("Accept : a", 400),
        ("Accept", 400),
        ("User-Agent: \xe9", 200),
    ],
)
def test_both_ways_read_headers_alike(agent: AgentProcess, value: str, status: int | None) -> None:
    etag = agent.http.get("/v1/parameters").headers["etag"]
    with Connection(agent) as short, Connection(agent) as long:
        line = value.format(etag)
        answers = [short.ask("/v1/parameters", line), long.ask("/v1/parameters", line, SLOW)]
    assert answers[0] == answers[1]
    assert status in (answers[0].status, None)
    if status == 304:
        assert answers[0] == Answer(304, {"etag": etag, "content-length": "0"}, b"")


@pytest.mark.parametrize(
    ("lines", "start", "status", "closes"),
    [
        ((), "HEAD {} HTTP/1.1", 405, False),
        (("Content-Length: 2", "", "hi"), "POST {} HTTP/1.1", 405, True),  # the body is not looked at
        (("Connection: close",), "GET {} HTTP/1.1", 200, True),
        ((), "GET {} HTTP/1.0", 200, True),
        (("Expect: 100-continue",), "GET {} HTTP/1.1", 200, False),
        (("Accept-Encoding: gzip",), "GET {} HTTP/1.1", 200, False),
        (("Content-Length: 2", "", "hi"), "GET {} HTTP/1.1", 200, False),
        ((), "get {} HTTP/1.1", 400, True),
        ((), "GET {} HTTP/3.7", 400, True),
    ],
    ids="HEAD POST close 1.0 expect encoding body lower-case version".split(),
)
def test_what_is_not_plain_is_served_by_uvicorn(
    agent: AgentProcess, lines: tuple[str, ...], start: str, status: int, closes: bool
) -> None:
    body = agent.http.get("/v1/parameters").content
    with Connection(agent) as connection:
        assert connection.ask("/v1/parameters").body == body
        data = parameters("", *lines, start=start)
        connection.send(data[:-4] if lines and lines[-1] == "hi" else data)
        answer = connection.read(head_only=start.startswith("HEAD"))
        assert answer.status == status
        if status == 200:
            assert answer.body == body
        if closes:
            assert connection.is_closed()
        else:
            assert connection.ask("/v1/parameters").body == body


# What comes in pieces, and what comes at once.


def test_other_endpoints_share_the_connection(agent: AgentProcess) -> None:
    with Connection(agent) as connection:
        for target in ("/v1/parameters", "/v1/parameters", "/v1/livez", "/v1/parameters", "/v1/nothing", "/v1/status"):
            answer = connection.ask(target)
            assert answer.status == (404 if target == "/v1/nothing" else 200)
            assert ("etag" in answer.headers) == (target == "/v1/parameters")
        connection.send(b"\r\n" + parameters())
        assert connection.read().status == 200


@pytest.mark.parametrize("size", [1, 7, 30])
@pytest.mark.parametrize("before", [0, 1])
def test_a_request_may_come_in_fragments(agent: AgentProcess, size: int, before: int) -> None:
    body = agent.http.get("/v1/parameters").content
    data = parameters("?round=4")
    with Connection(agent) as connection:
        for _ in range(before):
            assert connection.ask("/v1/parameters").body == body
        for at in range(0, len(data), size):
            connection.send(data[at : at + size])
            agent.http.get("/v1/livez")  # so that the fragment has been read
        assert connection.read().body == body


def test_requests_in_one_packet_are_all_answered_in_order(agent: AgentProcess) -> None:
    queries = ["?round=4", "?round=9", "?round=3", "?round=0", "?nonsense=1", ""]
    with Connection(agent) as connection:
        for _ in range(2):
            connection.send(b"".join(map(parameters, queries)))
            assert [connection.read().status for _ in queries] == [200, 404, 200, 410, 400, 200]


@pytest.mark.parametrize(
    ("rest", "statuses"),
    [
        ([parameters("?round=999")], [404]),
        ([request("/v1/livez"), parameters("?round=999"), parameters("?wait_s=x")], [200, 404, 400]),
    ],
    ids=["one", "several"],
)
@pytest.mark.parametrize("together", [False, True])
def test_requests_that_come_while_a_long_poll_waits_are_answered_after_it(
    stepped: AgentProcess, rest: list[bytes], statuses: list[int], together: bool
) -> None:
    following = newest(stepped) + 1
    poll = parameters(f"?round={following}&wait_s=30")
    with Connection(stepped) as connection:
        for data in [poll + b"".join(rest)] if together else [poll, *rest]:
            connection.send(data)
            stepped.http.get("/v1/livez")
        step(stepped)
        first = connection.read()
        assert (first.status, first.headers["etag"].split("-")[2]) == (200, str(following))
        assert [connection.read().status for _ in rest] == statuses
        assert connection.ask("/v1/parameters").body == first.body


def test_a_second_long_poll_behind_the_first_waits_for_its_own_round(stepped: AgentProcess) -> None:
    following = newest(stepped) + 1
    with Connection(stepped) as connection:
        for number in (following, following + 1):
            connection.send(parameters(f"?round={number}&wait_s=30"))
            stepped.http.get("/v1/livez")
        for number in (following, following + 1):
            step(stepped)
            assert connection.read().headers["etag"].split("-")[2] == str(number)


def test_thousands_of_pulls_on_one_connection(agent: AgentProcess) -> None:
    data = parameters("?epoch=1&round=4")
    with Connection(agent) as connection:
        first = connection.ask("/v1/parameters?epoch=1&round=4")
        for _ in range(3000):
            connection.send(data)
            assert connection.read() == first


def test_many_peers_at_once_get_the_round_when_it_comes(stepped: AgentProcess) -> None:
    following = newest(stepped) + 1
    connections = [Connection(stepped) for _ in range(100)]
    for connection in connections:
        connection.send(parameters(f"?epoch=1&round={following}&wait_s=30"))
    stepped.http.get("/v1/livez")
    stepping = threading.Thread(target=step, args=(stepped,))
    stepping.start()
    answers = [connection.read() for connection in connections]
    stepping.join()
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    for connection in connections:
        connection.close()


# Peers that go away, and an agent that does.


def test_a_peer_that_leaves_during_a_long_poll_leaves_nothing_behind(stepped: AgentProcess) -> None:
    status, before = stepped.status(), descriptors(stepped)
    for number in range(1200):  # more than may wait at once
        with Connection(stepped) as connection:
            connection.send(parameters("?round=100000&wait_s=30", *([SLOW] if number % 100 == 0 else [])))
    until(lambda: descriptors(stepped) <= before)
    assert stepped.status() == status
    with Connection(stepped) as connection:  # there is room for one who waits
        connection.send(parameters(f"?round={newest(stepped) + 1}&wait_s=30"))
        stepped.http.get("/v1/livez")
        step(stepped)
        assert connection.read().status == 200
    assert "Traceback" not in stepped.log.read_text()


def test_a_peer_that_asks_for_every_round_and_does_not_read_does_not_fill_the_memory(agents: Agents) -> None:
    agent = agents()
    agent.put("model", {"revision": 1, "model": {**MODEL, "features": {**LATTICE, "spacing": 0.02}}})
    agent.put("schedule", {"revision": 1, "when_short": "go", "paused": True})
    places = [[x / 2, y / 2] for x in range(7) for y in range(7)]  # so that every parameter has evidence, and travels
    assert agent.post(places, [0.0] * len(places)).status_code == 200
    step(agent, 50)  # whatever grows with the first rounds has grown
    size = len(agent.http.get("/v1/parameters").content)
    assert size > 150_000
    with Connection(agent) as connection:
        before, asked = resident_bytes(agent), 300
        for _ in range(asked):
            connection.send(parameters())
            step(agent)  # so that every request comes in a packet of its own, and for another message
        assert resident_bytes(agent) - before < asked * size / 3
        for _ in range(asked):  # once it reads, it gets all its answers
            assert len(connection.read().body) >= size  # round numbers grow, by a byte or two


@pytest.mark.parametrize("line", [(), (SLOW,)], ids=["short", "long"])
def test_a_terminated_agent_answers_those_who_wait_and_ends(agents: Agents, line: tuple[str, ...]) -> None:
    agent = load(agents())
    with Connection(agent) as waiting, Connection(agent) as idle, Connection(agent) as fresh:
        assert idle.ask("/v1/parameters").status == 200
        waiting.send(parameters("?round=1&wait_s=30", *line))
        agent.http.get("/v1/livez")
        assert agent.process is not None
        agent.process.send_signal(signal.SIGTERM)
        answer = waiting.read()
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        assert b"urn:delbo:problem:stopping" in answer.body
        assert waiting.is_closed()
        assert idle.is_closed()
        assert fresh.is_closed()
        assert agent.process.wait(PATIENCE_S) == 0
    assert "Traceback" not in agent.log.read_text()
    assert " ERROR " not in agent.log.read_text()
