"""A thread that works for the event loop: one job at a time, in order.

A ThreadPoolExecutor does the same with more machinery: its hop there and back costs about half as much again, and an
agent makes one every round (docs/decisions/0008).
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Worker:
    """Made on the event loop that it works for."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(
        self, job: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> "asyncio.Future[Result]":
        """Do the job in the thread; the future gets its result."""
        done: asyncio.Future[Result] = self._loop.create_future()
        self._jobs.put((lambda: job(*arguments, **named), done))
        return done

    def close(self) -> None:
        """Finish what was given, and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (given := self._jobs.get()) is not None:
            job, done = given
            try:
                result = job()
            except BaseException as fault:  # whatever it is, the one who waits has to hear of it
                self._loop.call_soon_threadsafe(_fail, done, fault)
            else:
                self._loop.call_soon_threadsafe(_finish, done, result)


def _finish(done: asyncio.Future[Any], result: Any) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], fault: BaseException) -> None:
    if not done.done():
        done.set_exception(fault)
