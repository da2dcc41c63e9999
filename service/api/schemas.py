"""The schemas of what an agent answers, for the OpenAPI document."""

from typing import Any

import msgspec
from pydantic import BaseModel

from service.api.problems import KINDS
from service.wire import answers
from service.wire.parameters import MEDIA_TYPE as MSGPACK
from service.wire.problems import PROBLEM_TYPE, problem_type

Schema = dict[str, Any]

BINARY: Schema = {"type": "string", "format": "binary"}
_TYPES: dict[str, Schema] = {"integer": {"type": "integer"}, "string": {"type": "string"}}
_POINTER = "#/components/schemas/{name}"

_NUMBER: Schema = {"type": "number"}
_ROW: Schema = {"type": "array", "items": _NUMBER}
_NUMBERS: Schema = {"type": "array", "items": {"anyOf": [_NUMBER, _ROW, {"type": "array", "items": _ROW}]}}
_ARRAYS = {  # fields that msgspec knows nothing of: arrays, which are lists in JSON
    "BeliefSummary": ("mean", "variance"),
    "Predictions": ("probability", "mean", "variance", "entropy", "latent_mean", "latent_variance"),
    "RecentObservations": ("x", "y"),
}

_STRUCTS: tuple[type[msgspec.Struct], ...] = (
    answers.BeliefSummary,
    answers.History,
    answers.Predictions,
    answers.Readiness,
    answers.RecentObservations,
    answers.RoundsAnswer,
    answers.Status,
    answers.Stored,
    answers.StreamPosition,
    answers.VerificationStatus,
)

PROBLEM: Schema = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"enum": [problem_type(slug) for slug in sorted(KINDS)]},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "minLength": 1},
    },
}
_PROBLEM_ANSWER = {
    "description": "A problem",
    "content": {PROBLEM_TYPE: {"schema": {"$ref": _POINTER.format(name="Problem")}}},
}
ERRORS: Schema = {"4XX": _PROBLEM_ANSWER, "5XX": _PROBLEM_ANSWER}


def of_structs() -> dict[str, Schema]:
    """The schemas of all answers, by name."""
    _, schemas = msgspec.json.schema_components(_STRUCTS, ref_template=_POINTER)
    for name, arrays in _ARRAYS.items():
        schemas[name]["properties"] |= dict.fromkeys(arrays, _NUMBERS)
    return schemas


def of_document(document: type[BaseModel], schemas: dict[str, Schema]) -> Schema:
    """A reference to the schema of a document that is put; it, and those that it needs, are added to `schemas`."""
    schema = document.model_json_schema(ref_template=_POINTER.replace("name", "model"))
    schemas.update(schema.pop("$defs", {}))
    schemas[document.__name__] = schema
    return {"$ref": _POINTER.format(name=document.__name__)}


def in_force(document: type[BaseModel], schemas: dict[str, Schema]) -> Schema:
    """The same for a document as it is shown, where number 0 is that of a document which nobody has put."""
    reference = of_document(document, schemas)
    schema = schemas[document.__name__]
    number = {"revision", "epoch"} & set(schema["properties"])
    shown = {key: one | ({"minimum": 0} if key in number else {}) for key, one in schema["properties"].items()}
    schemas[document.__name__ + "InForce"] = {**schema, "properties": shown}
    return {"$ref": reference["$ref"] + "InForce"}


def of_struct(kind: type[msgspec.Struct]) -> Schema:
    """A reference to the schema of an answer."""
    return {"$ref": _POINTER.format(name=kind.__name__)}


def of_fields(**fields: str) -> Schema:
    """A small answer: the names of its fields, and their types."""
    return {"type": "object", "required": list(fields), "properties": {key: _TYPES[one] for key, one in fields.items()}}


def response(schema: Schema, description: str = "The answer") -> Schema:
    """An answer in JSON or msgpack, whichever is asked for."""
    return {
        "description": description,
        "content": {"application/json": {"schema": schema}, MSGPACK: {"schema": BINARY}},
    }
