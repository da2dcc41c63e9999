"""Where a network's agents are: local ones below runs/NAME, others at their urls."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from client.agent_client import AgentClient
from client.cluster import Cluster
from client.concurrently import all_of
from client.curves import sample
from client.evaluation import evaluate
from client.network.document import NetworkDocument
from client.network.plan import NetworkPlan
from client.retries import NO_PATIENCE
from client.running import Picture
from client.tokens import TokenFolder
from service.errors import AgentRefusedError, DelboError, SettingError
from service.inference.belief import Belief
from service.inference.objective import consensus_error
from service.wire.answers import Status
from service.wire.problems import NOT_LET_IN

_ASK_S = 3.0


@dataclass(frozen=True)
class Site:
    """A network's document, the folder of its local agents, and the tokens that its agents ask for."""

    document: NetworkDocument
    folder: Path
    tokens: TokenFolder | None = None

    @property
    def cluster(self) -> Cluster:
        """The local agents."""
        return Cluster(self.folder, self.document.local_names, tokens=self.tokens)

    @asynccontextmanager
    async def running(self, *, fresh: bool = False, keep: bool = False) -> AsyncIterator[dict[str, str]]:
        """Every agent's address; local agents that had to be started are ended afterwards, unless they are to stay."""
        cluster = self.cluster
        if fresh:
            self._check_all_local()
            await cluster.down_all()
            cluster.forget()
        before = await cluster.running()
        started = replace(cluster, names=[name for name in cluster.names if name not in before])
        try:
            yield self._with_remote(before | await started.up())
        except BaseException:
            await asyncio.shield(started.down())
            raise
        if not keep:
            await asyncio.shield(started.down())

    def _check_all_local(self) -> None:
        """Agents that run elsewhere cannot be emptied from here, and would keep what they were given before."""
        elsewhere = [agent.name for agent in self.document.agents if agent.url != "local"]
        if elsewhere:
            raise SettingError(
                f"--fresh empties local agents, and {elsewhere[0]} runs elsewhere: start it with an empty data "
                "directory, or give the network another name"
            )

    async def url(self, name: str) -> str:
        """One agent's address."""
        urls = self._with_remote(await self.cluster.running())
        if name not in urls:
            raise SettingError(f"{name} does not run: start the network with delbo up")
        return urls[name]

    async def urls(self) -> dict[str, str]:
        """Every agent's address; a local one that does not run is told."""
        local = await self.cluster.running()
        missing = [name for name in self.document.local_names if name not in local]
        if missing:
            raise SettingError(f"{missing[0]} does not run: start the network with delbo up")
        return self._with_remote(local)

    def _with_remote(self, local: dict[str, str]) -> dict[str, str]:
        """In the order of the file; local agents that do not run are left out."""
        urls = {
            agent.name: local.get(agent.name) if agent.url == "local" else agent.url for agent in self.document.agents
        }
        return {name: url for name, url in urls.items() if url is not None}

    async def picture(self, plan: NetworkPlan) -> Picture:
        """The network at this moment, as far as it answers."""
        urls = self._with_remote(await self.cluster.running())
        seen = await all_of(self._look(name, urls.get(name), plan) for name in plan.names)
        refusing = {name: one.refused for name, one in zip(plan.names, seen, strict=True) if one.refused is not None}
        if len(refusing) == len(seen):
            raise next(iter(refusing.values()))
        believing = [(agent, one.belief) for agent, one in enumerate(seen) if one.belief is not None]
        scores: list[dict[str, float] | None] = [None] * len(seen)
        errors: list[float | None] = [None] * len(seen)
        if believing:
            numbers, beliefs = zip(*believing, strict=True)
            for agent, error in zip(numbers, consensus_error(beliefs).tolist(), strict=True):
                errors[agent] = error
            for agent, score in zip(numbers, await asyncio.to_thread(_scores, plan, beliefs), strict=False):
                scores[agent] = score
        return Picture(plan.names, [one.status for one in seen], scores, errors, refusing=refusing)

    async def _look(self, name: str, url: str | None, plan: NetworkPlan) -> "_Seen":
        """What an agent shows of itself, as far as it answers and lets us see it."""
        status: Status | None = None
        if url is None:
            return _Seen()
        try:
            async with AgentClient(url, NO_PATIENCE, timeout_s=_ASK_S, tokens=self.tokens) as agent:
                status = await agent.status()
                if status.agent != name:
                    return _Seen(_with_fault(status, f"is {status.agent}, not {name}"))
                if status.model_id is None:
                    return _Seen(status)
                if status.model_id != plan.spec.model_id:
                    return _Seen(_with_fault(status, "holds another model"))
                message = await agent.parameters(plan.codec)
        except AgentRefusedError as refused:
            if refused.slug not in NOT_LET_IN:
                return _Seen()
            return _Seen(status, refused=refused if status is None else None)  # who may read need not be a peer
        except DelboError:
            return _Seen()
        return _Seen(status, plan.prior.plus(message.parts[0].evidence))


class _Seen(NamedTuple):
    """An agent's status; its belief, if it has the network's model; why it lets nobody in like us."""

    status: Status | None = None
    belief: Belief | None = None
    refused: AgentRefusedError | None = None


def _with_fault(status: Status, fault: str) -> Status:
    return msgspec.structs.replace(status, faults={"network": fault, **status.faults})


def _scores(plan: NetworkPlan, beliefs: Sequence[Belief]) -> list[dict[str, float]]:
    return [] if plan.test is None else evaluate(beliefs, plan.features, plan.likelihood, sample(plan.test))
