"""A TCP proxy that delays what passes through it, for a network whose links are slow in their own ways."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class DelayingProxy:
    """Forwards connections to ports of loopback; every piece of data waits for a random time first."""

    def __init__(self, seed: int, longest_s: float) -> None:
        self._random, self._longest_s = random.Random(seed), longest_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []

    @contextmanager
    def running(self) -> Iterator["DelayingProxy"]:
        """Serve from a thread until the block ends."""
        self._thread.start()
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def to(self, port: int) -> int:
        """A port whose connections go on to that one."""
        return asyncio.run_coroutine_threadsafe(self._listen(port), self._loop).result()

    async def _listen(self, port: int) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is not None:
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            try:
                there, back = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.close()
                return
            ways = [asyncio.create_task(self._pass(reader, back)), asyncio.create_task(self._pass(there, writer))]
            try:
                await asyncio.wait(ways)
            except asyncio.CancelledError:
                pass  # the proxy is closing; asyncio's streams would complain of a cancelled handler
            finally:
                for way in ways:
                    way.cancel()
                for end in (writer, back):
                    end.transport.abort()
                    with suppress(OSError):
                        await end.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                await asyncio.sleep(self._random.uniform(0, self._longest_s))
                target.write(data)
                await target.drain()
        except OSError:
            pass
        target.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
