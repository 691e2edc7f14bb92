"""Diagnostics and single predictions against NumPy's arithmetic on the same rows, and against the report of the fit."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.dashboard.tables.samples import SAMPLES
from shoal.data.terms import MISSING_LEVEL
from shoal.errors import DataError, SourceChanged
from shoal.fitting.model_file import SavedModel, load_model, own_data, save_model
from shoal.settings.values import config_from
from shoal.tasks.diagnose import diagnose
from shoal.tasks.explain_row import explain, typical_row
from shoal.tasks.predict import predict_file
from shoal.tasks.train import train
from shoal.utils import silent
from support.tables import SHARED, shared, small_pieces, written

Arrays = tuple[np.ndarray, np.ndarray]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def fit(path: Path, target: str, folder: Path, **knobs: Any) -> tuple[Path, dict[str, Any]]:
    """A model file of its own, and the report."""
    trained = train(config_from({"file": str(path), "target": target, "engine": "inline", **knobs}))
    place = folder / "model.json"
    save_model(place, trained.model)
    return place, trained.report.as_dict()


def diagnosed(model: Path, file: Path | None = None) -> dict[str, Any]:
    contents = json.loads(model.read_text())
    config = own_data(contents["config"]) if file is None else config_from({"file": str(file)})
    return diagnose(model, config, file is None, silent).as_dict()


def made_up(folder: Path, rows: int = 9_000) -> tuple[Path, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    X = random.normal(size=(rows, 3)).round(3)
    y = (X @ [2.0, -1.0, 0.5] + 4 + random.standard_t(3, size=rows)).round(3)
    path = folder / "made.csv"
    np.savetxt(path, np.column_stack([X, y]), "%.3f", ",", header="a,b,c,y", comments="")
    return path, X, y


def by_hand(model: Path, X: np.ndarray) -> np.ndarray:
    contents = json.loads(model.read_text())
    return X @ [contents["coefficients"][name] for name in "abc"] + contents["intercept"]


# ------------------------------------------------------------------ against NumPy


@pytest.mark.parametrize(
    "knobs", [{"test_every": 4}, {"test_fraction": 0.3, "seed": 7}, {}], ids=["every", "hash", "none"]
)
def test_scores_are_those_of_the_report(tmp_path: Path, knobs: dict[str, Any]) -> None:
    path, _, _ = made_up(tmp_path)
    model, report = fit(path, "y", tmp_path, **knobs)
    found = diagnosed(model)
    for part in ("train", "test"):
        assert found[part]["rows"] == report[part]["rows"]
        for score in ("r2", "rmse", "mae"):
            expected = report[part][score]
            assert found[part][score] == (None if expected is None else pytest.approx(expected, rel=1e-12))


def test_every_figure_is_numpys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several blocks, so that reports have to be merged."""
    path, X, y = made_up(tmp_path)
    with small_pieces(monkeypatch, 20_000):
        model, _ = fit(path, "y", tmp_path, test_every=4)
        found = diagnosed(model)
    predicted = by_hand(model, X)
    residual, test = y - predicted, np.arange(len(y)) % 4 == 0

    grid = found["grid"]
    for part, chosen in (("train", ~test), ("test", test)):
        counts = np.histogram2d(y[chosen], predicted[chosen], (grid["edges"], grid["edges"]))[0]
        np.testing.assert_array_equal(counts, grid[part])
        histogram = np.histogram(residual[chosen], found["histogram"]["edges"])[0]
        np.testing.assert_array_equal(histogram, found["histogram"][part])

    furthest = np.argsort(-np.abs(residual), kind="stable")[:20]
    assert found["largest"]["row"] == furthest.tolist()
    np.testing.assert_allclose(found["largest"]["predicted"], predicted[furthest])
    assert found["largest"]["test"] == test[furthest].tolist()
    assert found["low"]["residual"] == pytest.approx(residual.min())
    assert found["high"]["actual"] == y.max()

    for entry in found["quantiles"]:  # right in rank, if not in value
        below = (residual < entry["value"] - 1e-9).mean()
        upto = (residual <= entry["value"] + 1e-9).mean()
        assert below - 1e-3 <= entry["rank"] <= upto + 1e-3

    curve = found["curve"]
    assert sum(c["rows"] for c in curve) == len(y)
    assert sum(c["rows"] * c["residual"] for c in curve) == pytest.approx(residual.sum(), abs=1e-6)
    assert sum(c["rows"] * c["predicted"] for c in curve) == pytest.approx(predicted.sum())
    ends = np.cumsum([c["rows"] for c in curve])[:-1]
    first = np.sort(predicted)[: ends[0]]
    assert curve[0]["predicted"] == pytest.approx(first.mean())
    chosen = predicted <= first[-1]
    assert curve[0]["residual"] == pytest.approx(residual[chosen].mean())
    assert curve[0]["spread"] == pytest.approx(residual[chosen].std())


def test_quantiles_of_a_small_table_are_numpys(tmp_path: Path) -> None:
    path, X, y = made_up(tmp_path, 300)
    model, _ = fit(path, "y", tmp_path)
    found = diagnosed(model)
    residual = y - by_hand(model, X)
    expected = np.quantile(residual, [q["rank"] for q in found["quantiles"]])
    np.testing.assert_allclose([q["value"] for q in found["quantiles"]], expected, rtol=1e-9)
    assert found["sample"]["row"] == list(range(300))


@pytest.mark.parametrize("knobs", [{"test_every": 4}, {"test_fraction": 0.3, "seed": 3}], ids=["every", "hash"])
def test_the_sample_is_uniform_over_rows_and_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knobs: Any) -> None:
    path, X, y = made_up(tmp_path)
    with small_pieces(monkeypatch, 20_000):
        model, report = fit(path, "y", tmp_path, **knobs)
        found = diagnosed(model)
    sample = found["sample"]
    rows = np.array(sample["row"])
    assert len(rows) == 2_000 == len(set(rows.tolist()))
    np.testing.assert_allclose(sample["predicted"], by_hand(model, X)[rows])
    np.testing.assert_array_equal(sample["actual"], y[rows])
    share = report["test"]["rows"] / len(y)
    assert np.mean(sample["test"]) == pytest.approx(share, abs=0.05)  # 5 standard deviations
    tenths = np.histogram(rows, 10, (0, len(y)))[0]
    assert abs(tenths - 200).max() < 70


def test_workers_and_this_process_say_the_same(tmp_path: Path) -> None:
    path, _, _ = made_up(tmp_path)
    model, _ = fit(path, "y", tmp_path, test_every=4)
    contents = json.loads(model.read_text())
    config = config_from({**own_data(contents["config"]).as_dict(), "engine": "processes", "workers": 2})
    assert diagnose(model, config, True, silent).as_dict() == diagnosed(model)


@pytest.mark.parametrize("name", ["penguins", "concrete", "auto_mpg", "seattle_weather"])
def test_reference_data_agree_with_their_report(name: str, tmp_path: Path) -> None:
    reference = json.loads(shared("data", "regression", f"{name}.reference.json").read_text())
    path = SHARED / "data" / "regression" / reference["file"]
    for model_name, alpha in (("linear", 1.0), ("ridge", 3.0), ("lasso", 0.1)):
        model, report = fit(
            path,
            reference["target"],
            tmp_path,
            features=reference["features"],
            test_every=5,
            model=model_name,
            alpha=alpha,
        )
        found = diagnosed(model)
        assert found["train"]["rows"] == reference["n_train"]
        for part, score in itertools.product(("train", "test"), ("rmse", "r2", "mae")):
            assert found[part][score] == pytest.approx(report[part][score], rel=1e-9)
        counted = sum(found["histogram"]["train"]) + sum(found["histogram"]["test"])
        assert counted <= found["rows"] == reference["n_train"] + reference["n_test"]


# ------------------------------------------------------------------ odd tables


def test_rows_far_out_do_not_squeeze_the_others_into_one_bin(tmp_path: Path) -> None:
    path, _X, _y = made_up(tmp_path, 3_000)
    with path.open("a") as file:
        file.write("0,0,0,1e9\n")
    model, _ = fit(path, "y", tmp_path)
    found = diagnosed(model)
    inside = np.array(found["grid"]["train"]).sum()
    assert inside == 3_000
    assert found["grid"]["edges"][-1] < 1e8
    assert found["largest"]["row"][0] == 3_000


@pytest.mark.parametrize("text", ["a,y\n1,2\n2,4\n3,6\n", "a,y\n1,5\n2,5\n3,5\n4,5\n", "a,y\n1,5\n"])
def test_perfect_fits_and_constant_targets(text: str, tmp_path: Path) -> None:
    model, _ = fit(written(tmp_path, text), "y", tmp_path)
    found = diagnosed(model)
    assert sum(found["histogram"]["train"]) == found["rows"] == text.count("\n") - 1
    json.dumps(found, allow_nan=False)


def test_rows_without_a_target_or_with_missing_values_are_left_out_as_in_the_fit(tmp_path: Path) -> None:
    text = "a,b,y\n" + "".join(f"{i},{'x' if i % 2 else 'z'},{i * 2 + i % 3}\n" for i in range(40))
    text += "a,b,y\n5,x,\n,x,3\n"  # names that come again are no row
    for impute in ("median", "drop"):
        model, report = fit(written(tmp_path, text), "y", tmp_path, impute=impute, test_every=5)
        found = diagnosed(model)
        assert found["rows"] == report["train"]["rows"] + report["test"]["rows"]
        assert found["rows_left_out"] == sum(report["rows_dropped"].values())


def test_another_file_has_no_training_rows(tmp_path: Path) -> None:
    path, _, _ = made_up(tmp_path, 500)
    model, _ = fit(path, "y", tmp_path, test_every=5)
    other = written(tmp_path, "c,extra,y,b,a\n1,q,4,2,3\n0,r,1,0,0\n", "other.csv")
    found = diagnosed(model, other)
    assert (found["rows"], found["test"]["rows"], found["own_data"]) == (2, 0, False)
    np.testing.assert_allclose(found["sample"]["predicted"], by_hand(model, np.array([[3, 2, 1], [0, 0, 0]])))


def test_a_file_that_is_gone_changed_or_without_the_target_gets_a_plain_sentence(tmp_path: Path) -> None:
    path, _, _ = made_up(tmp_path, 100)
    model, _ = fit(path, "y", tmp_path)
    with pytest.raises(DataError, match="does not have it"):
        diagnosed(model, written(tmp_path, "a,b,c\n1,2,3\n", "no_target.csv"))
    with pytest.raises(DataError, match="to compare predictions with"):
        diagnosed(model, written(tmp_path, "a,b,c,y\n1,2,3,\n4,5,6,\n", "empty_target.csv"))
    path.write_text(path.read_text() + "1,2,3,4\n")
    with pytest.raises(SourceChanged, match="not what it was"):
        diagnosed(model)
    path.unlink()
    with pytest.raises(DataError, match="found none"):
        diagnosed(model)


# ------------------------------------------------------------------ one row


def given(model: SavedModel, record: dict[str, str]) -> dict[str, Any]:
    """A row of the file as a person would type it into the form."""
    row: dict[str, Any] = {}
    for name in [*model.numbers, *model.texts]:
        text = record[name]
        missing = text in ("", "NA")
        row[name] = None if missing else float(text) if name in model.numbers else text
    return row


@pytest.mark.parametrize(
    "knobs",
    [{}, {"indicators": True}, {"coding": "full", "model": "ridge"}, {"impute": "mean", "model": "lasso", "alpha": 5.0},
     {"features": ["island", "bill_depth_mm"], "intercept": False}],
)  # fmt: skip
def test_one_row_is_predicted_as_the_file_is(knobs: dict[str, Any], tmp_path: Path) -> None:
    """Every penguin, those with missing values and levels that the model has not seen among them."""
    path = SAMPLES["penguins"].ensure()
    seen = tmp_path / "seen.csv"
    lines = path.read_text().splitlines()
    seen.write_text("\n".join([lines[0], *(text for text in lines[1:] if "Chinstrap" not in text)]) + "\n")
    place, _ = fit(seen, "body_mass_g", tmp_path, test_every=5, **knobs)
    out = tmp_path / "predictions.csv"
    said = predict_file(place, config_from({"file": str(path)}), out)
    expected = [float(record["prediction"]) for record in csv.DictReader(out.read_text().splitlines())]

    model = load_model(place)
    explained = [explain(model, given(model, record)) for record in csv.DictReader(path.read_text().splitlines())]
    np.testing.assert_allclose([e.prediction for e in explained], expected, rtol=1e-13)
    assert len(expected) == 344
    for one in explained:
        assert one.intercept + sum(p.adds for p in one.parts) == pytest.approx(one.prediction, rel=1e-12)
        assert one.typical + sum(p.against_typical for p in one.parts) == pytest.approx(one.prediction, rel=1e-12)
    if "features" not in knobs:
        assert said["unseen_levels"] == 68 == sum(any(p.unseen for p in one.parts) for one in explained)


def test_a_usual_row_is_what_stands_in_for_missing_values(tmp_path: Path) -> None:
    place, report = fit(SAMPLES["penguins"].ensure(), "body_mass_g", tmp_path)
    model = load_model(place)
    usual = typical_row(model.encoding)
    assert usual["bill_length_mm"] == report["filled"]["bill_length_mm"]["value"]
    assert report["filled"]["bill_length_mm"]["rows"] == 2
    assert usual["sex"] == "male"  # 168 of 344, one more than the females
    assert MISSING_LEVEL in model.encoding.known["sex"]
    found = explain(model, usual)
    assert found.prediction == found.typical
    assert not any(p.against_typical or p.filled or p.unseen for p in found.parts)
    missing = explain(model, {**usual, "bill_length_mm": None, "sex": None})
    assert [p.column for p in missing.parts if p.filled] == ["bill_length_mm"]
    assert not any(p.unseen for p in missing.parts)
