"""The coordinator: gives blocks to workers and combines what they report, in block order, into one answer.

It knows the engine's protocol only, never a concrete engine; models and solvers do not belong here.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from block_reader import BlockReport
from block_requests import (
    CountKeys,
    Factor,
    Predict,
    Probe,
    ReadRange,
    ReadRowGroup,
    Score,
    SumMoments,
    Sums,
    value_of_key,
)
from config import RunConfig
from csv_kernel import Kind
from data_pipeline import Identity, Source, file_format, inspect_text, spool
from datasets import FORMAT, MANIFEST, Block, Cache, Column, Dataset, LevelTable, Manifest, block_path, digest
from design import Encoding, Split
from engines.base import Engine
from errors import BadRowsError, DataError, SourceChanged
from least_squares import Standardisation, stack
from models import Array
from moments import Merger, Moments, merge_all, rotate
from parquet_reader import inspect_parquet, row_groups
from utils import disk_errors
from worker import Worker

Progress = Callable[[str, float], None]
CELLS = 10  # residues of the row index that sums are kept for: leaves out every 2nd, 5th or 10th row at no cost
CELL_BYTES = 4 << 20  # of all cells that come with one block: more would cost more than they save
MOMENT_BYTES = 64 << 20  # of one cell; wider tables are summed when a fit asks for it
SHOWN = 1000  # bad rows that are located one by one


def silent(stage: str, fraction: float) -> None:
    """No progress display."""


class Coordinator:
    """Passes over files and data sets with the workers of one engine."""

    def __init__(self, engine: Engine, home: Path, progress: Progress = silent) -> None:
        self.engine, self.cache, self.progress = engine, Cache(home), progress

    # ---------------------------------------------------------------- from file to data set

    def open(self, config: RunConfig) -> Dataset:
        """The data set of a file: the cached one if the file is what it was, else read now."""
        path = Path(config.file).expanduser().absolute()
        identity = dataclasses.asdict(Identity.of(path))
        question = {"path": str(path), "dialect": _plain(config.dialect), "format": FORMAT,
                    "categorical": sorted(config.categorical), "numeric": sorted(config.numeric)}  # fmt: skip
        found = self.cache.find(question, identity)
        if found is not None:
            return found
        with self.cache.workshop() as directory, disk_errors():
            whole, key = self._ingest(path, config, directory)
            if dataclasses.asdict(Identity.of(path)) != identity:
                raise SourceChanged(
                    f"'{path.name}' changed while it was read. Wait until it is complete, then try again."
                )
            dataset = self.cache.commit(whole, key)
            self.cache.remember(question, identity, key)
        return dataset

    def _ingest(self, path: Path, config: RunConfig, directory: Path) -> tuple[Path, str]:
        """Read the file into `directory`; if a column turns out to be of another kind, once more with that known.

        Each attempt has a folder of its own: a worker may still be writing a block of the one that was given up.
        """
        source = self._source(path, config, directory)
        for number in itertools.count():
            attempt = directory / f"attempt{number}"
            attempt.mkdir()
            reading = _Ingest(source, self._residues(source, config))
            strangers = self._read_all(reading, attempt)
            if not strangers:
                break
            names = [source.layout.names[i] for i in strangers]
            source = dataclasses.replace(source, layout=source.layout.with_levels(strangers))
            self.progress(f"reading again: {', '.join(names)} holds text", 0.0)
        if source.path != str(path):
            Path(source.path).unlink()
        return attempt, reading.finish(attempt, str(path))

    def _source(self, path: Path, config: RunConfig, directory: Path) -> Source:
        self.progress("looking at the file", 0.0)
        kind = file_format(path)
        if kind == "parquet":
            return inspect_parquet(path, config.categorical, config.numeric)
        source = inspect_text(path, config.dialect, config.categorical, config.numeric)
        if kind != "gzip" and not source.dialect.rewrites:
            return source
        plain = directory / "plain"
        spool(path, source.dialect, plain, lambda part: self.progress("unpacking", part))
        start = source.data_start + (_mark_length(plain) if source.dialect.rewrites else 0)
        return dataclasses.replace(source, path=str(plain), size=plain.stat().st_size, data_start=start)

    def _residues(self, source: Source, config: RunConfig) -> int:
        width = len(source.layout.numbers)
        wanted = config.test_every if 0 < config.test_every <= 50 and CELLS % config.test_every else CELLS
        if 8 * width * (width + 1) > MOMENT_BYTES:
            return 0
        return wanted if 8 * width * (width + 1) * wanted <= CELL_BYTES else 1

    def _read_all(self, reading: _Ingest, directory: Path) -> list[int]:
        """Fold all blocks in; returns the columns that are of another kind than was thought, if any."""
        requests = list(reading.requests(directory))
        reports: Iterator[BlockReport] = self.engine.sweep(requests)
        for index, report in enumerate(reports):
            request = requests[index]
            if isinstance(request, ReadRange) and report.begin != reading.position:
                # The guess of where a row starts was wrong (a quoted newline): the block before knows better.
                report = Worker().handle(dataclasses.replace(request, exact=reading.position))
            if report.not_of_kind:
                return report.not_of_kind
            if report.too_ragged:
                raise BadRowsError(_ragged_message(reading, report))
            reading.add(report)
            self.progress("reading", (index + 1) / len(requests))
        return []

    # ---------------------------------------------------------------- passes over blocks

    def moments(self, dataset: Dataset, base: Encoding, split: Split) -> tuple[Moments, Moments]:
        """Moments of (terms..., target) over training rows and over test rows."""
        stored = _stored_moments(dataset, base, split)
        if stored is not None:
            return stored
        train, test = Merger(), Merger()
        requests = [SumMoments(str(dataset.directory), block, base, split) for block in dataset.blocks]
        for of_train, of_test in self.swept("summing", requests):
            train.add(of_train)
            test.add(of_test)
        return train.total(), test.total()

    def triangle(self, dataset: Dataset, encoding: Encoding, split: Split, units: Standardisation) -> Array:
        """The triangle of all standardised training rows (TSQR)."""
        requests = [Factor(str(dataset.directory), block, encoding, split, units) for block in dataset.blocks]
        total: Array | None = None
        for part in self.swept("factoring", requests):
            total = part if total is None else stack(total, part)
        if total is None:
            raise DataError("The file has no rows to fit a model to. Choose a file with rows.")
        return total

    def score(
        self, dataset: Dataset, encoding: Encoding, split: Split, coef: Array, intercept: float,
        centre: Array, scale: Array,
    ) -> Sums:  # fmt: skip
        """Residual sums of train and test, and the gradient, from the rows."""
        requests = [
            Score(str(dataset.directory), block, encoding, split, coef, intercept, centre, scale)
            for block in dataset.blocks
        ]
        total: Sums | None = None
        for part in self.swept("scoring", requests):
            total = part if total is None else total.merge(part)
        assert total is not None
        return total

    def medians(self, dataset: Dataset, columns: Sequence[str], target: str, split: Split) -> dict[str, float]:
        """The exact medians of the training rows in four counting passes, whatever the number of rows.

        Each pass counts the next 16 bits of the values' ordered keys among those that fit what is known so far.
        """
        probes = [Probe(name, 0, 0) for name in columns for _ in range(2)]
        ranks: list[int] = []
        for step in range(4):
            requests = [CountKeys(str(dataset.directory), b, target, split, tuple(probes)) for b in dataset.blocks]
            counts = np.asarray(sum(self.swept("finding medians", requests)))  # one at a time: half a MB a probe
            if step == 0:
                totals = counts.sum(axis=1)
                ranks = [int((n - 1) // 2 if i % 2 == 0 else n // 2) for i, n in enumerate(totals)]
            for i, probe in enumerate(probes):
                below = np.cumsum(counts[i])
                bits = int(np.searchsorted(below, ranks[i], side="right"))
                ranks[i] -= int(below[bits - 1]) if bits else 0
                probes[i] = Probe(probe.column, probe.known_bits + 16, (probe.prefix << 16) | min(bits, 0xFFFF))
        values = [value_of_key(probe.prefix) for probe in probes]
        found = {name: values[2 * i] / 2 + values[2 * i + 1] / 2 for i, name in enumerate(columns)}
        return {name: value for i, (name, value) in enumerate(found.items()) if totals[2 * i]}

    def predict(
        self, dataset: Dataset, encoding: Encoding, coef: Array, intercept: float
    ) -> Iterator[tuple[Array, int]]:
        requests = [Predict(str(dataset.directory), b, encoding, coef, intercept) for b in dataset.blocks]
        yield from self.swept("predicting", requests)

    def swept(self, stage: str, requests: Sequence[Any]) -> Iterator[Any]:
        """The reports of a sweep, with progress."""
        for i, report in enumerate(self.engine.sweep(requests)):
            yield report
            self.progress(stage, (i + 1) / len(requests))


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def _mark_length(plain: Path) -> int:
    """Bytes of a byte-order mark that the rewritten text still has."""
    with plain.open("rb") as file:
        return 3 if file.read(3) == b"\xef\xbb\xbf" else 0


def _stored_moments(dataset: Dataset, base: Encoding, split: Split) -> tuple[Moments, Moments] | None:
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


def _ragged_message(reading: _Ingest, report: BlockReport) -> str:
    first = report.bad_rows[0]
    line = reading.source.first_line + reading.lines + first.line
    return (
        f"Most rows do not have the {len(reading.source.layout.names)} fields of the table: line {line}: {first.what}. "
        "Check the delimiter and the quotes, and give them if they were not found right."
    )


class _Ingest:
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
        self.cells: list[Merger] = []

    def requests(self, directory: Path) -> Iterator[ReadRange | ReadRowGroup]:
        if file_format(Path(self.source.path)) == "parquet":
            for group in range(row_groups(Path(self.source.path))):
                yield ReadRowGroup(self.source, group, str(block_path(directory, group)), self.residues)
            return
        for index, (begin, end) in enumerate(self.source.ranges()):
            exact = begin if index == 0 else None
            yield ReadRange(self.source, begin, end, exact, str(block_path(directory, index)), self.residues)

    def add(self, report: BlockReport) -> None:
        index = len(self.blocks)
        self.blocks.append(Block(index, self.rows, report.rows, tuple(report.bad_places)))
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
        self.contents.append(report.content)
        self.position, self.lines, self.rows = report.end, self.lines + report.lines, self.rows + report.rows

    def finish(self, directory: Path, path: str) -> str:
        """Write what completes the data set; returns its key."""
        columns = self._columns()
        self._write_levels(directory)
        if self.cells:
            cells = [cell.total() for cell in self.cells]
            np.savez(
                directory / "moments.npz",
                n=[c.n for c in cells],
                mean=np.stack([c.mean for c in cells]),
                scatter=np.stack([c.scatter for c in cells]),
            )
        content = digest([self.source.size, self.contents])
        layout = self.source.layout
        kinds = [int(kind) for kind in layout.kinds]
        head = [layout.names, layout.orders, self.source.data_start]  # the header is not among the hashed ranges
        key = digest([FORMAT, content, self.source.dialect.as_dict(), kinds, head, self.residues])
        manifest = Manifest(
            source=path, size=self.source.size, dialect=self.source.dialect.as_dict(), columns=columns,
            blocks=tuple(self.blocks), bad_rows=tuple(self.bad), bad_count=self.bad_count,
            largest_norm=math.sqrt(self.largest_square), content=content, notes=self.source.notes,
        )  # fmt: skip
        (directory / MANIFEST).write_text(manifest.to_json())
        return key

    def _write_levels(self, directory: Path) -> None:
        maps = {}
        for slot, table in enumerate(self.tables):
            places = {level: i for i, level in enumerate(table.sorted())}
            for block, levels in enumerate(self.block_levels):
                maps[f"{block}.{slot}"] = LevelTable.codes_of(levels[slot], places)
        np.savez(directory / "levels.npz", **maps)  # type: ignore[arg-type]

    def _columns(self) -> tuple[Column, ...]:
        layout, slots = self.source.layout, self.source.layout.slots()
        made = []
        for i, (name, kind) in enumerate(zip(layout.names, layout.kinds, strict=True)):
            slot = int(slots[i])
            if kind == Kind.LEVEL:
                made.append(_text_column(name, slot, self.tables[slot], self.rows, self.bad_count))
            elif kind != Kind.SKIP:
                made.append(self._number_column(name, kind, slot, int(self.leading_zeros[i])))
        return tuple(made)

    def _number_column(self, name: str, kind: Kind, slot: int, leading_zeros: int) -> Column:
        missing = int(self.missing[slot]) - self.bad_count  # unread rows are counted as such
        low, high = float(self.least[slot]), float(self.greatest[slot])
        rows = self.rows - self.bad_count
        flags = _shared_flags(missing, rows, low == high)
        if leading_zeros:
            flags.append("leading_zeros")
        return Column(
            name, "numeric" if kind == Kind.NUMBER else "datetime", slot, missing,
            low if missing < rows else None, high if missing < rows else None, flags=tuple(flags),
        )  # fmt: skip


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
