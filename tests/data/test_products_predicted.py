"""Squares and interactions in predictions, model files and exports."""

from __future__ import annotations

import contextlib
import json
import runpy
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import skops.io

import shoal
from shoal.data.terms import Level, Product
from shoal.errors import DataError, StateError
from shoal.exports.names import FORMATS
from shoal.exports.trial_rows import trial_rows
from shoal.fitting.model_file import load_model, model_from, usable
from shoal.tasks.explain_row import explain, typical_row
from support.data.encoding import Array, saved
from support.data.products import by_hand, frame, with_products

# ------------------------------------------------------------------ predictions and model files


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(tmp_path_factory.mktemp("home")))
        return shoal.fit(frame(), "y", model="ridge", alpha=0.5, indicators=True, **with_products(frame()))


def strangers() -> pd.DataFrame:
    """Rows with gaps and a city that no training row has."""
    data = frame(80, seed=9).drop(columns="y")
    data.loc[:4, "city"] = "Atlantis"
    data.loc[5, ["a", "b", "city"]] = [np.nan, np.nan, None]
    return data


def predicted_by_hand(model: Any, rows: pd.DataFrame) -> Array:
    train = frame()[frame()["y"].notna()]
    X = by_hand(train, rows).assign(**{f"{c}=__missing__": rows[c].isna().to_numpy(float) for c in ("a", "b")})
    assert set(X) == set(model.coefficients)
    return X[list(model.coefficients)].to_numpy() @ np.array(list(model.coefficients.values())) + model.intercept


def test_files_and_frames_are_predicted_as_by_hand(model: Any, tmp_path: Path) -> None:
    rows, by = strangers(), predicted_by_hand(model, strangers())
    with pytest.warns(UserWarning, match="level"):
        assert np.allclose(model.predict(rows), by, rtol=1e-12)
    with pytest.warns(UserWarning, match="level"):
        assert np.allclose(model.predict(saved(tmp_path, rows)), by, rtol=1e-12)


def test_a_model_file_comes_back_and_older_programs_refuse_it_in_words(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model.save(path)
    assert load_model(path).encoding.terms == usable(model._file).encoding.terms
    assert json.loads(path.read_text())["version"] == 2  # the version is all that a program before products looks at
    plain = shoal.fit(frame(), "y")
    assert plain._file.version == 1
    path.write_text(json.dumps({**model._file.as_dict(), "version": 99}))
    with pytest.raises(StateError, match="version 99"):
        load_model(path)
    broken = json.loads(json.dumps(model._file.as_dict()))
    next(term for term in broken["design"]["terms"] if term["type"] == "product").pop("left")
    path.write_text(json.dumps(broken))
    with pytest.raises(StateError, match="damaged"):
        load_model(path)


def test_one_row_is_explained_with_products_as_parts_of_their_own(model: Any) -> None:
    saved_model, rows = usable(model._file), strangers()
    expected = predicted_by_hand(model, rows)
    for i in (0, 5, 20, 40):
        row = {k: None if v is None or v != v else v for k, v in rows.iloc[i].items()}
        found = explain(saved_model, row)
        assert found.prediction == pytest.approx(expected[i], rel=1e-12)
        assert found.intercept + sum(part.adds for part in found.parts) == pytest.approx(found.prediction, rel=1e-12)
        against = found.typical + sum(part.against_typical for part in found.parts)
        assert against == pytest.approx(found.prediction, rel=1e-12)
        parts = {part.column: part for part in found.parts}
        assert set(parts) == {"a", "b", "c", "city", "size", "a:b", "a:city", "size:b", "city:size"}
        assert parts["a:city"].value == (row["a"], row["city"])
        a = typical_row(saved_model.encoding)["a"] if row["a"] is None else row["a"]
        coefficients = model.coefficients
        own = coefficients["a"] * a + coefficients["a^2"] * a**2 + coefficients["a=__missing__"] * (row["a"] is None)
        assert parts["a"].adds == pytest.approx(own, rel=1e-10)
        assert parts["city"].unseen == (row["city"] == "Atlantis")
        assert not parts["a:city"].unseen


# ------------------------------------------------------------------ exports


def by_sqlite(path: Path, rows: pd.DataFrame) -> Array:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        rows.to_sql("data", connection, index=False)
        return np.array([row[-1] for row in connection.execute(path.read_text())])


def by_python(path: Path, rows: pd.DataFrame) -> Array:
    predict = runpy.run_path(str(path))["predict"]
    return np.array([predict(row) for row in rows.to_dict("records")])


def by_skops(path: Path, rows: pd.DataFrame) -> Array:
    assert skops.io.get_untrusted_types(file=path) == ["numpy.dtype"]
    found: Array = skops.io.load(path, trusted=["numpy.dtype"]).predict(rows)
    return found


def by_onnx(path: Path, rows: pd.DataFrame) -> Array:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {
        given.name: rows[given.name].to_numpy(float)[:, None] if given.type == "tensor(double)"
        else rows[given.name].astype(object).where(rows[given.name].notna(), "").to_numpy(object)[:, None]
        for given in session.get_inputs()
    }  # fmt: skip
    return np.asarray(session.run(None, feeds)[0][:, 0])


def by_json(path: Path, rows: pd.DataFrame) -> Array:
    with pytest.warns(UserWarning, match="level"):
        found: Array = shoal.load(path).predict(rows)
    return found


RUN = {"sql": by_sqlite, "python": by_python, "sklearn": by_skops, "onnx": by_onnx, "json": by_json}


@pytest.mark.parametrize("to", list(FORMATS))
def test_exports_predict_products_as_by_hand(to: str, model: Any, tmp_path: Path) -> None:
    path = tmp_path / f"model{FORMATS[to][1]}"
    proof = model.export(to, path, **({"table": "data"} if to == "sql" else {}))
    assert proof.rows >= 1000
    assert proof.largest_relative < 1e-14
    assert np.allclose(RUN[to](path, strangers()), predicted_by_hand(model, strangers()), rtol=1e-12)


@pytest.mark.parametrize("pair", ["city:size", "size:city"])
def test_two_text_columns_are_exported_whichever_is_longer(pair: str, tmp_path: Path) -> None:
    train = frame()[frame()["y"].notna()]
    made = shoal.fit(frame(), "y", model="ridge", alpha=1.0, features=["city", "size"], interactions=[pair])
    made.export("python", tmp_path / "model.py")
    X = by_hand(train, strangers(), squares=(), pairs=[pair], columns=("city", "size"))[list(made.coefficients)]
    expected = X.to_numpy() @ np.array(list(made.coefficients.values())) + made.intercept
    assert np.allclose(by_python(tmp_path / "model.py", strangers()), expected, rtol=1e-12)


def test_products_without_weight_are_left_out_of_exports(tmp_path: Path) -> None:
    data = frame()
    sparse = shoal.fit(data, "y", model="lasso", alpha=0.6, **with_products(data))
    kept = [name for name, value in sparse.coefficients.items() if value and (":" in name or "^2" in name)]
    assert 0 < len(kept) < 8
    sparse.export("python", tmp_path / "model.py")
    made = runpy.run_path(str(tmp_path / "model.py"))
    levels = sum(len(right[1]) if isinstance(right[1], dict) else 1 for _, right in made["PRODUCTS"])
    assert levels == len(kept)


def test_trial_rows_have_every_combination_of_levels_that_has_a_coefficient() -> None:
    """3,600 of them, which a thousand rows by chance cannot have."""
    levels = [f"l{i}" for i in range(60)]
    both = [(a, b) for a in levels for b in levels]
    terms = [Product(Level("p", a), Level("q", b)) for a, b in both]
    contents = {
        "model": "linear", "target": "y",
        "design": {"terms": [t.as_dict() for t in terms], "known_levels": {"p": levels, "q": levels}},
        "coefficients": {t.name: 1.0 for t in terms}, "intercept": 0.0,
    }  # fmt: skip
    rows, _ = trial_rows(model_from(contents))
    assert set(both) <= set(zip(rows["p"], rows["q"], strict=True))


# ------------------------------------------------------------------ the form, and a row on the page of a model


def test_a_frame_without_a_column_of_one_level_gets_a_sentence() -> None:
    """No term is left of such a column, but whether its level is known is asked all the same."""
    made = shoal.fit(frame().assign(unit="kg"), "y", features=["a", "unit"])
    assert list(made.coefficients) == ["a"]
    with pytest.raises(DataError, match="does not have: unit"):
        made.predict(frame())
