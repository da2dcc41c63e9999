"""Threads that work for the event loop: usually one, which does one job at a time, in order.

A ThreadPoolExecutor does the same with more machinery: its hop there and back costs about half as much again, and an
agent makes one every round (docs/decisions/0008).
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Worker:
    """Made on the event loop that it works for."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        names = [name] if threads == 1 else [f"{name}-{number}" for number in range(threads)]
        self._threads = [threading.Thread(target=self._work, name=one, daemon=True) for one in names]
        for thread in self._threads:
            thread.start()

    def run(
        self, job: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> "asyncio.Future[Result]":
        """Do the job in the thread; the future gets its result."""
        done: asyncio.Future[Result] = self._loop.create_future()
        self._jobs.put((lambda: job(*arguments, **named), done))
        return done

    def close(self) -> None:
        """Finish what was given, and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def abandon(self, fault: Exception) -> None:
        """Wait for nothing: jobs that have not begun get the fault, and the threads end after those that have."""
        with suppress(Empty):
            while (given := self._jobs.get_nowait()) is not None:
                _fail(given[1], fault)
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (given := self._jobs.get()) is not None:
            job, done = given
            try:
                result = job()
            except BaseException as fault:  # whatever it is, the one who waits has to hear of it
                self._tell(_fail, done, fault)
            else:
                self._tell(_finish, done, result)

    def _tell(self, how: Callable[[asyncio.Future[Any], Any], None], done: asyncio.Future[Any], what: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            self._loop.call_soon_threadsafe(how, done, what)


def _finish(done: asyncio.Future[Any], result: Any) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], fault: BaseException) -> None:
    if not done.done():
        done.set_exception(fault)
