"""An agent as `python -m service` starts it, whose event loop is watched: what holds it up is written to a file.

A gap between two ticks of the loop counts as long as the clock says, or as the process computed meanwhile, whichever is
less: on a busy machine a process may be made to wait for reasons of others.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec

from service import __main__ as program
from service import server
from service.settings import Settings

GAPS = "DELBO_TEST_GAPS"  # the environment variable that names the file
WORTH_TELLING_S = 0.02
_TICK_S = 0.005


class Gap(msgspec.Struct, frozen=True):
    """From when to when the loop did not run, by the clock that all processes share; and how long that counts."""

    began: float
    ended: float
    counted_s: float


async def _watch(file: Path) -> None:
    began, computed = time.monotonic(), time.process_time()
    with file.open("ab", buffering=0) as gaps:
        while True:
            await asyncio.sleep(_TICK_S)
            now, computed_now = time.monotonic(), time.process_time()
            counted = min(now - began - _TICK_S, computed_now - computed)
            if counted > WORTH_TELLING_S:
                gaps.write(msgspec.json.encode(Gap(began, now, counted)) + b"\n")
            began, computed = time.monotonic(), time.process_time()


async def _serve_watched(settings: Settings) -> None:
    watching = asyncio.create_task(_watch(Path(os.environ[GAPS])))
    try:
        await server.serve(settings)
    finally:
        watching.cancel()


if __name__ == "__main__":
    vars(program)["serve"] = _serve_watched
    sys.exit(program.main())
