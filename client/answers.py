"""An agent's answers, read: what it says, or why it refuses."""

from typing import Any, TypeVar, cast

import httpx2
import msgspec

from service.errors import AgentRefusedError
from service.wire.problems import read_problem

Answer = TypeVar("Answer")


def decoded(where: str, content: bytes, kind: type[Answer], language: Any = msgspec.json) -> Answer:
    """The answer's body in its shape; something else than an agent may have answered."""
    try:
        return cast("Answer", language.decode(content, type=kind))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise AgentRefusedError(f"{where} answered something else than an agent would", 200) from None


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


def plainly(fault: httpx2.TransportError) -> str:
    """Why there was no answer."""
    if isinstance(fault, httpx2.TimeoutException):
        return "it took too long"
    return str(fault) or type(fault).__name__
