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
from support.brought.example_plugin import installed, shoal


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


@pytest.mark.parametrize("solver", ["exact", "gradient"])
@pytest.mark.parametrize("engine", ["inline", "processes"])
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
