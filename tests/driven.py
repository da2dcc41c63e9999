"""An event loop with a driven clock: when nothing is left to do, time jumps to the next timer. No test waits."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting for a timer, moves the clock there."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            return super().select(None)  # only a thread can end this wait
        if not ready and timeout:
            self.now += timeout
        return ready


class DrivenLoop(asyncio.SelectorEventLoop):
    """Its time is the selector's."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """However long its threads take: a limit would be over at once."""
        await super().shutdown_default_executor()


def run_driven(main: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end, however much time passes on the driven clock."""
    with asyncio.Runner(loop_factory=DrivenLoop) as runner:
        return runner.run(main)
