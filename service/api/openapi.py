"""What OpenAPI cannot read off the code: bodies that handlers decode themselves, and the routes that are bare ASGI."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from service.api.schemas import BINARY, ERRORS, PROBLEM, Schema, in_force, of_document, of_struct, of_structs, response
from service.wire.answers import Readiness, Stored
from service.wire.configuration import LONGEST_WAIT_S
from service.wire.model import ModelSpec
from service.wire.parameters import MEDIA_TYPE as MSGPACK
from service.wire.roles import ENDPOINTS, Role
from service.wire.verification import MOST_ROUNDS

_schemas: dict[str, Schema] = of_structs() | {"Problem": PROBLEM}


def answers(schema: Schema) -> dict[str, Any]:
    """For a route that answers with a document."""
    return {"openapi_extra": {"responses": {"200": response(schema), **ERRORS}}}


def shows(document: type[BaseModel]) -> dict[str, Any]:
    """For a route that answers with the document in force."""
    return answers(in_force(document, _schemas))


def takes(document: type[BaseModel], answer: Schema) -> dict[str, Any]:
    """For a route that decodes and checks its body itself."""
    reference = of_document(document, _schemas)
    return takes_body({"application/json": {"schema": reference}, MSGPACK: {"schema": reference}}, answer)


def takes_body(content: dict[str, Any], answer: Schema) -> dict[str, Any]:
    """For a route whose body's content types are these."""
    extra = answers(answer)["openapi_extra"]
    return {"openapi_extra": {**extra, "requestBody": {"required": True, "content": content}}}


def probes() -> dict[str, Any]:
    """For the route that tells whether the agent is ready."""
    ready = of_struct(Readiness)
    return {"openapi_extra": {"responses": {"200": response(ready, "It is"), "503": response(ready, "It is not")}}}


def maps() -> dict[str, Any]:
    """For the route that answers with a map."""
    content = {kind: {"schema": BINARY} for kind in ("image/png", "application/x-npz", "application/zip")}
    responses = {
        "200": {"description": "The map, as `format` says", "content": content},
        "304": {"description": "The round is still the one that If-None-Match names"},
    }
    return {"openapi_extra": {"parameters": [_KNOWN], "responses": {**responses, **ERRORS}}}


def metrics() -> dict[str, Any]:
    """For the route that Prometheus asks."""
    content = {kind: {"schema": {"type": "string"}} for kind in ("text/plain", "application/openmetrics-text")}
    return {"openapi_extra": {"responses": {"200": {"description": "The metrics", "content": content}}}}


def describe(app: FastAPI) -> dict[str, Any]:
    """The whole document."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = document.setdefault("components", {}).setdefault("schemas", {})
        components |= _schemas
        _describe_models(components)
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["paths"]["/v1/parameters"] = {"get": _PARAMETERS}
        document["paths"]["/v1/observations"]["post"] = _OBSERVATIONS  # where there is a GET, too
        document["paths"]["/v1/events"] = {"get": _EVENTS}
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                operation["responses"].pop("422", None)  # FastAPI's own answer; here it is a problem like any other
                _drop_unknown(operation["responses"]["200"]["content"])
                operation |= _who_may(ENDPOINTS[method.upper(), path])
        app.openapi_schema = document
    return app.openapi_schema


def _describe_models(schemas: dict[str, Schema]) -> None:
    """What the types do not tell: what a model is, and that some likelihoods may be just named."""
    reference = of_document(ModelSpec, schemas)
    for name in ("ModelSpec", "ModelDocument", "ModelDocumentInForce"):
        fields = schemas[name]["properties"]
        likelihood = {"anyOf": [fields["likelihood"], {"enum": ["probit", "logistic", "poisson"]}]}
        fields |= {"likelihood": likelihood} | ({"model": reference} if "model" in fields else {})


def _drop_unknown(content: dict[str, Any]) -> None:
    """FastAPI takes it that every route answers in JSON, of which nothing is known."""
    if not content.get("application/json", {"schema": "none"})["schema"]:
        del content["application/json"]


def _who_may(role: Role | None) -> dict[str, Any]:
    """What an operation's entry says of the role that it takes."""
    if role is None:
        return {"tags": ["probes"], "security": []}
    return {"tags": [role], "security": [{"token": []}], "description": f"Role: {role}."}


def _query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


_KNOWN = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The ETag of the map that one has.",
}
_NATURAL = {"type": "integer", "minimum": 0}

_PARAMETERS: dict[str, Any] = {
    "summary": "A committed round's parameters, for peers",
    "parameters": [
        _query("epoch", _NATURAL, "The epoch; without it, the one in force."),
        _query("round", _NATURAL, "The round; without it, the newest."),
        _query("wait_s", {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT_S}, "How long to wait for it."),
        _query("precision", {"enum": ["float64", "float32"]}, "Of the numbers."),
    ],
    "responses": {
        "200": {"description": "The message", "content": {MSGPACK: {"schema": BINARY}}},
        "304": {"description": "Nothing newer than If-None-Match says"},
        **ERRORS,
    },
}

_EVENTS: dict[str, Any] = {
    "summary": "Server-sent events, one for every round",
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": "The id of the last event that was read: those after it are told first.",
        }
    ],
    "responses": {
        "200": {"description": "Events without end", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **ERRORS,
    },
}

_POINT = {"type": "array", "items": {"type": "number"}}
_X = {"anyOf": [_POINT, {"type": "array", "items": _POINT}]}
_Y = {"anyOf": [{"type": "number"}, _POINT, {"type": "array", "items": _POINT}]}
_EXAMPLE = {"x": [[0.1, 2.0], [0.3, 1.9]], "y": [1, 0]}

POINTS_BODY: dict[str, Any] = {
    "application/json": {
        "schema": {"type": "object", "required": ["x"], "properties": {"x": _X}, "additionalProperties": False},
        "example": {"x": _EXAMPLE["x"]},
    },
    MSGPACK: {"schema": BINARY},
}

VERIFICATION_BODY: dict[str, Any] = {
    "application/json": {
        "schema": {
            "type": "object",
            "required": ["revision", "every_rounds", "x", "y"],
            "properties": {
                "revision": {"type": "integer", "minimum": 1, "maximum": 2**62},
                "every_rounds": {"type": "integer", "minimum": 1, "maximum": MOST_ROUNDS},
                "x": _X,
                "y": _Y,
            },
            "additionalProperties": False,
        },
        "example": {"revision": 1, "every_rounds": 10, **_EXAMPLE},
    },
    MSGPACK: {"schema": BINARY},
}

_BODY = {
    "type": "object",
    "properties": {
        "x": _X,
        "y": _Y,
        "end": {"type": "boolean"},
    },
    "additionalProperties": False,
}
_OBSERVATIONS: dict[str, Any] = {
    "summary": "Observations: one, columns, lines, or msgpack arrays",
    "parameters": [
        _query("client", {"type": "string", "minLength": 1, "maxLength": 64}, "Who sends; goes with sequence."),
        _query("sequence", _NATURAL, "The number of this batch, or of the first line, by this client."),
        _query("position", _POINT, "Where the one who observes stands, like 1.5,2.0; only shown.")
        | {"style": "form", "explode": False},
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _BODY, "example": _EXAMPLE},
            "application/x-ndjson": {"schema": {"type": "string"}, "example": '{"x": [0.1, 2.0], "y": 1}\n'},
            MSGPACK: {"schema": BINARY},
        },
    },
    "responses": {
        "200": {
            "description": "They are on disk",
            "content": {"application/json": {"schema": of_struct(Stored), "example": {"stored": 2}}},
        },
        **ERRORS,
    },
}
