"""Streaming: an agent's part of the data as marked posts, at a given pace, from where the agent says that it stands."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from client.agent_client import AgentClient, Mark
from client.network.plan import NetworkPlan
from service.errors import AgentRefusedError, SettingError


@dataclass
class StreamProgress:
    """How many observations each agent has been given, of how many; `changed` is called at every post."""

    totals: dict[str, int] = field(default_factory=dict)
    posted: dict[str, int] = field(default_factory=dict)
    resumed: int = 0  # that were there before this stream began
    changed: Callable[[], None] = field(default=lambda: None)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    began_at: float = 0.0
    last_at: float = 0.0  # when something was posted

    def begin(self, totals: dict[str, int]) -> None:
        """Everything is still to be posted."""
        self.totals, self.posted = totals, dict.fromkeys(totals, 0)
        self.began_at = self.last_at = self.clock()

    @property
    def rate_per_s(self) -> float:
        """Observations a second, over all agents, while there was something to post."""
        seconds = self.last_at - self.began_at
        return (sum(self.posted.values()) - self.resumed) / seconds if seconds > 0 else 0.0

    def advance(self, name: str, posted: int, *, resumed: bool = False) -> None:
        """An agent has so many now."""
        self.resumed += (posted - self.posted[name]) if resumed else 0
        self.posted[name], self.last_at = posted, self.clock()
        self.changed()


class Pace:
    """At most so many observations a second, spread evenly; None: as fast as they are taken."""

    def __init__(
        self,
        rate_per_s: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._rate_per_s, self._clock, self._sleep = rate_per_s, clock, sleep
        self._free_at: float | None = None

    async def before(self, count: int) -> None:
        """Wait until that many may be sent. What could not be sent in time is not caught up in a burst."""
        if self._rate_per_s is None:
            return
        now = self._clock()
        start = max(now, now if self._free_at is None else self._free_at)
        self._free_at = start + count / self._rate_per_s
        if start > now:
            await self._sleep(start - now)


async def stream_part(
    plan: NetworkPlan, index: int, agent: AgentClient, client: str, pace: Pace, progress: StreamProgress
) -> None:
    """Post one agent's part, from the first batch that it does not have; the last batch ends the stream."""
    name, batches = plan.names[index], plan.batches(index)
    position = await agent.position(client)
    if position.next_sequence > batches or (position.ended and position.next_sequence != batches):
        raise _other_stream(name, plan.document.name)
    progress.advance(name, _rows_until(plan, index, position.next_sequence), resumed=True)
    # What was posted last is posted again: the agent compares, and refuses if this is not the same stream.
    for number in range(max(0, position.next_sequence - 1), batches):
        x, y = plan.batch(index, number)
        await pace.before(len(y) if number >= position.next_sequence else 0)
        mark, is_last = Mark(client, number), number == batches - 1
        try:
            await (agent.post(x, y, mark, end=is_last) if len(y) else agent.end(mark))
        except AgentRefusedError as refused:
            if refused.slug == "mark-conflict":
                raise _other_stream(name, plan.document.name) from None
            raise
        progress.advance(name, max(progress.posted[name], _rows_until(plan, index, number + 1)))


def _rows_until(plan: NetworkPlan, index: int, batches: int) -> int:
    return min(len(plan.parts[index]), batches * plan.document.stream.batch)


def _other_stream(agent: str, network: str) -> SettingError:
    return SettingError(
        f"{agent} has already been given other data under the name {network}: the data, their partition or the batch "
        "have changed since; give the network another name, or begin afresh"
    )
