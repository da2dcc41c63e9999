"""Maps: each computed once a round however many ask, none kept that failed, and no round waits for one."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from service.agent import maps as agent_maps
from service.agent.exchange import State, first_state
from service.agent.maps import MapRequest, Maps, check_there_is
from service.agent.model import LoadedModel
from service.agent.publication import Snapshot
from service.agent.readings import Readings
from service.errors import NoMapError, NumericalError, SettingError
from service.wire.configuration import ModelDocument
from service.wire.map_files import Nav2Rule
from tests.agent.counting_raster import PATIENCE_S, CountingRaster
from tests.api.every_model import model_of, rows_for
from tests.api.inside import inside
from tests.processes import problem

COARSE = MapRequest(resolution=0.25)
THREADS = 2  # that make maps; each may hold what it made last a little longer


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> CountingRaster:
    standing_in = CountingRaster()
    monkeypatch.setattr(agent_maps, "raster", standing_in)
    return standing_in


@pytest_asyncio.fixture
async def readings(counted: CountingRaster) -> AsyncIterator[Readings]:
    made = Readings()
    yield made
    counted.open.set()
    made.close()


@pytest.fixture
def maps(readings: Readings) -> Maps:
    return Maps(readings)


def snapshot_of(number: int = 0, **kind: str) -> Snapshot:
    """A round of a model that knows nothing yet."""
    model = LoadedModel.load(ModelDocument.parse({"revision": 1, "model": model_of(**kind)}))
    state = first_state("a", 0, model.codec.nothing)
    return Snapshot.of(model, State(0, number, state.parts), ("a", 1))


async def turn() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


# Once.


@pytest.mark.asyncio
async def test_many_who_ask_at_once_share_one_computation_and_one_file(maps: Maps, counted: CountingRaster) -> None:
    with counted.held():
        snapshot = snapshot_of()
        asked = [asyncio.create_task(maps.file(snapshot, COARSE)) for _ in range(100)]
        await counted.has_begun()
        await turn()
    files = await asyncio.gather(*asked)
    assert counted.count == 1
    assert all(file is files[0] for file in files)
    assert await maps.file(snapshot, COARSE) is files[0]
    assert counted.count == 1


@pytest.mark.asyncio
async def test_formats_and_layers_of_one_round_and_grid_are_drawn_from_one_computation(
    maps: Maps, counted: CountingRaster
) -> None:
    snapshot = snapshot_of()
    requests = [
        COARSE,
        MapRequest("npz", resolution=0.25),
        MapRequest("nav2", resolution=0.25),
        MapRequest("png", "entropy", resolution=0.25),
        MapRequest("png", "variance", (0, 0, 2, 1.5), 0.25, 0.0, 1.0),
    ]
    assert len({await maps.file(snapshot, request) for request in requests}) == len(requests)
    assert counted.count == 1


@pytest.mark.asyncio
async def test_another_round_or_another_grid_is_computed_anew(maps: Maps, counted: CountingRaster) -> None:
    first, second = snapshot_of(1), snapshot_of(2)
    for snapshot, request in [(first, COARSE), (second, COARSE), (first, MapRequest(resolution=0.2))]:
        await maps.file(snapshot, request)
    assert counted.count == 3
    assert counted.beliefs[1] is second.belief


@pytest.mark.parametrize("mode", ["scale", "raw"])
@pytest.mark.asyncio
async def test_the_map_of_the_prior_is_computed_once_for_all_rounds(
    maps: Maps, counted: CountingRaster, mode: Any
) -> None:
    for number in range(4):
        await maps.file(snapshot_of(number), MapRequest("nav2", resolution=0.25, nav2=Nav2Rule(mode)))
    assert counted.count == 4 + 1


@pytest.mark.asyncio
async def test_maps_of_earlier_rounds_are_not_kept_and_who_waits_for_one_still_gets_it(
    maps: Maps, counted: CountingRaster
) -> None:
    with counted.held():
        waiting = asyncio.create_task(maps.file(snapshot_of(1), COARSE))
        await counted.has_begun()
        newer = asyncio.create_task(maps.file(snapshot_of(2), COARSE))
        await turn()
    assert await waiting == await maps.file(snapshot_of(1), COARSE)
    await newer
    for number in range(3, 8):
        await maps.file(snapshot_of(number), COARSE)
    gc.collect()
    assert len(counted.alive) <= 1 + THREADS


@pytest.mark.asyncio
async def test_who_goes_away_takes_the_map_from_nobody(maps: Maps, counted: CountingRaster) -> None:
    with counted.held():
        snapshot = snapshot_of()
        gone, stays = (asyncio.create_task(maps.file(snapshot, COARSE)) for _ in range(2))
        await counted.has_begun()
        gone.cancel()
        await turn()
    assert (await stays).startswith(b"\x89PNG")
    assert gone.cancelled()
    assert counted.count == 1


# Failures are not kept.


@pytest.mark.asyncio
async def test_a_failure_is_told_to_all_who_waited_and_the_next_has_another_try(
    maps: Maps, counted: CountingRaster
) -> None:
    with counted.held():
        counted.faults.append(NumericalError("it overflowed"))
        snapshot = snapshot_of()
        asked = [asyncio.create_task(maps.file(snapshot, COARSE)) for _ in range(3)]
        await counted.has_begun()
        await turn()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [NumericalError] * 3
    assert (await maps.file(snapshot, COARSE)).startswith(b"\x89PNG")
    assert counted.count == 2


@pytest.mark.asyncio
async def test_a_failure_that_nobody_waited_for_is_not_told_to_the_next(maps: Maps, counted: CountingRaster) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    with counted.held():
        counted.faults.append(NumericalError("it overflowed"))
        snapshot = snapshot_of()
        gone = asyncio.create_task(maps.file(snapshot, COARSE))
        await counted.has_begun()
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
    async with asyncio.timeout(PATIENCE_S):
        while maps._files._made:  # noqa: ASYNC110 - any condition
            await asyncio.sleep(0.001)
    assert (await maps.file(snapshot, COARSE)).startswith(b"\x89PNG")
    gc.collect()
    assert complaints == []


@pytest.mark.asyncio
async def test_a_map_that_cannot_be_drawn_is_tried_again(maps: Maps, counted: CountingRaster) -> None:
    """Its numbers are there, but its file is not: low to high is no range."""
    snapshot = snapshot_of()
    endless = MapRequest(resolution=0.25, low=-1.7e308, high=1.7e308)
    for _ in range(2):
        with pytest.raises(SettingError, match="finite"):
            await maps.file(snapshot, endless)
    assert counted.count == 1


# Memory.


@pytest.mark.asyncio
async def test_only_so_many_pixels_are_kept_those_asked_for_last(
    monkeypatch: pytest.MonkeyPatch, readings: Readings, counted: CountingRaster
) -> None:
    snapshot = snapshot_of()

    def of(number: int) -> MapRequest:
        return MapRequest(resolution=0.25, bounds=(number, 0.0, number + 1.0, 1.0))

    pixels = check_there_is(snapshot, of(0)).pixels
    monkeypatch.setattr(agent_maps, "_AT_LEAST", 0)
    monkeypatch.setattr(agent_maps, "_RASTERS_KEPT", 3 * pixels)
    monkeypatch.setattr(agent_maps, "_FILES_KEPT", 0)  # none, so that each is drawn again
    maps = Maps(readings)
    for number in range(10):
        await maps.file(snapshot, of(number))
    gc.collect()
    assert len(counted.alive) <= 3 + THREADS
    for number, computed in [(9, 10), (8, 10), (7, 10), (0, 11), (8, 11), (7, 11), (9, 12), (0, 13)]:
        await maps.file(snapshot, of(number))
        assert counted.count == computed, number


@pytest.mark.asyncio
async def test_a_map_larger_than_all_room_is_drawn_for_who_asks_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, readings: Readings, counted: CountingRaster
) -> None:
    monkeypatch.setattr(agent_maps, "_RASTERS_KEPT", 1)
    monkeypatch.setattr(agent_maps, "_FILES_KEPT", 1)
    maps, snapshot = Maps(readings), snapshot_of()
    files = await asyncio.gather(*(maps.file(snapshot, COARSE) for _ in range(3)))
    assert files[0] is files[1] is files[2]
    assert counted.count == 1
    await turn()
    assert len(maps._rasters._made) == len(maps._files._made) == 0


# Which maps there are.


@pytest.mark.asyncio
async def test_a_map_that_would_take_too_long_is_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch, maps: Maps, counted: CountingRaster
) -> None:
    monkeypatch.setattr(agent_maps, "_MOST_WORK", 1000.0)
    for features, family in [
        ("lattice", "full"),
        ("dense", "diagonal"),
        ("cutoff", "diagonal"),
        ("lattice", "diagonal"),
    ]:
        with pytest.raises(SettingError, match="too long: take a coarser resolution or narrower bounds"):
            await maps.file(snapshot_of(0, features=features, family=family), MapRequest(resolution=0.02))
        usual = check_there_is(snapshot_of(0, features=features, family=family), MapRequest())
        assert 1 <= usual.width < 300  # of what is asked for without a resolution, it has as many as it can
    assert counted.count == 0


@pytest.mark.parametrize(
    "ask", [MapRequest("nav2"), MapRequest("png", "probability"), MapRequest("npz", "probability")]
)
@pytest.mark.asyncio
async def test_a_regression_has_no_map_of_probabilities(maps: Maps, counted: CountingRaster, ask: MapRequest) -> None:
    with pytest.raises(NoMapError, match="ask for the mean"):
        await maps.file(snapshot_of(likelihood="poisson"), ask)
    assert counted.count == 0


# No round waits.


@pytest.mark.asyncio
async def test_rounds_and_status_go_on_while_a_map_is_computed_of_the_round_before(
    tmp_path: Path, counted: CountingRaster
) -> None:
    async with inside(tmp_path, model_of()) as served:
        await served.learn(*rows_for("probit"))
        before = served.agent.snapshot
        await served.put("schedule", {"revision": 2, "when_short": "go", "forgetting": 0.5, "paused": True})
        with counted.held():
            asked = asyncio.create_task(served.http.get("/v1/map?resolution=0.25"))
            await counted.has_begun()
            await served.step(3)
            assert (await served.get("/v1/status")).json()["round"] == 4
            assert not asked.done()
        answer = await asked
        assert answer.headers["delbo-round"] == "1"
        assert counted.beliefs == [before.belief]
        assert answer.content != (await served.get("/v1/map?resolution=0.25")).content


@pytest.mark.asyncio
async def test_too_many_questions_are_answered_with_busy_and_when_to_come_again(
    tmp_path: Path, counted: CountingRaster
) -> None:
    async with inside(tmp_path, model_of()) as served:
        with counted.held():
            asked = [asyncio.create_task(served.http.get(f"/v1/map?resolution=0.{100 + k}")) for k in range(64)]
            await until(lambda: served.agent.readings._waiting == 64)
            async with asyncio.timeout(PATIENCE_S / 2):
                refused = [await served.http.get("/v1/map"), await served.ask(b'{"x": [0, 0]}', "application/json")]
            assert [problem(answer) for answer in refused] == [(503, "busy")] * 2
            assert [answer.headers["retry-after"] for answer in refused] == ["1", "1"]
            assert (await served.get("/v1/status")).json()["round"] == 0
        assert {(await one).status_code for one in asked} == {200}
        assert (await served.http.get("/v1/map?resolution=0.25")).status_code == 200


@pytest.mark.asyncio
async def test_an_agent_that_stops_says_so_to_those_who_wait_for_a_map(tmp_path: Path, counted: CountingRaster) -> None:
    async with inside(tmp_path, model_of()) as served:
        with counted.held():
            asked = [asyncio.create_task(served.http.get(f"/v1/map?resolution=0.{100 + k}")) for k in range(5)]
            await until(lambda: served.agent.readings._waiting == 5)
            served.agent.stop()
        answers = [await one for one in asked]
    refused = [problem(answer) for answer in answers if answer.status_code != 200]
    assert refused == [(503, "stopping")] * len(refused)
    assert len(refused) >= 3  # at most the two that were being computed can still be drawn


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - any condition
            await asyncio.sleep(0.001)
