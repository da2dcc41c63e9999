"""A coordinator that dies at moments at which its death could matter: at requests that change something."""

import random
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

Moment = tuple[str, ...]  # unsent or unanswered, method, url, query


class Killed(BaseException):
    """What a coordinator meets instead of kill -9."""


def die_at_every_write(run: Callable[[], object]) -> list[Moment]:
    """Run it again and again, until it gets through; where it died.

    Each request is once the last of its coordinator before it is sent, and once before it is answered; then it passes.
    """
    met: set[Moment] = set()

    def is_last(moment: Moment) -> bool:
        is_new = moment not in met
        met.add(moment)
        return is_new

    return _die(run, is_last)


def die_at_random_writes(run: Callable[[], object], deaths: int, seed: int) -> list[Moment]:
    """The same at so many moments at most, of which any may be the next."""
    moments, left = random.Random(seed), deaths

    def is_last(_: Moment) -> bool:
        nonlocal left
        dies = left > 0 and moments.random() < 0.08
        left -= dies
        return dies

    return _die(run, is_last)


def _die(run: Callable[[], object], is_last: Callable[[Moment], bool]) -> list[Moment]:
    request = httpx2.AsyncClient.request
    died: list[Moment] = []
    is_dead = False

    def pass_moment(*moment: str) -> None:
        nonlocal is_dead
        if moment[1] != "GET" and not is_dead and is_last(moment):
            died.append(moment)
            is_dead = True
            raise Killed

    async def deadly(http: httpx2.AsyncClient, method: str, url: str, **options: Any) -> httpx2.Response:
        pass_moment("unsent", method, url, str(options["params"]))
        answer = await request(http, method, url, **options)
        pass_moment("unanswered", method, url, str(options["params"]))
        return answer

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(httpx2.AsyncClient, "request", deadly)
        while True:
            is_dead = False
            try:
                run()
            except (Killed, BaseExceptionGroup):
                continue
            return died
