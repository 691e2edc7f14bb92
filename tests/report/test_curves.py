"""Cross-validation and the penalty's path in a report: those of scikit-learn."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shoal.fitting.model_file import load_model
from shoal.report.evidence import gathered
from support.report import Floats, Made, along, number, plain

ESTIMATORS: dict[str, Callable[[float], Any]] = {
    "linear": lambda alpha: LinearRegression(),
    "ridge": lambda alpha: Ridge(alpha, solver="cholesky"),
    "lasso": lambda alpha: Lasso(alpha, tol=1e-12, max_iter=1_000_000),
    "elasticnet": lambda alpha: ElasticNet(alpha, l1_ratio=0.7, tol=1e-12, max_iter=1_000_000),
}


ALPHA = {"linear": None, "ridge": 3.0, "lasso": 0.05, "elasticnet": 0.2}


def made_plain(kind: str, make: Callable[..., Made]) -> Made:
    knobs = {} if ALPHA[kind] is None else {"alpha": ALPHA[kind]}
    more = {"l1_ratio": 0.7} if kind == "elasticnet" else {}
    return make(plain, "y", model=kind, **knobs, **more)


def fold_errors(kind: str, alpha: float, frame: pd.DataFrame) -> Floats:
    """Mean squared errors of ten folds by row index, each refitted by scikit-learn."""
    X, y, fold = frame[list("abcd")].to_numpy(), frame["y"].to_numpy(), np.arange(len(frame)) % 10
    errors = []
    for k in range(10):
        model = make_pipeline(StandardScaler(), ESTIMATORS[kind](alpha)).fit(X[fold != k], y[fold != k])
        errors.append(np.mean((y[fold == k] - model.predict(X[fold == k])) ** 2))
    return np.array(errors)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_cross_validation_is_that_of_scikit_learn(kind: str, make: Callable[..., Made]) -> None:
    made = made_plain(kind, make)
    page = made.report()
    errors = fold_errors(kind, ALPHA[kind] or 0.0, made.frame)
    mean, error = errors.mean(), errors.std(ddof=1) / math.sqrt(10)
    said = re.search(r"mean squared error of this model is ([\d.e+-]+) ± ([\d.e+-]+)", page.text)
    assert said is not None
    assert float(said[1]) == pytest.approx(mean, rel=1e-5)
    assert float(said[2]) == pytest.approx(error, rel=1e-5)
    assert "83 training rows in 10 folds (by row index)" in page.text
    if kind == "linear":
        assert "The penalty and cross-validation" not in page.headings
        return
    table = page.rows("The penalty and cross-validation")
    own = table["this model"]
    assert number(own["alpha"]) == ALPHA[kind]
    assert number(own["mean squared error"]) == pytest.approx(mean, rel=1e-5)
    best, one_se = table["best: the smallest error"], table["1 SE: within one standard error"]
    for row in (best, one_se):
        errors = fold_errors(kind, number(row["alpha"]), made.frame)
        assert number(row["mean squared error"]) == pytest.approx(errors.mean(), rel=1e-4)
        assert number(row["standard error"]) == pytest.approx(errors.std(ddof=1) / math.sqrt(10), rel=1e-4)
    bound = number(best["mean squared error"]) + number(best["standard error"])
    assert number(best["mean squared error"]) <= number(own["mean squared error"]) * (1 + 1e-6)
    assert number(one_se["mean squared error"]) <= bound * (1 + 1e-6)
    assert number(one_se["alpha"]) >= number(best["alpha"])


@pytest.mark.parametrize("kind", ["ridge", "lasso", "elasticnet"])
def test_the_path_is_that_of_scikit_learn(kind: str, make: Callable[..., Made]) -> None:
    made = made_plain(kind, make)
    validation = gathered(load_model(made.path)).validation
    assert validation is not None
    path = validation.path
    assert path is not None
    assert path.chosen is not None
    assert path.alphas[path.chosen] == ALPHA[kind]
    assert (np.diff(path.alphas) < 0).all()
    assert 0 < path.chosen < len(path.alphas) - 1
    X, y = StandardScaler().fit_transform(made.frame[list("abcd")]), made.frame["y"]
    for place in (0, 20, path.chosen, len(path.alphas) - 1):
        wanted = ESTIMATORS[kind](float(path.alphas[place])).fit(X, y).coef_
        np.testing.assert_allclose(path.weights[place], wanted, rtol=1e-6, atol=1e-7)


def test_the_lines_of_the_path_are_drawn_where_they_belong(make: Callable[..., Made]) -> None:
    made = made_plain("lasso", make)
    page = made.report()
    path = gathered(load_model(made.path)).validation.path  # type: ignore[union-attr]
    assert path is not None
    lines = [(a["class"], np.array(re.findall(r"([-\d.]+) ([-\d.]+)", a["d"] or ""), float)) for tag, a in page.tags
             if tag == "path" and re.fullmatch(r"line c\d", a.get("class") or "")]  # fmt: skip
    drawn = {name: points for name, points in lines if len(points) == len(path.alphas)}  # the others are in the key
    assert len(drawn) == 4
    order = np.argsort(-np.abs(path.weights[path.chosen]))
    for place, j in enumerate(order):
        x, y = drawn[f"line c{place}"].T
        assert along(x, np.log(path.alphas))
        assert along(y, path.weights[:, j], 0.12, up=True)
