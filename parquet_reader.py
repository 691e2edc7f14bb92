"""Parquet files into the same blocks that CSV files become: one row group, one block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from block_reader import BlockReport, write_block
from csv_kernel import Kind, library
from data_pipeline import Layout, Source
from dialects import Dialect
from errors import ConfigError, DataError
from moments import by_residue
from utils import listed


def _open(path: str) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"'{Path(path).name}' is not a whole Parquet file: {error}. Write or fetch it again.") from None


def inspect_parquet(path: Path, categorical: Sequence[str], numeric: Sequence[str]) -> Source:
    """The columns by their declared types; nested ones cannot be used and are skipped with a note."""
    import pyarrow.types as types

    schema = _open(str(path)).schema_arrow
    names, kinds, notes = [], [], []
    for column in schema:
        kind = _kind(column.type, types)
        if kind == Kind.SKIP:
            notes.append(f"Column '{column.name}' has type {column.type}, which cannot be used, and is left out.")
        names.append(column.name)
        kinds.append(Kind.LEVEL if column.name in categorical and kind != Kind.SKIP else kind)
    for name in (*categorical, *numeric):
        if name not in names:
            raise ConfigError(f"Expected a column of the file, got '{name}'. The columns are: {listed(names)}.")
    layout = Layout(tuple(names), tuple(kinds), (0,) * len(names))
    return Source(str(path), path.stat().st_size, Dialect(), layout, 0, 1, tuple(notes))


def _kind(type_: Any, types: Any) -> Kind:
    if types.is_dictionary(type_):
        type_ = type_.value_type
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        return Kind.NUMBER
    if types.is_timestamp(type_) or types.is_date(type_):
        return Kind.DATE
    if types.is_string(type_) or types.is_large_string(type_) or types.is_boolean(type_) or types.is_string_view(type_):
        return Kind.LEVEL
    return Kind.SKIP


def row_groups(path: Path) -> int:
    return int(_open(str(path)).num_row_groups)


def read_row_group(source: Source, group: int, target: str, residues: int) -> BlockReport:
    """Read one row group into the block file `target`."""
    table = _open(source.path).read_row_group(group)
    rows = table.num_rows
    numbers = np.full((rows, len(source.layout.numbers)), np.nan)
    codes = np.full((len(source.layout.levels), rows), -1, np.int32)
    levels: list[list[str]] = []
    for slot, column in enumerate(source.layout.numbers):
        numbers[:, slot] = _doubles(table.column(column), source.layout.kinds[column])
    for slot, column in enumerate(source.layout.levels):
        texts = table.column(column).cast("string").combine_chunks().dictionary_encode()
        found = texts.indices.to_numpy(zero_copy_only=False)
        codes[slot] = np.where(np.isnan(found), -1, found).astype(np.int32) if texts.null_count else found
        levels.append(texts.dictionary.to_pylist())
    numbers[~np.isfinite(numbers)] = np.nan
    write_block(target, numbers, codes)
    columns = numbers.shape[1]
    report = BlockReport(rows, group, group + 1, 0, group, missing=np.zeros(columns, np.int64),
                         least=np.full(columns, np.inf), greatest=np.full(columns, -np.inf))  # fmt: skip
    report.largest_square = library().column_statistics(
        numbers.ctypes.data, rows, columns,
        report.missing.ctypes.data, report.least.ctypes.data, report.greatest.ctypes.data,
    )  # fmt: skip
    report.levels, report.refused = levels, [0] * len(levels)
    report.level_missing = [int((column == -1).sum()) for column in codes]
    report.leading_zeros = [0] * len(source.layout.names)
    if residues:
        report.cells = by_residue(numbers, residues)
    return report


def _doubles(column: Any, kind: Kind) -> Any:
    """The values as doubles, NaN for none; dates as seconds since 1970."""
    import pyarrow

    if kind == Kind.DATE:
        return column.cast(pyarrow.timestamp("us")).cast("int64").to_numpy() / 1e6
    return column.cast("float64").to_numpy()
