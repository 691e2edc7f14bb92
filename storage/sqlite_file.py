"""An SQLite file that several processes share: opening, transactions, errors in plain words; no table is named here."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shoal.errors import DiskFull, ResourceError, StateError
from shoal.storage.migrations import MIGRATIONS, migrate, version_of
from shoal.storage.row_seals import words_seal

PAUSE = 0.01  # seconds between two tries to open


class Unproven(sqlite3.DatabaseError):
    """A row is not what was written, or is not there."""


class SqliteFile:
    """One connection at a time. Used by one thread at a time; another one may close it.

    A file that is removed or replaced by another is left: what is written goes where others look for it.
    """

    def __init__(self, path: Path, timeout: float, of: str = "") -> None:
        self.path, self.timeout, self.of = path, timeout, of  # of: the run, where somebody said which
        self.renewed = 0  # times that another file has taken the place of the one that was opened
        self._left: list[sqlite3.Connection] = []  # closed last: SQLite removes the journal by its name
        self._open()

    def _open(self) -> None:
        with self._plain_errors():
            if not self.path.exists():
                for journal in ("-wal", "-shm"):  # of a file that is gone
                    self.path.with_name(f"{self.path.name}{journal}").unlink(missing_ok=True)
            # No isolation level: transactions begin and end where we say so.
            self.connection = sqlite3.connect(
                self.path, timeout=self.timeout, isolation_level=None, check_same_thread=False
            )
            try:
                self._patiently(self._prepare)
                self._identity = _identity(self.path)
            except BaseException:
                self.connection.close()
                raise

    def _follow_the_name(self, writing: bool) -> None:
        """Go over to the file that has the name now; only who writes makes one anew."""
        found = _identity(self.path)
        if found == self._identity or (found is None and not writing):
            return
        before = self.connection
        try:
            self._open()
        except BaseException:
            self.connection = before
            raise
        self._left.append(before)
        self.renewed += 1

    def _prepare(self) -> None:
        version = version_of(self.connection, self.path)  # before anything is written: the file may be somebody else's
        # Readers do not hold up the writer in WAL mode; NORMAL survives the death of a process without a sync a commit.
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.execute("PRAGMA cache_size = -32000")  # KB: a chart's points lie all over the file
        if self.connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            self.connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if version < len(MIGRATIONS):
            with self._transaction("IMMEDIATE"):
                migrate(self.connection, self.path)
                if self.of and self._owner() is None:
                    self.connection.execute("INSERT INTO owner VALUES (?, ?)", (self.of, words_seal(self.of)))
        if self.of and (owner := self._owner()) not in (None, self.of):
            raise StateError(
                f"'{self.path}' is not what was written there: expected the records of {self.of}, got those of "
                f"{owner!s:.80}. Put it back, or move it away; a run that is resumed begins a new one."
            )

    def _owner(self) -> str | None:
        """The run that the records were begun for; None where nobody said so, or by an older version."""
        row = self.connection.execute("SELECT run, seal FROM owner").fetchone()
        if row is not None and words_seal(row[0]) != row[1]:
            raise Unproven("whose records they are is not what was written")
        return row and str(row[0])

    def _patiently(self, action: Callable[[], None]) -> None:
        """Try again while others hold a lock: changing to WAL fails at once then, whatever SQLite's own timeout."""
        end = time.monotonic() + self.timeout
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                if not is_locked(error) or time.monotonic() >= end:
                    raise
            time.sleep(PAUSE)

    @contextmanager
    def transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """All or nothing. IMMEDIATE takes the write lock first: one that began by reading could not wait for it."""
        self._follow_the_name(writing=kind == "IMMEDIATE")
        with self._transaction(kind) as connection:
            yield connection

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        with self._plain_errors():
            try:
                self.connection.execute(f"BEGIN {kind}")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    with suppress(sqlite3.Error):  # the error that brought us here is the one to tell
                        self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several queries that see one state of the file."""
        with self.transaction("DEFERRED") as connection:
            yield connection

    def wait_at_most(self, seconds: float) -> None:
        self.timeout = seconds
        self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * seconds)}")

    def close(self) -> None:
        if self._left:
            with suppress(sqlite3.Error):  # what is in the journal must be in the file before that is removed
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for connection in (self.connection, *self._left):
            connection.close()

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.IntegrityError):
            raise  # a mistake in our code, not in the file
        except sqlite3.DatabaseError as error:
            raise self._in_words(error) from error

    def _in_words(self, error: sqlite3.DatabaseError) -> StateError | ResourceError:
        code = primary(error)
        if is_locked(error):
            return StateError(
                f"Another program kept the run's records '{self.path}' locked for more than {self.timeout:g} seconds. "
                "Close what has this file open, such as a database browser or a backup, and try again."
            )
        if code == sqlite3.SQLITE_FULL:
            return DiskFull(
                f"The disk is full: no room for the run's records '{self.path}'. Free some space and try again."
            )
        if code == sqlite3.SQLITE_IOERR:
            return ResourceError(
                f"The disk failed while the run's records '{self.path}' were read or written ({error}). "
                "Check that it is there and has free space, and try again."
            )
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return StateError(
                f"Expected to read and write the run's records '{self.path}', but: {error}. "
                "Check that its folder exists and may be written to."
            )
        return StateError(
            f"Expected the records of a run in '{self.path}', but the file is damaged or is something else ({error}). "
            "Move it away; a run that is resumed begins a new one."
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Of the file that has this name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def primary(error: sqlite3.Error) -> int:
    """SQLite's result code without its details, which are in the higher bits; 0 when it gave none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_locked(error: sqlite3.Error) -> bool:
    return primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
