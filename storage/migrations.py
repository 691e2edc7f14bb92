"""The tables of a run's store, in numbered steps; a released step is never edited, only followed by another."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from shoal.errors import StateError

APPLICATION = 0x53484F41  # "SHOA": tells our files from other SQLite files

# Series are numbered by place: 0, 1, 2, ... without gaps, so that evenly spread records are found by their key.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE rounds (
            place INTEGER PRIMARY KEY, round INTEGER NOT NULL UNIQUE, epoch REAL, phase TEXT, seconds REAL, loss REAL,
            validation REAL, distance REAL, gradient_norm REAL, learning_rate REAL, alpha REAL, nonzeros INTEGER,
            rows_per_second REAL, bytes_raw INTEGER, bytes_sent INTEGER, read REAL, compute REAL, wait REAL,
            apply REAL, staleness REAL, workers INTEGER)""",
        """CREATE TABLE buckets (
            level INTEGER, number INTEGER, low INTEGER, low_loss REAL, high INTEGER, high_loss REAL,
            PRIMARY KEY (level, number)) WITHOUT ROWID""",
        """CREATE TABLE worker_samples (
            rank INTEGER, place INTEGER, seconds REAL, pid INTEGER, state TEXT, cpu REAL, memory INTEGER, rows INTEGER,
            staleness REAL, wait REAL, gpu REAL, PRIMARY KEY (rank, place)) WITHOUT ROWID""",
        """CREATE TABLE host_samples (
            place INTEGER PRIMARY KEY, seconds REAL, cpu REAL, memory_used INTEGER, memory_total INTEGER,
            disk_read REAL, disk_write REAL, net_in REAL, net_out REAL)""",
        """CREATE TABLE events (
            number INTEGER PRIMARY KEY, seconds REAL, kind TEXT, round INTEGER, text TEXT, rank INTEGER, data TEXT)""",
        """CREATE TABLE commands (
            id INTEGER PRIMARY KEY, name TEXT, arguments TEXT, posted_at REAL, taken INTEGER NOT NULL DEFAULT 0,
            round INTEGER, outcome TEXT)""",
    ),
    # Rows that are there already stay without one.
    tuple(
        f"ALTER TABLE {name} ADD COLUMN seal INTEGER"
        for name in ("rounds", "buckets", "worker_samples", "host_samples", "events", "commands")
    ),
    ("CREATE TABLE owner (run TEXT NOT NULL, seal INTEGER NOT NULL)",),  # one row; none where nobody said whose it is
    (
        """CREATE TABLE links (
            rank INTEGER PRIMARY KEY, seconds REAL, node TEXT, took REAL, silent REAL, received INTEGER, sent INTEGER,
            seal INTEGER)""",
    ),
)


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """How many steps a file has taken: 0 when it is new; StateError when it is not ours or from a later version."""
    number = _value(connection, "PRAGMA user_version")
    used = number or _value(connection, "SELECT count(*) FROM sqlite_master")
    if used and _value(connection, "PRAGMA application_id") != APPLICATION:
        raise StateError(
            f"Expected the records of a run in '{path}', found another program's database. Use another file."
        )
    if number > len(MIGRATIONS):
        raise StateError(
            f"The run's records '{path}' were written by a later version: expected format {len(MIGRATIONS)} or "
            f"older, found {number}. Update Shoal."
        )
    return number


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Take the steps that are missing; inside a transaction of the caller, so that two openers do not both do it."""
    done = version_of(connection, path)
    for step in MIGRATIONS[done:]:
        for statement in step:
            connection.execute(statement)
    if done < len(MIGRATIONS):
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _value(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])
