"""Choosing a penalty in figures, `python -m benchmarks.tuning`: 100 alphas in 10 folds, against scikit-learn's LassoCV.

Both are given the same rows, alphas and splits, in turn. What Shoal does after its pass over the rows is also measured
alone: that is what a new question about penalties costs, whatever the number of rows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LassoCV as TheirLassoCV
from threadpoolctl import threadpool_limits

from shoal.api.cv_estimators import LassoCV
from shoal.data.encoding import Encoding
from shoal.data.terms import Number
from shoal.settings.values import config_from
from shoal.solve.least_squares import LeastSquares
from shoal.solve.moments import Moments
from shoal.solve.paths import alpha_grid, follow
from shoal.whatif.cells import CellMoments
from shoal.whatif.folds import FoldChoice
from shoal.whatif.penalty_choice import tune

FOLDS, ALPHAS = 10, 100
MODELS = ("ridge", "lasso", "elasticnet")
OURS = "shoal LassoCV, rows to model"
Rows = tuple[np.ndarray, np.ndarray]


def rows(n: int, p: int) -> Rows:
    """Columns with correlations of about 0.3, a fifth of which matter."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) + 0.65 * rng.standard_normal((n, 1))
    weights = np.where(np.arange(p) % 5 == 0, rng.standard_normal(p), 0.0)
    return X, X @ weights + 3 * rng.standard_normal(n)


def cells_of(X: np.ndarray, y: np.ndarray) -> CellMoments:
    Z = np.column_stack((X, y))
    base = Encoding(tuple(Number(f"x{j}", 0.0) for j in range(X.shape[1])), {}, "y")
    cells = tuple(Moments.of(Z[k::FOLDS]) for k in range(FOLDS))
    nothing: tuple[dict[str, float], ...] = tuple({} for _ in range(FOLDS + 1))
    config = config_from({"target": "y", "model": "lasso"})
    return CellMoments(config, base, FoldChoice(FOLDS), cells, Moments.empty(X.shape[1] + 1), nothing)


def in_turn(contestants: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each in every round; one round before them does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, work in contestants.items():
            start = time.perf_counter()
            work()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def measure(n: int, p: int, repeats: int) -> None:
    X, y = rows(n, p)
    whole = LeastSquares.from_moments(Moments.of(np.column_stack((X, y))), True, False)
    fold = np.arange(n) % FOLDS
    given: dict[str, Any] = {
        "alphas": np.asarray(alpha_grid(whole, "lasso")),
        "cv": [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS)],
    }
    ours, theirs = LassoCV(**given), TheirLassoCV(**given)
    cells = cells_of(X, y)
    problem = cells.problem()[1]
    contestants: dict[str, Callable[[], Any]] = {
        OURS: partial(ours.fit, X, y),
        "scikit-learn LassoCV, its usual tolerance": partial(theirs.fit, X, y),
        "shoal: sums of the folds (the pass)": partial(cells_of, X, y),
    }
    for model in MODELS:
        contestants[f"shoal after the pass, {model}"] = partial(tune, cells, model)
    for model in MODELS:
        alphas = alpha_grid(problem, model)
        contestants[f"shoal: one path with certificates, {model}"] = partial(follow, problem, model, alphas)
    seconds = in_turn(contestants, repeats)
    shape = f"{n:,} rows, {p} columns, {ALPHAS} alphas, {FOLDS} folds"
    print(f"\n{shape}; {repeats} rounds in turn, load {os.getloadavg()[0]:.1f}")
    base = statistics.median(seconds[OURS])
    for name, times in seconds.items():
        low, middle, high = min(times), statistics.median(times), max(times)
        print(f"  {name:<44}{1e3 * middle:>8.1f} ms {middle / base:>6.2f} x   ({1e3 * low:.1f} to {1e3 * high:.1f})")
    _say_how_close(X, y, given, ours, theirs)
    print(f"  worst certificate of all points and folds: {tune(cells, 'lasso').certificate.relative:.1e} (relative)")


def _say_how_close(X: np.ndarray, y: np.ndarray, given: dict[str, Any], ours: LassoCV, theirs: TheirLassoCV) -> None:
    """How far the errors are apart, also when scikit-learn is made to go on: once, as that takes long."""
    start = time.perf_counter()
    tight = TheirLassoCV(**given, tol=1e-10, max_iter=100_000).fit(X, y)
    seconds = time.perf_counter() - start
    for name, other in (("usual tolerance", theirs), (f"tol 1e-10 ({seconds:.1f} s, once)", tight)):
        away, same = np.abs(other.mse_path_ / ours.mse_path_ - 1).max(), other.alpha_ == ours.alpha_
        print(f"  scikit-learn with {name}: errors within {away:.1e} of Shoal's, same alpha: {same}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, nargs="+", default=[100, 200])
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    with threadpool_limits(1):  # for all alike
        for p in chosen.columns:
            measure(chosen.rows, p, chosen.repeats)


if __name__ == "__main__":
    main()
