"""Bring the agents of a running lockstep network to one common round."""

from collections.abc import Sequence
from typing import Any

from client.agent_client import AgentClient
from client.concurrently import all_of
from client.network.rollout import Seen
from client.retries import Patience
from service.errors import SettingError

_POLL_S = 0.05
_MOST_STOPS = 20
_STANDSTILL_S = 10.0  # without a round anywhere: somebody they wait for is gone


async def stop_at_one_round(agents: Sequence[AgentClient], seen: Sequence[Seen], patience: Patience) -> bool:
    """Let every agent that is in the network stop at the same round, and pause; False if it stands still before that.

    Paused, they neither go on in an epoch that only some have begun, nor begin the next one without its schedule.
    """
    members = [agent for agent, one in zip(agents, seen, strict=True) if one.neighbors.epoch > 0]
    together = await _come_together(members, patience)
    await _change_schedules(members, {"paused": True})
    return together


async def _come_together(members: Sequence[AgentClient], patience: Patience) -> bool:
    """A bound in the near future is put to all.

    Who has passed it by then stops where it is, and all go on to one beyond the furthest; nobody can be further then,
    as in lockstep an agent that stops holds its neighbors. Nobody waits for observations, which may not come.
    """
    rounds = await _rounds(members)
    for _ in range(_MOST_STOPS):
        bound = max(rounds) + 1
        await _change_schedules(members, {"until_round": bound, "paused": False, "when_short": "go", "period_s": 0.0})
        rounds = await _wait_for(members, bound, patience)
        if min(rounds) < bound:
            return False
        if max(rounds) == bound:
            return True
    raise SettingError("the agents could not be brought to one round: is somebody else changing their schedules?")


async def _change_schedules(members: Sequence[AgentClient], changes: dict[str, Any]) -> None:
    async def change(agent: AgentClient) -> None:
        schedule = await agent.schedule()
        await agent.put_schedule(schedule.model_copy(update={**changes, "revision": schedule.revision + 1}))

    await all_of(change(agent) for agent in members)


async def _wait_for(members: Sequence[AgentClient], bound: int, patience: Patience) -> list[int]:
    """The agents' rounds once all are at the bound or beyond it, or nothing has moved for long."""
    moved_at, before = patience.clock(), [-1]
    while True:
        rounds = await _rounds(members)
        if min(rounds) >= bound:
            return rounds
        if rounds != before:
            moved_at, before = patience.clock(), rounds
        if patience.clock() - moved_at > _STANDSTILL_S:
            return rounds
        await patience.sleep(_POLL_S)


async def _rounds(members: Sequence[AgentClient]) -> list[int]:
    return [status.round or 0 for status in await all_of(agent.status() for agent in members)]
