"""Metrics of plug-ins: of models of every kind, by what scikit-learn says of the same predictions; and wrong ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.special
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import log_loss, mean_absolute_percentage_error, mean_squared_error

import shoal as api
from shoal.errors import ConfigError
from support.brought.example_plugin import at_hand

Install = Callable[..., None]
METRIC = """
    import numpy as np
    from shoal.fitting.own_metrics import Metric
    class Mine(Metric):
        of_classes = {of_classes}
        def sums(self, y, predicted, weight):
            {sums}
        def value(self, sums):
            {value}
"""
SHARES = "return np.array([(weight * np.abs((y - predicted) / y)).sum(), weight.sum()])"
SQUARES = "return np.array([(weight * (y - predicted) ** 2).sum(), weight.sum()])"
LOGARITHMS = "return np.array([-weight @ np.log(predicted[np.arange(len(y)), y.astype(int)]), weight.sum()])"
MEAN = "return sums[0] / sums[1]"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    yield from at_hand(tmp_path / "site", monkeypatch)


def with_metric(install: Install, sums: str, value: str = MEAN, of_classes: bool = False) -> dict[str, Any]:
    source = METRIC.format(sums=sums, value=value, of_classes=of_classes)
    install("plug-a", "shoal.metrics", "mine = plug_a:Mine", source)
    return {"metrics": ["mine"], "engine": "inline"}


def rows(folder: Path) -> tuple[Path, pd.DataFrame]:
    """Numbers with gaps, a text, a positive target, counts, a yes and no of texts, and weights."""
    random = np.random.default_rng(2)
    frame = pd.DataFrame({"a": random.normal(size=240).round(3), "c": random.choice(["x", "y", "z"], 240)})
    frame["y"] = (20 + 2 * frame["a"] + (frame["c"] == "y") + random.gamma(2.0, size=240)).round(3)
    frame["count"] = random.poisson(np.exp(0.3 + 0.4 * frame["a"]))
    frame["bought"] = np.where(random.random(240) < 1 / (1 + np.exp(-frame["a"])), "yes", "no")
    frame["w"] = random.integers(1, 5, 240)
    frame.loc[::17, "a"] = np.nan
    path = folder / "rows.csv"
    frame.to_csv(path, index=False)
    return path, frame


TEST = np.arange(240) % 4 == 0
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "linear": ("y", {}),
    "ridge by steps": ("y", {"model": "ridge", "alpha": 1.0, "solver": "gradient"}),
    "gamma": ("y", {"model": "gamma"}),
    "lognormal": ("y", {"model": "lognormal"}),
    "huber": ("y", {"model": "huber"}),
    "quantile": ("y", {"model": "quantile"}),
    "rows with gaps left out": ("y", {"impute": "drop"}),
    "poisson by steps": ("count", {"model": "poisson", "solver": "gradient"}),
    "yes and no": ("bought", {"model": "logistic"}),
    "yes and no by steps": ("bought", {"model": "logistic", "solver": "gradient"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_metric_of_every_kind_of_model(case: str, install: Install, tmp_path: Path) -> None:
    target, knobs = CASES[case]
    path, frame = rows(tmp_path)
    model = api.fit(path, target, features=["a", "c"], test_every=4, **knobs, **with_metric(install, SQUARES))
    yes_no = target == "bought"
    predicted = np.asarray(model.predict_proba(frame)[:, 1] if yes_no else model.predict(frame), float)
    y = (frame[target] == "yes").to_numpy(float) if yes_no else frame[target].to_numpy(float)
    found = model.report["own_metrics"]["mine"]
    used = frame["a"].notna().to_numpy() if case == "rows with gaps left out" else np.full(240, True)
    for name, which in (("train", ~TEST & used), ("test", TEST & used)):
        assert found[name] == pytest.approx(mean_squared_error(y[which], predicted[which]), rel=1e-9)


def test_weights_of_rows_count(install: Install, tmp_path: Path) -> None:
    path, frame = rows(tmp_path)
    model = api.fit(path, "y", features=["a", "c"], weights="w", **with_metric(install, SHARES))
    expected = mean_absolute_percentage_error(frame["y"], model.predict(frame), sample_weight=frame["w"])
    assert model.report["own_metrics"]["mine"] == {"train": pytest.approx(expected), "test": None, "better": "lower"}


SPARSE: dict[str, dict[str, Any]] = {
    "exact": {"model": "ridge", "alpha": 2.0},
    "by steps": {"model": "ridge", "alpha": 2.0, "solver": "gradient", "epochs": 2, "finish_passes": 2},
    "yes and no": {"model": "logistic", "shrink": "ridge", "alpha": 2.0},
}


@pytest.mark.parametrize("case", SPARSE)
def test_a_metric_of_sparse_rows(case: str, install: Install, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    X = scipy.sparse.random(200, 30, 0.2, format="csr", random_state=1)
    y = (X @ random.normal(size=30) + 0.1 * random.normal(size=200)).round(4)
    y = np.where(y > 0, 2.0, 1.0) if case == "yes and no" else y
    dump_svmlight_file(X, y, str(path := tmp_path / "rows.svm"), zero_based=False)
    model = api.fit(path, "label", test_every=4, **SPARSE[case], **with_metric(install, SQUARES))
    said = model.report["intercept"] + sum(
        value * X[:, [int(name[1:]) - 1]].toarray()[:, 0] for name, value in model.report["coefficients"].items()
    )
    actual = (y == 2.0).astype(float) if case == "yes and no" else y
    predicted = scipy.special.expit(said) if case == "yes and no" else said
    test, found = np.arange(200) % 4 == 0, model.report["own_metrics"]["mine"]
    for name, which in (("train", ~test), ("test", test)):
        assert found[name] == pytest.approx(mean_squared_error(actual[which], predicted[which]), rel=1e-6)


WRONG = {
    "an error": ("1 / 0", MEAN, "ZeroDivisionError"),
    "no sums": ("return 3.0", MEAN, r"expected its sums as \(k,\), got \(\)"),
    "texts": ("return ['a']", MEAN, "ValueError"),
    "an exit": ("raise SystemExit(1)", MEAN, "SystemExit"),
    "no value": (SQUARES, "return sums[7]", "IndexError"),
}


@pytest.mark.parametrize("solver", ["exact", "gradient"])
@pytest.mark.parametrize("case", WRONG)
def test_a_metric_that_fails_is_told_and_the_model_stays(
    case: str, solver: str, install: Install, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    sums, value, said = WRONG[case]
    path, _ = rows(tmp_path)
    knobs = {"features": ["a", "c"], "test_every": 4, "solver": solver, "epochs": 1, "tolerance": 0}
    knobs = knobs if solver == "gradient" else {"features": ["a", "c"], "test_every": 4}
    model = api.fit(path, "y", **knobs, **with_metric(install, sums, value))
    assert model.report["own_metrics"]["mine"] == {"train": None, "test": None, "better": "lower"}
    told = [text for text in model.report["warnings"] if text.startswith("The metric 'mine' failed")]
    assert len(told) == 1
    assert model.report["train"]["r2"] is not None
    assert re.search(said, told[0])
    live = [str(one.message) for one in recwarn if "The run goes on without it" in str(one.message)]
    assert len(live) == (solver == "gradient")


def test_nothing_is_said_of_a_number_that_is_not_finite(install: Install, tmp_path: Path) -> None:
    path, _ = rows(tmp_path)
    model = api.fit(path, "y", features=["a"], **with_metric(install, SQUARES, "return float('nan')"))
    assert model.report["own_metrics"]["mine"]["train"] is None


@pytest.mark.parametrize("target", ["c", "w"])
@pytest.mark.parametrize("solver", ["exact", "gradient"])
def test_a_metric_of_several_classes_sees_all_their_probabilities(
    solver: str, target: str, install: Install, tmp_path: Path
) -> None:
    path, frame = rows(tmp_path)
    knobs = {"features": ["a", "y"], "test_every": 4, "weights": "count", "solver": solver}
    model = api.fit(path, target, model="multinomial", **knobs, **with_metric(install, LOGARITHMS, of_classes=True))
    found, weight = model.report["own_metrics"]["mine"], frame["count"].to_numpy(float)
    labels = [type(frame[target].iloc[0])(name) for name in model.classes]
    for name, which in (("train", ~TEST), ("test", TEST)):
        probabilities = model.predict_proba(frame[which])
        expected = log_loss(frame[target][which], probabilities, sample_weight=weight[which], labels=labels)
        assert found[name] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("model", ["multinomial", "auto"])
def test_a_metric_of_numbers_is_refused_beside_several_classes(model: str, install: Install, tmp_path: Path) -> None:
    path, _ = rows(tmp_path)
    with pytest.raises(ConfigError, match="Expected metrics of several classes beside model multinomial, got mine"):
        api.fit(path, "c", model=model, **with_metric(install, SQUARES))


def test_metrics_that_are_not_there_are_refused(install: Install, tmp_path: Path) -> None:
    path, _ = rows(tmp_path)
    with_metric(install, SQUARES)
    with pytest.raises(ConfigError, match="Expected as metric one of mine, got 'other'"):
        api.fit(path, "y", metrics=["other"], engine="inline")
