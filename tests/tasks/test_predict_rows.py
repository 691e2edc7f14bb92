"""Rows that come as plain values, as programs send them; the ways of linear models are tried by the API's tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

import shoal
from shoal.fitting.model_file import load_model
from shoal.tasks.predict_rows import RowPredictor


def test_rows_of_several_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    iris = load_iris(as_frame=True)
    frame = iris.data.assign(kind=iris.target.map(dict(enumerate(iris.target_names))))
    frame.to_csv(tmp_path / "iris.csv", index=False)
    fitted = shoal.fit(
        tmp_path / "iris.csv", target="kind", model="multinomial", shrink="ridge", alpha=1.0, standardize=False
    )
    fitted.save(tmp_path / "model.json")
    rows = frame.drop(columns="kind").iloc[::10].to_dict("records")
    expected = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000).fit(iris.data, frame["kind"])
    found = RowPredictor(load_model(tmp_path / "model.json")).predict(rows)
    own = expected.predict_proba(iris.data.iloc[::10])
    assert found.predictions == tuple(expected.predict(iris.data.iloc[::10]))
    assert found.probabilities is not None
    given = [[share[name] for name in expected.classes_] for share in found.probabilities]  # type: ignore[index]
    np.testing.assert_allclose(given, own, atol=1e-6)
    assert found.notes == ()


def test_levels_that_are_not_known_are_named_with_their_rows(tmp_path: Path) -> None:
    lines = [f"{i % 7},{'red' if i % 2 else 'blue'},{i % 5 + 3 * (i % 2)}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["a,colour,y", *lines]) + "\n")
    shoal.fit(tmp_path / "t.csv", target="y").save(tmp_path / "model.json")
    rows = [{"a": 1, "colour": name} for name in ("red", "green", "blue", "mauve", "green")]
    (note,) = RowPredictor(load_model(tmp_path / "model.json")).predict(rows).notes
    assert note == (
        "Column 'colour': 3 rows have a level that the model was not trained with: 'green' (2), 'mauve' (1). "
        "Its 0/1 columns are all 0 there, as if it was 'blue'. See row 1, 3, 4."
    )


def test_rows_that_lack_what_the_model_rests_on_are_doubted_first(tmp_path: Path) -> None:
    lines = [f"{i % 7},{i * i % 11},{i % 7 + 9 * (i * i % 11)}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["a,x,y", *lines]) + "\n")
    shoal.fit(tmp_path / "t.csv", target="y").save(tmp_path / "model.json")
    predictor = RowPredictor(load_model(tmp_path / "model.json"))
    (note,) = predictor.predict([{"a": 1, "x": None}, {"a": 2, "x": None}]).notes
    assert note.startswith("Column 'x' has no value in 2 of 2 rows; ")
    assert predictor.predict([{"a": 1, "x": None}, {"a": 2, "x": 1.0}]).notes == ()  # one of few is no sign
    (note,) = predictor.predict([{"a": 1, "x": None}] * 12 + [{"a": 2, "x": 1.0}] * 8).notes
    assert note.startswith("Column 'x' has no value in 12 of 20 rows; ")
