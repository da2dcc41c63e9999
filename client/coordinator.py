"""The coordinator: configure agents, stream to them, end the streams, wait, and read their beliefs.

It holds nothing that matters. Agents go on without it; started again, it finds out from them what is left to do, and
ends in the same state as if it had never been gone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from client.agent_client import AgentClient
from client.concurrently import all_of
from client.gathering import stop_at_one_round
from client.network.plan import NetworkPlan
from client.network.rollout import (
    Seen,
    check_faults,
    is_at_its_bound,
    is_change,
    models_to_put,
    neighbors_to_put,
    schedules_to_put,
    start_from,
    until_round,
)
from client.retries import Patience
from client.streaming import OUR_STREAMS, Pace, StreamProgress, check_part, stream_part
from client.tokens import Tokens
from client.verifying import put_verification
from service.errors import SettingError
from service.inference.belief import Belief
from service.wire.answers import Status

Result = TypeVar("Result")
Watch = Callable[[Sequence[Status]], Awaitable[None]]

POLL_S = 0.1
_AT_EASE_S = 0.5  # between rounds that may have nothing to do


class Coordinator:
    """Drives the agents of one plan. Use it as an async context manager; every method may be called again."""

    def __init__(
        self,
        plan: NetworkPlan,
        urls: Mapping[str, str],
        patience: Patience | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        """urls: where each agent is, by name, as the coordinator and the other agents reach it."""
        missing = [name for name in plan.names if name not in urls]
        if missing:
            raise SettingError(f"{missing[0]} has no address: start it with delbo up, or give its url")
        self.plan, self.urls = plan, dict(urls)
        self.patience, self._tokens = patience or Patience(), tokens
        self._stack = AsyncExitStack()
        self.agents: list[AgentClient] = []
        self.was_exact = True  # whether the last change of the graph found all agents at one round

    async def __aenter__(self) -> Self:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=2 * len(self.plan.names))
        secure = any(
            self.urls[name].startswith("https:") for name in self.plan.names
        )  # certificates take a while to load
        http = await self._stack.enter_async_context(httpx2.AsyncClient(trust_env=False, verify=secure, limits=limits))
        self.agents = [
            AgentClient(self.urls[name], self.patience, http=http, tokens=self._tokens) for name in self.plan.names
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def wait_for_agents(self) -> list[Status]:
        """Every agent's status, once all answer; one that answers under another name is refused."""
        statuses = await self.statuses()
        for name, status in zip(self.plan.names, statuses, strict=True):
            if status.agent != name:
                raise SettingError(f"{self.urls[name]} is {status.agent}, not {name}: mend the url or the name")
        return statuses

    async def check(self) -> None:
        """Refuse what cannot go on before anything is changed: another agent, another model, another stream."""
        await self.wait_for_agents()
        seen = await self.look()
        models_to_put(self.plan, seen)
        if self.plan.train is not None:
            begun = [index for index, one in enumerate(seen) if one.position is not None]
            await all_of(check_part(self.plan, index, self.agents[index], self.stream_name) for index in begun)

    async def configure(self) -> None:
        """Put model, neighbors, verification and schedule where they are not in force yet, also to a network that runs.

        A change of the graph in lockstep is planned: all agents first come to one common round, so that it is exact
        and no agent's newest evidence counts more than another's.
        """
        await self.wait_for_agents()
        await self._put(AgentClient.put_model, models_to_put(self.plan, await self.look()))
        seen = await self.look()
        if is_change(self._wanted(seen), seen) and self.plan.document.schedule.exchange == "lockstep":
            self.was_exact = await stop_at_one_round(self.agents, seen, self.patience)
        await self._connect(await self.look())
        await all_of(put_verification(self.plan, index, agent) for index, agent in enumerate(self.agents))
        await self._schedule()

    async def stream(self, progress: StreamProgress | None = None, rate_per_s: float | None = None) -> None:
        """Post what agents do not have yet, to all at once, and end the streams; a rate overrules the document's."""
        self.plan.observations()
        shown = progress or StreamProgress()
        shown.begin({name: len(rows) for name, rows in zip(self.plan.names, self.plan.parts, strict=True)})
        rate = rate_per_s or self.plan.document.stream.rate_per_s
        await all_of(
            stream_part(self.plan, index, agent, self.stream_name, Pace(rate), shown)
            for index, agent in enumerate(self.agents)
        )

    async def wait_until_settled(self, watch: Watch | None = None) -> list[Status]:
        """Wait until every observation is applied and the agents have settled; watch sees all statuses on the way."""
        settled_from: int | None = None
        while True:
            statuses = await self.statuses()
            if watch is not None:
                await watch(statuses)
            check_faults(statuses)
            if all(is_at_its_bound(self.plan, status) for status in statuses):
                if not any(status.observations.backlog for status in statuses):
                    return statuses
                await self._schedule()  # others have posted too, and more rounds are needed
            elif all(_has_applied_all(status) for status in statuses) and not any(_bound(one) for one in statuses):
                slowest = min(status.rounds_in_all for status in statuses)
                settled_from = slowest if settled_from is None else settled_from
                if slowest >= settled_from + self.plan.settle_rounds:
                    return statuses
            await self.patience.sleep(POLL_S)

    async def let_go(self) -> None:
        """Let the agents go on without a bound, with whatever anybody posts."""

        async def change(agent: AgentClient) -> None:
            schedule = await agent.schedule()
            free = {"until_round": None, "when_short": "go", "period_s": max(schedule.period_s, _AT_EASE_S)}
            await agent.put_schedule(schedule.model_copy(update={**free, "revision": schedule.revision + 1}))

        await self._ask_all(change)

    async def statuses(self) -> list[Status]:
        """Every agent's status, asked at once."""
        return await self._ask_all(AgentClient.status)

    async def beliefs(self) -> list[Belief]:
        """Every agent's belief, from what it shows its peers."""
        messages = await self._ask_all(lambda agent: agent.parameters(self.plan.codec))
        return [self.plan.prior.plus(message.parts[0].evidence) for message in messages]

    async def look(self) -> list[Seen]:
        """Everything that agents tell of themselves."""
        return await self._ask_all(self._look_at)

    @property
    def stream_name(self) -> str:
        """The client name under which the agents know this network's stream."""
        return f"{OUR_STREAMS}{self.plan.document.name}"

    async def _look_at(self, agent: AgentClient) -> Seen:
        status = await agent.status()
        model = await agent.model()
        position = None if model is None else await agent.position(self.stream_name)
        return Seen(status, model, await agent.neighbors(), await agent.schedule(), position)

    def _wanted(self, seen: Sequence[Seen]) -> list[Any]:
        wanted = [
            self.plan.neighbors_document(agent, self.urls, start_from=start_from(self.plan, agent, seen))
            for agent in range(len(seen))
        ]
        return neighbors_to_put(wanted, seen)

    async def _connect(self, seen: Sequence[Seen]) -> None:
        """Begin an epoch where it must; newcomers first, while those they start from still stand where they are."""
        documents = self._wanted(seen)
        first = [one if one is not None and one.start_from is not None else None for one in documents]
        await self._put(AgentClient.put_neighbors, first)
        rest = [one if one is not None and one.start_from is None else None for one in documents]
        await self._put(AgentClient.put_neighbors, rest)

    async def _schedule(self) -> None:
        """Say when rounds run, and for how long."""
        seen = await self.look()
        bound = until_round(self.plan, seen)
        await self._put(AgentClient.put_schedule, schedules_to_put(self.plan, seen, bound))

    async def _put(self, put: Callable[[AgentClient, Any], Awaitable[None]], documents: Sequence[Any]) -> None:
        pairs = zip(self.agents, documents, strict=True)
        await all_of(put(agent, document) for agent, document in pairs if document is not None)

    async def _ask_all(self, ask: Callable[[AgentClient], Awaitable[Result]]) -> list[Result]:
        return await all_of(ask(agent) for agent in self.agents)


def _bound(status: Status) -> int | None:
    return status.schedule.get("until_round")


def _has_applied_all(status: Status) -> bool:
    return status.observations.ended and status.observations.backlog == 0
