"""A small table encoded by hand, and its shards."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.data.terms import Indicator, Level, Number
from shoal.data_pipeline import Shards
from shoal.engines.base import Engine
from shoal.engines.inline import InlineEngine
from shoal.solve.least_squares import Standardisation
from shoal.training.objectives.shards import derive

Floats = npt.NDArray[np.float64]

ROWS = 1500
ENCODING = Encoding(
    (Number("a", 0.5), Number("far", 0.0), Number("same", 0.0), Indicator("a"), Level("t", "x"), Level("t", "z")),
    {"t": ("x", "y", "z")},
    "target",
)


def frame() -> pd.DataFrame:
    import pandas as pd

    rng = np.random.default_rng(3)
    a, far = rng.normal(size=ROWS), 1e6 + rng.normal(size=ROWS)
    target = 2 * a + far + rng.normal(size=ROWS)
    table = pd.DataFrame({"a": a, "far": far, "same": 7.25, "t": rng.choice(list("xyz"), ROWS), "target": target})
    table.loc[rng.random(ROWS) < 0.2, "a"] = math.nan
    table.loc[rng.random(ROWS) < 0.1, "target"] = math.nan
    return table


def by_hand(table: pd.DataFrame) -> Floats:
    """(rows, terms + 1), the target last, NaN where it is missing."""
    columns = [
        table.a.fillna(0.5), table.far, table.same, table.a.isna(), table.t == "x", table.t == "z", table.target,
    ]  # fmt: skip
    return np.column_stack([column.astype(float) for column in columns])


def rows_and_units(split: Split, intercept: bool = True) -> tuple[Floats, Floats, Standardisation]:
    """Training and test rows by hand, in the units of the training rows, and those units."""
    raw = by_hand(frame())
    index = np.arange(ROWS)
    there, test = ~np.isnan(raw[:, -1]), split.is_test(index)
    train = raw[there & ~test]
    centre, scale = (train.mean(axis=0), train.std(axis=0)) if intercept else (np.zeros(7), np.ones(7))
    constant = np.array([False, False, True, False, False, False])
    scale[-1], scale[:-1][constant] = 1.0, 1.0
    units = Standardisation(centre[:-1], scale[:-1], constant, float(centre[-1]), intercept)
    Z = (raw - centre) / scale
    if intercept:
        Z[:, 2] = 0.0
    return Z[there & ~test], Z[there & test], units


def coordinator(engine: Engine, home: Path) -> Coordinator:
    return Coordinator(engine, home)


def derived(home: Path, dataset: Dataset, split: Split = Split(), **knobs: Any) -> Shards:  # noqa: B008
    units = knobs.pop("units", None) or rows_and_units(split)[2]
    with InlineEngine() as engine:
        return derive(coordinator(engine, home), dataset, ENCODING, split, units, **knobs)


def all_rows(shards: Shards) -> Floats:
    return np.concatenate([np.column_stack(shards.open(s)) for s in range(len(shards.rows))]).astype(np.float64)


def contents(shards: Shards) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(shards.directory).iterdir()}
