"""The bootstrap from sums: against refits of scikit-learn to the drawn rows themselves, and by simulation."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.preprocessing import StandardScaler

from shoal.data.encoding import Encoding
from shoal.data.terms import Number
from shoal.errors import ConfigError, StateError
from shoal.fitting.summing import make_study
from shoal.models import Array
from shoal.passes.folds import bucket_of
from shoal.settings.values import config_from
from shoal.solve.intervals import debiased_intervals, desparsified, linear_intervals
from shoal.solve.moments import Moments
from shoal.tasks.train import coordinated
from shoal.whatif import resampling
from shoal.whatif.bootstrap import Resampled, bootstrap
from shoal.whatif.cells import CellMoments
from shoal.whatif.folds import FoldChoice
from shoal.whatif.resampling import draws, independent
from shoal.whatif.study import Buckets, RowSample, Study, open_study, save_study

MODELS = {"linear": 0.0, "ridge": 5.0, "lasso": 0.2, "elasticnet": 0.2}


def estimator(model: str, alpha: float, intercept: bool = True) -> Any:
    if model == "linear":
        return LinearRegression(fit_intercept=intercept, tol=1e-14)
    if model == "ridge":
        return Ridge(alpha=alpha, fit_intercept=intercept, solver="cholesky")
    kind, more = (Lasso, {}) if model == "lasso" else (ElasticNet, {"l1_ratio": 0.5})
    return kind(alpha=alpha, fit_intercept=intercept, tol=1e-13, max_iter=1_000_000, **more)


def refitted(
    X: Array, y: Array, model: str, alpha: float, intercept: bool = True, standardize: bool = True
) -> tuple[Array, float]:
    """Coefficients and intercept in the units of X, by scikit-learn on the rows."""
    scaler = StandardScaler(with_mean=intercept, with_std=standardize).fit(X)
    found = estimator(model, alpha, intercept).fit(scaler.transform(X), y)
    coef = found.coef_ / (scaler.scale_ if standardize else 1.0)
    return coef, float(y.mean() - X.mean(axis=0) @ coef) if intercept else 0.0


def study_of(path: Path, folds: int = 5, **knobs: Any) -> Study:
    config = config_from({"file": str(path), "target": "y", "engine": "inline", **knobs})
    with coordinated(config) as coordinator:
        return make_study(coordinator, coordinator.open(config), config, FoldChoice(folds))


def arrays(X: Array, y: Array, k: int = 5, **knobs: Any) -> CellMoments:
    """Cells of plain columns, without a file."""
    p = X.shape[1]
    Z = np.column_stack((X, y))
    base = Encoding(tuple(Number(f"x{j}", 0.0) for j in range(p)), {}, "y")
    cells = tuple(Moments.of(Z[i::k]) for i in range(k))
    config = config_from({"file": "none", "target": "y", **knobs})
    return CellMoments(config, base, FoldChoice(k), cells, Moments.empty(p + 1), tuple({} for _ in range(k + 1)))


def bucketed(X: Array, y: Array, bucket: Array) -> Buckets:
    Z = np.column_stack((X, y))
    return Buckets.of([Moments.of(Z[bucket == b]) for b in range(int(bucket.max()) + 1)], Z.mean(axis=0))


def drawn_times(units: int, resamples: int, seed: int) -> Array:
    return draws(units, resamples, np.random.default_rng(seed))


def rows_of(X: Array, y: Array) -> RowSample:
    return RowSample(np.column_stack((X, y)), np.zeros(len(y), np.int64))


def plain_table(n: int = 120, p: int = 4, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.geomspace(0.3, 30, p) + np.linspace(-3, 40, p)
    return X, X @ (np.array([2.0, -1, 0, 0.05])[:p] if p <= 4 else rng.normal(size=p)) + 2 * rng.normal(size=n)


# ------------------------------------------------------------------ the same as refits to the drawn rows


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
def test_resamples_of_rows_are_refits_to_these_rows(model: str, intercept: bool, standardize: bool) -> None:
    X, y = plain_table()
    cells = arrays(X, y, intercept=intercept, standardize=standardize)
    found = bootstrap(cells, rows_of(X, y), model, MODELS[model], resamples=30, seed=4)
    own = model if model in ("linear", "ridge") else "linear"
    times = drawn_times(len(y), 30, 4).astype(int)
    selected = np.zeros(X.shape[1])
    for i, weights in enumerate(times):
        drawn = np.repeat(np.arange(len(y)), weights)
        coef, at = refitted(X[drawn], y[drawn], own, MODELS[own], intercept, standardize)
        np.testing.assert_allclose(found.coef[i], coef, rtol=1e-7, atol=1e-10)
        if intercept:
            assert found.intercept is not None
            assert found.intercept[i] == pytest.approx(at, rel=1e-7)
        if own != model:
            selected += refitted(X[drawn], y[drawn], model, MODELS[model], intercept, standardize)[0] != 0
    assert (found.intercept is not None) == intercept
    if own == model:
        assert found.selected is None
    else:
        assert found.selected is not None
        np.testing.assert_allclose(found.selected, selected / 30)
    assert (found.kind, found.units, found.by_rows) == (model if own == model else "debiased", 120, True)


@pytest.mark.parametrize("model", MODELS)
def test_resamples_of_buckets_are_refits_to_the_rows_of_these_buckets(model: str) -> None:
    X, y = plain_table(400)
    bucket = np.random.default_rng(1).integers(0, 25, len(y))
    found = bootstrap(arrays(X, y), bucketed(X, y, bucket), model, MODELS[model], resamples=25, seed=1)
    own = model if model in ("linear", "ridge") else "linear"
    selected = np.zeros(4)
    for i, weights in enumerate(drawn_times(25, 25, 1).astype(int)):
        drawn = np.repeat(np.arange(len(y)), weights[bucket])
        coef, at = refitted(X[drawn], y[drawn], own, MODELS[own])
        np.testing.assert_allclose(found.coef[i], coef, rtol=1e-8, atol=1e-10)
        assert found.intercept is not None
        assert found.intercept[i] == pytest.approx(at, rel=1e-8)
        selected += refitted(X[drawn], y[drawn], model, MODELS[model])[0] != 0
    if own != model:
        assert found.selected is not None
        np.testing.assert_allclose(found.selected, selected / 25)
    assert (found.units, found.by_rows) == (25, False)


def mixed_table(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, n))
    kind = rng.choice(["oak", "ash", "elm"], n, p=[0.5, 0.3, 0.2])
    y = 2 * a - b + (kind == "oak") * 1.5 + rng.normal(size=n)
    b = np.where(rng.random(n) < 0.15, np.nan, b + 10)
    return pd.DataFrame({"a": a, "b": b, "kind": kind, "c": c, "y": y})


def encoded(frame: pd.DataFrame, columns: list[str], fill: float) -> Array:
    parts = {"a": ["a"], "b": ["b", "gap"], "c": ["c"], "kind": ["elm", "oak"]}
    wide = frame.assign(
        b=frame.b.fillna(fill), gap=frame.b.isna() * 1.0, elm=(frame.kind == "elm") * 1.0, oak=(frame.kind == "oak") * 1.0
    )  # fmt: skip
    # numbers, then indicators, then levels
    order = ["a", "b", "c", "gap", "elm", "oak"]
    chosen = {part for column in columns for part in parts[column]}
    return wide[[name for name in order if name in chosen]].to_numpy(float)


@pytest.mark.parametrize("columns", [["a", "b", "kind", "c"], ["kind", "b"]])
def test_gaps_levels_and_a_choice_of_columns(tmp_path: Path, columns: list[str]) -> None:
    """What stands in for gaps is that of all training rows; test rows take no part; a folder says the same."""
    frame = mixed_table(300)
    frame.to_csv(tmp_path / "t.csv", index=False)
    save_study(tmp_path / "study", study_of(tmp_path / "t.csv", indicators=True, test_every=4))
    study = open_study(tmp_path / "study")
    cells = study.cells.only(columns)
    train = frame[np.arange(300) % 4 > 0]
    X, y = encoded(train, columns, train.b.median()), train.y.to_numpy()
    for model in ("linear", "ridge"):
        found = bootstrap(cells, study.drawn_from, model, MODELS[model], resamples=20)
        assert found.units == len(train)
        assert study.rows is not None
        # Rows are kept by fold; the draw counts them in that order.
        order = [int(np.flatnonzero(train.y.to_numpy() == value)[0]) for value in np.asarray(study.rows.Z)[:, -1]]
        for i, weights in enumerate(drawn_times(len(train), 20, 0).astype(int)):
            drawn = np.repeat(order, weights)
            np.testing.assert_allclose(found.coef[i], refitted(X[drawn], y[drawn], model, MODELS[model])[0], rtol=1e-7)


def test_buckets_of_a_larger_file(tmp_path: Path) -> None:
    """Over 5,000 rows: buckets are random parts of the rows of each fold, by a hash of the row index."""
    frame = mixed_table(6000)
    frame.to_csv(tmp_path / "t.csv", index=False)
    study = study_of(tmp_path / "t.csv", folds=5)
    assert study.rows is None
    assert study.buckets is not None
    index = np.arange(6000)
    bucket = (index % 5) * 40 + bucket_of(index, 40)
    found = bootstrap(study.cells.only(["a", "b", "kind"]), study.buckets, "linear", 0.0, resamples=20, seed=3)
    assert (found.units, found.by_rows) == (200, False)
    X, y = encoded(frame, ["a", "b", "kind"], frame.b.median())[:, [0, 1, 3, 4]], frame.y.to_numpy()
    for i, weights in enumerate(drawn_times(200, 20, 3).astype(int)):
        drawn = np.repeat(index, weights[bucket])
        np.testing.assert_allclose(found.coef[i], refitted(X[drawn], y[drawn], "linear", 0)[0], rtol=1e-7)
    assert "5 %" in found.precision
    assert "200" in found.precision  # 1 / sqrt(2 * 199)


def test_another_target(tmp_path: Path) -> None:
    X, y = plain_table(200)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(y=y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    study = study_of(tmp_path / "t.csv")
    found = bootstrap(study.cells.toward("c").only(["a", "y"]), study.drawn_from, "linear", 0.0, resamples=20)
    assert study.rows is not None
    Z = np.asarray(study.rows.Z)
    for i, weights in enumerate(drawn_times(200, 20, 0).astype(int)):
        drawn = np.repeat(Z, weights, axis=0)
        coef, _ = refitted(drawn[:, [0, 4]], drawn[:, 2], "linear", 0)
        np.testing.assert_allclose(found.coef[i], coef, rtol=1e-7)


def test_fewer_rows_than_columns_sums_the_corrections_anew() -> None:
    n, p = 40, 55
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, p)) * np.geomspace(1, 5, p)
    y = X[:, 0] + rng.normal(size=n)
    cells = arrays(X, y)
    found = bootstrap(cells, rows_of(X, y), "lasso", 0.1, resamples=200)
    assert found.kind == "desparsified"
    assert found.intercept is None
    step = desparsified(cells.problem()[1])
    scale = X.std(axis=0)
    Z, t = (X - X.mean(axis=0)) / scale, y - y.mean()
    rest = t - Z @ step.w
    for i, weights in enumerate(drawn_times(n, 5, 0)):
        score = Z.T @ ((weights - 1) * rest) / n
        np.testing.assert_allclose(found.coef[i], (step.b + step.M @ score) / scale, rtol=1e-6, atol=1e-9)
    formula = debiased_intervals(cells.problem()[1])
    np.testing.assert_allclose(found.estimate, formula.estimate, rtol=1e-9)
    assert 0.6 < np.median(found.std_error / formula.std_error) < 1.3


# ------------------------------------------------------------------ what is claimed


def covered(found: Resampled, b: Array) -> Array:
    low, high = found.ends
    return np.asarray((low <= b) & (b <= high))


def test_intervals_hold_the_true_coefficients_where_noise_differs_from_row_to_row() -> None:
    """90 % intervals from 80 rows; the formula, which takes the noise to be the same in all rows, holds fewer."""
    n, trials, b = 80, 300, np.array([1.0, 0.0])
    rng = np.random.default_rng(10)
    held, by_formula = np.zeros((2, trials, 2))
    for i in range(trials):
        X = rng.normal(size=(n, 2))
        y = X @ b + np.abs(X[:, 0]) * 2 * rng.normal(size=n)
        cells = arrays(X, y)
        held[i] = covered(bootstrap(cells, rows_of(X, y), "linear", 0.0, resamples=200, confidence=0.9, seed=i), b)
        formula = linear_intervals(cells.problem()[1], 0.9)
        by_formula[i] = (formula.low <= b) & (b <= formula.high)
    spread = math.sqrt(0.9 * 0.1 / trials)
    assert abs(held[:, 1].mean() - 0.9) < 4 * spread
    assert 0.9 - 5 * spread < held[:, 0].mean() < 0.9 + 4 * spread  # far rows are rare: somewhat narrow with 80
    assert by_formula[:, 0].mean() < 0.9 - 8 * spread


def test_intervals_from_buckets_hold_the_true_coefficients() -> None:
    n, p, trials = 2000, 5, 200
    rng = np.random.default_rng(11)
    b = np.array([1.0, -0.5, 0.0, 0.0, 0.2])
    bucket = rng.integers(0, 50, n)
    held = np.zeros((trials, p))
    for i in range(trials):
        X = rng.normal(size=(n, p))
        y = X @ b + rng.standard_t(5, size=n)
        held[i] = covered(bootstrap(arrays(X, y), bucketed(X, y, bucket), "linear", 0.0, resamples=200, seed=i), b)
    assert abs(held.mean() - 0.95) < 4.5 * math.sqrt(0.95 * 0.05 / (trials * p))


def test_standard_errors_are_those_of_theory() -> None:
    X, y = plain_table(4000)
    formula = linear_intervals(arrays(X, y).problem()[1])
    by_rows = bootstrap(arrays(X, y), rows_of(X, y), "linear", 0.0, resamples=600)
    bucket = np.random.default_rng(1).integers(0, 200, len(y))
    by_buckets = bootstrap(arrays(X, y), bucketed(X, y, bucket), "linear", 0.0, resamples=600)
    np.testing.assert_allclose(by_rows.std_error / formula.std_error, 1, atol=0.12)
    np.testing.assert_allclose(by_buckets.std_error / formula.std_error, 1, atol=0.25)
    low, high = by_rows.ends
    np.testing.assert_allclose(high - low, formula.high - formula.low, rtol=0.15)


def test_noise_columns_are_selected_less_often() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 10))
    y = X[:, 0] - X[:, 1] + 3 * rng.normal(size=200)
    found = bootstrap(arrays(X, y), rows_of(X, y), "lasso", 0.3, resamples=200)
    assert found.selected is not None
    assert found.positive is not None
    assert found.selected[:2].min() > 0.95
    assert found.selected[2:].mean() < 0.5
    assert found.positive[0] == found.selected[0]
    assert found.positive[1] == 0


# ------------------------------------------------------------------ the same again, odd columns, bad wishes


def test_the_same_bits_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = plain_table()
    one, two, other = (
        bootstrap(arrays(X, y), rows_of(X, y), "lasso", 0.1, resamples=50, seed=seed) for seed in (7, 7, 8)
    )
    assert one.coef.tobytes() == two.coef.tobytes()
    assert not np.array_equal(one.coef, other.coef)
    more = bootstrap(arrays(X, y), rows_of(X, y), "lasso", 0.1, resamples=80, seed=7)
    np.testing.assert_allclose(more.coef[:50], one.coef, rtol=1e-12)
    monkeypatch.setattr(resampling, "BATCH_BYTES", 1)
    small = bootstrap(arrays(X, y), rows_of(X, y), "lasso", 0.1, resamples=50, seed=7)
    np.testing.assert_allclose(small.coef, one.coef, rtol=1e-12)
    assert small.selected is not None
    assert one.selected is not None
    np.testing.assert_array_equal(small.selected, one.selected)


def test_columns_that_depend_or_do_not_vary() -> None:
    X, y = plain_table(150)
    wide = np.column_stack((X, X[:, 0] + X[:, 1], np.full(150, 3.0)))
    found = bootstrap(arrays(wide, y), rows_of(wide, y), "linear", 0.0, resamples=40)
    alone = bootstrap(arrays(X, y), rows_of(X, y), "linear", 0.0, resamples=40)
    assert np.isnan(found.ends[0][[0, 1, 4, 5]]).all()
    assert np.isnan(found.estimate[[0, 1, 4, 5]]).all()
    np.testing.assert_allclose(found.coef[:, [2, 3]], alone.coef[:, [2, 3]], rtol=1e-7)
    said = found.as_dict(list("abcdef"))
    assert math.isnan(said["coefficients"]["a"]["low"])
    assert said["coefficients"]["c"]["share_determined"] == 1
    ridge = bootstrap(arrays(wide, y), rows_of(wide, y), "ridge", 1.0, resamples=40)
    assert np.isfinite(ridge.ends[0]).all()
    assert not ridge.coef[:, 5].any()


@pytest.mark.parametrize("model", ["linear", "ridge", "lasso"])
def test_nothing_that_is_determined(model: str) -> None:
    """A column and its double, and no column at all."""
    rng = np.random.default_rng(0)
    x, y = np.arange(60.0), rng.normal(size=60)
    for X in (np.column_stack((x, 2 * x)), np.zeros((60, 0))):
        found = bootstrap(arrays(X, y), rows_of(X, y), model, 0.1, resamples=30)
        assert found.std_error.shape == found.ends[0].shape == found.ends[1].shape == (X.shape[1],)
        assert np.isfinite(found.ends).all() == (model == "ridge" or not X.size)
        assert set(found.as_dict([str(i) for i in range(X.shape[1])])["coefficients"]) == set("01"[: X.shape[1]])


def test_a_rare_level_is_not_in_every_resample() -> None:
    X, y = plain_table(100, 3)
    rare = np.zeros(100)
    rare[[3, 70]] = 1
    wide = np.column_stack((X, rare))
    found = bootstrap(arrays(wide, y), rows_of(wide, y), "linear", 0.0, resamples=400)
    absent = (drawn_times(100, 400, 0)[:, [3, 70]].sum(axis=1) == 0).mean()
    assert 0.08 < absent < 0.2  # e^-2 = 0.135
    assert found.share_determined[3] == pytest.approx(1 - absent)
    assert (found.share_determined[:3] == 1).all()
    assert np.isfinite(found.ends[0]).all()
    lasso = bootstrap(arrays(wide, y), rows_of(wide, y), "lasso", 0.001, resamples=400)
    assert lasso.selected is not None
    assert lasso.selected[3] <= 1 - absent


def test_independent_columns() -> None:
    X = np.random.default_rng(0).normal(size=(50, 6))
    X[:, 4] = X[:, 1] - 2 * X[:, 2]
    X[:, 5] = 0
    chosen = independent(X.T @ X)
    assert len(chosen) == 4 == np.linalg.matrix_rank(X[:, chosen])
    assert {0, 3} <= set(chosen.tolist())


def test_bad_wishes_are_refused_in_a_sentence() -> None:
    X, y = plain_table()
    with pytest.raises(ConfigError, match="20 to 100000 resamples, got 5"):
        bootstrap(arrays(X, y), rows_of(X, y), "linear", 0.0, resamples=5)
    with pytest.raises(StateError, match="too many columns"):
        bootstrap(arrays(X, y), None, "linear", 0.0)
    with pytest.raises(ConfigError, match="alpha"):
        bootstrap(arrays(X, y), rows_of(X, y), "lasso", -1.0)


def test_words() -> None:
    X, y = plain_table()
    ridge = bootstrap(arrays(X, y), rows_of(X, y), "ridge", 1.0, resamples=20)
    assert "not taken out" in ridge.meaning
    assert "20 samples" in ridge.meaning
    lasso = bootstrap(arrays(X, y), rows_of(X, y), "lasso", 0.1, resamples=20)
    assert "120 training rows" in lasso.as_dict(list("abcd"))["selection"]["meaning"]
    narrow, wide = (dataclasses.replace(ridge, units=units)._ranks[1] for units in (10_000, 10))
    assert 0.974 < narrow < 0.976 < 0.98 < wide  # few units: as Student's t, wider
