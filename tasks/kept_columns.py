"""The columns of a file that are kept beside its predictions: which they are, and what joins their cells to lines.

Cells are copied in `kept_text`; how a file is read into numbers is elsewhere.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from shoal.data.notation.dates import is_date
from shoal.errors import ConfigError, DataError
from shoal.lazy.classes import dataclass
from shoal.words import no_such_column

ALL, IDS = "all", "ids"  # all columns; those that look like ids, or else all
SAMPLE = 300  # rows that tell what looks like an id
FEWEST = 5  # rows, below which everything differs by chance

CellRows = Iterator[list[str]]


@dataclass(frozen=True)
class Keep:
    """The columns that are written beside predictions: their names, and where they are in a row."""

    names: tuple[str, ...]
    places: tuple[int, ...]

    @classmethod
    def of(
        cls, wanted: Sequence[str], names: Sequence[str], rows: Iterable[Sequence[str]], used: Sequence[str],
        empty: Container[str] = (),
    ) -> Keep:  # fmt: skip
        """What was asked for; `used` are columns of the model, no ids; `empty` have neither name nor value."""
        whole = [name for name in names if name not in empty]
        if ALL in wanted and ALL not in names:
            chosen = whole
        else:
            others = [name for name in wanted if name != IDS or IDS in names]
            for name in others:
                if name not in names:
                    raise ConfigError(no_such_column(name, list(names)), knobs=["keep"])
            ids = _ids(names, rows, used) if len(others) < len(wanted) else []
            chosen = list(dict.fromkeys([*ids, *others])) or whole  # a table without ids is kept whole
        return cls(tuple(chosen), tuple(names.index(name) for name in chosen))

    def within(self, names: Sequence[str], file: str) -> Keep:
        """The same columns in another file of the table, which may have them in other places."""
        for name in self.names:
            if name not in names:
                raise ConfigError(f"'{file}' has no column '{name}' to keep. Leave it out.", knobs=["keep"])
        return Keep(self.names, tuple(names.index(name) for name in self.names))

    def beside(self, *made: str) -> list[str]:
        """The header: names of what is kept, then of what is made, told from names of the file."""
        taken, head = {name.casefold() for name in self.names}, list(self.names)
        for name in made:
            head.append(next(n for n in (name, *(f"{name}_{i}" for i in range(1, 1000))) if n.casefold() not in taken))
        return head


def _ids(names: Sequence[str], rows: Iterable[Sequence[str]], used: Sequence[str]) -> list[str]:
    """Columns whose values all differ, as far as one has looked, and are neither measured nor dates."""
    sample = [row for row, _ in zip(rows, range(SAMPLE), strict=False)]
    if len(sample) < FEWEST:
        return []
    found = []
    for place, name in enumerate(names):
        cells = [row[place] if place < len(row) else "" for row in sample]
        if name not in used and len(set(cells)) == len(cells) and all(map(_may_name, cells)):
            found.append(name)
    return found


def _may_name(cell: str) -> bool:
    return bool(cell) and not re.fullmatch(r"[+-]?\d*[.,]\d+([eE][+-]?\d+)?", cell) and not is_date(cell)


# ------------------------------------------------------------------ rows as they are written


def parquet_rows(path: Path) -> CellRows:
    """The cells of every row of a Parquet file as texts."""
    import pyarrow.parquet

    with path.open("rb") as raw, pyarrow.parquet.ParquetFile(raw) as file:
        for batch in file.iter_batches(1 << 14):
            columns = [column.to_pylist() for column in batch.columns]
            for row in zip(*columns, strict=True):
                yield ["" if value is None else str(value) for value in row]


# ------------------------------------------------------------------ beside predictions


def csv_line(cells: Sequence[str]) -> bytes:
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerow(cells)
    return made.getvalue().encode("utf-8", "replace")


class Beside(Protocol):
    """Lines of predictions with the kept cells of their rows before them."""

    keep: Keep

    def joined(self, lines: bytes) -> bytes:
        """The lines of some rows, the next ones of the file; their number is left out."""

    def finish(self) -> None:
        """All rows have to be used up, or cells stand beside predictions of other rows."""


class CellsBeside:
    """Beside of rows whose cells are texts already."""

    def __init__(self, keep: Keep, rows: CellRows) -> None:
        self.keep, self.rows = keep, rows

    def joined(self, lines: bytes) -> bytes:
        made = []
        for _, *cells_made in csv.reader(io.StringIO(lines.decode(), newline="")):
            row = next(self.rows, None)
            if row is None:
                raise rows_changed()
            made.append(csv_line([*(row[place] for place in self.keep.places), *cells_made]))
        return b"".join(made)

    def finish(self) -> None:
        if next(self.rows, None) is not None:
            raise rows_changed()


class PartsBeside:
    """Beside of a table of several files: each part has so many rows, and cells of its own."""

    def __init__(self, keep: Keep, parts: Iterator[tuple[int, Beside]]) -> None:
        self.keep, self.parts = keep, parts
        self.left, self.beside = next(parts)

    def joined(self, lines: bytes) -> bytes:
        made, ends, begin, done = [], _line_ends(lines), 0, 0
        while done < len(ends):
            if not self.left:
                self._next()
                continue
            count = min(self.left, len(ends) - done)
            end = int(ends[done + count - 1]) + 1
            made.append(self.beside.joined(lines[begin:end]))
            begin, done, self.left = end, done + count, self.left - count
        return b"".join(made)

    def _next(self) -> None:
        self.beside.finish()
        found = next(self.parts, None)
        if found is None:
            raise rows_changed()
        self.left, self.beside = found

    def finish(self) -> None:
        self.beside.finish()
        if self.left or any(rows for rows, _ in self.parts):
            raise rows_changed()


def _line_ends(lines: bytes) -> npt.NDArray[np.int64]:
    """Where the lines end, but for line ends between quotes."""
    letters = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    if b'"' in lines:
        ends = ends[np.cumsum(letters == ord('"'))[ends] % 2 == 0]
    return ends


def rows_changed() -> DataError:
    return DataError("The rows of the file are not those that were predicted. Leave it alone and try again.")
