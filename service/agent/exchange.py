"""How neighbors' parameters enter: lockstep and latest, and the seam for rules that keep more than one part.

An exchange owns the state that is committed with a round. It says what to ask of a neighbor, how the answers and the
own state combine, and how the evidence of the own observations enters. A peer is answered with the state's parts.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from service.inference.belief import Evidence
from service.inference.mixing import mix_evidence
from service.wire.configuration import ExchangeName, NeighborsDocument
from service.wire.parameters import ParameterMessage, Part


@dataclass(frozen=True, eq=False)
class State:
    """What an exchange holds after a round: one part here, the evidence that makes the belief."""

    epoch: int
    round: int
    parts: tuple[Part, ...]

    @property
    def evidence(self) -> Evidence:
        """Belief = prior + this."""
        total = self.parts[0].evidence
        for part in self.parts[1:]:
            total = total + part.evidence
        return total


@dataclass(frozen=True)
class Query:
    """What to ask of a neighbor: that very round, waiting for it; or, with None, whatever it shows."""

    epoch: int | None = None
    round: int | None = None


class Combined(NamedTuple):
    """The state before the own observations, and who entered with how much of the own weight."""

    state: State
    mixed: tuple[str, ...]
    missing: tuple[str, ...]
    own_weight: float


class Exchange(ABC):
    """One rule of exchange."""

    waits: ClassVar[bool]
    """Whether a round needs every neighbor's answer."""

    @abstractmethod
    def ask(self, state: State) -> Query:
        """The query that every neighbor gets this round."""

    def combine(self, state: State, answers: Mapping[str, ParameterMessage], neighbors: NeighborsDocument) -> Combined:
        """Mix. What did not arrive leaves its weight with the agent itself; the others' weights stay as they are."""
        own_weight = neighbors.own_weight
        mixed: list[str] = []
        missing: list[str] = []
        parts, row = [state.evidence], [own_weight]
        for neighbor in neighbors.neighbors:
            answer = answers.get(neighbor.name)
            if answer is None:
                missing.append(neighbor.name)
                own_weight += neighbor.weight
            else:
                mixed.append(neighbor.name)
                parts.append(answer.parts[0].evidence)
                row.append(neighbor.weight)
        row[0] = own_weight
        own = state.parts[0]
        combined = Part(own.origin, own.sequence, own.block, mix_evidence(parts, row))
        return Combined(State(state.epoch, state.round, (combined,)), tuple(mixed), tuple(missing), own_weight)

    def absorb(self, state: State, evidence: Evidence) -> State:
        """The next round's state: `evidence` is what fading and the own observations made of the combined state's."""
        following, own = state.round + 1, state.parts[0]
        return State(state.epoch, following, (Part(own.origin, following, own.block, evidence),))


class Lockstep(Exchange):
    """Round t uses exactly the neighbors' parameters of round t: the network equals the simulation."""

    waits = True

    def ask(self, state: State) -> Query:
        return Query(state.epoch, state.round)


class Latest(Exchange):
    """Whatever each neighbor shows now; nobody waits for anybody beyond the deadline."""

    waits = False

    def ask(self, state: State) -> Query:  # noqa: ARG002 - one interface
        return Query()


EXCHANGES: dict[ExchangeName, Exchange] = {"lockstep": Lockstep(), "latest": Latest()}


def first_state(agent: str, epoch: int, evidence: Evidence) -> State:
    """The state that an epoch starts from."""
    return State(epoch, 0, (Part(agent, 0, 0, evidence),))
