"""What an agent shows to its peers: a round as soon as it is there, not before, and as long as it is kept."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from service.agent import publication as module
from service.agent.exchange import State, first_state
from service.agent.model import LoadedModel
from service.agent.publication import Publication, Snapshot
from service.agent.store import KeptRound, Store
from service.errors import NoModelError, RoundGoneError, RoundUnknownError, StoppingError, StorageError
from service.inference.belief import Evidence
from service.wire.configuration import ModelDocument
from service.wire.parameters import Part
from tests.agent.test_observation_log import open_store
from tests.wire.test_model import SMALL

MODEL = LoadedModel.load(ModelDocument.parse({"revision": 1, "model": SMALL}))
FOREVER_S = 600.0


def snapshot_of(store: Store, epoch: int, round_number: int) -> Snapshot:
    """A round whose numbers tell which it is."""
    zero = MODEL.codec.nothing
    evidence = Evidence(zero.information + round_number + 0.1, zero.shift + epoch)
    state = State(epoch, round_number, (Part("a1", round_number, 0, evidence),))
    return Snapshot.of(MODEL, state, store.identity)


def show(publication: Publication, store: Store, epoch: int, round_number: int, history: int = 2) -> Snapshot:
    """A round is committed, then published."""
    snapshot = snapshot_of(store, epoch, round_number)
    store.put_document("neighbors", "{}", snapshot.kept, history)
    publication.publish(snapshot, history)
    return snapshot


async def settle() -> None:
    """Let every task run as far as it gets."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data")
    yield opened
    opened.close()


@pytest.mark.asyncio
async def test_without_a_model_there_is_nothing_to_show(store: Store) -> None:
    publication = Publication(store)
    for epoch, number in ((None, None), (1, 0)):
        with pytest.raises(NoModelError):
            await publication.get(epoch, number, FOREVER_S)


@pytest.mark.asyncio
async def test_a_waiter_is_woken_by_its_round_and_by_no_earlier_one(store: Store) -> None:
    publication = Publication(store)
    show(publication, store, 1, 0)
    waiting = [asyncio.create_task(publication.get(1, number, FOREVER_S)) for number in (1, 1, 2, 3)]
    await settle()
    assert [task.done() for task in waiting] == [False] * 4
    first = show(publication, store, 1, 1)
    await settle()
    assert [task.done() for task in waiting] == [True, True, False, False]
    assert waiting[0].result() == waiting[1].result() == first.kept
    second = show(publication, store, 1, 2)
    await settle()
    assert [task.done() for task in waiting] == [True, True, True, False]
    assert waiting[2].result() == second.kept
    waiting[3].cancel()
    await settle()
    assert not publication._waiting


@pytest.mark.asyncio
async def test_a_round_of_the_next_epoch_is_waited_for_across_this_ones(store: Store) -> None:
    publication = Publication(store)
    show(publication, store, 1, 5)
    waiting = asyncio.create_task(publication.get(2, 0, FOREVER_S))
    await settle()
    show(publication, store, 1, 6)
    await settle()
    assert not waiting.done()
    begun = show(publication, store, 2, 0)
    assert await waiting == begun.kept


@pytest.mark.asyncio
async def test_a_round_that_will_never_come_is_gone_when_a_new_epoch_begins(store: Store) -> None:
    publication = Publication(store)
    show(publication, store, 1, 5)
    named = asyncio.create_task(publication.get(1, 7, FOREVER_S))
    unnamed = asyncio.create_task(publication.get(None, 7, FOREVER_S))
    await settle()
    show(publication, store, 2, 0)
    for waiting in (named, unnamed):
        with pytest.raises(RoundGoneError, match="round 7 of epoch 1"):
            await waiting


@pytest.mark.asyncio
async def test_a_round_to_come_is_unknown_to_those_who_do_not_wait_or_not_long_enough(store: Store) -> None:
    publication = Publication(store)
    show(publication, store, 1, 0)
    for epoch, number, wait_s in ((1, 1, 0.0), (2, 0, 0.0), (None, 1, 0.0), (1, 1, 0.001)):
        with pytest.raises(RoundUnknownError, match="this agent shows round 0 of epoch 1"):
            await publication.get(epoch, number, wait_s)
    assert not publication._waiting


@pytest.mark.asyncio
async def test_the_newest_round_is_given_to_whoever_names_none(store: Store) -> None:
    publication = Publication(store)
    for number in range(3):
        newest = show(publication, store, 1, number)
        assert await publication.get(None, None, 0.0) is newest.kept
        assert await publication.get(None, number, 0.0) is newest.kept
        assert publication.current is newest


@pytest.mark.parametrize("history", [1, 2, 4])
@pytest.mark.asyncio
async def test_so_many_rounds_are_available_and_the_others_are_gone(store: Store, history: int) -> None:
    publication = Publication(store)
    shown = [show(publication, store, 1, number, history) for number in range(8)]
    for number, snapshot in enumerate(shown):
        if number >= 8 - history:
            assert await publication.get(1, number, 0.0) == snapshot.kept
        else:
            with pytest.raises(RoundGoneError):
                await publication.get(1, number, 0.0)
    for epoch, number in ((0, 7), (1, -1)):
        with pytest.raises(RoundGoneError):
            await publication.get(epoch, number, 0.0)


@pytest.mark.asyncio
async def test_to_publish_a_round_again_changes_nothing(store: Store) -> None:
    publication = Publication(store)
    older = show(publication, store, 1, 0)
    newer = show(publication, store, 1, 1)
    for _ in range(5):
        publication.publish(newer, 2)
    assert await publication.get(1, 0, 0.0) == older.kept


@pytest.mark.asyncio
async def test_older_rounds_beyond_the_memory_are_read_from_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    publication = Publication(store)
    size = len(snapshot_of(store, 1, 0).kept.message)
    monkeypatch.setattr(module, "_MEMORY", 3 * size)
    shown = [show(publication, store, 1, number, history=20) for number in range(10)]
    assert sum(len(kept.message) for kept in publication._recent.values()) <= 3 * size
    read: list[tuple[int, int]] = []
    kept_round = store.kept_round

    def counted(epoch: int, number: int) -> KeptRound | None:
        read.append((epoch, number))
        return kept_round(epoch, number)

    monkeypatch.setattr(store, "kept_round", counted)
    for number, snapshot in enumerate(shown):
        assert await publication.get(1, number, 0.0) == snapshot.kept
    assert read == [(1, number) for number in range(7)]


@pytest.mark.asyncio
async def test_the_newest_round_is_shown_however_little_memory_there_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MEMORY", 10)
    publication = Publication(store)
    newest = [show(publication, store, 1, number) for number in range(3)][-1]
    assert len(publication._recent) == 1
    assert await publication.get(1, 2, 0.0) is newest.kept


@pytest.mark.asyncio
async def test_a_disk_that_cannot_be_read_is_a_storage_error_for_old_rounds_only(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MEMORY", 10)
    publication = Publication(store)
    newest = [show(publication, store, 1, number) for number in range(2)][-1]
    store.close()
    with pytest.raises(StorageError):
        await publication.get(1, 0, 0.0)
    assert await publication.get(1, 1, 0.0) is newest.kept


@pytest.mark.asyncio
async def test_after_a_restart_the_kept_rounds_are_available_bit_for_bit(store: Store, tmp_path: Path) -> None:
    publication = Publication(store)
    shown = [show(publication, store, 1, number) for number in range(4)]
    store.close()
    again = open_store(tmp_path / "data")
    publication = Publication(again)
    kept = again.newest_round()
    assert kept is not None
    restored = Snapshot.restored(MODEL, kept)
    publication.publish(restored, 2)
    assert restored.name == (1, 3)
    assert restored.state.evidence.information.tobytes() == shown[3].state.evidence.information.tobytes()
    assert restored.belief.shift.tobytes() == shown[3].belief.shift.tobytes()
    for number in (2, 3):
        assert await publication.get(1, number, 0.0) == shown[number].kept
    with pytest.raises(RoundGoneError):
        await publication.get(1, 1, 0.0)
    again.close()


@pytest.mark.asyncio
async def test_an_agent_that_stops_sends_away_those_who_wait_and_still_shows_what_it_has(store: Store) -> None:
    publication = Publication(store)
    shown = show(publication, store, 1, 0)
    waiting = asyncio.create_task(publication.get(1, 1, FOREVER_S))
    await settle()
    publication.stop()
    with pytest.raises(StoppingError):
        await waiting
    with pytest.raises(StoppingError):
        await publication.get(1, 1, FOREVER_S)
    assert await publication.get(1, 0, FOREVER_S) is shown.kept
    with pytest.raises(RoundUnknownError):
        await publication.get(1, 1, 0.0)


@pytest.mark.asyncio
async def test_so_many_may_wait_and_the_next_is_told_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WAITING", 3)
    publication = Publication(store)
    show(publication, store, 1, 0)
    waiting = [asyncio.create_task(publication.get(1, 1, FOREVER_S)) for _ in range(3)]
    await settle()
    with pytest.raises(RoundUnknownError):
        await publication.get(1, 1, FOREVER_S)
    waiting[0].cancel()
    await settle()
    another = asyncio.create_task(publication.get(1, 1, FOREVER_S))
    await settle()
    shown = show(publication, store, 1, 1)
    assert [await task for task in (*waiting[1:], another)] == [shown.kept] * 3


@pytest.mark.asyncio
async def test_a_message_can_be_had_in_single_precision(store: Store) -> None:
    publication = Publication(store)
    shown = show(publication, store, 1, 1)
    assert await publication.convert(shown.kept, "float64") is shown.kept.message
    single = await publication.convert(shown.kept, "float32")
    read = MODEL.codec.decode(single)
    assert read.header == MODEL.codec.decode(shown.kept.message).header
    sent = shown.state.evidence.information
    # Off by half a unit of float32's last binary digit at most.
    assert (np.abs(read.parts[0].evidence.information - sent) <= 2.0**-24 * np.abs(sent)).all()
    assert not np.array_equal(read.parts[0].evidence.information, sent)
    assert await publication.convert(shown.kept, "float32") is single
    other = show(publication, store, 1, 2)
    assert MODEL.codec.decode(await publication.convert(other.kept, "float32")).header.round == 2


def test_the_first_state_of_an_epoch_is_its_round_zero(store: Store) -> None:
    snapshot = Snapshot.of(MODEL, first_state("a1", 4, MODEL.codec.nothing), store.identity)
    message = MODEL.codec.decode(snapshot.kept.message)
    assert snapshot.name == (4, 0)
    assert (message.header.agent, message.header.incarnation) == store.identity
    assert message.header.name == (4, 0)
    assert message.header.model_id == MODEL.model_id
    assert np.array_equal(snapshot.belief.information, MODEL.prior.information)
