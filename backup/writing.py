"""Make a backup, while people work: what is in one is in `contents`."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

from shoal.backup.contents import DATABASE, FORMAT, HOME, MANIFEST, SQLITE, Contents, files_at, kept
from shoal.files.output import Output
from shoal.home import home
from shoal.utils import disk_errors

if TYPE_CHECKING:
    from shoal.database.copies import TableCopy


def write_backup(output: Output, version: str) -> Contents:
    """Everything as it is now; runs may go on meanwhile."""
    writer = _ArchiveWriter(version)
    with contextlib.ExitStack() as opened:
        opened.enter_context(disk_errors("the backup"))
        packed = gzip.GzipFile("", "wb", 1, opened.enter_context(output.open()))
        tar = opened.enter_context(tarfile.open(fileobj=opened.enter_context(packed), mode="w|"))
        aside = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="shoal-backup-")))
        for path in sorted(set(kept())):
            for found in files_at(path):
                writer.add(tar, f"{HOME}/{found.relative_to(home()).as_posix()}", found, aside)
        writer.add_database(tar, aside)
        return writer.finish(tar)


class _ArchiveWriter:
    def __init__(self, version: str) -> None:
        self._version, self._steps = version, 0
        self._members: dict[str, tuple[int, str]] = {}
        self._tables: list[TableCopy] = []

    def add(self, tar: tarfile.TarFile, name: str, path: Path, aside: Path) -> None:
        """One file; one that goes away before it is read is none."""
        with contextlib.suppress(FileNotFoundError), _steady(path, aside) as (file, size):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = size, 0o600, path.stat().st_mtime
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
