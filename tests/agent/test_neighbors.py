"""Pulls under a driven clock: deadlines, back-off, and what is known of a neighbor, without waiting for anything."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pytest

from service.agent.exchange import Query
from service.agent.http_client import Reply
from service.agent.neighbors import Neighbors
from service.errors import PeerError, WireError
from service.inference.belief import DiagonalGaussian, Evidence
from service.wire.configuration import Neighbor
from service.wire.parameters import Header, ParameterCodec, ParameterMessage, Part
from service.wire.problems import ROUND_GONE, ROUND_UNKNOWN, problem_type
from tests.driven import run_driven

CODEC = ParameterCodec("model", DiagonalGaussian.prior(3, 0.5))
DEADLINE_S, STALE_AFTER_S = 2.0, 10.0


def encoded(agent: str, epoch: int, round_number: int, incarnation: int = 7, model_id: str = "model") -> bytes:
    """An agent's message of that round."""
    evidence = Evidence(np.full(3, 0.1 * round_number), np.full(3, 0.2))
    header = Header(agent, incarnation, model_id, epoch, round_number)
    return CODEC.encode(ParameterMessage(header, (Part(agent, round_number, 0, evidence),)))


def unknown_round() -> Reply:
    """The answer of a peer that is not yet so far."""
    return Reply(404, None, msgspec.json.encode({"type": problem_type(ROUND_UNKNOWN)}))


Answer = Callable[[str, dict[str, str]], Awaitable[Reply]]


@dataclass
class Peers:
    """Stands for the network: every peer answers as its function says; all requests are noted with their times."""

    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[float, str, str]] = field(default_factory=list)
    under_way: int = 0
    ended: list[float] = field(default_factory=list)

    async def __call__(self, url: str, target: str, headers: dict[str, str], limit: int) -> Reply:
        loop = asyncio.get_running_loop()
        name = url.removeprefix("http://")
        self.asked.append((loop.time(), name, target))
        self.under_way += 1
        try:
            return await self.answers[name](target, headers)
        finally:
            self.under_way -= 1
            self.ended.append(loop.time())


def connected(peers: Peers, *names: str) -> Neighbors:
    """Links to these peers, on the clock of the running loop."""
    neighbors = Neighbors(peers, asyncio.get_running_loop().time, jitter=lambda: 1.0)
    neighbors.connect([Neighbor(name=name, url=f"http://{name}", weight=0.1) for name in names], "float64")
    return neighbors


async def never(_target: str, _headers: dict[str, str]) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def at_once(*replies: Reply | Exception) -> Answer:
    """Gives these answers one after the other; the last one for ever."""
    left = list(replies)

    async def answer(_target: str, _headers: dict[str, str]) -> Reply:
        reply = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    return answer


def good(agent: str, epoch: int, round_number: int) -> Reply:
    return Reply(200, f'"{epoch}-{round_number}"', encoded(agent, epoch, round_number))


async def latest(neighbors: Neighbors) -> dict[str, ParameterMessage]:
    return await neighbors.pull_latest(Query(), DEADLINE_S, STALE_AFTER_S, CODEC)


def test_no_pull_outlives_the_deadline() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        peers = Peers({"slow": never, "quick": at_once(good("quick", 1, 4)), "dead": never})
        neighbors = connected(peers, "slow", "quick", "dead")
        for _ in range(50):
            began = loop.time()
            answers = await latest(neighbors)
            assert loop.time() <= began + DEADLINE_S
            assert peers.under_way == 0
            assert set(answers) == {"quick"}
        pulls = zip(sorted(at for at, _, _ in peers.asked), sorted(peers.ended), strict=True)
        assert all(ended - asked <= DEADLINE_S for asked, ended in pulls)

    run_driven(story())


def test_cancelling_a_round_ends_its_pulls() -> None:
    async def story() -> None:
        peers = Peers({"slow": never, "dead": never})
        for pull in (
            lambda neighbors: latest(neighbors),
            lambda neighbors: neighbors.pull_exactly(Query(1, 0), DEADLINE_S, CODEC),
        ):
            task = asyncio.ensure_future(pull(connected(peers, "slow", "dead")))
            await asyncio.sleep(1)
            assert peers.under_way == 2
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert peers.under_way == 0

    run_driven(story())


def test_a_dead_neighbor_is_asked_ever_more_rarely_and_found_again() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        alive = False

        async def answer(_target: str, _headers: dict[str, str]) -> Reply:
            if not alive:
                raise PeerError("it cannot be reached")
            return good("b", 1, 1)

        peers = Peers({"b": answer})
        neighbors = connected(peers, "b")
        while loop.time() < 60:
            await latest(neighbors)
            await asyncio.sleep(0.01)
        pauses = np.diff([at for at, _, _ in peers.asked])
        assert pauses[0] < 0.2
        assert pauses[-1] >= 1.0
        assert pauses.max() <= 2.1  # so long at most until it is found again
        assert neighbors.links[0].state(loop.time(), STALE_AFTER_S) == "unreachable"
        alive, back_at = True, loop.time()
        while neighbors.links[0].state(loop.time(), STALE_AFTER_S) != "fresh":
            await latest(neighbors)
            await asyncio.sleep(0.01)
        assert loop.time() - back_at <= 2.1

    run_driven(story())


def test_back_off_is_spread_by_jitter() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        for jitter, share in ((0.0, 0.5), (1.0, 1.0)):
            peers = Peers({"b": at_once(PeerError("gone"))})
            neighbors = Neighbors(peers, loop.time, jitter=[jitter].pop)
            neighbors.connect([Neighbor(name="b", url="http://b", weight=0.1)], "float64")
            await latest(neighbors)
            assert neighbors.links[0].retry_at - loop.time() == pytest.approx(0.05 * share)

    run_driven(story())


def test_what_was_heard_a_while_ago_is_used_until_it_is_too_old() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        peers = Peers({"b": at_once(good("b", 1, 3), PeerError("gone"))})
        neighbors = connected(peers, "b")
        link = neighbors.links[0]
        assert link.state(loop.time(), STALE_AFTER_S) == "unreachable"
        assert set(await latest(neighbors)) == {"b"}
        assert link.state(loop.time(), STALE_AFTER_S) == "fresh"
        await asyncio.sleep(1)
        assert set(await latest(neighbors)) == {"b"}
        assert link.state(loop.time(), STALE_AFTER_S) == "stale"
        await asyncio.sleep(STALE_AFTER_S)
        assert not await latest(neighbors)
        assert link.state(loop.time(), STALE_AFTER_S) == "unreachable"

    run_driven(story())


def test_an_unchanged_neighbor_answers_304_and_stays_fresh() -> None:
    async def story() -> None:
        conditions: list[str | None] = []

        async def answer(_target: str, headers: dict[str, str]) -> Reply:
            conditions.append(headers.get("If-None-Match"))
            return Reply(304, None, b"") if conditions[-1] == '"1-3"' else good("b", 1, 3)

        neighbors = connected(Peers({"b": answer}), "b")
        for _ in range(3):
            await asyncio.sleep(2 * STALE_AFTER_S)
            assert set(await latest(neighbors)) == {"b"}
        assert conditions == [None, '"1-3"', '"1-3"']
        assert neighbors.links[0].counts == {"new": 1, "unchanged": 2}

    run_driven(story())


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(200, None, b"garbage"), "malformed"),
        (Reply(200, None, encoded("b", 1, 2)), "older"),
        (Reply(200, None, encoded("c", 1, 4)), "wrong-agent"),
        (Reply(200, None, encoded("b", 1, 4, model_id="other")), "wrong-model"),
        (WireError("truncated", "the answer broke off"), "truncated"),
    ],
)
def test_a_bad_message_is_refused_and_counted_and_the_last_good_one_stays(
    reply: Reply | Exception, reason: str
) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        neighbors = connected(Peers({"b": at_once(good("b", 1, 3), reply)}), "b")
        await latest(neighbors)
        answers = await latest(neighbors)
        link = neighbors.links[0]
        assert answers["b"].header.round == 3
        assert link.state(loop.time(), STALE_AFTER_S) == "refused"
        assert (link.reason or "").startswith(reason)
        assert link.refusals == {reason: 1}

    run_driven(story())


def test_an_older_round_of_a_new_incarnation_is_taken() -> None:
    async def story() -> None:
        reborn = Reply(200, None, encoded("b", 1, 0, incarnation=8))
        neighbors = connected(Peers({"b": at_once(good("b", 1, 3), reborn)}), "b")
        await latest(neighbors)
        answers = await latest(neighbors)
        assert answers["b"].header.round == 0

    run_driven(story())


def test_lockstep_waits_for_the_very_round_and_asks_again_after_a_fruitless_long_poll() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()

        async def answer(target: str, _headers: dict[str, str]) -> Reply:
            assert "epoch=2&round=5&wait_s=2" in target
            if loop.time() < 100:
                await asyncio.sleep(DEADLINE_S)
                return unknown_round()
            return good("b", 2, 5)

        neighbors = connected(Peers({"b": answer, "c": at_once(good("c", 2, 5))}), "b", "c")
        answers = await neighbors.pull_exactly(Query(2, 5), DEADLINE_S, CODEC)
        assert {name: message.header.name for name, message in answers.items()} == {"b": (2, 5), "c": (2, 5)}
        assert 100 <= loop.time() < 105

    run_driven(story())


def test_lockstep_does_not_storm_a_peer_that_will_not_wait() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()

        async def answer(_target: str, _headers: dict[str, str]) -> Reply:
            return unknown_round() if loop.time() < 60 else good("b", 1, 0)

        peers = Peers({"b": answer})
        await connected(peers, "b").pull_exactly(Query(1, 0), DEADLINE_S, CODEC)
        assert len(peers.asked) < 60

    run_driven(story())


def test_lockstep_takes_no_other_round_and_a_round_that_is_gone_is_shown() -> None:
    async def story() -> None:
        gone = Reply(410, None, msgspec.json.encode({"type": problem_type(ROUND_GONE)}))
        neighbors = connected(Peers({"b": at_once(good("b", 1, 6), gone)}), "b")
        task = asyncio.ensure_future(neighbors.pull_exactly(Query(1, 5), DEADLINE_S, CODEC))
        await asyncio.sleep(30)
        assert not task.done()
        assert neighbors.links[0].refusals["wrong-round"] == 1
        assert (neighbors.links[0].reason or "").startswith(ROUND_GONE)
        task.cancel()

    run_driven(story())


def test_a_round_that_is_known_already_is_not_asked_for_again() -> None:
    async def story() -> None:
        peers = Peers({"b": at_once(good("b", 1, 5))})
        neighbors = connected(peers, "b")
        for _ in range(3):
            await neighbors.pull_exactly(Query(1, 5), DEADLINE_S, CODEC)
        assert len(peers.asked) == 1

    run_driven(story())


def test_a_neighbor_that_stays_is_remembered_and_one_that_moved_is_not() -> None:
    async def story() -> None:
        peers = Peers({"b": at_once(good("b", 1, 5)), "c": at_once(good("c", 1, 5))})
        neighbors = connected(peers, "b", "c")
        await latest(neighbors)
        stays, moved = (Neighbor(name="b", url="http://b", weight=0.5), Neighbor(name="c", url="http://d", weight=0.2))
        neighbors.connect([stays, moved], "float64")
        assert [link.message is not None for link in neighbors.links] == [True, False]
        assert neighbors.links[0].neighbor.weight == 0.5

    run_driven(story())
