"""`GET /v1/parameters`: what peers ask for all the time. `peer_protocol.py` is their short way to it."""

from functools import lru_cache
from typing import Any, cast, get_args

from service.agent.agent import Agent
from service.agent.store import KeptRound
from service.api.messages import Headers, Receive, Scope, Send, header, send_response
from service.api.problems import ProblemError
from service.wire.arrays import Precision
from service.wire.configuration import LONGEST_WAIT_S
from service.wire.parameters import MEDIA_TYPE

Answer = tuple[int, Headers, bytes]

_CONTENT_TYPE = (b"content-type", MEDIA_TYPE.encode())
_KNOWN = ("epoch", "round", "wait_s", "precision")


class ParametersEndpoint:
    """Answers peers with a committed round's parameters, waiting for the round if they ask for that."""

    def __init__(self, agent: Agent) -> None:
        self._publication, self.traffic = agent.publication, agent.traffic
        _, self._incarnation = agent.store.identity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send_response(send, *await self.answer(scope["query_string"], header(scope, b"if-none-match")))

    async def answer(self, query: bytes, known: str | None) -> Answer:
        """The answer to a query; `known`: the ETag that the peer has."""
        epoch, round_number, wait_s, precision = _query(query)
        kept = await self._publication.get(epoch, round_number, wait_s)
        etag = self._etag(kept, precision)
        return self._answer(etag, known, b"" if etag == known else await self._publication.convert(kept, precision))

    def answer_at_once(self, query: bytes, known: str | None) -> Answer | None:
        """The same if it takes no waiting, else None."""
        epoch, round_number, _, precision = _query(query)
        kept = self._publication.get_at_once(epoch, round_number)
        if kept is None or precision != "float64":
            return None
        etag = self._etag(kept, precision)
        return self._answer(etag, known, kept.message)

    def _answer(self, etag: str, known: str | None, message: bytes) -> Answer:
        tag = (b"etag", etag.encode())
        return (304, [tag], b"") if etag == known else (200, [_CONTENT_TYPE, tag], message)

    def _etag(self, kept: KeptRound, precision: Precision) -> str:
        return f'"{self._incarnation:x}-{kept.epoch}-{kept.round}-{precision}"'


@lru_cache(maxsize=64)  # in lockstep all peers ask the same
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
