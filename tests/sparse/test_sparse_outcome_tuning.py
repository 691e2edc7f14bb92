"""Penalties of yes/no models of sparse rows chosen by folds: errors as scikit-learn has them with the same folds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import shoal
from shoal.cli.app import main
from shoal.errors import ConfigError, DataError

ROWS, WIDTH, FOLDS, ALPHAS = 240, 30, 3, [5.0, 1.0, 0.3]
RATIOS = {"lasso": 1.0, "elasticnet": 0.3, "ridge": 0.0}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    random = np.random.default_rng(8)
    X = sp.random_array((ROWS, WIDTH), density=0.2, format="csr", rng=random, data_sampler=random.standard_normal)
    eta = X[:, :5] @ np.array([3.0, -2, 2, 1, -1]) - 0.7
    y = np.where(random.random(ROWS) < 1 / (1 + np.exp(-eta)), 1, -1)
    path = tmp_path_factory.mktemp("labels") / "rows.svm"
    dump_svmlight_file(X, y, str(path), zero_based=True)
    return path, X, y


def by_class(y: Any, train: Any) -> Any:
    """The fold of each row: those of a label are dealt in turn, on from those of the label before; -1 for none."""
    found, dealt = np.full(len(y), -1), 0
    for label in (-1, 1):
        own = np.flatnonzero(train & (y == label))
        found[own] = (dealt + np.arange(len(own))) % FOLDS
        dealt += len(own)
    return found


def tuned(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> dict[str, Any]:
    assert main(["tune", str(path), "--model", "logistic", "--folds", str(FOLDS), "--json", *options]) == 0
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("shrink", RATIOS)
def test_errors_of_folds_by_class_are_those_of_scikit_learn(
    shrink: str, made: tuple[Path, Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path, X, y = made
    train = np.arange(ROWS) % 5 != 0
    fold, errors = by_class(y, train), np.zeros((FOLDS, len(ALPHAS)))
    for k in range(FOLDS):
        own, other = train & (fold != k), fold == k
        for j, alpha in enumerate(ALPHAS):
            theirs = LogisticRegression(C=1 / alpha, l1_ratio=RATIOS[shrink], solver="saga", tol=1e-9, max_iter=100_000)
            probabilities = theirs.fit(X[own], y[own]).predict_proba(X[other])
            errors[k, j] = log_loss(y[other], probabilities, labels=[-1, 1])
    options = ["--shrink", shrink, "--alphas", ",".join(map(str, ALPHAS)), "--test-every", "5", "--no-standardize"]
    ratio = ["--l1-ratio", str(RATIOS[shrink])] if shrink == "elasticnet" else []
    found = tuned(capsys, path, *options, *ratio)
    assert found["fold_by"] == "class"
    assert found["measure"] == "log loss"
    assert found["cv_mean"] == pytest.approx(errors.mean(axis=0).tolist(), rel=1e-6)
    assert found["best"] == ALPHAS[int(np.argmin(errors.mean(axis=0)))]
    assert found["certificate"]["relative"] < 1e-8


def test_alphas_begin_where_the_first_column_comes_in_and_a_fit_takes_the_best(
    made: tuple[Path, Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = made[0]
    found = tuned(capsys, path, "--shrink", "lasso", "--n-alphas", "20")
    assert found["n_features_kept"][0] == 0
    assert found["n_features_kept"][1] > 0
    model = shoal.fit(str(path), "label", model="logistic", shrink="lasso")
    assert model.report["cross_validation"]["measure"] == "log loss"
    assert model.report["cross_validation"]["fold_by"] == "class"
    assert model.report["alpha"] == model.report["cross_validation"]["best"]


def test_folds_that_cannot_be_are_told(made: tuple[Path, Any, Any], tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "rare.svm"
    path.write_text("".join(f"{int(i == 7)} 1:{i} {2 + i % 3}:1\n" for i in range(40)))
    with pytest.raises(DataError, match="both labels in every fold"):
        shoal.tune(str(path), "label", model="logistic", shrink="ridge", folds=5)
    with pytest.raises(ConfigError, match="by row or hash, got 'class'"):
        shoal.tune(str(made[0]), "label", model="lasso", fold_by="class")
