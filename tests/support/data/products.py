"""A table with numbers, texts and gaps, and its squares and products by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from support.data.encoding import Array

SQUARES, PAIRS = ("a", "b"), ("a:b", "a:city", "size:b", "city:size")


def frame(rows: int = 300, seed: int = 1) -> pd.DataFrame:
    """Numbers and texts with gaps, and a target that bends with them and with their products."""
    random = np.random.default_rng(seed)
    a, b, c = random.normal(5, 2, rows), random.normal(-30, 3, rows), random.normal(0, 1, rows)
    city = random.choice(["Rome", "Oslo", "Bern"], rows).astype(object)
    size = random.choice(["S", "L"], rows).astype(object)
    y = 0.5 * a**2 + 0.1 * a * b + c + (city == "Rome") * a + (city == "Oslo") * (size == "S") * 4
    found = pd.DataFrame({"a": a, "b": b, "c": c, "city": city, "size": size, "y": y + random.normal(0, 1, rows)})
    for name, share in {"a": 0.15, "b": 0.2, "city": 0.1, "y": 0.03}.items():
        found.loc[random.random(rows) < share, name] = np.nan if name in "aby" else None
    return found


# ------------------------------------------------------------------ the same, by hand from the rows


def by_hand(
    train: pd.DataFrame, rows: pd.DataFrame, *, impute: str = "median", fill: float = 0.0, coding: str = "reference",
    squares: Sequence[str] = SQUARES, pairs: Sequence[str] = PAIRS, columns: Sequence[str] = ("a", "b", "c", "city", "size"),
) -> pd.DataFrame:  # fmt: skip
    """The design of `rows`, imputed and coded as `train` says: first filled, then multiplied."""
    sides: dict[str, dict[str, Array]] = {}
    for name in columns:
        if pd.api.types.is_numeric_dtype(train[name]):
            stands = {"median": train[name].median(), "mean": train[name].mean()}.get(impute, fill)
            sides[name] = {name: rows[name].fillna(stands).to_numpy()}
        else:
            levels = sorted(train[name].fillna("__missing__").unique())
            if coding == "reference":
                levels.remove(next(level for level in levels if level != "__missing__"))
            given = rows[name].fillna("__missing__")
            sides[name] = {f"{name}={level}": (given == level).to_numpy(float) for level in levels}
    made = {term: values for side in sides.values() for term, values in side.items()}
    for name in squares:
        if name in columns:
            made[f"{name}^2"] = sides[name][name] ** 2
    for left, right in (pair.split(":") for pair in pairs):
        if left in columns and right in columns:
            both = {f"{p}:{q}": sides[left][p] * sides[right][q] for p in sides[left] for q in sides[right]}
            made |= both
    return pd.DataFrame(made)


def with_products(data: pd.DataFrame) -> dict[str, Any]:
    return {"squares": list(SQUARES), "interactions": list(PAIRS)}
