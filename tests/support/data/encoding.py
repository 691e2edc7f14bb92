"""A table with gaps in numbers, texts and target, as a frame and as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Array = np.ndarray[Any, Any]


def frame(rows: int = 400, seed: int = 1) -> pd.DataFrame:
    """Numbers with gaps, a text column with gaps, and a target with gaps."""
    random = np.random.default_rng(seed)
    a, b = random.normal(5, 2, rows), random.normal(-1e4, 30, rows)
    kind = random.choice(["red", "green", "blue"], rows).astype(object)
    y = 3 * a - 0.1 * b + (kind == "red") * 4 + random.normal(0, 1, rows)
    found = pd.DataFrame({"a": a, "b": b, "kind": kind, "y": y})
    found.loc[random.random(rows) < 0.15, "a"] = np.nan
    found.loc[random.random(rows) < 0.3, "b"] = np.nan
    found.loc[random.random(rows) < 0.1, "kind"] = None
    found.loc[random.random(rows) < 0.05, "y"] = np.nan
    return found


def saved(folder: Path, data: pd.DataFrame, name: str = "data.csv") -> Path:
    path = folder / name
    data.to_csv(path, index=False)
    return path
