"""A text column of very many levels, each a column of the model, against pandas + scikit-learn's sparse columns."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.cases import Measurement, interleaved, ratio, spans, warm
from benchmarks.contestants import Shoal
from benchmarks.processes import run

ROWS, LEVELS, NUMBERS = 500_000, 50_000, 3
PEER = """
import sys, pandas
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
frame = pandas.read_csv(sys.argv[1])
y = frame.pop("y")
columns = make_column_transformer((OneHotEncoder(drop="first"), ["user"]), remainder="passthrough")
make_pipeline(columns, Ridge(1.0, solver="sparse_cg", tol=1e-8)).fit(frame, y)
"""


def make(directory: Path) -> Path:
    path = directory / "many_levels.csv"
    if not path.exists():
        random = np.random.default_rng(3)
        user, X = random.integers(0, LEVELS, ROWS), random.normal(size=(ROWS, NUMBERS)).round(4)
        y = random.normal(size=LEVELS)[user] + X.sum(axis=1) + random.normal(size=ROWS)
        names = pl.Series("user", np.char.add("user-", user.astype(str)))
        pl.DataFrame([names, *(pl.Series(f"x{j}", X[:, j]) for j in range(NUMBERS)), pl.Series("y", y.round(4))]
                     ).write_csv(path)  # fmt: skip
    return path


def many_levels(shoal: Shoal, directory: Path, repeats: int) -> list[Measurement]:
    path = make(directory)
    warm(path)
    options = ["--target", "y", "--model", "ridge", "--alpha", "1", "--max-levels", "unlimited", "--json"]
    race = interleaved(
        {
            "shoal": lambda: shoal.run([*shoal.command, "train", str(path), *options]),
            "pandas + scikit-learn": lambda: run([sys.executable, "-c", PEER, str(path)], {}),
        },
        repeats,
    )
    what = f"{ROWS:,} rows, a text of {LEVELS:,} levels: CSV to fitted ridge / pandas + scikit-learn"
    return [Measurement(what, ratio(race, "shoal", "pandas + scikit-learn"), "x", 1, detail=spans(race))]
