"""From columns to the numbers a model sees: against NumPy and scikit-learn, on training rows only."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from shoal.coordinator import Coordinator
from shoal.data.columns import base_encoding, choose_columns
from shoal.data.splits import Split
from shoal.engines.inline import InlineEngine
from shoal.passes.quantiles import medians
from shoal.settings import limits
from shoal.settings.values import config_from
from support.data.encoding import frame, saved
from support.tables import fitted, opened, shoal, written

# ------------------------------------------------------------------ medians


COLUMNS: dict[str, list[float]] = {
    "odd": [3, 1, 2],
    "even": [4, 1, 3, 2],
    "one": [7.5],
    "negative": [-5.5, -1.25, -1e300, 2, 3],
    "ties": [2, 2, 2, 1, 1, 3, 3, 3],
    "tiny": [5e-324, 1e-320, 0.0, -5e-324],
    "zeros of both signs": [0.0, -0.0, 0.0, -0.0],
    "around zero": [-1.0, 1.0],
    "huge": [1.7e308, 1.6e308, -1.7e308, 1.5e308],
    "neighbours": [1.0, 1.0 + 2**-52, 1.0 + 2**-51, 1.0],
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("block", [1 << 20, 16])
def test_medians_are_exact(name: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BLOCK_BYTES", block)
    values = COLUMNS[name]
    lines = [f"{v!r},1" for v in values] + [",2", ",3"]
    dataset = opened(written(tmp_path, "x,y\n" + "\n".join(lines) + "\n"))
    with InlineEngine() as engine:
        found = medians(Coordinator(engine, tmp_path).swept, dataset, ["x"], "y", Split())
    ordered = sorted(values)
    half = len(ordered) // 2
    expected = ordered[half] if len(ordered) % 2 else ordered[half - 1] / 2 + ordered[half] / 2
    assert found == {"x": expected}


@pytest.mark.parametrize("split", [Split(every=3), Split(fraction=0.4, seed=5), Split()])
def test_medians_of_many_rows_count_training_rows_only(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BLOCK_BYTES", 20_000)
    data = frame(5_000)
    dataset = opened(saved(tmp_path, data))
    train = data[~split.is_test(np.arange(len(data))) & data["y"].notna().to_numpy()]
    with InlineEngine() as engine:
        found = medians(Coordinator(engine, tmp_path).swept, dataset, ["a", "b"], "y", split)
    assert found == {"a": np.nanmedian(train["a"]), "b": np.nanmedian(train["b"])}


# ------------------------------------------------------------------ imputation and coding against scikit-learn


def pipeline(impute: str, indicators: bool, coding: str, model: Any, fill: float) -> Any:
    strategy = {"median": "median", "mean": "mean", "constant": "constant"}[impute]
    imputer = SimpleImputer(
        strategy=strategy, fill_value=fill if impute == "constant" else None, add_indicator=indicators
    )
    texts = OneHotEncoder(
        handle_unknown="ignore", drop="first" if coding == "drop_first" else None, sparse_output=False
    )
    design = ColumnTransformer([("numbers", imputer, ["a", "b"]), ("texts", texts, ["kind"])])
    return make_pipeline(design, StandardScaler(), model)


@pytest.mark.parametrize("impute", ["median", "mean", "constant"])
@pytest.mark.parametrize("indicators", [False, True])
@pytest.mark.parametrize("coding", ["drop_first", "full"])
def test_same_predictions_as_a_scikit_learn_pipeline(
    impute: str, indicators: bool, coding: str, tmp_path: Path
) -> None:
    data = frame()
    path = saved(tmp_path, data)
    data["kind"] = data["kind"].fillna("__missing__")
    index = np.arange(len(data))
    present = data["y"].notna().to_numpy()
    train, test = data[present & (index % 4 != 0)], data[present & (index % 4 == 0)]
    theirs = pipeline(impute, indicators, coding, Ridge(alpha=2.5), 1.5).fit(train[["a", "b", "kind"]], train["y"])
    model = tmp_path / "model.json"
    ours = fitted(path, "y", model="ridge", alpha=2.5, impute=impute, fill=1.5, indicators=indicators, coding=coding,
                  test_every=4, out=str(model))  # fmt: skip
    for part, rows in (("train", train), ("test", test)):
        residuals = rows["y"] - theirs.predict(rows[["a", "b", "kind"]])
        assert ours[part]["rows"] == len(rows)
        assert ours[part]["rmse"] == pytest.approx(math.sqrt((residuals**2).mean()), rel=1e-9)
        assert ours[part]["mae"] == pytest.approx(residuals.abs().mean(), rel=1e-9)
    names = list(ours["coefficients"])
    assert [n for n in names if n.startswith("kind=")] == [
        f"kind={level}" for level in ["__missing__", "blue", "green", "red"][coding == "drop_first" :]
    ]
    assert ("a=__missing__" in names) == indicators
    new = frame(60, seed=9).drop(columns="y")
    answer = shoal("predict", model, saved(tmp_path, new, "new.csv"), "--out", tmp_path / "out.csv", "--json")
    assert answer.code == 0, answer.err
    new["kind"] = new["kind"].fillna("__missing__")
    found = pd.read_csv(tmp_path / "out.csv")["prediction"]
    np.testing.assert_allclose(found, theirs.predict(new), rtol=1e-9)


def test_rows_with_gaps_can_be_dropped(tmp_path: Path) -> None:
    data = frame()
    ours = fitted(saved(tmp_path, data), "y", impute="drop")
    whole = data.dropna()
    X = pd.get_dummies(whole[["a", "b", "kind"]], columns=["kind"], drop_first=True).astype(float)
    theirs = LinearRegression().fit(X, whole["y"])
    assert ours["train"]["rows"] == len(whole)
    no_target = int(data["y"].isna().sum())
    assert ours["rows_dropped"] == {
        "target_missing": no_target, "feature_missing": len(data) - len(whole) - no_target,
    }  # fmt: skip
    found = {name.replace("=", "_"): value for name, value in ours["coefficients"].items()}
    assert found == pytest.approx(dict(zip(X.columns, theirs.coef_, strict=True)), rel=1e-8)


@pytest.mark.parametrize("impute", ["median", "mean", "constant"])
def test_gaps_that_come_with_prediction_only_are_filled_from_the_training_rows(impute: str, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    data = pd.DataFrame({"a": random.exponential(2, 101), "b": random.normal(0, 1, 101)})
    data["y"] = data["a"] * 2 + data["b"]
    model = tmp_path / "model.json"
    fitted(saved(tmp_path, data), "y", impute=impute, fill=-3.0, out=str(model))
    fill = {"median": data["a"].median(), "mean": data["a"].mean(), "constant": -3.0}[impute]
    answer = shoal(
        "predict", model, written(tmp_path, "a,b\n,1\n2,1\n", "n.csv"), "--out", tmp_path / "p.csv", "--json"
    )
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], [2 * fill + 1, 5], rtol=1e-9)
    assert any("'a' has no value in 1 row;" in w for w in answer.json["warnings"])


# ------------------------------------------------------------------ split


def test_every_kth_row_of_the_file_is_a_test_row_whatever_is_dropped(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "BLOCK_BYTES", 50)
    lines = [f"{i},{'' if i % 10 == 5 else i % 7}" for i in range(100)]
    lines[33] = "33"
    lines[40] = "40,1,2"
    path = written(tmp_path, "a,y\n" + "\n".join(lines) + "\n")
    found = fitted(path, "y", test_every=5, on_bad_rows="skip")
    test = [i for i in range(100) if i % 5 == 0 and i % 10 != 5 and i != 40]
    train = [i for i in range(100) if i % 5 and i != 33]
    assert (found["train"]["rows"], found["test"]["rows"]) == (len(train), len(test))
    assert found["rows_dropped"] == {"bad_row": 2, "target_missing": 10}
    theirs = LinearRegression().fit([[i] for i in train], [i % 7 for i in train])
    assert found["coefficients"]["a"] == pytest.approx(theirs.coef_[0], rel=1e-9)
    residuals = [i % 7 - theirs.predict([[i]])[0] for i in test]
    assert found["test"]["rmse"] == pytest.approx(math.sqrt(np.mean(np.square(residuals))), rel=1e-9)


def test_fraction_is_kept_deterministic_and_different_by_seed(tmp_path: Path) -> None:
    path = written(tmp_path, "a,y\n" + "".join(f"{i % 17},{i % 7}\n" for i in range(4_000)))
    found = fitted(path, "y", test_fraction=0.25)
    assert found["test"]["rows"] + found["train"]["rows"] == 4_000
    assert 900 < found["test"]["rows"] < 1_100
    again = fitted(path, "y", test_fraction=0.25)
    assert again["test"] == found["test"]
    assert fitted(path, "y", test_fraction=0.25, seed=1)["test"] != found["test"]
    index = np.arange(4_000)
    kept = Split(fraction=0.25).is_test(index)
    assert np.array_equal(np.concatenate([Split(fraction=0.25).is_test(part) for part in np.split(index, 8)]), kept)


def test_every_split_gives_the_same_moments_as_a_pass_over_the_rows(tmp_path: Path) -> None:
    """2, 5 and 10 divide the cells that are summed while reading, 3 and 7 do not; scikit-learn is the judge."""
    data = frame(700).dropna()[["a", "b", "y"]].reset_index(drop=True)
    path = saved(tmp_path, data)
    for every in (2, 3, 5, 7, 10):
        train = data[data.index % every != 0]
        theirs = LinearRegression().fit(train[["a", "b"]], train["y"])
        ours = fitted(path, "y", test_every=every)
        np.testing.assert_allclose(list(ours["coefficients"].values()), theirs.coef_, rtol=1e-8)
        assert ours["train"]["rows"] == len(train)


# ------------------------------------------------------------------ batches


def test_encoding_of_the_base_holds_everything(tmp_path: Path) -> None:
    dataset = opened(saved(tmp_path, frame()))
    config = config_from({"file": "x", "target": "y"})
    names = base_encoding(choose_columns(dataset, config), config).names
    assert names == [
        "a",
        "b",
        "a=__missing__",
        "b=__missing__",
        "kind=blue",
        "kind=green",
        "kind=red",
        "kind=__missing__",
    ]
