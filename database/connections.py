"""A few connections to the database that the threads of a process share; what is asked over them is known to others.

A connection that was cut is noticed before it is used again. While the server is away, tries to reach it are made with
growing rests, and in between everybody is told at once: nobody waits for what was just found to be away.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.database import migrations
from shoal.database.address import VARIABLE, address, shown
from shoal.database.plain_errors import DatabaseAway, driver_missing, plain_errors
from shoal.errors import ConfigError, TrainingError

if TYPE_CHECKING:
    from psycopg import Connection

MOST = 8  # connections of a process
CONNECTING = 5  # seconds until a server that does not answer is away
RESTS = (0.1, 1.0)  # seconds between two tries to reach a server: the first, and the longest
WAITING = 30.0  # seconds for one of the process's own connections to be free
ALIVE = {  # a peer that vanished without a word is noticed: within half a minute, instead of two hours
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

# Nobody waits without end, nor holds a lock without end: a process may be stopped in the middle of a transaction.
LIMITS = "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '30s'"


class _Away(NamedTuple):
    since: float
    until: float  # until then nobody tries again
    rest: float
    error: TrainingError


class Database:
    """The connections of one process to one database; used by any number of threads."""

    def __init__(self, address: str, most: int = MOST) -> None:
        self._address, self.shown = address, shown(address)
        self._free: list[Connection[Any]] = []
        self._slots = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._identity = ""
        self._ready = False  # the tables were seen to be those that this version knows
        self._away: _Away | None = None

    @contextmanager
    def transaction(self, one_state: bool = False) -> Iterator[Connection[Any]]:
        """All or nothing; the tables are known to be there. Errors are ours, in plain words.

        `one_state`: all queries see the tables as they were at the first, and none writes.
        """
        with self.connection() as connection, plain_errors(self.shown):
            _set_isolation(connection, one_state)
            with connection.transaction():
                yield connection

    @contextmanager
    def single(self) -> Iterator[Connection[Any]]:
        """For one query that needs no transaction around it: one trip to the server in place of three."""
        with self.connection() as connection, plain_errors(self.shown):
            yield connection

    @contextmanager
    def connection(self, checked: bool = True) -> Iterator[Connection[Any]]:
        """One that commits statement by statement. `checked`: StateError where tables are not those of this version."""
        if not self._slots.acquire(timeout=WAITING):
            raise DatabaseAway(f"All connections of this process to {self.shown} are busy. Try again.")
        try:
            connection = self._taken()
            try:
                if checked and not self._ready:
                    with plain_errors(self.shown):
                        migrations.check(connection)
                    self._ready = True
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._slots.release()

    def check(self) -> None:
        """Whether the tables are still those of this version: another may have made them ready meanwhile."""
        with self.connection(checked=False) as connection, plain_errors(self.shown):
            migrations.check(connection)

    def identity(self) -> str:
        """The name that this database gave itself when it was made ready first: the same at every address."""
        if not self._identity:
            with self.transaction() as connection:
                row = connection.execute("SELECT id FROM identity").fetchone()
            self._identity = str(row[0]) if row else ""
        return self._identity

    @property
    def away_for(self) -> float:
        """Seconds for which the server could not be reached so far; 0 as far as anybody knows it can."""
        away = self._away
        return time.monotonic() - away.since if away else 0.0

    def close(self) -> None:
        """Let go of the connections that nobody uses; more can be made afterwards."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _taken(self) -> Connection[Any]:
        while True:
            with self._lock:
                connection = self._free.pop() if self._free else None
            if connection is None:
                return self._made()
            if _is_good(connection):
                return connection
            connection.close()

    def _give_back(self, connection: Connection[Any]) -> None:
        from psycopg.pq import TransactionStatus

        if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
            connection.close()
            return
        with self._lock:
            self._free.append(connection)

    def _made(self) -> Connection[Any]:
        away, now = self._away, time.monotonic()
        if away and now < away.until:
            raise type(away.error)(away.error.message, *away.error.remedies)
        try:
            connection = self._connected()
        except TrainingError as error:
            rest = min(2 * away.rest, RESTS[1]) if away else RESTS[0]
            with self._lock:
                self._away = _Away(away.since if away else now, time.monotonic() + rest, rest, error)
            raise
        with self._lock:
            self._away = None
        return connection

    def _connected(self) -> Connection[Any]:
        try:
            import psycopg
        except ImportError:
            raise driver_missing() from None
        try:
            asked = psycopg.conninfo.conninfo_to_dict(self._address)
        except psycopg.ProgrammingError:  # which quotes what it could not read
            raise ConfigError(
                f"Expected {VARIABLE} as postgresql://user:password@host/database, got what cannot be read (not shown: "
                "it may hold a password). Characters such as @ : / % in a password are written as %40 %3A %2F %25."
            ) from None
        usual: dict[str, Any] = {"connect_timeout": CONNECTING, "application_name": "shoal", **ALIVE}
        with plain_errors(self.shown):
            connection = psycopg.connect(psycopg.conninfo.make_conninfo(**{**usual, **asked}), autocommit=True)
            with _closed_on_error(connection):
                connection.execute(f"SET search_path TO {migrations.SCHEMA}; {LIMITS}")
        return connection


def _set_isolation(connection: Connection[Any], one_state: bool) -> None:
    """Of the next transactions; it is said with their beginning."""
    from psycopg import IsolationLevel

    connection.isolation_level = IsolationLevel.REPEATABLE_READ if one_state else None


@contextmanager
def _closed_on_error(connection: Connection[Any]) -> Iterator[None]:
    """Close it if what is done with it first fails."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _is_good(connection: Connection[Any]) -> bool:
    """Whether nothing came while nobody used it: a server that goes says so, or hangs up. It is not asked."""
    if connection.closed:
        return False
    with suppress(OSError, ValueError):
        poll = select.poll()  # which knows no highest number of a file
        poll.register(connection.fileno(), select.POLLIN)
        return not poll.poll(0)
    return False


_known: dict[str, Database] = {}
_of_parents: list[dict[str, Database]] = []  # never used, and never ended
_lock = threading.Lock()


def database() -> Database:
    """The one that SHOAL_DATABASE names, shared by this process; ConfigError where it names none."""
    found = address()
    if not found:
        raise ConfigError(f"Expected {VARIABLE} to name a database, but it is not set. Set it.")
    with _lock:
        if found not in _known:
            _known[found] = Database(found)
        return _known[found]


def close_all() -> None:
    """Let go of all connections of this process that nobody uses."""
    with _lock:
        known = list(_known.values())
        _known.clear()
    for one in known:
        one.close()


def _begin_anew_after_fork() -> None:
    """A child has its parent's sockets. It uses none of them, and its end is not to say good-bye over them."""
    global _known, _lock
    _of_parents.append(_known)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for one in _known.values():
        for connection in one._free:
            with suppress(Exception):  # closed already
                os.dup2(nowhere, connection.fileno())
    os.close(nowhere)
    _known, _lock = {}, threading.Lock()


os.register_at_fork(after_in_child=_begin_anew_after_fork)
