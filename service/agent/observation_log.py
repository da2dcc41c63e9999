"""The observation log: what was accepted and is still needed, with the marks that make a retry harmless.

A mark is (client, sequence). A batch has one mark; a stream of lines has one per line, sequence + line. Of each client
the next sequence number is kept, and the digests of its last 1,000 marks: a retry is answered as the first time, and
recognised as another body if it is one.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from service.agent.database import Database
from service.agent.replay import SlotArray, replay_slots
from service.errors import (
    BacklogFullError,
    BatchTooLargeError,
    DelboError,
    MarkConflictError,
    SequenceGapError,
    StreamEndedError,
    TooManyClientsError,
)
from service.inference.arrays import FloatArray
from service.wire.answers import StreamPosition
from service.wire.observations import Observations

DIGESTS_KEPT = 1000  # per client
MOST_CLIENTS = 100_000
_ANONYMOUS = ""
_STREAMS_NAMED = 10


class Mark(NamedTuple):
    """Who sent it, and as which number of theirs; by_line: every row has a number of its own, from `sequence` on."""

    client: str
    sequence: int
    by_line: bool = False


@dataclass(frozen=True, eq=False)
class StoredBatch:
    """A batch in the log. With slots, only the rows that got a place in the replay buffer are there."""

    first: int
    count: int
    x: FloatArray
    y: FloatArray
    slots: SlotArray | None = None


@dataclass(frozen=True)
class Intake:
    """How much the log takes: for `stream`, observations not yet applied; for `replay`, places in the buffer.

    wanted: observations that a round waits for, and that must therefore get in.
    """

    limit: int
    replay: bool = False
    seed: int = 0
    wanted: int = 0


@dataclass
class Counters:
    """What the agent has done so far."""

    rounds: int = 0
    collected: int = 0
    applied: int = 0
    uncovered: int = 0


@dataclass
class _Draft:
    """What the log will say of itself once the transaction under way is committed."""

    collected: int
    replay_limit: int | None
    streams: "Streams"


class Streams(NamedTuple):
    """Who posts: whether there was a stream and none is open, and the names of some that are."""

    ended: bool
    open: tuple[str, ...]


@dataclass
class ObservationLog:
    """Appends and reads; several appends share one transaction, and so one wait for the disk."""

    database: Database
    dimension: int
    outputs: int | None  # None: y is a number, not a vector
    counters: Counters
    intake: Intake
    streams: Streams = field(init=False)
    replay_limit: int | None = field(init=False)  # of the buffer that the places on disk belong to
    _draft: _Draft = field(init=False, repr=False)

    def __post_init__(self) -> None:
        with self.database.reading() as connection:
            self.streams = _streams(connection)
            self.replay_limit = connection.execute("SELECT replay_limit FROM collected").fetchone()[0]

    @property
    def ended(self) -> bool:
        """Whether there was a stream, and none is open."""
        return self.streams.ended

    def append(
        self, requests: Sequence[tuple[Observations, Mark | None]]
    ) -> list[tuple[StoredBatch | None, DelboError | None]]:
        """Store each, or say why not; what is stored is on disk when this returns. (None, None): it was there before.

        One request's fault is its own; a failing disk fails all, and stores none.
        """
        results: list[tuple[StoredBatch | None, DelboError | None]] = []
        with self.database.lock:
            # A round that runs meanwhile must not see what is not on disk yet, and might never be.
            before = _Draft(self.counters.collected, self.replay_limit, self.streams)
            self._draft = replace(before)
            with self.database.transaction() as connection:
                for observations, mark in requests:
                    try:
                        results.append((self._append(connection, observations, mark), None))
                    except DelboError as fault:
                        results.append((None, fault))
                if self._draft != before:
                    values = (self._draft.collected, self._draft.replay_limit)
                    connection.execute("UPDATE collected SET observations = ?, replay_limit = ?", values)
            self.counters.collected, self.streams = self._draft.collected, self._draft.streams
            self.replay_limit = self._draft.replay_limit
        return results

    def position(self, client: str) -> StreamPosition:
        """How far a client's stream is; of one that has never posted, nothing is there."""
        with self.database.reading() as connection:
            row = connection.execute("SELECT next_sequence, ended FROM clients WHERE name = ?", (client,)).fetchone()
        next_sequence, ended = row or (0, 0)
        return StreamPosition(client, next_sequence, bool(ended))

    def read(self, number: int, count: int) -> list[StoredBatch]:
        """The batches that hold observations number, number + 1, ..., up to `count` of them."""
        batches: list[StoredBatch] = []
        with self.database.reading() as connection:
            start = connection.execute("SELECT max(first) FROM observations WHERE first <= ?", (number,)).fetchone()[0]
            rows = connection.execute("SELECT * FROM observations WHERE first >= ? ORDER BY first", (start or 0,))
            for row in rows:
                if row[0] >= number + count:
                    break
                if row[0] + row[1] > number:
                    batches.append(self._batch(row))
            rows.close()
        return batches

    def no_rows(self) -> tuple[FloatArray, FloatArray]:
        """No points and no targets, in their shapes."""
        return np.empty((0, self.dimension)), np.empty((0,) if self.outputs is None else (0, self.outputs))

    def all(self) -> Iterator[StoredBatch]:
        """Every batch in the log, one after the other."""
        number = -1
        while True:
            with self.database.reading() as connection:
                row = connection.execute(
                    "SELECT * FROM observations WHERE first > ? ORDER BY first LIMIT 1", (number,)
                ).fetchone()
            if row is None:
                return
            yield self._batch(row)
            number = row[0]

    def _append(
        self, connection: sqlite3.Connection, observations: Observations, mark: Mark | None
    ) -> StoredBatch | None:
        client = _ANONYMOUS if mark is None else mark.client
        row = connection.execute("SELECT next_sequence, ended FROM clients WHERE name = ?", (client,)).fetchone()
        expected, ended = row or (0, 0)
        if row is None:
            _check_room_for_client(connection)
        if mark is not None:
            observations, new_marks = _what_is_new(connection, observations, mark, expected)
            if not new_marks:
                return None
            if ended:
                raise StreamEndedError(f"client {client} has ended its stream: take another client name")
            expected += len(new_marks)
        self._check_room(len(observations))
        if mark is not None:
            _remember(connection, client, expected, new_marks)
        if row is None or mark is not None or bool(ended) != observations.end:
            connection.execute("REPLACE INTO clients VALUES (?, ?, ?)", (client, expected, observations.end))
        if row is None or bool(ended) != observations.end:
            self._draft.streams = _streams(connection)
        return self._insert(connection, observations)

    def _insert(self, connection: sqlite3.Connection, observations: Observations) -> StoredBatch:
        first, count, slots = self._draft.collected, len(observations), None
        x, y = observations.x, observations.y
        if self.intake.replay:
            self._draft.replay_limit = limit = self._draft.replay_limit or max(self.intake.limit, first)
            if first + count > limit:
                slots = replay_slots(self.intake.seed, first, count, limit)
        if slots is not None:
            x, y = x[slots >= 0], y[slots >= 0]
            slots = slots[slots >= 0]
        if len(y):  # of a batch that got no place in a full replay buffer nothing is kept
            blob = None if slots is None else slots.astype("<i8").tobytes()
            connection.execute(
                "INSERT INTO observations VALUES (?, ?, ?, ?, ?)",
                (first, count, x.astype("<f8", copy=False).tobytes(), y.astype("<f8", copy=False).tobytes(), blob),
            )
        self._draft.collected += count
        return StoredBatch(first, count, x, y, slots)

    def _check_room(self, count: int) -> None:
        limit = self.intake.limit
        if self.intake.replay:
            return
        if count > limit:
            raise BatchTooLargeError(f"{count} observations at once are more than the inbox holds, {limit}")
        backlog = self._draft.collected - self.counters.applied
        if backlog + count > limit and backlog >= self.intake.wanted:
            raise BacklogFullError(f"{backlog} observations wait to be applied, of at most {limit}: try again later")

    def _batch(self, row: tuple[int, int, bytes, bytes, bytes | None]) -> StoredBatch:
        first, count, x, y, slots = row
        targets = np.frombuffer(y, "<f8")
        return StoredBatch(
            first,
            count,
            np.frombuffer(x, "<f8").reshape(-1, self.dimension),
            targets if self.outputs is None else targets.reshape(-1, self.outputs),
            None if slots is None else np.frombuffer(slots, "<i8"),
        )


def _what_is_new(
    connection: sqlite3.Connection, observations: Observations, mark: Mark, expected: int
) -> tuple[Observations, list[bytes]]:
    """The rows that are not stored yet, and the digests of their marks; a retry must be of the same body."""
    if mark.sequence > expected:
        raise SequenceGapError(f"client {mark.client}: sequence {mark.sequence} came, but {expected} is next", expected)
    if not mark.by_line:
        digests = [observations.digest]
        _compare(connection, mark, digests[: expected - mark.sequence])
        return observations, digests if mark.sequence == expected else []
    lines = len(observations) + observations.end
    known = min(expected - mark.sequence, lines)
    needed_from = max(0, (known or lines) - DIGESTS_KEPT)
    digests = [b""] * needed_from + observations.line_digests(needed_from)
    _compare(connection, mark, digests[:known])
    rest = Observations(observations.x[known:], observations.y[known:], observations.end)
    return rest, digests[known:]


def _compare(connection: sqlite3.Connection, mark: Mark, digests: list[bytes]) -> None:
    """Refuse digests that differ from those kept under the same marks."""
    if not digests:
        return
    kept = connection.execute(
        "SELECT sequence, digest FROM marks WHERE client = ? AND sequence BETWEEN ? AND ?",
        (mark.client, mark.sequence, mark.sequence + len(digests) - 1),
    ).fetchall()  # a cursor half read, and kept alive by the error below, would hold its transaction open
    for sequence, digest in kept:
        if digests[sequence - mark.sequence] not in (digest, b""):
            raise MarkConflictError(f"client {mark.client} has already sent other observations as sequence {sequence}")


def _remember(connection: sqlite3.Connection, client: str, next_sequence: int, digests: list[bytes]) -> None:
    """Keep the newest digests, and no more than that."""
    kept = digests[-DIGESTS_KEPT:]
    first = next_sequence - len(kept)
    connection.executemany(
        "INSERT INTO marks VALUES (?, ?, ?)", [(client, first + place, digest) for place, digest in enumerate(kept)]
    )
    connection.execute("DELETE FROM marks WHERE client = ? AND sequence < ?", (client, next_sequence - DIGESTS_KEPT))


def _check_room_for_client(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT count(*) FROM clients").fetchone()[0] >= MOST_CLIENTS:
        raise TooManyClientsError(f"{MOST_CLIENTS} clients have posted already: use one of their names")


def _streams(connection: sqlite3.Connection) -> Streams:
    open_ones = connection.execute("SELECT name FROM clients WHERE NOT ended LIMIT ?", (_STREAMS_NAMED,)).fetchall()
    is_any = connection.execute("SELECT EXISTS (SELECT 1 FROM clients)").fetchone()[0]
    return Streams(bool(is_any and not open_ones), tuple(name for (name,) in open_ones))
