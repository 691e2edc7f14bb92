"""Models of several classes from files, against scikit-learn and statsmodels; scores, weights, bits, and words where
there is no answer or only a doubtful one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets, metrics
from sklearn.linear_model import LogisticRegression

from shoal.coordinator import Coordinator
from shoal.engines.base import Engine
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.errors import ConfigError, DataError
from shoal.fitting.classes import fit as fits
from shoal.home import home
from shoal.results.outcome import by_column
from shoal.settings.values import config_from
from shoal.tasks.train import train_with
from support.tables import fitted, small_pieces

SHARED = Path(__file__).parents[4] / "shared" / "data"
REFERENCES = json.loads((Path(__file__).parent / "mnlogit.json").read_text())
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not there")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def frame_of(name: str) -> pd.DataFrame:
    if name == "iris":
        found = datasets.load_iris(as_frame=True)
        return found.frame.rename(columns={"target": "y"}).assign(y=found.target_names[found.target])
    if name == "wine":
        return datasets.load_wine(as_frame=True).frame.rename(columns={"target": "y"})
    if not SHARED.is_dir():
        pytest.skip("the shared data are not there")
    if name == "digits":
        return pd.read_csv(SHARED / "mnist" / "digits_8x8.csv").rename(columns={"label": "y"})
    frame = pd.read_csv(SHARED / "regression" / "penguins.csv").dropna().rename(columns={"species": "y"})
    return frame.select_dtypes("number").assign(y=frame["y"]).reset_index(drop=True)


def fit(frame: pd.DataFrame, tmp_path: Path, **knobs: Any) -> dict[str, Any]:
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return fitted(path, "y", **{"model": "multinomial", **knobs})


def standardised(frame: pd.DataFrame) -> np.ndarray:
    X = frame.drop(columns="y").to_numpy(float)
    sd = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(sd > 0, sd, 1.0))


def weights_of(found: dict[str, Any]) -> np.ndarray:
    classes = found["outcome"]["classes"]
    return np.array(list(found["coefficients_standardized"].values())).reshape(len(classes), -1)


@pytest.mark.parametrize(
    ("name", "shrink", "alpha", "l1_ratio"),
    [
        ("penguins", "ridge", 1.0, 0.0), ("iris", "ridge", 0.1, 0.0), ("wine", "ridge", 1.0, 0.0),
        ("digits", "ridge", 10.0, 0.0), ("iris", "lasso", 1.0, 1.0), ("wine", "elasticnet", 3.0, 0.5),
        ("penguins", "lasso", 2.0, 1.0),
    ],
)  # fmt: skip
def test_real_tables_have_the_coefficients_of_scikit_learn(
    name: str, shrink: str, alpha: float, l1_ratio: float, tmp_path: Path
) -> None:
    frame = frame_of(name)
    found = fit(frame, tmp_path, shrink=shrink, alpha=alpha, l1_ratio=l1_ratio)
    solver = {"solver": "newton-cg", "tol": 1e-11} if shrink == "ridge" else {"solver": "saga", "tol": 1e-9}
    theirs = LogisticRegression(C=1 / alpha, l1_ratio=l1_ratio, max_iter=100_000, **solver)
    theirs.fit(standardised(frame), frame["y"].astype(str))
    order = [found["outcome"]["classes"].index(one) for one in theirs.classes_]
    assert np.abs(weights_of(found)[order] - theirs.coef_).max() < 1e-6
    assert found["certificate"]["relative"] < 1e-9
    loss = metrics.log_loss(frame["y"].astype(str), theirs.predict_proba(standardised(frame)))
    assert found["outcome"]["train"]["scores"]["log_loss"] == pytest.approx(loss, abs=1e-9)


@needs_shared
@pytest.mark.parametrize("name", list(REFERENCES["tables"]))
def test_coefficients_errors_and_likelihood_are_those_of_statsmodels(name: str, tmp_path: Path) -> None:
    known = REFERENCES["tables"][name]
    frame = pd.read_csv(SHARED / "regression" / name)[[known["target"], *known["columns"]]].dropna()
    found = fit(frame.rename(columns={known["target"]: "y"}), tmp_path)
    outcome, coefs = found["outcome"], by_column(known["classes"], found["coefficients"])
    assert outcome["classes"] == known["classes"]
    ours = np.array([outcome["intercepts"], *(coefs[column] for column in known["columns"])]).T
    assert ours == pytest.approx(np.array(known["coefficients"]), rel=1e-6, abs=1e-6)
    assert outcome["log_likelihood"] == pytest.approx(known["log_likelihood"], rel=1e-10)
    assert outcome["null_log_likelihood"] == pytest.approx(known["null_log_likelihood"], rel=1e-10)
    assert errors_of(known, found) == pytest.approx(np.array(known["std_errors"]), rel=1e-5)


def errors_of(known: dict[str, Any], found: dict[str, Any]) -> np.ndarray:
    own = found["inference"]["coefficients"]
    terms = ("(intercept)", *known["columns"])
    return np.array([[own[f"{one}: {term}"]["std_error"] for term in terms] for one in known["classes"]])


@needs_shared
def test_robust_errors_are_those_of_statsmodels_also_where_weights_repeat_rows(tmp_path: Path) -> None:
    known = REFERENCES["tables"]["penguins.csv"]
    frame = pd.read_csv(SHARED / "regression" / "penguins.csv")[[known["target"], *known["columns"]]].dropna()
    frame = frame.rename(columns={known["target"]: "y"})
    for kind in ("HC0", "HC3"):
        own = errors_of(known, fit(frame, tmp_path, robust=kind))
        assert own == pytest.approx(np.array(known[kind]), rel=1e-6), kind
    k = 2 * (1 + len(known["columns"]))
    more = np.sqrt(known["rows"] / (known["rows"] - k))
    assert errors_of(known, fit(frame, tmp_path, robust="HC1")) == pytest.approx(np.array(known["HC0"]) * more)

    times = np.random.default_rng(4).integers(1, 4, len(frame))
    twice = fit(frame.loc[frame.index.repeat(times)], tmp_path, robust="HC2")
    once = fit(frame.assign(times=times), tmp_path, robust="HC2", weights="times", weights_are="frequency")
    assert errors_of(known, once) == pytest.approx(errors_of(known, twice), rel=1e-9)


def test_scores_are_those_of_scikit_learn_each_beside_knowing_nothing(tmp_path: Path) -> None:
    frame = frame_of("wine").sample(frac=1.0, random_state=1).reset_index(drop=True)
    frame = frame[["alcohol", "hue", "y"]]
    found = fit(frame, tmp_path, shrink="ridge", alpha=1.0, test_every=3, out=str(tmp_path / "m.json"))
    import shoal

    held = frame[np.arange(len(frame)) % 3 == 0]
    model = shoal.load(tmp_path / "m.json")
    shares, calls = model.predict_proba(held), model.predict(held)
    y, scores = held["y"].to_numpy(float), found["outcome"]["test"]["scores"]
    assert calls.tolist() == np.array(model.classes)[shares.argmax(axis=1)].tolist()
    expected = {
        "log_loss": metrics.log_loss(y, shares),
        "auc": metrics.roc_auc_score(y, shares, multi_class="ovr", average="macro"),
        "accuracy": metrics.accuracy_score(y, calls),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, calls),
        "f1": metrics.f1_score(y, calls, average="macro"),
        "brier": float(((shares - np.eye(3)[y.astype(int)]) ** 2).sum(axis=1).mean()),
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert found["outcome"]["confusion"] == metrics.confusion_matrix(y, calls).tolist()
    trained = frame["y"][np.arange(len(frame)) % 3 != 0]
    shares_known = trained.value_counts(normalize=True).sort_index().to_numpy()
    likeliest = trained.mode()[0]
    baseline = found["outcome"]["test"]["baseline"]
    assert baseline["log_loss"] == pytest.approx(metrics.log_loss(y, np.tile(shares_known, (len(y), 1))))
    assert baseline["accuracy"] == pytest.approx((y == likeliest).mean())
    constant = np.full(len(y), likeliest)
    assert baseline["f1"] == pytest.approx(metrics.f1_score(y, constant, average="macro", zero_division=0))


def test_balanced_classes_are_those_of_scikit_learn(tmp_path: Path) -> None:
    frame = pd.concat([frame_of("iris").iloc[:20], frame_of("iris").iloc[50:]], ignore_index=True)
    found = fit(frame, tmp_path, shrink="ridge", alpha=1.0, class_weight="balanced")
    theirs = LogisticRegression(C=1.0, class_weight="balanced", solver="newton-cg", tol=1e-11, max_iter=10_000)
    theirs.fit(standardised(frame), frame["y"])
    assert np.abs(weights_of(found) - theirs.coef_).max() < 1e-6


def test_whole_weights_are_repeated_rows(tmp_path: Path) -> None:
    frame = frame_of("iris").assign(n=np.arange(150) % 4)
    repeated = frame.loc[frame.index.repeat(frame["n"])].drop(columns="n").reset_index(drop=True)
    knobs = {"shrink": "elasticnet", "alpha": 2.0, "l1_ratio": 0.3}
    once = fit(repeated, tmp_path, **knobs)
    counted = fit(frame, tmp_path, weights="n", weights_are="frequency", **knobs)
    assert list(counted["coefficients"].values()) == pytest.approx(list(once["coefficients"].values()), abs=1e-10)
    ours, theirs = (one["outcome"]["train"]["scores"] for one in (counted, once))
    assert ours == pytest.approx(theirs, abs=1e-10)


def test_bits_are_the_same_for_any_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv"
    frame_of("iris").to_csv(path, index=False)

    def trained(engine: Engine) -> dict[str, float]:
        config = config_from(
            {"file": str(path), "target": "y", "model": "multinomial", "shrink": "ridge", "alpha": 1.0}
        )
        with engine:
            return train_with(Coordinator(engine, home()), config).report.coefficients

    with small_pieces(monkeypatch, 700):
        assert trained(InlineEngine()) == trained(ProcessEngine(2)) == trained(ProcessEngine(3))


@pytest.mark.parametrize(("shrink", "balanced"), [("ridge", "none"), ("lasso", "none"), ("ridge", "balanced")])
def test_very_many_weights_reach_the_same_optimum_by_a_bound(
    shrink: str, balanced: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = frame_of("wine").iloc[25:]
    knobs = {"shrink": shrink, "alpha": 5.0, "class_weight": balanced}
    newton = fit(frame, tmp_path, **knobs)
    monkeypatch.setattr(fits, "MOST_PARAMETERS", 10)
    bound = fit(frame, tmp_path, **knobs)
    assert bound["outcome"]["sweeps"] > newton["outcome"]["sweeps"]
    assert list(bound["coefficients"].values()) == pytest.approx(list(newton["coefficients"].values()), abs=1e-6)
    assert bound["certificate"]["relative"] < 1e-8


def test_classes_that_are_told_apart_are_said(tmp_path: Path) -> None:
    found = fit(frame_of("iris"), tmp_path)
    assert found["outcome"]["separated"]
    assert found["inference"] is None
    assert any("without an error" in note for note in found["warnings"])
    assert [(one["kind"], one["knob"], one["values"]) for one in found["findings"]] == [
        ("separated", "shrink", ["ridge"])
    ]


def test_targets_that_do_not_suit_are_refused_in_a_sentence(tmp_path: Path) -> None:
    frame = frame_of("iris")
    with pytest.raises(ConfigError, match="got 2: setosa, versicolor"):
        fit(frame.iloc[:100], tmp_path)
    with pytest.raises(ConfigError, match="Expected 3 to 50 classes"):
        fit(frame.assign(y=np.arange(150)), tmp_path)
    with pytest.raises(DataError, match="got none with rare"):
        fit(frame.assign(y=np.where(frame.index == 0, "rare", frame["y"])), tmp_path, test_every=150)


def test_auto_takes_three_texts_for_classes(tmp_path: Path) -> None:
    found = fit(frame_of("iris"), tmp_path, model="auto")
    assert found["model"] == "multinomial"


@pytest.mark.parametrize("to", ["json", "python", "sql", "onnx", "sklearn"])
def test_exports_predict_what_the_model_does(to: str, tmp_path: Path) -> None:
    """With shapes, levels, gaps, products and a lasso that leaves columns out of some classes."""
    import shoal

    rng = np.random.default_rng(5)
    frame = frame_of("iris").assign(place=rng.choice(["a", "b", "c"], 150))
    frame.loc[::7, "sepal width (cm)"] = np.nan
    frame["area"] = frame["petal length (cm)"] * 100
    model = shoal.fit(
        frame, target="y", model="multinomial", shrink="lasso", alpha=1.0, indicators=True, transform=["area=log"],
        interactions=["place:sepal length (cm)"], categorical=["place"],
    )  # fmt: skip
    proof = model.export(to, tmp_path / "out")
    assert proof.rows >= 1000
    assert proof.largest_difference < 1e-9


def test_sets_of_classes_hold_what_comes(tmp_path: Path) -> None:
    import shoal

    rng = np.random.default_rng(2)
    n = 3000
    X = rng.normal(size=(n, 2))
    eta = X @ rng.normal(size=(2, 4)) * 1.5
    y = np.array(["a", "b", "c", "d"])[(eta + rng.gumbel(size=(n, 4))).argmax(axis=1)]
    frame = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "y": y})
    model = shoal.fit(frame.iloc[:1500], target="y", model="multinomial", test_every=3)
    calls, sets = model.predict(frame.iloc[1500:], interval=0.9)
    held = [one in own for one, own in zip(y[1500:], sets, strict=True)]
    assert 0.87 < np.mean(held) < 0.93
    assert all(one in own for one, own in zip(calls, sets, strict=True))
    assert max(map(len, sets)) > 1
