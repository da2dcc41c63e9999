"""A stand-in for `raster` that counts."""

import asyncio
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from service.inference.belief import Belief
from service.inference.prediction import Prediction
from service.inference.raster import raster

PATIENCE_S = 20.0  # longer than any test takes


class CountingRaster:
    """Stands in for `raster`: does what it does, counts, and can be made to wait or to fail."""

    def __init__(self) -> None:
        self.beliefs: list[Belief] = []
        self.alive: weakref.WeakSet[Prediction] = weakref.WeakSet()
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()
        self.open.set()
        self.faults: list[Exception] = []

    def __call__(self, belief: Belief, *rest: Any) -> Prediction:
        """The map, once it may."""
        self.beliefs.append(belief)
        self.begun.release()
        assert self.open.wait(PATIENCE_S)
        if self.faults:
            raise self.faults.pop()
        made = raster(belief, *rest)
        self.alive.add(made)
        return made

    @contextmanager
    def held(self) -> Iterator[None]:
        """Meanwhile no map is finished; afterwards they are, also if the test has failed."""
        self.open.clear()
        try:
            yield
        finally:
            self.open.set()

    @property
    def count(self) -> int:
        """How often it was called."""
        return len(self.beliefs)

    async def has_begun(self) -> None:
        """Wait for one more call."""
        assert await asyncio.to_thread(self.begun.acquire, timeout=PATIENCE_S)
