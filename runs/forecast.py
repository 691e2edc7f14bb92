"""What memory and disk a run will need, before it starts: from what is known of the table, the config and the machine.

The figures follow what `fitting`, `shards` and their requests allocate; constants were measured (the sum of
Pss_Anon + Pss_Shmem over all processes of a run: pages of mapped files are the system's to drop). Nothing is imported
that reads rows. A table that was looked at is in the cache, so reading the file is not counted.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import field

from shoal.errors import ConfigError
from shoal.files.parts import size_of
from shoal.home import home
from shoal.lazy.classes import dataclass
from shoal.results.answers.table import ColumnLook, TableLook
from shoal.runs.slots import cores
from shoal.settings.config import RunConfig
from shoal.settings.limits import (
    CHUNK_BYTES,
    HELD_BYTES,
    HOLDING,
    MB,
    MOST_EXACT,
    POLISHED_CELLS,
    SMALL_DATA,
    SOLVING,
    TEXT_COPIES,
    USUAL_POINTS,
    WIDEST_CELLS,
    block_bytes,
    cells_from_reading,
    has_gradient_way,
    keeps_sparse,
    memory_for_exact,
    shard_count,
    sparse_bytes,
    takes_rows,
    tuning_bytes,
    worker_count,
)
from shoal.settings.pairs import split_pair
from shoal.settings.strength import chooses_alpha
from shoal.utils import available_memory
from shoal.words import file_size

RUN_BASE, WORKER_BASE = 36 * MB, 22 * MB  # an interpreter with what it imports
SORTING, POLISHING = 28, 60  # bytes for each of the few values that are sorted or refined at once, measured
PROBE = 1 * MB  # counts for the median of one column, for each who counts
BUFFERS = 3 * CHUNK_BYTES  # a chunk of rows, encoded and standardised
TIGHT = 0.6  # of what is free, from which it is said


@dataclass(frozen=True)
class FreeResources:
    """What is free now: bytes of memory, bytes on the disk of SHOAL_HOME, and the number of cores."""

    memory: int
    disk: int
    cores: int

    @classmethod
    def now(cls) -> FreeResources:
        folder = home()
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        return cls(available_memory(), shutil.disk_usage(folder).free, cores())


@dataclass(frozen=True)
class TableShape:
    """A table as a run would see it. `base` columns are summed over, `design` columns are fitted."""

    rows: int
    numbers: int  # of the file, dates included
    texts: int  # of the file
    base: int
    design: int
    gaps: int  # columns with missing numbers
    plain: bool  # all columns are complete numbers, so that the sums from reading will do
    row_bytes: float  # of text

    @classmethod
    def of(cls, found: TableLook, config: RunConfig, size: int) -> TableShape:
        columns = found.named
        gone = {config.target, *config.exclude}
        wanted = [name for name in config.features or columns if name not in gone]
        used = [columns[name] for name in wanted if name in columns and not found.is_empty(columns[name])]
        numbers = [column for column in used if column.is_measured]
        levels = [_levels(c, config) for c in used if not c.is_measured and c.distinct <= config.max_levels]
        gaps = 0 if config.impute == "drop" else sum(column.missing > 0 for column in numbers)
        first = 0 if config.coding == "full" else len(levels)
        products = _products(config, {column.name: column for column in used})
        return cls(
            rows=found.rows,
            numbers=sum(column.is_measured for column in columns.values()),
            texts=sum(not column.is_measured for column in columns.values()),
            base=len(numbers) + gaps + sum(levels) + sum(base for base, _ in products),
            design=max(len(numbers) + (gaps if config.indicators else 0) + sum(levels) - first, 0)
            + sum(design for _, design in products),
            gaps=gaps,
            plain=not (levels or products or found.bad_rows.count or any(c.missing for c in numbers)),
            row_bytes=size / max(found.rows, 1),
        )

    @property
    def block_rows(self) -> int:
        return max(1, min(self.rows, math.ceil(block_bytes(self.numbers) / max(self.row_bytes, 1))))

    @property
    def blocks(self) -> int:
        """Bytes of the blocks on disk."""
        return self.rows * (8 * self.numbers + 4 * self.texts)


def _levels(column: ColumnLook, config: RunConfig) -> int:
    return column.distinct + (1 if column.missing and config.impute != "drop" else 0)


def _products(config: RunConfig, used: Mapping[str, ColumnLook]) -> list[tuple[int, int]]:
    """How many columns squares and interactions add, base and design; what cannot be had adds none."""
    found = [(1, 1) for name in config.squares if name in used and used[name].is_measured]
    for text in config.interactions:
        try:
            sides = [_ways(used[name], config) for name in split_pair(text, used)]
        except ConfigError:
            continue
        found.append((sides[0][0] * sides[1][0], sides[0][1] * sides[1][1]))
    return found


def _ways(column: ColumnLook, config: RunConfig) -> tuple[int, int]:
    """As how many columns a column goes into products: with its indicator, or one a level."""
    if column.is_measured:
        return 1 + int(column.missing > 0 and config.impute != "drop"), 1
    levels = _levels(column, config)
    return levels, max(levels - int(config.coding != "full"), 0)


@dataclass(frozen=True)
class Forecast:
    """Bytes that a run will need; `parts` says of what. `blocks` are on disk already."""

    shape: TableShape
    config: RunConfig
    machine: FreeResources
    workers: int
    memory: int
    disk: int
    refused: bool
    parts: dict[str, int] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """refused, memory or disk (there is too little of it), tight, or fine."""
        if self.refused:
            return "refused"
        if self.memory > self.machine.memory:
            return "memory"
        if self.disk > self.machine.disk:
            return "disk"
        near = self.memory > TIGHT * self.machine.memory or self.disk > TIGHT * self.machine.disk
        return "tight" if near else "fine"

    @property
    def verdict(self) -> str:
        """What it will need and what there is, in a sentence."""
        disk = f" and {readable(self.disk)} of disk" if self.disk >= MB else ""
        return f"About {readable(self.memory)} of memory{self._who}{disk}; {self.room[0].lower()}{self.room[1:]}"

    @property
    def room(self) -> str:
        """What is free of that which it needs."""
        if self.disk < MB:
            return f"{readable(self.machine.memory)} of memory is free."
        return f"{readable(self.machine.memory)} of memory and {readable(self.machine.disk)} of disk are free."

    @property
    def _who(self) -> str:
        return f" on {self.workers} worker{'s' if self.workers > 1 else ''}" if self.workers else ""

    @property
    def advice(self) -> str:
        """What to do about it; empty where all is well."""
        return {
            "refused": self._unrefuse,
            "memory": self._less_memory,
            "disk": self._less_disk,
            "tight": _when_tight,
        }.get(self.state, lambda: "")()

    def _unrefuse(self) -> str:
        if keeps_sparse(self.config):
            need = readable(self.parts["solving"])
            said = f"Its values take {need}, more than three quarters of the free memory, and are refused."
            return f"{said} Use fewer columns."
        need = readable((2 + SOLVING) * self.parts["sums"])
        said = f"Matrices of all columns take {need}, more than three quarters of the free memory, and are refused."
        other = "Use gradient steps, which need no such matrix, or fewer columns."
        return f"{said} {other if has_gradient_way(self.config, self.shape.base) else 'Use fewer columns.'}"

    def _less_memory(self) -> str:
        ways = ["use fewer columns (a text column becomes one for each of its levels)"]
        if has_gradient_way(self.config, self.shape.base):
            ways.insert(0, "use gradient steps")
        if self.workers > 1:
            ways.insert(0, "use fewer workers")
        return f"This will not fit into the free memory: {', or '.join(ways)}."

    def _less_disk(self) -> str:
        return (
            "This will not fit on the disk: gradient steps keep a copy of the rows. Solve exactly, which needs none, "
            "use fewer columns, or free some space on the System page."
        )


def _when_tight() -> str:
    return "That is most of what is free: other programs may become slow."


def forecast(found: TableLook, config: RunConfig, machine: FreeResources | None = None) -> Forecast:
    """Of a run with this config on the table that an inspection `found`."""
    machine = machine or FreeResources.now()
    size = size_of(config.file)
    shape = TableShape.of(found, config, size)
    workers = worker_count(config, size, machine.cores)
    gradient = config.solver == "gradient"
    by_rows = not gradient and not keeps_sparse(config) and takes_rows(config, shape.rows, shape.base, machine.memory)
    sparse = keeps_sparse(config) and not gradient
    wide = by_rows or sparse or (gradient and shape.base > MOST_EXACT)
    copies = _copies(shape, config) if gradient else {}
    square = 8 * (shape.base + 1) * (shape.base + 2)
    by_all_rows = _sparsely(shape) if sparse else _from_rows(shape, config) if by_rows else 0
    solving = by_all_rows if wide else SOLVING * square
    parts = {
        "programs": RUN_BASE + workers * WORKER_BASE,
        "solving": solving,
        "rows": max(workers, 1) * (_at_work(shape, config, wide) + copies.get("worker", 0)) + _at_once(shape, config),
        "medians": (max(workers, 1) + 2) * shape.gaps * PROBE if config.impute == "median" else 0,
        "weights": copies.get("board", 0),
    }
    return Forecast(
        shape, config, machine, workers,
        memory=sum(parts.values()),
        disk=copies.get("disk", 0),
        refused=(solving if sparse else 0 if wide else (2 + SOLVING) * square) > memory_for_exact(machine.memory),
        parts={**parts, "sums": square, "blocks": shape.blocks, "copy": copies.get("disk", 0)},
    )  # fmt: skip


def _sparsely(shape: TableShape) -> int:
    """Of a fit that fills in no zeros: at most one value a row for each column of the file."""
    return sparse_bytes(shape.rows * (shape.numbers + shape.texts), TEXT_COPIES * shape.base, shape.rows)


def _from_rows(shape: TableShape, config: RunConfig) -> int:
    """Of a fit that holds all rows, and of the choice of its penalty, where nobody named one and it takes seconds."""
    values = shape.rows * shape.base
    chosen = config.alpha is None and chooses_alpha(config) and values <= WIDEST_CELLS
    return max(HOLDING * 8 * values, tuning_bytes(shape.rows, shape.base, USUAL_POINTS) if chosen else 0)


def _at_work(shape: TableShape, config: RunConfig, wide: bool) -> int:
    """Of one who sums over the rows of a block: the rows at hand, the sums so far and those of the last chunk."""
    if wide or _has_sums(shape, config):
        return BUFFERS
    kinds = 2 if config.test_every or config.test_fraction else 1
    return BUFFERS + 2 * kinds * 8 * (shape.base + 1) ** 2


def _has_sums(shape: TableShape, config: RunConfig) -> bool:
    """Whether the sums that were made while reading serve this fit."""
    cells = cells_from_reading(shape.numbers, test_every=0)  # a table is looked at before its split is chosen
    if not shape.plain or config.test_fraction or not cells:
        return False
    return not config.test_every or cells % config.test_every == 0


def _at_once(shape: TableShape, config: RunConfig) -> int:
    """What the run's own process does with all rows of small data at once."""
    values = shape.rows * shape.design
    if values > POLISHED_CELLS:
        return 0
    polishes = config.solver == "exact" and config.model == "linear" and shape.block_rows >= shape.rows
    return values * (POLISHING if polishes else SORTING if config.impute == "median" else 0)


def _copies(shape: TableShape, config: RunConfig) -> dict[str, int]:
    """Of a gradient run: the copy of the rows on disk (twice while it is made), and what making it takes in memory."""
    item = {"float32": 4, "float64": 8}.get(config.precision) or (8 if shape.rows * shape.design <= SMALL_DATA else 4)
    row = (shape.design + 1) * item
    share = 1 / config.test_every if config.test_every else config.test_fraction
    training = math.ceil(shape.rows * (1 - share))
    held = min(math.ceil(shape.rows * share) * row, HELD_BYTES)
    shards = shard_count(training, row, config.shards)
    kept = (config.keep_checkpoints + 12) * 8 * shape.design * (3 + (shards if config.compression != "none" else 0))
    return {
        "disk": 2 * (training * row + held) + kept,
        "worker": shape.block_rows * row + max(training * row // shards, held),
        "board": 8 * shape.design * (8 + 3 * shards),
    }


def readable(count: float) -> str:
    """Bytes that are an estimate."""
    return file_size(count) if count >= 0.995e6 else "less than 1 MB"
