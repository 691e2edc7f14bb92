"""Bins and splines in folds: borders from each fold's own training rows, as pipelines of scikit-learn refit them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, SplineTransformer, StandardScaler

import shoal
from shoal.coordinator import Coordinator
from shoal.engines.inline import InlineEngine
from shoal.fitting.summing import make_study
from shoal.home import home
from shoal.settings.values import config_from
from shoal.whatif.folds import FoldChoice
from shoal.whatif.study import open_study, save_study
from support.tables import opened

ALPHAS = [30.0, 1.0]
SHAPES = ["size=spline(5)", "age=bins(4)"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Skewed columns, so that the borders of folds differ; one row lies far from all others."""
    rng, n = np.random.default_rng(8), 240
    found = pd.DataFrame(
        {"size": rng.lognormal(size=n), "age": rng.gamma(2.0, 10.0, n), "city": rng.choice(["a", "b"], n)}
    )
    found.loc[17, "size"] = 80.0
    eta = np.sin(found["size"]) + 0.03 * found["age"] - (found["city"] == "a")
    found["price"] = eta + rng.normal(size=n) / 5
    found["sold"] = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * eta)), "yes", "no")
    found["stamp"] = rng.permutation(n).astype(float)
    return found


def pipeline(model: str, alpha: float) -> Any:
    spline = SplineTransformer(5, knots="quantile", include_bias=False, extrapolation="linear")
    bins = KBinsDiscretizer(4, encode="onehot-dense", quantile_method="linear")
    columns = make_column_transformer(
        (spline, ["size"]), (bins, ["age"]), (OneHotEncoder(sparse_output=False), ["city"])
    )
    fitted = Ridge(alpha) if model == "ridge" else LogisticRegression(C=1 / alpha, solver="newton-cholesky", tol=1e-12)
    return make_pipeline(columns, StandardScaler(), fitted)


def refitted(frame: pd.DataFrame, model: str, target: str, splits: list[tuple[Any, Any]]) -> np.ndarray:
    found = []
    for train, test in splits:
        known, other = frame.loc[train], frame.loc[test]
        fits = [pipeline(model, alpha).fit(known, known[target]) for alpha in ALPHAS]
        if model == "ridge":
            found.append([mean_squared_error(other[target], fit.predict(other)) for fit in fits])
        else:
            found.append([log_loss(other[target], fit.predict_proba(other)) for fit in fits])
    return np.array(found)


def by_row(frame: pd.DataFrame, k: int) -> list[tuple[Any, Any]]:
    return [(frame.index[frame.index % k != i], frame.index[frame.index % k == i]) for i in range(k)]


def ours(frame: pd.DataFrame, model: str, target: str, **more: Any) -> np.ndarray:
    asked = {"folds": 4, "alphas": ALPHAS, "features": ["size", "age", "city"], "transform": SHAPES, "coding": "full"}
    found = shoal.tune(frame, target, model, **{**asked, "fold_by": "row", **more})
    return np.array(found.tuned.curve.errors)


def test_errors_of_folds_are_those_of_pipelines_refitted_to_their_rows(frame: pd.DataFrame) -> None:
    expected = refitted(frame, "ridge", "price", by_row(frame, 4))
    np.testing.assert_allclose(ours(frame, "ridge", "price"), expected, rtol=1e-8)


def test_those_of_other_losses_as_well(frame: pd.DataFrame) -> None:
    expected = refitted(frame, "logistic", "sold", by_row(frame, 4))
    np.testing.assert_allclose(ours(frame, "logistic", "sold", shrink="ridge"), expected, rtol=1e-7)


def test_folds_by_time_know_nothing_of_later_rows(frame: pd.DataFrame) -> None:
    ordered = frame.sort_values("stamp").index
    splits = [(ordered[a], ordered[b]) for a, b in TimeSeriesSplit(4).split(ordered)]
    found = ours(frame, "ridge", "price", fold_by="time:stamp")
    np.testing.assert_allclose(found, refitted(frame, "ridge", "price", splits), rtol=1e-8)


def test_a_study_has_them_before_and_after_it_was_kept(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    knobs = {"features": ["size", "age", "city"], "transform": SHAPES, "interactions": ["size:city"], "model": "ridge"}
    config = config_from({"file": str(path), "target": "price", "engine": "inline", **knobs})
    with InlineEngine() as engine:
        study = make_study(Coordinator(engine, home()), opened(path), config, FoldChoice(3))
    save_study(tmp_path / "study", study)
    kept = open_study(tmp_path / "study")
    for fold in (0, 1, 2, None):
        (own, problem), (other, again) = study.cells.problem(fold), kept.cells.problem(fold)
        assert own.names == other.names
        assert (problem.R == again.R).all()
        rows = frame if fold is None else frame[frame.index % 3 != fold]
        knots = rows["size"].quantile(np.linspace(0, 1, 5))
        first = next(term for term in own.terms if term.name == "spline(size)[1]")
        below, inside = knots.iloc[0] - 1e-6, knots.iloc[1] + 1e-6
        theirs = SplineTransformer(5, knots=knots.to_numpy()[:, None], include_bias=False, extrapolation="linear")
        tried = np.array([below, inside, 2.0])
        np.testing.assert_allclose(
            first.of(tried), theirs.fit(rows[["size"]].to_numpy()).transform(tried[:, None])[:, 0]
        )
    assert len({problem.units.centre[0] for _, problem in map(study.cells.problem, (0, 1, 2))}) == 3


def test_where_that_would_be_too_many_columns_it_is_said(frame: pd.DataFrame) -> None:
    wide = {"folds": 12, "features": ["size", "age"], "transform": ["size=spline(50)", "age=spline(40)"]}
    found = shoal.tune(frame, "price", "ridge", alphas=ALPHAS, **wide)
    assert any("borders of all training rows in every fold" in note for note in found.tuned.notes)
    assert not any(
        "borders" in note for note in shoal.tune(frame, "price", "ridge", **{**wide, "folds": 4}).tuned.notes
    )
