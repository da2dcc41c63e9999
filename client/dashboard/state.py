"""All that is known of the network, as one document for the browser."""

from collections.abc import Hashable, Sequence
from typing import Any

from client.dashboard.agent_watch import AgentWatch
from client.dashboard.facts import Facts
from client.dashboard.layout import Spot, arrange
from service.wire.answers import NeighborStatus


class StateWriter:
    """Makes the document; remembers where it put the agents, so that they stay there."""

    def __init__(self, name: str, watches: Sequence[AgentWatch]) -> None:
        self.name, self._watches = name, watches
        self._arranged: tuple[Any, dict[Hashable, Spot]] = (None, {})

    def document(self, now: float, may: dict[str, bool], period_s: float) -> dict[str, Any]:
        """The network at this moment, by the clock of the watches."""
        names = self._names()
        urls = {watch.url: watch.number for watch in reversed(self._watches) if watch.url is not None}
        edges = [edge for watch in self._watches for edge in _edges(watch, names, urls)]
        spots = self._spots(names, edges)
        agents = [_agent(watch, now, spots[watch.number]) for watch in self._watches]
        agents += [_stranger(number, name, spots[number]) for name, number in names.items() if number >= len(agents)]
        facts = facts_of_all(self._watches)
        return {
            "name": self.name,
            "period_s": period_s,
            "may": may,
            "view": None if facts is None else _view(facts),
            "agents": agents,
            "edges": edges,
        }

    def _names(self) -> dict[str, int]:
        """A number for every agent that anybody speaks of; those that are not watched come last."""
        names: dict[str, int] = {}
        for watch in self._watches:
            names.setdefault(watch.name, watch.number)
        urls = {watch.url for watch in self._watches}
        neighbors = [one for watch in self._watches if watch.status is not None for one in watch.status.neighbors]
        strangers = dict.fromkeys(one.name for one in neighbors if one.name not in names and one.url not in urls)
        return names | {name: number for number, name in enumerate(strangers, len(self._watches))}

    def _spots(self, names: dict[str, int], edges: Sequence[dict[str, Any]]) -> dict[Hashable, Spot]:
        nodes = sorted({*range(len(self._watches)), *names.values()})
        pairs = sorted({(edge["from"], edge["to"]) for edge in edges})
        if self._arranged[0] != (nodes, pairs):
            given: dict[Hashable, Spot] = {
                watch.number: watch.place.position for watch in self._watches if watch.place.position is not None
            }
            self._arranged = ((nodes, pairs), arrange(nodes, pairs, given))
        return self._arranged[1]


def facts_of_all(watches: Sequence[AgentWatch]) -> Facts | None:
    """What the network's model is about, as the first agent tells that has one."""
    return next((watch.facts for watch in watches if watch.facts is not None), None)


def _view(facts: Facts) -> dict[str, Any]:
    return {
        "kind": facts.kind,
        "binary": facts.is_binary,
        "layers": facts.layers,
        "lower": facts.lower,
        "upper": facts.upper,
        "parameters": facts.parameters,
    }


def _agent(watch: AgentWatch, now: float, spot: Spot) -> dict[str, Any]:
    status = watch.status
    known: dict[str, Any] = {}
    if status is not None:
        known = {
            "epoch": status.epoch,
            "round": status.round,
            "observations": status.observations.applied,
            "backlog": status.observations.backlog,
            "paused": bool(status.schedule.get("paused")),
            "exchange": status.schedule.get("exchange"),
            "faults": status.faults,
            "binary": None if watch.facts is None else watch.facts.is_binary,
            "neighbors": [_neighbor(one) for one in status.neighbors],
            "own_weight": status.own_weight,
        }
    return {
        "number": watch.number,
        "name": watch.name,
        "url": watch.url,
        "watched": True,
        "health": watch.health,
        "state": watch.state,
        "reason": watch.reason,
        "rounds": watch.rounds,
        "seen_s": _ago(watch.seen_at, now),
        "round_s": _ago(watch.round_at, now),
        "spot": spot,
        **known,
    }


def _neighbor(one: NeighborStatus) -> dict[str, Any]:
    return {
        "name": one.name,
        "state": one.state,
        "reason": one.reason,
        "age_s": one.age_s,
        "weight": one.weight,
        "round": one.round,
    }


def _stranger(number: int, name: str, spot: Spot) -> dict[str, Any]:
    """Somebody of whom others speak, and whom we do not watch."""
    return {"number": number, "name": name, "watched": False, "health": "loading", "state": "not watched", "spot": spot}


def _edges(watch: AgentWatch, names: dict[str, int], urls: dict[str, int]) -> list[dict[str, Any]]:
    """What it pulls, from whom; of one that does not answer, nobody knows how it finds its neighbors now."""
    if watch.status is None:
        return []
    return [
        {
            "from": urls.get(neighbor.url, names.get(neighbor.name)),
            "to": watch.number,
            "state": neighbor.state if watch.is_there else "unknown",
            "age_s": neighbor.age_s,
            "weight": neighbor.weight,
            "reason": neighbor.reason,
        }
        for neighbor in watch.status.neighbors
    ]


def _ago(at: float | None, now: float) -> float | None:
    return None if at is None else round(now - at, 1)
