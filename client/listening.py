"""Reading an agent's server-sent events."""

from typing import NamedTuple

from client.answers import decoded, foreign
from service.wire.answers import RoundSummary

_LONGEST = 1 << 24  # bytes of one event


class RoundEvent(NamedTuple):
    """A round has been committed; `id` names the event, `missed` says how many before it were lost to us."""

    id: str
    summary: RoundSummary
    missed: int = 0


class Listener:
    """Makes events of the bytes that come, over any number of connections."""

    def __init__(self, last: str | None = None) -> None:
        """last: the id of the last event that was read."""
        self._last = last
        self._rest = b""
        self._missed = 0

    def reconnect(self) -> dict[str, str]:
        """The headers of a new connection, which goes on behind the last event."""
        self._rest, self._missed = b"", 0
        return {} if self._last is None else {"last-event-id": self._last}

    def read(self, where: str, chunk: bytes) -> list[RoundEvent]:
        """The events that these bytes complete."""
        *blocks, self._rest = (self._rest + chunk).split(b"\n\n")
        if len(self._rest) > _LONGEST:
            raise foreign(where)
        events = [self._event(where, block) for block in blocks]
        return [event for event in events if event is not None]

    def _event(self, where: str, block: bytes) -> RoundEvent | None:
        fields = {}
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            fields[name] = value.removeprefix(b" ")
        if fields.get(b"event") == b"missed":
            self._missed += decoded(where, fields.get(b"data", b""), dict[str, int]).get("rounds", 0)
        if fields.get(b"event") != b"round":
            return None
        summary = decoded(where, fields.get(b"data", b""), RoundSummary)
        self._last = fields.get(b"id", b"").decode("latin-1")
        missed, self._missed = self._missed, 0
        return RoundEvent(self._last, summary, missed)
