"""The least that an HTTP client and server can do: what everything else is compared with."""

import asyncio
import sys
from typing import Any

import uvicorn
import uvloop


class BareClient(asyncio.Protocol):
    """One kept-alive connection: sends bytes, reads a response with a content-length."""

    def __init__(self) -> None:
        self._need = 0
        self._buffer = bytearray()
        self.answered: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        """Send a request; the future gets the whole answer."""
        self.transport.write(request)
        self.answered = asyncio.get_running_loop().create_future()
        return self.answered

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._need:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            self._need = end + 4 + int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._buffer) >= self._need and self.answered is not None:
            answer = bytes(self._buffer)
            self._buffer.clear()
            self._need = 0
            self.answered.set_result(answer)


async def connect(port: int) -> BareClient:
    """A connection to a port of loopback, as soon as somebody listens there."""
    loop = asyncio.get_running_loop()
    for _ in range(1000):
        try:
            return (await loop.create_connection(BareClient, "127.0.0.1", port))[1]
        except OSError:
            await asyncio.sleep(0.02)
    raise RuntimeError(f"nobody listens on {port}")


def bare_server(port: int, answer: bytes) -> uvicorn.Server:
    """uvicorn with an application that reads what comes and gives one answer."""

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body", False):
            pass
        headers = [(b"content-type", b"application/vnd.msgpack"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    config = uvicorn.Config(
        app, port=port, loop="none", http="httptools", lifespan="off", log_config=None, access_log=False
    )
    return uvicorn.Server(config)


async def pull(port: int, size: int, rounds: int, peers: list[int]) -> None:
    """Serve, wait for a line, pull from all peers at once so many times, print the seconds, serve until a line."""
    loop = asyncio.get_running_loop()
    server = bare_server(port, bytes(size))
    serving = asyncio.create_task(server.serve())
    clients = [await connect(peer) for peer in peers]
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    began = loop.time()
    request = b"GET /v1/parameters HTTP/1.1\r\nHost: peer\r\n\r\n"
    for _ in range(rounds):
        await asyncio.gather(*(client.ask(request) for client in clients))
    print(loop.time() - began, flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    server.should_exit = True
    for client in clients:
        client.transport.close()
    await serving


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    uvloop.run(pull(arguments[0], arguments[1], arguments[2], arguments[3:]))
