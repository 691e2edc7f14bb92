"""A backup: all that people made under SHOAL_HOME, and the tables of the team's database, in one file; and back.

    home/...            files below SHOAL_HOME; of SQLite files a copy as of one moment, although others write to them
    database/TABLE      tables, if there is a database, all as of one moment
    manifest.json       last: the version, what there is, and a checksum of each; a file that was cut short has none

Left out is what can be made again or belongs to one machine and moment: read tables, jobs, locks, logs, open sessions.
A backup is proven as a whole before anything of it is written, and is written only to where nothing is yet.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from shoal.errors import Remedy, StateError
from shoal.files.output import Output
from shoal.home import (
    archive_directory,
    home,
    make_folder,
    models_directory,
    modules_directory,
    password_file,
    people_file,
    recent_tables_file,
    restored_path,
    run_columns_path,
    runs_directory,
    searches_directory,
    table_choices_file,
    tokens_file,
    uploads_directory,
)
from shoal.utils import disk_errors

if TYPE_CHECKING:
    from shoal.database.copies import TableCopy

FORMAT = 1
MANIFEST, HOME, DATABASE = "manifest.json", "home", "database"
SQLITE, BESIDE = ".sqlite", ("-wal", "-shm", "-journal")
FLEETING = (".lock", ".tmp", *(SQLITE + end for end in BESIDE))  # ends of names of what belongs to a moment
LARGEST_MANIFEST = 256 << 20  # bytes
PIECE = 1 << 20


@dataclass(frozen=True)
class Contents:
    """What a backup holds: its members with size and checksum, and how its tables are to be read."""

    shoal: str
    made: float  # seconds since 1970
    members: dict[str, tuple[int, str]]
    steps: int = 0  # of the database; 0 without one
    tables: tuple[dict[str, Any], ...] = ()

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.members.values())


def _kept() -> list[Path]:
    """Folders and files of people."""
    return [
        runs_directory(), searches_directory(), models_directory(), modules_directory(), archive_directory(),
        uploads_directory(), table_choices_file("x").parent, password_file(), tokens_file(), people_file(),
        recent_tables_file(), run_columns_path(),
    ]  # fmt: skip


# ------------------------------------------------------------------ make one


def write_backup(output: Output, version: str) -> Contents:
    """Everything as it is now; runs may go on meanwhile."""
    writer = _Writer(version)
    with contextlib.ExitStack() as opened:
        opened.enter_context(disk_errors("the backup"))
        packed = gzip.GzipFile("", "wb", 1, opened.enter_context(output.open()))
        tar = opened.enter_context(tarfile.open(fileobj=opened.enter_context(packed), mode="w|"))
        aside = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="shoal-backup-")))
        for path in sorted(set(_kept())):
            for found in _files(path):
                writer.add(tar, f"{HOME}/{found.relative_to(home()).as_posix()}", found, aside)
        writer.add_database(tar, aside)
        return writer.finish(tar)


class _Writer:
    def __init__(self, version: str) -> None:
        self._version, self._steps = version, 0
        self._members: dict[str, tuple[int, str]] = {}
        self._tables: list[TableCopy] = []

    def add(self, tar: tarfile.TarFile, name: str, path: Path, aside: Path) -> None:
        """One file; one that goes away before it is read is none."""
        with contextlib.suppress(FileNotFoundError), _steady(path, aside) as (file, size):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = size, 0o600, int(path.stat().st_mtime)
            counted = _Summed(file, size)
            tar.addfile(entry, counted)
            self._members[name] = size, counted.sum.hexdigest()

    def add_database(self, tar: tarfile.TarFile, aside: Path) -> None:
        from shoal.database.address import is_set

        if not is_set():
            return
        from shoal.database.connections import database
        from shoal.database.copies import write_copies
        from shoal.database.migrations import steps

        self._steps = len(steps())
        with database().transaction() as connection:
            for copied, path in write_copies(connection, aside):
                self._tables.append(copied)
                self.add(tar, f"{DATABASE}/{copied.name}", path, aside)
                path.unlink()

    def finish(self, tar: tarfile.TarFile) -> Contents:
        tables = tuple(asdict(copied) for copied in self._tables)
        contents = Contents(self._version, time.time(), self._members, self._steps, tables)
        data = json.dumps({"format": FORMAT, **asdict(contents)}).encode()
        entry = tarfile.TarInfo(MANIFEST)
        entry.size, entry.mode, entry.mtime = len(data), 0o600, int(contents.made)
        tar.addfile(entry, io.BytesIO(data))
        return contents


def _files(path: Path) -> Iterator[Path]:
    """Plain files at a path or below it; links lead elsewhere and stay out."""
    if path.is_symlink() or not path.exists():
        return
    if path.is_file():
        yield path
        return
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            found = Path(folder) / name
            if found.is_file() and not found.is_symlink() and name != "lock" and not name.endswith(FLEETING):
                yield found


@contextlib.contextmanager
def _steady(path: Path, aside: Path) -> Iterator[tuple[IO[bytes], int]]:
    """A file that does not change while it is read: of a store its copy, of a log what it has now."""
    if path.suffix == SQLITE:
        copy = aside / "store.sqlite"
        copy.unlink(missing_ok=True)
        with contextlib.suppress(sqlite3.DatabaseError):  # a damaged one is kept as it is
            with (
                contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source,
                contextlib.closing(sqlite3.connect(copy)) as target,
            ):
                source.backup(target)
            path = copy
    with path.open("rb") as file:
        yield file, os.fstat(file.fileno()).st_size


class _Summed:
    """A file as it is read, to its length at the beginning."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left, self.sum = file, size, hashlib.sha256()

    def read(self, count: int = -1) -> bytes:
        data = self._file.read(min(self._left, count) if count >= 0 else self._left)
        if not data and self._left:  # it was cut short meanwhile: what is missing is zeros, and the checksum says so
            data = bytes(min(self._left, count) if count >= 0 else self._left)
        self._left -= len(data)
        self.sum.update(data)
        return data


# ------------------------------------------------------------------ read one


def check_backup(path: Path) -> Contents:
    """Read it through, and compare every member with its checksum; StateError if anything is not what was written."""
    found: dict[str, tuple[int, str]] = {}
    manifest = b""
    with _in_words(path):
        for name, size, file in _members(path):
            if name == MANIFEST:
                manifest = file.read(LARGEST_MANIFEST)
            else:
                found[name] = size, hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    contents = _contents(path, manifest)
    if found != contents.members:
        wrong = sorted(
            name for name in found.keys() | contents.members.keys() if found.get(name) != contents.members.get(name)
        )
        raise _damaged(path, f"'{wrong[0]}' is not what was written")
    return contents


def restore_backup(path: Path) -> Contents:
    """Write a whole backup to an empty SHOAL_HOME and an empty database."""
    contents = check_backup(path)
    _check_home()
    with _database_for(contents) as database, disk_errors("what is restored"), tempfile.TemporaryDirectory() as aside:
        make_folder(home())
        for name, _, file in _members(path):
            kind, _, rest = name.partition("/")
            if kind == HOME:
                _write(restored_path(rest), file)
            elif kind == DATABASE:
                _write(Path(aside) / rest, file)
        if database is not None:
            from shoal.database.copies import TableCopy, read_copy

            for entry in contents.tables:
                copied = TableCopy(entry["name"], tuple(entry["columns"]), entry["rows"])
                read_copy(database, copied, Path(aside) / copied.name)
    return contents


def _write(target: Path, file: IO[bytes]) -> None:
    make_folder(target.parent)
    with target.open("xb") as out:
        shutil.copyfileobj(file, out, PIECE)


def _check_home() -> None:
    there = [path for path in _kept() if any(_files(path))]
    if there:
        raise StateError(
            f"Expected a SHOAL_HOME with nothing in it to restore to, found '{there[0]}'. Nothing was changed. Name "
            "another folder with --home, or move this one away."
        )


@contextlib.contextmanager
def _database_for(contents: Contents) -> Iterator[Any]:
    """A connection to the database that the tables go to, in one transaction; None if the backup has no tables."""
    from shoal.database.address import VARIABLE, is_set

    if not contents.steps:
        yield None
        return
    if not is_set():
        raise StateError(
            f"The backup holds the tables of a database. Name an empty one in {VARIABLE}, and restore again."
        )
    from shoal.database.connections import database
    from shoal.database.copies import filled_tables
    from shoal.database.migrations import steps, upgrade

    if contents.steps != len(steps()):
        raise StateError(
            f"The backup was made by Shoal {contents.shoal}, whose database has {contents.steps} steps; this one has "
            f"{len(steps())}. Restore it with that version, then update.", Remedy.run("Afterwards", "db", "upgrade")
        )  # fmt: skip
    with database().connection(checked=False) as connection:
        upgrade(connection)
    with database().transaction() as connection:
        if filled := filled_tables(connection):
            raise StateError(
                f"Expected an empty database to restore to, found rows in '{filled[0]}'. Nothing was changed."
            )
        yield connection


def _members(path: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """In their order."""
    with path.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|gz") as tar:
        for entry in tar:
            file = tar.extractfile(entry) if entry.isreg() else None
            if file is None or not _is_ours(entry.name):
                raise _damaged(path, f"it holds '{entry.name[:80]}'")
            yield entry.name, entry.size, file


@contextlib.contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """StateError where the file is none of ours or was cut short."""
    try:
        yield
    except FileNotFoundError:
        raise StateError(f"Expected a backup in '{path}', but there is no such file.") from None
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise _damaged(path, "it cannot be unpacked to its end") from error


def _is_ours(name: str) -> bool:
    """No name leads out of the folder that it is written to."""
    parts = PurePosixPath(name).parts
    return name == MANIFEST or (len(parts) > 1 and parts[0] in (HOME, DATABASE) and not {"..", "/", "."} & set(parts))


def _contents(path: Path, manifest: bytes) -> Contents:
    if not manifest:
        raise _damaged(path, "its end is missing")
    try:
        found: Mapping[str, Any] = json.loads(manifest)
        if found["format"] != FORMAT:
            raise StateError(f"The backup '{path}' is of format {found['format']}, expected {FORMAT}. Update Shoal.")
        members = {str(name): (int(size), str(digest)) for name, (size, digest) in found["members"].items()}
        return Contents(str(found["shoal"]), float(found["made"]), members, int(found["steps"]), tuple(found["tables"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, "its list of contents cannot be read") from error


def _damaged(path: Path, why: str) -> StateError:
    return StateError(
        f"Expected a whole backup in '{path}', but it is damaged or something else ({why}). Nothing was changed."
    )
