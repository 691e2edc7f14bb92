"""Cross-validation of tables wider than long, against scikit-learn pipelines that are refitted in every fold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import ElasticNet, Lasso, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shoal.metrics import Timings
from shoal.settings.config import RunConfig
from shoal.tasks.train import coordinated
from shoal.tasks.tune import TuningRequest, train_tuned, tune_with
from shoal.whatif.penalty_choice import Tuned
from support.tables import written

ALPHAS = [2.0, 0.6, 0.2, 0.05]
PEERS: dict[str, Any] = {
    "lasso": lambda alpha: Lasso(alpha, tol=1e-12, max_iter=10**6),
    "elasticnet": lambda alpha: ElasticNet(alpha, l1_ratio=0.5, tol=1e-12, max_iter=10**6),
    "ridge": lambda alpha: Ridge(alpha),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(23)
    X = random.standard_normal((64, 540)).round(3)
    y = (X[:, 0] * 2 - X[:, 7] + 0.3 * random.standard_normal(64)).round(3)
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(540)])
    frame.loc[::9, "g7"] = np.nan
    frame.loc[3::11, "g20"] = np.nan
    return written(tmp_path_factory.mktemp("wide"), frame.assign(y=y).to_csv(index=False))


def tuned(path: Path, model: str, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Tuned:
    monkeypatch.setattr("shoal.fitting.summing.sum_cells", None)  # no sums of all pairs are asked for
    config = RunConfig(file=str(path), target="y", model=model, test_every=8, **more)
    with coordinated(config) as coordinator:
        return tune_with(coordinator, config, TuningRequest(folds=5, fold_by="row", alphas=ALPHAS), Timings())


@pytest.mark.parametrize("model", PEERS)
def test_every_fold_is_that_of_a_pipeline_that_saw_its_training_rows_only(
    model: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tuned(path, model, monkeypatch)
    frame = pd.read_csv(path)
    X, y, row = frame.drop(columns="y"), frame["y"], np.arange(len(frame))
    held = row % 8 == 0
    scores = []
    for alpha in ALPHAS:
        pipeline = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), PEERS[model](alpha))
        errors = []
        for fold in range(5):
            train, test = ~held & (row % 5 != fold), ~held & (row % 5 == fold)
            pipeline.fit(X[train], y[train])
            errors.append(((pipeline.predict(X[test]) - y[test]) ** 2).mean())
        scores.append(errors)
        pipeline.fit(X[~held], y[~held])
        place = ALPHAS.index(alpha)
        assert found.train[0][place] == pytest.approx(((pipeline.predict(X[~held]) - y[~held]) ** 2).mean(), abs=1e-7)
        assert found.test[0][place] == pytest.approx(((pipeline.predict(X[held]) - y[held]) ** 2).mean(), abs=1e-7)
    assert found.curve.errors == pytest.approx(np.array(scores).T, abs=1e-7)
    assert found.certificate.relative < 1e-12
    assert found.scores("best")["test"]["rows"] == 8


def test_the_model_that_was_chosen_is_the_point_of_the_path(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuned(path, "lasso", monkeypatch)
    config = RunConfig(file=str(path), target="y", model="lasso", test_every=8)
    with coordinated(config) as coordinator:
        model = train_tuned(coordinator, config, found, "best", Timings()).report
    assert model.coefficients == pytest.approx(found.coefficients("best"), abs=1e-9)
    assert model.alpha == found.alpha("best")
