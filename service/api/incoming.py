"""A request's body on its way, and how it is refused while it still comes."""

import asyncio
from contextlib import suppress

from service.agent.meters import Traffic
from service.api.messages import Message, Receive, Scope, Send, header
from service.api.problems import problem_of, send_problem

_LINGER_S = 2.0
_DROPPED_AT_MOST = 64 * 2**20  # bytes


class Incoming:
    """`receive`, which knows whether all of the body has come.

    A connection that is closed while bytes are unread is reset, and the client may lose the answer that was on its way.
    So who is refused gets the answer, and is listened to for a little longer, before the connection is closed.
    """

    def __init__(self, scope: Scope, receive: Receive, traffic: Traffic) -> None:
        self._receive, self._traffic = receive, traffic
        self._of_peer = scope["path"] == "/v1/parameters"
        self._waits = header(scope, b"expect") is not None  # for our word, before it sends the body
        self.complete = header(scope, b"content-length") in (None, "0") and not header(scope, b"transfer-encoding")

    async def __call__(self) -> Message:
        self._waits = False
        message = await self._receive()
        self._traffic.received += len(message.get("body", b""))
        self.complete = not message.get("more_body", False)
        return message

    async def refuse(self, send: Send, fault: Exception) -> None:
        """Answer with the problem that a fault is."""
        self._traffic.refused[problem_of(fault).kind.slug] += 1
        await send_problem(self.answering(send), fault)

    def answering(self, send: Send) -> Send:
        """`send`, whose answer reaches the client also while it goes on to send."""

        async def send_and_linger(message: Message) -> None:
            self._count(len(message.get("body", b"")))
            if message["type"] == "http.response.start" and message["status"] >= 400 and not self.complete:
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            elif message["type"] == "http.response.body" and not message.get("more_body", False) and not self.complete:
                await send({**message, "more_body": True})
                await self._drop_the_rest()
                message = {"type": "http.response.body"}
            await send(message)

        return send_and_linger

    def _count(self, sent: int) -> None:
        if self._of_peer:
            self._traffic.sent_to_peers += sent
        else:
            self._traffic.sent += sent

    async def _drop_the_rest(self) -> None:
        left = 0 if self._waits else _DROPPED_AT_MOST
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while not self.complete and left > 0:
                    left -= len((await self()).get("body", b""))
