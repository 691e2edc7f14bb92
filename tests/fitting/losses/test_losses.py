"""Fits of yes/no, counts and positive numbers from files: targets of every kind, scores, bits, and words where there is
no answer or only a doubtful one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from shoal.coordinator import Coordinator
from shoal.engines.base import Engine
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.errors import ConfigError, DataError
from shoal.home import home
from shoal.settings.values import config_from
from shoal.tasks.train import train_with
from support.tables import fitted, small_pieces

N = 600


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    found = pd.DataFrame({"x": rng.normal(50, 2, N), "z": rng.normal(size=N), "g": rng.choice(["a", "b", "c"], N)})
    eta = (found["x"] - 50) * 0.6 - found["z"] + (found["g"] == "b") - 0.4
    found["y"] = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)
    return found


def fit(
    frame: pd.DataFrame, tmp_path: Path, model: str = "logistic", target: str = "y", **knobs: Any
) -> dict[str, Any]:
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return fitted(path, target, model=model, **knobs)


@pytest.mark.parametrize(
    ("no", "yes"),
    [
        ("nein", "ja"),
        ("No", "Yes"),
        ("true", "zero"),
        ("0", "1"),
        ("1", "2"),
        ("False", "True"),
        ("-1", "1"),
        ("Hayır", "Evet"),
        ("Non", "Avérée"),
    ],
)
def test_any_two_values_are_yes_and_no(frame: pd.DataFrame, tmp_path: Path, no: str, yes: str) -> None:
    if no == "true":  # the word for yes comes first in order
        no, yes = yes, no
    plain = fit(frame, tmp_path)
    named = fit(frame.assign(y=np.where(frame["y"] == 1, yes, no)), tmp_path)
    assert [name.lower() for name in named["outcome"]["classes"]] == [no.lower(), yes.lower()]
    assert named["coefficients"] == pytest.approx(plain["coefficients"], rel=1e-9)
    for score, value in plain["outcome"]["train"]["scores"].items():
        assert named["outcome"]["train"]["scores"][score] == pytest.approx(value, rel=1e-9), score


def test_the_yes_can_be_chosen(frame: pd.DataFrame, tmp_path: Path) -> None:
    plain, turned = fit(frame, tmp_path), fit(frame, tmp_path, positive="0")
    assert turned["outcome"]["classes"] == ["1", "0"]
    for name, value in plain["coefficients"].items():
        assert turned["coefficients"][name] == pytest.approx(-value, rel=1e-8)
    with pytest.raises(ConfigError, match="0 or 1, got '7'"):
        fit(frame, tmp_path, positive="7")
    with pytest.raises(ConfigError, match="--positive Ja") as told:
        fit(frame.assign(y=np.where(frame["y"] == 1, "Nej", "Ja")), tmp_path, positive="ja")
    assert "--positive Nej" not in str(told.value)


def test_scores_are_those_of_scikit_learn_on_test_rows_too(frame: pd.DataFrame, tmp_path: Path) -> None:
    found = fit(frame, tmp_path, test_every=4)
    held = np.arange(N) % 4 == 0
    X = pd.get_dummies(frame[["x", "z", "g"]], drop_first=True, prefix_sep="=").astype(float)
    eta = X.to_numpy() @ np.array([found["coefficients"][name] for name in X]) + found["intercept"]
    p = 1 / (1 + np.exp(-eta))
    for part, rows in (("train", ~held), ("test", held)):
        y, q = frame["y"][rows], p[rows]
        ours, nothing = found["outcome"][part]["scores"], found["outcome"][part]["baseline"]
        share = np.full(len(q), frame["y"][~held].mean())
        theirs = {
            "log_loss": metrics.log_loss(y, q), "auc": metrics.roc_auc_score(y, q),
            "pr_auc": metrics.average_precision_score(y, q), "accuracy": metrics.accuracy_score(y, q >= 0.5),
            "balanced_accuracy": metrics.balanced_accuracy_score(y, q >= 0.5), "f1": metrics.f1_score(y, q >= 0.5),
            "brier": metrics.brier_score_loss(y, q), "deviance_explained": metrics.d2_log_loss_score(y, q),
        }  # fmt: skip
        if part == "test":  # knowing nothing is knowing the training rows' share
            theirs["deviance_explained"] = 1 - theirs["log_loss"] / metrics.log_loss(y, share)
        assert ours == pytest.approx(theirs, rel=1e-9)
        assert nothing["log_loss"] == pytest.approx(metrics.log_loss(y, share))
        assert nothing["brier"] == pytest.approx(metrics.brier_score_loss(y, share))
        assert nothing["accuracy"] == pytest.approx(metrics.accuracy_score(y, share >= 0.5))
        assert nothing["f1"] == pytest.approx(metrics.f1_score(y, share >= 0.5, zero_division=0))
    curve = found["outcome"]["curve"]
    at = curve["thresholds"].index(0.5)
    matrix = metrics.confusion_matrix(frame["y"][held], p[held] >= 0.5)
    assert (curve["hits"][at], curve["alarms"][at]) == (matrix[1, 1], matrix[0, 1])
    assert sum(bin_["rows"] for bin_ in found["outcome"]["calibration"]) == held.sum()


def test_alpha_is_one_over_c_of_scikit_learn(frame: pd.DataFrame, tmp_path: Path) -> None:
    X = pd.get_dummies(frame[["x", "z", "g"]], drop_first=True, prefix_sep="=").astype(float)
    theirs = LogisticRegression(C=1 / 7, solver="newton-cholesky", tol=1e-13, max_iter=1000).fit(X, frame["y"])
    found = fit(frame, tmp_path, shrink="ridge", alpha=7.0, standardize=False)
    np.testing.assert_allclose([found["coefficients"][name] for name in X], theirs.coef_[0], rtol=1e-7)
    assert found["intercept"] == pytest.approx(theirs.intercept_[0], rel=1e-7)


def bits(path: Path, engine: Engine, **knobs: Any) -> dict[str, Any]:
    with engine:
        config = config_from({"file": str(path), "target": "y", **knobs})
        said = train_with(Coordinator(engine, home()), config).report.as_dict()
    return {name: value for name, value in said.items() if name not in ("timings", "run_id")}


@pytest.mark.parametrize("knobs", [{}, {"shrink": "elasticnet", "alpha": 3.0, "test_every": 3}], ids=["none", "mixed"])
def test_the_same_bits_for_any_number_of_workers(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knobs: dict[str, Any]
) -> None:
    path = tmp_path / "table.csv"
    pd.concat([frame] * 3).assign(y=lambda d: np.where(d["y"] == 1, "yes", "no")).to_csv(path, index=False)
    with small_pieces(monkeypatch, 4096):
        ours = bits(path, InlineEngine(), model="logistic", **knobs)
    assert bits(path, ProcessEngine(1), model="logistic", **knobs) == ours  # of the blocks that are there now
    assert bits(path, ProcessEngine(3), model="logistic", **knobs) == ours


@pytest.mark.parametrize(
    ("y", "model", "why"),
    [
        (["a", "b"] * (N // 2), "logistic", "two values, a and b"),
        ([0, 1] * (N // 2), "logistic", "two values, 0 and 1"),
        ([0, 1, 2, 3, 0, 1] * (N // 6 - 2) + [0, 4] * 6, "poisson", "whole numbers from 0 to 4 with a mean of"),
        ([0, 1, 4, 2] * (N // 4), "linear", "a rating or grade?"),
        ([0.5, 1, 4, 2] * (N // 4), "linear", "numbers from 0.5 to 4"),
        (list(range(N)), "linear", "numbers from 0 to 599"),
    ],
)
def test_the_model_by_the_target_says_why(
    frame: pd.DataFrame, tmp_path: Path, y: list[Any], model: str, why: str
) -> None:
    found = fit(frame.assign(y=y), tmp_path, "auto")
    assert found["model"] == found["contents"]["config"]["model"] == model
    assert why in found["warnings"][0]
    assert f"So it is {model}." in found["contents"]["warnings"][0]


def test_no_model_suits_many_texts(frame: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"200 or more different texts, such as .* which no model here predicts"):
        fit(frame.assign(y=[f"t{i % 200}" for i in range(N)]), tmp_path, "auto")


# ------------------------------------------------------------------ where there is no answer, or a doubtful one


def notes(found: dict[str, Any]) -> str:
    return " ".join(found["warnings"])


def test_values_that_are_told_apart_have_no_finite_optimum_and_it_is_said(frame: pd.DataFrame, tmp_path: Path) -> None:
    apart = frame.assign(y=np.where(frame["x"] > 50.1, "yes", "no"))
    found = fit(apart, tmp_path)
    assert "no finite optimum" in notes(found)
    assert "(x)" in notes(found)
    assert found["inference"] is None
    assert found["outcome"]["separated"]
    assert found["outcome"]["train"]["scores"]["accuracy"] == 1.0
    held = fit(apart, tmp_path, shrink="ridge")
    assert "no finite optimum" not in notes(held)
    assert held["certificate"]["relative"] < 1e-8


def test_a_level_that_is_always_yes_or_never_counts_runs_away_and_is_named(frame: pd.DataFrame, tmp_path: Path) -> None:
    found = fit(frame.assign(y=np.where(frame["g"] == "c", 1, frame["y"])), tmp_path)
    assert "grow without end (g=c)" in notes(found)
    rng = np.random.default_rng(1)
    counts = frame.assign(y=np.where(frame["g"] == "b", 0, rng.poisson(2, N)))
    assert "grow without end (g=b)" in notes(fit(counts, tmp_path, "poisson"))


def test_few_rows_of_one_value_are_answered_and_said(frame: pd.DataFrame, tmp_path: Path) -> None:
    rare = np.zeros(N, int)
    rare[[7, 80, 300]] = 1
    found = fit(frame.assign(y=rare), tmp_path, exclude=["g"])
    assert "Only 3 training rows are '1'" in notes(found)
    assert found["certificate"]["relative"] < 1e-8
    assert found["inference"] is not None


def test_columns_that_depend_on_one_another_share_the_weight(frame: pd.DataFrame, tmp_path: Path) -> None:
    found = fit(frame.assign(twice=2 * frame["x"], same=3.0), tmp_path, exclude=["g"])
    assert not found["unique"]
    assert "depend on one another" in notes(found)
    assert "does not vary" in notes(found)
    alone = fit(frame, tmp_path, exclude=["g"])
    assert found["outcome"]["log_likelihood"] == pytest.approx(alone["outcome"]["log_likelihood"], rel=1e-10)


@pytest.mark.parametrize(
    ("model", "y", "words"),
    [
        ("logistic", "one", "got one in all rows: 'one'"),
        ("logistic", ["a", "b", "c"] * (N // 3), "got 3: a, b, c"),
        ("logistic", list(range(N)), "got more than 50"),
        ("poisson", 0, "All counts in 'y' are 0"),
        ("poisson", [-1] + [2] * (N - 1), "counts of 0 or more in 'y', got -1"),
        ("poisson", ["a", "b"] * (N // 2), "got 'y' with text"),
        ("gamma", [0] + [2] * (N - 1), "greater than 0 in 'y' for a gamma model, got 0"),
    ],
)
def test_targets_that_a_model_cannot_have_are_refused(
    frame: pd.DataFrame, tmp_path: Path, model: str, y: Any, words: str
) -> None:
    with pytest.raises((ConfigError, DataError)) as refused:
        fit(frame.assign(y=y), tmp_path, model)
    assert words in str(refused.value)


def test_a_value_that_only_test_rows_have_is_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    y = np.where(np.arange(N) % 3 == 0, "yes", "no")
    with pytest.raises(DataError, match="both values of 'y', got none with 'yes'"):
        fit(frame.assign(y=y), tmp_path, test_every=3)


def test_what_there_is_for_linear_models_only_is_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fitted exactly only, so far"):
        config_from({"file": "t.csv", "target": "y", "model": "auto", "solver": "gradient"})
    with pytest.raises(ConfigError, match="no curvature, which gradient steps need"):
        config_from({"file": "t.csv", "target": "y", "model": "quantile", "solver": "gradient"})
    with pytest.raises(ConfigError, match="--model logistic"):
        fit(frame.assign(y=np.where(frame["y"] == 1, "b", "a")), tmp_path, "linear")


@pytest.mark.parametrize("offset", [False, True])
def test_without_an_intercept_knowing_nothing_is_a_score_of_0_as_in_r(tmp_path: Path, offset: bool) -> None:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"x": rng.normal(size=N), "years": rng.uniform(1, 5, N)})
    frame["y"] = rng.poisson(frame["years"] * np.exp(0.4 * frame["x"] - 0.2))
    knobs = {"offset": "years", "offset_as": "exposure"} if offset else {"features": ["x"]}
    found = fit(frame, tmp_path, "poisson", intercept=False, **knobs)["outcome"]
    said = frame["years"] if offset else np.ones(N)  # exp(0), beside the exposure
    assert found["null_deviance"] == pytest.approx(N * metrics.mean_poisson_deviance(frame["y"], said), rel=1e-12)
    likelihood = stats.poisson(said).logpmf(frame["y"]).sum()
    assert found["null_log_likelihood"] == pytest.approx(likelihood, rel=1e-12)


def test_values_that_differ_in_capitals_or_blanks_are_told(frame: pd.DataFrame, tmp_path: Path) -> None:
    written = frame.assign(y=np.where(frame["y"] == 1, np.where(frame.index % 2, "Yes", " yes"), "no"))
    with pytest.raises(ConfigError, match=r"capitals or blanks tell these apart: 'Yes' and 'yes'\. If they are one"):
        fit(written, tmp_path, "logistic")
    found = fit(written, tmp_path, "auto")
    assert found["model"] == "multinomial"
    assert any("capitals or blanks" in note for note in found["warnings"])


@pytest.mark.parametrize("off", [100.0, -3000.0])
def test_offsets_far_from_0_leave_the_best_constant_as_far_on_the_other_side(tmp_path: Path, off: float) -> None:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"x": rng.normal(size=N), "away": rng.normal(off, 1, size=N)})
    frame["y"] = (rng.random(N) < special.expit(frame["x"] + frame["away"] - off)).astype(int)
    found = fit(frame, tmp_path, "logistic", offset="away")
    b = optimize.brentq(lambda b: (special.expit(b + frame["away"]) - frame["y"]).sum(), -off - 9, -off + 9, xtol=1e-13)
    eta = b + frame["away"]  # what R's `null.deviance` and statsmodels' `null_deviance` with an offset are at
    null = 2 * (np.logaddexp(0, eta) - frame["y"] * eta).sum()
    assert found["outcome"]["null_deviance"] == pytest.approx(null, rel=1e-10)
    assert found["outcome"]["deviance"] < null


def test_all_passes_over_the_rows_are_counted(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept, passes = Coordinator.swept, []

    def counted(self: Coordinator, what: str, requests: Any) -> Any:
        passes.append(what)
        return swept(self, what, requests)

    monkeypatch.setattr(Coordinator, "swept", counted)
    y = np.random.default_rng(1).gamma(2.0, size=N)
    for knobs in ({}, {"offset": "z"}, {"robust": "HC1"}, {"offset": "z", "intercept": False}):
        passes.clear()
        found = fit(frame.assign(y=y), tmp_path, "gamma", **knobs)["outcome"]
        of_fit = [what for what in passes if what not in ("looking at the target", "summing")]
        assert found["sweeps"] == len(of_fit), passes
