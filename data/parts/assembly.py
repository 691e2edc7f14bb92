"""The data set of a table from those of its parts: rows stay where they are, sums and levels are merged.

Large blocks are the parts' own files under another name; small ones in a row are put together, since every pass over a
table pays for each block. Reading belongs to `passes`.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shoal.data.block_reader import write_block
from shoal.data.cache import digest
from shoal.data.dataset import (
    LEVELS,
    BadLine,
    Block,
    Column,
    Dataset,
    Manifest,
    TablePart,
    archived,
    archived_moments,
    archived_texts,
    block_path,
    shared_flags,
    text_column,
)
from shoal.data.notation.dates import ORDERS, either_order
from shoal.data.notation.words import MOST
from shoal.data.recipes.remaking import at_hand
from shoal.data.recipes.sources import read_sources, write_sources
from shoal.data.texts.levels import LevelTable, check_texts, level_limit
from shoal.home import DATA_FORMAT
from shoal.settings.limits import BLOCK_BYTES
from shoal.solve.moments import Merger, Moments, by_residue, rotate
from shoal.words import listed

SHOWN = 1000  # bad rows that are located one by one
Piece = tuple[int, Block]  # a block of a part, by the part's number


class Assembly:
    """Data sets of one layout, by their folders in their order, on the way to being one.

    One of them is open at a time: each takes descriptors of this process, and there may be thousands.
    """

    def __init__(
        self, folders: Sequence[Path], paths: Sequence[Path], residues: int, many: Container[str] = ()
    ) -> None:
        """`many`: columns of which all different texts are told apart, however many."""
        self.folders, self.paths, self.residues, self.many = folders, paths, residues, many
        self.parts = [Manifest.read(folder) for folder in folders]
        self.columns = [{column.name: column for column in part.columns} for part in self.parts]
        first = self.parts[0].columns
        self.numbers = [column.name for column in first if column.is_number]
        self.texts = sorted((column for column in first if not column.is_number), key=lambda column: column.slot)
        self.rows, self.bad = sum(part.rows for part in self.parts), sum(part.bad_count for part in self.parts)
        self.starts = np.cumsum([0, *(part.rows for part in self.parts)]).tolist()
        self.tables = [self._levels(column.name) for column in self.texts]
        self.level_maps: dict[str, npt.NDArray[np.int32]] = {}
        self._opened: tuple[int, Dataset, list[npt.NDArray[np.int32]]] | None = None

    def write(self, directory: Path, source: str, notes: Sequence[str], left_out: Mapping[str, str]) -> str:
        """Write the data set into an empty folder; returns its key. `left_out`: columns of some parts, and why."""
        blocks = tuple(self._blocks(directory))
        content = digest(["parts", *([part.size, part.content] for part in self.parts)])
        # Where the files lie and what is said of that is in the manifest, so the same rows elsewhere are another one.
        where = [source, *map(str, self.paths), *notes]
        key = digest([DATA_FORMAT, content, [folder.name for folder in self.folders], self.residues, where])
        columns = tuple(self._columns())
        manifest = Manifest(
            source=source, size=sum(part.size for part in self.parts), dialect=self.parts[0].dialect, columns=columns,
            blocks=blocks, bad_rows=self._bad_rows(), bad_count=self.bad,
            largest_norm=max(part.largest_norm for part in self.parts), content=content,
            levels=archived(directory / LEVELS, **self.level_maps), texts=archived_texts(directory, columns),
            moments=archived_moments(directory, self._cells()), notes=(*notes, *either_orders(columns)),
            scattered=not all(block_path(directory, block.index).exists() for block in blocks),
            repeated=sum(part.repeated for part in self.parts), left_out=dict(left_out),
            parts=tuple(
                TablePart(str(path), part.size, part.rows, part.content)
                for path, part in zip(self.paths, self.parts, strict=True)
            ),
        )  # fmt: skip
        sources = {name: found for folder in self.folders for name, found in read_sources(folder).items()}
        write_sources(directory, key, sources)
        manifest.write(directory, key)
        return key

    def _open(self, number: int) -> tuple[Dataset, list[npt.NDArray[np.int32]]]:
        """A part, and for each column of texts the way from its codes to the table's."""
        if self._opened is None or self._opened[0] != number:
            part = at_hand(self.folders[number])
            maps = [
                LevelTable.codes_of(column.levels, table)
                for column, table in zip(part.level_columns, self.places, strict=True)
            ]
            self._opened = number, part, maps
        return self._opened[1:]

    # -------------------------------------------------------------- levels

    def _levels(self, name: str) -> LevelTable:
        table = LevelTable(level_limit(name, self.many))
        for columns in self.columns:
            column = columns[name]
            table.add(column.levels, column.missing, int(column.more_levels))
            check_texts([table])
        return table

    @cached_property
    def places(self) -> list[dict[str, int]]:
        return [{level: i for i, level in enumerate(table.sorted())} for table in self.tables]

    # -------------------------------------------------------------- blocks

    def _blocks(self, directory: Path) -> Iterator[Block]:
        for index, group in enumerate(self._groups()):
            first = self.starts[group[0][0]] + group[0][1].first
            if len(group) == 1:
                yield self._linked(directory, index, first, *group[0])
            else:
                yield self._joined(directory, index, first, group)

    def _groups(self) -> Iterator[list[Piece]]:
        """Blocks in a row that are one block together: by their sizes only, so that the same parts give the same."""
        row = 8 * len(self.numbers) + 4 * len(self.texts)
        group: list[Piece] = []
        size = 0
        for number, part in enumerate(self.parts):
            for block in part.blocks:
                if not block.rows:
                    continue
                if group and size + block.rows * row > BLOCK_BYTES:
                    yield group
                    group, size = [], 0
                group.append((number, block))
                size += block.rows * row
        if group:
            yield group

    def _linked(self, directory: Path, index: int, first: int, number: int, block: Block) -> Block:
        """The part's own file under another name."""
        part, maps = self._open(number)
        if part.make is None or block_path(part.directory, block.index).exists():
            link(block_path(part.directory, block.index), block_path(directory, index))
        for slot, into in enumerate(maps):
            self.level_maps[f"{index}.{slot}"] = into[part.level_map(block, slot)]
        return Block(index, first, block.rows, block.bad, block.checksum, block.origins)

    def _joined(self, directory: Path, index: int, first: int, group: Sequence[Piece]) -> Block:
        rows = sum(block.rows for _, block in group)
        numbers = np.empty((rows, len(self.numbers)))
        codes = np.empty((len(self.tables), rows), np.int32)
        bad: list[int] = []
        at = 0
        for number, block in group:
            part, maps = self._open(number)
            numbers[at : at + block.rows] = part.numbers(block)
            for slot, into in enumerate(maps):
                codes[slot, at : at + block.rows] = into[part.codes(block, slot)]
            bad += [at + row for row in block.bad]
            at += block.rows
        proof = write_block(str(block_path(directory, index)), numbers, codes)
        for slot, table in enumerate(self.tables):
            self.level_maps[f"{index}.{slot}"] = np.array([*range(len(table.seen)), -1, -1], np.int32)
        origins = tuple(origin for _, block in group for origin in block.origins)
        return Block(index, first, rows, tuple(bad), proof.checksum, origins)

    # -------------------------------------------------------------- sums

    def _cells(self) -> list[Moments]:
        """The sums by row index of the table; of small parts, which keep none, they are made here."""
        if not self.residues:
            return []
        totals = [Merger() for _ in range(self.residues)]
        for number, start in enumerate(self.starts[:-1]):
            for first, cells in self._cells_of(self._open(number)[0]):
                for total, cell in zip(totals, rotate(cells, start + first), strict=True):
                    total.add(cell)
        return [total.total() for total in totals] if self.rows else []

    def _cells_of(self, part: Dataset) -> Iterator[tuple[int, list[Moments]]]:
        if part.rows and len(part.cells) == self.residues:
            yield 0, part.cells
            return
        for block in part.blocks:
            if block.rows:
                yield block.first, by_residue(part.numbers(block), self.residues)

    # -------------------------------------------------------------- columns

    def _columns(self) -> Iterator[Column]:
        for column in self.parts[0].columns:
            if column.is_number:
                yield self._number_column(column)
            else:
                yield text_column(column.name, column.slot, self.tables[column.slot], self.rows - self.bad)

    def _number_column(self, column: Column) -> Column:
        own = [columns[column.name] for columns in self.columns]
        rows, missing = self.rows - self.bad, sum(one.missing for one in own)
        low = min((one.minimum for one in own if one.minimum is not None), default=None)
        high = max((one.maximum for one in own if one.maximum is not None), default=None)
        flags = shared_flags(missing, rows, low is not None and low == high)
        if any("leading_zeros" in one.flags for one in own):
            flags.append("leading_zeros")
        words: Counter[str] = Counter()
        for one in own:
            words.update(dict(one.words))
        dated = [one for one in own if one.minimum is not None] or own
        orders = [order for order in dated[0].orders if all(order in one.orders for one in dated)]
        return Column(
            column.name, column.type, column.slot, missing, low, high, flags=tuple(flags),
            written=next((one.written for one in own if one.written), ""), orders=tuple(orders),
            words=tuple(words.most_common(MOST)) if missing < rows else (), middle=_middle(own),
        )  # fmt: skip

    def _bad_rows(self) -> tuple[BadLine, ...]:
        named = (
            bad._replace(part=path.name)
            for path, part in zip(self.paths, self.parts, strict=True) for bad in part.bad_rows
        )  # fmt: skip
        return tuple(bad for bad, _ in zip(named, range(SHOWN), strict=False))


def _middle(own: Sequence[Column]) -> float | None:
    """Of the middles of the parts, which are medians of some rows each."""
    known = [one.middle for one in own if one.middle is not None]
    return float(np.median(known)) if known else None


def link(old: Path, new: Path) -> None:
    """The same file under another name or, where the disk cannot do that, a copy."""
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)


def linked(part: Path, place: Path) -> Path:
    """All files of a data set once more, in a folder of the same name."""
    place.mkdir(exist_ok=True)
    for file in part.iterdir():
        link(file, place / file.name)
    return place


def prove(part: Dataset) -> None:
    """Compare all of a kept data set with its checksums: its files become those of another one."""
    part.check_sizes()
    for block in part.blocks:
        if part.manifest.scattered and not block_path(part.directory, block.index).exists():
            continue  # it is on another machine
        part.numbers(block)
        for slot in range(len(part.level_columns)):
            part.level_map(block, slot)
    _ = part.cells


def either_orders(columns: Sequence[Column]) -> list[str]:
    """What is to be said of columns whose dates could be read in several orders."""
    return [
        either_order(column.name, column.written, [ORDERS.index(order) for order in column.orders])
        for column in columns if column.orders
    ]  # fmt: skip


def combined_notes(
    names: Sequence[str], notes: Sequence[Sequence[str]], rowless: Collection[str] = (), most: int = 12
) -> list[str]:
    """What is to be said of all parts that have rows once, of others with the names of those that it is about."""
    about: dict[str, list[str]] = {}
    for name, own in zip(names, notes, strict=True):
        for note in dict.fromkeys(own):
            about.setdefault(note, []).append(name)
    having = [name for name in names if name not in rowless]
    everywhere = [note for note, found in about.items() if having and set(having) <= set(found)]
    some = [f"{_those(found, having)}: {note}" for note, found in about.items() if note not in everywhere]
    more = len(some) - most
    return [*everywhere, *some[:most], *([f"And {more:,} more such notes on single files."] if more > 0 else [])]


def _those(found: Sequence[str], having: Sequence[str]) -> str:
    """Some of the parts: by their names, or by those of the others where these are few."""
    others = [name for name in having if name not in found]
    if len(found) > 3 and len(others) <= 3:
        return f"All files but {listed(others)}"
    return listed(found, 3)


def residues_kept(numbers: int, residues: int, size: int) -> int:
    """Cells of sums that a part keeps of its own: none if they would take more room than its text."""
    return residues if 8 * numbers * (numbers + 1) * residues <= size else 0
