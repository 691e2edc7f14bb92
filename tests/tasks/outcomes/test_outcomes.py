"""What is said of yes/no, count and positive models from the rows: importance, intervals, residuals, the report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_poisson_deviance

import shoal as package
from shoal.errors import ConfigError
from shoal.fitting.model_file import load_model, own_data
from shoal.settings.values import config_from
from shoal.tasks.diagnose import diagnose
from shoal.tasks.explain import ExplainRequest, explain_model
from support.tables import shoal, small_pieces

N = 1500
DEVIANCES = {
    "logistic": lambda y, p: 2 * log_loss(y, p, labels=[0, 1]),
    "poisson": mean_poisson_deviance,
    "gamma": mean_gamma_deviance,
}
PEERS = {
    "logistic": LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000),
    "poisson": PoissonRegressor(alpha=0, tol=1e-10, max_iter=5000),
    "gamma": GammaRegressor(alpha=0, tol=1e-10, max_iter=5000),
}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def table() -> pd.DataFrame:
    """Sorted by the column that matters most, so that neighbours are alike."""
    rng = np.random.default_rng(12)
    found = pd.DataFrame({"x": np.sort(rng.normal(size=N)), "z": rng.normal(size=N), "idle": rng.normal(size=N)})
    found["g"] = rng.choice(["a", "b"], N)
    eta = 1.2 * found["x"] - 0.5 * found["z"] + 0.7 * (found["g"] == "b") - 0.3
    found["logistic"] = np.where(rng.random(N) < 1 / (1 + np.exp(-eta)), "ja", "nein")
    found["poisson"] = rng.poisson(np.exp(eta))
    found["gamma"] = rng.gamma(2.0, np.exp(eta) / 2)
    return found


def fitted(tmp_path: Path, kind: str, **knobs: Any) -> tuple[pd.DataFrame, Path, Path]:
    frame, data, model = table(), tmp_path / "t.csv", tmp_path / "m.json"
    frame[["x", "z", "idle", "g", kind]].to_csv(data, index=False)
    package.fit(data, kind, kind, **knobs).save(model)
    return frame, data, model


def oracle(frame: pd.DataFrame, kind: str) -> tuple[pd.DataFrame, pd.Series, Callable[[pd.DataFrame], np.ndarray]]:
    """Rows as scikit-learn takes them, the target, and the mean that its own fit predicts."""
    X = frame[["x", "z", "idle"]].assign(g=(frame["g"] == "b") * 1.0)
    y = (frame[kind] == "ja") * 1.0 if kind == "logistic" else frame[kind] * 1.0
    peer = PEERS[kind].fit(X, y)
    return X, y, (lambda X: peer.predict_proba(X)[:, 1]) if kind == "logistic" else peer.predict


@pytest.mark.parametrize("kind", PEERS)
def test_squares_of_residuals_are_the_deviances_of_scikit_learn(kind: str, tmp_path: Path) -> None:
    frame, _, model = fitted(tmp_path, kind)
    found = diagnose(model, own_data(json.loads(model.read_text())["config"]), True).as_dict()
    X, y, mean_of = oracle(frame, kind)
    sample, mean = found["sample"], mean_of(X)
    assert sample["row"] == list(range(N))
    assert sample["predicted"] == pytest.approx(mean, rel=1e-4)
    for row in range(0, N, 10):
        own, deviance = sample["residual"][row], DEVIANCES[kind]([y[row]], [mean[row]])
        assert own**2 == pytest.approx(deviance, rel=1e-3, abs=1e-6)
        assert np.sign(own) == np.sign(y[row] - mean[row])
    came = sum(c["rows"] * (c["predicted"] + c["residual"]) for c in found["curve"]) / N
    assert came == pytest.approx(float(y.mean()), rel=1e-9)  # bins say what came in all rows together


@pytest.mark.parametrize("kind", PEERS)
def test_intervals_and_importance_are_those_of_other_arithmetic_on_the_same_rows(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, _, model = fitted(tmp_path, kind)
    with small_pieces(monkeypatch, 8_000):  # several blocks, each with neighbours in x
        found = explain_model(model, ExplainRequest(confidence=0.8))
    X, y, mean_of = oracle(frame, kind)
    own = found["intervals"][0]["coefficients"]["x"]
    reach = stats.t(N - 5).ppf(0.9) if kind == "gamma" else stats.norm.ppf(0.9)
    ends = [own["estimate"] - reach * own["std_error"], own["estimate"] + reach * own["std_error"]]
    assert [own["low"], own["high"]] == pytest.approx(ends, rel=1e-9)
    assert own["factor_high"] == pytest.approx(np.exp(own["high"]))
    worth = found["importance"]
    deviance = DEVIANCES[kind](y, mean_of(X))
    assert worth["error"] == pytest.approx(deviance, rel=1e-5)
    rng = np.random.default_rng(0)
    for name in ("x", "z", "idle", "g"):
        rises = []
        for _ in range(20):
            moved = X.assign(**{name: rng.permutation(X[name].to_numpy())})
            rises.append(DEVIANCES[kind](y, mean_of(moved)) - deviance)
        assert worth["rises"][name] == pytest.approx(np.mean(rises), abs=6 * np.std(rises) + 0.15 * np.mean(rises))
    assert next(iter(worth["rises"])) == "x"
    assert list(worth["rises"])[-1] == "idle"


def test_explain_of_a_penalised_or_unfindable_model_says_what_is_missing(tmp_path: Path) -> None:
    _, data, model = fitted(tmp_path, "logistic", shrink="ridge", alpha=3.0, test_every=4)
    told = shoal("explain", model)
    assert told.code == 0, told.err
    assert "pulled toward 0" in told.out
    assert "test rows" in told.out
    assert "rise with its values shuffled" in told.out
    assert "without it" not in told.out  # nothing is fitted anew
    with pytest.raises(ConfigError, match="Train it at that alpha"):
        explain_model(model, ExplainRequest(alpha=1.0))
    data.unlink()
    found = explain_model(model, ExplainRequest())
    assert found["importance"] is None
    assert "not there any more" in found["notes"][-1]


def test_another_file_is_compared_with_and_its_values_have_to_be_the_same(tmp_path: Path) -> None:
    frame, _, model = fitted(tmp_path, "logistic")
    other = tmp_path / "other.csv"
    frame[["x", "z", "idle", "g", "logistic"]].sample(200, random_state=1).to_csv(other, index=False)
    found = diagnose(model, config_from({"file": str(other)}), False).as_dict()
    chosen = pd.read_csv(other)
    said = load_model(model)
    p = package.FittedModel(said.file).predict_proba(chosen)[:, 1]
    deviance = sum(r**2 for r in found["sample"]["residual"])
    assert deviance == pytest.approx(2 * 200 * log_loss(chosen["logistic"] == "ja", p), rel=1e-9)
    frame.assign(logistic=1)[["x", "z", "idle", "g", "logistic"]].to_csv(other, index=False)
    with pytest.raises(Exception, match="Expected 'ja' among the values"):
        diagnose(model, config_from({"file": str(other)}), False)


@pytest.mark.parametrize("kind", PEERS)
def test_the_report_is_one_page_with_all_of_it(kind: str, tmp_path: Path) -> None:
    _, _, model = fitted(tmp_path, kind, test_every=5)
    out = tmp_path / "r.html"
    told = shoal("export", model, "--to", "report", "--out", out)
    assert told.code == 0, told.err
    assert "note" not in told.out
    page = re.sub(r"<[^>]*>", " ", out.read_text())
    wanted = ["Deviance residual", "What columns are worth", "deviance explained", "Actual, on average"]
    wanted += ["log odds of ja =", "odds ratio, low", "false alarms", "ROC curve"] if kind == "logistic" else []
    wanted += [f"log {kind} =", "factor, high"] if kind != "logistic" else []
    assert [text for text in wanted if text not in page] == []
    assert "straight line" not in page.replace("straight-line", "")
