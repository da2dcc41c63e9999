"""Dashboards for tests: the real server on a real socket, in a thread; a proxy that counts what agents are asked."""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import httpx2

from client.dashboard.places import Place
from client.dashboard.serving import listen, serve, url_of
from client.dashboard.watching import Watching
from client.tokens import Tokens
from tests.network.proxy import DelayingProxy
from tests.processes import PATIENCE_S, AgentProcess, until

PERIOD_S = 0.2


class Dashboard:
    """A dashboard that serves."""

    def __init__(self, url: str, watching: Watching) -> None:
        self.url, self.watching = url, watching
        self.http = httpx2.Client(base_url=url, timeout=60, trust_env=False)

    def get(self, path: str, **request: Any) -> httpx2.Response:
        """What it answers."""
        return self.http.get(path, **request)

    def state(self) -> dict[str, Any]:
        """/api/state."""
        return dict(self.get("/api/state").json())

    def agent(self, number: int) -> dict[str, Any]:
        """What the state says of one agent."""
        return dict(self.state()["agents"][number])

    def wait_for(self, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The state, once it is as it should be."""
        return until(lambda: state if condition(state := self.state()) else {})

    def wait_for_health(self, number: int, *health: str) -> dict[str, Any]:
        """The state of one agent, once its health is one of these."""
        state = self.wait_for(lambda state: state["agents"][number]["health"] in health)
        return dict(state["agents"][number])

    def act(self, name: str, body: Any, **headers: str) -> httpx2.Response:
        """Do what the page does when a button is pressed."""
        return self.http.post(f"/api/actions/{name}", json=body, headers={"origin": self.url, **headers})

    def said(self, name: str, body: Any) -> str:
        """What came of it, in words."""
        answer = self.act(name, body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["said"])


@contextmanager
def dashboard(
    places: Sequence[Place],
    tokens: Tokens | None = None,
    names: Collection[str] = (),
    *,
    period_s: float = PERIOD_S,
    read_only: bool = False,
) -> Iterator[Dashboard]:
    """Serve from a thread until the block ends; every agent has been asked once before it begins."""
    listener = listen("127.0.0.1", 0, insecure=False)
    url, ready, begun = url_of(listener), threading.Event(), []

    async def main() -> None:
        watching = Watching("small", places, tokens, period_s=period_s, read_only=read_only)
        serving = asyncio.ensure_future(serve(watching, listener, names, ready.set))
        begun.append((watching, asyncio.get_running_loop(), serving))
        with suppress(asyncio.CancelledError):
            await serving

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(PATIENCE_S)
    [(watching, loop, task)] = begun
    served = Dashboard(url, watching)
    try:
        served.wait_for(
            lambda state: all(agent["health"] != "loading" for agent in state["agents"] if agent["watched"])
        )
        yield served
    finally:
        served.http.close()
        loop.call_soon_threadsafe(task.cancel)
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the server does not stop"


def place_of(agent: AgentProcess, port: int | None = None) -> Place:
    """Where an agent is; port: of a proxy before it."""
    return Place(agent.name, agent.url if port is None else f"http://127.0.0.1:{port}")


class CountingProxy(DelayingProxy):
    """Passes everything on at once, and remembers how requests and answers began; may cut some of them off."""

    def __init__(self) -> None:
        super().__init__(seed=0, longest_s=0.0)
        self.seen: list[str] = []
        self.cut: bytes | None = None  # what has these bytes among its first ones is cut off

    def count(self, beginning: str) -> int:
        """How many requests or answers began so."""
        return sum(line.startswith(beginning) for line in list(self.seen))

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                line = data[:200].partition(b"\r\n")[0].decode("latin-1")
                if line.startswith(("GET ", "POST ", "PUT ", "HTTP/1.1 ")):
                    self.seen.append(line)
                if self.cut is not None and self.cut in data[:1000]:
                    break
                target.write(data)
                await target.drain()
        except OSError:
            pass
        target.close()


@contextmanager
def counting_proxy() -> Iterator[CountingProxy]:
    """Such a proxy, until the block ends."""
    proxy = CountingProxy()
    with proxy.running():
        yield proxy
