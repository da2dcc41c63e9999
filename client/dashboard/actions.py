"""What people can do from the dashboard: pause, resume, step, and post an observation."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from client.agent_client import AgentClient
from client.dashboard.agent_watch import AgentWatch
from service.errors import AgentRefusedError, DelboError

_STEP_S = 10.0  # for a round; one in lockstep waits for its neighbors

Act = Callable[[AgentWatch], Awaitable[str]]


async def pause(agents: Sequence[AgentWatch]) -> str:
    """Pause agents; what came of it, in words."""
    return await _each(agents, lambda agent: _set_paused(agent.client(), True))


async def resume(agents: Sequence[AgentWatch]) -> str:
    """Let agents go on; what came of it, in words."""
    return await _each(agents, lambda agent: _set_paused(agent.client(), False))


async def step(agents: Sequence[AgentWatch]) -> str:
    """Let paused agents run one round, all at once; what came of it, in words."""

    async def run(agent: AgentWatch) -> str:
        answer = await agent.client().run_rounds(1, _STEP_S)
        return "ran a round" if answer.complete else "has begun a round, and waits for its neighbors or for data"

    return await _each(agents, run)


async def observe(agent: AgentWatch, x: Sequence[float], y: float) -> str:
    """Post one observation, without a mark: it is sent once, and leaves no stream open that was not open before."""
    client = agent.client()
    # Posts without a mark are a stream of their own, and an agent in lockstep waits for the end of every stream.
    somebodys = "" in (await client.status()).observations.open_streams
    await client.post([list(x)], [y], end=not somebodys)
    await agent.poll()
    held_up = agent.status is not None and agent.status.phase in ("paused", "finished")
    return f"{agent.name} has stored it" + (", and applies it when its rounds go on" if held_up else "")


async def _set_paused(client: AgentClient, paused: bool) -> str:
    """Put the schedule in force with this changed; once more if somebody else has put another one just then."""
    for attempt in range(2):
        schedule = await client.schedule()
        if schedule.paused == paused and schedule.revision > 0:
            break
        changed: dict[str, Any] = {"paused": paused, "revision": schedule.revision + 1}
        try:
            await client.put_schedule(schedule.model_copy(update=changed))
            break
        except AgentRefusedError as refused:
            if attempt == 1 or refused.slug not in ("older-revision", "revision-taken"):
                raise
    return "paused" if paused else "goes on"


async def _each(agents: Sequence[AgentWatch], act: Act) -> str:
    """Do it with all at once, and tell what came of it; a fault of all of them is raised."""

    async def attempt(agent: AgentWatch) -> str | DelboError:
        try:
            return await act(agent)
        except DelboError as fault:
            return fault

    outcomes = await asyncio.gather(*(attempt(agent) for agent in agents))
    await asyncio.gather(*(agent.poll() for agent in agents))
    faults = [outcome for outcome in outcomes if isinstance(outcome, DelboError)]
    if len(faults) == len(outcomes) and faults:
        raise faults[0]
    names: dict[str, list[str]] = {}
    for agent, outcome in zip(agents, outcomes, strict=True):
        names.setdefault(str(outcome), []).append(agent.name)
    return "; ".join(f"{', '.join(who)}: {what}" for what, who in names.items())
