"""The application: who may do it, two bare routes, FastAPI behind, and problems for everything that goes wrong."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from service.agent.agent import Agent
from service.api.access import Access
from service.api.bodies import BodyReader, ClientGoneError
from service.api.docs_page import HEADERS, docs_page
from service.api.messages import Message, Receive, Scope, Send, header
from service.api.observations import ObservationsEndpoint
from service.api.openapi import describe
from service.api.parameters import ParametersEndpoint
from service.api.problems import ProblemError, document_of, headers_of, send_problem
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
        self._access = access
        bodies = BodyReader(body_limit)
        self._bare: dict[tuple[str, str], Endpoint] = {
            ("GET", "/v1/parameters"): ParametersEndpoint(agent),
            ("POST", "/v1/observations"): ObservationsEndpoint(agent, bodies),
        }
        self._behind = _fastapi(agent, bodies)
        _check_all_known(self._behind.routes)
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] in _PROBES:
            await self._behind(scope, receive, send)
            return
        if self._running >= _MOST_AT_ONCE:
            await send_problem(send, ProblemError("busy", "too many requests at once: try again"), close=True)
            return
        self._running += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._running -= 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(scope)
        except ProblemError as fault:
            await send_problem(send, fault, close=scope["method"] != "GET")
            return
        endpoint = self._bare.get((scope["method"], scope["path"]))
        if endpoint is None:
            await self._behind(scope, receive, send)
        else:
            await self._serve_bare(endpoint, scope, receive, send)

    async def _serve_bare(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        complete = scope["method"] == "GET"

        async def receive_and_see() -> Message:
            nonlocal complete
            message = await receive()
            complete = not message.get("more_body", False)
            self._check(scope)  # a stream may go on for hours, and its token be taken back meanwhile
            return message

        try:
            await endpoint(scope, receive_and_see, send)
        except ClientGoneError:
            return
        except (ProblemError, DelboError) as fault:
            await send_problem(send, fault, close=not complete or _leaves_body_unread(fault))
        except Exception as fault:
            log.exception("%s %s failed", scope["method"], scope["path"])
            await send_problem(send, fault, close=True)

    def _check(self, scope: Scope) -> None:
        method = _as_get(scope["method"])
        self._access.check(ENDPOINTS.get((method, scope["path"])), header(scope, b"authorization"))


def _as_get(method: str) -> str:
    """HEAD, where there is such, is for whom GET is."""
    return "GET" if method == "HEAD" else method


def _check_all_known(routes: Iterable[BaseRoute]) -> None:
    """Nothing may be open to everybody for having been forgotten."""
    for route in routes:
        asked = {(_as_get(method), route.path) for method in route.methods or ()} if isinstance(route, Route) else set()
        if not asked or not asked <= set(ENDPOINTS):
            raise RuntimeError(f"{route} has no role in service.wire.roles")


def _leaves_body_unread(fault: Exception) -> bool:
    return isinstance(fault, ProblemError) and fault.kind.status in (408, 413, 415)


def _fastapi(agent: Agent, bodies: BodyReader) -> FastAPI:
    app = FastAPI(
        title="delbo agent",
        description="One agent of a network that learns one belief together.",
        version=version("delbo"),
        docs_url=None,  # its page loads scripts from another server, and an agent may have no way there
        redoc_url=None,
    )
    add_routes(app.router, agent, bodies)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]

    @app.get("/docs", include_in_schema=False)
    async def get_docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()), headers=HEADERS)

    async def on_problem(request: Request, fault: Exception) -> Response:  # noqa: ARG001
        return _response(fault)

    async def on_invalid(request: Request, fault: Exception) -> Response:  # noqa: ARG001
        return _response(ProblemError("invalid-query", _first_fault(fault)))

    async def on_http(request: Request, fault: Exception) -> Response:  # noqa: ARG001
        path = request.url.path
        allowed = ", ".join(sorted(method for method, known in ENDPOINTS if known == path))
        slug = "method-not-allowed" if allowed else "not-found"
        problem = ProblemError(slug, f"{request.method} {path}: see /docs for what there is")
        return _response(problem, {"allow": allowed} if allowed else None)

    async def on_gone(request: Request, fault: Exception) -> Response:  # noqa: ARG001
        return _response(ProblemError("incomplete-body", "the connection was closed before the body was complete"))

    async def on_anything(request: Request, fault: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=fault)
        return _response(fault)

    for kind in (ProblemError, DelboError):
        app.add_exception_handler(kind, on_problem)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(ClientGoneError, on_gone)
    app.add_exception_handler(Exception, on_anything)
    return app


def _first_fault(fault: Exception) -> str:
    first: dict[str, Any] = fault.errors()[0] if isinstance(fault, RequestValidationError) else {}
    return f"{'.'.join(map(str, first.get('loc', ())))}: {first.get('msg', 'wrong')}"


def _response(fault: Exception, more: Mapping[str, str] | None = None) -> Response:
    kind, document = document_of(fault)
    headers = {key.decode(): value.decode() for key, value in headers_of(kind)} | dict(more or {})
    if _leaves_body_unread(fault):
        headers["connection"] = "close"
    return Response(msgspec.json.encode(document), kind.status, headers)
