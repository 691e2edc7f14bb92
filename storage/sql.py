"""The records of a run in one SQLite file that others read, and post commands to, while it is written."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import astuple, fields, replace
from operator import attrgetter
from pathlib import Path
from sqlite3 import Connection, Cursor
from typing import Any, Generic, TypeVar

from shoal.metrics import Event, HostSample, LinkSample, Record, Round, WorkerSample
from shoal.storage.base import POINTS, TIMEOUT, Command, Storage, as_json, forward, unknown_command, writable
from shoal.storage.row_seals import Numbers, words_seal
from shoal.storage.sqlite_file import SqliteFile, Unproven
from shoal.storage.thinning import Bucket, chosen, newly_full, spread

R = TypeVar("R", bound=Round | WorkerSample | HostSample)
DAMAGED = "a damaged command"
NAN = "NaN"  # in an optional column, where NULL is None; elsewhere NULL is NaN, as SQLite itself has it


class _Records(Generic[R]):
    """Records of one kind to rows and back. Optional columns come last."""

    def __init__(self, name: str, kind: type[R], optional: Collection[str] = (), within: str = "") -> None:
        types = {field.name: str(field.type) for field in fields(kind)}
        required = [name for name in types if name not in optional]
        self.kind, self.name = kind, name
        self.names = (*required, *optional)
        self.required = len(required)
        self._seals = Numbers(["int", *(types[name] for name in self.names)])
        self.columns = f"place, {', '.join(self.names)}, seal"
        self.insert = f"INSERT INTO {name} ({self.columns}) VALUES (?{', ?' * (len(self.names) + 1)})"
        places = "(SELECT value FROM json_each(?))"
        self.at = f"SELECT {self.columns} FROM {name} WHERE {within} place IN {places} ORDER BY place"
        self._values: Callable[[R], tuple[Any, ...]] = attrgetter(*self.names)

    def row(self, record: R, place: int) -> tuple[Any, ...]:
        values = self._values(record)
        seal = self._seals.seal((place, *values))
        if any(value != value for value in values[self.required :]):
            values = (*values[: self.required], *(v if v == v else NAN for v in values[self.required :]))
        return place, *values, seal

    def records(self, found: Cursor) -> list[R]:
        """Unproven if one of them is not what was written."""
        rows = found.fetchall()  # all of them first: one half read would keep its state of the file for the next reader
        return [self._record(place, row, seal) for place, *row, seal in rows]

    def places(self, connection: Connection, places: Sequence[int], *which: int) -> list[R]:
        """The records at these places, all of which there are."""
        found = self.records(connection.execute(self.at, (*which, json.dumps(places))))
        if len(found) != len(places):
            raise Unproven(f"{len(places) - len(found)} records of '{self.name}' are gone")
        return found

    def _record(self, place: int, row: Sequence[Any], seal: int | None) -> R:
        if None in row[: self.required] or NAN in row[self.required :]:
            row = self._mended(row)
        if not self._seals.fits((place, *row), seal):
            raise Unproven(f"record {place} of '{self.name}' is not what was written")
        # The constructor of a frozen dataclass sets field by field: twice as slow, and there are 1,500 to a chart.
        record = self.kind.__new__(self.kind)
        record.__dict__.update(zip(self.names, row, strict=True))
        return record

    def _mended(self, row: Sequence[Any]) -> tuple[Any, ...]:
        required = (math.nan if value is None else value for value in row[: self.required])
        return *required, *(math.nan if value == NAN else value for value in row[self.required :])


ROUNDS = _Records("rounds", Round, ("validation", "distance"))
WORKERS = _Records("worker_samples", WorkerSample, ("gpu",), within="rank = ? AND")
HOSTS = _Records("host_samples", HostSample)
LINK = "seconds, rank, node, took, silent, received, sent"
BUCKETS = Numbers(["int", "int", "int", "float", "int", "float"])


class SqliteStorage(Storage):
    """One connection; used by one thread at a time, and another one may close it."""

    def __init__(self, path: str | Path, timeout: float = TIMEOUT, of: str = "") -> None:
        self._file = SqliteFile(Path(path), timeout, of)

    @property
    def renewed(self) -> int:
        return self._file.renewed

    def wait_at_most(self, seconds: float) -> None:
        self._file.wait_at_most(seconds)

    def add(self, records: Sequence[Record]) -> None:
        rounds = forward(record for record in records if isinstance(record, Round))
        events = [_event_row(record) for record in records if isinstance(record, Event)]
        with self._file.transaction() as connection:
            if rounds:
                self._add_rounds(connection, rounds)
            for record in records:
                if isinstance(record, WorkerSample):
                    place = _count(connection, "worker_samples WHERE rank = ?", record.rank)
                    connection.execute(WORKERS.insert, WORKERS.row(record, place))
                elif isinstance(record, LinkSample):
                    record = replace(record, took=float(record.took), silent=float(record.silent))  # as SQLite has it
                    values = astuple(record)
                    query = f"INSERT OR REPLACE INTO links ({LINK}, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                    connection.execute(query, (*values, words_seal(*values)))
                elif isinstance(record, HostSample):
                    connection.execute(HOSTS.insert, HOSTS.row(record, _count(connection, "host_samples")))
            connection.executemany(
                "INSERT INTO events (seconds, kind, round, text, rank, data, seal) VALUES (?, ?, ?, ?, ?, ?, ?)", events
            )

    def _add_rounds(self, connection: Connection, rounds: list[Round]) -> None:
        before = self._forget_from(connection, rounds[0].round)
        connection.executemany(ROUNDS.insert, [ROUNDS.row(record, i) for i, record in enumerate(rounds, before)])
        for level, first, buckets in newly_full(self._look, before, before + len(rounds)):
            connection.executemany(
                "INSERT INTO buckets VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(*row, BUCKETS.seal(row)) for row in ((level, n, *bucket) for n, bucket in enumerate(buckets, first))],
            )

    def _forget_from(self, connection: Connection, round: int) -> int:
        """Drop this round and those after it; how many are left."""
        count = _count(connection, "rounds")
        kept = _place_of(connection, round, count)
        if kept < count:
            connection.execute("DELETE FROM rounds WHERE place >= ?", (kept,))
            level = 1
            while count >> 2 * level:
                # Only buckets that are full on what is left stay true.
                connection.execute("DELETE FROM buckets WHERE level = ? AND number >= ?", (level, kept >> 2 * level))
                level += 1
        return kept

    def _look(self, level: int, first: int, stop: int) -> list[Bucket]:
        if level:
            query = (
                "SELECT low, low_loss, high, high_loss, seal FROM buckets WHERE level = ? AND number BETWEEN ? AND ?"
            )
            rows = self._file.connection.execute(query, (level, first, stop - 1)).fetchall()
            found = [_bucket(level, number, row) for number, row in enumerate(rows, first)]
        else:
            query = "SELECT place, loss, place, loss FROM rounds WHERE place BETWEEN ? AND ?"
            found = [_losses(row) for row in self._file.connection.execute(query, (first, stop - 1)).fetchall()]
        if len(found) != stop - first:
            raise Unproven(f"{stop - first - len(found)} records of 'buckets' are gone")
        return found

    def _thinned(self, after: int | None, points: int) -> list[Round]:
        with self._file.reading() as connection:
            stop = _count(connection, "rounds")
            start = 0 if after is None else _place_of(connection, after + 1, stop)
            places = chosen(self._look, start, stop, points)
            return ROUNDS.places(connection, places)

    def rounds(self, points: int = POINTS) -> list[Round]:
        return self._thinned(None, points)

    def rounds_since(self, round: int, limit: int = POINTS) -> list[Round]:
        return self._thinned(round, limit)

    def last_round(self) -> Round | None:
        with self._file.reading() as connection:
            rows = connection.execute(f"SELECT {ROUNDS.columns} FROM rounds ORDER BY place DESC LIMIT 1")
            return next(iter(ROUNDS.records(rows)), None)

    def workers(self) -> list[WorkerSample]:
        found: list[WorkerSample] = []
        query = f"SELECT {WORKERS.columns} FROM worker_samples WHERE rank = ? ORDER BY place DESC LIMIT 1"
        with self._file.reading() as connection:
            for rank in _ranks(connection):
                found += WORKERS.records(connection.execute(query, (rank,)))
        return found

    def worker_history(self, rank: int, points: int = POINTS) -> list[WorkerSample]:
        with self._file.reading() as connection:
            places = spread(_count(connection, "worker_samples WHERE rank = ?", rank), points)
            return WORKERS.places(connection, places, rank)

    def links(self) -> list[LinkSample]:
        with self._file.reading() as connection:
            rows = connection.execute(f"SELECT {LINK}, seal FROM links ORDER BY rank").fetchall()
            for *values, seal in rows:
                if words_seal(*values) != seal:
                    raise Unproven("how a worker is reached is not what was written")
            return [LinkSample(*values) for *values, _ in rows]

    def hosts(self, points: int = POINTS) -> list[HostSample]:
        with self._file.reading() as connection:
            places = spread(_count(connection, "host_samples"), points)
            return HOSTS.places(connection, places)

    def events(
        self, since: int = 0, kinds: Collection[str] | None = None, limit: int = 1000
    ) -> list[tuple[int, Event]]:
        wanted = None if kinds is None else json.dumps(list(kinds))
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT number, seconds, kind, round, text, rank, data, seal FROM events WHERE number > ? AND "
                "(? IS NULL OR kind IN (SELECT value FROM json_each(?))) ORDER BY number DESC LIMIT ?",
                (since, wanted, wanted, max(limit, 0)),
            ).fetchall()
            if kinds is None and rows and rows[0][0] - rows[-1][0] != len(rows) - 1:
                raise Unproven("some of the events are gone")
            return [(number, _event(number, row)) for number, *row in reversed(rows)]

    def forget_after(self, round: int) -> None:
        with self._file.transaction() as connection:
            self._forget_from(connection, round + 1)

    def post(self, name: str, arguments: dict[str, Any]) -> int:
        row = (name, as_json(arguments, f"command '{name}'"), time.time())
        query = "INSERT INTO commands (name, arguments, posted_at, seal) VALUES (?, ?, ?, ?)"
        with self._file.transaction() as connection:
            cursor = connection.execute(query, (*row, words_seal(*row)))
            return int(cursor.lastrowid or 0)

    def take(self) -> list[Command]:
        if not self._commands("WHERE NOT taken LIMIT 1"):
            return []  # runs ask ten times a second: only a command is worth the write lock
        with self._file.transaction() as connection:
            found = _commands(connection, "WHERE NOT taken ORDER BY id")
            connection.execute("UPDATE commands SET taken = 1 WHERE NOT taken")
        return found

    def settle(self, id: int, round: int, outcome: str) -> None:
        with self._file.transaction() as connection:
            query = "UPDATE commands SET round = ?, outcome = ? WHERE id = ?"
            if not connection.execute(query, (round, outcome, id)).rowcount:
                raise unknown_command(id)

    def commands(self) -> list[Command]:
        return self._commands("ORDER BY id")

    def _commands(self, which: str) -> list[Command]:
        with self._file.reading() as connection:
            return _commands(connection, which)

    def close(self) -> None:
        self._file.close()


def _losses(row: Sequence[Any]) -> Bucket:
    return Bucket._make(row if None not in row else (row[0], math.nan, row[2], math.nan))


def _bucket(level: int, number: int, row: Sequence[Any]) -> Bucket:
    *said, seal = row
    bucket = _losses(said)
    if not BUCKETS.fits((level, number, *bucket), seal):
        raise Unproven(f"record {number} of 'buckets' is not what was written")
    return bucket


def _count(connection: Connection, series: str, *which: int) -> int:
    """The length of a series: places have no gaps, so its last one tells without counting."""
    return int(connection.execute(f"SELECT ifnull(max(place) + 1, 0) FROM {series}", which).fetchone()[0])


def _place_of(connection: Connection, round: int, otherwise: int) -> int:
    """Where the first round not before this one is."""
    query = "SELECT place FROM rounds WHERE round >= ? ORDER BY round LIMIT 1"
    row = connection.execute(query, (round,)).fetchone()
    return int(row[0]) if row else otherwise


def _ranks(connection: Connection) -> list[int]:
    """All ranks by jumping along the key from one to the next: DISTINCT would read every sample."""
    query = """WITH RECURSIVE ranks(rank) AS (
        SELECT min(rank) FROM worker_samples
        UNION ALL
        SELECT (SELECT min(rank) FROM worker_samples w WHERE w.rank > ranks.rank) FROM ranks WHERE rank IS NOT NULL
    ) SELECT rank FROM ranks WHERE rank IS NOT NULL"""
    return [rank for (rank,) in connection.execute(query)]


def _event_row(event: Event) -> tuple[Any, ...]:
    kept = writable(event)
    seconds = None if math.isnan(kept.seconds) else float(kept.seconds)
    row = (seconds, kept.kind, kept.round, kept.text, kept.rank, json.dumps(kept.data))
    return *row, words_seal(*row)


def _event(number: int, row: Sequence[Any]) -> Event:
    *said, seal = row
    if seal is not None and words_seal(*said) != seal:
        raise Unproven(f"event {number} is not what was written")
    seconds, kind, round, text, rank, data = said
    return Event(math.nan if seconds is None else seconds, kind, round, text, rank, json.loads(data))


def _commands(connection: Connection, which: str) -> list[Command]:
    rows = connection.execute(f"SELECT id, name, arguments, posted_at, seal, round, outcome FROM commands {which}")
    return [_command(*row) for row in rows.fetchall()]


def _command(
    id: int, name: str, arguments: str, posted_at: float, seal: int | None, round: int | None, outcome: str | None
) -> Command:
    """What was asked for; one that is not what was written is none that anybody follows, and who follows says so."""
    if seal is not None and words_seal(name, arguments, posted_at) != seal:
        return Command(id, DAMAGED, {}, posted_at, round, outcome)
    return Command(id, name, json.loads(arguments), posted_at, round, outcome)
