"""Paths and cross-validated deviances against R's glmnet: outputs of tools/glmnet_losses.R, kept in tests/tuning/glmnet.

glmnet's lambda stands beside a mean over the rows that a model is fitted to. That is our alpha for counts; of a yes/no
target alpha stands beside a sum, and is lambda times those rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal import path
from support.tables import shoal

PLACE = Path(__file__).parent / "glmnet"
MODELS = {"logistic": "binomial", "poisson": "poisson"}
KINDS = {"lasso": 0, "elasticnet": 1, "ridge": 2}
CLOSE = 1e-7  # what glmnet's answers are good for at a threshold of 1e-20, beside the largest coefficient


def noise(i: np.ndarray, j: int) -> np.ndarray:
    return (i * i * (7 * j + 3) + i * (31 * j + 17) + 101 * j) % 997 / 997 - 0.5


def made(model: str) -> tuple[dict[str, Any], pd.DataFrame]:
    """The data of the R program, by the same formula."""
    reference = json.loads((PLACE / f"{MODELS[model]}.json").read_text())
    n, p = reference["n"], reference["p"]
    i = np.arange(n)
    U = np.column_stack([noise(i, j) for j in range(p + 1)])
    X = np.column_stack([(U[:, j] + 0.6 * U[:, j - 1]) * (1 + j % 4) for j in range(1, p + 1)])
    score = X @ np.array([0 if j % 3 == 0 else 2 / j for j in range(1, p + 1)])
    luck = noise(i, p + 7)
    y = (score + 3 * luck > 0.3).astype(float) if model == "logistic" else np.floor(np.exp(0.8 * score + 2 * luck))
    assert y.sum() == reference["y_sum"]
    return reference, pd.DataFrame(X, columns=[f"x{j}" for j in range(p)]).assign(y=y)


@pytest.mark.parametrize("shrink", KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_paths_are_glmnets(model: str, shrink: str) -> None:
    reference, frame = made(model)
    expected = reference["paths"][KINDS[shrink]]
    alphas = np.array(reference["lambda"]) * (len(frame) if model == "logistic" else 1)
    mixing = {"l1_ratio": expected["mixing"]} if shrink == "elasticnet" else {}
    found = path(frame, "y", model, shrink=shrink, alphas=alphas, **mixing)
    coefficients = np.array(expected["coefficients"])
    np.testing.assert_allclose(found.coef, coefficients, rtol=0, atol=CLOSE * np.abs(coefficients).max())
    np.testing.assert_allclose(found.intercepts, expected["intercepts"], rtol=0, atol=CLOSE)
    assert all(one.relative < 1e-8 and one.rests_on == "data" for one in found.certificates)
    if shrink == "lasso":
        clear = np.abs(coefficients) > 1e-6  # glmnet leaves what should be 0 at some tiny value or at 0
        np.testing.assert_array_equal(found.coef != 0, clear)


@pytest.mark.parametrize("shrink", KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_deviances_of_folds_are_those_of_cv_glmnet(tmp_path: Path, model: str, shrink: str) -> None:
    """Through the command line; all folds have as many rows, so that lambda is one alpha for all of them."""
    reference, frame = made(model)
    expected = reference["paths"][KINDS[shrink]]
    table = tmp_path / "made.csv"
    frame.to_csv(table, index=False, float_format="%.17g")
    trained = len(frame) * 4 // 5 if model == "logistic" else 1
    alphas = ",".join(repr(value * trained) for value in reference["lambda"])
    found = shoal(
        "tune", table, "--target", "y", "--model", model, "--shrink", shrink, "--folds", "5", "--fold-by", "row",
        "--alphas", alphas, *(["--l1-ratio", repr(expected["mixing"])] if shrink == "elasticnet" else []), "--json",
    ).json  # fmt: skip
    times = 2 if model == "logistic" else 1  # a log loss is half a deviance
    np.testing.assert_allclose(times * np.array(found["cv_mean"]), expected["cvm"], rtol=1e-7)
    assert found["best"] == pytest.approx(expected["lambda_min"] * trained, rel=1e-12)
    assert found["measure"] == ("log loss" if model == "logistic" else "mean deviance")
