"""Many awaits at once: all end together, and a fault comes out as itself, not in a group."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from service.errors import DelboError

Result = TypeVar("Result")


async def all_of(work: Iterable[Awaitable[Result]]) -> list[Result]:
    """What each gives, in their order; the first fault ends the others, and is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(_run(one)) for one in work]
    except* DelboError as faults:
        raise _first(faults) from None
    return [task.result() for task in running]


async def _run(work: Awaitable[Result]) -> Result:
    return await work


def _first(faults: BaseExceptionGroup[DelboError]) -> DelboError:
    fault: BaseException = faults
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault if isinstance(fault, DelboError) else DelboError(str(fault))


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run something beside the body of `async with`, and end it with the body; its fault comes out after the body."""
    task = asyncio.ensure_future(work)
    try:
        yield
    except BaseException:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # the body's own fault says more
        raise
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
