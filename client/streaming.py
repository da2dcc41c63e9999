"""Streaming: an agent's part of the data as marked posts, at a given pace, from where the agent says that it stands."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from client.agent_client import AgentClient, Mark
from client.network.plan import NetworkPlan
from service.errors import AgentRefusedError, SettingError

OUR_STREAMS = "run "  # what the names begin with under which agents know a coordinator's streams


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


async def check_part(plan: NetworkPlan, index: int, agent: AgentClient, client: str) -> int:
    """How many batches of its part an agent has; it is refused if they are of another stream.

    What was posted last is posted again: the agent compares.
    """
    position, batches = await agent.position(client), plan.batches(index)
    if position.next_sequence > batches or (position.ended and position.next_sequence != batches):
        raise _other_stream(plan, index)
    if position.next_sequence > 0:
        await _post(plan, index, agent, Mark(client, position.next_sequence - 1))
    return position.next_sequence


async def stream_part(
    plan: NetworkPlan, index: int, agent: AgentClient, client: str, pace: Pace, progress: StreamProgress
) -> None:
    """Post one agent's part, from the first batch that it does not have; the last batch ends the stream."""
    name, first = plan.names[index], await check_part(plan, index, agent, client)
    progress.advance(name, _rows_until(plan, index, first), resumed=True)
    for number in range(first, plan.batches(index)):
        until = _rows_until(plan, index, number + 1)
        await pace.before(until - progress.posted[name])
        await _post(plan, index, agent, Mark(client, number))
        progress.advance(name, until)


async def _post(plan: NetworkPlan, index: int, agent: AgentClient, mark: Mark) -> None:
    x, y = plan.batch(index, mark.sequence)
    is_last = mark.sequence == plan.batches(index) - 1
    position = plan.position(index, mark.sequence) if plan.features.dimension == 2 else None  # a place in a plane
    try:
        await (agent.post(x, y, mark, end=is_last, position=position) if len(y) else agent.end(mark))
    except AgentRefusedError as refused:
        if refused.slug == "mark-conflict":
            raise _other_stream(plan, index) from None
        if refused.slug in ("batch-too-large", "body-too-large"):
            raise SettingError(f"{refused}; take a smaller batch under stream") from None
        raise


def _rows_until(plan: NetworkPlan, index: int, batches: int) -> int:
    return min(len(plan.parts[index]), batches * plan.document.stream.batch)


def _other_stream(plan: NetworkPlan, index: int) -> SettingError:
    return SettingError(
        f"{plan.names[index]} has already been given other data under the name {plan.document.name}: the data, their "
        "partition or the batch have changed since; give the network another name, or begin anew with --fresh"
    )
