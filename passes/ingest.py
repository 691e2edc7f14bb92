"""A file read into a data set: who reads which range, and what its blocks add up to, added in their order."""

from __future__ import annotations

import dataclasses
import io
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.block_reader import BlockReport
from shoal.data.cache import Cache, digest
from shoal.data.dataset import LEVELS, MOMENTS, Block, Column, Dataset, LevelTable, Manifest, block_path
from shoal.data.encoding import Encoding
from shoal.data.files import Identity, Source, file_format, inspect_text, reader_question, spool, without_totals
from shoal.data.notation.words import MOST
from shoal.data.parquet_reader import inspect_parquet, row_groups
from shoal.data.splits import Split
from shoal.errors import BadRowsError, DataError, SourceChanged
from shoal.files.checksums import Seal, written
from shoal.home import DATA_FORMAT
from shoal.kernels.csv_kernel import FieldKind
from shoal.passes.blocks import ReadRange, ReadRowGroup
from shoal.settings.config import RunConfig
from shoal.settings.limits import ROW_BYTES, cells_from_reading
from shoal.solve.moments import Merger, Moments, merge_all, rotate
from shoal.utils import Progress, disk_errors
from shoal.words import file_size
from shoal.worker import Request, Worker

Sweep = Callable[[Sequence[Request]], Iterator[Any]]  # the reports of requests, in their order

SHOWN = 1000  # bad rows that are located one by one


class Ingest:
    """What the blocks of one file add up to; blocks are added in order."""

    def __init__(self, source: Source, residues: int) -> None:
        self.source, self.residues = source, residues
        self.position, self.lines, self.rows = source.data_start, 0, 0
        self.blocks: list[Block] = []
        self.bad: list[tuple[int, str]] = []
        self.bad_count = 0
        layout = source.layout
        self.missing = np.zeros(len(layout.numbers), np.int64)
        self.least = np.full(len(layout.numbers), math.inf)
        self.greatest = -self.least
        self.largest_square = 0.0
        self.leading_zeros = np.zeros(len(layout.names), np.int64)
        self.tables = [LevelTable() for _ in layout.levels]
        self.block_levels: list[list[list[str]]] = []
        self.contents: list[int] = []
        self.words: dict[int, Counter[str]] = {}
        self.repeated = 0
        self.cells: list[Merger] = []

    def requests(self, directory: Path) -> Iterator[ReadRange | ReadRowGroup]:
        if file_format(Path(self.source.path)) == "parquet":
            for group in range(row_groups(Path(self.source.path), self.source.layout)):
                yield ReadRowGroup(self.source, group, str(block_path(directory, group)), self.residues)
            return
        for index, (begin, end) in enumerate(self.source.ranges()):
            exact = begin if index == 0 else None
            yield ReadRange(self.source, begin, end, exact, str(block_path(directory, index)), self.residues)

    def add(self, report: BlockReport) -> None:
        index = len(self.blocks)
        self.blocks.append(Block(index, self.rows, report.rows, tuple(report.bad_places), report.checksum))
        for bad in report.bad_rows[: SHOWN - len(self.bad)]:
            self.bad.append((self.source.first_line + self.lines + bad.line, bad.what))
        self.bad_count += report.bad_count
        if report.cells:
            self.cells = self.cells or [Merger() for _ in report.cells]
            for cell, part in zip(self.cells, rotate(report.cells, self.rows), strict=True):
                cell.add(part)
        self.missing += report.missing
        self.least = np.fmin(self.least, report.least)
        self.greatest = np.fmax(self.greatest, report.greatest)
        self.largest_square = max(self.largest_square, report.largest_square)
        self.leading_zeros += np.array(report.leading_zeros or [0] * len(self.leading_zeros))
        found = report.levels or [[] for _ in self.tables]
        for table, levels, missing, refused in zip(
            self.tables,
            found,
            report.level_missing or [0] * len(found),
            report.refused or [0] * len(found),
            strict=True,
        ):
            table.add(levels, missing, refused)
        self.block_levels.append(found)
        self.repeated += report.repeated
        for column, words in report.words.items():
            self.words.setdefault(column, Counter()).update(words)
        self.contents.append(report.content)
        self.position, self.lines, self.rows = report.end, self.lines + report.lines, self.rows + report.rows

    def finish(self, directory: Path, path: str) -> str:
        """Write what completes the data set; returns its key."""
        levels, moments = self._write_levels(directory), self._write_moments(directory)
        content = digest([self.source.size, self.contents])
        layout = self.source.layout
        kinds = [int(kind) for kind in layout.kinds]
        examples = {i: notation.example for i, notation in layout.notations.items()}
        head = [
            layout.names,
            layout.orders,
            examples,
            dict(layout.absent),
            self.source.data_start,
        ]  # the header is not among the hashed ranges
        key = digest([DATA_FORMAT, content, self.source.dialect.as_dict(), kinds, head, self.residues])
        manifest = Manifest(
            source=path, size=self.source.size, dialect=self.source.dialect.as_dict(), columns=self._columns(),
            blocks=tuple(self.blocks), bad_rows=tuple(self.bad), bad_count=self.bad_count,
            largest_norm=math.sqrt(self.largest_square), content=content, levels=levels, moments=moments,
            repeated=self.repeated, notes=(*self.source.notes, *self._repeated()),
        )  # fmt: skip
        manifest.write(directory, key)
        return key

    def _repeated(self) -> list[str]:
        if not self.repeated:
            return []
        rows = "1 row, which is" if self.repeated == 1 else f"{self.repeated:,} rows, which are"
        return [f"The names of the columns come again in {rows} left out."]

    def _write_levels(self, directory: Path) -> Seal:
        maps = {}
        for slot, table in enumerate(self.tables):
            places = {level: i for i, level in enumerate(table.sorted())}
            for block, levels in enumerate(self.block_levels):
                maps[f"{block}.{slot}"] = LevelTable.codes_of(levels[slot], places)
        return _archived(directory / LEVELS, **maps)

    def _write_moments(self, directory: Path) -> Seal | None:
        if not self.cells:
            return None
        cells = [cell.total() for cell in self.cells]
        mean, scatter = np.stack([c.mean for c in cells]), np.stack([c.scatter for c in cells])
        return _archived(directory / MOMENTS, n=np.array([c.n for c in cells]), mean=mean, scatter=scatter)

    def _columns(self) -> tuple[Column, ...]:
        layout, slots = self.source.layout, self.source.layout.slots()
        made = []
        for i, (name, kind) in enumerate(zip(layout.names, layout.kinds, strict=True)):
            slot = int(slots[i])
            if kind == FieldKind.LEVEL:
                made.append(_text_column(name, slot, self.tables[slot], self.rows, self.bad_count))
            elif kind != FieldKind.SKIP:
                made.append(self._number_column(i, slot))
        return tuple(made)

    def _number_column(self, column: int, slot: int) -> Column:
        layout, rows = self.source.layout, self.rows - self.bad_count
        missing = int(self.missing[slot]) - self.bad_count  # unread rows are counted as such
        low, high = float(self.least[slot]), float(self.greatest[slot])
        flags = _shared_flags(missing, rows, low == high)
        if self.leading_zeros[column]:
            flags.append("leading_zeros")
        notation = layout.notations.get(column)
        return Column(
            layout.names[column], "datetime" if layout.kinds[column] == FieldKind.DATE else "numeric", slot, missing,
            low if missing < rows else None, high if missing < rows else None, flags=tuple(flags),
            written=notation.example if notation else "",
            words=tuple(self.words.get(column, Counter()).most_common(MOST)) if missing < rows else (),
        )  # fmt: skip


def _archived(path: Path, **arrays: npt.NDArray[Any]) -> Seal:
    """An archive of arrays, put together in memory."""
    made = io.BytesIO()
    np.savez(made, **arrays)  # type: ignore[arg-type]
    with path.open("wb", buffering=0) as file:
        return written(file, [np.frombuffer(made.getbuffer(), np.uint8)])


def _shared_flags(missing: int, rows: int, constant: bool) -> list[str]:
    flags = ["constant"] if constant and rows else []
    if rows and missing > rows / 2:
        flags.append("mostly_missing")
    return flags


def _text_column(name: str, slot: int, table: LevelTable, rows: int, bad: int) -> Column:
    levels, missing, rows = table.sorted(), table.missing - bad, rows - bad
    many = table.refused or len(levels) > 100
    flags = _shared_flags(missing, rows, len(levels) == 1 and not missing)
    if many:
        flags.append("high_cardinality")
    if rows - missing > 20 and (table.refused or len(levels) > 0.95 * (rows - missing)):
        flags.append("id_like")
    return Column(
        name, "text" if many else "categorical", slot, missing,
        levels=levels, distinct=len(levels), more_levels=table.refused, flags=tuple(flags),
    )  # fmt: skip


def ragged_message(reading: Ingest, report: BlockReport) -> str:
    first = report.bad_rows[0]
    line = reading.source.first_line + reading.lines + first.line
    return (
        f"Most rows do not have the {len(reading.source.layout.names)} fields of the table: line {line}: {first.what}. "
        "Check the delimiter and the quotes, and give them if they were not found right."
    )


def endless_message(reading: Ingest, report: BlockReport) -> str:
    return (
        f"Expected rows of at most {file_size(ROW_BYTES)}, but the one at line "
        f"{reading.source.first_line + reading.lines + report.lines:,} goes on for longer. "
        "Look for a quote that is never closed there, and check the quotes and line ends."
    )


# ------------------------------------------------------------------ from file to data set


class FileReading:
    """One file, to be read as a config says by whoever answers `sweep`; what was read before is found in the cache."""

    def __init__(self, config: RunConfig, cache: Cache, sweep: Sweep, progress: Progress) -> None:
        self.config, self.cache, self.sweep, self.progress = config, cache, sweep, progress
        self.path = Path(config.file).expanduser().absolute()

    def dataset(self) -> Dataset:
        """The cached one if the file is what it was, else read now."""
        identity, question = dataclasses.asdict(Identity.of(self.path)), _question(self.path, self.config)
        found = self.cache.find(question, identity)
        if found is None:
            found = self._read(question, identity)
        found.repairs = tuple(self.cache.repairs)
        return found

    def _read(self, question: Mapping[str, Any], identity: Mapping[str, int]) -> Dataset:
        with self.cache.workshop() as directory, disk_errors():
            whole, key = self._ingest(directory)
            if dataclasses.asdict(Identity.of(self.path)) != identity:
                raise SourceChanged(
                    f"'{self.path.name}' changed while it was read. Wait until it is complete, then try again."
                )
            dataset = self.cache.commit(whole, key)
            self.cache.remember(question, identity, key)
        return dataset

    def is_cached(self) -> bool:
        """Whether the file is there and still what it was when it was read."""
        try:
            identity = dataclasses.asdict(Identity.of(self.path))
        except DataError:
            return False
        return self.cache.find(_question(self.path, self.config), identity) is not None

    def _ingest(self, directory: Path) -> tuple[Path, str]:
        """Read the file into `directory`; if a column turns out to be of another kind, once more with that known.

        Each attempt has a folder of its own: a worker may still be writing a block of the one that was given up.
        """
        source = self._source(directory)
        for number in itertools.count():
            attempt = directory / f"attempt{number}"
            attempt.mkdir()
            reading = Ingest(source, cells_from_reading(len(source.layout.numbers), self.config.test_every))
            strangers = self._read_all(reading, attempt)
            if not strangers:
                break
            names = [source.layout.names[i] for i in strangers]
            source = dataclasses.replace(source, layout=source.layout.with_levels(strangers))
            self.progress(f"reading again: {', '.join(names)} holds text", 0.0)
        if source.path != str(self.path):
            Path(source.path).unlink()
        return attempt, reading.finish(attempt, str(self.path))

    def _source(self, directory: Path) -> Source:
        self.progress("looking at the file", 0.0)
        path, config, kind = self.path, self.config, file_format(self.path)
        if kind == "parquet":
            return inspect_parquet(path, config.categorical, config.numeric)
        source = inspect_text(path, config.dialect, config.categorical, config.numeric)
        if kind == "csv" and not source.dialect.rewrites:
            return without_totals(source)
        plain = directory / "plain"
        spool(path, source.dialect, plain, lambda part: self.progress("unpacking", part))
        start = source.data_start + (_mark_length(plain) if source.dialect.rewrites else 0)
        return without_totals(dataclasses.replace(source, path=str(plain), size=plain.stat().st_size, data_start=start))

    def _read_all(self, reading: Ingest, directory: Path) -> list[int]:
        """Fold all blocks in; returns the columns that are of another kind than was thought, if any."""
        requests = list(reading.requests(directory))
        reports: Iterator[BlockReport] = self.sweep(requests)
        for index, report in enumerate(reports):
            request = requests[index]
            if isinstance(request, ReadRange) and report.begin != reading.position:
                # The guess of where a row starts was wrong (a quoted newline): the block before knows better.
                report = Worker().handle(dataclasses.replace(request, exact=reading.position))
            if report.not_of_kind:
                return report.not_of_kind
            if report.endless:
                raise BadRowsError(endless_message(reading, report))
            if report.too_ragged:
                raise BadRowsError(ragged_message(reading, report))
            reading.add(report)
            self.progress("reading", (index + 1) / len(requests))
        return []


def _question(path: Path, config: RunConfig) -> dict[str, Any]:
    """What a data set is the answer to: a file, and how it is to be read."""
    return {"path": str(path), "dialect": _plain(config.dialect), "format": DATA_FORMAT,
            "categorical": sorted(config.categorical), "numeric": sorted(config.numeric),
            **reader_question(path)}  # fmt: skip


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def _mark_length(plain: Path) -> int:
    """Bytes of a byte-order mark that the rewritten text still has."""
    with plain.open("rb") as file:
        return 3 if file.read(3) == b"\xef\xbb\xbf" else 0


def stored_moments(dataset: Dataset, base: Encoding, split: Split) -> tuple[Moments, Moments] | None:
    """From the sums made while reading, if all columns are complete numbers and the split fits their cells."""
    names = [*(term.name for term in base.terms), base.target]
    columns = [dataset.columns.get(name) for name in names]
    if dataset.manifest.bad_count or base.known or split.fraction:
        return None
    if any(c is None or not c.is_number or c.missing for c in columns):
        return None
    cells = dataset.cells
    if not cells or (split.every and len(cells) % split.every):
        return None
    slots = [c.slot for c in columns if c is not None]
    test = [r for r in range(len(cells)) if split.every and r % split.every == 0]
    train = [r for r in range(len(cells)) if r not in test]
    empty = Moments.empty(len(slots))
    return (
        merge_all(cells[r].take(slots) for r in train),
        merge_all(cells[r].take(slots) for r in test) if test else empty,
    )
