"""The application: who may do it, three bare routes, FastAPI behind, and problems for everything that goes wrong."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.routing import BaseRoute, Route

from service.agent.agent import Agent
from service.api.access import Access
from service.api.bodies import BodyReader, ClientGoneError
from service.api.docs_page import HEADERS, docs_page
from service.api.events import EventsEndpoint
from service.api.incoming import Incoming
from service.api.messages import Message, Receive, Scope, Send, header
from service.api.observations import ObservationsEndpoint
from service.api.openapi import describe
from service.api.parameters import ParametersEndpoint
from service.api.problems import ProblemError, answer_of, problem_of
from service.api.routes import add_routes
from service.errors import DelboError
from service.wire.roles import ENDPOINTS

Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]

_MOST_AT_ONCE = 2048  # requests
_PROBES = ("/livez", "/readyz", "/v1/livez", "/v1/readyz")  # which a busy agent still answers

log = logging.getLogger(__name__)


class Application:
    """One agent's ASGI application."""

    def __init__(self, agent: Agent, access: Access, body_limit: int) -> None:
        self._access, self._traffic = access, agent.traffic
        bodies = BodyReader(body_limit)
        self._bare: dict[tuple[str, str], Endpoint] = {
            ("GET", "/v1/parameters"): ParametersEndpoint(agent),
            ("POST", "/v1/observations"): ObservationsEndpoint(agent, bodies),
            ("GET", "/v1/events"): EventsEndpoint(agent, self._check),
        }
        self._behind = _fastapi(agent, bodies)
        _check_all_known(self._behind.routes)
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        if scope["path"] in _PROBES and scope["method"] == "GET":
            await self._behind(scope, receive, send)
            return
        incoming = Incoming(scope, receive, self._traffic)
        if self._running >= _MOST_AT_ONCE:
            await incoming.refuse(send, ProblemError("busy", "too many requests at once: try again"))
            return
        self._running += 1
        try:
            await self._serve(scope, incoming, send)
        finally:
            self._running -= 1

    async def _serve(self, scope: Scope, incoming: Incoming, send: Send) -> None:
        """Only what is literally in the table of endpoints, and only for whom it is."""
        asked = (scope["method"], scope["path"])
        try:
            _check_there_is(*asked)
            self._check(scope)
        except ProblemError as fault:
            await incoming.refuse(send, fault)
            return
        endpoint = self._bare.get(asked)
        if endpoint is None:
            await self._behind(scope, incoming, incoming.answering(send))
        else:
            await self._serve_bare(endpoint, scope, incoming, send)

    async def _serve_bare(self, endpoint: Endpoint, scope: Scope, incoming: Incoming, send: Send) -> None:
        async def receive_while_allowed() -> Message:
            message = await incoming()
            self._check(scope)  # a stream may go on for hours, and its token be taken back meanwhile
            return message

        try:
            await endpoint(scope, receive_while_allowed, incoming.answering(send))
        except ClientGoneError:
            return
        except (ProblemError, DelboError) as fault:
            await incoming.refuse(send, fault)
        except Exception as fault:
            log.exception("%s %s failed", scope["method"], scope["path"])
            await incoming.refuse(send, fault)

    def _check(self, scope: Scope) -> None:
        self._access.check(ENDPOINTS[scope["method"], scope["path"]], header(scope, b"authorization"))


def _check_there_is(method: str, path: str) -> None:
    """Refuse what is not in the table: a router may take odd spellings of a path for the path, past the guard."""
    if (method, path) in ENDPOINTS:
        return
    allow = ", ".join(sorted(known for known, of_path in ENDPOINTS if of_path == path)) or None
    slug = "not-found" if allow is None else "method-not-allowed"
    raise ProblemError(slug, f"{method} {path[:200]!r}: see /docs for what there is", allow)


def _check_all_known(routes: Iterable[BaseRoute]) -> None:
    """Nothing may be open to everybody for having been forgotten."""
    for route in routes:
        methods = (route.methods or set()) - {"HEAD"} if isinstance(route, Route) else set()
        if not methods or any((method, route.path) not in ENDPOINTS for method in methods):  # type: ignore[attr-defined]
            raise RuntimeError(f"{route} has no role in service.wire.roles")


def _fastapi(agent: Agent, bodies: BodyReader) -> FastAPI:
    app = FastAPI(
        title="delbo agent",
        description="One agent of a network that learns one belief together.",
        version=version("delbo"),
        docs_url=None,  # its page loads scripts from another server, and an agent may have no way there
        redoc_url=None,
        redirect_slashes=False,
    )
    add_routes(app.router, agent, bodies)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]

    @app.get("/docs", include_in_schema=False)
    async def get_docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()), headers=HEADERS)

    def response(fault: Exception) -> Response:
        agent.traffic.refused[problem_of(fault).kind.slug] += 1
        status, headers, body = answer_of(fault)
        return Response(body, status, {key.decode(): value.decode() for key, value in headers})

    async def on_problem(request: Request, fault: Exception) -> Response:  # noqa: ARG001
        return response(fault)

    async def on_invalid(request: Request, fault: Exception) -> Response:  # noqa: ARG001
        return response(ProblemError("invalid-query", _first_fault(fault)))

    async def on_gone(request: Request, fault: Exception) -> Response:  # noqa: ARG001
        return response(ProblemError("incomplete-body", "the connection was closed before the body was complete"))

    async def on_anything(request: Request, fault: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=fault)
        return response(fault)

    for kind in (ProblemError, DelboError):
        app.add_exception_handler(kind, on_problem)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(ClientGoneError, on_gone)
    app.add_exception_handler(Exception, on_anything)
    return app


def _first_fault(fault: Exception) -> str:
    first: dict[str, Any] = fault.errors()[0] if isinstance(fault, RequestValidationError) else {}
    return f"{'.'.join(map(str, first.get('loc', ())))}: {first.get('msg', 'wrong')}"
