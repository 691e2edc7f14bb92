"""Parcels in the team's database: files that go with a run, each proven by its SHA-256; what they mean is in others.

Whoever writes for a run host names the fence with which it holds the run. It is compared last, and the row of the job
is held from then to the end: a host that lost the run, and does not know it, changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.database.connections import database
from shoal.errors import StateError, TrainingError
from shoal.queueing.jobs import FINISHED, OPEN, RUNNING

if TYPE_CHECKING:
    from psycopg import Connection

    from shoal.database.connections import Database

PIECE = 4 << 20  # bytes of a large file in a row
SMALL = 256 << 10  # bytes of a file that is in its row as a whole, and goes home while its run is at work


def is_table(name: str) -> bool:
    return name.startswith("uploads/")


class FileMark(NamedTuple):
    """What a file has to be."""

    sha256: str
    size: int


class Parcel(NamedTuple):
    """What the database has of one run."""

    run: str
    origin: str
    home: str
    files: dict[str, FileMark]
    state: str = ""  # of its job
    fence: int = 0

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def is_finished(self) -> bool:
        return self.state == FINISHED


Content = Path | bytes  # a large file that nobody changes any more, or all of a small one


class Parcels:
    """Used by any number of threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # ---------------------------------------------------------------- looks

    def find(self, run: str) -> Parcel | None:
        with self._database.single() as connection:
            return _found(connection, run)

    def away_from(self, home: str) -> list[Parcel]:
        """Runs of this home whose files count elsewhere."""
        query = (
            "SELECT r.run, r.origin, r.home, coalesce(j.state, ''), coalesce(j.fence, 0), f.file, f.sha256, f.size "
            "FROM travel_runs r LEFT JOIN travel_files f USING (run) LEFT JOIN queue_jobs j ON j.id = r.run "
            "WHERE r.origin = %s AND r.home <> r.origin ORDER BY r.run"
        )
        found: dict[str, Parcel] = {}
        with self._database.single() as connection:
            for run, origin, at, state, fence, file, sha256, size in connection.execute(query, (home,)):
                parcel = found.setdefault(run, Parcel(run, origin, at, {}, state, fence))
                if file is not None:
                    parcel.files[file] = FileMark(sha256, size)
        return list(found.values())

    def still_at(self, home: str, runs: Sequence[str]) -> set[str]:
        """Those of these runs that are open and whose files count in this home."""
        query = (
            "SELECT r.run FROM travel_runs r JOIN queue_jobs j ON j.id = r.run "
            "WHERE r.home = %s AND r.run = ANY(%s) AND j.state = ANY(%s)"
        )
        with self._database.single() as connection:
            return {run for (run,) in connection.execute(query, (home, list(runs), list(OPEN)))}

    # ---------------------------------------------------------------- deeds

    def begin(self, run: str, home: str, files: Mapping[str, Content]) -> None:
        """All that a run begins with, launched or resumed in this home; what was there before of it goes."""
        with self._database.transaction() as connection:
            before = _found(connection, run)
            marks = _send(connection, files)
            connection.execute(
                "INSERT INTO travel_runs VALUES (%s, %s, %s) ON CONFLICT (run) DO UPDATE "
                "SET origin = excluded.origin, home = excluded.home",  # another than before where a backup was restored
                (run, home, home),
            )
            _note(connection, run, files, marks, before.files if before else ())
        self._sweep_after(before, marks.values())

    def send(self, run: str, fence: int, files: Mapping[str, Content], kept: Iterable[str]) -> None:
        """Files as they are now; of the others all that is not to be `kept` goes, but for tables. StateError where
        another host holds the run by now, and nothing was changed."""
        with self._database.transaction() as connection:
            before = _found(connection, run)
            if before is None:
                return  # it does not travel
            marks = _send(connection, files)
            stay = {*kept, *files}
            gone = [name for name in before.files if name not in stay and not is_table(name)]
            _note(connection, run, files, marks, gone)
            if not _is_held(connection, run, fence):
                raise StateError(f"Another host has taken over the run {run}, or it was ended.")
        self._sweep_after(before, marks.values())

    def settle(self, run: str, fence: int, home: str) -> bool:
        """From now on the files of this home count; False where another host holds the run by now."""
        with self._database.transaction() as connection:
            held = _is_held(connection, run, fence)
            if held:
                connection.execute("UPDATE travel_runs SET home = %s WHERE run = %s", (home, run))
        return held

    def bind(self, run: str, fence: int, home: str) -> None:
        """Only hosts of this home take the run from now on."""
        with self._database.transaction() as connection:
            query = "UPDATE queue_jobs SET home = %s WHERE id = %s AND fence = %s AND state = %s"
            connection.execute(query, (home, run, fence, RUNNING))

    def drop(self, run: str) -> None:
        """All of a run; no error where there is nothing of it."""
        with self._database.transaction() as connection:
            before = _found(connection, run)
            connection.execute("DELETE FROM travel_runs WHERE run = %s", (run,))
        self._sweep_after(before, ())

    @contextlib.contextmanager
    def held(self, run: str) -> Iterator[HeldParcel | None]:
        """A parcel that nobody changes meanwhile; None if there is none."""
        with self._database.transaction() as connection:
            locked = connection.execute("SELECT 1 FROM travel_runs WHERE run = %s FOR UPDATE", (run,)).fetchone()
            parcel = _found(connection, run) if locked else None
            yield HeldParcel(connection, parcel) if parcel else None
        if parcel and parcel.is_finished:
            self._sweep_after(parcel, ())

    def pieces(self, run: str, file: str) -> Generator[bytes, None, None]:
        with self._database.transaction(one_state=True) as connection:
            yield from _pieces(connection, run, file)

    def sweep(self) -> None:
        """What no run needs any more: those that were finished where people look at them, and large files of nobody."""
        query = "DELETE FROM travel_runs r USING queue_jobs j WHERE j.id = r.run AND j.state = %s AND r.home = r.origin"
        with self._database.single() as connection:
            connection.execute(query, (FINISHED,))
        self._delete("")

    def _sweep_after(self, before: Parcel | None, now: Iterable[FileMark]) -> None:
        kept = {mark.sha256 for mark in now}
        large = {mark.sha256 for mark in before.files.values()} - kept if before else set()
        if large:
            self._delete("sha256 = ANY(%s) AND ", sorted(large))

    def _delete(self, which: str, *values: list[str]) -> None:
        """One that a run comes to need at this moment stays: the database refuses, and a later look tries again."""
        query = (
            f"DELETE FROM travel_contents c WHERE {which}"
            "NOT EXISTS (SELECT 1 FROM travel_files f WHERE f.large = c.sha256)"
        )
        with contextlib.suppress(TrainingError), self._database.single() as connection:
            connection.execute(query.encode(), values)


class HeldParcel:
    """A parcel while its row is held."""

    def __init__(self, connection: Connection[Any], parcel: Parcel) -> None:
        self._connection, self.parcel = connection, parcel

    def pieces(self, file: str) -> Generator[bytes, None, None]:
        yield from _pieces(self._connection, self.parcel.run, file)

    def small(self, files: Sequence[str]) -> dict[str, bytes]:
        """All of those that are small, in one trip."""
        query = "SELECT file, small FROM travel_files WHERE run = %s AND file = ANY(%s) AND small IS NOT NULL"
        return dict(self._connection.execute(query, (self.parcel.run, list(files)), binary=True).fetchall())

    def settle(self, home: str) -> None:
        self._connection.execute("UPDATE travel_runs SET home = %s WHERE run = %s", (home, self.parcel.run))

    def drop(self) -> None:
        self._connection.execute("DELETE FROM travel_runs WHERE run = %s", (self.parcel.run,))


def parcels() -> Parcels:
    """Of the database that SHOAL_DATABASE names."""
    return Parcels(database())


def _found(connection: Connection[Any], run: str) -> Parcel | None:
    query = (
        "SELECT r.origin, r.home, coalesce(j.state, ''), coalesce(j.fence, 0), array_agg(f.file), array_agg(f.sha256), "
        "array_agg(f.size) "
        "FROM travel_runs r LEFT JOIN travel_files f USING (run) LEFT JOIN queue_jobs j ON j.id = r.run "
        "WHERE r.run = %s GROUP BY r.origin, r.home, j.state, j.fence"
    )
    row = connection.execute(query, (run,)).fetchone()
    if row is None:
        return None
    files = {name: FileMark(*mark) for name, *mark in zip(*row[4:], strict=True) if name is not None}
    return Parcel(run, row[0], row[1], files, row[2], row[3])


def _is_held(connection: Connection[Any], run: str, fence: int) -> bool:
    """Whether the fence is that of the run's host; until the end of the transaction it stays so."""
    query = "SELECT 1 FROM queue_jobs WHERE id = %s AND fence = %s AND state = %s FOR SHARE"
    return connection.execute(query, (run, fence, RUNNING)).fetchone() is not None


def _send(connection: Connection[Any], files: Mapping[str, Content]) -> dict[str, FileMark]:
    """Contents of large files that the database does not have yet; in one order for all who send."""
    marks = {name: _mark(path) for name, path in files.items()}
    large = {marks[name]: content for name, content in files.items() if not isinstance(content, bytes)}
    for mark, path in sorted(large.items()):
        query = (
            "INSERT INTO travel_contents VALUES (%s, %s) ON CONFLICT (sha256) DO UPDATE SET size = excluded.size "
            "RETURNING xmax = 0"  # one that is there is held until the end: nobody sweeps it meanwhile
        )
        row = connection.execute(query, mark).fetchone()
        if row and row[0]:
            _send_pieces(connection, path, mark)
    return marks


def _mark(content: Content) -> FileMark:
    if isinstance(content, bytes):
        return FileMark(hashlib.sha256(content).hexdigest(), len(content))
    with content.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        return FileMark(found, file.tell())


def _send_pieces(connection: Connection[Any], path: Path, mark: FileMark) -> None:
    found, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        for place, piece in enumerate(iter(lambda: file.read(PIECE), b"")):
            found.update(piece)
            size += len(piece)
            query = "INSERT INTO travel_pieces VALUES (%s, %s, %s)"
            connection.execute(query, (mark.sha256, place, piece), binary=True)
    if (found.hexdigest(), size) != mark:
        raise StateError(f"Expected '{path}' to stay as it is while it is sent to the team's database, but it changed.")


def _note(
    connection: Connection[Any], run: str, files: Mapping[str, Content], marks: Mapping[str, FileMark],
    gone: Iterable[str],
) -> None:  # fmt: skip
    """Which files a run has from now on."""
    if gone := list(gone):
        connection.execute("DELETE FROM travel_files WHERE run = %s AND file = ANY(%s)", (run, gone))
    query = (
        "INSERT INTO travel_files SELECT %s, * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bytea[], "
        "%s::text[]) ON CONFLICT (run, file) DO UPDATE SET sha256 = excluded.sha256, size = excluded.size, "
        "small = excluded.small, large = excluded.large"
    )
    small = [content if isinstance(content, bytes) else None for content in files.values()]
    sums, sizes = [mark.sha256 for mark in marks.values()], [mark.size for mark in marks.values()]
    large = [mark.sha256 if kept is None else None for mark, kept in zip(marks.values(), small, strict=True)]
    connection.execute(query, (run, list(marks), sums, sizes, small, large))


def _pieces(connection: Connection[Any], run: str, file: str) -> Generator[bytes, None, None]:
    query = "SELECT small, large FROM travel_files WHERE run = %s AND file = %s"
    row = connection.execute(query, (run, file)).fetchone()
    if row is None or row[0] is not None:
        yield row[0] if row else b""
        return
    query, place = "SELECT bytes FROM travel_pieces WHERE sha256 = %s AND place = %s", 0
    while found := connection.execute(query, (row[1], place)).fetchone():
        yield found[0]
        place += 1
