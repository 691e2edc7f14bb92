"""A made-up table of any size whose true coefficients are known: y = 10 + b·x + noise. Who asks for it is elsewhere."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError, DiskFull
from shoal.home import make_folder, samples_directory
from shoal.lazy.classes import dataclass
from shoal.utils import disk_errors

TARGET = "y"
INTERCEPT = 10.0
NOISE = 1.0  # the standard deviation of what no model can explain
ROWS, COLUMNS, CELLS = (100, 50_000_000), (2, 2_000), 1_000_000_000
BYTES = 7.0  # of a cell in the file, about
NEEDED = 3  # room for so many times the file: the file, its blocks, and the copy that gradient runs work on
SPARE = 200 << 20
PIECE = 2_000_000  # cells that are made and written at a time
SEED = 20_260
NAME = re.compile(r"generated-([0-9]{1,9})x([0-9]{1,5})\.csv")


@dataclass(frozen=True)
class Shape:
    """How large a made-up table is; `columns` counts the one to predict as well."""

    rows: int = 500_000
    columns: int = 20

    def __post_init__(self) -> None:
        for name, value, (low, high) in (("rows", self.rows, ROWS), ("columns", self.columns, COLUMNS)):
            if not low <= value <= high:
                raise ConfigError(f"Expected {low:,} to {high:,} {name}, got {value:,}. Choose another number.")
        if self.rows * self.columns > CELLS:
            raise ConfigError(
                f"Expected at most {CELLS:,} cells, got {self.rows:,} times {self.columns:,}. Choose fewer of either."
            )

    @property
    def features(self) -> list[str]:
        return [f"x{i + 1}" for i in range(self.columns - 1)]

    @property
    def coefficients(self) -> dict[str, float]:
        """The true ones; every fourth column has nothing to do with the target."""
        draw = random.Random(SEED)
        drawn = [round(draw.uniform(-5, 5), 2) for _ in self.features]
        return {name: 0.0 if i % 4 == 3 else b for i, (name, b) in enumerate(zip(self.features, drawn, strict=True))}

    @property
    def bytes(self) -> int:
        """About as large as the file will be."""
        return int(self.rows * self.columns * BYTES)

    @property
    def path(self) -> Path:
        return samples_directory() / f"generated-{self.rows}x{self.columns}.csv"


def shape_at(path: Path) -> Shape | None:
    """The shape of a made-up table, by its place and name."""
    named = NAME.fullmatch(path.name)
    if named is None or path.parent != samples_directory():
        return None
    try:
        return Shape(int(named[1]), int(named[2]))
    except ConfigError:
        return None


def shortage(shape: Shape) -> str:
    """Why there is no room for such a table; empty if there is."""
    folder = shape.path.parent
    while not folder.exists():
        folder = folder.parent
    free, needed = shutil.disk_usage(folder).free, NEEDED * shape.bytes + SPARE
    if needed <= free:
        return ""
    return (
        f"Expected {needed / 1e6:,.0f} MB of free disk for this table and its copies, got {free / 1e6:,.0f} MB. "
        "Choose fewer rows or columns, or free some space."
    )


def generate(shape: Shape, progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Write the table; what it was made with. The same shape is the same file, byte for byte."""
    if why := shortage(shape):
        raise DiskFull(why)
    make_folder(shape.path.parent)
    unfinished = shape.path.with_name(f".{shape.path.name}.tmp")  # one job a shape, so one writer
    try:
        with disk_errors("the table"):
            _write(shape, unfinished, progress)
            unfinished.replace(shape.path)
    finally:
        unfinished.unlink(missing_ok=True)
    return {
        "file": str(shape.path),
        "rows": shape.rows,
        "intercept": INTERCEPT,
        "noise": NOISE,
        "coefficients": shape.coefficients,
    }


def _write(shape: Shape, path: Path, progress: Callable[[str, float], None]) -> None:
    import numpy as np
    import pyarrow as pa  # its writer of numbers is ten times as fast as NumPy's
    import pyarrow.csv

    draw = np.random.default_rng(SEED)
    slopes = np.array(list(shape.coefficients.values()))
    names = [*shape.features, TARGET]
    step = max(1, PIECE // shape.columns)
    schema = pa.schema([(name, pa.float64()) for name in names])
    options = pyarrow.csv.WriteOptions(quoting_header="none")
    with pyarrow.csv.CSVWriter(path, schema, write_options=options) as out:
        for first in range(0, shape.rows, step):
            rows = min(step, shape.rows - first)
            X = draw.standard_normal((rows, len(slopes))).round(3)
            y = (INTERCEPT + X @ slopes + NOISE * draw.standard_normal(rows)).round(3)
            out.write_batch(pa.record_batch([*np.ascontiguousarray(X.T), y], names=names))
            progress("making numbers", (first + rows) / shape.rows)
