"""The first rows of a file as the texts that are in it; what they mean belongs to the pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.data.dialects import as_kernel_bytes, body, dialect_from, split
from shoal.data.files import file_format, read_sample
from shoal.data.first_look.source import inspect_text
from shoal.data.parts.heads import columns_of, is_empty
from shoal.files.parts import is_several, parts_of
from shoal.settings.config import RunConfig
from shoal.sparse.table import is_sparse
from shoal.words import shortened

ROWS = 20
COLUMNS = 100
LONGEST = 200  # characters of a cell; a preview is for the eye
LINE = 110  # characters of a line that is no row of cells
SETTLED = ("encoding", "delimiter", "quote", "escape", "header")  # by other parts, of what names depend on


def preview(
    path: Path, dialect: Mapping[str, Any], names: Sequence[str], rows: int = ROWS, own: Sequence[str] = ()
) -> list[list[str]]:
    """Up to `rows` rows without the header, each with a text for the first names; a short row is filled up.

    `own` are the names of the file's columns, where not all of them are asked for or they are in another order.
    """
    names = names[:COLUMNS]
    found = _parquet_rows(path, names, rows) if file_format(path) == "parquet" else _text_rows(path, dialect, rows)
    if own and file_format(path) != "parquet":
        places = [own.index(name) for name in names]
        found = [[row[place] if place < len(row) else "" for place in places] for row in found]
    width = len(names)
    return [[cell[:LONGEST] for cell in [*row[:width], *[""] * (width - len(row))]] for row in found]


def first_part(file: str) -> Path:
    """The file of a table whose first rows stand for it."""
    paths = parts_of(file)
    return next((path for path in paths if len(paths) == 1 or not is_empty(path)), paths[0])


def table_preview(
    file: str, given: Mapping[str, Any], dialect: Mapping[str, Any], names: Sequence[str]
) -> list[list[str]]:
    """The first rows of a table of one or several files in its columns `names`; `given` is what was said of how it is
    written, `dialect` what it was read with."""
    path = first_part(file)
    own = _own_names(path, given, dialect, names) if is_several(file) else ()
    return preview(path, dialect, names, own=own)


def _own_names(
    path: Path, given: Mapping[str, Any], dialect: Mapping[str, Any], names: Sequence[str]
) -> tuple[str, ...]:
    """Those of a part's columns: a part may have more than the table, and what it leaves open others settle."""
    own = columns_of(path, given) or ()
    if not set(names) <= set(own):
        own = columns_of(path, {**given, **{mark: dialect[mark] for mark in SETTLED}}) or ()
    return own if set(names) <= set(own) else ()


def first_lines(file: str, rows: int = ROWS) -> list[list[str]]:
    """The first rows of a file that has no cells: its lines, each in one piece, or its ends."""
    text = read_sample(first_part(file))[0]
    lines = [line.strip().decode("utf-8", "replace") for line in text.split(b"\n", 10 * rows)[: 10 * rows]]
    return [[shortened(line, LINE)] for line in lines if line and not line.startswith("#")][:rows]


def lines_as_rows(config: RunConfig) -> dict[str, Any] | None:
    """The same as the only column of a table, for a file of sparse rows; None for any other."""
    return {"columns": ["row"], "rows": first_lines(config.file)} if is_sparse(config) else None


def first_rows(path: Path, dialect: Mapping[str, Any], rows: int = ROWS) -> dict[str, Any]:
    """The first names of columns and the first rows, of a file that nobody has looked at before."""
    if file_format(path) == "parquet":
        from shoal.data.parquet_reader import inspect_parquet

        names, known = list(inspect_parquet(path, (), ()).layout.names), dict(dialect)
    else:
        source = inspect_text(path, dialect, (), ())
        names, known = list(source.layout.names), dataclasses.asdict(source.dialect)
    return {"columns": names[:COLUMNS], "rows": preview(path, known, names, rows)}


def _text_rows(path: Path, dialect: Mapping[str, Any], rows: int) -> list[list[str]]:
    known = dialect_from(dialect)
    raw, at_end = read_sample(path, known.sheet)
    text = body(as_kernel_bytes(raw, known.encoding, at_end), known)
    return split(text, known, at_end, rows + known.header)[known.header :]


def _parquet_rows(path: Path, names: Sequence[str], rows: int) -> list[list[str]]:
    import pyarrow.parquet

    batches = pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=rows, columns=list(names))
    first = next(batches, None)
    records = first.to_pylist() if first is not None else []
    return [["" if record[name] is None else str(record[name]) for name in names] for record in records]
