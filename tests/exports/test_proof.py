"""Exports that differ from their model are refused and removed."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.errors import ConfigError, ResourceError, StateError
from shoal.exports import export
from shoal.exports.base import LinearForm, TextColumn, linear_form
from shoal.exports.names import FORMATS
from shoal.exports.proof import own_predictions, prove
from shoal.exports.python_function import FORMAT as PYTHON
from shoal.exports.trial_rows import trial_rows
from shoal.fitting.model_file import SavedModel, load_model, save_model
from shoal.results.model import ModelFile
from support.exports import ALL, Floats
from support.tables import shoal as command


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

    def wrong_save(path: Path, model: ModelFile) -> None:
        report = dataclasses.replace(model.report, intercept=model.report.intercept * (1 + 1e-8))
        save_model(path, dataclasses.replace(model, report=report))

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
    with pytest.raises(ResourceError, match=rf"Expected the package {package}, .* -m pip install .*{package}"):
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
