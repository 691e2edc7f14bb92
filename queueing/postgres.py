"""The queue in the database of the team; hosts claim side by side, and none waits for a row that another has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from shoal.database.connections import Database
from shoal.database.plain_errors import plain_errors
from shoal.errors import TrainingError
from shoal.queueing.jobs import RUNNING, Job, RunHost
from shoal.queueing.queue import TryAgain
from shoal.queueing.sql import FIRST, READY, SqlLooks, SqlRows
from shoal.queueing.tables import JobRows, T

if TYPE_CHECKING:
    from psycopg import Connection

NOW = "SELECT extract(epoch FROM clock_timestamp())::double precision"
TIMES = 5  # that a transaction is tried which others were in the way of


class PostgresTables(SqlLooks):
    """Used by any number of threads; `clock` in place of the database's, for tests."""

    def __init__(self, database: Database, clock: Callable[[], float] | None = None) -> None:
        self._database, self._clock = database, clock
        super().__init__(self._look)

    def _look(self, statement: str, values: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
        with self._database.connection() as connection, plain_errors(self._database.shown):
            return _execute(connection, statement, values)

    def now(self) -> float:
        if self._clock:
            return self._clock()
        with self._database.connection() as connection, plain_errors(self._database.shown):
            return _now(connection)

    def close(self) -> None:
        self._database.close()

    def transact(self, work: Callable[[JobRows], T]) -> T:
        for number in range(1, TIMES + 1):
            try:
                with self._database.transaction() as connection:
                    return work(PostgresRows(connection, self._clock))
            except TryAgain:
                pass
            except TrainingError as error:
                if number == TIMES or not _in_the_way(error):
                    raise
            time.sleep(0.01 * number)
        raise TrainingError("The queue is too busy at the moment. Try again.")


class PostgresRows(SqlRows):
    lock, lock_free, lock_still = " FOR UPDATE OF j", " FOR UPDATE OF j SKIP LOCKED", " FOR SHARE OF j"

    def __init__(self, connection: Connection[Any], clock: Callable[[], float] | None) -> None:
        super().__init__(
            lambda statement, values: _execute(connection, statement, values), clock or (lambda: _now(connection))
        )

    def requeue(self, job: Job) -> None:
        self.write(job)
        self._do("UPDATE queue_jobs SET number = nextval('queue_jobs_number_seq') WHERE id = ?", (job.id,))

    def first_ready(self, now: float, home: str) -> Job | None:
        """Hosts that claim at once do not see each other's: a person's limit is counted again, one host at a time."""
        passed: list[str] = []
        while True:
            statement = f"{READY} AND NOT (j.owner = ANY(?)){FIRST}{self.lock_free}"
            found = self._job(self._one(statement, (now, home, passed)))
            if found is None or self._is_within(found.owner):
                return found
            passed.append(found.owner)

    def _is_within(self, owner: str) -> bool:
        most = self._one("SELECT most FROM queue_limits WHERE owner = ?", (owner,))
        if most is None:
            return True
        self._one("SELECT pg_advisory_xact_lock(hashtext('shoal queue'), hashtext(?))::text", (owner,))
        many = self._one(f"SELECT count(*) FROM queue_jobs WHERE state = '{RUNNING}' AND owner = ?", (owner,))
        return many is None or int(many[0]) < int(most[0])

    def host(self, name: str) -> RunHost | None:
        self._one("SELECT pg_advisory_xact_lock(hashtext('shoal host'), hashtext(?))::text", (name,))
        return super().host(name)


def _execute(connection: Connection[Any], statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    cursor = connection.execute(statement.replace("?", "%s"), list(values))
    return cursor.fetchall() if cursor.description else []


def _now(connection: Connection[Any]) -> float:
    row = connection.execute(NOW).fetchone()
    return float(row[0]) if row else 0.0


def _in_the_way(error: TrainingError) -> bool:
    from psycopg import errors

    return isinstance(error.__cause__, (errors.DeadlockDetected, errors.SerializationFailure))
