"""The clock that queues of tests go by, and tables without a row."""

from __future__ import annotations

from shoal.database.connections import Database

TABLES = "queue_jobs, queue_after, queue_limits, queue_hosts, queue_ledger"


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time

    def pass_by(self, seconds: float) -> None:
        self.time += seconds


def emptied(database: Database) -> Database:
    """The same without a job."""
    with database.transaction() as connection:
        for table in TABLES.split(", "):
            connection.execute(f"DELETE FROM {table}")
    return database
