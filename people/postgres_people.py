"""People and their deeds in the team's database; what they mean is in `records`, its tables in `database/steps`.

Whoever changes something holds one lock of the database until it is done, on whichever machine: so each entry of the
log is sealed after the one that is really before it.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shoal.database.connections import Database
from shoal.errors import StateError
from shoal.people.records import FIELDS, FIRST, AuditEntry, TeamMember, checksum, first_broken, member_of, values_of

if TYPE_CHECKING:
    from psycopg import Connection

LOCK = 0x50454F50  # "PEOP": of the advisory lock that one change at a time holds
COLUMNS = ", ".join((*FIELDS, "checksum"))
MARKS = ", ".join(["%s"] * (len(FIELDS) + 1))
ANEW = ", ".join(f"{name} = EXCLUDED.{name}" for name in (*FIELDS[1:], "checksum"))
# A row that is changed says by which transaction, and later ones have higher numbers: this sum grows with every change.
MARK = "SELECT count(*), coalesce(sum(xmin::text::bigint), 0) FROM people"


class PostgresPeople:
    """A `PeopleStore`. Threads may share one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._of_thread = threading.local()

    # ---------------------------------------------------------------- people

    def people(self) -> list[TeamMember]:
        query = f'SELECT {COLUMNS} FROM people ORDER BY name COLLATE "C"'
        with self._reading() as connection:
            rows = connection.execute(query.encode()).fetchall()
        return [self._proven(row) for row in rows]

    def _proven(self, row: Sequence[Any]) -> TeamMember:
        found = member_of(row)
        if found is None:
            raise StateError(
                f"Expected the account of '{str(row[0])[:80]}' in {self._database.shown} as it was written, got one "
                "that something else has changed. Restore the tables from a backup."
            )
        return found

    def put(self, account: TeamMember) -> None:
        values = values_of(account)
        query = f"INSERT INTO people ({COLUMNS}) VALUES ({MARKS}) ON CONFLICT (name) DO UPDATE SET {ANEW}"
        row = [bool(value) if name == "private" else value for name, value in zip(FIELDS, values, strict=True)]
        with self._changing() as connection:
            connection.execute(query.encode(), [*row, checksum(values)])

    # ---------------------------------------------------------------- deeds

    def note(self, entry: AuditEntry) -> None:
        with self._changing() as connection:
            query = "SELECT id, seal FROM audit ORDER BY id DESC LIMIT 1"
            last, before = connection.execute(query).fetchone() or (0, FIRST)
            seal = entry.sealed_after(before)
            self._append([AuditEntry(entry.at, entry.who, entry.deed, entry.thing, entry.origin, last + 1, seal)])

    def entries(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT at, who, deed, thing, origin, id, seal FROM audit WHERE id < %s ORDER BY id DESC LIMIT %s",
                (2**62 if before is None else before, limit),
            ).fetchall()
        return [AuditEntry(*row) for row in rows]

    def first_broken(self) -> int | None:
        return first_broken(self.entries(2**62)[::-1])

    def take_over(self, people: Sequence[TeamMember], entries: Sequence[AuditEntry]) -> None:
        """All that another store has, entries with the numbers and seals they have there; refused where some are."""
        with self.changes():
            if self.people() or self.entries(1):
                raise StateError(
                    f"Expected no accounts and no log in {self._database.shown}, but there are some already: those "
                    "count. Nothing was changed."
                )
            for account in people:
                self.put(account)
            self._append(entries)

    def _append(self, entries: Sequence[AuditEntry]) -> None:
        rows = [(one.id, one.at, one.who, one.deed, one.thing, one.origin, one.seal) for one in entries]
        with self._changing() as connection, connection.cursor() as cursor:
            cursor.executemany("INSERT INTO audit VALUES (%s, %s, %s, %s, %s, %s, %s)", rows)

    # ---------------------------------------------------------------- the database

    def mark(self) -> Hashable:
        with self._reading() as connection:
            found = connection.execute(MARK).fetchone()
        return self._database.identity(), found

    @contextmanager
    def changes(self) -> Iterator[None]:
        with self._changing():
            yield

    def close(self) -> None:
        """Its connections are the process's, and stay."""

    @contextmanager
    def _reading(self) -> Iterator[Connection[Any]]:
        if (held := self._held()) is not None:
            yield held
        else:
            with self._database.single() as connection:
                yield connection

    @contextmanager
    def _changing(self) -> Iterator[Connection[Any]]:
        """One transaction, inside which this thread's further changes fall."""
        if (held := self._held()) is not None:
            yield held
            return
        with self._database.transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            self._of_thread.connection = connection
            try:
                yield connection
            finally:
                self._of_thread.connection = None

    def _held(self) -> Connection[Any] | None:
        found: Connection[Any] | None = getattr(self._of_thread, "connection", None)
        return found
