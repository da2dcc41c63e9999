"""The floor of a network round: a bare ASGI app under uvicorn, and a bare asyncio client that pulls from two others.

`python -m benchmarks.bare_peer PORT BYTES ROUNDS PEER PEER`: serve BYTES bytes, wait for the peers, pull ROUNDS times
from both at once, print the seconds, and go on serving until standard input is closed.
"""

import asyncio
import sys
import time
from typing import Any

import uvicorn
import uvloop

ROUTE = "/v1/parameters"


class Pull(asyncio.Protocol):
    """One kept-alive connection: asks, and reads a response of known headers and length."""

    def __init__(self) -> None:
        self._need = 0
        self._buffer = bytearray()
        self.answered: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def ask(self) -> asyncio.Future[bytes]:
        """Send a request; the future gets the body."""
        self.transport.write(f"GET {ROUTE} HTTP/1.1\r\nHost: peer\r\n\r\n".encode())
        self.answered = asyncio.get_running_loop().create_future()
        return self.answered

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._need:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            self._need = end + 4 + length
        if len(self._buffer) >= self._need and self.answered is not None:
            body = bytes(self._buffer)
            self._buffer.clear()
            self._need = 0
            self.answered.set_result(body)


async def run(port: int, size: int, rounds: int, peers: list[int]) -> None:
    """Serve, pull, tell."""
    body = bytes(size)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/vnd.msgpack"), (b"content-length", b"%d" % size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(app, port=port, loop="none", http="httptools", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    pulls = [await _connect(peer) for peer in peers]
    await _in_thread(sys.stdin.readline)  # all are there: begin
    began = time.perf_counter()
    for _ in range(rounds):
        await asyncio.gather(*(pull.ask() for pull in pulls))
    print(time.perf_counter() - began, flush=True)
    await _in_thread(sys.stdin.readline)
    server.should_exit = True
    for pull in pulls:
        pull.transport.close()
    await serving


async def _connect(port: int) -> Pull:
    loop = asyncio.get_running_loop()
    for _ in range(500):
        try:
            return (await loop.create_connection(Pull, "127.0.0.1", port))[1]
        except OSError:
            await asyncio.sleep(0.02)
    raise RuntimeError(f"nobody listens on {port}")


async def _in_thread(call: Any) -> None:
    await asyncio.get_running_loop().run_in_executor(None, call)


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    uvloop.run(run(arguments[0], arguments[1], arguments[2], arguments[3:]))
