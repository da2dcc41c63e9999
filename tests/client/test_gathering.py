"""Agents of a running network are brought to one round, and pause there."""

import asyncio
from dataclasses import replace
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.agent_client import AgentClient
from client.gathering import stop_at_one_round
from client.retries import Patience
from service.errors import SettingError
from service.wire.answers import Status
from service.wire.configuration import NO_NEIGHBORS, ScheduleDocument
from tests.client.told import Told
from tests.driven import run_driven

NEIGHBORS = NO_NEIGHBORS.model_copy(update={"epoch": 3})


class Running:
    """An agent in lockstep, as far as gathering sees it: it goes on whenever it is looked at, unless it is stuck."""

    def __init__(self, round_number: int, passes: list[int], stuck_at: int | None = None) -> None:
        """passes: how many rounds further it is by the time that each of its schedules arrives."""
        self.round, self._passes, self._stuck_at = round_number, passes, stuck_at
        self.in_force = ScheduleDocument(revision=4, observations_per_round=7)

    async def schedule(self) -> ScheduleDocument:
        return self.in_force

    async def put_schedule(self, document: ScheduleDocument) -> None:
        assert document.revision == self.in_force.revision + 1
        for _ in range(self._passes.pop(0) if self._passes else 0):
            self._advance()
        self.in_force = document

    async def status(self) -> Status:
        self._advance()
        return msgspec.structs.replace(Told("a").seen().status, round=self.round)

    def _advance(self) -> None:
        bound = self.in_force.until_round
        if not self.in_force.paused and (bound is None or self.round < bound) and self.round != self._stuck_at:
            self.round += 1


def gather(agents: list[Running], epochs: list[int] | None = None) -> bool:
    """On a driven clock: nobody waits."""
    members = [NEIGHBORS.model_copy(update={"epoch": epoch}) for epoch in epochs or [3] * len(agents)]
    seen = [replace(Told("a"), neighbors=document).seen() for document in members]

    async def run() -> bool:
        patience = Patience(clock=asyncio.get_running_loop().time)
        return await stop_at_one_round(cast("list[AgentClient]", agents), seen, patience)

    return run_driven(run())


running = st.builds(Running, st.integers(0, 3), st.lists(st.integers(0, 4), max_size=4))


@given(st.lists(running, min_size=1, max_size=5))
def test_all_come_to_one_round_and_pause_however_far_they_go_while_they_are_told(agents: list[Running]) -> None:
    assert gather(agents)
    assert len({agent.round for agent in agents}) == 1
    assert all(agent.in_force.paused for agent in agents)
    assert all(agent.in_force.observations_per_round == 7 for agent in agents)


def test_on_the_way_nobody_waits_for_observations() -> None:
    agent = Running(5, [])
    seen: list[ScheduleDocument] = []
    put = agent.put_schedule

    async def record(document: ScheduleDocument) -> None:
        seen.append(document)
        await put(document)

    agent.put_schedule = record  # type: ignore[method-assign]
    assert gather([agent])
    assert [(one.when_short, one.period_s, one.paused) for one in seen] == [("go", 0.0, False), ("go", 0.0, True)]


def test_where_nothing_moves_any_more_they_pause_apart() -> None:
    agents = [Running(7, []), Running(5, [], stuck_at=5)]
    assert not gather(agents)
    assert [agent.round for agent in agents] == [9, 5]
    assert all(agent.in_force.paused for agent in agents)


def test_an_agent_that_is_not_in_the_network_yet_is_left_alone() -> None:
    agents = [Running(7, []), Running(2, [])]
    assert gather(agents, epochs=[3, 0])
    assert (agents[1].round, agents[1].in_force.revision) == (2, 4)


class Driven(Running):
    """One that somebody else lets go on."""

    async def put_schedule(self, document: ScheduleDocument) -> None:
        await super().put_schedule(document)
        self.round = max(self.round, 1 + (document.until_round or 0))


def test_agents_that_somebody_else_drives_are_given_up() -> None:
    with pytest.raises(SettingError, match="could not be brought to one round"):
        gather([Running(0, []), Driven(0, [])])
