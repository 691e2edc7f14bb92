"""From columns to the numbers a model sees: against NumPy and scikit-learn, on training rows only."""

from __future__ import annotations

import math
import threading
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

from shoal import data_pipeline
from shoal.coordinator import Coordinator
from shoal.data.columns import base_encoding, choose_columns
from shoal.data.splits import Split
from shoal.data_pipeline import batches, prefetched
from shoal.engines.inline import InlineEngine
from shoal.errors import BadRowsError, ConfigError, DataError
from shoal.settings.config import config_from
from support.tables import fitted, opened, shoal, written

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def frame(rows: int = 400, seed: int = 1) -> pd.DataFrame:
    """Numbers with gaps, a text column with gaps, and a target with gaps."""
    random = np.random.default_rng(seed)
    a, b = random.normal(5, 2, rows), random.normal(-1e4, 30, rows)
    kind = random.choice(["red", "green", "blue"], rows).astype(object)
    y = 3 * a - 0.1 * b + (kind == "red") * 4 + random.normal(0, 1, rows)
    found = pd.DataFrame({"a": a, "b": b, "kind": kind, "y": y})
    found.loc[random.random(rows) < 0.15, "a"] = np.nan
    found.loc[random.random(rows) < 0.3, "b"] = np.nan
    found.loc[random.random(rows) < 0.1, "kind"] = None
    found.loc[random.random(rows) < 0.05, "y"] = np.nan
    return found


def saved(folder: Path, data: pd.DataFrame, name: str = "data.csv") -> Path:
    path = folder / name
    data.to_csv(path, index=False)
    return path


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
    monkeypatch.setattr(data_pipeline, "BLOCK_BYTES", block)
    values = COLUMNS[name]
    lines = [f"{v!r},1" for v in values] + [",2", ",3"]
    dataset = opened(written(tmp_path, "x,y\n" + "\n".join(lines) + "\n"))
    with InlineEngine() as engine:
        found = Coordinator(engine, tmp_path).medians(dataset, ["x"], "y", Split())
    ordered = sorted(values)
    half = len(ordered) // 2
    expected = ordered[half] if len(ordered) % 2 else ordered[half - 1] / 2 + ordered[half] / 2
    assert found == {"x": expected}


@pytest.mark.parametrize("split", [Split(every=3), Split(fraction=0.4, seed=5), Split()])
def test_medians_of_many_rows_count_training_rows_only(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_pipeline, "BLOCK_BYTES", 20_000)
    data = frame(5_000)
    dataset = opened(saved(tmp_path, data))
    train = data[~split.is_test(np.arange(len(data))) & data["y"].notna().to_numpy()]
    with InlineEngine() as engine:
        found = Coordinator(engine, tmp_path).medians(dataset, ["a", "b"], "y", split)
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
    assert any("'a' has no value in 1 rows" in w for w in answer.json["warnings"])


# ------------------------------------------------------------------ levels


def test_level_of_test_rows_only_is_all_zeros_and_said(tmp_path: Path) -> None:
    lines = [f"{'new' if i % 5 == 0 else 'xyz'[i % 3]},{i},{i % 7}" for i in range(100)]
    found = fitted(written(tmp_path, "t,a,y\n" + "\n".join(lines) + "\n"), "y", test_every=5)
    assert [n for n in found["coefficients"] if n.startswith("t=")] == ["t=y", "t=z"]
    assert any("20 test rows have a level that no training row has" in w for w in found["warnings"])


def test_text_with_many_levels_is_left_out_and_said(tmp_path: Path) -> None:
    lines = [f"name {i % 101},{i % 7},{i % 5 + 0.5 * (i % 3)}" for i in range(400)]
    path = written(tmp_path, "t,a,y\n" + "\n".join(lines) + "\n")
    found = fitted(path, "y")
    assert list(found["coefficients"]) == ["a"]
    assert any("'t' has 101 different values and is left out" in w for w in found["warnings"])
    assert len(fitted(path, "y", max_levels=101)["coefficients"]) == 101
    assert len(fitted(path, "y", max_levels=100)["coefficients"]) == 1


def test_levels_are_sorted_as_strings_and_quotes_do_not_make_other_levels(tmp_path: Path) -> None:
    text = 't,y\n10,1\n9,2\n"9",3\nb,4\n"b",5\nB,6\né,7\n__missing__,8\n,9\n'
    path = written(tmp_path, text)
    assert opened(path).columns["t"].levels == ("10", "9", "B", "__missing__", "b", "é")
    found = fitted(path, "y", coding="full")
    assert list(found["coefficients"]) == ["t=10", "t=9", "t=B", "t=__missing__", "t=b", "t=é"]
    assert found["train"]["rows"] == 9


def test_levels_agree_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_pipeline, "BLOCK_BYTES", 64)
    data = pd.DataFrame({"t": [f"k{(i * 7) % 23}" for i in range(300)], "y": [float(i % 11) for i in range(300)]})
    found = fitted(saved(tmp_path, data), "y", coding="full", model="ridge", alpha=1e-3, standardize=False)
    X = pd.get_dummies(data["t"]).sort_index(axis=1).astype(float)
    theirs = Ridge(alpha=1e-3).fit(X, data["y"])
    ours = {name.removeprefix("t="): value for name, value in found["coefficients"].items()}
    assert ours == pytest.approx(dict(zip(X.columns, theirs.coef_, strict=True)), rel=1e-6, abs=1e-9)


# ------------------------------------------------------------------ which columns

CHOICE = "a,b,t,y\n" + "".join(f"{i % 13},{i % 7},{'uvw'[i % 3]},{i % 5}\n" for i in range(60))


@pytest.mark.parametrize(("knobs", "names"), [
    ({}, ["a", "b", "t=v", "t=w"]),
    ({"features": ["b", "a"]}, ["b", "a"]),
    ({"features": ["a", "a"]}, ["a"]),
    ({"exclude": ["a", "t"]}, ["b"]),
    ({"features": ["a", "t"], "exclude": ["t"]}, ["a"]),
    ({"categorical": ["b"], "features": ["b"]}, ["b=1", "b=2", "b=3", "b=4", "b=5", "b=6"]),
    ({"coding": "full", "features": ["t"]}, ["t=u", "t=v", "t=w"]),
])  # fmt: skip
def test_chosen_columns(knobs: dict[str, Any], names: list[str], tmp_path: Path) -> None:
    assert list(fitted(written(tmp_path, CHOICE), "y", **knobs)["coefficients"]) == names


@pytest.mark.parametrize(("knobs", "error", "words"), [
    ({"target": "nope"}, ConfigError, "got 'nope'. The columns are: a, b, t, y"),
    ({"features": ["nope"]}, ConfigError, "got 'nope'"),
    ({"exclude": ["nope"]}, ConfigError, "got 'nope'"),
    ({"categorical": ["nope"]}, ConfigError, "got 'nope'"),
    ({"numeric": ["nope"]}, ConfigError, "got 'nope'"),
    ({"target": "t"}, ConfigError, "Expected a column of numbers as target"),
    ({"target": "y", "features": ["a", "y"]}, ConfigError, "also among the features"),
    ({"exclude": ["a", "b", "t"]}, DataError, "No column is left"),
    ({"numeric": ["t"]}, BadRowsError, "column 't': expected a number, got 'u'"),
])  # fmt: skip
def test_choices_that_cannot_be(knobs: dict[str, Any], error: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(error) as caught:
        fitted(written(tmp_path, CHOICE), **{"target": "y", **knobs})
    assert words in str(caught.value)


def test_columns_without_values_are_left_out_and_said(tmp_path: Path) -> None:
    lines = [f"{i % 9},,,{i if i % 4 == 0 else ''},{i % 5}" for i in range(80)]
    found = fitted(written(tmp_path, "a,empty,blank,tests,y\n" + "\n".join(lines) + "\n"), "y", test_every=4)
    assert list(found["coefficients"]) == ["a"]
    for name in ("empty", "blank"):
        assert any(f"'{name}' has no value in any row" in w for w in found["warnings"])
    assert any("'tests' has no value in the training rows" in w for w in found["warnings"])


@pytest.mark.parametrize(("text", "words"), [
    ("a,y\n1,\n2,\n", "no value in any row"),
    ("a,y\n", "no value in any row"),
    ("a,y\n,1\n,2\n", "No column is left"),
    ("y\n1\n2\n", "No column is left"),
])  # fmt: skip
def test_files_that_leave_nothing_to_fit(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        fitted(written(tmp_path, text), "y", header=True)


def test_values_that_cannot_be_squared(tmp_path: Path) -> None:
    path = written(tmp_path, "a,big,y\n" + "".join(f"{i % 7},{i}e300,{i % 5}\n" for i in range(1, 40)))
    found = fitted(path, "y")
    assert list(found["coefficients"]) == ["a"]
    assert any("'big' has values beyond" in w for w in found["warnings"])
    with pytest.raises(DataError, match="cannot be squared"):
        fitted(path, "big")


def test_dates_are_numbers(tmp_path: Path) -> None:
    days = pd.date_range("2021-01-01", periods=50, freq="D")
    data = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "y": 5 + 2.0 * np.arange(50)})
    found = fitted(saved(tmp_path, data), "y")
    assert found["coefficients"]["day"] * 86400 == pytest.approx(2.0, rel=1e-9)
    assert found["train"]["r2"] == pytest.approx(1.0)


# ------------------------------------------------------------------ what is said about columns


def flags(path: Path, **knobs: Any) -> dict[str, list[str]]:
    arguments = [part for name, value in knobs.items() for part in (f"--{name}", value)]
    answer = shoal("inspect", path, "--json", *arguments)
    assert answer.code == 0, answer.err
    return {c["name"]: c["flags"] for c in answer.json["columns"]}


def test_flags(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = random.normal(size=300)
    rows = range(300)
    data = pd.DataFrame({
        "row": rows, "key": [f"k{i}" for i in rows], "zip": [f"{i % 90:05d}" for i in rows], "same": 4,
        "word": "x", "sparse": [1.5 + i % 4 if i % 3 == 0 else None for i in rows], "many": [f"m{i % 120}" for i in rows],
        "leak": 2 * y + 1, "plain": random.normal(size=300), "group": [f"g{i % 3}" for i in rows], "y": y,
    })  # fmt: skip
    found = flags(saved(tmp_path, data), target="y")
    assert found["row"] == ["id_like"]
    assert set(found["key"]) == {"high_cardinality", "id_like"}
    assert found["zip"] == ["leading_zeros"]
    assert found["same"] == found["word"] == ["constant"]
    assert found["sparse"] == ["mostly_missing"]
    assert found["many"] == ["high_cardinality"]
    assert found["leak"] == ["leak"]
    assert found["plain"] == found["group"] == []


def test_leak_by_levels_and_in_the_fit(tmp_path: Path) -> None:
    data = pd.DataFrame({"code": [f"c{i % 4}" for i in range(200)], "a": np.random.default_rng(1).normal(size=200)})
    data["y"] = [3.5 * (i % 4) ** 2 for i in range(200)]
    path = saved(tmp_path, data)
    assert flags(path, target="y")["code"] == ["leak"]
    assert any("'code' alone determines the target" in w for w in fitted(path, "y")["warnings"])


def test_distinct_values_are_counted_over_all_rows(tmp_path: Path) -> None:
    """More values than the sketch holds hashes for, each of them often: the count is exact below its size."""
    rows = 160_000
    random = np.random.default_rng(4)
    data = pd.DataFrame({"few": np.arange(rows) // 20, "many": np.arange(rows) % 40_000,
                         "late": np.where(np.arange(rows) < 1_000, 5, random.integers(0, 20_000, rows)),
                         "all": random.permutation(rows) * 0.5})  # fmt: skip
    columns = {c["name"]: c for c in shoal("inspect", saved(tmp_path, data), "--json").json["columns"]}
    assert (columns["few"]["distinct"], columns["few"]["distinct_exact"]) == (8_000, True)
    for name in ("many", "late", "all"):
        assert columns[name]["distinct_exact"] is False
        assert columns[name]["distinct"] == pytest.approx(data[name].nunique(), rel=0.05)


# ------------------------------------------------------------------ split


def test_every_kth_row_of_the_file_is_a_test_row_whatever_is_dropped(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(data_pipeline, "BLOCK_BYTES", 50)
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


class Table:
    """Rows sorted by their target, in blocks; rows() says who was asked."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes, self.edges = sizes, np.concatenate([[0], np.cumsum(sizes)])
        self.asked: list[int] = []

    def block_sizes(self) -> list[int]:
        return self.sizes

    def rows(self, block: int) -> tuple[Array, Array]:
        self.asked.append(block)
        y = np.arange(self.edges[block], self.edges[block + 1], dtype=float)
        return np.column_stack([y, -y]), y


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_every_row_comes_once(batch: int) -> None:
    table = Table([10, 0, 33, 1, 250, 7])
    got = list(batches(table, batch, seed=3, mixed_blocks=2))
    assert [len(y) for _, y in got[:-1]] == [batch] * (len(got) - 1)
    assert 0 < len(got[-1][1]) <= batch
    assert sorted(np.concatenate([y for _, y in got]).tolist()) == list(range(301))
    assert all(np.array_equal(X[:, 0], y) and np.array_equal(X[:, 1], -y) for X, y in got)


def test_batches_depend_on_seed_and_epoch_only() -> None:
    def order(seed: int, epoch: int, prefetch: int = 2) -> list[float]:
        return np.concatenate([y for _, y in batches(Table([50] * 8), 32, seed, epoch, prefetch=prefetch)]).tolist()

    assert order(1, 0) == order(1, 0) == order(1, 0, prefetch=7)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_sorted_rows_are_mixed() -> None:
    table = Table([500] * 64)
    means = np.array([y.mean() for _, y in batches(table, 100, seed=0)])
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.25
    assert means.std() < 1.5 * np.arange(32_000).std() / 10  # as for rows drawn at random
    spread = np.arange(32_000).std()
    within = np.array([y.std() for _, y in batches(table, 100, seed=0)])
    assert within.mean() > 0.6 * spread  # a batch of the file in its own order has 0.003 of it


def test_leaving_early_stops_the_thread_and_the_reading() -> None:
    before = threading.active_count()
    table = Table([100] * 50)
    source = batches(table, 10, seed=0, mixed_blocks=1)
    next(source)
    source.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
    assert len(table.asked) < 10


def test_errors_of_the_source_come_out_where_items_are_used() -> None:
    def failing() -> Any:
        yield 1
        raise DataError("no more")

    items = prefetched(failing(), 2)
    assert next(items) == 1
    with pytest.raises(DataError, match="no more"):
        next(items)
    with pytest.raises(ConfigError, match="batch size"):
        batches(Table([1]), 0, seed=0)


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
