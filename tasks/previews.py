"""The first rows of a file as the texts that are in it; what they mean belongs to the pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.data.dialects import as_kernel_bytes, body, dialect_from, split
from shoal.data.files import file_format, inspect_text, read_sample

ROWS = 20
COLUMNS = 100
LONGEST = 200  # characters of a cell; a preview is for the eye


def preview(path: Path, dialect: Mapping[str, Any], names: Sequence[str], rows: int = ROWS) -> list[list[str]]:
    """Up to `rows` rows without the header, each with a text for the first names; a short row is filled up."""
    names = names[:COLUMNS]
    found = _parquet_rows(path, names, rows) if file_format(path) == "parquet" else _text_rows(path, dialect, rows)
    width = len(names)
    return [[cell[:LONGEST] for cell in [*row[:width], *[""] * (width - len(row))]] for row in found]


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
    raw, at_end = read_sample(path)
    known = dialect_from(dialect)
    text = body(as_kernel_bytes(raw, known.encoding, at_end), known)
    return split(text, known, at_end, rows + known.header)[known.header :]


def _parquet_rows(path: Path, names: Sequence[str], rows: int) -> list[list[str]]:
    import pyarrow.parquet

    batches = pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=rows, columns=list(names))
    first = next(batches, None)
    records = first.to_pylist() if first is not None else []
    return [["" if record[name] is None else str(record[name]) for name in names] for record in records]
