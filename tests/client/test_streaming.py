"""How fast observations are posted, and how far a stream is."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.concurrently import all_of, beside
from client.streaming import Pace, StreamProgress
from service.errors import DataError, SettingError
from tests.driven import run_driven


def moments_of(rate_per_s: float | None, posts: list[tuple[int, float]]) -> list[float]:
    """When each post is sent, if it has so many observations and takes so long; on a driven clock."""

    async def send() -> list[float]:
        clock = asyncio.get_running_loop().time
        pace, moments = Pace(rate_per_s, clock), []
        for count, takes_s in posts:
            await pace.before(count)
            moments.append(clock())
            await asyncio.sleep(takes_s)
        return moments

    return run_driven(send())


def test_posts_are_spread_evenly_over_time() -> None:
    assert moments_of(100.0, [(50, 0.0)] * 5) == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0])
    assert moments_of(100.0, [(50, 0.2)] * 5) == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0])
    assert moments_of(100.0, [(10, 0.0), (30, 0.0), (0, 0.0), (1, 0.0)]) == pytest.approx([0.0, 0.1, 0.4, 0.4])


def test_without_a_rate_nobody_waits() -> None:
    assert moments_of(None, [(10**9, 0.0)] * 3) == [0.0, 0.0, 0.0]


def test_what_could_not_be_sent_in_time_is_not_caught_up_in_a_burst() -> None:
    posts = [(50, 0.0), (50, 60.0), (50, 0.0), (50, 0.0)]  # the second one waits for a full inbox
    assert moments_of(100.0, posts) == pytest.approx([0.0, 0.5, 60.5, 61.0])


@given(
    st.floats(0.5, 1e4),
    st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 50)), min_size=2, max_size=30),
)
def test_the_rate_is_kept_between_any_two_posts(rate_per_s: float, posts: list[tuple[int, float]]) -> None:
    moments = moments_of(rate_per_s, posts)
    for first in range(len(posts)):
        sent = 0
        for last in range(first, len(posts)):
            assert sent <= rate_per_s * (moments[last] - moments[first]) * (1 + 1e-9) + 1e-6
            sent += posts[last][0]


def test_progress_tells_what_was_there_before_from_what_is_new() -> None:
    now, seen = [0.0], list[int]()
    progress = StreamProgress(clock=lambda: now[0])
    progress.changed = lambda: seen.append(sum(progress.posted.values()))
    progress.begin({"a": 100, "b": 50})
    progress.advance("a", 40, resumed=True)
    progress.advance("b", 0, resumed=True)
    now[0] = 2.0
    progress.advance("a", 70)
    progress.advance("b", 50)
    assert (progress.posted, progress.resumed) == ({"a": 70, "b": 50}, 40)
    assert progress.rate_per_s == 40.0
    assert seen == [40, 40, 70, 120]


def test_the_first_fault_of_many_comes_out_as_itself_and_ends_the_others() -> None:
    async def fail() -> None:
        raise SettingError("the one")

    async def main() -> bool:
        forever = asyncio.ensure_future(asyncio.Event().wait())
        with pytest.raises(SettingError, match=r"^the one$"):
            await all_of([forever, fail(), all_of([fail()])])
        return forever.cancelled()

    assert asyncio.run(main())
    assert asyncio.run(all_of(asyncio.sleep(0, number) for number in range(3))) == [0, 1, 2]


def test_what_runs_beside_ends_with_the_body() -> None:
    ended: list[str] = []

    async def watch() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("watch")

    async def main() -> None:
        async with beside(watch()):
            await asyncio.sleep(0)
        assert ended == ["watch"]

    asyncio.run(main())


def test_a_fault_beside_is_told_but_not_instead_of_the_bodys_own() -> None:
    async def watch() -> None:
        raise DataError("beside")

    async def main(fault: Exception | None) -> None:
        async with beside(watch()):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if fault is not None:
                raise fault

    with pytest.raises(DataError, match="beside"):
        asyncio.run(main(None))
    with pytest.raises(SettingError, match="the body's"):
        asyncio.run(main(SettingError("the body's")))
