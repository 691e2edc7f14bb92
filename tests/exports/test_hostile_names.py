"""Hostile names and levels come out as they are, or are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.errors import StateError
from shoal.exports import export
from shoal.exports.names import FORMATS
from shoal.exports.proof import own_predictions
from shoal.exports.trial_rows import trial_rows
from shoal.fitting.model_file import usable
from shoal.results.model import ModelFile
from support.exports import ALL, RUN, linear_contents

HOSTILE = [
    "it's", 'say "hi"', "'; DROP TABLE data; --", '"; DROP TABLE data; --', "'); DROP TABLE data; --", '"',
    "''", "\\", "\\'", '\\"', "a\\nb", "two\nlines", "cr\rlf\r\nend", "tab\there", "größe 名前 🐟", "x\u2028\u2029\x85y",
    "__import__('os').system('touch pwned')", "'+__import__('os').system('touch pwned')+'", "{}", "{0}", "{intercept}",
    "{numbers", "}", '"""', "'''", "%s", "%(a)s", "$1", "?", ":name", ":0.0", "::0", "/* */", "--", "#", "`", "[x]",
    "prediction", "Prediction_1", "row", "t", "t.*", "rowid", "SELECT", "predict", "NUMBERS", "math", "None", "nan",
    "NULL", "__missing__", "-1e3", "true", "\x01\x7f", "a" * 300, "=cmd|' /C calc'!A0",
]  # fmt: skip


@pytest.mark.parametrize("to", ALL)
def test_hostile_names_and_levels_come_out_as_they_are(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    levels = {f"text {name}": HOSTILE for name in HOSTILE[:12]}
    contents = linear_contents(HOSTILE, levels, target='"""\n\'; DROP TABLE data; --\n{x}')
    out = tmp_path / f"m{FORMATS[to][1]}"
    assert export(contents, to, out).largest_relative < 1e-14
    model = usable(contents)
    rows, _ = trial_rows(model, seed=1)
    frame = pd.DataFrame({n: pd.Series(list(v), dtype="str" if n in model.texts else float) for n, v in rows.items()})
    ours, scale = own_predictions(model, rows)
    if to != "json":  # frames take words for missing values, such as "None"; the rows above are not such
        assert np.max(np.abs(RUN[to](out, frame, "data") - ours) / scale) < 1e-14
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize("to", ALL)
def test_hostile_names_through_a_fit(to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    names = ["'); DROP TABLE data; --", '"x"', "__import__('os').system('touch pwned')", "{y}", "back\\slash\nline"]
    frame = pd.DataFrame({name: random.normal(size=300) for name in names})
    frame["le'vel\""] = random.choice(HOSTILE[:20], 300)
    frame["y"] = random.normal(size=300)
    model = shoal.fit(frame, "y")
    named = frame.drop(columns="y").rename(columns={names[-1]: "back\\slash line"})  # a model has names of one line
    out = tmp_path / f"m{FORMATS[to][1]}"
    assert model.export(to, out, **({"table": 'my "table"; --'} if to == "sql" else {})).largest_relative < 1e-14
    assert np.allclose(RUN[to](out, named, 'my "table"; --'), model.predict(frame), rtol=0, atol=1e-12)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize(("contents", "words"), [
    (linear_contents(["a", "A"]), "duplicate column name"),
    (linear_contents(["nul\0"]), "SQLite cannot run"),
    (linear_contents([f"c{i}" for i in range(2100)]), "too many columns"),
])  # fmt: skip
def test_what_sqlite_cannot_run_is_said(contents: ModelFile, words: str, tmp_path: Path) -> None:
    with pytest.raises(StateError, match=words):
        export(contents, "sql", tmp_path / "m.sql")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ALL)
def test_names_that_are_not_text_are_said(to: str, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="not valid text"):
        export(linear_contents(["\ud800"]), to, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_wide_model_as_sql(tmp_path: Path) -> None:
    contents = linear_contents([f"c{i}" for i in range(600)], {"t": ["a", "b"]})
    assert export(contents, "sql", tmp_path / "m.sql").largest_relative < 1e-13


@pytest.mark.parametrize("to", ALL)
def test_a_gap_may_matter_where_the_number_does_not(to: str, tmp_path: Path) -> None:
    contents = linear_contents(["a", "b"])
    contents.report.coefficients["a"] = contents.report.coefficients_standardized["a"] = 0.0
    assert export(contents, to, tmp_path / "m").largest_relative < 1e-14
    found = RUN[to](tmp_path / "m", pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": [0.5] * 3}), "data")
    assert found[0] == found[1]
    assert found[2] - found[1] == pytest.approx(contents.report.coefficients["a=__missing__"])


def test_names_of_own_tensors_and_columns_are_apart(tmp_path: Path) -> None:
    contents = linear_contents([":", "::", ":0.1", ":1.1", "prediction", "PREDICTION_1"], {":2.2": ["a", "b"]})
    assert export(contents, "onnx", tmp_path / "m.onnx").largest_relative < 1e-14


def test_a_model_with_line_breaks_in_its_names_predicts_files_and_frames(tmp_path: Path) -> None:
    contents = linear_contents(["two\nlines", "b"], {"te\r\nxt": ["u", "v"]}, target="y\nz")
    frame = pd.DataFrame({"two\nlines": [1.0, 2.0, 4.0], "b": [0.5, 0.0, 3.0], "te\r\nxt": ["u", "v", "u"]})
    model = shoal.FittedModel(contents)
    c = model.coefficients
    level = frame["te\r\nxt"].map(lambda value: c.get(f"te\r\nxt={value}", 0.0))
    expected = model.intercept + c["two\nlines"] * frame["two\nlines"] + c["b"] * frame["b"] + level
    flat = frame.rename(columns={"two\nlines": "two lines", "te\r\nxt": "te xt"})
    for i, table in enumerate((frame, flat)):
        table.to_csv(tmp_path / f"{i}.csv", index=False)
        table.to_parquet(tmp_path / f"{i}.parquet")
        for data in (table, tmp_path / f"{i}.csv", tmp_path / f"{i}.parquet"):
            assert np.allclose(model.predict(data), expected, rtol=0, atol=1e-12)
        assert model.score(table.assign(**{"y\nz": expected})) == pytest.approx(1)
