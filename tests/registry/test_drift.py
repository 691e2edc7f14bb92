"""Rows that are predicted leave sums beside their version: from files, the API's buffer and a real server; and what is
said of versions that have none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal as python
from shoal.errors import StateError
from shoal.library import predicted_columns
from shoal.library.predicted_columns import DAYS
from shoal.library.saved_models import Version
from shoal.registry.drift import SeenRows, record
from shoal.results.answers.drift import SeenColumn
from support.dashboard.prediction_server import serving
from support.tables import shoal


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("drift")
    before = os.environ.get("SHOAL_HOME")
    os.environ["SHOAL_HOME"] = str(found / "home")
    try:
        _rows(0).to_csv(found / "train.csv", index=False)
        _rows(1, shift=2.0).to_csv(found / "june.csv", index=False)
        for name in ("files", "served", "other"):
            assert shoal("train", found / "train.csv", "--target", "y", "--register", name).code == 0
        yield found
    finally:
        os.environ.pop("SHOAL_HOME") if before is None else os.environ.update(SHOAL_HOME=before)


def _rows(seed: int, shift: float = 0.0) -> pd.DataFrame:
    chance = np.random.default_rng(seed)
    a, b, t = chance.normal(shift, 1, 500), chance.normal(size=500), chance.choice(["u", "v"], 500)
    return pd.DataFrame({"a": a, "b": b, "t": t, "y": a + b + (t == "u") + chance.normal(size=500)})


def test_predictions_of_a_file_tell_how_far_it_is_from_training(folder: Path, tmp_path: Path) -> None:
    assert "Nothing has been predicted with files:1 yet" in shoal("models", "drift", "files").out
    assert shoal("predict", "files", folder / "june.csv", "--out", tmp_path / "out.csv").code == 0
    found = python.drift("files")
    assert found.rows == 500
    sizes = {column.column: column.size for column in found.columns}
    assert sizes == {"a": "large", "b": "small", "t": "small"}
    assert found.columns[0].column == "a"
    june = pd.read_csv(folder / "june.csv")["a"].mean()
    train = pd.read_csv(folder / "train.csv")["a"]
    assert found.columns[0].shift == pytest.approx((june - train.mean()) / train.std(ddof=0), rel=1e-9)
    said = shoal("models", "drift", "files").out
    assert "Far from training (large): 'a'." in said
    assert json.loads(shoal("models", "drift", "files:1", "--days", "1", "--json").out)["size"] == "large"
    assert shoal("models", "drift", "files", "--days", "0").code == 1
    kept = (Version("files", 1).directory / predicted_columns.FILE).read_text()
    assert len(kept) < 3000, "sums, whatever the number of rows"
    shoal("predict", "files", folder / "june.csv", "--out", tmp_path / "out.csv")
    assert python.drift("files").rows == 1000, "those of the same day are merged"


def test_a_model_file_that_is_no_saved_one_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "v1" / "model.json"
    model.parent.mkdir()
    model.write_bytes(Version("other", 1).model_path.read_bytes())
    assert shoal("predict", model, folder / "june.csv", "--out", tmp_path / "out.csv").code == 0
    assert sorted(path.name for path in model.parent.iterdir()) == ["model.json"]


def test_rows_that_a_server_predicts_are_summed_up(folder: Path) -> None:
    rows = _rows(3, shift=2.0).drop(columns="y").to_dict("records")
    with serving(folder / "home", "served") as server:
        for k in range(0, 400, 100):
            server.got("/predict", {"rows": rows[k : k + 100]})
        server.got("/predict", {"row": {"a": None, "b": 0, "t": "new"}})
        server.ask("/predict", {"row": {"a": "much", "b": 0, "t": "u"}})
        assert server.end() == 0
    found = {column.column: column for column in python.drift("served").columns}
    assert found["a"].rows == 401
    assert found["a"].size == "large"
    assert found["a"].missing == pytest.approx(1 / 401)
    assert found["t"].unknown == pytest.approx(1 / 401)
    assert found["b"].size == "small"


def test_the_buffer_writes_once_for_many_requests_and_keeps_what_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, seen = Version("other", 1), SeenRows(rest=3600)
    design = version.model.design
    for _ in range(50):
        seen.add(version, design, {"a": [1.0, None], "b": [0.0, 0.0], "t": ["u", "v"]})
    assert not (version.directory / predicted_columns.FILE).exists()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(predicted_columns, "add", full)
        seen.flush()
        assert "No space left" in seen.problem
        assert "could not be kept" in record(version.model_path, {"a": SeenColumn(1, 0, (1,))})
    seen.flush()
    assert seen.problem == ""
    (columns,) = predicted_columns.days_of(version).values()
    assert (columns["a"].rows, columns["a"].missing) == (100, 50)


def test_days_are_bounded_and_a_damaged_file_begins_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = Version("other", 1)
    path = version.directory / predicted_columns.FILE
    columns = {"b": SeenColumn(40, 0, (4,) * 10, 0, 0.1, 40.0)}
    for day in range(DAYS + 5):
        monkeypatch.setattr(predicted_columns.time, "strftime", lambda _, day=day: f"2030-01-{day + 1:02}")
        predicted_columns.add(version, columns)
    monkeypatch.undo()
    assert len(predicted_columns.days_of(version)) == DAYS
    assert python.drift("other", days=2).rows == 80
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StateError, match="The next prediction begins anew"):
        python.drift("other")
    assert record(version.model_path, columns) == ""
    assert python.drift("other").rows == 40
    assert predicted_columns.version_at_path(Path("/elsewhere/other/v1/model.json")) is None


def test_a_version_from_before_is_said_to_have_nothing_to_compare_with(folder: Path) -> None:
    version = Version("other", 1)
    contents = json.loads(version.model_path.read_text())
    contents["design"].pop("columns")
    version.model_path.write_text(json.dumps({**contents, "checksum": "none"}))
    with pytest.raises(StateError, match="does not say what its training rows were like"):
        python.drift("other")
    assert shoal("predict", "other", folder / "june.csv", "--out", folder / "out.csv").code == 0
