"""What an agent keeps on disk: its documents, its committed rounds with their history, and how far it is."""

import sqlite3
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from service.agent.database import Database
from service.agent.observation_log import Counters
from service.wire.answers import RoundSummary

Kind = Literal["model", "neighbors", "schedule", "verification"]

_PRUNE_EVERY = 64  # rounds


@dataclass(frozen=True)
class KeptRound:
    """A committed round: its name, and its parameter message as peers get it."""

    epoch: int
    round: int
    message: bytes


class Store:
    """One agent's file, seen from above the observation log; every method that writes is one transaction."""

    def __init__(self, folder: Path, agent: str, history_limit: int) -> None:
        """Open the file, or make it; history_limit: summaries of rounds to keep."""
        self.database = Database(folder, agent)
        self.agent = agent
        self.history_limit = history_limit
        with self.database.reading() as connection:
            collected = connection.execute("SELECT observations FROM collected").fetchone()[0]
            rounds, applied, uncovered = connection.execute(_PROGRESS).fetchone() or (0, 0, 0)
            self.counters = Counters(rounds, collected, applied, uncovered)
            self._kept = deque(
                connection.execute("SELECT place, epoch, round FROM rounds ORDER BY epoch, round").fetchall()
            )

    @property
    def identity(self) -> tuple[str, int]:
        """The agent's name and incarnation: a random number, made with the file, so that an agent that lost its file
        is told from one that went back in time."""
        return self.agent, self.database.incarnation

    def documents(self) -> dict[str, str]:
        """The documents in force, as JSON."""
        with self.database.reading() as connection:
            return dict(connection.execute("SELECT kind, body FROM documents").fetchall())

    def put_document(self, kind: Kind, body: str, kept: KeptRound | None = None, history: int = 1) -> None:
        """A document comes into force; with it, the state that a first model or a new epoch starts from."""
        with self.database.transaction() as connection:
            connection.execute("REPLACE INTO documents VALUES (?, ?)", (kind, body))
            names = self._kept if kept is None else self._keep(connection, kept, history)
        self._kept = names

    def commit_round(
        self, kept: KeptRound, history: int, summary: RoundSummary, counters: Counters, obsolete_before: int | None
    ) -> None:
        """A round is done: its state, its summary and what it has applied, all or nothing.

        obsolete_before: batches of observations that begin earlier are applied, and can go.
        """
        with self.database.transaction() as connection:
            names = self._keep(connection, kept, history)
            connection.execute(
                "INSERT INTO history VALUES (?, ?, ?, ?)",
                (counters.rounds, counters.applied, counters.uncovered, msgspec.msgpack.encode(summary)),
            )
            if obsolete_before is not None:
                connection.execute("DELETE FROM observations WHERE first < ?", (obsolete_before,))
            if counters.rounds % _PRUNE_EVERY == 0:
                connection.execute("DELETE FROM history WHERE number <= ?", (counters.rounds - self.history_limit,))
        self._kept = names
        self.counters.rounds, self.counters.applied = counters.rounds, counters.applied
        self.counters.uncovered = counters.uncovered

    def try_disk(self) -> None:
        """Write something that changes nothing: to see whether the disk works again."""
        with self.database.transaction() as connection:
            connection.execute("UPDATE collected SET observations = observations")

    def kept_names(self) -> list[tuple[int, int]]:
        """(epoch, round) of all rounds that are kept, oldest first."""
        return [(epoch, number) for _, epoch, number in self._kept]

    def newest_round(self) -> KeptRound | None:
        """The last committed round."""
        with self.database.reading() as connection:
            row = connection.execute(_NEWEST_ROUND).fetchone()
        return None if row is None else KeptRound(*row)

    def kept_round(self, epoch: int, round_number: int) -> KeptRound | None:
        """One kept round."""
        with self.database.reading() as connection:
            row = connection.execute(
                "SELECT epoch, round, message FROM rounds WHERE epoch = ? AND round = ?", (epoch, round_number)
            ).fetchone()
        return None if row is None else KeptRound(*row)

    def history(self, limit: int, after: int = 0) -> list[RoundSummary]:
        """The newest summaries, oldest first; those behind round number `after` only."""
        with self.database.reading() as connection:
            rows = connection.execute(_SUMMARIES_BEHIND, (after, limit)).fetchall()
        return [_summary(*row) for row in rows][::-1]

    def newest_with(self, told: Callable[[RoundSummary], bool]) -> RoundSummary | None:
        """The newest of the kept summaries that tells something."""
        with self.database.reading() as connection:
            summaries = (_summary(*row) for row in connection.execute(_SUMMARIES))
            return next((summary for summary in summaries if told(summary)), None)

    def _keep(self, connection: sqlite3.Connection, kept: KeptRound, history: int) -> deque[tuple[int, int, int]]:
        """Write the round where the oldest was: in the same place, and of the same size, SQLite changes few pages."""
        names = self._kept.copy()
        while len(names) > history:
            connection.execute("DELETE FROM rounds WHERE place = ?", (names.popleft()[0],))
        place = names.popleft()[0] if len(names) == history else max((used for used, _, _ in names), default=-1) + 1
        values = (kept.epoch, kept.round, kept.message, place)
        if connection.execute(_UPDATE_ROUND, values).rowcount == 0:
            connection.execute(_INSERT_ROUND, values)
        names.append((place, kept.epoch, kept.round))
        return names

    def close(self) -> None:
        """Close the file."""
        self.database.close()


def _summary(number: int, applied: int, body: bytes) -> RoundSummary:
    """A summary from disk; those of earlier versions do not know their own number."""
    summary = msgspec.msgpack.decode(body, type=RoundSummary)
    return summary if summary.number else msgspec.structs.replace(summary, number=number, applied=applied)


_SUMMARIES = "SELECT number, applied, summary FROM history ORDER BY number DESC"
_SUMMARIES_BEHIND = "SELECT number, applied, summary FROM history WHERE number > ? ORDER BY number DESC LIMIT ?"
_PROGRESS = "SELECT number, applied, uncovered FROM history ORDER BY number DESC LIMIT 1"
_NEWEST_ROUND = "SELECT epoch, round, message FROM rounds ORDER BY epoch DESC, round DESC LIMIT 1"
_UPDATE_ROUND = "UPDATE rounds SET epoch = ?, round = ?, message = ? WHERE place = ?"
_INSERT_ROUND = "INSERT INTO rounds (epoch, round, message, place) VALUES (?, ?, ?, ?)"
