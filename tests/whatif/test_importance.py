"""Drop-one importance: against scikit-learn pipelines refitted on rows, for every fold and every column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.preprocessing import StandardScaler

from shoal.data.encoding import Encoding
from shoal.data.terms import Number
from shoal.errors import DataError
from shoal.fitting.summing import sum_cells
from shoal.models import Array
from shoal.settings.values import config_from
from shoal.solve.moments import Moments
from shoal.tasks.train import coordinated
from shoal.whatif.cells import CellMoments
from shoal.whatif.folds import FoldChoice
from shoal.whatif.importance import drop_one

MODELS = {"linear": 0.0, "ridge": 3.0, "lasso": 0.05, "elasticnet": 0.05}


def estimator(model: str, alpha: float, intercept: bool = True) -> Any:
    if model == "linear":
        return LinearRegression(fit_intercept=intercept, tol=1e-14)
    if model == "ridge":
        return Ridge(alpha=alpha, fit_intercept=intercept, solver="cholesky")
    kind, more = (Lasso, {}) if model == "lasso" else (ElasticNet, {"l1_ratio": 0.5})
    return kind(alpha=alpha, fit_intercept=intercept, tol=1e-14, max_iter=1_000_000, **more)


def table(n: int = 240, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b, c, d = rng.normal(size=(4, n))
    kind = rng.choice(["oak", "ash", "elm"], n, p=[0.5, 0.3, 0.2])
    b = 0.8 * a + 0.6 * b
    y = 2 * a - b + (kind == "oak") * 1.5 + 0.3 * c + rng.normal(size=n)
    b = np.where(rng.random(n) < 0.15, np.nan, 4 * b + 10)
    return pd.DataFrame({"a": a, "b": b, "kind": kind, "c": c, "noise": 100 * d, "y": y})


def brute_force(frame: pd.DataFrame, model: str, alpha: float, folds: int, columns: list[str], **how: bool) -> float:
    """The mean of the folds' errors, with medians, levels and units of each fold's training rows."""
    intercept, standardize = how.get("intercept", True), how.get("standardize", True)
    errors = []
    for fold in range(folds):
        test = np.arange(len(frame)) % folds == fold
        train, held = frame[~test], frame[test]
        fills = train.select_dtypes("number").median()
        levels = sorted(train.kind.unique())[1:]
        X, Z = (_encoded(part, columns, fills, levels) for part in (train, held))
        scaler = StandardScaler(with_mean=intercept, with_std=standardize).fit(X)
        fitted = estimator(model, alpha, intercept).fit(scaler.transform(X), train.y)
        errors.append(((held.y - fitted.predict(scaler.transform(Z))) ** 2).mean())
    return float(np.mean(errors))


def _encoded(part: pd.DataFrame, columns: list[str], fills: Any, levels: list[str]) -> Array:
    made = []
    for name in columns:
        if name == "kind":
            made += [(part.kind == level).to_numpy(float) for level in levels]
        else:
            made.append(part[name].fillna(fills[name]).to_numpy())
            if name == "b":
                made.append(part[name].isna().to_numpy(float))
    return np.column_stack(made)


def cells_of(path: Path, folds: int, **knobs: Any) -> CellMoments:
    config = config_from({"file": str(path), "target": "y", "engine": "inline", "indicators": True, **knobs})
    with coordinated(config) as coordinator:
        return sum_cells(coordinator, coordinator.open(config), config, FoldChoice(folds))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", [{}, {"standardize": False}, {"intercept": False}], ids=str)
def test_every_column_against_refits_to_rows(tmp_path: Path, model: str, how: dict[str, bool]) -> None:
    frame = table()
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = drop_one(cells_of(tmp_path / "t.csv", 4, **how), model, MODELS[model], 0.5)
    columns = [name for name in frame.columns if name != "y"]
    whole = brute_force(frame, model, MODELS[model], 4, columns, **how)
    assert found.error == pytest.approx(whole, rel=1e-8)
    assert set(found.rises) == set(columns)
    for name in columns:
        rest = [other for other in columns if other != name]
        rise = brute_force(frame, model, MODELS[model], 4, rest, **how) - whole
        assert found.rises[name] == pytest.approx(rise, rel=1e-8, abs=1e-8 * whole)


def test_columns_that_do_not_vary_or_depend_on_others(tmp_path: Path) -> None:
    """A constant column, one that is constant in one fold's training rows, and a copy: nobody misses them."""
    frame = table(200)
    frame["still"] = 7.0
    frame["copy"] = 3 * frame.c + 1
    frame["once"] = (np.arange(200) == 8) * 1.0
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns = [name for name in frame.columns if name not in ("y", "copy")]
    cells = cells_of(tmp_path / "t.csv", 4)
    for model in ("linear", "lasso"):
        found = drop_one(cells.only(columns), model, MODELS[model], 0.5)
        whole = brute_force(frame, model, MODELS[model], 4, [c for c in columns if c != "still"])
        assert found.error == pytest.approx(whole, rel=1e-8)
        assert found.rises["still"] == pytest.approx(0, abs=1e-10)
        rest = [c for c in columns if c not in ("still", "once")]
        assert found.rises["once"] == pytest.approx(
            brute_force(frame, model, MODELS[model], 4, rest) - whole, abs=1e-8 * whole
        )
    both = drop_one(cells, "linear", 0.0, 0.5)
    assert both.rises["copy"] == pytest.approx(0, abs=1e-9)
    assert both.rises["c"] == pytest.approx(0, abs=1e-9)
    ridge = drop_one(cells, "ridge", 1.0, 0.5)
    assert abs(ridge.rises["copy"]) > 1e-7  # ridge shares the weight among the two


def test_columns_that_nearly_depend_on_one_another(tmp_path: Path) -> None:
    """Where moments run out of digits: condition number 1e6."""
    frame = table(200)
    frame["near"] = frame.c + 1e-6 * np.random.default_rng(1).normal(size=200)
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns = [name for name in frame.columns if name != "y"]
    found = drop_one(cells_of(tmp_path / "t.csv", 4), "linear", 0.0, 0.5)
    whole = brute_force(frame, "linear", 0.0, 4, columns)
    for name in ("near", "a", "kind"):
        rise = brute_force(frame, "linear", 0.0, 4, [c for c in columns if c != name]) - whole
        assert found.rises[name] == pytest.approx(rise, rel=1e-6, abs=1e-8 * whole)


def test_squares_and_products_go_with_their_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 3))
    y = X[:, 0] + X[:, 0] ** 2 + X[:, 1] * X[:, 2] + rng.normal(size=150)
    pd.DataFrame(X, columns=list("abc")).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    cells = cells_of(tmp_path / "t.csv", 5, squares=["a"], interactions=["b:c"])
    found = drop_one(cells, "linear", 0.0, 0.5)
    wide = np.column_stack((X, X[:, 0] ** 2, X[:, 1] * X[:, 2]))

    def error(places: list[int]) -> float:
        squares = []
        for fold in range(5):
            test = np.arange(150) % 5 == fold
            fitted = LinearRegression(tol=1e-14).fit(wide[~test][:, places], y[~test])
            squares.append(((y[test] - fitted.predict(wide[test][:, places])) ** 2).mean())
        return float(np.mean(squares))

    whole = error([0, 1, 2, 3, 4])
    assert found.error == pytest.approx(whole, rel=1e-8)
    assert found.rises["a"] == pytest.approx(error([1, 2, 4]) - whole, rel=1e-8)
    assert found.rises["b"] == pytest.approx(error([0, 2, 3]) - whole, rel=1e-8)


def test_folds_without_test_rows_are_left_out(tmp_path: Path) -> None:
    """Every fourth row is kept for testing, so the first of four folds by row has none."""
    frame = table(200)
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = drop_one(cells_of(tmp_path / "t.csv", 4, test_every=4), "linear", 0.0, 0.5)
    assert np.isfinite(found.error)
    assert found.rises["a"] > 0.1


def arrays(X: Array, y: Array, k: int) -> CellMoments:
    Z = np.column_stack((X, y))
    base = Encoding(tuple(Number(f"x{j}", 0.0) for j in range(X.shape[1])), {}, "y")
    cells = tuple(Moments.of(Z[i::k]) for i in range(k))
    config = config_from({"file": "none", "target": "y"})
    held = Moments.empty(Z.shape[1])
    return CellMoments(config, base, FoldChoice(k), cells, held, tuple({} for _ in range(k + 1)))


def test_no_rows_to_test_on_is_a_sentence() -> None:
    X = np.random.default_rng(0).normal(size=(1, 2))
    with pytest.raises(DataError, match="Choose"):
        drop_one(arrays(X, X[:, 0], 2), "linear", 0.0, 0.5)
