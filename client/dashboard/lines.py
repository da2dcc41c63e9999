"""Beliefs that are no maps: a function of one coordinate, or bare parameters, with their bands."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from client.agent_client import AgentClient
from client.dashboard.agent_watch import AgentWatch
from client.dashboard.facts import Facts
from client.dashboard.state import facts_of_all
from service.errors import DelboError, NoMapError
from service.wire.answers import BeliefSummary, Predictions

_POINTS = 201
_MOST_PARAMETERS = 1000
_DIGITS = 6

Line = dict[str, Any]


class Lines:
    """Asks all agents at once, at most once a period; of one that does not answer, the last is kept."""

    def __init__(self, agents: Sequence[AgentWatch], period_s: float) -> None:
        self._agents, self._fresh_s = agents, 0.9 * period_s
        self._last: dict[int, Line] = {}
        self._asked_at = float("-inf")
        self._turn = asyncio.Lock()

    async def get(self) -> dict[str, Any]:
        """Where the lines go, and every agent's."""
        facts = facts_of_all(self._agents)
        if facts is None or facts.kind == "map":
            raise NoMapError("this model is shown as a map" if facts else "no agent has told its model yet")
        async with self._turn:
            now = asyncio.get_running_loop().time()
            if now - self._asked_at >= self._fresh_s:
                self._asked_at = now
                await asyncio.gather(*(self._renew(agent, facts) for agent in self._agents if agent.is_there))
        if facts.kind == "function":
            x = np.linspace(facts.lower[0], facts.upper[0], _POINTS)
        else:
            x = _picked(facts.parameters).astype(float)
        return {"kind": facts.kind, "x": _rounded(x), "agents": [self._last.get(one.number) for one in self._agents]}

    async def _renew(self, agent: AgentWatch, shown: Facts) -> None:
        facts = agent.facts
        if facts is None or facts._replace(is_binary=shown.is_binary) != shown:  # another model has another axis
            self._last.pop(agent.number, None)
            return
        ask: Callable[[AgentClient], Awaitable[Line]] = _parameters
        if facts.kind == "function":
            x = np.linspace(facts.lower[0], facts.upper[0], _POINTS)[:, None]

            async def ask(client: AgentClient) -> Line:
                return _function(await client.predict(x))

        try:
            self._last[agent.number] = await ask(agent.quick_client())
        except DelboError:
            return  # how it is, its state says


def _function(told: Predictions) -> Line:
    """What is expected, with its deviation where y is no label; and the function behind it with its own."""
    line: Line = {"epoch": told.epoch, "round": told.round}
    if told.probability is not None:
        line["expected"] = _rounded(told.probability)
    else:
        line |= {"expected": _rounded(told.mean), "deviation": _rounded(np.sqrt(told.variance))}
    return line | {"latent": _rounded(told.latent_mean), "latent_deviation": _rounded(np.sqrt(told.latent_variance))}


async def _parameters(client: AgentClient) -> Line:
    told: BeliefSummary = await client.belief(full=True)
    mean, deviation = np.asarray(told.mean).ravel(), np.sqrt(np.asarray(told.variance)).ravel()
    rows = _picked(len(mean))
    return {
        "epoch": told.epoch,
        "round": told.round,
        "expected": _rounded(mean[rows]),
        "deviation": _rounded(deviation[rows]),
    }


def _picked(count: int) -> Any:
    """All parameters; of very many, some of them, evenly."""
    return np.arange(0, count, max(1, -(-count // _MOST_PARAMETERS)))


def _rounded(values: Any) -> list[float]:
    """As many digits as anybody sees."""
    return [float(f"{value:.{_DIGITS}g}") for value in np.asarray(values).tolist()]
