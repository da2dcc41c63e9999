"""`delbo dashboard` as a process beside real agents, and what tests read off its page."""

import base64
import io
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import httpx2
import numpy as np
from PIL import Image

from client.tokens import TokenFolder, make_tokens
from client.topology import Topology
from service.wire.roles import ENDPOINTS, Role
from tests.network.networks import Network, model_of
from tests.processes import PATIENCE_S, ROOT, AgentProcess, free_port, until

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Page

Found = TypeVar("Found")

EVERY_S = 0.3  # the dashboard asks so often here, so that nobody waits for long
NAMES = ("a1", "a2", "a3")
ODD_NAMES = ("<img src=x onerror=alert(1)>", '<b>"it\'s"</b> a&amp;b $x$')


class DashboardProcess:
    """`delbo dashboard` on a port that stays the same over restarts."""

    def __init__(self, log: Path, *arguments: object, every_s: float = EVERY_S) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        options = ["--port", self.port, "--every", every_s]
        self.command = [sys.executable, "-m", "client", "dashboard", *map(str, [*arguments, *options])]
        self.http = httpx2.Client(base_url=self.url, timeout=60, trust_env=False)
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> "DashboardProcess":
        """Start the process, and do not wait."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, cwd=ROOT, stdout=log, stderr=log)
        return self

    def wait_ready(self) -> "DashboardProcess":
        """Wait until it answers."""
        until(self._answers)
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        try:
            return self.http.get("/livez").is_success
        except httpx2.TransportError:
            return False

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """End it in any case."""
        self.kill()
        self.http.close()

    def act(self, name: str, body: Any, **changes: str | None) -> httpx2.Response:
        """An action, asked for as its own page does, but for these headers; None leaves one out."""
        headers: dict[str, str | None] = {
            "origin": self.url,
            "sec-fetch-site": "same-origin",
            "content-type": "application/json",
            **{key.replace("_", "-"): value for key, value in changes.items()},
        }
        given = {key: value for key, value in headers.items() if value is not None}
        return self.http.post(f"/api/actions/{name}", json=body, headers=given)


class Watched(NamedTuple):
    """Agents that learn a map together, and their dashboard."""

    agents: list[AgentProcess]
    dashboard: DashboardProcess

    def let_run(self) -> None:
        """Rounds go on at all agents."""
        set_paused(self.agents, False)

    def pause(self) -> None:
        """No agent is in a round, or begins one."""
        set_paused(self.agents, True)


class OddlyNamed(NamedTuple):
    """Agents with tokens and odd names; one dashboard has all tokens, the other one only the token for reading."""

    agents: list[AgentProcess]
    tokens: Path
    dashboard: DashboardProcess
    reader: DashboardProcess


def set_paused(agents: list[AgentProcess], paused: bool) -> None:
    """Change the schedule in force in this only."""
    for agent in agents:
        schedule = agent.http.get("/v1/schedule").json()
        agent.put("schedule", {**schedule, "revision": schedule["revision"] + 1, "paused": paused})
    for agent in agents:
        until(lambda agent=agent: (agent.status()["phase"] == "paused") == paused)  # type: ignore[misc]


def start_learning(agents: list[AgentProcess]) -> None:
    """A model of a square, everybody everybody's neighbor, a few observations, and rounds without an end."""
    count = len(agents)
    likelihood = {"kind": "probit"}
    network = Network(agents, model_of("diagonal", likelihood), [likelihood] * count, [])
    network.load()
    network.connect(Topology(count, frozenset((i, j) for i in range(count) for j in range(count) if i != j)), epoch=1)
    network.schedule(
        exchange="latest", observations_per_round=10, period_s=0.2, deadline_s=0.5, stale_after_s=1.0, paused=True
    )
    generator = np.random.default_rng(0)
    for agent in agents:
        x = generator.uniform([0, 2], [3, 3], (10, 2))
        assert agent.post(x, x[:, 0] > 1.5).status_code == 200
    set_paused(agents, False)


def watched_network(folder: Path) -> Iterator[Watched]:
    """Three agents and a dashboard."""
    agents = [AgentProcess(name, folder / name) for name in NAMES]
    dashboard = DashboardProcess(folder / "dashboard.log", *urls_of(agents))
    yield from _running(Watched(agents, dashboard), agents, (dashboard,))


def urls_of(agents: Sequence[AgentProcess]) -> list[str]:
    """The options that name them."""
    return [argument for agent in agents for argument in ("--agent", agent.url)]


def oddly_named_network(folder: Path) -> Iterator[OddlyNamed]:
    """Two agents that ask for tokens and two dashboards."""
    tokens = folder / "tokens"
    make_tokens(tokens)
    (folder / "only-read").mkdir()
    (folder / "only-read" / "read").write_text((tokens / "read").read_text())
    agents = [AgentProcess(name, folder / f"odd-{n}", "--tokens", tokens) for n, name in enumerate(ODD_NAMES)]
    held = TokenFolder(tokens)

    def authorize(request: httpx2.Request) -> httpx2.Request:
        role: Role | None = ENDPOINTS[request.method, request.url.path]
        if role is not None:
            request.headers["authorization"] = f"Bearer {held(role)}"
        return request

    for agent in agents:
        agent.http.auth = authorize
    dashboards = (
        DashboardProcess(folder / "dashboard.log", *urls_of(agents), "--tokens", tokens),
        DashboardProcess(folder / "reader.log", *urls_of(agents), "--tokens", folder / "only-read"),
    )
    yield from _running(OddlyNamed(agents, tokens, *dashboards), agents, dashboards)


def _running(found: Found, agents: list[AgentProcess], dashboards: tuple[DashboardProcess, ...]) -> Iterator[Found]:
    """Everything is started at once, and ended at the end."""
    processes: list[AgentProcess | DashboardProcess] = [*agents, *dashboards]
    try:
        for process in processes:
            process.launch()
        for agent in agents:
            agent.wait_ready()
        start_learning(agents)
        for dashboard in dashboards:
            dashboard.wait_ready()
        yield found
    finally:
        for process in processes:
            process.close()


# ---- the page


def wait(page: "Page", script: str, argument: Any = None) -> Any:
    """What a function of the page gives, once it gives something true."""
    return until(lambda: page.evaluate(script, argument))


def show(page: "Page", dashboard: DashboardProcess, view: str) -> None:
    """Open a view and wait until it knows the agents."""
    page.goto(f"{dashboard.url}/#{view}")
    wait(page, "() => document.body.dataset.loaded === 'true'")


def show_maps(page: "Page", dashboard: DashboardProcess, observations: bool = False) -> None:
    """Open the maps, without the dots of observations unless they are wanted, and wait until all are drawn."""
    show(page, dashboard, "maps")
    page.locator("#maps-tools input[type=checkbox]").set_checked(observations)
    wait_for_pictures(page, {})


TAGS = """() => Object.fromEntries([...document.querySelectorAll('.map')].map(
    (card) => [card.dataset.agent, card.querySelector('canvas').dataset.tag]))"""


def tags(page: "Page") -> dict[str, str]:
    """Which picture every agent's map shows."""
    return dict(page.evaluate(TAGS))


def wait_for_pictures(page: "Page", other_than: dict[str, str]) -> dict[str, str]:
    """Wait until every map shows a picture, and another one than these."""

    def found() -> dict[str, str] | None:
        now = tags(page)
        new = now and all(tag is not None and tag != other_than.get(agent) for agent, tag in now.items())
        return now if new else None

    shown = until(found)
    assert shown is not None
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return shown


def pixels(page: "Page", agent: int) -> Any:
    """The map's canvas as an array, (height, width, 4)."""
    url = page.locator(f'.map[data-agent="{agent}"] canvas').evaluate("(canvas) => canvas.toDataURL()")
    with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
        return np.asarray(image.convert("RGBA"))


def colors(page: "Page", agent: int) -> int:
    """How many colours the map has."""
    return len(np.unique(np.ascontiguousarray(pixels(page, agent)).view(np.uint32)))


FORGET_POINT = "() => { for (const one of document.querySelectorAll('#maps-grid, .readout')) delete one.dataset.at; }"
POINT = """() => {
    const { at } = document.getElementById('maps-grid').dataset;
    return at && [...document.querySelectorAll('.readout')].every((one) => one.dataset.at === at) && at;
}"""


def read_out(page: "Page", point_out: Callable[[], object]) -> list[float]:
    """Point at something on a map, and wait until all agents have told of that very point: its coordinates."""
    page.evaluate(FORGET_POINT)
    point_out()
    return [float(number) for number in wait(page, POINT).split(",")]


def point_at(page: "Page", frame: "FloatRect", x: float, y: float) -> list[float]:
    """The point of the world below a point of a canvas, as shares of its sides, when all agents have told of it."""
    return read_out(page, lambda: page.mouse.move(frame["x"] + x * frame["width"], frame["y"] + y * frame["height"]))
