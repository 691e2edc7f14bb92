"""A file that holds a table: what it is, its text, and the source that its first bytes tell of.

How text is written is found in `dialects`, one range of it is read in `block_reader`, plug-ins are found in `plugins`.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from shoal.data.dialects import (
    Dialect,
)
from shoal.data.formats.containers import FAULTS, PACKED, kind_of, unpacked
from shoal.data.formats.plugin_text import PluginText, plugin_reader
from shoal.data.formats.workbooks import is_workbook, sheet_text
from shoal.data.kinds import Layout
from shoal.errors import DataError
from shoal.lazy.classes import dataclass
from shoal.settings.limits import ROW_BYTES, block_bytes, most_block_bytes, most_unpacked
from shoal.utils import disk_errors
from shoal.words import file_size

SAMPLE_BYTES = 1 << 20
SAMPLE_LINES = 2  # lines that are looked at at least, however long they are


# ------------------------------------------------------------------ where the bytes are


@dataclass(frozen=True)
class Identity:
    """What the operating system says about a file; it differs after any change of the content."""

    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Identity:
        try:
            s = path.stat()
        except OSError as error:
            raise DataError(f"Expected a file at '{path}', got: {error.strerror}. Check the path.") from None
        if not path.is_file():
            raise DataError(f"Expected a file at '{path}', got a folder or device. Choose a CSV or Parquet file.")
        return cls(s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)


def file_format(path: Path) -> str:
    """plugin by the name; csv, parquet or how it is packed by the first bytes; other known formats are refused."""
    if plugin_reader(path) is not None:
        return "plugin"
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise DataError(f"'{path.name}' could not be read: {error.strerror}. Check its permissions.") from None
    found = kind_of(head)
    if found == "zip" and is_workbook(path):
        return "workbook"
    if found not in ("csv", "parquet", *PACKED):
        raise DataError(f"Expected a CSV, Excel or Parquet file, got {found}. Save or unpack it as CSV and try again.")
    return found


def read_sample(path: Path, sheet: str = "") -> tuple[bytes, bool]:
    """The first bytes of a file, unpacked, and whether that is all of it."""
    try:
        with open_plain(path, sheet) as file:
            sample = file.read(SAMPLE_BYTES)
            while _ends(sample) < SAMPLE_LINES and len(sample) < SAMPLE_LINES * ROW_BYTES:
                if not (more := file.read(len(sample))):
                    break
                sample += more  # names and values of very many columns
            return sample, not file.read(1)
    except FAULTS as error:
        raise DataError(f"'{path.name}' could not be read: {error}. Check the file and its permissions.") from None


def _ends(sample: bytes) -> int:
    return max(sample.count(b"\n"), sample.count(b"\r"))


@contextlib.contextmanager
def open_plain(path: Path, sheet: str = "") -> Iterator[IO[bytes]]:
    """The text in the file, unpacked or made of a sheet or by a plug-in if need be."""
    if (plugin := plugin_reader(path)) is not None:
        with io.BufferedReader(PluginText(plugin, path)) as made:
            yield made
        return
    kind = file_format(path)
    if kind == "workbook":
        with sheet_text(path, sheet) as made:
            yield made
        return
    with path.open("rb") as raw:
        yield unpacked(raw, kind, path.name) if kind in PACKED else raw


def spool(path: Path, dialect: Dialect, target: Path, progress: Callable[[float], None]) -> None:
    """Write the text of a packed or many-byte file, a sheet or a plug-in's, as bytes that can be read at any place."""
    kind, size = file_format(path), max(1, path.stat().st_size)
    if kind in ("plugin", "workbook"):
        with disk_errors(), open_plain(path, dialect.sheet) as made, target.open("wb") as out:
            if kind == "plugin":
                shutil.copyfileobj(made, out, 1 << 20)
                return
            for piece in _pieces(made, None):
                _write(piece, out, path, size)
        return
    try:
        with disk_errors(), path.open("rb") as raw, target.open("wb") as out:
            plain = unpacked(raw, kind, path.name) if kind in PACKED else raw
            for piece in _pieces(plain, dialect.encoding if dialect.rewrites else None):
                _write(piece, out, path, size)
                progress(raw.tell() / size)
    except FAULTS as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"'{path.name}' could not be unpacked: {error}. The file is damaged; fetch it again.") from None


def _pieces(plain: IO[bytes], encoding: str | None) -> Iterator[bytes]:
    """The bytes as they are, or the text of another encoding as UTF-8."""
    if encoding is None:
        while chunk := plain.read(1 << 20):
            yield chunk
        return
    text = io.TextIOWrapper(plain, encoding=encoding, errors="replace", newline="")
    try:
        while piece := text.read(1 << 20):
            yield piece.encode()
    finally:
        text.detach()  # the file is closed by whoever opened it


def _write(piece: bytes, out: IO[bytes], path: Path, size: int) -> None:
    if out.tell() + len(piece) > most_unpacked(size):
        raise DataError(
            f"Expected '{path.name}', which has {file_size(size)}, to unpack to {file_size(most_unpacked(size))} at "
            "most, but it goes on. A table seldom does; if this is one, unpack it or save it as CSV, and use that."
        )
    out.write(piece)


# ------------------------------------------------------------------ what its first bytes tell


@dataclass(frozen=True)
class Source:
    """A text table that can be read at any byte: its dialect, columns and where its rows begin."""

    path: str
    size: int
    dialect: Dialect
    layout: Layout
    data_start: int
    first_line: int  # of the data, counted from 1
    notes: tuple[str, ...] = ()

    def ranges(self) -> list[tuple[int, int]]:
        """Byte ranges of one block each; they depend on the file only, never on the number of workers."""
        numbers = len(self.layout.numbers)
        step = min(block_bytes(numbers), most_block_bytes(numbers, self.size))
        edges = [*range(self.data_start, max(self.size, self.data_start + 1), step), self.size]
        return list(itertools.pairwise(edges))
