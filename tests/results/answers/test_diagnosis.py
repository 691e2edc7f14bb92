"""What is said of how a model predicts is one type, made once: for pages, which read it from a job, and for reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shoal
from shoal.results.answers.diagnosis import Diagnosis
from shoal.settings.values import config_from
from shoal.tasks.diagnose import diagnose

ROWS = 60


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    table = tmp_path / "t.csv"
    table.write_text("x,y\n" + "".join(f"{i},{2 * i + (i * 7) % 5}\n" for i in range(ROWS)))
    shoal.fit(table, "y", test_every=5).save(tmp_path / "m.json")
    return tmp_path / "m.json"


def test_it_comes_through_a_file_as_it_was(model: Path) -> None:
    found = diagnose(model, config_from({"file": str(model.with_name("t.csv")), "target": "y"}), own_data=True)
    assert Diagnosis.from_dict(json.loads(json.dumps(found.as_dict()))) == found
    assert (found.rows, found.train.rows, found.test.rows) == (ROWS, 48, 12)
    assert not found.is_sampled
    assert found.beyond == 0
    assert sorted(found.at) == [0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0]
    assert found.low.actual == 0


def test_rows_whose_prediction_is_no_number_are_left_out_and_counted(model: Path) -> None:
    """More than a double can hold: such rows were taken for residuals, and no chart could be drawn."""
    other = model.with_name("other.csv")
    other.write_text("x,y\n" + "1.7e308,1\n" * 3 + "1,2\n2,4\n")
    found = diagnose(model, config_from({"file": str(other)}), own_data=False)
    assert (found.rows, found.rows_left_out) == (2, 3)
    assert found.sample.row == (3, 4)
