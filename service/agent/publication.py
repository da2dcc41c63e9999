"""What an agent shows: the newest committed round, and to peers that are behind, the rounds that are still kept."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from service.agent.exchange import State
from service.agent.model import LoadedModel
from service.agent.store import KeptRound, Store
from service.errors import NoModelError, RoundGoneError, RoundUnknownError, StoppingError
from service.inference.belief import Belief
from service.wire.arrays import Precision
from service.wire.parameters import Header, ParameterMessage

_MEMORY = 64 * 2**20  # bytes of older rounds' messages; what does not fit is read from disk
_CONVERSIONS_KEPT = 2
_MOST_WAITING = 1000  # peers that wait for a round


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A committed round, immutable: all that is told about the belief comes from one of these."""

    model: LoadedModel
    state: State
    kept: KeptRound

    @classmethod
    def of(cls, model: LoadedModel, state: State, identity: tuple[str, int]) -> "Snapshot":
        """The snapshot of a state, and its message to peers; identity: the agent's name and incarnation."""
        header = Header(*identity, model.model_id, state.epoch, state.round)
        message = model.codec.encode(ParameterMessage(header, state.parts))
        return cls(model, state, KeptRound(state.epoch, state.round, message))

    @classmethod
    def restored(cls, model: LoadedModel, kept: KeptRound) -> "Snapshot":
        """The snapshot of a round that was read from disk."""
        state = State(kept.epoch, kept.round, model.codec.decode(kept.message).parts)
        return cls(model, state, kept)

    @property
    def name(self) -> tuple[int, int]:
        """(epoch, round)."""
        return self.kept.epoch, self.kept.round

    @cached_property
    def belief(self) -> Belief:
        """Prior + evidence; for a full model this takes a while."""
        return self.model.belief(self.state)


class Publication:
    """The rounds that peers can get. All methods are called on the event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.current: Snapshot | None = None
        self._names: deque[tuple[int, int]] = deque(store.kept_names())
        self._recent: OrderedDict[tuple[int, int], KeptRound] = OrderedDict()
        self._waiting: dict[asyncio.Future[None], tuple[int, int]] = {}
        self._converted: OrderedDict[tuple[int, int], asyncio.Future[bytes]] = OrderedDict()
        self._stopping = False

    def publish(self, snapshot: Snapshot, history: int) -> None:
        """Show a round that has just been committed; `history` rounds stay available."""
        self.current = snapshot
        if not self._names or self._names[-1] != snapshot.name:
            self._names.append(snapshot.name)
        self._recent[snapshot.name] = snapshot.kept
        while len(self._names) > history:
            self._recent.pop(self._names.popleft(), None)
        excess = len(snapshot.kept.message) * len(self._recent) - _MEMORY
        while excess > 0 and len(self._recent) > 1:
            excess -= len(self._recent.popitem(last=False)[1].message)
        self._wake(waiter for waiter, name in self._waiting.items() if name <= snapshot.name)

    def stop(self) -> None:
        """Send everybody away who waits."""
        self._stopping = True
        self._wake(self._waiting)

    def get_at_once(self, epoch: int | None, round_number: int | None) -> KeptRound | None:
        """That round, or the newest, if it is in memory."""
        if self.current is None or round_number is None:
            return None if self.current is None else self.current.kept
        return self._recent.get((self.current.name[0] if epoch is None else epoch, round_number))

    async def get(self, epoch: int | None, round_number: int | None, wait_s: float) -> KeptRound:
        """That round, or the newest; a round to come is waited for."""
        if self.current is None:
            raise NoModelError("this agent has no model yet")
        if round_number is None:
            return self.current.kept
        wanted = (self.current.name[0] if epoch is None else epoch, round_number)
        if wanted > self.current.name and wait_s > 0:
            await self._until(wanted, wait_s)
        if wanted > self.current.name:
            raise RoundUnknownError(f"{_told(wanted)} is still to come: this agent shows {_told(self.current.name)}")
        kept = self._recent.get(wanted)
        if kept is None and wanted in self._names:
            kept = await asyncio.to_thread(self._store.kept_round, *wanted)
        if kept is None:
            raise RoundGoneError(f"{_told(wanted)} is no longer kept: this agent shows {_told(self.current.name)}")
        return kept

    async def convert(self, kept: KeptRound, precision: Precision) -> bytes:
        """The message with numbers of that precision; all peers share the conversion."""
        if precision == "float64" or self.current is None:
            return kept.message
        name = (kept.epoch, kept.round)
        if name not in self._converted:
            codec = self.current.model.codec
            self._converted[name] = asyncio.ensure_future(asyncio.to_thread(codec.rounded, kept.message))
            while len(self._converted) > _CONVERSIONS_KEPT:
                self._converted.popitem(last=False)
        return await asyncio.shield(self._converted[name])

    async def _until(self, wanted: tuple[int, int], wait_s: float) -> None:
        if self._stopping:
            raise StoppingError("this agent is shutting down")
        if len(self._waiting) >= _MOST_WAITING:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting[waiter] = wanted
        timer = loop.call_later(wait_s, _release, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.pop(waiter, None)
        if self._stopping:
            raise StoppingError("this agent is shutting down")

    def _wake(self, waiters: Iterable[asyncio.Future[None]]) -> None:
        for waiter in list(waiters):
            _release(waiter)


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _told(name: tuple[int, int]) -> str:
    return f"round {name[1]} of epoch {name[0]}"
