"""Yes/no models of sparse files: coefficients, scores and probabilities as scikit-learn has them for the same rows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model as reference
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import log_loss, roc_auc_score

import shoal
from shoal.cli.app import main
from shoal.errors import ConfigError, DataError
from shoal.sparse import table as sparse_table

Rows = tuple[Path, Any, Any]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """1,000 rows of 20 words out of 1,500, common ones and rare ones, and labels -1 and 1."""
    random = np.random.default_rng(2)
    at = np.repeat(np.arange(1000), 20), (1500 * random.random(20_000) ** 2).astype(int)
    X = sp.csr_matrix((1 + random.random(20_000), at), (1000, 1500))
    y = np.where(random.random(1000) < 1 / (1 + np.exp(-(X[:, :60] @ random.standard_normal(60)))), 1, -1)
    path = tmp_path_factory.mktemp("labels") / "labels.svm"
    dump_svmlight_file(X, y, str(path), zero_based=True)
    return path, X, y


def by_index(model: shoal.FittedModel, width: int = 1500) -> Any:
    w = np.zeros(width)
    for name, value in model.coefficients.items():
        w[int(name[1:])] = value
    return w


def test_a_file_of_two_labels_is_fitted_scored_and_predicted(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sparse_table, "BLOCK_BYTES", 100_000)  # several blocks
    path, X, y = rows
    test = np.arange(1000) % 5 == 0
    model = shoal.fit(str(path), "label", model="logistic", shrink="ridge", alpha=2.0, standardize=False, test_every=5)
    theirs = reference.LogisticRegression(C=0.5, solver="newton-cg", tol=1e-12, max_iter=1000).fit(X[~test], y[~test])
    assert by_index(model) == pytest.approx(theirs.coef_[0], abs=1e-8)
    assert model.intercept == pytest.approx(theirs.intercept_[0], abs=1e-8)
    report = model.report
    assert report["certificate"]["relative"] < 1e-11
    p = theirs.predict_proba(X[test])[:, 1]
    assert list(report["outcome"]["classes"]) == ["-1", "1"]
    scores = report["outcome"]["test"]["scores"]
    assert scores["log_loss"] == pytest.approx(log_loss(y[test], p), rel=1e-7)
    assert scores["auc"] == pytest.approx(roc_auc_score(y[test], p), abs=1e-9)
    model.save(tmp_path / "model.json")
    out = tmp_path / "out.csv"
    options = ["--interval", "0.9", "--threshold", "0.3"]
    assert main(["predict", str(tmp_path / "model.json"), str(path), "--out", str(out), *options]) == 0
    capsys.readouterr()
    found = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    assert [float(row["probability"]) for row in found] == pytest.approx(theirs.predict_proba(X)[:, 1], abs=1e-8)
    assert [row["prediction"] for row in found] == [
        "1" if one >= 0.3 else "-1" for one in theirs.predict_proba(X)[:, 1].tolist()
    ]
    assert {row["set"] for row in found} <= {"-1", "1", "-1|1"}


def test_a_lasso_names_the_columns_that_its_conditions_allow(rows: Rows) -> None:
    path, X, y = rows
    model = shoal.fit(str(path), "label", model="logistic", shrink="lasso", alpha=5.0, positive="-1", standardize=False)
    w = by_index(model)
    assert 0 < np.count_nonzero(w) == len(model.coefficients) < 400
    slope = X.T @ (1 / (1 + np.exp(-(X @ w + model.intercept))) - (y == -1))
    off = np.where(w == 0, np.maximum(np.abs(slope) - 5, 0), np.abs(slope + 5 * np.sign(w)))
    assert off.max() < 1e-8


def test_what_has_no_way_is_told_before(rows: Rows, tmp_path: Path) -> None:
    path = str(rows[0])
    with pytest.raises(ConfigError, match="Expected a penalty"):
        shoal.fit(path, "label", model="logistic")
    with pytest.raises(ConfigError, match="one of the two labels, -1 or 1, got 'yes'"):
        shoal.fit(path, "label", model="logistic", shrink="ridge", alpha=1.0, positive="yes")
    three = tmp_path / "three.svm"
    three.write_text("".join(f"{1 + i % 4} 1:{i} 3:2 {4 + i}:1\n" for i in range(40)))
    with pytest.raises(DataError, match=r"two values, such as -1 and 1, .* got 1, 2, 3 and others"):
        shoal.fit(str(three), "label", model="logistic", shrink="ridge", alpha=1.0)
    with pytest.raises(ConfigError, match="for linear models"):
        shoal.path(path, "label", model="logistic", shrink="ridge")
