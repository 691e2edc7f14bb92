"""A file that holds a table: what it is, its text, and the source that its first bytes tell of.

How text is written is found in `dialects`, one range of it is read in `block_reader`, plug-ins are found in `plugins`.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import itertools
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from shoal import plugins
from shoal.data.dialects import (
    Dialect,
    as_kernel_bytes,
    body,
    column_names,
    offset_of_line,
    split,
    split_with_places,
    too_many_columns,
)
from shoal.data.formats.containers import FAULTS, PACKED, kind_of, unpacked
from shoal.data.formats.encodings import encoding_note
from shoal.data.formats.headers import is_total, joined_names, other_separator, says_total, second_line
from shoal.data.kinds import Layout, guess_kind
from shoal.data.notation.numbers import Notation
from shoal.data.notation.words import per_column
from shoal.data.sniffing import TOO_LONG, detect, is_value, usual_width
from shoal.errors import ConfigError, DataError, TrainingError
from shoal.kernels.csv_kernel import PADDING, ParserState, library
from shoal.settings.limits import MOST_COLUMNS, ROW_BYTES, block_bytes, most_unpacked
from shoal.utils import disk_errors
from shoal.words import file_size, listed, no_such_column

SAMPLE_BYTES = 1 << 20
SAMPLE_LINES = 2  # lines that are looked at at least, however long they are
TAIL_BYTES = 1 << 16
END_BYTES = 1 << 13  # in which the last row is looked for words of totals


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


# Names that are never a plug-in's: their files are known by their first bytes, and nothing has to be searched for.
OWN_SUFFIXES = frozenset(("", ".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".parquet", ".pq"))
PACKED_SUFFIXES = (".gz", ".zip", ".bz2", ".xz", ".zst")
READER_DIALECT = {"encoding": "utf-8", "delimiter": ",", "quote": '"', "escape": "", "decimal": ".", "thousands": "",
                  "comment": "", "newline": "\n", "skip_lines": 0, "header": True}  # fmt: skip


def plugin_reader(path: Path) -> plugins.Plugin | None:
    """The plug-in that reads files with such a name, if one is installed."""
    inner = path.with_suffix("") if path.suffix.lower() in PACKED_SUFFIXES else path
    return None if inner.suffix.lower() in OWN_SUFFIXES else plugins.reader_for(path)


def reader_question(path: Path) -> dict[str, str]:
    """What a file's answer depends on besides its content: the plug-in that reads it, and its version."""
    plugin = plugin_reader(path)
    return {"reader": f"{plugin.origin}: {plugin.name}"} if plugin else {}


class PluginText(io.RawIOBase):
    """The text that a plug-in's reader makes of a file, as a file; what goes wrong in it is said to be its doing."""

    def __init__(self, plugin: plugins.Plugin, path: Path) -> None:
        self.plugin, self.path = plugin, path
        self.pieces: Iterator[bytes] | None = None
        self.rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any, /) -> int:
        while not self.rest:
            piece = self._next()
            if piece is None:
                return 0
            self.rest = memoryview(piece)
        count = min(len(target), len(self.rest))
        target[:count], self.rest = self.rest[:count], self.rest[count:]
        return count

    def _next(self) -> bytes | None:
        try:
            if self.pieces is None:
                self.pieces = iter(self.plugin.value.text(self.path))
            piece = next(self.pieces, None)
        except TrainingError:
            raise
        except Exception as error:
            raise DataError(
                f"'{self.path.name}' could not be read by the plug-in {self.plugin.origin} "
                f"({type(error).__name__}: {error}). Check the file, or tell the authors of the plug-in."
            ) from error
        if piece is not None and not isinstance(piece, bytes):
            raise ConfigError(
                f"Expected bytes from the reader '{self.plugin.name}' of the plug-in {self.plugin.origin}, "
                f"got {type(piece).__name__}. Install a version that fits, or uninstall it."
            )
        return piece

    def close(self) -> None:
        if isinstance(self.pieces, Generator):
            self.pieces.close()  # one that was left early lets go of its file
        super().close()


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
    if found not in ("csv", "parquet", *PACKED):
        raise DataError(f"Expected a CSV or Parquet file, got {found}. Save or unpack it as CSV and try again.")
    return found


def read_sample(path: Path) -> tuple[bytes, bool]:
    """The first bytes of a file, unpacked, and whether that is all of it."""
    try:
        with open_plain(path) as file:
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
def open_plain(path: Path) -> Iterator[IO[bytes]]:
    """The text in the file, unpacked or made by a plug-in if need be."""
    if (plugin := plugin_reader(path)) is not None:
        with io.BufferedReader(PluginText(plugin, path)) as made:
            yield made
        return
    with path.open("rb") as raw:
        kind = file_format(path)
        yield unpacked(raw, kind, path.name) if kind in PACKED else raw


def spool(path: Path, dialect: Dialect, target: Path, progress: Callable[[float], None]) -> None:
    """Write the text of a packed or many-byte file, or a plug-in's, as plain bytes that can be read at any place."""
    if file_format(path) == "plugin":
        with disk_errors(), open_plain(path) as made, target.open("wb") as out:
            shutil.copyfileobj(made, out, 1 << 20)
        return
    size = max(1, path.stat().st_size)
    try:
        with disk_errors(), path.open("rb") as raw, target.open("wb") as out:
            kind = file_format(path)
            plain = unpacked(raw, kind, path.name) if kind in PACKED else raw
            for piece in _pieces(plain, dialect.encoding if dialect.rewrites else None):
                if out.tell() + len(piece) > most_unpacked(size):
                    raise DataError(_grows(path, size))
                out.write(piece)
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


def _grows(path: Path, size: int) -> str:
    return (
        f"Expected '{path.name}', which has {file_size(size)}, to unpack to {file_size(most_unpacked(size))} at most, "
        "but it goes on. A table seldom does; if this is one, unpack it and use the plain file."
    )


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
        step = block_bytes(len(self.layout.numbers))
        edges = [*range(self.data_start, max(self.size, self.data_start + 1), step), self.size]
        return list(itertools.pairwise(edges))


def inspect_text(
    path: Path, overrides: Mapping[str, Any], categorical: Sequence[str], numeric: Sequence[str]
) -> Source:
    """Find out from the first bytes how the file is written and what its columns seem to hold."""
    if file_format(path) == "plugin":  # how its text is written is agreed on; only what is missing is the file's own
        overrides = {name: overrides.get(name) for name in ("missing", "also_missing")} | READER_DIALECT
    raw, at_end = read_sample(path)
    dialect = detect(raw, at_end, overrides)
    text = as_kernel_bytes(raw, dialect.encoding, at_end)
    mark = len(raw) - len(text) if not dialect.rewrites else 0
    table = split(body(text, dialect), dialect, at_end)
    notes = [] if overrides.get("encoding") or dialect.encoding.startswith("utf") else [encoding_note(dialect.encoding)]
    if not table:
        raise DataError("Expected a table, got only comments or empty lines. Choose a file with rows.")
    width = usual_width(table)
    if width > MOST_COLUMNS:
        raise DataError(too_many_columns(width))
    heading = Heading.of(table, width, dialect, overrides.get("header") is not None)
    rows = [row for row in table[heading.rows :] if len(row) == width]
    last_is_empty = all(not row[-1] for row in rows)
    names, named = column_names(heading.names, width, dialect.header, last_is_empty)
    notes += [*heading.notes, *named]
    if width == 1 and "delimiter" not in overrides:
        notes += one_column_notes([row[0] for row in table])
    if dialect.skip_lines and overrides.get("skip_lines") is None:
        what = "line is above the table and is" if dialect.skip_lines == 1 else "lines are above the table and are"
        notes.append(f"The first {'' if dialect.skip_lines == 1 else f'{dialect.skip_lines} '}{what} skipped.")
    if not at_end and len(table) < 2:
        raise DataError(TOO_LONG)
    sure = overrides.get("decimal") is not None
    guesses = [
        guess_kind(name, [r[j] for r in rows], dialect, categorical, numeric, sure) for j, name in enumerate(names)
    ]
    notations = {j: guess.notation for j, guess in enumerate(guesses) if guess.notation is not None}
    notes += notation_notes({names[j]: notation for j, notation in notations.items()})
    for name in (*categorical, *numeric):
        if name not in names:
            raise ConfigError(no_such_column(name, names))
    skip = dialect.skip_lines
    start = offset_of_line(text, skip, dialect.newline)
    for _ in range(heading.rows):
        start, lines = _end_of_first_row(text, start, dialect)
        skip += lines
    absent, _ = per_column(overrides.get("also_missing") or (), names)
    missing = tuple(token for token in dialect.missing if not per_column((token,), names)[0])
    dialect = replace(dialect, missing=missing)
    fixed = frozenset(i for i, name in enumerate(names) if name in numeric)
    layout = Layout(tuple(names), tuple(g.kind for g in guesses), tuple(g.order for g in guesses), fixed, notations,
                    {names.index(name): texts for name, texts in absent.items()})  # fmt: skip
    return Source(str(path), path.stat().st_size, dialect, layout, start + mark, skip + 1, tuple(notes))


@dataclass(frozen=True)
class Heading:
    """How many rows above the data name the columns, the names, and what is to be said about that."""

    rows: int
    names: Sequence[str]
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, table: Sequence[Sequence[str]], width: int, dialect: Dialect, given: bool) -> Heading:
        first = table[0]
        if not dialect.header:
            said = "No row names the columns: the first one is read as data, and columns are called 0, 1, ... "
            return cls(0, first, [] if given else [f"{said}If it has their names, say so (header)."])
        if len(first) != width and (mended := _without_stray_quote(first, width, dialect)):
            note = "A quote in the header is never closed; it is read without it."
            return cls(1, mended, [note])
        rows = [row for row in table[1:] if len(row) == width]
        if not given and second_line(first, rows, is_value, dialect.missing):
            shown = listed([cell for cell in rows[0] if cell], 4)
            note = f"The row below the names ({shown}) is read as a second line of them or their units, not as data."
            return cls(2, joined_names(first, rows[0]), [note])
        numbers = [cell for cell in first if is_value(cell)]
        if not given and rows and 2 * len(numbers) >= len(first):
            note = f"The first row is taken for names of columns although it has numbers ({listed(numbers, 3)}). "
            return cls(1, first, [f"{note}If it is data, say so (no header)."])
        return cls(1, first)


def _without_stray_quote(first: Sequence[str], width: int, dialect: Dialect) -> list[str] | None:
    """The cells of a header in which a quote is opened and never closed."""
    if not dialect.quote or not any(cell.count(dialect.quote) % 2 for cell in first):
        return None
    line = dialect.delimiter.join(first).replace(dialect.quote, "").encode(dialect.text_encoding, "replace")
    cells = split(line, dialect, at_end=True)[0]
    return cells if len(cells) == width else None


def one_column_notes(lines: Sequence[str]) -> list[str]:
    """What to say of a table of one column whose lines look like fields with something else between them."""
    mark = other_separator(lines)
    return [f"The file is read as one column. If {mark!r} is between its fields, say so (delimiter)."] if mark else []


def without_totals(source: Source) -> Source:
    """The same without the last row if that has totals, which is said; `source` can be read at any byte."""
    with open(source.path, "rb") as file:
        first = max(source.data_start, source.size - TAIL_BYTES)
        file.seek(first)
        text = file.read(source.size - first)
    if not says_total(text[-END_BYTES:].decode(source.dialect.text_encoding, "replace")):
        return source  # most files: no row of them has to be taken apart
    if first > source.data_start:
        first, text = first + text.find(b"\n") + 1, text[text.find(b"\n") + 1 :]
    rows = [r for r in split_with_places(text, source.dialect, True, None) if len(r) == len(source.layout.names)]
    cells = [[cell for cell, _ in row] for row in rows]
    if len(rows) < 3 or not (word := is_total(cells[-1], cells[:-1])):
        return source
    place = text.rfind(source.dialect.newline.encode(), 0, rows[-1][0][1]) + 1
    note = f"The last row begins with '{word}': it is taken for totals and left out."
    return replace(source, size=first + place, notes=(*source.notes, note))


def notation_notes(notations: Mapping[str, Notation]) -> list[str]:
    """Which columns are read as numbers for all their marks; those that are written alike in one sentence."""
    alike: dict[str, list[str]] = {}
    for name, notation in notations.items():
        alike.setdefault(notation.example, []).append(f"'{name}'")
    return [
        f"Column {names[0]} holds numbers written like {example}." if len(names) == 1
        else f"Columns {listed(names)} hold numbers written like {example}."
        for example, names in alike.items()
    ]  # fmt: skip


def _end_of_first_row(text: bytes, start: int, dialect: Dialect) -> tuple[int, int]:
    """Where the row after the header begins, and how many lines that is further down."""
    buffer = _padded(text, dialect)
    kind = np.zeros(1, np.int32)
    parser = ParserState(buffer=buffer.ctypes.data, length=len(text), at_end=1, position=start, stop=len(text),
                    marks=dialect.marks(), columns=1, kind=kind.ctypes.data, row_room=1)  # fmt: skip
    library().parse(ctypes.byref(parser))
    return min(parser.position, len(text)), parser.lines


def _padded(text: bytes, dialect: Dialect) -> npt.NDArray[np.uint8]:
    buffer = np.zeros(len(text) + PADDING, np.uint8)
    buffer[: len(text)] = np.frombuffer(text, np.uint8)
    buffer[len(text)] = ord(dialect.newline)
    return buffer
