"""Every problem that the API answers with: its stable name, its status, and the error that it comes from.

`docs/problems.md` explains them to users, and a test keeps the two together.
"""

from typing import Any, NamedTuple

import msgspec

from service import errors
from service.api.messages import Headers, Send, send_response
from service.wire.problems import PROBLEM_TYPE, ROUND_GONE, ROUND_UNKNOWN, TOKEN_NEEDED, WRONG_ROLE, problem_type


class Kind(NamedTuple):
    """One kind of problem."""

    slug: str
    status: int
    title: str
    retry_after_s: int | None = None


_BUSY = Kind("busy", 503, "Too many requests at once", retry_after_s=1)

_OF_ERRORS: dict[type[errors.DelboError], Kind] = {
    errors.DimensionError: Kind("wrong-dimension", 422, "Points or targets have the wrong number of columns"),
    errors.NotFiniteError: Kind("not-finite", 422, "A number is NaN or infinite"),
    errors.TargetError: Kind("invalid-target", 422, "A target has a value that the likelihood cannot produce"),
    errors.PointsError: Kind("invalid-points", 422, "The points are not as they should be"),
    errors.VerificationError: Kind("invalid-verification", 422, "The verification document is wrong"),
    errors.DataError: Kind("invalid-observations", 422, "The observations are not as they should be"),
    errors.ModelError: Kind("invalid-model", 422, "The model document is wrong"),
    errors.TopologyError: Kind("invalid-mixing-weights", 422, "The mixing weights cannot work"),
    errors.SettingError: Kind("invalid-document", 422, "The document is wrong"),
    errors.NoModelError: Kind("no-model", 409, "The agent has no model yet"),
    errors.ModelLoadedError: Kind("model-loaded", 409, "The agent holds another model"),
    errors.OlderRevisionError: Kind("older-revision", 409, "A newer document is in force"),
    errors.OlderEpochError: Kind("older-epoch", 409, "A newer epoch is in force"),
    errors.RevisionTakenError: Kind("revision-taken", 409, "The number belongs to another document"),
    errors.MarkConflictError: Kind("mark-conflict", 409, "The mark belongs to other observations"),
    errors.SequenceGapError: Kind("sequence-gap", 409, "Observations in between are missing"),
    errors.StreamEndedError: Kind("stream-ended", 409, "The client has ended its stream"),
    errors.SourceFixedError: Kind("source-fixed", 409, "Observations were already taken from the other source"),
    errors.NotNewcomerError: Kind("not-a-newcomer", 409, "The agent has evidence of its own"),
    errors.NotPausedError: Kind("not-paused", 409, "The agent runs by itself"),
    errors.RoundUnknownError: Kind(ROUND_UNKNOWN, 404, "The round is still to come"),
    errors.RoundGoneError: Kind(ROUND_GONE, 410, "The round is no longer kept"),
    errors.BacklogFullError: Kind("backlog-full", 429, "The inbox is full", retry_after_s=1),
    errors.BatchTooLargeError: Kind("batch-too-large", 413, "More observations at once than the inbox holds"),
    errors.TooManyClientsError: Kind("too-many-clients", 409, "There is no room for another client's marks"),
    errors.TooManyPointsError: Kind("too-many-points", 413, "More points at once than one request may have"),
    errors.NoMapError: Kind("no-map", 409, "The model has no such map"),
    errors.BusyError: _BUSY,
    errors.PeerError: Kind("peer-unavailable", 503, "Another agent did not answer", retry_after_s=1),
    errors.StoppingError: Kind("stopping", 503, "The agent is shutting down", retry_after_s=2),
    errors.StorageError: Kind("storage-failed", 503, "The disk is full or broken", retry_after_s=5),
    errors.NumericalError: Kind("numerical", 422, "The numbers leave the range that a belief may have"),
}

_OF_REQUESTS = (
    Kind("invalid-json", 400, "The body is not JSON"),
    Kind("invalid-msgpack", 400, "The body is not msgpack"),
    Kind("invalid-encoding", 400, "The body is not compressed as its header says"),
    Kind("invalid-query", 400, "A query parameter is wrong"),
    Kind("incomplete-body", 400, "The body ended before its time"),
    Kind(TOKEN_NEEDED, 401, "A token is needed"),
    Kind(WRONG_ROLE, 403, "The token is for something else"),
    Kind("not-found", 404, "There is nothing here"),
    Kind("method-not-allowed", 405, "This method is not for this address"),
    Kind("slow-body", 408, "The body took too long to arrive"),
    Kind("body-too-large", 413, "The body is larger than the limit"),
    Kind("line-too-long", 413, "A line is longer than the limit"),
    Kind("unsupported-media-type", 415, "The content type is not known here"),
    Kind("unsupported-encoding", 415, "The content encoding is not known here"),
    Kind("internal", 500, "Something went wrong in the agent itself"),
    _BUSY,
)

KINDS = {kind.slug: kind for kind in (*_OF_ERRORS.values(), *_OF_REQUESTS)}


class ProblemError(Exception):
    """A fault of a request, found by the API itself; `extra` goes into the document."""

    def __init__(self, slug: str, detail: str, allow: str | None = None, **extra: Any) -> None:
        """allow: the methods that there are, where that is the problem."""
        super().__init__(detail)
        self.kind, self.allow, self.extra = KINDS[slug], allow, extra


def problem_of(fault: Exception) -> ProblemError:
    """The problem that a fault is; of what was not foreseen, nothing is told."""
    if isinstance(fault, ProblemError):
        return fault
    if isinstance(fault, errors.WireError) and fault.reason in KINDS:
        return ProblemError(fault.reason, str(fault))
    known = next((_OF_ERRORS[one] for one in type(fault).__mro__ if one in _OF_ERRORS), None)
    if known is None:
        return ProblemError("internal", "the agent's log says more")
    extra: dict[str, Any] = {"expected": fault.expected} if isinstance(fault, errors.SequenceGapError) else {}
    return ProblemError(known.slug, str(fault), **extra)


def document_of(fault: Exception) -> dict[str, Any]:
    """The document that says what the problem is."""
    problem = problem_of(fault)
    kind = problem.kind
    head = {"type": problem_type(kind.slug), "title": kind.title, "status": kind.status, "detail": str(problem)}
    return {**head, **problem.extra}


def answer_of(fault: Exception) -> tuple[int, Headers, bytes]:
    """Status, headers and body of the answer that says so."""
    problem = problem_of(fault)
    headers = [(b"content-type", PROBLEM_TYPE.encode())]
    if problem.kind.retry_after_s is not None:
        headers.append((b"retry-after", str(problem.kind.retry_after_s).encode()))
    if problem.kind.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="delbo"'))
    if problem.allow is not None:
        headers.append((b"allow", problem.allow.encode()))
    return problem.kind.status, headers, msgspec.json.encode(document_of(problem))


async def send_problem(send: Send, fault: Exception) -> None:
    """Answer with the problem."""
    await send_response(send, *answer_of(fault))
