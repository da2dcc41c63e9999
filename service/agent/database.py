"""An agent's one file: SQLite in WAL mode, every commit on disk before anyone hears of it."""

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from service.agent.meters import Durations
from service.errors import StorageError

FILE_NAME: Final = "agent.sqlite3"
_FORMAT = 1

_TABLES = """
CREATE TABLE identity (agent TEXT NOT NULL, incarnation INTEGER NOT NULL);
CREATE TABLE documents (kind TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;

-- One row per accepted batch; `first` counts observations from 0. x, y: float64, little-endian.
-- slots: their places in a replay buffer that was already full, -1 for none; NULL: their own numbers.
CREATE TABLE observations (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, x BLOB NOT NULL, y BLOB NOT NULL,
                           slots BLOB);
CREATE TABLE clients (name TEXT PRIMARY KEY, next_sequence INTEGER NOT NULL, ended INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE marks (client TEXT, sequence INTEGER, digest BLOB NOT NULL, PRIMARY KEY (client, sequence)) WITHOUT ROWID;

-- message: that round's parameters, as peers get them. A new round takes the place of the oldest.
CREATE TABLE rounds (place INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, round INTEGER NOT NULL, message BLOB NOT NULL);
-- number, applied, uncovered: rounds and observations up to and with that round. The newest row tells how far it is.
CREATE TABLE history (number INTEGER PRIMARY KEY, applied INTEGER NOT NULL, uncovered INTEGER NOT NULL,
                      summary BLOB NOT NULL);
CREATE TABLE collected (observations INTEGER NOT NULL, replay_limit INTEGER);
INSERT INTO collected VALUES (0, NULL);
"""


class Database:
    """The open file. One transaction at a time; whoever reads or writes holds the lock."""

    def __init__(self, folder: Path, agent: str) -> None:
        """Open the agent's file, or make it; no other process can open it meanwhile."""
        self.lock = threading.RLock()
        self.fault: str | None = None  # why the last transaction could not be written
        self.commits = Durations()
        path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.connection = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.OperationalError) as fault:
            raise StorageError(f"the data directory {folder} cannot be used: {fault}") from None
        try:
            self.incarnation = self._prepare(agent)
        except sqlite3.Error as fault:
            self.connection.close()
            if "locked" in str(fault):
                raise StorageError(f"the data directory {folder} is in use: another agent runs on it") from None
            raise StorageError(f"{path} is damaged, or no agent's file: {fault}") from None
        except StorageError:
            self.connection.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on disk when it ends; a failing disk is a StorageError."""
        with self.lock:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                begun_at = time.perf_counter()
                self.connection.execute("COMMIT")
                self.commits.add(time.perf_counter() - begun_at)
                self.fault = None
            except BaseException as fault:
                with suppress(sqlite3.Error):
                    if self.connection.in_transaction:
                        self.connection.execute("ROLLBACK")
                if isinstance(fault, sqlite3.Error):
                    self.fault = f"the agent's file cannot be written: {fault}"
                    raise StorageError(self.fault) from fault
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For a query or two."""
        with self.lock:
            try:
                yield self.connection
            except sqlite3.Error as fault:
                raise StorageError(f"the agent's file cannot be read: {fault}") from fault

    def close(self) -> None:
        """Close the file; what was committed stays."""
        with self.lock, suppress(sqlite3.Error):
            self.connection.close()

    def _prepare(self, agent: str) -> int:
        # One process owns the file: no shared memory, no file lock per transaction.
        self.connection.execute("PRAGMA page_size = 16384")
        self.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        with self.transaction() as connection:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found == 0:
                for statement in _TABLES.split(";\n"):
                    connection.execute(statement)
                connection.execute("INSERT INTO identity VALUES (?, ?)", (agent, secrets.randbits(62)))
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
            elif found != _FORMAT:
                raise StorageError(f"the data directory has format {found}, of another version of delbo")
            owner, incarnation = connection.execute("SELECT agent, incarnation FROM identity").fetchone()
        if owner != agent:
            raise StorageError(f"the data directory belongs to agent {owner}, not {agent}: name another directory")
        return int(incarnation)
