"""What an agent keeps on disk: its documents, its committed rounds with their history, and how far it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from service.agent.database import Database
from service.agent.observation_log import Counters
from service.agent.summary import RoundSummary

Kind = Literal["model", "neighbors", "schedule"]

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
            self.counters = Counters(*connection.execute("SELECT * FROM counters").fetchone())

    @property
    def identity(self) -> tuple[str, int]:
        """The agent's name and incarnation: a random number, made with the file, so that an agent that lost its file
        is told from one that went back in time."""
        return self.agent, self.database.incarnation

    def documents(self) -> dict[str, str]:
        """The documents in force, as JSON."""
        with self.database.reading() as connection:
            return dict(connection.execute("SELECT kind, body FROM documents").fetchall())

    def put_document(self, kind: Kind, body: str, kept: KeptRound | None = None) -> None:
        """A document comes into force; with it, the state that a first model or a new epoch starts from."""
        with self.database.transaction() as connection:
            connection.execute("REPLACE INTO documents VALUES (?, ?)", (kind, body))
            if kept is not None:
                connection.execute(_INSERT_ROUND, (kept.epoch, kept.round, kept.message))

    def commit_round(
        self, kept: KeptRound, history: int, summary: RoundSummary, counters: Counters, obsolete_before: int | None
    ) -> None:
        """A round is done: its state, its summary and what it has applied, all or nothing.

        obsolete_before: batches of observations that begin earlier are applied, and can go.
        """
        with self.database.transaction() as connection:
            cursor = connection.execute(_INSERT_ROUND, (kept.epoch, kept.round, kept.message))
            connection.execute("DELETE FROM rounds WHERE number <= ?", ((cursor.lastrowid or 0) - history,))
            connection.execute("INSERT INTO history VALUES (?, ?)", (counters.rounds, msgspec.msgpack.encode(summary)))
            connection.execute(
                "UPDATE counters SET rounds = ?, applied = ?, uncovered = ?",
                (counters.rounds, counters.applied, counters.uncovered),
            )
            if obsolete_before is not None:
                connection.execute("DELETE FROM observations WHERE first < ?", (obsolete_before,))
            if counters.rounds % _PRUNE_EVERY == 0:
                connection.execute("DELETE FROM history WHERE number <= ?", (counters.rounds - self.history_limit,))
        self.counters.rounds, self.counters.applied = counters.rounds, counters.applied
        self.counters.uncovered = counters.uncovered

    def kept_names(self) -> list[tuple[int, int]]:
        """(epoch, round) of all rounds that are kept, oldest first."""
        with self.database.reading() as connection:
            return connection.execute("SELECT epoch, round FROM rounds ORDER BY number").fetchall()

    def newest_round(self) -> KeptRound | None:
        """The last committed round."""
        with self.database.reading() as connection:
            row = connection.execute("SELECT epoch, round, message FROM rounds ORDER BY number DESC").fetchone()
        return None if row is None else KeptRound(*row)

    def kept_round(self, epoch: int, round_number: int) -> KeptRound | None:
        """One kept round."""
        with self.database.reading() as connection:
            row = connection.execute(
                "SELECT epoch, round, message FROM rounds WHERE epoch = ? AND round = ? ORDER BY number DESC",
                (epoch, round_number),
            ).fetchone()
        return None if row is None else KeptRound(*row)

    def history(self, limit: int) -> list[RoundSummary]:
        """The newest summaries, oldest first."""
        with self.database.reading() as connection:
            rows: Iterable[tuple[bytes]] = connection.execute(
                "SELECT summary FROM history ORDER BY number DESC LIMIT ?", (limit,)
            ).fetchall()
        return [msgspec.msgpack.decode(summary, type=RoundSummary) for (summary,) in rows][::-1]

    def close(self) -> None:
        """Close the file."""
        self.database.close()


_INSERT_ROUND = "INSERT INTO rounds (epoch, round, message) VALUES (?, ?, ?)"
