"""Results that many ask for: made once, kept while there is room, never more than a few hundred."""

import asyncio

import pytest

from service.agent.shared import Shared


class Maker:
    """Makes results, and counts them."""

    def __init__(self) -> None:
        self.made: list[object] = []

    async def ask(self, shared: "Shared[object, str]", key: object, size: int = 1) -> str:
        async def make() -> str:
            self.made.append(key)
            await asyncio.sleep(0)
            return f"of {key}"

        return await shared.get(key, size, make)


@pytest.mark.asyncio
async def test_what_is_asked_for_most_often_stays_and_the_rest_goes_one_after_the_other() -> None:
    shared, maker = Shared[object, str](room=10), Maker()
    for key in range(9):
        await maker.ask(shared, key)
        await maker.ask(shared, "popular", size=5)
    assert maker.made == [0, "popular", *range(1, 9)]
    assert list(shared._made) == [4, 5, 6, 7, 8, "popular"]
    assert shared._taken == sum(entry.size for entry in shared._made.values()) <= 10
    await maker.ask(shared, 0)
    assert maker.made[-1] == 0  # it had gone


@pytest.mark.asyncio
async def test_however_small_they_are_only_so_many_are_kept() -> None:
    shared, maker = Shared[object, str](room=10**9), Maker()
    for key in range(1000):
        await maker.ask(shared, key, size=0)
    assert len(shared._made) == 256
    assert next(iter(shared._made)) == 1000 - 256


@pytest.mark.asyncio
async def test_one_that_is_larger_than_the_room_is_shared_by_those_who_wait_and_not_kept() -> None:
    shared, maker = Shared[object, str](room=10), Maker()
    asked = await asyncio.gather(*(maker.ask(shared, "large", size=11) for _ in range(3)))
    assert (asked, maker.made) == (["of large"] * 3, ["large"])
    assert (list(shared._made), shared._taken) == ([], 0)
    await maker.ask(shared, "small")
    assert (list(shared._made), shared._taken) == (["small"], 1)
