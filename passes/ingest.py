"""A file read into a data set: who reads which range, and what its blocks add up to, added in their order."""

from __future__ import annotations

import dataclasses
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
from shoal.data.dataset import (
    LEVELS,
    BadLine,
    Block,
    Column,
    Dataset,
    Manifest,
    Stretch,
    archived,
    archived_moments,
    archived_texts,
    block_path,
    medians,
    shared_flags,
    text_column,
)
from shoal.data.files import Identity, Source, file_format, spool
from shoal.data.first_look.refusals import endless_message, ragged_message
from shoal.data.first_look.rereading import otherwise
from shoal.data.first_look.source import inspect_text
from shoal.data.first_look.totals import without_totals
from shoal.data.formats.mended import stray_quote_notes
from shoal.data.formats.plugin_text import reader_question
from shoal.data.kinds import Wanted
from shoal.data.notation.dates import ORDERS, either_order
from shoal.data.notation.styles import order_of
from shoal.data.notation.words import MOST
from shoal.data.parquet_reader import inspect_parquet, row_groups
from shoal.data.recipes.sources import add_sources, as_found, as_plain, source_key, write_sources
from shoal.data.texts.levels import LevelTable, check_texts, level_limit
from shoal.errors import BadRowsError, DataError, SourceChanged
from shoal.files.checksums import Seal
from shoal.files.remote import at_any_place, place, remote_file
from shoal.home import DATA_FORMAT
from shoal.kernels.csv_kernel import FieldKind
from shoal.models import Array
from shoal.passes.blocks import ReadRange, ReadRowGroup
from shoal.settings.config import RunConfig
from shoal.settings.limits import cells_from_reading, keeps_sparse
from shoal.solve.moments import Merger, rotate
from shoal.utils import Progress, disk_errors
from shoal.worker import Request

Sweep = Callable[[Sequence[Request]], Iterator[Any]]  # the reports of requests, in their order

SAMPLED = 1 << 21  # numbers of sampled rows that are held at most
SHOWN = 1000  # bad rows that are located one by one


class Ingest:
    """What the blocks of one file add up to; blocks are added in order."""

    def __init__(self, source: Source, residues: int) -> None:
        self.source, self.residues = source, residues
        self.position, self.lines, self.rows = source.data_start, 0, 0
        self.blocks: list[Block] = []
        self.bad: list[BadLine] = []
        self.bad_count = 0
        layout = source.layout
        self.missing = np.zeros(len(layout.numbers), np.int64)
        self.least = np.full(len(layout.numbers), math.inf)
        self.greatest = -self.least
        self.largest_square = 0.0
        self.leading_zeros = np.zeros(len(layout.names), np.int64)
        self.tables = [LevelTable(level_limit(layout.names[i], layout.many)) for i in layout.levels]
        self.block_levels: list[list[npt.NDArray[np.int32]]] = []  # by block and column: its codes to those of `seen`
        self.contents: list[int] = []
        self.words: dict[int, Counter[str]] = {}
        self.unsettled = dict(layout.others)
        self.repeated = 0
        self.cells: list[Merger] = []
        self.samples, self.sampled_every = list[Array](), 1  # rows of every so many blocks
        self.source_key = source_key(source)

    def requests(self, directory: Path) -> Iterator[ReadRange | ReadRowGroup]:
        if file_format(place(self.source.path)) == "parquet":
            for group in range(row_groups(place(self.source.path), self.source.layout)):
                target = str(block_path(directory, group))
                yield ReadRowGroup(self.source, group, target, self.residues, self._origin(group).name)
            return
        for index, (begin, end) in enumerate(self.source.ranges()):
            exact, target = begin if index == 0 else None, str(block_path(directory, index))
            yield ReadRange(self.source, begin, end, exact, target, self.residues, self._origin(begin).name)

    def _origin(self, begin: int, end: int = 0, first: int = 0) -> Stretch:
        return Stretch(self.source_key, begin, end, first)

    def origin_of(self, request: ReadRange | ReadRowGroup, report: BlockReport) -> Stretch:
        if isinstance(request, ReadRange):
            return self._origin(request.begin, request.end, report.begin)
        return self._origin(request.group, request.group + 1)

    def add(self, report: BlockReport, origin: Stretch) -> None:
        index, unread = len(self.blocks), tuple(report.bad_places)
        self.blocks.append(Block(index, self.rows, report.rows, unread, report.checksum, (origin,)))
        for bad in report.bad_rows[: SHOWN - len(self.bad)]:
            self.bad.append(BadLine(self.source.first_line + self.lines + bad.line, bad.what))
        self.bad_count += report.bad_count
        if report.cells:
            self.cells = self.cells or [Merger() for _ in report.cells]
            for cell, part in zip(self.cells, rotate(report.cells, self.rows), strict=True):
                cell.add(part)
        self._keep_sample(index, report.sample)
        self.missing += report.missing
        self.least = np.fmin(self.least, report.least)
        self.greatest = np.fmax(self.greatest, report.greatest)
        self.largest_square = max(self.largest_square, report.largest_square)
        self.leading_zeros += np.array(report.leading_zeros or [0] * len(self.leading_zeros))
        found = report.levels or [[] for _ in self.tables]
        none = [0] * len(found)
        counts = zip(report.level_missing or none, report.refused or none, strict=True)
        parts = zip(self.tables, found, counts, strict=True)
        self.block_levels.append([table.add(levels, *count) for table, levels, count in parts])
        check_texts(self.tables)
        self.repeated += report.repeated
        for column, words in report.words.items():
            self.words.setdefault(column, Counter()).update(words)
        for column, styles in report.unsettled.items():
            self.unsettled[column] = tuple(style for style in self.unsettled[column] if style in styles)
        self.contents.append(report.content)
        self.position, self.lines, self.rows = report.end, self.lines + report.lines, self.rows + report.rows

    def _keep_sample(self, index: int, rows: Array) -> None:
        if index % self.sampled_every == 0:
            self.samples.append(rows)
        if len(self.samples) > 1 and sum(part.size for part in self.samples) > SAMPLED:
            self.samples, self.sampled_every = self.samples[::2], 2 * self.sampled_every

    def finish(self, directory: Path, path: str) -> str:
        """Write what completes the data set; returns its key."""
        levels, moments, columns = self._write_levels(directory), self._write_moments(directory), self._columns()
        content = digest([self.source.size, self.contents])
        layout = self.source.layout
        kinds = [int(kind) for kind in layout.kinds]
        examples = {i: notation.example for i, notation in layout.notations.items()}
        head = [  # not among the hashed ranges; what is said of one file is not said of another
            layout.names, layout.styles, examples, dict(layout.absent), self.source.data_start,
            *([layout.order] if layout.order else []), *([["many", *sorted(layout.many)]] if layout.many else []),
            *([["limits", *sorted(layout.limits.items())]] if layout.limits else []),
            *([["one_spelling", *sorted(layout.one_spelling)]] if layout.one_spelling else []),
            *([self.source.notes] if self.source.notes else []),
        ]  # fmt: skip
        key = digest([DATA_FORMAT, content, self.source.dialect.as_dict(), kinds, head, self.residues])
        manifest = Manifest(
            source=path, size=self.source.size, dialect=self.source.dialect.as_dict(), columns=columns,
            blocks=tuple(self.blocks), bad_rows=tuple(self.bad), bad_count=self.bad_count,
            largest_norm=math.sqrt(self.largest_square), content=content, levels=levels, moments=moments,
            texts=archived_texts(directory, columns),
            scattered=not all(block_path(directory, block.index).exists() for block in self.blocks),
            repeated=self.repeated, notes=(*self.source.notes, *self._about_rows()),
        )  # fmt: skip
        write_sources(directory, key, {self.source_key: as_plain(self.source)})
        manifest.write(directory, key)
        return key

    def _about_rows(self) -> list[str]:
        """What is known once all rows are read."""
        texts = {
            self.source.layout.names[i]: t.seen for i, t in zip(self.source.layout.levels, self.tables, strict=True)
        }
        stray = stray_quote_notes(texts, self.source.dialect.quote)
        return [*stray, *repeated_notes(self.repeated), *self._either_order()]

    def _either_order(self) -> list[str]:
        layout = self.source.layout
        return [
            either_order(layout.names[i], layout.written[i], [order_of(style) for style in styles])
            for i, styles in self.unsettled.items() if styles and layout.kinds[i] == FieldKind.DATE
        ]  # fmt: skip

    def _write_levels(self, directory: Path) -> Seal:
        maps = {}
        for slot, table in enumerate(self.tables):
            ranks, none = table.ranks(), np.full(2, -1, np.int32)
            for block, places in enumerate(self.block_levels):
                maps[f"{block}.{slot}"] = np.concatenate((ranks[places[slot]], none))
        return archived(directory / LEVELS, **maps)

    def _write_moments(self, directory: Path) -> Seal | None:
        return archived_moments(directory, [cell.total() for cell in self.cells])

    def _columns(self) -> tuple[Column, ...]:
        layout, slots = self.source.layout, self.source.layout.slots()
        made, middles = [], medians(self.samples, len(self.missing))
        for i in layout.columns:
            name, kind, slot = layout.names[i], layout.kinds[i], int(slots[i])
            if kind == FieldKind.LEVEL:
                table = dataclasses.replace(self.tables[slot], missing=self.tables[slot].missing - self.bad_count)
                made.append(text_column(name, slot, table, self.rows - self.bad_count, i in layout.without_na))
            elif kind != FieldKind.SKIP:
                made.append(self._number_column(i, slot, middles[slot]))
        return tuple(made)

    def _number_column(self, column: int, slot: int, middle: float | None) -> Column:
        layout, rows = self.source.layout, self.rows - self.bad_count
        missing = int(self.missing[slot]) - self.bad_count  # unread rows are counted as such
        low, high = float(self.least[slot]), float(self.greatest[slot])
        flags = shared_flags(missing, rows, low == high)
        if self.leading_zeros[column]:
            flags.append("leading_zeros")
        notation = layout.notations.get(column)
        return Column(
            layout.names[column], "datetime" if layout.kinds[column] == FieldKind.DATE else "numeric", slot, missing,
            low if missing < rows else None, high if missing < rows else None, flags=tuple(flags),
            written=notation.example if notation else layout.written.get(column, ""),
            orders=tuple(ORDERS[order_of(style)] for style in self.unsettled.get(column, ())),
            words=tuple(self.words.get(column, Counter()).most_common(MOST)) if missing < rows else (),
            middle=middle,
        )  # fmt: skip


def repeated_notes(count: int) -> list[str]:
    if not count:
        return []
    rows = "1 row, which is" if count == 1 else f"{count:,} rows, which are"
    return [f"The names of the columns come again in {rows} left out."]


# ------------------------------------------------------------------ from file to data set


class FileReading:
    """One file, to be read as a config says by whoever answers `sweep`; what was read before is found in the cache."""

    def __init__(
        self, config: RunConfig, cache: Cache, sweep: Sweep, progress: Progress, wanted: Wanted | None = None
    ) -> None:
        self.config, self.cache, self.sweep, self.progress = config, cache, sweep, progress
        self.wanted = wanted  # None for all columns
        self.path = place(config.file)

    def dataset(self) -> Dataset:
        """The cached one if the file is what it was, else read now."""
        identity, question = self.identity(), self.question()
        found = self.cache.find(question, identity)
        if found is None:
            found = self._read(question, identity)
        found.repairs = tuple(self.cache.repairs)
        return found

    def identity(self) -> dict[str, Any]:
        """What tells this state of the file from others."""
        return dataclasses.asdict(Identity.of(self.path))

    def check_unchanged(self, identity: Mapping[str, Any]) -> None:
        if self.identity() != identity:
            raise SourceChanged(
                f"'{self.path.name}' changed while it was read. Wait until it is complete, then try again."
            )

    def _read(self, question: Mapping[str, Any], identity: Mapping[str, Any]) -> Dataset:
        with self.cache.workshop() as directory, disk_errors():
            whole, key = self._ingest(directory)
            self.check_unchanged(identity)
            sources = as_found(whole, key)
            dataset = self.cache.commit(whole, key)
            add_sources(dataset.directory, sources)
            self.cache.remember(question, identity, key)
        return dataset

    def is_cached(self) -> bool:
        """Whether the file is there and still what it was when it was read."""
        try:
            identity = self.identity()
        except DataError:
            return False
        return self.cache.find(self.question(), identity) is not None

    def question(self) -> dict[str, Any]:
        asked = _question(self.path, self.config)
        if self.wanted is not None:
            asked |= {"only": sorted(self.wanted.columns), "written": dict(sorted(self.wanted.written.items()))}
            return {**asked, "many": sorted(self.wanted.many)} if self.wanted.many else asked
        if keeps_sparse(self.config):
            names = ("features", "exclude", "target", "weights")
            asked |= {"many": {name: getattr(self.config, name) for name in names}}
        return asked

    def many(self, names: Sequence[str]) -> frozenset[str]:
        """The columns of which all different texts are told apart."""
        config = self.config
        if self.wanted is not None:
            return self.wanted.many & {*names}
        if not keeps_sparse(config):
            return frozenset()
        gone = {*config.exclude, config.target, config.weights}
        return frozenset(name for name in config.features or names if name in names and name not in gone)

    def _ingest(self, directory: Path) -> tuple[Path, str]:
        """Read the file into `directory`; if a column turns out to be of another kind, once more with that known.

        Each attempt has a folder of its own: a worker may still be writing a block of the one that was given up.
        """
        source = self.source(directory)
        for number in itertools.count():
            attempt = directory / f"attempt{number}"
            attempt.mkdir()
            reading = Ingest(source, cells_from_reading(len(source.layout.numbers), self.config.test_every))
            strangers = self._read_all(reading, attempt)
            if not strangers:
                break
            names = [source.layout.names[i] for i in strangers]
            source = otherwise(source, strangers)
            self.progress(f"reading again: {', '.join(names)} is written in another way", 0.0)
        if source.path.startswith(str(directory)):
            Path(source.path).unlink()
        return attempt, reading.finish(attempt, str(self.path))

    def source(self, directory: Path) -> Source:
        return self.readable(self.head(), directory)

    def head(self, marks: Mapping[str, Any] | None = None) -> Source:
        """What the first bytes of the file tell, with some marks of its dialect given."""
        self.progress("looking at the file", 0.0)
        path, config, given = self.path, self.config, {**self.config.dialect, **(marks or {})}
        if file_format(path) == "parquet":
            own = config.also_missing, config.one_spelling
            source = inspect_parquet(path, config.categorical, config.numeric, self.wanted, *own)
        else:
            source = inspect_text(path, given, config.categorical, config.numeric, self.wanted)
        layout = dataclasses.replace(source.layout, many=self.many(source.layout.names))
        source = dataclasses.replace(source, layout=layout)
        return dataclasses.replace(source, path=file.stamped) if (file := remote_file(path)) else source

    def readable(self, source: Source, directory: Path) -> Source:
        """The same, or its text in the folder where it cannot be read at any place; without totals at its end."""
        kind = file_format(self.path)
        if kind == "parquet":
            return source
        if kind == "csv" and not source.dialect.rewrites and at_any_place(self.path):
            return without_totals(source, self.wanted is not None)
        plain = directory / "plain" / self.path.name
        plain.parent.mkdir()
        spool(self.path, source.dialect, plain, lambda part: self.progress("unpacking", part))
        start = source.data_start + (_mark_length(plain) if source.dialect.rewrites else 0)
        source = dataclasses.replace(source, path=str(plain), size=plain.stat().st_size, data_start=start)
        return without_totals(source, self.wanted is not None)

    def _read_all(self, reading: Ingest, directory: Path) -> list[int]:
        """Fold all blocks in; returns the columns that are of another kind than was thought, if any."""
        requests = list(reading.requests(directory))
        reports: Iterator[BlockReport] = self.sweep(requests)
        for index, report in enumerate(reports):
            if strangers := fold(reading, requests[index], report, self.sweep):
                return strangers
            self.progress("reading", (index + 1) / len(requests))
        return []


def fold(reading: Ingest, request: ReadRange | ReadRowGroup, report: BlockReport, sweep: Sweep) -> list[int]:
    """Add the next block; where columns are of another kind than was thought, they are returned and it is not added."""
    if isinstance(request, ReadRange) and report.begin != reading.position:
        # The guess of where a row starts was wrong (a quoted newline): the block before knows better.
        (report,) = sweep([dataclasses.replace(request, exact=reading.position)])
    if report.not_of_kind:
        return report.not_of_kind
    if report.endless:
        raise BadRowsError(endless_message(reading.source, reading.lines, report))
    if report.too_ragged:
        raise BadRowsError(ragged_message(reading.source, reading.lines, report))
    reading.add(report, reading.origin_of(request, report))
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
