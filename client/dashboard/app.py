"""The dashboard's server: its page, and what the page asks for."""

import importlib.resources
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field

from client.dashboard import actions
from client.dashboard.agent_watch import AgentWatch
from client.dashboard.answers import NO_STORE, json_answer
from client.dashboard.curves import curves
from client.dashboard.guard import App, Guard, Receive, Scope, Send
from client.dashboard.views import views
from client.dashboard.watching import Watching
from service.errors import AgentRefusedError, AgentUnreachableError, BusyError, DelboError

_STATIC = Path(__file__).parent / "static"
_HEARTBEAT_S = 15.0
_ASK_ANEW = {"cache-control": "no-cache"}
_MOST_LISTENERS = 64
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class Chosen(BaseModel):
    """Agents by their numbers; all that answer, if none is named."""

    model_config = ConfigDict(extra="forbid")

    agents: Annotated[list[int], Field(min_length=1, max_length=1000)] | None = None


class Observed(BaseModel):
    """An observation for one agent."""

    model_config = ConfigDict(extra="forbid")

    agent: int
    x: Annotated[list[_Finite], Field(min_length=1, max_length=100)]
    y: _Finite


class _Scripts(StaticFiles):
    """Files that are asked for anew each time: those of another version do not go together."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        answer = super().file_response(*arguments, **options)
        answer.headers.update(_ASK_ANEW)
        return answer


class _Events(StreamingResponse):
    """Server-sent events; `leave` is called when the listener is gone, also if it never heard one."""

    def __init__(self, events: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        headers = {**NO_STORE, "x-accel-buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


def dashboard_app(watching: Watching, names: Collection[str] = ()) -> App:
    """The server; names: under which people may come besides numbers and localhost."""
    app = FastAPI(title="delbo dashboard", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(DelboError, _told)
    app.add_exception_handler(RequestValidationError, _misread)
    _add_pages(app)
    _add_state(app, watching)
    app.include_router(views(watching))
    app.include_router(curves(watching))
    _add_actions(app, watching)
    _answer_head(app)
    return Guard(app, names)


def _add_pages(app: FastAPI) -> None:
    scripts = importlib.resources.files("plotly") / "package_data"

    @app.get("/")
    def index() -> FileResponse:
        return FileResponse(_STATIC / "index.html", headers=_ASK_ANEW)

    @app.get("/static/plotly.min.js")
    def plotly() -> FileResponse:
        return FileResponse(Path(str(scripts / "plotly.min.js")), media_type="text/javascript", headers=_ASK_ANEW)

    app.mount("/static", _Scripts(directory=_STATIC))


def _add_state(app: FastAPI, watching: Watching) -> None:
    listeners = 0

    @app.get("/livez")
    async def livez() -> dict[str, bool]:
        return {"alive": True}

    @app.get("/api/state")
    async def state() -> Response:
        return Response(watching.document, media_type="application/json", headers=NO_STORE)

    @app.get("/api/events")
    async def events() -> Response:
        nonlocal listeners
        if listeners >= _MOST_LISTENERS:
            raise BusyError(f"{_MOST_LISTENERS} pages are listening already: the page will ask now and then instead")
        listeners += 1  # here, and not where it begins: many may come at once
        return _Events(tell(), leave)

    async def tell() -> AsyncIterator[bytes]:
        yield b"retry: 2000\n\n"
        version = -1
        while not watching.stopped:
            news = await watching.next_document(version, _HEARTBEAT_S)
            if news is None:
                yield b": still here\n\n"
            else:
                version, document = news
                yield b"data: %b\n\n" % document

    def leave() -> None:
        nonlocal listeners
        listeners -= 1


def _add_actions(app: FastAPI, watching: Watching) -> None:
    def add(name: str, act: Callable[[Sequence[AgentWatch]], Any]) -> None:
        @app.post(f"/api/actions/{name}")
        async def do(chosen: Chosen) -> Response:
            watching.check("control")
            agents = _chosen(watching, chosen.agents)
            return json_answer({"said": await act(agents)})

    add("pause", actions.pause)
    add("resume", actions.resume)
    add("step", actions.step)

    @app.post("/api/actions/observe")
    async def observe(observed: Observed) -> Response:
        watching.check("ingest")
        return json_answer({"said": await actions.observe(watching.agent(observed.agent), observed.x, observed.y)})


def _chosen(watching: Watching, numbers: list[int] | None) -> list[AgentWatch]:
    """The agents that are meant; those that do not answer are left out where all are meant."""
    if numbers is not None:
        return [watching.agent(number) for number in dict.fromkeys(numbers)]
    agents = [agent for agent in watching.agents if agent.is_there]
    if not agents:
        raise AgentUnreachableError("no agent answers")
    return agents


def _answer_head(app: FastAPI) -> None:
    """Who asks for the head of a thing gets it; events have no end, so nobody waits for theirs."""
    for route in app.routes:
        if isinstance(route, APIRoute) and route.methods == {"GET"} and route.path != "/api/events":
            route.methods = {"GET", "HEAD"}


async def _misread(_: Request, fault: Exception) -> Response:
    """One sentence about the first part of a request that cannot be."""
    assert isinstance(fault, RequestValidationError)  # noqa: S101 - it is added for these
    first = fault.errors()[0]
    where = ".".join(map(str, first["loc"][1:])) or "the request"
    return json_answer({"detail": f"{where}: {first['msg']}"}, 422)


async def _told(_: Request, fault: Exception) -> Response:
    """One sentence about what went wrong, and whose fault it is: ours, the agent's, or that of the request."""
    if isinstance(fault, AgentRefusedError):
        status = fault.status if 400 <= fault.status < 500 else 502
    elif isinstance(fault, AgentUnreachableError | BusyError):
        status = 503
    else:
        status = 422
    return json_answer({"detail": str(fault)}, status)
