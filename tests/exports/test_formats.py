"""Every model in every format, run by the format's own runtime, and details of formats."""

from __future__ import annotations

import csv
import math
import re
import runpy
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io

from shoal.exports import export
from shoal.exports.names import FORMATS
from shoal.exports.proof import own_predictions
from shoal.exports.trial_rows import trial_rows, unseen_level
from shoal.fitting.model_file import load_model, usable
from support.exports import (
    ALL,
    CASES,
    RUN,
    by_sqlite,
    close,
    in_days,
    linear_contents,
    penguins,
    predicted,
    read_predictions,
)
from support.tables import shoal as command

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
    frame = in_days(pd.read_csv(folder / "data.csv"))[[*model.numbers, *model.texts]]
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
        apart = np.abs(ours - read_predictions(tmp_path / "p.csv"))
        assert (apart <= 1e-14 * scale).all()  # columns without a weight are not read, so sums are of other lengths
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
    model = usable(linear_contents(levels={"t": levels}))
    rows, _ = trial_rows(model)
    assert set(levels) < set(rows["t"])
    for to in ALL:
        assert export(model.file, to, tmp_path / f"m.{to}").rows == 1502


def test_an_unseen_level_is_unseen() -> None:
    first = unseen_level([])
    assert unseen_level([first, first + "'"]) == first + "''"


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
