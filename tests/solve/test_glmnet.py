"""Paths and choices against R's glmnet and cv.glmnet: outputs of tools/glmnet_reference.R, kept in tests/glmnet.

glmnet's lambda is our alpha for the lasso. It scales the target to spread 1 first, so that its L2 part is divided by
the target's standard deviation s (with 1/n): l1 = lambda mixing and l2 = lambda (1 - mixing) / s.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal.solve.least_squares import LeastSquares, Standardisation, triangle
from shoal.solve.moments import Moments
from shoal.solve.paths import follow
from support.tables import shoal

FILES = sorted((Path(__file__).parent / "glmnet").glob("*.json"))
CLOSE = 1e-8  # what glmnet's answers are good for at a threshold of 1e-22, beside the largest coefficient


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def noise(i: np.ndarray, j: int) -> np.ndarray:
    return (i * i * (7 * j + 3) + i * (31 * j + 17) + 101 * j) % 997 / 997 - 0.5


def made(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """The data of the R program, by the same formula."""
    i = np.arange(n)
    U = np.column_stack([noise(i, j) for j in range(p + 1)])
    X = np.column_stack([(U[:, j] + 0.6 * U[:, j - 1]) * (1 + j % 4) for j in range(1, p + 1)])
    beta = np.array([0 if j % 3 == 0 else 2 / j for j in range(1, p + 1)])
    return X, X @ beta + 1.5 * noise(i, p + 7) + 3


def read(path: Path) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    reference = json.loads(path.read_text())
    X, y = made(reference["n"], reference["p"])
    assert y.sum() == pytest.approx(reference["y_sum"], rel=1e-13)
    return reference, X, y


def in_our_words(mixing: float, lambdas: np.ndarray, y: np.ndarray) -> tuple[str, np.ndarray, float]:
    """Model, alphas and l1_ratio with the same objective."""
    s = y.std()
    if mixing == 0:
        return "ridge", len(y) * lambdas / s, 0.5
    if mixing == 1:
        return "lasso", lambdas, 1.0
    return "elasticnet", lambdas * (mixing + (1 - mixing) / s), mixing / (mixing + (1 - mixing) / s)


def test_the_references_are_there() -> None:
    assert len(FILES) == 4


@pytest.mark.parametrize("from_rows", [False, True], ids=["moments", "rows"])
@pytest.mark.parametrize("kind", range(3), ids=["lasso", "elasticnet", "ridge"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_paths_are_glmnets(path: Path, kind: int, from_rows: bool) -> None:
    reference, X, y = read(path)
    expected = reference["paths"][kind]
    model, alphas, ratio = in_our_words(expected["mixing"], np.array(reference["lambda"]), y)
    moments = Moments.of(np.column_stack((X, y)))
    problem = LeastSquares.from_moments(moments, True, True)
    if from_rows:
        units = Standardisation.of(moments, True, True)
        problem = LeastSquares.from_triangle(triangle(units.apply(X, y)), units, moments.n)
    found = follow(problem, model, alphas, ratio)
    coefficients = np.array(expected["coefficients"])
    np.testing.assert_allclose(found.coef, coefficients, rtol=0, atol=CLOSE * np.abs(coefficients).max())
    np.testing.assert_allclose(found.intercepts, expected["intercepts"], rtol=CLOSE)
    assert found.worst.relative < 1e-12
    if kind == 0:
        clear = np.abs(coefficients) > 1e-6  # glmnet leaves what should be 0 at some tiny value or at 0
        np.testing.assert_array_equal(found.W[clear.any(axis=1)] != 0, clear[clear.any(axis=1)])


@pytest.mark.parametrize("place", [0, 1], ids=["5-folds", "10-folds"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_choices_are_those_of_cv_glmnet(tmp_path: Path, path: Path, place: int) -> None:
    """Through the command line; all folds have as many rows, so that cv.glmnet's weighted mean is the plain one."""
    reference, X, y = read(path)
    expected = reference["choices"][place]
    table = tmp_path / "made.csv"
    pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y).to_csv(
        table, index=False, float_format="%.17g"
    )
    alphas = ",".join(repr(value) for value in reference["lambda"])
    found = shoal(
        "tune", table, "--target", "y", "--model", "lasso", "--folds", str(expected["folds"]), "--alphas", alphas,
        "--json",
    ).json  # fmt: skip
    assert found["alphas"] == reference["lambda"]
    np.testing.assert_allclose(found["cv_mean"], expected["cvm"], rtol=1e-8)
    np.testing.assert_allclose(found["cv_se"], expected["cvsd"], rtol=1e-7)
    assert found["best"] == expected["lambda_min"]
    assert found["one_se"] == expected["lambda_1se"]
