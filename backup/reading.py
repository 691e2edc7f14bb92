"""Check a backup, and restore it to where nothing is yet; what is in one is in `contents`."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from shoal.backup.contents import DATABASE, FORMAT, HOME, MANIFEST, Contents, files_at, kept
from shoal.errors import Remedy, StateError
from shoal.home import home, make_folder, restored_path
from shoal.utils import disk_errors

LARGEST_MANIFEST = 256 << 20  # bytes
PIECE = 1 << 20


def check_backup(path: Path) -> Contents:
    """Read it through, and compare every member with its checksum; StateError if anything is not what was written."""
    found: dict[str, tuple[int, str]] = {}
    manifest = b""
    with _in_words(path):
        for name, entry, file in _members(path):
            if name == MANIFEST:
                manifest = file.read(LARGEST_MANIFEST)
            else:
                found[name] = entry.size, hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
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
        for name, made, file in _members(path):
            kind, _, rest = name.partition("/")
            if kind in (HOME, DATABASE):
                _write(restored_path(rest) if kind == HOME else Path(aside) / rest, file, made.mtime)
        if database is not None:
            from shoal.database.copies import TableCopy, read_copy

            for entry in contents.tables:
                copied = TableCopy(entry["name"], tuple(entry["columns"]), entry["rows"])
                read_copy(database, copied, Path(aside) / copied.name)
    forget_connections()
    return contents


def _write(target: Path, file: IO[bytes], changed: float) -> None:
    """With the time of its last change: lists tell by it when a run began."""
    make_folder(target.parent)
    with target.open("xb") as out:
        shutil.copyfileobj(file, out, PIECE)
    os.utime(target, (changed, changed))


def forget_connections() -> None:
    """The database has another name from now on, by which this process does not know it yet."""
    from shoal.database.connections import close_all

    close_all()


def _check_home() -> None:
    there = [path for path in kept() if any(files_at(path))]
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


def _members(path: Path) -> Iterator[tuple[str, tarfile.TarInfo, IO[bytes]]]:
    """In their order; what is packed is proven as a whole when the last one was taken."""
    with gzip.open(path, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for entry in tar:
            file = tar.extractfile(entry) if entry.isreg() else None
            if file is None or not _is_ours(entry.name):
                raise _damaged(path, f"it holds '{entry.name[:80]}'")
            yield entry.name, entry, file
        while stream.read(PIECE):  # the checksum of the whole comes after its end
            pass


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
