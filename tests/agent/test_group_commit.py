"""Group commit: posts that wait for the disk share the next wait, and each gets its own answer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from service.agent.group_commit import GroupCommit
from service.agent.observation_log import Mark, ObservationLog, StoredBatch
from service.agent.store import Store
from service.errors import MarkConflictError, SequenceGapError, StoppingError, StorageError
from tests.agent.test_observation_log import failing_commits, held, observations, open_log, open_store
from tests.agent.test_publication import settle


class Writer:
    """A log with its group commit, and what was heard of it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.log: ObservationLog = open_log(store, 100_000)
        self.heard: list[StoredBatch] = []
        self.commits = GroupCommit(lambda: self.log, lambda batch, _: self.heard.append(batch))
        self.transactions = 0
        store.database.connection.set_trace_callback(self.count)

    def count(self, statement: str) -> None:
        self.transactions += statement == "COMMIT"

    def post(self, number: float, mark: Mark | None = None) -> "asyncio.Task[StoredBatch | None]":
        return asyncio.create_task(self.commits.append(observations([number]), mark))

    @asynccontextmanager
    async def busy_disk(self) -> AsyncIterator[None]:
        """The writer is at work on a first post, and cannot get on until this ends."""
        with self.store.database.lock:
            first = self.post(-1.0)
            await settle()
            yield
            await settle()
        await first


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data")
    yield opened
    opened.close()


@asynccontextmanager
async def running(store: Store) -> AsyncIterator[Writer]:
    writer = Writer(store)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:  # a post without an answer fails the test
        tasks.create_task(writer.commits.run())
        yield writer
        writer.commits.stop()


@pytest.mark.asyncio
async def test_posts_that_arrive_while_the_disk_is_busy_share_one_transaction(store: Store) -> None:
    async with running(store) as writer:
        async with writer.busy_disk():
            posts = [writer.post(number) for number in range(200)]
        batches = await asyncio.gather(*posts)
        assert writer.transactions == 2
        assert [batch.first for batch in batches if batch is not None] == list(range(1, 201))
        assert held(writer.log) == [-1, *range(200)]
        assert writer.heard[1:] == batches


@pytest.mark.asyncio
async def test_a_transaction_takes_so_many_posts_and_leaves_the_others_for_the_next(store: Store) -> None:
    async with running(store) as writer:
        async with writer.busy_disk():
            posts = [writer.post(number) for number in range(600)]
        await asyncio.gather(*posts)
        assert writer.transactions == 1 + 3  # of 256 at most
        assert held(writer.log) == [-1, *range(600)]


@pytest.mark.asyncio
async def test_a_post_returns_when_it_is_committed_and_not_before(store: Store) -> None:
    async with running(store) as writer:
        async with writer.busy_disk():
            post = writer.post(5)
            await settle()
            assert not post.done()
            assert not writer.heard
        await post
        assert not store.database.connection.in_transaction
        assert held(writer.log) == [-1, 5]


@pytest.mark.asyncio
async def test_everyone_gets_an_answer_of_their_own(store: Store) -> None:
    async with running(store) as writer:
        async with writer.busy_disk():
            stored = writer.post(1, Mark("a", 0))
            conflict = writer.post(2, Mark("a", 0))
            retry = writer.post(1, Mark("a", 0))
            gap = writer.post(3, Mark("a", 5))
            last = writer.post(4, Mark("a", 1))
        assert await stored is not None
        assert await retry is None
        assert await last is not None
        with pytest.raises(MarkConflictError):
            await conflict
        with pytest.raises(SequenceGapError):
            await gap
        assert writer.store.database.fault is None
        assert held(writer.log) == [-1, 1, 4]
        assert len(writer.heard) == 3


@pytest.mark.asyncio
async def test_a_post_whose_client_went_away_is_stored_all_the_same(store: Store) -> None:
    async with running(store) as writer:
        async with writer.busy_disk():
            gone, other, refused = writer.post(1, Mark("a", 0)), writer.post(2), writer.post(3, Mark("b", 7))
            await settle()
            gone.cancel()
            refused.cancel()
            await settle()
            assert gone.cancelled()
        await other
        assert held(writer.log) == [-1, 1, 2]
        assert [batch.first for batch in writer.heard] == [0, 1, 2]
        assert await writer.post(1, Mark("a", 0)) is None  # its retry


@pytest.mark.asyncio
async def test_a_failing_disk_fails_all_that_wait_and_is_told_until_it_works_again(store: Store) -> None:
    async with running(store) as writer:
        with failing_commits(store.database):
            posts = [writer.post(number) for number in range(5)]
            results = await asyncio.gather(*posts, return_exceptions=True)
            assert all(isinstance(result, StorageError) for result in results)
            assert "cannot be written" in (writer.store.database.fault or "")
            assert not writer.heard
        assert held(writer.log) == []
        assert await writer.post(7) is not None
        assert writer.store.database.fault is None
        assert held(writer.log) == [7]


@pytest.mark.asyncio
async def test_what_was_taken_before_the_stop_is_stored_and_nothing_is_taken_after(store: Store) -> None:
    async with running(store) as writer:
        async with writer.busy_disk():
            posts = [writer.post(number) for number in range(300)]
            await settle()
            writer.commits.stop()
            with pytest.raises(StoppingError):
                await writer.post(1000)
        await asyncio.gather(*posts)
    assert held(writer.log) == [-1, *range(300)]


@pytest.mark.asyncio
async def test_a_stop_ends_it_when_there_is_nothing_to_do(store: Store) -> None:
    writer = Writer(store)
    run = asyncio.create_task(writer.commits.run())
    await settle()
    writer.commits.stop()
    await run
    assert writer.transactions == 0
