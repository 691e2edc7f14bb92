"""The records of a run in the team's PostgreSQL, in tables that all runs share; its series are thinned there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeVar

from shoal.database.connections import Database
from shoal.database.plain_errors import DatabaseAway
from shoal.metrics import Event, HostSample, LinkSample, Record, Round, WorkerSample
from shoal.storage.base import POINTS, TIMEOUT, Command, Fenced, Storage, as_json, forward, unknown_command
from shoal.storage.pg_rows import (
    COMMAND,
    EVENT,
    HOSTS,
    LINKS,
    ROUNDS,
    WORKERS,
    command_of,
    event_of,
    event_row,
    incomplete,
    kept_text,
)
from shoal.storage.thinning import pieces, spread

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")
W = TypeVar("W", bound=Sized)
PAUSE = 0.05  # seconds between two tries

# NaN is neither the lowest nor the highest: PostgreSQL takes it for greater than all numbers. The first one of equals.
LOW = "low_loss, low"
HIGH = "high_loss = 'NaN', high_loss DESC, high"
FILL = f"""INSERT INTO buckets
    SELECT %(of)s, %(level)s, number / 4, (array_agg(low ORDER BY {LOW}))[1], (array_agg(low_loss ORDER BY {LOW}))[1],
        (array_agg(high ORDER BY {HIGH}))[1], (array_agg(high_loss ORDER BY {HIGH}))[1]
    FROM (%%s) AS parts GROUP BY number / 4"""
SINGLE = "SELECT place AS number, place AS low, loss AS low_loss, place AS high, loss AS high_loss FROM rounds"
FULL = "SELECT number, low, low_loss, high, high_loss FROM buckets"


class PostgresStorage(Storage):
    """Any number of them share the connections of a process. What is asked again after a cut is done once."""

    def __init__(self, database: Database, run: str, timeout: float = TIMEOUT, fence: int | None = None) -> None:
        self._database, self._run, self._timeout, self._fence = database, run, timeout, fence
        self._number: int | None = None  # of the run in the tables

    # ---------------------------------------------------------------- write

    def add(self, records: Sequence[Record], batch: str = "") -> None:
        """`batch` names these records: they are not kept twice if they were sent before, and nobody knew."""
        rounds = forward(record for record in records if isinstance(record, Round))
        events = [event_row(record) for record in records if isinstance(record, Event)]
        samples = [record for record in records if isinstance(record, WorkerSample)]
        hosts = [record for record in records if isinstance(record, HostSample)]
        links = {record.rank: record for record in records if isinstance(record, LinkSample)}

        def write(connection: Connection[Any], of: int) -> None:
            if rounds:
                self._add_rounds(connection, of, rounds)
            if samples:
                self._add_samples(connection, of, samples)
            if hosts:
                first = _next(connection, "host_samples", "place", of)
                HOSTS.copy(connection, ((of, i, *HOSTS.row(one)) for i, one in enumerate(hosts, first)))
            if links:
                connection.execute("DELETE FROM links WHERE of = %s AND rank = ANY(%s)", (of, list(links)))
                LINKS.copy(connection, ((of, *LINKS.row(one)) for one in links.values()))
            if events:
                first = _next(connection, "events", "number", of) or 1
                with connection.cursor() as cursor, cursor.copy(f"COPY events (of, {EVENT}) FROM STDIN") as copy:
                    for number, row in enumerate(events, first):
                        copy.write_row((of, number, *row))

        if records:
            self._write(write, batch)

    def forget_after(self, round: int, batch: str = "") -> None:
        self._write(lambda connection, of: self._forget_from(connection, of, round + 1), batch)

    def claim(self) -> None:
        """From now on nobody with an older fence writes."""

        def action(connection: Connection[Any]) -> None:
            of, _ = self._locked(connection)
            connection.execute("UPDATE runs SET fence = greatest(fence, %s) WHERE number = %s", (self._fence, of))

        if self._fence is not None:
            self._patiently(action)

    def last_batch(self) -> str | None:
        """What was written last, by its name."""
        query = "SELECT last_batch FROM runs WHERE run = %s"
        row = self._patiently(lambda connection: connection.execute(query, (self._run,)).fetchone())
        return row and row[0]

    def _write(self, write: Callable[[Connection[Any], int], object], batch: str) -> None:
        """All or nothing, by the holder of the newest fence alone, and once."""
        batch = batch or uuid.uuid4().hex

        def action(connection: Connection[Any]) -> int:
            of, last = self._locked(connection)
            if last != batch:
                write(connection, of)
                query = "UPDATE runs SET last_batch = %s, fence = greatest(fence, %s) WHERE number = %s"
                connection.execute(query, (batch, self._fence, of))
            return of

        self._number = self._patiently(action)

    def _locked(self, connection: Connection[Any]) -> tuple[int, str | None]:
        """Number and last batch of the run, held until the transaction ends; made where it was not known yet."""
        query = "SELECT number, last_batch, fence FROM runs WHERE run = %s FOR NO KEY UPDATE"
        row = connection.execute(query, (self._run,)).fetchone()
        if row is None and self._number is None:
            connection.execute("INSERT INTO runs (run) VALUES (%s) ON CONFLICT DO NOTHING", (self._run,))
            row = connection.execute(query, (self._run,)).fetchone()
        if row is None or self._number not in (None, row[0]):
            raise Fenced(
                f"The records of {self._run} were removed from the database; nothing is written to it any more."
            )
        if self._fence is not None and row[2] > self._fence:
            raise Fenced(
                f"Another process has taken over the run {self._run} (fence {row[2]}, this one has {self._fence}); "
                "nothing of this one is written any more."
            )
        return int(row[0]), row[1]

    def _add_rounds(self, connection: Connection[Any], of: int, rounds: list[Round]) -> None:
        before = self._forget_from(connection, of, rounds[0].round)
        ROUNDS.copy(connection, ((of, i, *ROUNDS.row(one)) for i, one in enumerate(rounds, before)))
        after, level = before + len(rounds), 1
        while (first := before >> 2 * level) < (stop := after >> 2 * level):
            source = (
                f"{FULL} WHERE of = %(of)s AND level = %(below)s AND number"
                if level > 1
                else f"{SINGLE} WHERE of = %(of)s AND place"
            )
            values = {"of": of, "level": level, "below": level - 1, "first": 4 * first, "last": 4 * stop - 1}
            connection.execute(FILL.replace("%%s", f"{source} BETWEEN %(first)s AND %(last)s"), values)
            level += 1

    def _forget_from(self, connection: Connection[Any], of: int, round: int) -> int:
        """Drop this round and those after it; how many are left."""
        query = "SELECT place FROM rounds WHERE of = %s AND round >= %s ORDER BY round LIMIT 1"
        row = connection.execute(query, (of, round)).fetchone()
        if row is None:
            return _next(connection, "rounds", "place", of)
        kept = int(row[0])
        connection.execute("DELETE FROM rounds WHERE of = %s AND place >= %s", (of, kept))
        # Only buckets that are full on what is left stay true.
        query = "DELETE FROM buckets WHERE of = %s AND number >= div(%s, 4::numeric ^ level)"
        connection.execute(query, (of, kept))
        return kept

    def _add_samples(self, connection: Connection[Any], of: int, samples: list[WorkerSample]) -> None:
        query = """SELECT rank, (SELECT max(place) + 1 FROM worker_samples w WHERE w.of = %s AND w.rank = r.rank)
            FROM unnest(%s::bigint[]) AS r (rank)"""
        ranks = sorted({sample.rank for sample in samples})
        places = {rank: place or 0 for rank, place in connection.execute(query, (of, ranks))}
        rows = []
        for sample in samples:
            rows.append((of, places[sample.rank], *WORKERS.row(sample)))
            places[sample.rank] += 1
        WORKERS.copy(connection, rows)

    # ---------------------------------------------------------------- series

    def rounds(self, points: int = POINTS) -> list[Round]:
        return self._thinned(None, points)

    def rounds_since(self, round: int, limit: int = POINTS) -> list[Round]:
        return self._thinned(round, limit)

    def _thinned(self, after: int | None, points: int) -> list[Round]:
        def read(connection: Connection[Any], of: int) -> list[Round]:
            stop = _next(connection, "rounds", "place", of)
            start = 0
            if after is not None:
                query = "SELECT place FROM rounds WHERE of = %s AND round > %s ORDER BY round LIMIT 1"
                row = connection.execute(query, (of, after)).fetchone()
                start = row[0] if row else stop
            if stop - start <= points:
                found = ROUNDS.read(connection, "WHERE of = %s AND place >= %s ORDER BY place", (of, start))
                return self._whole(found, stop - start, "rounds")
            places = self._chosen(connection, of, start, stop, points)
            found = ROUNDS.read(connection, "WHERE of = %s AND place = ANY(%s) ORDER BY place", (of, places))
            return self._whole(found, len(places), "rounds")

        return self._read(read)

    def _chosen(self, connection: Connection[Any], of: int, start: int, stop: int, points: int) -> list[int]:
        """As `thinning.chosen`, which says what is wanted: here the database looks through the buckets."""
        if points < 1:
            return []
        length, level = stop - start, 0
        while length >= 2 * points * 4**level:
            level += 1
        stretches = 1 if points < 4 else (points - 2) // 2
        parts, values, wanted = [], [], 0
        for each, first, last in pieces(start, stop, level):
            parts.append(
                f"{FULL} WHERE of = %s AND level = %s AND number" if each else f"{SINGLE} WHERE of = %s AND place"
            )
            parts[-1] += " BETWEEN %s AND %s"
            values += [of, *([each] if each else []), first, last - 1]
            wanted += last - first
        query = f"""WITH parts AS MATERIALIZED (
                SELECT *, (low - %s) * %s / %s AS stretch FROM ({" UNION ALL ".join(parts)}) AS buckets
            )
            SELECT count(*), 0 FROM parts
            UNION ALL SELECT low, 1 FROM (SELECT DISTINCT ON (stretch) low FROM parts ORDER BY stretch, {LOW}) AS lows
            UNION ALL SELECT high, 2
                FROM (SELECT DISTINCT ON (stretch) high FROM parts ORDER BY stretch, {HIGH}) AS highs"""
        (count, _), *extremes = connection.execute(query, (start, stretches, length, *values)).fetchall()
        self._whole(range(count), wanted, "buckets")
        if points < 4:
            low, high = (place for place, _ in sorted(extremes, key=lambda row: row[1]))
            return list(dict.fromkeys([stop - 1, start, low, high]))[:points]
        return list({start, stop - 1, *(place for place, _ in extremes)})

    def last_round(self) -> Round | None:
        which = "WHERE of = %s ORDER BY place DESC LIMIT 1"
        found = self._read(lambda connection, of: ROUNDS.read(connection, which, (of,)))
        return found[0] if found else None

    def workers(self) -> list[WorkerSample]:
        # By jumping along the key from one rank to the next: DISTINCT would read every sample.
        which = """WHERE of = %(of)s AND (rank, place) IN (
            WITH RECURSIVE ranks (rank) AS (
                SELECT min(rank) FROM worker_samples WHERE of = %(of)s
                UNION ALL
                SELECT (SELECT min(w.rank) FROM worker_samples w WHERE w.of = %(of)s AND w.rank > ranks.rank)
                FROM ranks WHERE rank IS NOT NULL
            )
            SELECT rank, (SELECT max(place) FROM worker_samples w WHERE w.of = %(of)s AND w.rank = ranks.rank)
            FROM ranks WHERE rank IS NOT NULL) ORDER BY rank"""
        return self._read(lambda connection, of: WORKERS.read(connection, which, {"of": of}))

    def worker_history(self, rank: int, points: int = POINTS) -> list[WorkerSample]:
        def read(connection: Connection[Any], of: int) -> list[WorkerSample]:
            places = spread(_next(connection, "worker_samples", "place", of, "AND rank = %s", rank), points)
            which = "WHERE of = %s AND rank = %s AND place = ANY(%s) ORDER BY place"
            return self._whole(WORKERS.read(connection, which, (of, rank, places)), len(places), "samples of workers")

        return self._read(read)

    def links(self) -> list[LinkSample]:
        return self._read(lambda connection, of: LINKS.read(connection, "WHERE of = %s ORDER BY rank", (of,)))

    def hosts(self, points: int = POINTS) -> list[HostSample]:
        def read(connection: Connection[Any], of: int) -> list[HostSample]:
            places = spread(_next(connection, "host_samples", "place", of), points)
            which = "WHERE of = %s AND place = ANY(%s) ORDER BY place"
            return self._whole(HOSTS.read(connection, which, (of, places)), len(places), "samples of machines")

        return self._read(read)

    def events(
        self, since: int = 0, kinds: Collection[str] | None = None, limit: int = 1000
    ) -> list[tuple[int, Event]]:
        wanted = None if kinds is None else [kept_text(kind) for kind in kinds]
        query = f"""SELECT {EVENT} FROM events WHERE of = %s AND number > %s AND (%s::text[] IS NULL OR kind = ANY(%s))
            ORDER BY number DESC LIMIT %s"""

        def read(connection: Connection[Any], of: int) -> list[tuple[int, Event]]:
            rows = connection.execute(query, (of, since, wanted, wanted, max(limit, 0))).fetchall()
            if kinds is None and rows:
                self._whole(rows, rows[0][0] - rows[-1][0] + 1, "events")
            return [event_of(row) for row in reversed(rows)]

        return self._read(read)

    # ---------------------------------------------------------------- commands

    def post(self, name: str, arguments: dict[str, Any]) -> int:
        row = (uuid.uuid4(), kept_text(name), as_json(arguments, f"command '{name}'"), time.time())
        query = """INSERT INTO commands (of, key, name, arguments, posted_at) VALUES (%s, %s, %s, %s, %s)
            ON CONFLICT (key) DO UPDATE SET key = excluded.key RETURNING id"""

        def action(connection: Connection[Any]) -> int:
            connection.execute("INSERT INTO runs (run) VALUES (%s) ON CONFLICT DO NOTHING", (self._run,))
            found = connection.execute(query, (self._known(connection), *row)).fetchone()
            return int(found[0]) if found else 0

        return self._patiently(action)

    def take(self) -> list[Command]:
        return self.take_by(uuid.uuid4())

    def take_by(self, look: uuid.UUID) -> list[Command]:
        """Commands that nobody else has taken; the same again to whoever asks again with the same `look`."""
        wanted = "of = %s AND (taken IS NULL OR taken = %s)"
        waiting = f"SELECT 1 FROM commands WHERE {wanted.replace('%s', '(SELECT number FROM runs WHERE run = %s)', 1)}"

        def action(connection: Connection[Any]) -> list[Command]:
            of, _ = self._locked(connection)
            query = f"UPDATE commands SET taken = %s WHERE {wanted} RETURNING {COMMAND}"
            return sorted(map(command_of, connection.execute(query, (look, of, look))), key=lambda one: one.id)

        # Runs ask ten times a second: that is one question, and only a command is worth a lock.
        found = self._patiently(lambda one: one.execute(waiting, (self._run, look)).fetchone(), alone=True)
        return self._patiently(action) if found else []

    def settle(self, id: int, round: int, outcome: str) -> None:
        def action(connection: Connection[Any]) -> None:
            of, _ = self._locked(connection)
            query = "UPDATE commands SET round = %s, outcome = %s WHERE of = %s AND id = %s"
            if not connection.execute(query, (round, kept_text(outcome), of, id)).rowcount:
                raise unknown_command(id)

        self._patiently(action)

    def commands(self) -> list[Command]:
        query = f"SELECT {COMMAND} FROM commands WHERE of = %s ORDER BY id"
        return self._read(lambda connection, of: [command_of(row) for row in connection.execute(query, (of,))])

    # ---------------------------------------------------------------- how it is asked

    def _read(self, read: Callable[[Connection[Any], int], list[T]]) -> list[T]:
        """Several queries that see one state of the tables; a run that nobody has written to has nothing."""

        def action(connection: Connection[Any]) -> list[T]:
            of = self._known(connection)
            return [] if of is None else read(connection, of)

        return self._patiently(action, one_state=True)

    def _known(self, connection: Connection[Any]) -> int | None:
        row = connection.execute("SELECT number FROM runs WHERE run = %s", (self._run,)).fetchone()
        return int(row[0]) if row else None

    def _patiently(self, action: Callable[[Connection[Any]], T], one_state: bool = False, alone: bool = False) -> T:
        """In a transaction; tried again for a while if the database is away. What is done twice has to come to once.

        `alone`: a single query, which is a transaction by itself.
        """
        end = time.monotonic() + self._timeout
        while True:
            try:
                with self._database.single() if alone else self._database.transaction(one_state) as connection:
                    return action(connection)
            except DatabaseAway:
                # Who has waited once for one that is away does not do so for every run of a list.
                if time.monotonic() + PAUSE >= end or (one_state and self._database.away_for > self._timeout):
                    raise
            time.sleep(PAUSE)

    def _whole(self, found: W, wanted: int, what: str) -> W:
        if len(found) != wanted:
            raise incomplete(self._run, f"{wanted - len(found)} of its {what} are gone")
        return found

    def wait_at_most(self, seconds: float) -> None:
        self._timeout = seconds

    def close(self) -> None:
        """Connections are the process's, not its own."""


def _next(connection: Connection[Any], table: str, column: str, of: int, more: str = "", *values: Any) -> int:
    """The number after the last one: there are no gaps, so it tells without counting."""
    query = f"SELECT max({column}) + 1 FROM {table} WHERE of = %s {more}"
    row = connection.execute(query, (of, *values)).fetchone()
    return int(row[0] or 0) if row else 0


def remove_run(database: Database, run: str) -> None:
    """All rows of a run go; it is no mistake if there are none."""
    with database.transaction() as connection:
        connection.execute("DELETE FROM runs WHERE run = %s", (run,))
