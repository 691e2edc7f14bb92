"""The CSV files that are measured: generated, deterministic, plain decimals; nothing is timed here."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

CHUNK = 100_000  # rows drawn and written at a time
BYTES_A_NUMBER = 10.6  # a standard normal with 7 decimals and its comma


@dataclass(frozen=True)
class MadeTable:
    """A CSV file of `rows` x `columns` standard normals x0, x1, .. and y = Xw + noise."""

    name: str
    rows: int
    columns: int

    @property
    def title(self) -> str:
        return f"{self.rows:,} x {self.columns}"

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return int(self.rows * (self.columns + 1) * BYTES_A_NUMBER)


BIG = MadeTable("big", 2_000_000, 50)
LONG = MadeTable("long", 8_000_000, 50)  # BIG and its continuation
TALL = MadeTable("tall", 20_000_000, 3)
MIDDLE = MadeTable("middle", 500_000, 50)
WIDE = MadeTable("wide", 100_000, 500)
NARROW = MadeTable("narrow", 200_000, 20)
TINY = MadeTable("tiny", 1_000, 20)
GENES = MadeTable("genes", 300, 4_000)
MANY_GENES = MadeTable("many_genes", 300, 20_000)


def make(table: MadeTable, directory: Path) -> Path:
    """The table's file in `directory`, written now if it is not there yet."""
    path = directory / f"{table.name}.csv"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        _write(table, unfinished)
        unfinished.replace(path)
    return path


def _write(table: MadeTable, path: Path) -> None:
    random = np.random.default_rng(0)
    w = random.normal(size=table.columns)
    with path.open("wb") as file:
        for start in range(0, table.rows, CHUNK):
            rows = min(CHUNK, table.rows - start)
            X = random.normal(size=(rows, table.columns))
            y = X @ w + random.normal(size=rows)
            frame = pl.DataFrame({**{f"x{j}": X[:, j] for j in range(table.columns)}, "y": y})
            frame.write_csv(file, include_header=start == 0, float_precision=7)


def check_room(tables: Iterable[MadeTable], directory: Path) -> None:
    """Each file, and as much again for the blocks that are written while the largest one is read."""
    sizes = [table.size for table in tables]
    needed, free = sum(sizes) + max(sizes), shutil.disk_usage(directory).free
    if free < needed:
        raise SystemExit(
            f"Expected about {needed / 1e9:.1f} GB of room in '{directory}', found {free / 1e9:.1f} GB. "
            "Choose another folder with --data-dir or SHOAL_BENCH_DIR."
        )
