"""A queue in an SQLite file that processes of one machine share; one of them writes at a time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from shoal.errors import DiskFull, ResourceError, StateError
from shoal.queueing.queue import TryAgain
from shoal.queueing.sql import SqlLooks, SqlRows
from shoal.queueing.tables import JobRows, T

PATIENCE = 30.0  # seconds to wait for others
FORMAT = 1
TABLES = """
CREATE TABLE queue_jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, priority INTEGER NOT NULL,
    need INTEGER NOT NULL, allowed INTEGER NOT NULL, state TEXT NOT NULL, fence INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    put_at REAL NOT NULL, ready_at REAL NOT NULL, taken_at REAL NOT NULL, lease_until REAL NOT NULL,
    ended_at REAL NOT NULL, host TEXT NOT NULL, words TEXT NOT NULL, stopping INTEGER NOT NULL, home TEXT NOT NULL);
CREATE INDEX queue_jobs_open ON queue_jobs (state) WHERE state IN ('waiting', 'running');
CREATE TABLE queue_after (job TEXT NOT NULL, place INTEGER NOT NULL, other TEXT NOT NULL, PRIMARY KEY (job, place));
CREATE INDEX queue_after_other ON queue_after (other);
CREATE TABLE queue_limits (owner TEXT PRIMARY KEY, most INTEGER NOT NULL);
CREATE TABLE queue_hosts (name TEXT PRIMARY KEY, slots INTEGER NOT NULL, mark TEXT NOT NULL, since REAL NOT NULL,
    seen REAL NOT NULL, draining INTEGER NOT NULL, home TEXT NOT NULL);
CREATE TABLE queue_ledger (number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, job TEXT NOT NULL,
    fence INTEGER NOT NULL, host TEXT NOT NULL, event TEXT NOT NULL, words TEXT NOT NULL);
CREATE INDEX queue_ledger_job ON queue_ledger (job);
"""


class SqliteTables(SqlLooks):
    """One connection, used by one thread at a time."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock = path, clock
        self._connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        super().__init__(self._look)
        try:
            self._patiently(lambda: self._connection.execute("PRAGMA journal_mode = WAL"))
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._prepare()
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.Error):
                raise _in_words(error, path) from error
            raise

    def _prepare(self) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            found = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if found > FORMAT:
                raise StateError(f"'{self.path}' was made by a later version of Shoal. Update Shoal here.")
            if found == 0:
                for statement in TABLES.split(";\n"):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")

    def _patiently(self, action: Callable[[], object]) -> None:
        """Changing to WAL fails at once while others hold a lock, whatever SQLite's own timeout."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                action()
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= end:
                    raise
            time.sleep(0.01)

    def now(self) -> float:
        return self._clock()

    def close(self) -> None:
        self._connection.close()

    def _look(self, statement: str, values: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise _in_words(error, self.path) from error

    def transact(self, work: Callable[[JobRows], T]) -> T:
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    found = work(SqlRows(self._look, self._clock))
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
                return found
            except TryAgain:
                continue
            except sqlite3.Error as error:
                raise _in_words(error, self.path) from error


def _in_words(error: sqlite3.Error, path: Path) -> Exception:
    said = str(error)
    if "full" in said:
        return DiskFull(f"There is no room for the queue '{path}' ({said}). Free some space.")
    if "locked" in said:
        return ResourceError(f"Others have kept the queue '{path}' locked for {PATIENCE:.0f} seconds. Try again.")
    return StateError(f"Expected a queue of Shoal in '{path}', got: {said}. Move the file away to begin a new one.")
