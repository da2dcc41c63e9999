"""Documents that people write: checked as a whole, and their faults told in one sentence."""

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class Document(BaseModel):
    """A frozen document without unknown keys, NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def sentence(fault: ValidationError) -> str:
    """The deepest fault in plain words: where, what, and what would be right."""
    if fault.error_count() > _MOST_FAULTS:  # to list them all would take a while
        return f"the document has {fault.error_count()} faults"
    # Where a value may be of several kinds, each kind has a fault: the one that got furthest knows most, and next to it
    # one that the value is of the kind for, but out of its range.
    deepest = max(fault.errors(include_url=False), key=lambda one: (len(one["loc"]), not _is_other_kind(one["type"])))
    where = _place(deepest["loc"])
    message = deepest["msg"]
    match deepest["type"]:
        case "missing":
            return f"{where} is missing"
        case "extra_forbidden":
            return f"{where} is not known here"
        case "union_tag_invalid":
            context = deepest["ctx"]
            return f"{where}.kind is {context['tag']!r}: it should be one of {context['expected_tags']}"
        case "union_tag_not_found":
            return f"{where}.kind is missing"
        case "value_error":
            message = message.removeprefix("Value error, ")
            return f"{where}: {message}" if deepest["loc"] else message  # about the whole: it names the place itself
        case "tuple_type" | "list_type":
            message = "input should be a list"
        case "model_type" | "model_attributes_type" | "dict_type":
            message = "input should be a mapping"
        case "too_short":
            message = f"input should have at least {deepest['ctx']['min_length']} item(s)"
    return f"{where}: {message[0].lower()}{message[1:]}, not {_shortened(deepest['input'])}"


def _is_other_kind(fault_type: str) -> bool:
    return fault_type == "literal_error" or fault_type.endswith(("_type", "_parsing"))


def _place(location: tuple[int | str, ...]) -> str:
    """The path as the document's author wrote it.

    Without the kind that follows features or likelihood, and the names of the types that a value might have been of.
    """
    parts = [str(part) for number, part in enumerate(location) if not _is_kind(location[:number])]
    return ".".join(part for part in parts if not _is_type_name(part)) or "the document"


def _is_kind(before: tuple[int | str, ...]) -> bool:
    """Whether what comes next is the kind that was chosen, which the author wrote as a value."""
    match before:
        case (*_, str() as name, int()):
            return name in _LISTS_OF_TAGGED
        case (*_, name):
            return name in _TAGGED
    return False


def _is_type_name(part: str) -> bool:
    return "[" in part or part.startswith("constrained-") or part in ("float", "int") or part.endswith("Spec")


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + " ..."


_TAGGED = ("features", "likelihood", "source")  # their kind decides what else they hold
_LISTS_OF_TAGGED = ("data",)
_LONGEST_VALUE = 60
_MOST_FAULTS = 1000
