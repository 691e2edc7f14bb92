"""Exports: every format run by its own runtime in here too, hostile names, refusals of what differs, the command line."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import importlib
import math
import re
import runpy
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import palmerpenguins
import pandas as pd
import pytest
import skops.io

import shoal
from shoal.errors import ConfigError, ResourceError, StateError
from shoal.exports import export
from shoal.exports.base import LinearForm, TextColumn, linear_form
from shoal.exports.names import FORMATS
from shoal.exports.proof import own_predictions, prove
from shoal.exports.python_function import FORMAT as PYTHON
from shoal.exports.sql import select
from shoal.exports.trial_rows import trial_rows, unseen_level
from shoal.fitting.model_file import SavedModel, load_model, model_from, save_model
from support.tables import Answer
from support.tables import shoal as command

Floats = npt.NDArray[np.float64]
ALL = list(FORMATS)


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path_factory.getbasetemp() / "home"))


# ------------------------------------------------------------------ other programs, as their users call them


def by_sqlite(path: Path, frame: pd.DataFrame, table: str) -> Floats:
    doubled = [str(name).replace('"', '""') for name in frame.columns]
    with sqlite3.connect(":memory:") as connection:
        named = table.replace('"', '""')
        connection.execute(f'CREATE TABLE "{named}" ({", ".join(f"{chr(34)}{n}{chr(34)}" for n in doubled)})')
        rows = frame.astype(object).where(frame.notna(), None).values.tolist()
        connection.executemany(f'INSERT INTO "{named}" VALUES ({", ".join("?" * len(doubled))})', rows)
        found = connection.execute(path.read_bytes().decode())
        assert [part[0] for part in found.description][:-1] == list(frame.columns)
        assert found.description[-1][0].startswith("prediction")
        answer = np.array([row[-1] for row in found], float)
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)
    connection.close()
    return answer


def by_python(path: Path, frame: pd.DataFrame, table: str) -> Floats:
    predict = runpy.run_path(str(path))["predict"]
    return np.array([predict(row) for row in frame.to_dict("records")])


def by_skops(path: Path, frame: pd.DataFrame, table: str) -> Floats:
    assert skops.io.get_untrusted_types(file=path) == ["numpy.dtype"]
    found: Floats = skops.io.load(path, trusted=["numpy.dtype"]).predict(frame)
    return found


def by_onnxruntime(path: Path, frame: pd.DataFrame, table: str) -> Floats:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = {}
    for given in session.get_inputs():
        column = frame[given.name]
        if given.type == "tensor(double)":
            feeds[given.name] = column.to_numpy(float)[:, None]
        else:
            assert given.type == "tensor(string)"
            feeds[given.name] = column.astype(object).where(column.notna(), "").to_numpy(object)[:, None]
    (found,) = session.run(None, feeds)
    assert found.dtype == np.float64
    assert session.get_outputs()[0].type == "tensor(double)"
    return np.asarray(found[:, 0])


def by_json(path: Path, frame: pd.DataFrame, table: str) -> Floats:
    found = shoal.load(path)
    with pytest.warns() if has_unseen(found, frame) else contextlib.nullcontext():
        return found.predict(frame)


def has_unseen(model: Any, frame: pd.DataFrame) -> bool:
    known = model._contents["design"]["known_levels"]
    return any(not set(frame[name].fillna("__missing__")) <= set(levels) for name, levels in known.items())


RUN: dict[str, Callable[[Path, pd.DataFrame, str], Floats]] = {
    "sql": by_sqlite, "python": by_python, "sklearn": by_skops, "onnx": by_onnxruntime, "json": by_json,
}  # fmt: skip


# ------------------------------------------------------------------ models


def penguins() -> pd.DataFrame:
    found = palmerpenguins.load_penguins()
    return found.assign(year=found["year"].astype(float))


def generated(rows: int = 200) -> pd.DataFrame:
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"a": random.normal(1e6, 3, rows), "b": random.normal(0, 1e-6, rows)})
    frame["t"] = random.choice(["u", "v", "w"], rows)
    frame["y"] = frame["a"] - 1e6 + 1e6 * frame["b"] + (frame["t"] == "v") * 3 + random.normal(0, 1, rows)
    frame.loc[::9, "a"] = np.nan
    return frame


def days() -> pd.DataFrame:
    frame = generated()
    return frame.assign(day=pd.date_range("2021-03-01 12:30", periods=len(frame), freq="31h"))


def half_empty() -> pd.DataFrame:
    """A column without a value in the training rows: its indicator is there, its number is not."""
    frame = generated()
    return frame.assign(empty=np.where(np.arange(len(frame)) % 5 == 0, 7.0, np.nan))


CASES: dict[str, tuple[Callable[[], pd.DataFrame], str, dict[str, Any]]] = {
    "penguins": (penguins, "body_mass_g", {}),
    "full coding": (penguins, "body_mass_g", {"model": "ridge", "alpha": 2.0, "coding": "full"}),
    "indicators": (generated, "y", {"indicators": True}),
    "penguins indicators": (penguins, "body_mass_g", {"indicators": True, "model": "ridge", "coding": "full"}),
    "constant": (penguins, "body_mass_g", {"impute": "constant", "fill": -3.25}),
    "mean": (generated, "y", {"impute": "mean", "test_every": 5}),
    "drop": (penguins, "body_mass_g", {"impute": "drop"}),
    "dates": (days, "y", {"model": "ridge", "alpha": 0.5}),
    "no texts": (generated, "y", {"features": ["a", "b"]}),
    "only texts": (penguins, "body_mass_g", {"features": ["species", "sex"]}),
    "all zero": (penguins, "body_mass_g", {"model": "lasso", "alpha": 1e9}),
    "lasso": (penguins, "body_mass_g", {"model": "lasso", "alpha": 60.0}),
    "no intercept": (generated, "y", {"intercept": False}),
    "only an indicator": (half_empty, "y", {"indicators": True, "test_every": 5}),
}  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a case: `data.csv` with what is to be predicted, `model.json`; made once."""
    made: dict[str, Path] = {}

    def place(case: str) -> Path:
        if case not in made:
            folder = made[case] = tmp_path_factory.mktemp(case.replace(" ", "_"))
            frame, target, knobs = CASES[case][0](), *CASES[case][1:]
            frame.to_csv(folder / "train.csv", index=False)
            shoal.fit(folder / "train.csv", target, **knobs).save(folder / "model.json")
            spoilt(frame.drop(columns=target)).to_csv(folder / "data.csv", index=False)
        return made[case]

    return place


def spoilt(frame: pd.DataFrame) -> pd.DataFrame:
    """With an unseen level in some rows and no value in others, in every column."""
    frame = frame.copy()
    for i, name in enumerate(frame.columns):
        frame.loc[frame.index % 7 == i, name] = None
        if not pd.api.types.is_numeric_dtype(frame[name]) and not pd.api.types.is_datetime64_any_dtype(frame[name]):
            frame.loc[frame.index % 11 == i, name] = "it's new"
    return frame


def predicted(folder: Path) -> Floats:
    """By `shoal predict`."""
    answer = command("predict", folder / "model.json", folder / "data.csv", "--out", folder / "out.csv")
    assert answer.code == 0, answer.err
    return read_predictions(folder / "out.csv")


def read_predictions(path: Path) -> Floats:
    with path.open() as lines:
        return np.array([float(row["prediction"]) for row in csv.DictReader(lines)])


def in_seconds(frame: pd.DataFrame) -> pd.DataFrame:
    if "day" in frame:
        day = pd.to_datetime(frame["day"])
        frame["day"] = np.where(day.isna(), np.nan, (day - pd.Timestamp(0)) / pd.Timedelta(seconds=1))
    return frame


def close(found: Floats, wanted: Floats, model: SavedModel) -> bool:
    """By what rounding can do: the terms of these models are not much larger than 1e9 times the prediction."""
    size = np.abs(wanted) + np.abs(model.intercept) + 1e-300
    return bool(np.max(np.abs(found - wanted) / size) < 1e-11)


# ------------------------------------------------------------------ every model in every format


@pytest.mark.parametrize("to", ALL)
@pytest.mark.parametrize("case", CASES)
def test_every_format_predicts_what_the_model_predicts(
    to: str, case: str, places: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = places(case)
    out = tmp_path / f"exported{FORMATS[to][1]}"
    proof = export(folder / "model.json", to, out)
    assert proof.rows == 1000
    assert proof.largest_relative < 1e-14
    assert proof.largest_difference < 1e-6
    model = load_model(folder / "model.json")
    frame = in_seconds(pd.read_csv(folder / "data.csv"))[[*model.numbers, *model.texts]]
    found = RUN[to](out, frame, "train")
    assert close(found, predicted(folder), model)
    assert list(tmp_path.iterdir()) == [out]  # nothing is left beside it


def test_own_predictions_are_those_of_shoal_predict(places: Callable[[str], Path], tmp_path: Path) -> None:
    for case in ("penguins indicators", "drop", "only an indicator"):
        path = places(case) / "model.json"
        model = load_model(path)
        rows, _ = trial_rows(model)
        ours, scale = own_predictions(model, rows)
        with (tmp_path / "trial.csv").open("w", newline="") as file:
            csv.writer(file).writerows([list(rows), *zip(*rows.values(), strict=True)])
        answer = command("predict", path, tmp_path / "trial.csv", "--out", tmp_path / "p.csv", "--json")
        assert answer.code == 0, answer.err
        assert answer.json["unseen_levels"] > 100
        assert np.array_equal(ours, read_predictions(tmp_path / "p.csv"))
        assert (scale >= np.abs(ours) * (1 - 1e-12)).all()


def test_trial_rows_have_all_that_can_come(places: Callable[[str], Path]) -> None:
    model = load_model(places("penguins indicators") / "model.json")
    rows, ordinary = trial_rows(model)
    assert set(rows) == {*model.numbers, *model.texts}
    assert {len(values) for values in rows.values()} == {1000}
    assert trial_rows(model)[0] == rows
    assert all(values[0] is None for values in rows.values())
    for name in model.texts:
        known = model.encoding.known[name]
        assert set(rows[name]) == {*known, None, unseen_level(known)}
        assert all(rows[name].count(level) >= 100 for level in set(rows[name]))
    for name in model.numbers:
        values = [float(v) for v in rows[name] if v is not None]
        assert 0.05 < rows[name].count(None) / 1000 < 0.25
        assert min(values) < -1e3 < 0 < 1e6 < max(values)
        assert 0.0 in values
        assert np.ptp([v for v, usual in zip(rows[name], ordinary, strict=True) if usual and v is not None]) < 1e4


def test_many_levels_get_more_rows(tmp_path: Path) -> None:
    levels = [f"level {i}" for i in range(1500)]
    model = model_from(linear_contents(levels={"t": levels}))
    rows, _ = trial_rows(model)
    assert set(levels) < set(rows["t"])
    for to in ALL:
        assert export(model.contents, to, tmp_path / f"m.{to}").rows == 1502


def test_an_unseen_level_is_unseen() -> None:
    first = unseen_level([])
    assert unseen_level([first, first + "'"]) == first + "''"


# ------------------------------------------------------------------ hostile names

HOSTILE = [
    "it's", 'say "hi"', "'; DROP TABLE data; --", '"; DROP TABLE data; --', "'); DROP TABLE data; --", '"',
    "''", "\\", "\\'", '\\"', "a\\nb", "two\nlines", "cr\rlf\r\nend", "tab\there", "größe 名前 🐟", "x\u2028\u2029\x85y",
    "__import__('os').system('touch pwned')", "'+__import__('os').system('touch pwned')+'", "{}", "{0}", "{intercept}",
    "{numbers", "}", '"""', "'''", "%s", "%(a)s", "$1", "?", ":name", ":0.0", "::0", "/* */", "--", "#", "`", "[x]",
    "prediction", "Prediction_1", "row", "t", "t.*", "rowid", "SELECT", "predict", "NUMBERS", "math", "None", "nan",
    "NULL", "__missing__", "-1e3", "true", "\x01\x7f", "a" * 300, "=cmd|' /C calc'!A0",
]  # fmt: skip


def linear_contents(
    numbers: list[str] | None = None, levels: dict[str, list[str]] | None = None, target: str = "y"
) -> dict[str, Any]:
    """A model file's contents without a fit; all coefficients differ."""
    random = np.random.default_rng(3)
    numbers, levels = numbers or [], levels or {}
    terms: list[dict[str, Any]] = [{"type": "number", "column": n, "fill": float(random.normal())} for n in numbers]
    terms += [{"type": "indicator", "column": n} for n in numbers]
    terms += [{"type": "level", "column": n, "level": lv} for n, found in levels.items() for lv in found[1:]]
    names = [f"{t['column']}={t.get('level', '__missing__')}" if t["type"] != "number" else t["column"] for t in terms]
    coefficients = dict(zip(names, random.normal(size=len(names)).tolist(), strict=True))
    return {
        "format": "shoal-model", "version": 1, "model": "linear", "target": target, "alpha": None,
        "intercept": 0.375, "coefficients": coefficients, "coefficients_standardized": coefficients,
        "design": {"terms": terms, "known_levels": levels}, "config": {}, "data": {"file": "data.csv"},
    }  # fmt: skip


@pytest.mark.parametrize("to", ALL)
def test_hostile_names_and_levels_come_out_as_they_are(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    levels = {f"text {name}": HOSTILE for name in HOSTILE[:12]}
    contents = linear_contents(HOSTILE, levels, target='"""\n\'; DROP TABLE data; --\n{x}')
    out = tmp_path / f"m{FORMATS[to][1]}"
    assert export(contents, to, out).largest_relative < 1e-14
    model = model_from(contents)
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
    out = tmp_path / f"m{FORMATS[to][1]}"
    assert model.export(to, out, **({"table": 'my "table"; --'} if to == "sql" else {})).largest_relative < 1e-14
    assert np.allclose(
        RUN[to](out, frame.drop(columns="y"), 'my "table"; --'), model.predict(frame), rtol=0, atol=1e-12
    )
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize(("contents", "words"), [
    (linear_contents(["a", "A"]), "duplicate column name"),
    (linear_contents(["nul\0"]), "SQLite cannot run"),
    (linear_contents([f"c{i}" for i in range(2100)]), "too many columns"),
])  # fmt: skip
def test_what_sqlite_cannot_run_is_said(contents: dict[str, Any], words: str, tmp_path: Path) -> None:
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
    contents["coefficients"]["a"] = contents["coefficients_standardized"]["a"] = 0.0
    assert export(contents, to, tmp_path / "m").largest_relative < 1e-14
    found = RUN[to](tmp_path / "m", pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": [0.5] * 3}), "data")
    assert found[0] == found[1]
    assert found[2] - found[1] == pytest.approx(contents["coefficients"]["a=__missing__"])


def test_names_of_own_tensors_and_columns_are_apart(tmp_path: Path) -> None:
    contents = linear_contents([":", "::", ":0.1", ":1.1", "prediction", "PREDICTION_1"], {":2.2": ["a", "b"]})
    assert export(contents, "onnx", tmp_path / "m.onnx").largest_relative < 1e-14


# ------------------------------------------------------------------ refusals


def perturbed(form: LinearForm) -> Iterator[LinearForm]:
    """The form with one number wrong in the sixth digit, or one level lost: each way there is."""
    yield dataclasses.replace(form, intercept=form.intercept * (1 + 1e-6))
    for i, column in enumerate(form.numbers):
        for name in ("coefficient", "fill", "if_missing"):
            value = getattr(column, name)
            if value:
                wrong = dataclasses.replace(column, **{name: value * (1 + 1e-6)})
                numbers = (*form.numbers[:i], wrong, *form.numbers[i + 1 :])
                yield dataclasses.replace(form, numbers=numbers)
    for i, text in enumerate(form.texts):
        for level, value in text.levels.items():
            for wrong_value in (value * (1 + 1e-6) or 1e-3, None):
                levels = {k: v for k, v in text.levels.items() if k != level}
                if wrong_value is not None:
                    levels[level] = wrong_value
                elif not value:
                    continue  # the level that is left out adds 0, known or not
                texts = (*form.texts[:i], TextColumn(text.name, levels), *form.texts[i + 1 :])
                yield dataclasses.replace(form, texts=texts)


@pytest.mark.parametrize("case", ["penguins", "indicators", "penguins indicators", "mean"])
def test_every_number_of_a_model_is_under_proof(
    case: str, places: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = places(case) / "model.json"
    count = 0
    model = load_model(path)
    once = own_predictions(model, trial_rows(model)[0])
    monkeypatch.setattr("shoal.exports.proof.own_predictions", lambda model, rows: once)
    for wrong in perturbed(linear_form(model)):
        monkeypatch.setattr("shoal.exports.python_function.linear_form", lambda model, wrong=wrong: wrong)
        with pytest.raises(StateError, match="does not predict what the model predicts"):
            export(path, "python", tmp_path / "m.py")
        count += 1
    assert count > 8


@pytest.mark.parametrize("to", ALL)
def test_a_wrong_export_is_refused_and_removed(
    to: str, places: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = places("penguins") / "model.json"
    out = tmp_path / "out"
    out.write_text("what was there before")
    module = FORMATS[to][0]

    def wrong_form(model: SavedModel) -> LinearForm:
        form = linear_form(model)
        return dataclasses.replace(form, intercept=form.intercept * (1 + 1e-8))

    def wrong_save(path: Path, contents: dict[str, Any]) -> None:
        save_model(path, {**contents, "intercept": contents["intercept"] * (1 + 1e-8)})

    name, wrong = ("save_model", wrong_save) if to == "json" else ("linear_form", wrong_form)
    monkeypatch.setattr(f"{module}.{name}", wrong)
    with pytest.raises(StateError, match=r"It was not kept\. Please report this"):
        export(path, to, out)
    assert out.read_text() == "what was there before"
    assert list(tmp_path.iterdir()) == [out]
    answer = command("export", path, "--to", to, "--out", tmp_path / "new")
    assert (answer.code, answer.out, answer.is_plain()) == (1, "", True)
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("answer", [[math.nan], [0.0] * 999 + [math.nan], [], [math.inf] * 1000])
def test_answers_that_are_no_predictions_are_refused(answer: list[float], places: Callable[[str], Path]) -> None:
    class Broken(type(PYTHON)):  # type: ignore[misc]
        def run(self, path: Path, model: SavedModel, rows: Any) -> Floats:
            return np.array(answer)

    with pytest.raises(StateError, match="not kept"):
        prove(Broken(), Path("nowhere"), load_model(places("penguins") / "model.json"))


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_one_row_without_a_prediction_is_enough(wrong: float, places: Callable[[str], Path]) -> None:
    class Broken(type(PYTHON)):  # type: ignore[misc]
        def run(self, path: Path, model: SavedModel, rows: Any) -> Floats:
            found, _ = own_predictions(model, rows)
            found[500] = wrong
            return found

    with pytest.raises(StateError, match="in trial row 500 it gives"):
        prove(Broken(), Path("nowhere"), load_model(places("penguins") / "model.json"))


def test_what_does_not_run_is_refused(
    places: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for template in ("raise RuntimeError('no')", "a syntax error", "", "predict = 1"):
        monkeypatch.setattr("shoal.exports.python_function.TEMPLATE", template)
        with pytest.raises(StateError, match=r"cannot be run: .* It was not kept"):
            export(places("penguins") / "model.json", "python", tmp_path / "m.py")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("to", "package"), [("sklearn", "skops"), ("onnx", "onnx"), ("onnx", "onnxruntime")])
def test_packages_that_are_not_there(
    to: str, package: str, places: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ResourceError, match=rf"Expected the package {package}, .*\.\[export\]"):
        export(places("penguins") / "model.json", to, tmp_path / "m")


def test_formats_without_packages_need_none(
    places: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("skops", "onnx", "onnxruntime", "sklearn"):
        monkeypatch.setitem(sys.modules, package, None)
    for to in ("sql", "python", "json"):
        export(places("penguins") / "model.json", to, tmp_path / to)


def test_what_cannot_be(places: Callable[[str], Path], tmp_path: Path) -> None:
    path = places("penguins") / "model.json"
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="one of the formats sql, python"):
        export(path, "cobol", tmp_path / "m")
    with pytest.raises(ConfigError, match="format sql only"):
        export(path, "python", tmp_path / "m", table="t")
    with pytest.raises(ConfigError, match="model's own"):
        export(path, "sql", path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ details of formats


def test_the_python_file_takes_what_people_have(places: Callable[[str], Path], tmp_path: Path) -> None:
    export(places("penguins indicators") / "model.json", "python", tmp_path / "m.py")
    text = (tmp_path / "m.py").read_text()
    assert [line for line in text.splitlines() if line.startswith(("import", "from"))] == ["import math"]
    predict = runpy.run_path(str(tmp_path / "m.py"))["predict"]
    row = {"bill_length_mm": 40.0, "bill_depth_mm": 17.0, "flipper_length_mm": 190.0, "year": 2008.0,
           "species": "Adelie", "island": "Dream", "sex": "male"}  # fmt: skip
    assert predict({name: str(value) for name, value in row.items()}) == predict(row)  # as csv.DictReader gives it
    assert predict({**row, "year": 2008}) == predict(row)
    for name in row:
        gaps = [predict({**row, name: missing}) for missing in (None, math.nan, "")]
        assert len(set(gaps)) == 1
        assert gaps[0] != predict(row) or name == "year"
    with pytest.raises(KeyError, match="sex"):
        predict({name: value for name, value in row.items() if name != "sex"})


def test_the_sql_reads_only_what_matters(places: Callable[[str], Path], tmp_path: Path) -> None:
    export(places("all zero") / "model.json", "sql", tmp_path / "zero.sql", table="birds")
    text = (tmp_path / "zero.sql").read_text()
    assert "COALESCE" not in text
    assert text.endswith('FROM "birds" AS t;\n')
    export(places("lasso") / "model.json", "sql", tmp_path / "lasso.sql")
    text = (tmp_path / "lasso.sql").read_text()
    assert "flipper_length_mm" in text
    assert "bill_length_mm" not in text
    assert text.endswith('FROM "train" AS t;\n')


def test_an_empty_text_is_missing_and_numbers_are_doubles_in_sql(places: Callable[[str], Path], tmp_path: Path) -> None:
    export(places("penguins indicators") / "model.json", "sql", tmp_path / "m.sql")
    frame = penguins().drop(columns="body_mass_g")[["sex", *penguins().columns.drop(["body_mass_g", "sex"])]]
    empty, null = (by_sqlite(tmp_path / "m.sql", frame.assign(sex=value), "train") for value in ("", None))
    assert np.array_equal(empty, null)
    assert not np.array_equal(empty, by_sqlite(tmp_path / "m.sql", frame.assign(sex="unseen"), "train"))
    text = re.sub(r"--.*|'[^']*'|\"[^\"]*\"", "", (tmp_path / "m.sql").read_text())
    numbers = re.findall(r"\d[\d.]*(?:e[-+]?\d+)?", text)
    assert len(numbers) > 20
    assert all("e" in number for number in numbers)


def test_a_column_that_is_not_there_is_an_error_in_sql(places: Callable[[str], Path], tmp_path: Path) -> None:
    """SQLite takes an unknown name in double quotes for a text; one with its table is not mistaken."""
    export(places("penguins") / "model.json", "sql", tmp_path / "m.sql")
    frame = penguins().drop(columns=["body_mass_g", "sex"])
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        by_sqlite(tmp_path / "m.sql", frame, "train")


def test_the_pipeline_takes_the_frames_that_people_have(places: Callable[[str], Path], tmp_path: Path) -> None:
    folder = places("penguins indicators")
    export(folder / "model.json", "sklearn", tmp_path / "m.skops")
    made = skops.io.load(tmp_path / "m.skops", trusted=["numpy.dtype"])
    frame = pd.read_csv(folder / "data.csv")
    wanted = predicted(folder)
    texts = ["species", "island", "sex"]
    objects = frame.astype(dict.fromkeys(texts, object)).where(frame.notna(), None)
    numbers = {name: float for name in frame if name not in texts}
    for given in (frame, objects.astype(numbers), frame.astype(dict.fromkeys(texts, "category")), frame[frame.columns[::-1]],
                  frame.assign(other=1.0), frame.assign(**{n: frame[n].fillna("") for n in texts})):  # fmt: skip
        assert np.allclose(made.predict(given), wanted, rtol=1e-12)
    names = made[:-1].get_feature_names_out().tolist()
    assert "levels__species_Gentoo" in names
    assert len(names) == made[-1].n_features_in_ == len(made[-1].coef_)
    with pytest.raises(ValueError, match="sex"):
        made.predict(frame.drop(columns="sex"))


def test_infinities_are_missing_in_onnx_and_python(places: Callable[[str], Path], tmp_path: Path) -> None:
    bird = penguins().drop(columns="body_mass_g")[10:11]
    lengths = (40.0, math.nan, math.inf, -math.inf)
    for to in ("onnx", "python"):
        out = tmp_path / f"m.{to}"
        export(places("penguins indicators") / "model.json", to, out)
        some, *same = RUN[to](out, pd.concat([bird.assign(bill_length_mm=length) for length in lengths]), "")
        assert len(set(same)) == 1
        assert some not in same


def test_exports_are_the_same_bytes_each_time(places: Callable[[str], Path], tmp_path: Path) -> None:
    for to in ("sql", "python", "onnx", "json"):  # skops puts the time into its archive
        for name in ("one", "two"):
            export(places("penguins") / "model.json", to, tmp_path / f"{name}.{to}")
        assert (tmp_path / f"one.{to}").read_bytes() == (tmp_path / f"two.{to}").read_bytes()


def test_the_cache_is_left_alone(
    places: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = places("penguins") / "model.json"
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    export(path, "sql", tmp_path / "m.sql")
    assert not (tmp_path / "home").exists()


# ------------------------------------------------------------------ command line and Python


def exported(*arguments: str | Path) -> Answer:
    answer = command("export", *arguments)
    assert (answer.code, answer.err) == (0, ""), answer.err
    return answer


@pytest.mark.parametrize("to", ALL)
def test_command_line(to: str, places: Callable[[str], Path], tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_bytes((places("penguins") / "model.json").read_bytes())
    answer = exported(model, "--to", to)
    out = tmp_path / f"model{FORMATS[to][1]}"
    assert answer.out.splitlines()[0] == f"written to {out}"
    assert "Proven on 1,000 rows" in answer.out
    assert "the largest difference is" in answer.out
    assert out.exists()
    found = exported(model, "--to", to, "--out", tmp_path / "new" / "file", "--json").json
    assert found.keys() == {"format", "out", "proof", "use"}
    assert found["proof"].keys() == {
        "rows", "largest_difference", "largest_relative", "what_was_compared", "rows_with_gaps", "rows_with_unseen",
    }  # fmt: skip
    assert (found["format"], found["out"], found["proof"]["rows"]) == (to, str(tmp_path / "new" / "file"), 1000)
    assert found["proof"]["largest_relative"] < 1e-14
    assert (tmp_path / "new" / "file").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    (["MODEL"], "--to"), (["MODEL", "--to", "cobol"], "cobol"), (["--to", "sql"], "MODEL"),
    (["absent.json", "--to", "sql"], "absent.json"), (["MODEL", "--to", "onnx", "--table", "t"], "format sql only"),
    (["MODEL", "--to", "sql", "--out", "MODEL"], "model's own"), (["MODEL", "--to", "sql", "--out", "."], "got the folder"),
    (["no-such-model", "--to", "sql"], "no-such-model"), (["MODEL", "--to", "report", "--table", "t"], "format sql only"),
    (["MODEL", "--to", "report", "--out", "MODEL"], "model's own"), (["MODEL", "--to", "report", "--out", "/proc/x/m.html"], "/proc"),
    (["MODEL", "--to", "sql", "--out", "/proc/x/m.sql"], "/proc"),
])  # fmt: skip
def test_command_line_errors(
    arguments: list[str], words: str, places: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = places("penguins") / "model.json"
    answer = command("export", *[str(path) if a == "MODEL" else a for a in arguments])
    assert (answer.code, answer.out, answer.is_plain()) == (1, "", True), answer.err
    assert words in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("impute", ["mean", "median"])
def test_of_a_fitted_model(impute: str, tmp_path: Path) -> None:
    """One that was never written to a file, so that its numbers may be NumPy's."""
    model = shoal.fit(generated(), "y", model="ridge", alpha=3.0, impute=impute)
    for to in ALL:
        table = {"table": "things"} if to == "sql" else {}
        assert model.export(to, str(tmp_path / f"m.{to}"), **table).largest_relative < 1e-14
        found = RUN[to](tmp_path / f"m.{to}", generated().drop(columns="y"), "things")
        assert np.allclose(found, model.predict(generated()), rtol=0, atol=1e-8)


def test_every_format_has_its_module() -> None:
    for module, _ in FORMATS.values():
        found = importlib.import_module(module).FORMAT
        assert found.use.endswith(".")
        assert found.runtime


def test_a_model_file_cannot_end_the_comment_of_the_sql() -> None:
    form = LinearForm("y\nSELECT 1", "lasso\nWITH q AS (SELECT 1) --", "t.csv", 1.0, (), ())
    head, _, rest = select(form, "t").partition("\nSELECT\n")
    assert all(line.startswith("--") for line in head.splitlines())
    assert "WITH" not in rest


def test_nothing_is_written_over_the_data(tmp_path: Path) -> None:
    data, model = tmp_path / "data.csv", tmp_path / "model.json"
    data.write_text("a,y\n1,2\n2,3\n3,5\n4,6\n")
    assert command("train", data, "--target", "y", "--out", model).code == 0
    before = data.read_bytes()
    for words in (["export", model, "--to", "sql", "--out", data], ["predict", model, data, "--out", data]):
        answer = command(*words)
        assert answer.code == 1
        assert "would destroy it" in answer.err
        assert data.read_bytes() == before
