"""Columns that go together: inflation and groups against NumPy on the rows, and the words in terminal and page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import shoal as api
from shoal.dashboard.parts.results import coefficient_table
from shoal.results.fit import FitReport
from support.tables import shoal


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    found = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    found["b"] = found["a"] + 0.2 * found["b"]
    found["e"] = found["b"] + 0.2 * rng.normal(size=300)  # goes with b, and so is in one group with a
    return found.assign(y=found.sum(axis=1) + rng.normal(size=300))


def test_inflation_and_groups_are_those_of_the_rows(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    report = api.fit(frame, "y", "ridge", alpha=1.0).report
    found, X = report["collinearity"], frame.drop(columns="y")
    for name in X:
        others = X.drop(columns=name)
        r2 = LinearRegression().fit(others, X[name]).score(others, X[name])
        assert found["inflation"][name] == pytest.approx(1 / (1 - r2), rel=1e-6)
    (group,) = found["groups"]
    assert group["columns"] == ["a", "b", "e"]
    largest = max(abs(X.corr().loc[p]) for p in (("a", "b"), ("b", "e"), ("a", "e")))
    assert group["correlation"] == pytest.approx(largest, rel=1e-9)
    table = coefficient_table(FitReport.from_dict(report))
    assert table["VIF"][2] == found["inflation"]["b"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    told = shoal("train", tmp_path / "t.csv", "--target", "y").out
    assert "note: 'a', 'b', 'e' say nearly the same (correlation up to 0.9" in told
    assert "by their variance inflation: 'b' (" in told
    assert "The condition number of all columns together is" in told


def test_columns_that_are_apart_or_alone_or_constant_need_no_words(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    frame.drop(columns=["b", "e"]).assign(k=3.0).to_csv(tmp_path / "t.csv", index=False)
    assert "variance inflation" not in shoal("train", tmp_path / "t.csv", "--target", "y").out
    assert api.fit(frame[["a", "y"]], "y").report["collinearity"] is None
    twice = frame.assign(again=2 * frame["a"])
    found = api.fit(twice, "y").report["collinearity"]
    assert found["inflation"]["again"] is None  # the others determine it
    assert "again" in found["groups"][0]["columns"]


def test_other_losses_have_it_of_rows_as_they_count(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    frame["y"] = (frame["a"] + frame["c"] + np.random.default_rng(1).normal(size=300) > 0).astype(int)
    X = frame.drop(columns="y")
    model = api.fit(frame, "y", "logistic")
    p = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12).fit(X, frame["y"]).predict_proba(X)[:, 1]
    Z = np.column_stack((np.ones(300), X))
    covariance = np.linalg.inv(Z.T @ (Z * (p * (1 - p))[:, None]))[1:, 1:]  # of the coefficients, as car::vif has it
    expected = np.diag(covariance) * np.diag(np.linalg.inv(covariance))
    found = model.report["collinearity"]
    np.testing.assert_allclose([found["inflation"][name] for name in X], expected, rtol=1e-6)
    assert found["groups"][0]["columns"] == ["a", "b", "e"]
    assert "say nearly the same" in str(model.summary())
    frame["y"] = pd.cut(frame["a"] + frame["c"], 3, labels=["low", "mid", "high"]).astype(str)
    several = api.fit(frame, "y", "multinomial", shrink="ridge", alpha=1.0)
    C = np.linalg.inv(np.corrcoef(X.T))
    assert several.report["collinearity"]["inflation"] == pytest.approx(dict(zip(X, np.diag(C), strict=True)), rel=1e-6)
    assert "variance inflation" in str(several.summary())
    assert "VIF" not in coefficient_table(FitReport.from_dict(several.report))
