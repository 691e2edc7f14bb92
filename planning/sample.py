"""The table that is planned for, and a small one in its place: some rows of the file, or rows that are made up."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.files import file_format
from shoal.data_pipeline import Shards
from shoal.errors import ConfigError, DataError
from shoal.lazy.classes import dataclass
from shoal.metrics import Timings
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.training.objectives.shards import derive
from shoal.training.objectives.squares import SquaredObjective, squared_objective
from shoal.training.resolving import chosen_precision

VALUES = 600_000  # of the small table: a gradient of all of it takes less than a millisecond
FEWEST, MOST = 4096, 20_000  # its rows
WIDEST = 400  # its columns, where they are made up: more cost time, and behave alike
PIECES = 8  # places of a file that rows are taken from
SHAPE = re.compile(r"([\d_,]+)\s*[xX×]\s*([\d_,]+)")
TARGET = "y"


@dataclass(frozen=True)
class PlannedTable:
    """Rows, columns of the design and bytes of text of the table that is asked for."""

    name: str
    rows: int
    columns: int
    nbytes: int


@dataclass(frozen=True)
class SmallTable:
    """The table that gradients are really computed on: a file, and how many of the other's rows one stands for."""

    path: Path
    config: RunConfig
    planned: PlannedTable
    whole: bool  # it is the table itself


@dataclass(frozen=True)
class ReadyTable:
    """The small table as runs need it."""

    table: PlannedTable
    objective: SquaredObjective
    precision: str
    whole: bool
    coordinator: Coordinator

    def shards(self, count: int) -> Shards:
        """The rows in so many shards; where few stand for many, all of them in one."""
        prepared = self.objective.prepared
        return derive(
            self.coordinator, prepared.dataset, prepared.encoding, prepared.split, self.objective.units,
            shards=count if self.whole else 1, dtype=self.precision, partition=self.objective.config.partition,
        )  # fmt: skip

    def planned(self, sample: Shards, count: int, rows: int) -> Shards:
        """Shards of the table that is asked for, or of one with so many rows; what is in them is the sample's."""
        if self.whole:
            return sample
        if self.objective.config.partition == "hash":  # at random: they differ a little, and the longest sets the steps
            dealt = np.random.default_rng(count).multinomial(rows, np.full(count, 1 / count))
            return replace(sample, rows=tuple(max(1, int(n)) for n in dealt))
        each, longer = divmod(rows, count)
        return replace(sample, rows=tuple(each + (shard < longer) for shard in range(count)))


def made_up(shape: str, config: RunConfig, folder: Path) -> SmallTable | None:
    """A table of ROWSxCOLUMNS standard normals; None where the text is no such shape."""
    found = SHAPE.fullmatch(shape.strip())
    if found is None:
        return None
    rows, columns = (int(part.replace("_", "").replace(",", "") or 0) for part in found.groups())
    if rows < 2 or columns < 1:
        raise ConfigError(f"Expected at least 2 rows and 1 column, got '{shape}'. Give a shape such as 2000000x50.")
    width = min(columns, WIDEST)
    count = min(rows, max(FEWEST, min(MOST, VALUES // width), 2 * width))
    path = folder / "made-up.csv"
    _write(path, count, width)
    row_bytes = path.stat().st_size / count
    planned = PlannedTable(f"{rows:,} x {columns:,}", rows, columns, int(rows * row_bytes * columns / width))
    config = replace(config, file=str(path), target=TARGET, features=(), exclude=())
    return SmallTable(path, config, planned, rows == count and columns == width)


def _write(path: Path, rows: int, columns: int) -> None:
    random = np.random.default_rng(0)
    w = random.normal(size=columns)
    X: Array = random.normal(size=(rows, columns))
    y = X @ w + random.normal(size=rows)
    names = ",".join([*(f"x{j}" for j in range(columns)), TARGET])
    line = ",".join(["%.6f"] * (columns + 1))
    text = "\n".join(line % tuple(row) for row in np.column_stack((X, y)).tolist())
    path.write_text(f"{names}\n{text}\n", "utf-8")


def taken_from(config: RunConfig, folder: Path) -> SmallTable:
    """Rows from several places of a text file, with its beginning."""
    source = Path(config.file).expanduser()
    size = source.stat().st_size if source.is_file() else -1
    if size < 0:
        raise DataError(f"Expected a file or a shape such as 2000000x50, got '{config.file}'. Check the path.")
    with source.open("rb") as file:
        plain = file_format(source) == "csv" and b"\0" not in file.read(4096)
        if not plain:
            raise ConfigError(
                f"Expected a plain CSV file to take rows from, got '{source.name}'. Give its shape instead, "
                "such as 2000000x50."
            )
        file.seek(0)
        head = file.read(1 << 20)
        columns = 1 + max((line.count(mark) for line in head.splitlines()[:50] for mark in (b",", b";", b"\t", b"|")),
                          default=0)  # fmt: skip
        row_bytes = len(head) / max(1, head.count(b"\n"))
        wanted = int(row_bytes * max(FEWEST, min(MOST, VALUES // columns), 2 * columns))
        text = _pieces(file, size, wanted)
    path = folder / f"some-rows-of-{source.stem[:40]}.csv"
    path.write_bytes(text)
    share = len(text) / size
    planned = PlannedTable(source.name, round(text.count(b"\n") / share), 0, size)
    return SmallTable(path, replace(config, file=str(path), on_bad_rows="skip"), planned, share >= 1)


def _pieces(source: IO[bytes], size: int, wanted: int) -> bytes:
    """The beginning, then whole lines from other places; all of it where it is not more than that."""
    source.seek(0)
    if size <= wanted * 1.5:
        return source.read()
    each = wanted // PIECES
    text = source.read(each)
    text = text[: text.rfind(b"\n") + 1]
    for piece in range(1, PIECES):
        source.seek(piece * size // PIECES)
        found = source.read(each)
        first, last = found.find(b"\n") + 1, found.rfind(b"\n") + 1
        text += found[first:last]
    return text


def prepared(small: SmallTable, coordinator: Coordinator) -> ReadyTable:
    """The table read, its problem solved; what a fit refuses is refused here in its words."""
    config, table = small.config, small.planned
    dataset = coordinator.open(config)
    if config.model == "ridge" and config.alpha is not None and not small.whole:
        config = replace(config, alpha=config.alpha * dataset.rows / max(1, table.rows))  # it is shared among all rows
    objective = squared_objective(coordinator, dataset, config, Timings())
    if not table.columns:
        table = replace(table, columns=objective.width)
    rows = int(objective.n) if small.whole else round(table.rows * objective.n / max(1, dataset.rows))
    table = replace(table, rows=rows)
    precision = chosen_precision(config, objective, float(table.rows * table.columns))
    return ReadyTable(table, objective, precision, small.whole, coordinator)
