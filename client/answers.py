"""An agent's answers, read: what it says, or why it refuses."""

from typing import Any, NamedTuple, TypeVar, cast

import httpx2
import msgspec
from pydantic import ValidationError

from service.errors import AgentRefusedError, AgentUnreachableError, WireError
from service.wire.answers import BeliefSummary, Predictions, RecentObservations
from service.wire.arrays import WireArray, from_wire
from service.wire.configuration import ModelDocument, NeighborsDocument, ScheduleDocument
from service.wire.problems import read_problem

Answer = TypeVar("Answer")

_NOBODY = "All connection attempts failed"  # as anyio says it
Arrays = TypeVar("Arrays", BeliefSummary, Predictions, RecentObservations)
Document = TypeVar("Document", ModelDocument, NeighborsDocument, ScheduleDocument)


def foreign(where: str) -> AgentRefusedError:
    """Something else than an agent has answered."""
    return AgentRefusedError(f"{where} answered something else than an agent would", 200)


def decoded(where: str, content: bytes, kind: type[Answer], language: Any = msgspec.json) -> Answer:
    """The answer's body in its shape."""
    try:
        return cast("Answer", language.decode(content, type=kind))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise foreign(where) from None


def read_document(where: str, content: bytes, kind: type[Document]) -> Document:
    """A document, checked by its own rules but for the number 0, which an agent has before any other."""
    fields = decoded(where, content, dict[str, Any])
    number = "epoch" if kind is NeighborsDocument else "revision"
    is_first = fields.get(number) == 0
    try:
        document = kind.model_validate({**fields, number: 1} if is_first else fields)
    except ValidationError:
        raise foreign(where) from None
    return document.model_copy(update={number: 0}) if is_first else document


def with_arrays(where: str, answer: Arrays, *names: str) -> Arrays:
    """The same with these numbers as arrays."""
    try:
        parts = {name: msgspec.convert(getattr(answer, name), WireArray) for name in names}
        arrays = {name: from_wire(name, part, most_dimensions=3) for name, part in parts.items()}
    except (msgspec.ValidationError, WireError):
        raise foreign(where) from None
    return msgspec.structs.replace(answer, **arrays)


class MapFile(NamedTuple):
    """A map, as the file that was asked for; `tag` names it, for when it is asked for again."""

    content: bytes
    tag: str
    epoch: int
    round: int


def map_file(where: str, answer: httpx2.Response) -> MapFile:
    """The map in an answer."""
    try:
        names = (answer.headers["etag"], int(answer.headers["delbo-epoch"]), int(answer.headers["delbo-round"]))
    except (KeyError, ValueError):
        raise foreign(where) from None
    return MapFile(answer.content, *names)


def refusal(url: str, answer: httpx2.Response) -> AgentRefusedError:
    """What an agent says against a request, in its own words."""
    retry_after = answer.headers.get("retry-after", "")
    retry_after_s = float(retry_after) if retry_after.isdecimal() else None
    problem = read_problem(answer.content)
    if problem is None:
        message = f"{url} answered {answer.status_code}, and not as an agent would"
        return AgentRefusedError(message, answer.status_code, retry_after_s=retry_after_s)
    message = f"{url}: {problem.detail}"
    return AgentRefusedError(message, answer.status_code, problem.slug, problem.expected, retry_after_s)


def silence(url: str, fault: httpx2.TransportError | TimeoutError) -> AgentUnreachableError:
    """Why there was no answer."""
    is_nobody = str(fault) == _NOBODY
    if isinstance(fault, TimeoutError):
        words = "it took too long"
    else:
        words = "nobody listens there; is it running?" if is_nobody else str(fault) or type(fault).__name__
    return AgentUnreachableError(f"{url} does not answer: {words}", is_nobody)
