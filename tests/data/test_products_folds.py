"""Squares and interactions in folds, gradient runs, and columns far from zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Lasso, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import shoal
from shoal.coordinator import Coordinator
from shoal.engines.inline import InlineEngine
from shoal.fitting.summing import sum_cells
from shoal.home import home
from shoal.settings.values import config_from
from shoal.utils import silent
from shoal.whatif.cells import CellMoments
from shoal.whatif.curve import cross_validate
from shoal.whatif.folds import FoldChoice
from shoal.whatif.importance import drop_one
from support.data.encoding import Array, saved
from support.data.products import by_hand, frame, with_products
from support.tables import fitted

# ------------------------------------------------------------------ folds


def cells_of(path: Path, folds: int = 4, **knobs: Any) -> CellMoments:
    config = config_from({"file": str(path), "target": "y", "engine": "inline", **knobs})
    with InlineEngine() as engine:
        coordinator = Coordinator(engine, home(), silent)
        return sum_cells(coordinator, coordinator.open(config), config, FoldChoice(folds))


def refitted(data: pd.DataFrame, folds: int, model: str, alpha: float, **how: Any) -> list[float]:
    """The mean squared error of each fold, every one of them filled, coded, scaled and fitted from its own rows."""
    own = data["y"].notna()
    errors = []
    for fold in range(folds):
        train, test = data[own & (data.index % folds != fold)], data[own & (data.index % folds == fold)]
        X, T = by_hand(train, train, **how), by_hand(train, test, **how)
        varies = X.columns[X.std(ddof=0) > 0]
        kind = Ridge(alpha=alpha) if model == "ridge" else Lasso(alpha=alpha, tol=1e-14, max_iter=500_000)
        oracle = make_pipeline(StandardScaler(), kind).fit(X[varies], train["y"])
        errors.append(float(np.mean((oracle.predict(T[varies]) - test["y"]) ** 2)))
    return errors


@pytest.mark.parametrize(("model", "impute"), [("ridge", "median"), ("lasso", "median"), ("ridge", "mean")])
def test_folds_are_refitted_with_their_own_fills_inside_products(model: str, impute: str, tmp_path: Path) -> None:
    data = frame()
    cells = cells_of(saved(tmp_path, data), impute=impute, **with_products(data))
    alphas = [3.0, 0.1]
    found = cross_validate(cells, model, alphas, 1.0)
    for place, alpha in enumerate(alphas):
        assert np.allclose(found.errors[:, place], refitted(data, 4, model, alpha, impute=impute), rtol=1e-8, atol=0)


def test_a_column_that_is_left_out_takes_its_square_and_products_along(tmp_path: Path) -> None:
    data = frame()
    cells = cells_of(saved(tmp_path, data), **with_products(data))
    found = drop_one(cells, "ridge", 1.0, 0.0)
    whole = float(np.mean(refitted(data, 4, "ridge", 1.0)))
    assert found.error == pytest.approx(whole, rel=1e-9)
    columns = ("a", "b", "c", "city", "size")
    assert set(found.rises) == set(columns)
    for name in ("a", "city"):
        rest = [column for column in columns if column != name]
        without = float(np.mean(refitted(data, 4, "ridge", 1.0, columns=rest)))
        assert found.rises[name] == pytest.approx(without - whole, rel=1e-7)
        ticked = cross_validate(cells.only(rest), "ridge", [1.0], 0.0)
        assert float(ticked.mean[0]) == pytest.approx(without, rel=1e-9)


# ------------------------------------------------------------------ gradient runs, and numbers far from zero


def test_a_gradient_run_comes_to_the_same_model(tmp_path: Path) -> None:
    data = frame(600)
    path = saved(tmp_path, data)
    knobs = {"model": "ridge", "alpha": 5.0, **with_products(data)}
    exact = fitted(path, "y", **knobs)
    steps = shoal.fit(path, "y", solver="gradient", engine="inline", epochs=5, tolerance=1e-8, **knobs)
    assert steps.coefficients.keys() == exact["coefficients"].keys()
    for name, weight in exact["coefficients_standardized"].items():
        assert steps.coefficients_standardized[name] == pytest.approx(weight, abs=2e-4), name
    assert steps.scores["train"]["r2"] == pytest.approx(exact["train"]["r2"], rel=1e-6)


def test_a_column_far_from_zero_and_its_square_keep_their_digits(tmp_path: Path) -> None:
    """Their correlation is 1 - 1e-9: solved in extended precision from columns that are centred first."""
    random = np.random.default_rng(5)
    x = 1e4 + random.normal(0, 1, 2000)
    y = 3 + 2 * (x - 1e4) + 0.7 * (x - 1e4) ** 2 + random.normal(0, 0.1, 2000)
    data = pd.DataFrame({"x": x, "y": y})
    found = fitted(saved(tmp_path, data), "y", squares=["x"])
    u = x.astype(np.longdouble) - 10_000  # exact; y = p + q u + r u^2 is the same model
    U = np.column_stack((np.ones(len(u)), u, u**2))
    p, q, r = _solved(U.T @ U, U.T @ y.astype(np.longdouble))
    assert found["coefficients"]["x^2"] == pytest.approx(float(r), rel=1e-7)
    assert found["coefficients"]["x"] == pytest.approx(float(q - 20_000 * r), rel=1e-7)
    residual = (y - U @ np.array([p, q, r])).astype(float)
    assert found["train"]["rmse"] == pytest.approx(float(np.sqrt(np.mean(residual**2))), rel=1e-9)
    assert found["certificate"]["rests_on"] == "data"


def test_folds_keep_their_digits_far_from_zero_too(tmp_path: Path) -> None:
    """Ordinary least squares in every fold, with its own median squared, against the centred problem by QR."""
    random = np.random.default_rng(5)
    x = np.where(random.random(1500) < 0.1, np.nan, 1e4 + random.normal(0, 1, 1500))
    u = np.nan_to_num(x - 1e4)
    y = 3 + 2 * u + 0.7 * u**2 + random.normal(0, 0.1, 1500)
    cells = cells_of(saved(tmp_path, pd.DataFrame({"x": x, "y": y})), squares=["x"])
    found = cross_validate(cells, "linear", [0.0], 0.0).errors[:, 0]
    for fold, error in enumerate(found):
        test = np.arange(1500) % 4 == fold
        v = np.where(np.isnan(x), np.nanmedian(x[~test]), x) - 1e4
        U = np.column_stack((np.ones(1500), v, v**2))
        w = np.linalg.lstsq(U[~test], y[~test], rcond=None)[0]
        assert error == pytest.approx(float(np.mean((y[test] - U[test] @ w) ** 2)), rel=1e-7)


def _solved(A: Array, b: Array) -> Array:
    """By elimination: NumPy's own solver knows no extended precision."""
    A, b = A.copy(), b.copy()
    for i in range(len(b)):
        for j in range(i + 1, len(b)):
            factor = A[j, i] / A[i, i]
            A[j], b[j] = A[j] - factor * A[i], b[j] - factor * b[i]
    x = np.zeros_like(b)
    for i in reversed(range(len(b))):
        x[i] = (b[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x
