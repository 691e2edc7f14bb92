"""People and their deeds in an SQLite file of their own; what they mean is in `records`.

Every row of `people` has a checksum. The log only grows: the database itself refuses to change or remove an entry, and
each entry's seal covers the one before, so that one that was taken out by other means is missed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile, ResourceError, StateError
from shoal.home import make_folder
from shoal.people.records import FIELDS, FIRST, AuditEntry, TeamMember, checksum, first_broken, member_of, values_of
from shoal.utils import disk_errors, identity_of

PATIENCE = 10.0  # seconds to wait for another process that writes
COUNTER = 24  # where the file says how often it was changed
STEPS = (  # each makes one version of the file from the one before
    (
        """CREATE TABLE people (name TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT NOT NULL,
  state TEXT NOT NULL, private INTEGER NOT NULL, created REAL NOT NULL, seen REAL NOT NULL, checksum TEXT NOT NULL)""",
        """CREATE TABLE audit (id INTEGER PRIMARY KEY, at REAL NOT NULL, who TEXT NOT NULL, deed TEXT NOT NULL,
  thing TEXT NOT NULL, origin TEXT NOT NULL, seal TEXT NOT NULL)""",
        "CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the log only grows'); END",
        "CREATE TRIGGER audit_grows BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the log only grows'); END",
    ),
    ("ALTER TABLE people ADD COLUMN subject TEXT NOT NULL DEFAULT ''",),
)
VERSION = len(STEPS)


class SqlitePeople:
    """A `PeopleStore`; made with its file on first use. Threads may share one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        with disk_errors("the file of accounts"), self._in_words():
            make_folder(path.parent)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            self._connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        version = self._version()
        if version > VERSION:
            raise StateError(
                f"'{self.path}' is of a newer version of Shoal: expected {VERSION}, got {version}. Install that."
            )
        self._connection.execute("PRAGMA synchronous = FULL")
        if version < VERSION:
            with self._changing() as connection:
                for step in STEPS[self._version() :]:  # another process may have been first
                    for statement in step:
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self) -> int:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    # ---------------------------------------------------------------- people

    def people(self) -> list[TeamMember]:
        with self._in_words():
            rows = self._connection.execute(
                f"SELECT {', '.join(FIELDS)}, checksum FROM people ORDER BY name"
            ).fetchall()
        return [self._proven(row) for row in rows]

    def _proven(self, row: tuple[Any, ...]) -> TeamMember:
        found = member_of(row)
        if found is None:
            raise DamagedFile(
                f"'{self.path}' is damaged: expected the account of '{str(row[0])[:80]}' with another checksum than "
                f"{str(row[-1])[:20]}.", path=str(self.path),
            )  # fmt: skip
        return found

    def put(self, account: TeamMember) -> None:
        values = values_of(account)
        columns, marks = ", ".join((*FIELDS, "checksum")), ", ".join("?" * (len(FIELDS) + 1))
        with self._changing() as connection:
            connection.execute(
                f"INSERT OR REPLACE INTO people ({columns}) VALUES ({marks})", [*values, checksum(values)]
            )

    # ---------------------------------------------------------------- deeds

    def note(self, entry: AuditEntry) -> None:
        with self._changing() as connection:
            last, before = connection.execute("SELECT id, seal FROM audit ORDER BY id DESC LIMIT 1").fetchone() or (
                0,
                FIRST,
            )
            connection.execute(
                "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?)",
                (last + 1, entry.at, entry.who, entry.deed, entry.thing, entry.origin, entry.sealed_after(before)),
            )

    def entries(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        with self._in_words():
            rows = self._connection.execute(
                "SELECT at, who, deed, thing, origin, id, seal FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?",
                (2**62 if before is None else before, limit),
            ).fetchall()
        return [AuditEntry(*row) for row in rows]

    def first_broken(self) -> int | None:
        return first_broken(self.entries(2**62)[::-1])

    # ---------------------------------------------------------------- the file

    def mark(self) -> Hashable:
        return mark_of(self.path)

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def changes(self) -> Iterator[None]:
        with self._changing():
            yield

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, inside which further changes of this thread fall."""
        with self._lock, disk_errors("the file of accounts"), self._in_words():
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk has rolled it back already
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.DatabaseError as error:
                said = str(error)
                if "full" in said or "readonly" in said or "locked" in said or "disk I/O" in said:
                    raise ResourceError(
                        f"Expected to read and write the accounts in '{self.path}', got: {said}. Check its disk and "
                        "its rights, and try again."
                    ) from None
                raise DamagedFile(f"'{self.path}' is damaged: {said}.", path=str(self.path)) from None


def mark_of(path: Path) -> tuple[int, ...]:
    """What the file looks like, and its own count of changes: two may fall into one tick of the disk's clock."""
    try:
        with path.open("rb") as file:
            counter = os.pread(file.fileno(), 4, COUNTER)
    except OSError:
        return ()
    return (*identity_of(path), int.from_bytes(counter, "big"))
