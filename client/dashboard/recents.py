"""What agents were told last, and where their robots stood: shown on their maps, where they let us see it."""

import asyncio
from collections.abc import Sequence
from typing import Any

from client.dashboard.agent_watch import AgentWatch
from service.errors import DelboError

_SHOWN = 200  # of each agent
_FORGOTTEN_S = 60.0  # where a robot stood so long ago, it no longer is


class Recents:
    """Asks all agents at once, at most once a period."""

    def __init__(self, agents: Sequence[AgentWatch], period_s: float) -> None:
        self._agents, self._fresh_s = agents, 0.9 * period_s
        self._told: list[dict[str, Any] | None] = [None] * len(agents)
        self._asked_at = float("-inf")
        self._turn = asyncio.Lock()

    async def get(self) -> list[dict[str, Any] | None]:
        """Every agent's newest observations; None where it does not answer, or does not let us see them."""
        async with self._turn:
            now = asyncio.get_running_loop().time()
            if now - self._asked_at >= self._fresh_s:
                self._asked_at = now
                self._told = await asyncio.gather(*(_recent(agent) for agent in self._agents))
        return self._told


async def _recent(agent: AgentWatch) -> dict[str, Any] | None:
    if not agent.is_there or agent.facts is None or agent.facts.kind != "map":
        return None
    try:
        told = await agent.client().recent(_SHOWN)
    except DelboError:
        return None
    position = told.position if told.position_age_s is not None and told.position_age_s < _FORGOTTEN_S else None
    return {"x": told.x.tolist(), "y": told.y.tolist(), "position": position}
