"""Plug-ins about data, installed as a person would and used through the product."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal.home import runs_directory
from shoal.runs.folder import Run
from shoal.storage import Storage
from support.brought.example_plugin import installed, python, shoal


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    return installed(tmp_path_factory.mktemp("example"))


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def sales(folder: Path, low: float = 0.0) -> Path:
    """Days that go back in two rows, and amounts."""
    random = np.random.default_rng(5)
    days = pd.date_range("2024-01-01", periods=300).to_series(index=range(300))
    days[[40, 41]], days[[90, 91]] = days[[41, 40]].to_numpy(), days[[91, 90]].to_numpy()
    a = random.normal(size=300)
    y = np.round(50 + 3 * a + random.normal(size=300), 3)
    y[7] = low or y[7]
    path = folder / "sales.csv"
    pd.DataFrame({"day": days, "a": np.round(a, 3), "y": y}).to_csv(path, index=False)
    return path


# ------------------------------------------------------------------ validation rules


def test_rules_are_listed_with_what_is_found_otherwise(site: str, tmp_path: Path) -> None:
    path = sales(tmp_path)
    looked = shoal(site, "inspect", path, "--target", "y", "--rules", "time_forward,positive_target", "--json")
    assert looked.returncode == 0, looked.stderr
    (found, *others) = json.loads(looked.stdout)["findings"]
    assert (found["kind"], found["columns"]) == ("rule:time_forward", ["day"])
    assert found["said"] == "'day' goes back in 2 rows."
    assert [other["kind"] for other in others] == ["dates"]
    done = shoal(site, "train", path, "--target", "y", "--rules", "time_forward,positive_target", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["findings"][0] == found


@pytest.mark.parametrize("solver", ["exact", "gradient"])
def test_a_rule_refuses_a_table_before_anything_is_fitted(solver: str, site: str, tmp_path: Path) -> None:
    path, out = sales(tmp_path, low=-2.5), tmp_path / "model.json"
    done = shoal(site, "train", path, "--target", "y", "--solver", solver, "--rules", "positive_target", "--out", out)
    assert done.returncode == 1
    assert (
        "The rule 'positive_target' refuses this table: Expected amounts of at least 0 in 'y', got -2.5" in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert not out.exists()
    looked = shoal(site, "inspect", path, "--target", "y", "--rules", "positive_target")
    assert looked.returncode == 0
    assert "refuses this table" in looked.stdout + looked.stderr


# ------------------------------------------------------------------ metrics


def near(found: dict[str, Any], path: Path, which: Any) -> float:
    """The share of rows within a tenth, by pandas from the coefficients that were printed."""
    rows = pd.read_csv(path)
    rows = rows[which(np.arange(len(rows)))]
    predicted = found["intercept"] + found["coefficients"]["a"] * rows["a"]
    return float((np.abs(predicted - rows["y"]) <= 0.1 * rows["y"].abs()).mean())


@pytest.mark.parametrize(("solver", "engine"), [("exact", "inline"), ("gradient", "processes")])
def test_a_metric_is_computed_on_training_and_test_rows(solver: str, engine: str, site: str, tmp_path: Path) -> None:
    path = sales(tmp_path)
    done = shoal(site, "train", path, "--target", "y", "--solver", solver, "--engine", engine, "--exclude", "day",
                 "--test-every", "3", "--metrics", "within_ten_percent", "--workers", "2", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    own = found["own_metrics"]["within_ten_percent"]
    assert own["better"] == "higher"
    assert own["train"] == pytest.approx(near(found, path, lambda i: i % 3 > 0), abs=1e-12)
    assert own["test"] == pytest.approx(near(found, path, lambda i: i % 3 == 0), abs=1e-12)
    if solver == "gradient":
        told = [event for _, event in stored(found["run_id"]).events(kinds={"metrics"})]
        assert len(told) >= 2  # once an epoch, and for the weights that the model has
        assert told[-1].data["values"]["within_ten_percent"] == pytest.approx(own["test"], abs=1e-12)
        assert told[-1].round == found["rounds"]


def stored(run_id: str) -> Storage:
    return Run(runs_directory() / run_id).open_records(5.0)


def test_a_metric_is_in_the_words_of_a_fit(site: str, tmp_path: Path) -> None:
    done = shoal(site, "train", sales(tmp_path), "--target", "y", "--metrics", "within_ten_percent")
    assert done.returncode == 0, done.stderr
    assert "within_ten_percent" in done.stdout


# ------------------------------------------------------------------ column steps


def heavy(folder: Path, rows: int = 500, name: str = "heavy.csv") -> Path:
    """A column with a few values that are far too large."""
    random = np.random.default_rng(8)
    a = random.normal(size=rows).round(4)
    y = (5 + 2 * a + 0.1 * random.normal(size=rows)).round(4)
    a[::60] = 1000
    path = folder / name
    pd.DataFrame({"a": a, "y": y}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(("solver", "engine"), [("exact", "inline"), ("gradient", "processes")])
def test_a_step_is_taken_in_training_and_again_in_prediction(
    solver: str, engine: str, site: str, tmp_path: Path
) -> None:
    path, model, out = heavy(tmp_path), tmp_path / "model.json", tmp_path / "out.csv"
    flags = ["--test-every", "5", "--engine", engine, "--workers", "2", "--solver", solver]
    done = shoal(
        site, "train", path, "--target", "y", "--transform", "a=step:winsorise", *flags, "--out", model, "--json"
    )
    assert done.returncode == 0, done.stderr
    frame = pd.read_csv(path)
    train = frame[np.arange(len(frame)) % 5 > 0]
    low, high = np.quantile(train["a"], [0.02, 0.98])
    clipped = train["a"].clip(low, high)
    slope, intercept = np.polyfit(clipped, train["y"], 1)
    found = json.loads(done.stdout)
    assert found["coefficients"]["winsorise(a)"] == pytest.approx(slope, rel=1e-6)
    new = heavy(tmp_path, 90, "new.csv")
    done = shoal(site, "predict", model, new, "--out", out)
    assert done.returncode == 0, done.stderr
    predicted = pd.read_csv(out).iloc[:, -1]
    expected = intercept + slope * pd.read_csv(new)["a"].clip(low, high)
    np.testing.assert_allclose(predicted, expected, rtol=1e-5)


def test_predictions_without_the_plug_in_are_refused_and_the_model_can_still_be_read(site: str, tmp_path: Path) -> None:
    path, model = heavy(tmp_path), tmp_path / "model.json"
    done = shoal(site, "train", path, "--target", "y", "--transform", "a=step:winsorise", "--out", model)
    assert done.returncode == 0, done.stderr
    refused = shoal("", "predict", model, path, "--out", tmp_path / "out.csv")
    assert refused.returncode == 1
    assert "Expected the column step 'winsorise', version 1, which this model was fitted with" in refused.stderr
    assert "Traceback" not in refused.stderr
    read = python("import shoal, sys; print(shoal.load(sys.argv[1]).report['train']['rows'])", "", str(model))
    assert read.stdout == "500\n", read.stderr  # what is said of a model needs no plug-in
    exported = shoal(site, "export", model, "--to", "python", "--out", tmp_path / "model.py")
    assert exported.returncode == 1
    assert "'a' is used as winsorise(a), which is a plug-in's" in exported.stderr
