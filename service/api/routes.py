"""Configuration and reading, by FastAPI."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from service.agent.agent import Agent
from service.agent.recent import MOST_RECENT
from service.agent.report import belief_summary, recent_observations, status, verification_status
from service.api.bodies import BodyReader
from service.api.documents import SMALL, language_of, read_document, write_document
from service.api.maps import get_map
from service.api.metrics import registry_of, write_metrics
from service.api.openapi import POINTS_BODY, VERIFICATION_BODY, answers, maps, metrics, probes, shows, takes, takes_body
from service.api.predictions import post_predictions
from service.api.schemas import of_fields, of_struct
from service.wire.answers import (
    BeliefSummary,
    History,
    Predictions,
    Readiness,
    RecentObservations,
    RoundsAnswer,
    Status,
    StreamPosition,
    VerificationStatus,
)
from service.wire.configuration import ModelDocument, NeighborsDocument, RoundsRequest, ScheduleDocument
from service.wire.map_query import MapQuery
from service.wire.verification import VerificationDocument

_HISTORY_AT_ONCE = 1000
_VERIFICATIONS = {"json": VerificationDocument.from_json, "msgpack": VerificationDocument.from_msgpack}

FullQuery = Annotated[bool, Query(description="With mean and variance of every parameter.")]
ClientQuery = Annotated[str, Query(min_length=1, max_length=64, description="Who sends.")]
LimitQuery = Annotated[int, Query(ge=1, le=_HISTORY_AT_ONCE, description="At most so many rounds, the newest.")]
RecentQuery = Annotated[int, Query(ge=1, le=MOST_RECENT, description="At most so many observations, the newest.")]


def add_routes(router: APIRouter, agent: Agent, bodies: BodyReader) -> None:
    """All routes of one agent but those that are bare ASGI; `service.wire.roles` says who may ask for which."""
    _add_control(router, agent, bodies)
    _add_documents(router, agent)
    _add_reading(router, agent)
    _add_asking(router, agent, bodies)
    _add_probes(router, agent)


def _add_control(router: APIRouter, agent: Agent, bodies: BodyReader) -> None:

    @router.put(
        "/v1/model", summary="Load the model", **takes(ModelDocument, of_fields(revision="integer", model_id="string"))
    )
    async def put_model(request: Request) -> Response:
        document = await read_document(request, bodies, ModelDocument.parse)
        await agent.put_model(document)
        return write_document(request, {"revision": document.revision, "model_id": document.spec.model_id})

    @router.put("/v1/neighbors", summary="Begin a new epoch", **takes(NeighborsDocument, of_fields(epoch="integer")))
    async def put_neighbors(request: Request) -> Response:
        document = await read_document(request, bodies, NeighborsDocument.parse, SMALL)
        await agent.put_neighbors(document)
        return write_document(request, {"epoch": document.epoch})

    @router.put("/v1/schedule", summary="Say when rounds run", **takes(ScheduleDocument, of_fields(revision="integer")))
    async def put_schedule(request: Request) -> Response:
        document = await read_document(request, bodies, ScheduleDocument.parse, SMALL)
        await agent.put_schedule(document)
        return write_document(request, {"revision": document.revision})

    @router.put(
        "/v1/verification",
        summary="Say on what points the belief is scored",
        **takes_body(VERIFICATION_BODY, of_fields(revision="integer", points="integer")),
    )
    async def put_verification(request: Request) -> Response:
        read = _VERIFICATIONS[language_of(request)]
        reader = agent.reader
        body = await bodies.whole(request.scope, request.receive)
        document = await asyncio.to_thread(read, body, reader)
        await agent.put_verification(document)
        return write_document(request, {"revision": document.revision, "points": len(document)})

    @router.post(
        "/v1/rounds", summary="Run rounds of a paused agent now", **takes(RoundsRequest, of_struct(RoundsAnswer))
    )
    async def post_rounds(request: Request) -> Response:
        wanted = await read_document(request, bodies, RoundsRequest.parse, SMALL)
        summaries = await agent.rounds.step(wanted.rounds, wanted.wait_s)
        return write_document(request, RoundsAnswer(len(summaries) == wanted.rounds, tuple(summaries)))


def _add_documents(router: APIRouter, agent: Agent) -> None:
    @router.get("/v1/model", summary="The model in force", **shows(ModelDocument))
    async def get_model(request: Request) -> Response:
        document = agent.model.document
        return await asyncio.to_thread(lambda: write_document(request, document.model_dump()))  # it may be large

    @router.get("/v1/neighbors", summary="The neighbors document in force", **shows(NeighborsDocument))
    async def get_neighbors(request: Request) -> Response:
        return write_document(request, agent.configuration.neighbors.model_dump())

    @router.get("/v1/schedule", summary="The schedule in force", **shows(ScheduleDocument))
    async def get_schedule(request: Request) -> Response:
        return write_document(request, agent.configuration.schedule.model_dump())

    @router.get(
        "/v1/verification",
        summary="The verification in force, and the newest scores",
        **answers(of_struct(VerificationStatus)),
    )
    async def get_verification(request: Request) -> Response:
        return write_document(request, verification_status(agent))

    @router.get("/v1/streams", summary="How far a client's stream is", **answers(of_struct(StreamPosition)))
    async def get_stream(request: Request, client: ClientQuery) -> Response:
        return write_document(request, await asyncio.to_thread(agent.inbox.log.position, client))

    @router.get("/v1/observations", summary="The newest observations", **answers(of_struct(RecentObservations)))
    async def get_observations(request: Request, limit: RecentQuery = 200) -> Response:
        newest = recent_observations(agent, limit)
        return await asyncio.to_thread(lambda: write_document(request, newest))  # points may have many coordinates


def _add_reading(router: APIRouter, agent: Agent) -> None:
    @router.get("/v1/belief", summary="The belief", **answers(of_struct(BeliefSummary)))
    async def get_belief(request: Request, full: FullQuery = False) -> Response:
        snapshot = agent.snapshot

        def answer() -> Response:
            return write_document(request, belief_summary(snapshot, full))

        return await asyncio.to_thread(answer)

    @router.get("/v1/status", summary="How the agent is", **answers(of_struct(Status)))
    async def get_status(request: Request) -> Response:
        return write_document(request, status(agent))

    @router.get("/v1/history", summary="The last rounds", **answers(of_struct(History)))
    async def get_history(request: Request, limit: LimitQuery = 100) -> Response:
        rounds = await asyncio.to_thread(agent.store.history, limit)
        return write_document(request, History(tuple(rounds)))


def _add_asking(router: APIRouter, agent: Agent, bodies: BodyReader) -> None:
    @router.post(
        "/v1/predictions",
        summary="What the belief says of points",
        **takes_body(POINTS_BODY, of_struct(Predictions)),
    )
    async def ask_predictions(request: Request) -> Response:
        return await post_predictions(request, agent, bodies)

    @router.get("/v1/map", summary="The belief as a map: picture, numbers, or for navigation", **maps())
    async def ask_map(request: Request, query: Annotated[MapQuery, Query()]) -> Response:
        return await get_map(request, agent, query)


def _add_probes(router: APIRouter, agent: Agent) -> None:
    @router.get("/livez", include_in_schema=False)
    @router.get("/v1/livez", summary="Whether the process answers")
    async def get_livez() -> dict[str, Any]:
        return {"alive": True}

    registry = registry_of(agent)

    @router.get("/metrics", include_in_schema=False)
    @router.get("/v1/metrics", summary="The agent in figures, for Prometheus", **metrics())
    async def get_metrics(request: Request) -> Response:
        content, content_type = write_metrics(registry, request.headers.get("accept", ""))
        return Response(content, headers={"content-type": content_type})

    @router.get("/readyz", include_in_schema=False)
    @router.get("/v1/readyz", summary="Whether the agent can do its work", **probes())
    async def get_readyz(request: Request) -> Response:
        faults = agent.faults()
        return write_document(request, Readiness(not faults, faults), 503 if faults else 200)
