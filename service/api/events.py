"""`GET /v1/events`: server-sent events, one for every round."""

import asyncio
from collections.abc import Callable

import msgspec

from service.agent.agent import Agent
from service.agent.events import News
from service.api.messages import Headers, Receive, Scope, Send, header
from service.api.problems import ProblemError
from service.wire.answers import RoundSummary

_HEADERS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # for proxies that would collect events
]
_HEARTBEAT_S = 15.0
_MOST_LISTENERS = 256
_TOLD_AT_ONCE = 64  # rounds


class EventsEndpoint:
    """Tells listeners of rounds; who comes back with Last-Event-ID hears of those in between first."""

    def __init__(self, agent: Agent, check: Callable[[Scope], None]) -> None:
        """check: refuses who is no longer let in, for one may listen for days."""
        self._agent, self._check = agent, check
        _, incarnation = agent.store.identity
        self._prefix = f"{incarnation:x}-"
        self._listeners = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["query_string"]:
            raise ProblemError("invalid-query", "events take no query: Last-Event-ID says where to go on")
        if self._listeners >= _MOST_LISTENERS:
            raise ProblemError("busy", f"{_MOST_LISTENERS} are listening already: try again")
        self._listeners += 1
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            news = await self._agent.events.catch_up(self._after(header(scope, b"last-event-id")))
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._tell(news, scope, gone, send)
        finally:
            self._listeners -= 1
            gone.cancel()

    async def _tell(self, news: News, scope: Scope, gone: "asyncio.Future[None]", send: Send) -> None:
        events = self._agent.events
        await _write(send, b"retry: 1000\n\n")
        await self._write_rounds(send, news)
        while self._goes_on(scope, gone):
            news = events.since(news.last)
            if news.rounds:
                await self._write_rounds(send, news)
                continue
            waited_for = (gone, events.next_round())
            done, _ = await asyncio.wait(waited_for, timeout=_HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                await _write(send, b": still here\n\n")
        await send({"type": "http.response.body"})

    def _goes_on(self, scope: Scope, gone: "asyncio.Future[None]") -> bool:
        try:
            self._check(scope)
        except ProblemError:
            return False
        return not (gone.done() or self._agent.events.stopped)

    async def _write_rounds(self, send: Send, news: News) -> None:
        """A few at a time: what the listener has not taken yet waits in memory."""
        if news.missed:
            await _write(send, b'event: missed\ndata: {"rounds": %d}\n\n' % news.missed)
        for begin in range(0, len(news.rounds), _TOLD_AT_ONCE):
            await _write(send, b"".join(map(self._text, news.rounds[begin : begin + _TOLD_AT_ONCE])))

    def _text(self, summary: RoundSummary) -> bytes:
        name = b"%b%d" % (self._prefix.encode(), summary.number)
        return b"id: %b\nevent: round\ndata: %b\n\n" % (name, msgspec.json.encode(summary))

    def _after(self, last_event_id: str | None) -> int | None:
        """The number of the round that the listener had last, if it had it from this very agent."""
        if last_event_id is None or not last_event_id.startswith(self._prefix):
            return None
        number = last_event_id.removeprefix(self._prefix)
        return int(number) if number.isascii() and number.isdigit() and len(number) < 20 else None


async def _write(send: Send, text: bytes) -> None:
    """Returns when there is room for more; the connection of one who never reads is cut, and then there is, too."""
    await send({"type": "http.response.body", "body": text, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
