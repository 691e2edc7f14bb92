"""Cells of a file beside lines of predictions, of a text as they are; which ones is chosen in `kept_columns`."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.files import Source, file_format
from shoal.data.parquet_reader import inspect_parquet
from shoal.errors import DataError
from shoal.files.parts import parts_of
from shoal.files.remote import opened, place
from shoal.fitting.model_file import SavedModel
from shoal.kernels.csv_kernel import PADDING, FieldKind, Joining, ParserState, Status, Written, library
from shoal.lazy.classes import dataclass
from shoal.passes.ingest import FileReading
from shoal.settings.config import RunConfig
from shoal.settings.limits import ROW_BYTES
from shoal.tasks.kept_columns import (
    SAMPLE,
    Beside,
    CellsBeside,
    Keep,
    PartsBeside,
    csv_line,
    parquet_rows,
    rows_changed,
)

_NOTHING = re.compile("|[-=_+]{3,}")  # in a line of its own: blanks, or a rule
CHUNK = 4 << 20  # bytes that are looked at at a time


class TextRows:
    """The rows of a text, of which some bytes at a time are in memory; what is no row when it is read is none here."""

    def __init__(self, source: Source) -> None:
        self.source, self.dialect = source, source.dialect
        self.begin, self.size = source.data_start, CHUNK  # where in the file the bytes in memory are from, how many
        self.parser = ParserState()
        self.ended = False
        self.buffer = np.zeros(PADDING, np.uint8)
        self._load()

    def more(self) -> None:
        """The bytes from the first row on that is not used yet; more of them if not one row was whole."""
        used = min(int(self.parser.position), int(self.parser.length))
        if not used and self.size > 4 * ROW_BYTES:
            raise DataError("The file changed while its rows were copied. Leave it alone and try again.")
        self.ended = bool(self.parser.at_end) and used == self.parser.length
        self.begin, self.size = self.begin + used, CHUNK if used else 4 * self.size
        self._load()

    def _load(self) -> None:
        length = max(0, min(self.size, self.source.size - self.begin))
        if len(self.buffer) < length + PADDING:
            self.buffer = np.empty(length + PADDING, np.uint8)
        with opened(self.source.path) as file:
            file.seek(self.begin)
            raw = file.read(length)
        if len(raw) < length:
            raise rows_changed()
        self.buffer[:length] = np.frombuffer(raw, np.uint8)
        self.buffer[length : length + PADDING] = 0
        self.buffer[length] = ord(self.dialect.newline)
        self.parser = ParserState(
            buffer=self.buffer.ctypes.data, length=length, at_end=self.begin + length >= self.source.size,
            marks=self.dialect.marks(), columns=len(self.source.layout.names), row_room=1,
        )  # fmt: skip

    def __iter__(self) -> Iterator[list[str]]:
        while (row := self.row()) is not None:
            yield row

    def row(self) -> list[str] | None:
        """The texts of the next row; None behind the last one."""
        columns = len(self.source.layout.names)
        while not self.ended:
            cells = self._cells(4 * columns + 16)
            texts = [self.dialect.text(self.buffer[at : at + n].tobytes(), written) for _, at, n, written in cells]
            if not texts:
                self.more()
            elif columns == 1 or len(texts) > 1 or cells[0][3] != Written.PLAIN or not _NOTHING.fullmatch(texts[0]):
                return texts
        return None

    def _cells(self, room: int) -> list[list[int]]:
        """(row, offset, length, how written) of the cells of the next row in memory; none if it is not whole."""
        while True:
            self.parser.rows, found = 0, np.empty((room, 4), np.int64)
            before = int(self.parser.position)
            count = library().split(ctypes.byref(self.parser), found.ctypes.data, room)
            if count or room > self.parser.length - before:
                cells: list[list[int]] = found[:count].tolist()
                return cells
            room *= 8


class TextBeside:
    """Lines of predictions with the kept cells of their rows before them."""

    def __init__(self, keep: Keep, source: Source) -> None:
        self.keep, self.rows = keep, TextRows(source)
        self.places = np.array(keep.places, np.int32)
        self.last = max(keep.places, default=0)
        self.all = keep.places == tuple(range(len(source.layout.names)))
        self.cells = np.zeros(3 * (self.last + 1), np.int64)
        self.encoding = source.dialect.text_encoding
        self.out = np.empty(0, np.uint8)  # room for lines, used again

    def joined(self, lines: bytes) -> bytes:
        """The lines of some rows, the next ones of the file; their number is left out."""
        if len(self.out) < len(lines) + CHUNK:
            self.out = np.empty(2 * (len(lines) + CHUNK), np.uint8)
        out = self.out
        joining = Joining(
            self.places.ctypes.data, len(self.places), self.last, self.cells.ctypes.data, lines, len(lines),
            by_hand=self.encoding != "utf-8" and not lines.isascii(), all=self.all, out=out.ctypes.data, room=len(out),
        )  # fmt: skip
        made = []
        while (status := library().join(ctypes.byref(self.rows.parser), ctypes.byref(joining))) != Status.DONE:
            if status == Status.NEED_MORE:
                self.rows.more()
                if self.rows.ended:
                    raise rows_changed()
                continue
            made.append(self._text(out[: joining.used]))
            if status == Status.TOO_MANY_ODDITIES:
                made.append(self._by_hand(lines, joining))
            elif not joining.used:  # a row of many bytes
                out = self.out = np.empty(2 * len(out), np.uint8)
                joining.out, joining.room = out.ctypes.data, len(out)
            joining.used = 0
        last = self._text(out[: joining.used])
        return b"".join([*made, last]) if made else last

    def _text(self, made: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> bytes:
        """As UTF-8, whatever the file is written in."""
        raw = made.tobytes()
        return raw if raw.isascii() else raw.decode(self.encoding, "replace").encode("utf-8", "replace")

    def _by_hand(self, lines: bytes, joining: Joining) -> bytes:
        """The next row and its line where cells do not stand in the file as they are."""
        row = self.rows.row()
        if row is None:
            raise rows_changed()
        tail = lines[joining.tail : joining.end + 1]
        joining.at = joining.end + 1
        return csv_line([row[place] if place < len(row) else "" for place in self.keep.places])[:-1] + tail

    def finish(self) -> None:
        """All rows have to be used up, or cells stand beside predictions of other rows."""
        if self.rows.row() is not None:
            raise rows_changed()


def first_rows(source: Source, count: int) -> list[list[str]]:
    """The texts of the first rows."""
    return list(itertools.islice(TextRows(source), count))


# ------------------------------------------------------------------ of whatever file


def cells_beside(
    model: SavedModel, coordinator: Coordinator, config: RunConfig, keep: Sequence[str], dataset: Dataset, folder: Path
) -> Beside:
    """The cells of the file that are to stand beside predictions."""
    used = [*model.encoding.columns, model.target]
    paths = [place(part.file) for part in dataset.manifest.parts] or parts_of(config.file)
    first = _cells(coordinator, config, paths[0], folder / "rows-0")
    chosen = Keep.of(keep, first.names, first.sample(), used, first.empty)
    if not dataset.manifest.parts:
        return first.beside(chosen)

    def parts() -> Iterator[tuple[int, Beside]]:
        for i, part in enumerate(dataset.manifest.parts):
            path = place(part.file)
            cells = _cells(coordinator, config, path, folder / f"rows-{i}") if i else first
            yield part.rows, cells.beside(chosen.within(cells.names, path.name))

    return PartsBeside(chosen, parts())


@dataclass(frozen=True)
class _Cells:
    """One file whose cells may stand beside predictions."""

    names: Sequence[str]
    sample: Callable[[], Iterable[Sequence[str]]]
    beside: Callable[[Keep], Beside]
    empty: frozenset[str] = frozenset()  # columns at the end of a text that are left out


def _cells(coordinator: Coordinator, config: RunConfig, path: Path, folder: Path) -> _Cells:
    if file_format(path) == "parquet":
        names = inspect_parquet(path, (), ()).layout.names
        return _Cells(names, lambda: parquet_rows(path), lambda keep: CellsBeside(keep, parquet_rows(path)))
    folder.mkdir()
    one = dataclasses.replace(config, file=str(path))
    source = FileReading(one, coordinator.cache, coordinator.engine.sweep, coordinator.progress).source(folder)
    layout = source.layout
    empty = frozenset(name for name, kind in zip(layout.names, layout.kinds, strict=True) if kind == FieldKind.SKIP)
    return _Cells(layout.names, lambda: first_rows(source, SAMPLE), lambda keep: TextBeside(keep, source), empty)
