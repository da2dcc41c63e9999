"""As much of JSON Schema as the network's schema uses: what an editor would mark in a document."""

import re
from collections.abc import Callable
from itertools import repeat
from typing import Any

Kinds = type | tuple[type, ...]

_TYPES: dict[str, Kinds] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
_TEXTS = {"title", "description", "default", "discriminator", "$schema", "$defs"}  # which say nothing of a value

# Each is about one type of value, and lets the others pass.
_BOUNDS: dict[str, tuple[Kinds, Callable[[Any, Any], bool]]] = {
    "required": (dict, lambda value, names: set(names) <= set(value)),
    "minItems": (list, lambda value, bound: len(value) >= bound),
    "maxItems": (list, lambda value, bound: len(value) <= bound),
    "minLength": (str, lambda value, bound: len(value) >= bound),
    "maxLength": (str, lambda value, bound: len(value) <= bound),
    "pattern": (str, lambda value, pattern: re.search(pattern, value) is not None),
    "minimum": ((int, float), lambda value, bound: value >= bound),
    "maximum": ((int, float), lambda value, bound: value <= bound),
    "exclusiveMinimum": ((int, float), lambda value, bound: value > bound),
    "exclusiveMaximum": ((int, float), lambda value, bound: value < bound),
}


def faults_by_schema(value: Any, schema: dict[str, Any], root: dict[str, Any] | None = None) -> list[str]:
    """The keywords of the schema that the value is not right by; none if it is right."""
    root = schema if root is None else root
    keywords = [keyword for keyword in schema if keyword not in _TEXTS]
    return [keyword for keyword in keywords if not _is_right(value, keyword, schema, root)]


def _is_right(value: Any, keyword: str, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    wanted = schema[keyword]

    def fits(one: Any, by: dict[str, Any]) -> bool:
        return not faults_by_schema(one, by, root)

    match keyword:
        case "$ref":
            return fits(value, root["$defs"][wanted.rpartition("/")[2]])
        case "anyOf":
            return any(fits(value, one) for one in wanted)
        case "oneOf":
            return sum(fits(value, one) for one in wanted) == 1
        case "type":
            return isinstance(value, _TYPES[wanted]) and (not isinstance(value, bool) or wanted == "boolean")
        case "enum" | "const":
            return value in (wanted if keyword == "enum" else [wanted])
        case "properties" | "additionalProperties":
            return not isinstance(value, dict) or all(fits(*pair) for pair in _fields(value, keyword, schema))
        case "items" | "prefixItems":
            each = wanted if keyword == "prefixItems" else repeat(wanted)
            return not isinstance(value, list) or all(map(fits, value, each))
    kinds, is_within = _BOUNDS[keyword]
    return not isinstance(value, kinds) or is_within(value, wanted)


def _fields(value: dict[str, Any], keyword: str, schema: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """The fields that a keyword is about, each with the schema that it must be right by."""
    named = schema.get("properties", {})
    if keyword == "properties":
        return [(value[name], by) for name, by in named.items() if name in value]
    by = {"enum": []} if schema[keyword] is False else schema[keyword]
    return [(one, by) for name, one in value.items() if name not in named]
