"""What people note of runs in the team's database: documents by the run's name; what they say is in `library.notes`.

Lists show the notes of thousands of runs: one trip looks at all, from which only those come back that have changed
since this process looked last.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.database.connections import Database

LOCK = 0x4E4F5445  # "NOTE": changes are numbered in the order in which they are seen


class _Looked:
    """What a process has seen of one database."""

    def __init__(self) -> None:
        self.mark, self.notes, self.lock = 0, dict[str, bytes](), threading.Lock()


_looked: dict[str, _Looked] = {}  # by the name that a database gave itself


class TeamNotes:
    """A row stays without its document when a note is removed, so that others see that."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, run: str) -> bytes | None:
        """The document as it is now; None where nothing was noted."""
        with self._database.single() as connection:
            row = connection.execute("SELECT contents FROM run_notes WHERE run = %s", (run,)).fetchone()
        return row[0].encode() if row and row[0] is not None else None

    def write(self, run: str, document: bytes) -> None:
        self._put(run, document.decode())

    def remove(self, run: str) -> None:
        """Of a run that is gone; no error where nothing was noted."""
        if self.read(run) is not None:
            self._put(run, None)

    def _put(self, run: str, contents: str | None) -> None:
        with self._database.transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            connection.execute(
                "INSERT INTO run_notes (run, contents) VALUES (%s, %s) ON CONFLICT (run) "
                "DO UPDATE SET contents = excluded.contents, changed = excluded.changed",
                (run, contents),
            )

    def everything(self) -> Mapping[str, bytes]:
        """All that is noted by now, by the names of runs."""
        seen = _looked.setdefault(self._database.identity(), _Looked())
        with seen.lock:
            with self._database.single() as connection:
                query = "SELECT run, contents, changed FROM run_notes WHERE changed > %s"
                rows = connection.execute(query, (seen.mark,)).fetchall()
            if rows:
                changed = {run: contents.encode() for run, contents, _ in rows if contents is not None}
                gone = {run for run, contents, _ in rows if contents is None}
                seen.notes = {run: own for run, own in seen.notes.items() if run not in gone} | changed
                seen.mark = max(number for *_, number in rows)
            return seen.notes


def team_notes() -> TeamNotes:
    """Of the database that SHOAL_DATABASE names."""
    from shoal.database.connections import database

    return TeamNotes(database())
