"""Parquet files into the same blocks that CSV files become: one row group, one block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.block_reader import SHOWN_BAD_ROWS, BadRow, BlockReport, write_block
from shoal.data.dialects import Dialect, column_names
from shoal.data.files import Source
from shoal.data.kinds import Layout, number_of
from shoal.errors import ConfigError, DataError
from shoal.kernels.csv_kernel import FieldKind, library
from shoal.models import Array
from shoal.solve.moments import by_residue
from shoal.words import no_such_column


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
    names, notes = column_names(schema.names, len(schema.names), header=True, last_is_empty=False)
    kinds = []
    for name, column in zip(names, schema, strict=True):
        kind = _kind(column.type, types)
        if kind == FieldKind.SKIP:
            notes.append(f"Column '{name}' has type {column.type}, which cannot be used, and is left out.")
        elif name in categorical:
            kind = FieldKind.LEVEL
        elif name in numeric and kind == FieldKind.LEVEL:
            kind = FieldKind.NUMBER
        kinds.append(kind)
    for name in (*categorical, *numeric):
        if name not in names:
            raise ConfigError(no_such_column(name, names))
    layout = Layout(tuple(names), tuple(kinds), (0,) * len(names))
    return Source(str(path), path.stat().st_size, Dialect(), layout, 0, 1, tuple(notes))


def _kind(type_: Any, types: Any) -> FieldKind:
    if types.is_dictionary(type_):
        type_ = type_.value_type
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        return FieldKind.NUMBER
    if types.is_timestamp(type_) or types.is_date(type_):
        return FieldKind.DATE
    if types.is_string(type_) or types.is_large_string(type_) or types.is_boolean(type_) or types.is_string_view(type_):
        return FieldKind.LEVEL
    return FieldKind.SKIP


def row_groups(path: Path) -> int:
    return int(_open(str(path)).num_row_groups)


def read_row_group(source: Source, group: int, target: str, residues: int) -> BlockReport:
    """Read one row group into the block file `target`."""
    import pyarrow

    try:
        table = _open(source.path).read_row_group(group)
    except (pyarrow.ArrowException, OSError) as error:
        name = Path(source.path).name
        raise DataError(f"Part {group + 1} of '{name}' is damaged: {error}. Write or fetch it again.") from None
    layout, rows = source.layout, table.num_rows
    numbers = np.full((rows, len(layout.numbers)), np.nan)
    codes = np.full((len(layout.levels), rows), -1, np.int32)
    levels: list[list[str]] = []
    bad: dict[int, BadRow] = {}
    for slot, column in enumerate(layout.numbers):
        numbers[:, slot], odd = _doubles(table.column(column), layout.kinds[column])
        for row, text in odd:
            what = f"column '{layout.names[column]}': expected a finite number, got '{text[:40]}'"
            bad.setdefault(row, BadRow(row, row, what))
    for slot, column in enumerate(layout.levels):
        codes[slot], found = _codes(table.column(column))
        levels.append(found)
    numbers[list(bad)], codes[:, list(bad)] = np.nan, -1
    write_block(target, numbers, codes)
    report = _summary(numbers, codes, levels, residues)
    report.begin, report.end, report.lines = group, group + 1, rows
    places = sorted(bad)
    report.bad_rows = [bad[row] for row in places[:SHOWN_BAD_ROWS]]
    report.bad_count, report.bad_places = len(places), places
    report.leading_zeros = [0] * len(layout.names)
    return report


def _summary(numbers: Array, codes: npt.NDArray[np.int32], levels: list[list[str]], residues: int) -> BlockReport:
    rows, columns = numbers.shape
    report = BlockReport(rows, 0, 0, 0, _content(numbers, codes, levels), missing=np.zeros(columns, np.int64),
                         least=np.full(columns, np.inf), greatest=np.full(columns, -np.inf))  # fmt: skip
    report.largest_square = library().column_statistics(
        numbers.ctypes.data, rows, columns,
        report.missing.ctypes.data, report.least.ctypes.data, report.greatest.ctypes.data,
    )  # fmt: skip
    report.levels, report.refused = levels, [0] * len(levels)
    report.level_missing = [int((column == -1).sum()) for column in codes]
    if residues:
        report.cells = by_residue(numbers, residues)
    return report


def _content(numbers: Array, codes: npt.NDArray[np.int32], levels: list[list[str]]) -> int:
    """What tells this block from others: the values, since files of one size and schema are common."""
    texts = np.frombuffer(repr(levels).encode("utf-8", "surrogatepass"), np.uint8)
    parts = [library().content_hash(part.ctypes.data, part.nbytes) for part in (numbers, codes, texts)]
    whole = np.array(parts, np.uint64)
    return int(library().content_hash(whole.ctypes.data, whole.nbytes))


def _codes(column: Any) -> tuple[npt.NDArray[np.int32], list[str]]:
    """The place of each row's text among the texts, -1 for none; an empty text is none, as in a CSV file."""
    texts = column.cast("string").combine_chunks().dictionary_encode()
    levels = [level or "" for level in texts.dictionary.to_pylist()]
    table = np.array([*(i if level else -1 for i, level in enumerate(levels)), -1], np.int32)
    places = texts.indices.fill_null(len(levels)).to_numpy(zero_copy_only=False)
    return table[places], levels


def _doubles(column: Any, kind: FieldKind) -> tuple[Array, list[tuple[int, str]]]:
    """The values as doubles, NaN for none; dates as seconds since 1970; and (row, text) of what is not finite.

    Casts are unchecked: a checked one refuses whole numbers past 2^53 and nanoseconds, which are merely rounded.
    """
    import pyarrow
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind == FieldKind.DATE:
        seconds = column.cast(pyarrow.timestamp("us"), safe=False).cast("int64").to_numpy() / 1e6
        return np.asarray(seconds, np.float64), []
    if types.is_boolean(column.type) or not (types.is_primitive(column.type) or types.is_decimal(column.type)):
        return _numbers_of(column.cast("string").to_pylist())
    values = np.asarray(column.cast("float64", safe=False).to_numpy(), np.float64)
    return values, [(int(row), str(values[row])) for row in np.flatnonzero(np.isinf(values))]


def _numbers_of(texts: Sequence[str | None]) -> tuple[Array, list[tuple[int, str]]]:
    """Numbers that are stored as texts."""
    dialect = Dialect()
    found = [None if text is None or text in dialect.missing else number_of(text, dialect) for text in texts]
    odd = [
        (row, text)
        for row, (text, value) in enumerate(zip(texts, found, strict=True))
        if value is None and text is not None and text not in dialect.missing
    ]
    return np.array([np.nan if value is None else value for value in found], np.float64), odd
