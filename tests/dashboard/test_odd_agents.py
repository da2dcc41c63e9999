"""Who does not answer as an agent would, or much later than the others, disturbs nobody else."""

import asyncio

import pytest

from client.dashboard.places import Place
from tests.client.raw_server import Asked, Reply, passed_on, raw_server, reply
from tests.dashboard.dashboards import dashboard, place_of
from tests.dashboard.fleet import Fleet
from tests.dashboard.test_agent_watch import watch_of
from tests.processes import until


@pytest.mark.parametrize("counter", [b'delbo_sent_bytes_total{to="x"} abc\n', b"delbo_sent_bytes_total nan\n"])
def test_counters_that_are_no_numbers_end_nothing(fleet: Fleet, counter: bytes) -> None:
    async def story() -> None:
        async def answer(asked: Asked) -> Reply:
            return reply(200, counter) if asked.target == "/v1/metrics" else await passed_on(fleet["a1"])(asked)

        async with raw_server(answer) as server, watch_of(Place("a1", server.url)) as watch:
            await watch.poll()
            await watch.poll()
            assert watch.status is not None

    asyncio.run(story())


def test_who_answers_for_a_dead_agent_makes_it_unreachable_after_two_polls(fleet: Fleet) -> None:
    async def story() -> None:
        alive = True

        async def answer(asked: Asked) -> Reply:
            return await passed_on(fleet["a1"])(asked) if alive else reply(502, b"<html>Bad Gateway</html>")

        async with raw_server(answer) as server, watch_of(Place("a1", server.url)) as watch:
            await watch.poll()
            assert watch.is_there
            alive = False
            await watch.poll()
            assert watch.is_there
            await watch.poll()
            assert watch.health == "unreachable"

    asyncio.run(story())


def test_nobody_waits_for_the_map_of_one_that_hangs(fleet: Fleet) -> None:
    """The scale is everybody's: so all are asked for a map, and one of them never answers."""
    stuck = asyncio.Event()

    async def answer(asked: Asked) -> Reply:
        if asked.target.startswith("/v1/map"):
            await stuck.wait()
        return await passed_on(fleet["a2"])(asked)

    async def serve(begun: "asyncio.Future[str]") -> None:
        async with raw_server(answer) as server:
            begun.set_result(server.url)
            await asyncio.Event().wait()

    async def story() -> None:
        begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(begun))
        hanging = Place("a2", await begun)
        await asyncio.to_thread(_one_sees_its_own, fleet, hanging)
        serving.cancel()

    asyncio.run(story())


def _one_sees_its_own(fleet: Fleet, hanging: Place) -> None:
    with dashboard([place_of(fleet["a1"]), hanging]) as served:
        until(lambda: all(agent.facts for agent in served.watching.agents))
        shown = served.get("/api/agents/0/picture?layer=variance")
        assert shown.headers["content-type"] == "image/png"
        assert served.watching.agents[1].is_there  # it was not given up: it is only late
