"""`GET /v1/parameters`, bare ASGI: this is what peers ask for all the time."""

from typing import Any, cast, get_args

from service.agent.agent import Agent
from service.agent.store import KeptRound
from service.api.messages import Receive, Scope, Send, header, send_response
from service.api.problems import ProblemError
from service.wire.arrays import Precision
from service.wire.configuration import LONGEST_WAIT_S
from service.wire.parameters import MEDIA_TYPE

_CONTENT_TYPE = (b"content-type", MEDIA_TYPE.encode())
_KNOWN = ("epoch", "round", "wait_s", "precision")


class ParametersEndpoint:
    """Answers peers with a committed round's parameters, waiting for the round if they ask for that."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        epoch, round_number, wait_s, precision = _query(scope["query_string"])
        kept = await self._agent.publication.get(epoch, round_number, wait_s)
        etag = self._etag(kept, precision)
        if header(scope, b"if-none-match") == etag:
            await send_response(send, 304, [(b"etag", etag.encode())], b"")
            return
        message = await self._agent.publication.convert(kept, precision)
        await send_response(send, 200, [_CONTENT_TYPE, (b"etag", etag.encode())], message)

    def _etag(self, kept: KeptRound, precision: Precision) -> str:
        _, incarnation = self._agent.store.identity
        return f'"{incarnation:x}-{kept.epoch}-{kept.round}-{precision}"'


def _query(query: bytes) -> tuple[int | None, int | None, float, Precision]:
    values: dict[str, Any] = dict(pair.partition("=")[::2] for pair in query.decode("latin-1").split("&") if pair)
    unknown = [name for name in values if name not in _KNOWN]
    if unknown:
        raise ProblemError("invalid-query", f"{unknown[0][:40]!r} is not known here: {', '.join(_KNOWN)} are")
    epoch, round_number = _natural("epoch", values.get("epoch")), _natural("round", values.get("round"))
    if epoch is not None and round_number is None:
        raise ProblemError("invalid-query", "epoch goes with round")
    precision = values.get("precision", "float64")
    if precision not in get_args(Precision):
        raise ProblemError("invalid-query", "precision is float64 or float32")
    return epoch, round_number, _seconds(values.get("wait_s", "0")), cast("Precision", precision)


def _natural(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ProblemError("invalid-query", f"{name} must be a natural number")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_WAIT_S:
        raise ProblemError("invalid-query", f"wait_s must be a number of seconds from 0 to {LONGEST_WAIT_S:g}")
    return seconds
