"""An alpha that nobody names is chosen by cross-validation, as `shoal tune` chooses it; one that is named is taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal as package
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from support.data.encoding import saved
from support.tables import shoal


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(3)
    X = random.normal(size=(120, 8))
    y = X[:, 0] - 0.5 * X[:, 1] + random.normal(size=120)
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(t=[f"l{i % 3}" for i in range(120)], y=y)
    return saved(tmp_path_factory.mktemp("table"), frame)


@pytest.mark.parametrize("model", ["ridge", "lasso", "elasticnet"])
@pytest.mark.parametrize("flags", [[], ["--test-every", "5"]], ids=["all rows", "test rows"])
def test_it_is_that_of_tune_and_said(path: Path, model: str, flags: list[str], tmp_path: Path) -> None:
    by = "hash" if flags else "row"
    tuned = shoal("tune", path, "--target", "y", "--model", model, "--fold-by", by, *flags, "--json").json
    answer = shoal("train", path, "--target", "y", "--model", model, *flags, "--out", tmp_path / "model.json")
    assert answer.code == 0, answer.err
    assert answer.out.startswith(
        f"{model} model of y, alpha = {tuned['best']:g} (by cross-validation: 10 folds by {by}"
    )
    found = package.load(tmp_path / "model.json")
    assert found.alpha == tuned["best"]
    assert found.coefficients == pytest.approx(tuned["coefficients"]["best"], rel=1e-7, abs=1e-12)
    kept = found.report["cross_validation"]
    assert (kept["folds"], kept["fold_by"], kept["chosen"], kept["alphas"]) == (10, by, "best", 100)
    assert kept["mse"] == pytest.approx(min(tuned["cv_mean"]), rel=1e-12)
    assert found.refit(alpha=2.0).alpha == 2.0


def test_one_that_is_named_is_taken(path: Path) -> None:
    found = package.fit(str(path), "y", "ridge", alpha=1.0)
    assert found.alpha == 1.0
    assert "cross_validation" not in found.report
    assert package.fit(str(path), "y", "ridge", alpha="auto").alpha == package.fit(str(path), "y", "ridge").alpha != 1.0


def test_gradient_steps_go_to_the_same_model(path: Path) -> None:
    exact = package.fit(str(path), "y", "lasso", test_every=5)
    steps = package.fit(str(path), "y", "lasso", test_every=5, solver="gradient", engine="inline")
    assert steps.alpha == exact.alpha
    assert steps.report["cross_validation"] == exact.report["cross_validation"]
    assert steps.coefficients == pytest.approx(exact.coefficients, rel=1e-3, abs=1e-3)


def test_too_few_rows_leave_the_usual_one_with_a_word(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0, 7.0], "y": [1.0, 3.0, 2.0, 5.0]})
    found = package.fit(str(saved(tmp_path, frame)), "y", "ridge")
    assert found.alpha == 1.0
    assert "4 rows are too few to choose alpha by cross-validation; it is 1." in found.warnings


def test_estimators_and_models_without_a_penalty_are_as_they_were(path: Path) -> None:
    assert package.Ridge().alpha == package.Lasso().alpha == package.ElasticNet().alpha == 1.0
    assert package.fit(str(path), "y").alpha is None
    assert strength(RunConfig()) == strength(RunConfig(penalty="mine")) == 1.0
    with pytest.raises(package.TrainingError, match="Expected alpha to be chosen by now"):
        strength(RunConfig(model="ridge"))
