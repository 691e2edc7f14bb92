"""What the blocks of one file add up to: rows, columns, levels, moments and a manifest; blocks are added in order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from shoal.data.block_reader import BlockReport
from shoal.data.cache import digest
from shoal.data.dataset import FORMAT, Block, Column, LevelTable, Manifest, block_path
from shoal.data.files import Source, file_format
from shoal.data.parquet_reader import row_groups
from shoal.home import MANIFEST
from shoal.kernels.csv_kernel import FieldKind
from shoal.passes.blocks import ReadRange, ReadRowGroup
from shoal.solve.moments import Merger, rotate

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
            if kind == FieldKind.LEVEL:
                made.append(_text_column(name, slot, self.tables[slot], self.rows, self.bad_count))
            elif kind != FieldKind.SKIP:
                made.append(self._number_column(name, kind, slot, int(self.leading_zeros[i])))
        return tuple(made)

    def _number_column(self, name: str, kind: FieldKind, slot: int, leading_zeros: int) -> Column:
        missing = int(self.missing[slot]) - self.bad_count  # unread rows are counted as such
        low, high = float(self.least[slot]), float(self.greatest[slot])
        rows = self.rows - self.bad_count
        flags = _shared_flags(missing, rows, low == high)
        if leading_zeros:
            flags.append("leading_zeros")
        return Column(
            name, "numeric" if kind == FieldKind.NUMBER else "datetime", slot, missing,
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


def ragged_message(reading: Ingest, report: BlockReport) -> str:
    first = report.bad_rows[0]
    line = reading.source.first_line + reading.lines + first.line
    return (
        f"Most rows do not have the {len(reading.source.layout.names)} fields of the table: line {line}: {first.what}. "
        "Check the delimiter and the quotes, and give them if they were not found right."
    )
