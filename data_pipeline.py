"""From a file to a table of blocks (where rows begin, what columns hold) and from blocks to batches of rows.

What does not belong here: guessing the dialect (dialects), reading one block (block_reader), keeping blocks on disk
(datasets), turning columns into a design matrix (design), finding plug-ins (plugins), and giving ranges to workers
(coordinator).
"""

from __future__ import annotations

import ctypes
import gzip
import io
import itertools
import math
import queue
import re
import shutil
import threading
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from shoal import plugins
from shoal.data.dialects import Dialect, as_kernel_bytes, body, column_names, offset_of_line, split
from shoal.data.sniffing import detect, usual_width
from shoal.errors import ConfigError, DataError, TrainingError
from shoal.kernels.csv_kernel import PADDING, DateOrder, Kind, Parser, library
from shoal.models import Array
from shoal.settings.limits import block_bytes
from shoal.utils import disk_errors
from shoal.words import no_such_column

SAMPLE_BYTES = 1 << 20
ODD_SHARE = 0.05  # a column with more values than this that are not of its kind is of another kind

Scratch = Callable[[str, int], npt.NDArray[np.uint8]]


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


MAGIC = {
    b"\x1f\x8b": "gzip",
    b"PAR1": "parquet",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"%PDF": "a PDF document",
}


# Names that are never a plug-in's: their files are known by their first bytes, and nothing has to be searched for.
OWN_SUFFIXES = frozenset(("", ".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".parquet", ".pq"))
READER_DIALECT = {"encoding": "utf-8", "delimiter": ",", "quote": '"', "escape": "", "decimal": ".", "thousands": "",
                  "comment": "", "newline": "\n", "skip_lines": 0, "header": True}  # fmt: skip


def plugin_reader(path: Path) -> plugins.Plugin | None:
    """The plug-in that reads files with such a name, if one is installed."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
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
    """plugin by the name; csv, gzip or parquet by the first bytes; other well-known formats are refused by name."""
    if plugin_reader(path) is not None:
        return "plugin"
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise DataError(f"'{path.name}' could not be read: {error.strerror}. Check its permissions.") from None
    found = next((name for magic, name in MAGIC.items() if head.startswith(magic)), "csv")
    if found not in ("csv", "gzip", "parquet"):
        raise DataError(f"Expected a CSV or Parquet file, got {found}. Save or unpack it as CSV and try again.")
    return found


def read_sample(path: Path) -> tuple[bytes, bool]:
    """The first bytes of a file, unpacked, and whether that is all of it."""
    try:
        with open_plain(path) as file:
            sample = file.read(SAMPLE_BYTES)
            return sample, not file.read(1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"'{path.name}' could not be read: {error}. Check the file and its permissions.") from None


def open_plain(path: Path) -> IO[bytes]:
    """The text in the file, unpacked or made by a plug-in if need be."""
    if (plugin := plugin_reader(path)) is not None:
        return io.BufferedReader(PluginText(plugin, path))
    if file_format(path) == "gzip":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def spool(path: Path, dialect: Dialect, target: Path, progress: Callable[[float], None]) -> None:
    """Write the text of a packed or many-byte file, or a plug-in's, as plain bytes that can be read at any place."""
    if file_format(path) == "plugin":
        with disk_errors(), open_plain(path) as made, target.open("wb") as out:
            shutil.copyfileobj(made, out, 1 << 20)
        return
    size = max(1, path.stat().st_size)
    encoding = dialect.encoding if dialect.rewrites else None
    try:
        with disk_errors(), path.open("rb") as raw, target.open("wb") as out:
            plain: IO[bytes] = gzip.GzipFile(fileobj=raw) if file_format(path) == "gzip" else raw  # type: ignore[assignment]
            if encoding is None:
                while chunk := plain.read(1 << 20):
                    out.write(chunk)
                    progress(raw.tell() / size)
                return
            text = io.TextIOWrapper(plain, encoding=encoding, errors="replace", newline="")
            while piece := text.read(1 << 20):
                out.write(piece.encode())
                progress(raw.tell() / size)
    except (EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"'{path.name}' could not be unpacked: {error}. The file is damaged; fetch it again.") from None


# ------------------------------------------------------------------ what the columns hold


@dataclass(frozen=True)
class Layout:
    """The columns in file order: their names, how their fields are read, and how dates are written."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    orders: tuple[int, ...]
    fixed: frozenset[int] = frozenset()  # columns whose kind was given: a value of another kind is a bad row

    @property
    def numbers(self) -> list[int]:
        """Columns that become doubles: numbers and dates."""
        return [i for i, kind in enumerate(self.kinds) if kind in (Kind.NUMBER, Kind.DATE)]

    @property
    def levels(self) -> list[int]:
        return [i for i, kind in enumerate(self.kinds) if kind == Kind.LEVEL]

    def slots(self) -> npt.NDArray[np.int32]:
        """A column's place among those of its sort."""
        slots = np.zeros(len(self.kinds), np.int32)
        for group in (self.numbers, self.levels):
            slots[group] = np.arange(len(group))
        return slots

    def with_levels(self, columns: Sequence[int]) -> Layout:
        """The same, with these columns read as texts after all."""
        kinds = tuple(Kind.LEVEL if i in columns else kind for i, kind in enumerate(self.kinds))
        return replace(self, kinds=kinds)


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
        overrides = {"missing": overrides.get("missing"), **READER_DIALECT}
    raw, at_end = read_sample(path)
    dialect = detect(raw, at_end, overrides)
    text = as_kernel_bytes(raw, dialect.encoding, at_end)
    mark = len(raw) - len(text) if not dialect.rewrites else 0
    table = split(body(text, dialect), dialect, at_end)
    if not table:
        raise DataError("Expected a table, got only comments or empty lines. Choose a file with rows.")
    width = usual_width(table)
    rows = [row for row in table[dialect.header :] if len(row) == width]
    last_is_empty = all(not row[-1] for row in rows)
    names, notes = column_names(table[0], width, dialect.header, last_is_empty)
    if dialect.skip_lines and "skip_lines" not in overrides:
        notes.append(f"The first {dialect.skip_lines} lines stand above the table and are passed over.")
    if not at_end and len(table) < 2:
        raise DataError("Expected rows of text, got a first line longer than 1 MB. Check the delimiter and line ends.")
    kinds, orders = zip(
        *(_guess(name, [r[j] for r in rows], dialect, categorical, numeric) for j, name in enumerate(names)),
        strict=True,
    )
    for name in (*categorical, *numeric):
        if name not in names:
            raise ConfigError(no_such_column(name, names))
    skip = dialect.skip_lines
    start = offset_of_line(text, skip, dialect.newline)
    if dialect.header:
        start, lines = _end_of_first_row(text, start, dialect)
        skip += lines
    fixed = frozenset(i for i, name in enumerate(names) if name in numeric)
    return Source(str(path), path.stat().st_size, dialect, Layout(tuple(names), tuple(kinds), tuple(orders), fixed),
                  start + mark, skip + 1, tuple(notes))  # fmt: skip


def _end_of_first_row(text: bytes, start: int, dialect: Dialect) -> tuple[int, int]:
    """Where the row after the header begins, and how many lines that is further down."""
    buffer = _padded(text, dialect)
    kind = np.zeros(1, np.int32)
    parser = Parser(buffer=buffer.ctypes.data, length=len(text), at_end=1, position=start, stop=len(text),
                    marks=dialect.marks(), columns=1, kind=kind.ctypes.data, row_room=1)  # fmt: skip
    library().parse(ctypes.byref(parser))
    return min(parser.position, len(text)), parser.lines


def _padded(text: bytes, dialect: Dialect) -> npt.NDArray[np.uint8]:
    buffer = np.zeros(len(text) + PADDING, np.uint8)
    buffer[: len(text)] = np.frombuffer(text, np.uint8)
    buffer[len(text)] = ord(dialect.newline)
    return buffer


def _guess(
    name: str, cells: Sequence[str], dialect: Dialect, categorical: Sequence[str], numeric: Sequence[str]
) -> tuple[Kind, int]:
    """The kind that (nearly) all cells of a sample have; a column without cells is one of numbers."""
    present = [cell for cell in cells if cell not in dialect.missing]
    if name in categorical:
        return Kind.LEVEL, 0
    numbers = sum(number_of(cell, dialect) is not None for cell in present)
    if numbers == len(present) or (numbers >= 20 and numbers >= (1 - ODD_SHARE) * len(present)):
        return Kind.NUMBER, 0
    for order in DateOrder:
        dates = sum(is_date(cell, order) for cell in present)
        if dates == len(present) or (dates >= 20 and dates >= (1 - ODD_SHARE) * len(present)):
            return Kind.DATE, order
    return (Kind.NUMBER if name in numeric else Kind.LEVEL), 0


def number_of(text: str, dialect: Dialect) -> float | None:
    """The general reader of numbers: any length, any size; None for what is not a finite number."""
    text = text.strip()
    if dialect.thousands:
        mark = re.escape(dialect.thousands)
        if re.match(rf"[+-]?\d{{1,3}}({mark}\d{{3}})+(?!\d|{mark})", text):
            text = text.replace(dialect.thousands, "")
    if dialect.decimal != ".":
        if "." in text:
            return None
        text = text.replace(dialect.decimal, ".")
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def is_date(text: str, order: int) -> bool:
    raw = text.encode()
    return bool(library().date_of(raw, len(raw), order, ctypes.byref(ctypes.c_double())))


# ------------------------------------------------------------------ rows in batches

T = TypeVar("T")


class Rows(Protocol):
    """Anything that has rows in blocks: a design over a data set, or arrays."""

    def block_sizes(self) -> Sequence[int]: ...
    def rows(self, block: int) -> tuple[Array, Array]: ...


def prefetched(items: Iterator[T], depth: int) -> Iterator[T]:
    """The same items, made up to `depth` ahead by a thread; leaving early stops it."""
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(maxsize=max(1, depth))
    stop = threading.Event()

    def put(item: tuple[bool, Any]) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put((True, item)):
                    return
            put((False, None))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the items are used
            put((False, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            more, item = ready.get()
            if not more:
                if item is not None:
                    raise item
                return
            yield item
    finally:
        stop.set()
        thread.join()


def batches(
    table: Rows, batch_size: int, seed: int, epoch: int = 0, mixed_blocks: int = 8, prefetch: int = 2
) -> Iterator[tuple[Array, Array]]:
    """All rows once, in batches that depend on (seed, epoch) only.

    Rows are drawn from `mixed_blocks` blocks of all parts of the file at a time, so that a file sorted by
    its target gives batches nearly as varied as a shuffled one, with only that many blocks in memory.
    """
    if batch_size < 1:
        raise ConfigError(f"Expected a batch size of at least 1, got {batch_size}.")
    return prefetched(_batches(table, batch_size, np.random.default_rng((seed, epoch)), mixed_blocks), prefetch)


def _groups(blocks: int, most: int, random: np.random.Generator) -> list[list[int]]:
    """Blocks in groups of at most so many, each with one from every part of the file: of a sorted file, each group
    then has nearly the mean of the whole, which groups drawn at random do not have."""
    count = -(-blocks // most)
    grid = np.full(-(-blocks // max(1, count)) * count, -1)
    grid[:blocks] = np.arange(blocks)
    parts = random.permuted(grid.reshape(-1, count), axis=1) if count else grid.reshape(0, 0)
    return [[int(block) for block in group if block >= 0] for group in parts.T]


def _batches(
    table: Rows, batch_size: int, random: np.random.Generator, mixed_blocks: int
) -> Iterator[tuple[Array, Array]]:
    rest: tuple[Array, Array] | None = None
    for blocks in _groups(len(table.block_sizes()), mixed_blocks, random):
        group = [table.rows(block) for block in blocks]
        X, y = (np.concatenate(parts) for parts in zip(*group, strict=True))
        shuffled = random.permutation(len(y))
        X, y = X[shuffled], y[shuffled]
        if rest is not None:
            X, y = np.concatenate([rest[0], X]), np.concatenate([rest[1], y])
        whole = len(y) // batch_size * batch_size
        for i in range(0, whole, batch_size):
            yield X[i : i + batch_size], y[i : i + batch_size]
        rest = X[whole:], y[whole:]
    if rest is not None and len(rest[1]):
        yield rest
