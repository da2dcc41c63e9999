"""The thread that works for the event loop: in order, one at a time, and nobody waits in vain."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from service.agent.worker import Worker
from service.errors import NumericalError, StoppingError

PATIENCE_S = 20.0


@pytest_asyncio.fixture
async def worker() -> AsyncIterator[Worker]:
    made = Worker("worker under test")
    yield made
    if made._threads[0].is_alive():
        made.close()


@pytest.mark.asyncio
async def test_jobs_run_in_one_other_thread_in_the_order_given_and_one_at_a_time(worker: Worker) -> None:
    done: list[int] = []
    threads: set[threading.Thread] = set()
    busy = threading.Lock()

    def job(number: int, *, twice: bool) -> int:
        assert busy.acquire(blocking=False)
        threads.add(threading.current_thread())
        done.append(number)
        busy.release()
        return 2 * number if twice else number

    results = await asyncio.gather(*(worker.run(job, number, twice=True) for number in range(500)))
    assert results == [2 * number for number in range(500)]
    assert done == list(range(500))
    assert [thread.name for thread in threads] == ["worker under test"]
    assert threading.current_thread() not in threads


@pytest.mark.asyncio
async def test_the_loop_goes_on_while_a_job_runs_and_the_result_comes_to_the_loop(worker: Worker) -> None:
    release = threading.Event()
    waiting = worker.run(release.wait, PATIENCE_S)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    called_in: list[threading.Thread] = []
    waiting.add_done_callback(lambda _: called_in.append(threading.current_thread()))
    release.set()
    assert await waiting
    await asyncio.sleep(0)
    assert called_in == [threading.current_thread()]


@pytest.mark.parametrize("fault", [NumericalError("it overflowed"), MemoryError(), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.asyncio
async def test_whatever_a_job_raises_is_heard_by_who_waits_and_the_next_job_runs(
    worker: Worker, fault: BaseException
) -> None:
    def job() -> None:
        raise fault

    caught: BaseException | None = None
    try:
        await worker.run(job)
    except BaseException as raised:
        caught = raised
    assert caught is fault
    assert await worker.run(lambda: "next") == "next"


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.asyncio
async def test_a_job_is_finished_though_nobody_waits_any_more(worker: Worker, fails: bool) -> None:
    loop = asyncio.get_running_loop()
    complaints: list[object] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        release.wait(PATIENCE_S)
        ended.set()
        if fails:
            raise NumericalError("nobody hears it")

    waiting = worker.run(job)
    queued = worker.run(lambda: None)
    assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    waiting.cancel()
    queued.cancel()
    release.set()
    assert await worker.run(lambda: "next") == "next"
    assert ended.is_set()
    assert waiting.cancelled()
    assert queued.cancelled()
    assert complaints == []


@pytest.mark.asyncio
async def test_closing_finishes_what_was_given_and_ends_the_thread(worker: Worker) -> None:
    done: list[int] = []
    release = threading.Event()
    first = worker.run(release.wait, PATIENCE_S)
    rest = [worker.run(done.append, number) for number in range(20)]
    release.set()
    worker.close()
    assert done == list(range(20))
    assert not worker._threads[0].is_alive()
    await asyncio.gather(first, *rest)


@pytest.mark.asyncio
async def test_a_worker_does_not_keep_the_process_alive(worker: Worker) -> None:
    assert worker._threads[0].daemon


@pytest.mark.asyncio
async def test_abandoning_waits_for_nothing_and_tells_who_waits() -> None:
    worker, gate = Worker("abandoned"), threading.Event()
    begun = threading.Event()

    def slow() -> str:
        begun.set()
        gate.wait()
        return "done"

    first, second = worker.run(slow), worker.run(slow)
    await asyncio.to_thread(begun.wait)
    worker.abandon(StoppingError("no more"))
    with pytest.raises(StoppingError, match="no more"):
        await second
    gate.set()
    assert await first == "done"
    worker._threads[0].join()
