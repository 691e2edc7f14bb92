"""Parquet files into the same blocks that CSV files become: one row group, one block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.block_reader import SHOWN_BAD_ROWS, BadRow, BlockReport, sampled
from shoal.data.dialects import Dialect, column_names
from shoal.data.files import Source
from shoal.data.kinds import Layout, Wanted, number_of
from shoal.data.notation.spelling import in_one_spelling
from shoal.data.notation.words import per_column
from shoal.errors import ConfigError, DataError
from shoal.files.checksums import checksum, made_aside
from shoal.files.remote import RemoteFile, check_ranges, is_address
from shoal.kernels.csv_kernel import FieldKind, library
from shoal.models import Array
from shoal.settings.limits import SLICE_BYTES, most_unpacked
from shoal.solve.moments import by_residue
from shoal.utils import disk_errors, write_at
from shoal.words import file_size, no_such_column, plural


def _open(path: str, texts_as_codes: bool = False) -> Any:
    """The file; a text that many rows share is then held once, as the file does."""
    import pyarrow
    import pyarrow.parquet
    import pyarrow.types as types

    place: Any = path
    if is_address(path):
        check_ranges(path)
        place = RemoteFile(path).open()
    try:
        file = pyarrow.parquet.ParquetFile(place)
        texts = [field.name for field in file.schema_arrow if types.is_string(field.type)] if texts_as_codes else []
        return pyarrow.parquet.ParquetFile(place, metadata=file.metadata, read_dictionary=texts) if texts else file
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"'{Path(path).name}' is not a whole Parquet file: {error}. Write or fetch it again.") from None


def inspect_parquet(
    path: Path,
    categorical: Sequence[str],
    numeric: Sequence[str],
    wanted: Wanted | None = None,
    also_missing: Sequence[str] = (),
    one_spelling: Sequence[str] = (),
) -> Source:
    """The columns by their declared types; nested ones cannot be used and are skipped with a note."""
    import pyarrow.types as types

    schema = _open(str(path)).schema_arrow
    names, notes = column_names(schema.names, len(schema.names), header=True, last_is_empty=False)
    names = wanted.called(names) if wanted else names
    kinds = []
    for name, column in zip(names, schema, strict=True):
        kind = _kind(column.type, types)
        if wanted and name not in wanted.columns:
            kind = FieldKind.SKIP
        elif kind == FieldKind.SKIP:
            notes.append(f"Column '{name}' has type {column.type}, which cannot be used, and is left out.")
        elif name in categorical:
            kind = FieldKind.LEVEL
        elif name in numeric and kind == FieldKind.LEVEL:
            kind = FieldKind.NUMBER
        kinds.append(kind)
    for name in (*categorical, *numeric, *(one_spelling if wanted is None else ())):
        if name not in names:
            raise ConfigError(no_such_column(name, names))
    written = {
        j: "2021-12-31" if types.is_date(_value_type(column.type, types)) else "2021-12-31T14:30:00"
        for j, column in enumerate(schema) if kinds[j] == FieldKind.DATE
    }  # fmt: skip
    own, everywhere = per_column(also_missing, names)
    absent = {j: (*everywhere, *own.get(name, ())) for j, name in enumerate(names)}
    layout = Layout(
        tuple(names), tuple(kinds), (0,) * len(names), written=written,
        absent={j: texts for j, texts in absent.items() if texts and kinds[j] != FieldKind.SKIP},
    ).in_one_spelling(one_spelling)  # fmt: skip
    return Source(str(path), path.stat().st_size, Dialect(), layout, 0, 1, tuple(notes))


def _value_type(type_: Any, types: Any) -> Any:
    return type_.value_type if types.is_dictionary(type_) else type_


def _kind(type_: Any, types: Any) -> FieldKind:
    type_ = _value_type(type_, types)
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        return FieldKind.NUMBER
    if types.is_timestamp(type_) or types.is_date(type_):
        return FieldKind.DATE
    if types.is_string(type_) or types.is_large_string(type_) or types.is_boolean(type_) or types.is_string_view(type_):
        return FieldKind.LEVEL
    return FieldKind.SKIP


def row_groups(path: Path, layout: Layout) -> int:
    """How many there are; a file whose rows would become far more than it holds is refused before any is read."""
    metadata = _open(str(path)).metadata
    size, blocks = path.stat().st_size, metadata.num_rows * (8 * len(layout.numbers) + 4 * len(layout.levels))
    if blocks > most_unpacked(size):
        raise DataError(
            f"Expected '{path.name}', which has {file_size(size)}, to become {file_size(most_unpacked(size))} at most, "
            f"but it says that it has {plural(metadata.num_rows, 'row')} of {plural(len(layout.names), 'column')}, "
            f"{file_size(blocks)}. Use fewer columns or rows of it, or save it as CSV."
        )
    return int(metadata.num_row_groups)


def read_row_group(source: Source, group: int, target: str, residues: int) -> BlockReport:
    """Read one row group into the block file `target`, some rows at a time: the file is where they come together."""
    layout, file = source.layout, _open(source.path, texts_as_codes=True)
    rows = file.metadata.row_group(group).num_rows
    texts = [_Texts(layout.absent.get(c, ()), c in layout.one_spelling) for c in layout.levels]
    bad: dict[int, BadRow] = {}
    with disk_errors(), made_aside(target) as block:
        for first, part in _slices(file, group, rows, Path(source.path).name):
            values = np.empty((part.num_rows, len(layout.numbers)))
            places = np.empty((len(layout.levels), part.num_rows), np.int32)
            for slot, column in enumerate(layout.numbers):
                values[:, slot], odd = _doubles(
                    part.column(column), layout.kinds[column], layout.absent.get(column, ())
                )
                for row, text in odd:
                    what = f"column '{layout.names[column]}': expected a finite number, got '{text[:40]}'"
                    bad.setdefault(first + row, BadRow(first + row, first + row, what))
            for slot, column in enumerate(layout.levels):
                places[slot] = texts[slot].codes(part.column(column))
            unread = [row - first for row in bad if row >= first]
            values[unread], places[:, unread] = np.nan, -1
            _write_rows(block.fileno(), rows, first, values, places)
    numbers, codes = _mapped(target, rows, layout)
    report = _summary(numbers, codes, [list(found.places) for found in texts], residues)
    report.checksum = checksum(codes, checksum(numbers))
    report.begin, report.end, report.lines = group, group + 1, rows
    unreadable = sorted(bad)
    report.bad_rows = [bad[row] for row in unreadable[:SHOWN_BAD_ROWS]]
    report.bad_count, report.bad_places = len(unreadable), unreadable
    report.leading_zeros = [0] * len(layout.names)
    return report


def _write_rows(block: int, rows: int, first: int, numbers: Array, codes: npt.NDArray[np.int32]) -> None:
    """Rows from `first` on to where a block of so many rows has them, as `write_block` would."""
    if numbers.size:
        write_at(block, numbers.data.cast("B"), 8 * first * numbers.shape[1])
    for slot, column in enumerate(codes):
        write_at(block, column.data.cast("B"), 8 * rows * numbers.shape[1] + 4 * (slot * rows + first))


def _mapped(target: str, rows: int, layout: Layout) -> tuple[Array, npt.NDArray[np.int32]]:
    """The numbers and codes of a block that was written; its pages are the system's to drop."""
    wide, long = (rows, len(layout.numbers)), (len(layout.levels), rows)
    start = 8 * rows * len(layout.numbers)
    numbers = np.memmap(target, np.float64, "r", 0, wide) if start else np.empty(wide)
    codes = np.memmap(target, np.int32, "r", start, long) if rows * long[0] else np.empty(long, np.int32)
    return numbers, codes


def _slices(file: Any, group: int, rows: int, name: str) -> Iterator[tuple[int, Any]]:
    """The rows of a group, each slice with the index of its first."""
    import pyarrow

    first, at_a_time = 0, max(1, SLICE_BYTES // (8 * max(file.metadata.num_columns, 1)))
    try:
        for batch in file.iter_batches(at_a_time, row_groups=[group]):
            yield first, pyarrow.Table.from_batches([batch])
            first += batch.num_rows
        if first != rows:
            raise OSError(f"expected {rows:,} rows, got {first:,}")
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"Part {group + 1} of '{name}' is damaged: {error}. Write or fetch it again.") from None


def _summary(numbers: Array, codes: npt.NDArray[np.int32], levels: list[list[str]], residues: int) -> BlockReport:
    rows, columns = numbers.shape
    report = BlockReport(rows, 0, 0, 0, _content(numbers, codes, levels), missing=np.zeros(columns, np.int64),
                         least=np.full(columns, np.inf), greatest=np.full(columns, -np.inf))  # fmt: skip
    report.largest_square = library().column_statistics(
        numbers.ctypes.data, rows, columns,
        report.missing.ctypes.data, report.least.ctypes.data, report.greatest.ctypes.data,
    )  # fmt: skip
    report.levels, report.refused = levels, [0] * len(levels)
    report.sample = sampled(numbers)
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


class _Texts:
    """The different texts of one column, in the order in which they come; an empty text is none, as in a CSV file."""

    def __init__(self, absent: Sequence[str] = (), one_spelling: bool = False) -> None:
        self.places: dict[str, int] = {}
        self.one_spelling = one_spelling
        self.absent = frozenset(absent)  # texts that mean none

    def codes(self, column: Any) -> npt.NDArray[np.int32]:
        """The place of each row's text among the texts, -1 for none."""
        import pyarrow.types as types

        known = types.is_dictionary(column.type)
        texts = (column if known else column.cast("string").dictionary_encode()).chunk(0)
        levels = texts.dictionary.cast("string").to_pylist()
        if self.one_spelling:
            levels = [level and in_one_spelling(level) for level in levels]
        found = texts.indices.fill_null(len(levels)).to_numpy(zero_copy_only=False)
        table = np.full(len(levels) + 1, -1, np.int32)
        for place in np.flatnonzero(np.bincount(found, minlength=len(table))[:-1]):  # of the texts that rows have
            if (level := levels[place]) and level not in self.absent:
                table[place] = self.places.setdefault(level, len(self.places))
        return np.asarray(table[found])


def _doubles(column: Any, kind: FieldKind, absent: Sequence[str]) -> tuple[Array, list[tuple[int, str]]]:
    """The values, without those that mean none in this column."""
    values, odd = _all_doubles(column, kind)
    dialect = Dialect()
    none = [number for text in absent if (number := number_of(text, dialect)) is not None]
    if none and kind != FieldKind.DATE:
        values = np.where(np.isin(values, none), np.nan, values)
    return values, [(row, text) for row, text in odd if text not in absent]


def _all_doubles(column: Any, kind: FieldKind) -> tuple[Array, list[tuple[int, str]]]:
    """The values as doubles, NaN for none; dates as days since 1970; and (row, text) of what is not finite.

    Casts are unchecked: a checked one refuses whole numbers past 2^53 and nanoseconds, which are merely rounded.
    """
    import pyarrow
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind == FieldKind.DATE:
        seconds = column.cast(pyarrow.timestamp("us"), safe=False).cast("int64").to_numpy() / 1e6
        return np.asarray(seconds / 86400, np.float64), []
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
