"""Questions that take a while: in threads of their own, so many and no more, and nobody waits in vain."""

import asyncio
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from service.agent import model as agent_model
from service.agent import readings as agent_readings
from service.agent.model import LoadedModel
from service.agent.readings import Readings
from service.errors import BusyError, NumericalError, StoppingError
from service.inference.objective import delbo_component
from service.wire.configuration import ModelDocument
from tests.api.every_model import FEATURES, LIKELIHOODS, model_of, rows_for
from tests.inference.builders import belief_with

PATIENCE_S = 20.0


class Gate:
    """Jobs that begin, and wait until they are let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun = threading.Semaphore(0)
        self.threads: set[str] = set()
        self.together = self.most_together = 0
        self._lock = threading.Lock()

    def job(self) -> str:
        with self._lock:
            self.threads.add(threading.current_thread().name)
            self.together += 1
            self.most_together = max(self.most_together, self.together)
        self.begun.release()
        assert self.open.wait(PATIENCE_S)
        with self._lock:
            self.together -= 1
        return "answered"

    async def has_begun(self, jobs: int = 1) -> None:
        for _ in range(jobs):
            assert await asyncio.to_thread(self.begun.acquire, timeout=PATIENCE_S)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest_asyncio.fixture
async def readings(gate: Gate) -> AsyncIterator[Readings]:
    made = Readings()
    yield made
    gate.open.set()
    made.close()


async def turn() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_two_questions_are_answered_at_a_time_in_threads_of_their_own_and_the_loop_goes_on(
    readings: Readings, gate: Gate
) -> None:
    asked = [asyncio.create_task(readings.answer(1, gate.job)) for _ in range(6)]
    await gate.has_begun(2)
    assert not any(task.done() for task in asked)
    gate.open.set()
    assert await asyncio.gather(*asked) == ["answered"] * 6
    assert gate.most_together == 2
    assert all(name.startswith("readings") for name in gate.threads)


@pytest.mark.asyncio
async def test_one_question_too_many_is_sent_away_and_finds_room_later(readings: Readings, gate: Gate) -> None:
    asked = [asyncio.create_task(readings.answer(0, gate.job)) for _ in range(64)]
    await turn()
    with pytest.raises(BusyError, match="try again"):
        await asyncio.wait_for(readings.answer(0, gate.job), PATIENCE_S / 2)
    gate.open.set()
    await asyncio.gather(*asked)
    assert await readings.answer(0, gate.job) == "answered"


@pytest.mark.asyncio
async def test_questions_about_too_many_points_together_are_sent_away_but_one_alone_never_is(
    readings: Readings, gate: Gate
) -> None:
    most = agent_readings._MOST_POINTS
    alone = asyncio.create_task(readings.answer(10 * most, gate.job))
    await gate.has_begun()
    with pytest.raises(BusyError):
        await readings.answer(1, gate.job)
    gate.open.set()
    await alone
    gate.open.clear()
    half = asyncio.create_task(readings.answer(most - 1, gate.job))
    last = asyncio.create_task(readings.answer(1, gate.job))
    await gate.has_begun(2)
    with pytest.raises(BusyError):
        await readings.answer(1, gate.job)
    gate.open.set()
    assert [await half, await last] == ["answered", "answered"]


@pytest.mark.asyncio
async def test_a_question_that_fails_is_heard_of_and_leaves_its_room(readings: Readings) -> None:
    def fail() -> None:
        raise NumericalError("it overflowed")

    for _ in range(100):
        with pytest.raises(NumericalError, match="overflowed"):
            await readings.answer(agent_readings._MOST_POINTS, fail)


@pytest.mark.asyncio
async def test_on_closing_what_is_computed_is_finished_and_all_else_hears_that_the_agent_stops(
    readings: Readings, gate: Gate
) -> None:
    computed = [asyncio.create_task(readings.answer(1, gate.job)) for _ in range(2)]
    await gate.has_begun(2)
    waiting = [asyncio.create_task(readings.answer(1, gate.job)) for _ in range(3)]
    await turn()
    closing = threading.Thread(target=readings.close)  # it waits for what is computed
    closing.start()
    for task in waiting:
        with pytest.raises(StoppingError):
            await task
    with pytest.raises(StoppingError):
        await readings.answer(1, gate.job)
    assert not any(task.done() for task in computed)
    gate.open.set()
    assert await asyncio.gather(*computed) == ["answered", "answered"]
    await asyncio.to_thread(closing.join)


@pytest.mark.asyncio
async def test_who_no_longer_wants_an_answer_just_goes(readings: Readings, gate: Gate) -> None:
    asked = [asyncio.create_task(readings.answer(1, gate.job)) for _ in range(3)]
    await gate.has_begun(2)
    asked[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked[2]
    gate.open.set()
    assert await asyncio.gather(*asked[:2]) == ["answered", "answered"]
    assert len(gate.threads) == 2


# What is asked of a belief, in parts.


@pytest.mark.parametrize("family", ["diagonal", "full"])
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_predictions_and_the_objective_are_the_same_however_few_points_are_in_memory_at_once(
    monkeypatch: pytest.MonkeyPatch, family: str, features: str, likelihood: str
) -> None:
    model = LoadedModel.load(ModelDocument.parse({"revision": 1, "model": model_of(features, family, likelihood)}))
    x, y = rows_for(likelihood)
    q, mixed = (belief_with(np.random.default_rng(seed), family, model.prior.dimension) for seed in (1, 2))
    seen = model.predict(q, x)
    direct = delbo_component(q, mixed, model.features.activate(x), y, model.likelihood, agents=3)
    for name in ("_LOCAL_POINTS", "_DENSE_POINT_VALUES", "_FEWEST_ROWS"):
        monkeypatch.setattr(agent_model, name, 7)
    assert model.points_at_once == 7
    parts = model.predict(q, x)
    np.testing.assert_allclose(parts.latent_mean, seen.latent_mean, rtol=1e-13)
    np.testing.assert_allclose(parts.latent_variance, seen.latent_variance, rtol=1e-13, atol=1e-14)
    assert model.delbo_component(q, mixed.minus(model.prior), x, y, 3) == pytest.approx(direct, rel=1e-12)
