"""R² on the same test rows of real tables, printed as the table of docs/networks.md; no timings.

Every fifth row is kept for testing. scikit-learn's estimators get the same columns: numbers with gaps filled by their
median and standardised, texts as 0/1 columns, dates as days. Networks are trained with three seeds each.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import shoal

TABLES = {
    "concrete": "strength", "penguins": "body_mass_g", "auto_mpg": "mpg", "seattle_weather": "temp_max",
    "diabetes": "target", "wine": "alcohol",  # those of scikit-learn; of wine the twelve other measurements
}  # fmt: skip
DATA = Path(__file__).parents[3] / "shared" / "data" / "regression"
BUNDLED: dict[str, Callable[[], pd.DataFrame]] = {
    "diabetes": lambda: load_diabetes(as_frame=True, scaled=False).frame,
    "wine": lambda: load_wine(as_frame=True).data,
}
EVERY, SEEDS = 5, (0, 1, 2)
MOST_LEVELS = 100  # as Shoal has it: text columns with more are left out
Floats = npt.NDArray[np.float64]


def told(scores: list[float]) -> str:
    """The mean, and between which ends where there are several."""
    middle = f"{np.mean(scores):.3f}"
    return middle if len(scores) == 1 else f"{middle} ({min(scores):.3f} to {max(scores):.3f})"


def ours(path: Path, target: str) -> tuple[dict[str, list[float]], tuple[int, ...], list[str]]:
    found: dict[str, list[float]] = {"network": [], "linear": []}
    worth, hidden = [], tuple[int, ...]()
    for seed in SEEDS:
        model = shoal.fit(path, target=target, model="mlp", test_every=EVERY, engine="inline", seed=seed)
        assert model.network is not None
        assert model.network.beside is not None
        found["network"].append(model.scores["test"]["r2"])
        hidden = model.network.hidden
        worth.append(str(model.network.beside.worth))
    found["linear"].append(shoal.fit(path, target=target, test_every=EVERY).scores["test"]["r2"])
    return found, hidden, worth


def theirs(frame: pd.DataFrame, target: str, hidden: tuple[int, ...]) -> dict[str, list[float]]:
    test = np.arange(len(frame)) % EVERY == 0
    there = frame[target].notna().to_numpy()
    X, y = frame.drop(columns=target), frame[target].to_numpy(np.float64)
    numbers = X.select_dtypes("number").columns
    texts = [name for name in X.columns if name not in numbers and X[name].nunique() <= MOST_LEVELS]
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
    )
    makers: dict[str, tuple[Callable[[int], Any], tuple[int, ...]]] = {
        "MLPRegressor": (
            lambda seed: MLPRegressor(
                hidden_layer_sizes=hidden, early_stopping=True, max_iter=2000, random_state=seed
            ), SEEDS
        ),
        "HistGradientBoosting": (lambda seed: HistGradientBoostingRegressor(random_state=seed), SEEDS[:1]),
    }  # fmt: skip
    middle, spread = y[there & ~test].mean(), y[there & ~test].std()
    scores: dict[str, list[float]] = {}
    for name, (make, seeds) in makers.items():
        for seed in seeds:
            fitted = make_pipeline(columns, make(seed)).fit(X[there & ~test], (y[there & ~test] - middle) / spread)
            said: Floats = middle + spread * fitted.predict(X[there & test])
            scores.setdefault(name, []).append(float(r2_score(y[there & test], said)))
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(TABLES))
    only = parser.parse_args().only
    print("| table | test rows | linear, exact | network | worth it (3 seeds) | MLPRegressor | HistGradientBoosting |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SHOAL_HOME"] = folder
        for name, target in TABLES.items():
            if only not in (None, name):
                continue
            path = DATA / f"{name}.csv"
            if name in BUNDLED:
                path = Path(folder) / path.name
                BUNDLED[name]().to_csv(path, index=False)
            frame = pd.read_csv(path)
            dates = [column for column in frame if "date" in str(column).lower()]
            own, hidden, worth = ours(path, target)
            for column in dates:
                frame[column] = pd.to_datetime(frame[column]).astype("int64") / 86400e9
            other = theirs(frame, target, hidden)
            rows = int((frame[target].notna() & (np.arange(len(frame)) % EVERY == 0)).sum())
            print(
                f"| {name} | {rows} | {told(own['linear'])} | {told(own['network'])} | {', '.join(worth)} | "
                f"{told(other['MLPRegressor'])} | {told(other['HistGradientBoosting'])} |", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    main()
