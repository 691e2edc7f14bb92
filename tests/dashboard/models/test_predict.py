"""Predictions on the page of a model: one row in a form, and a table."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import shoal
from shoal.dashboard.models import (
    one_row,
)
from shoal.dashboard.models.predict import preview_table
from shoal.dashboard.parts import results
from shoal.dashboard.parts.literal import harmless
from shoal.dashboard.tables import uploads
from shoal.dashboard.tables.samples import SAMPLES
from shoal.data.notation.numbers import Notation
from shoal.fitting.model_file import load_model
from shoal.library.saved_models import Version
from shoal.results.answers.predictions import FilePredictions, RowsShown
from shoal.results.fit import FitReport, PredictionInterval
from shoal.results.tuned import FormulaInterval, FormulaIntervals
from shoal.runs.launch import launch, launch_job, list_runs
from shoal.settings.values import config_from
from shoal.solve.conformal import NO_TEST_ROWS
from shoal.tasks.explain_row import explain, typical_row
from shoal.words import number
from support.dashboard.models_page import NAME, open_model
from support.pages import checked, said, settle, uploaded, widget
from support.runs import ended
from support.tables import written

HOSTILE = "=cmd|' /C calc'!A0"


# ------------------------------------------------------------------ predict


def test_the_form_answers_at_once_and_says_why() -> None:
    page = open_model("Predict")
    model = load_model(Version(NAME, 1).model_path)
    usual = typical_row(model.encoding)
    answer = next(m for m in page.metric if m.label == "Predicted body_mass_g")
    assert answer.value == number(explain(model, usual).prediction, 6)
    page.number_input(key=f"row:{NAME}:1:bill_length_mm").set_value(50.0)
    page.number_input(key=f"row:{NAME}:1:year").set_value(None)
    page.selectbox(key=f"row:{NAME}:1:species").set_value(1)
    page = checked(page.run())
    row = {**usual, "bill_length_mm": 50.0, "year": None, "species": "Chinstrap"}
    found = explain(model, row)
    answer = next(m for m in page.metric if m.label == "Predicted body_mass_g")
    assert answer.value == number(found.prediction, 6)
    adds = page.dataframe[0].value.set_index("Column")["Adds"]
    assert adds.sum() == pytest.approx(found.prediction)
    assert "year: no value" in said(page)
    page.selectbox(key=f"row:{NAME}:1:species").set_value(4)
    assert "not trained with this value" in said(checked(page.run()))


def test_a_table_is_predicted_and_shown_beside_its_columns(tmp_path: Path) -> None:
    page = open_model("Predict", rows="penguins")
    page = checked(widget(page, "button_group", "Predict").set_value("A file").run())
    page = settle(page)
    assert "344 predictions of body_mass_g" in said(page)
    assert "44.9 stands in" in said(page)
    table = page.dataframe[0].value
    model = load_model(Version(NAME, 1).model_path)
    lines = SAMPLES["penguins"].ensure().read_text().splitlines()
    records = list(csv.DictReader(lines))[: len(table)]
    expected = [
        explain(model, {n: _typed(r[n], n in model.numbers) for n in [*model.numbers, *model.texts]}).prediction
        for r in records
    ]
    np.testing.assert_allclose(table["Prediction"], expected, rtol=1e-12)
    assert list(table["species"]) == [r["species"] for r in records]
    assert [b.proto.label for b in page.get("download_button")] == ["Predictions as CSV"]


def test_predictions_come_with_intervals_from_the_test_rows() -> None:
    model = load_model(Version(NAME, 1).model_path)
    interval = model.report.as_dict()["prediction_interval"]
    width, usual = interval["half_widths"]["0.9"], explain(model, typical_row(model.encoding)).prediction
    page = open_model("Predict", rows="penguins")
    low, high = (number(usual + end * width, 6) for end in (-1, 1))
    words = f"{interval['rows']} test rows lie within {number(width)} of their prediction: here from {low} to {high}."
    page = checked(widget(page, "button_group", "Predict").set_value("One row").run())
    assert words in said(page)
    page = checked(widget(page, "button_group", "Predict").set_value("A file").run())
    page = settle(checked(widget(page, "toggle", "With the ends of 90 % intervals").set_value(True).run()))
    assert "344 predictions of body_mass_g" in said(page)
    version, file = Version(NAME, 1), str(SAMPLES["penguins"].ensure())
    asked = {"model": str(version.model_path), "keep": ["ids"], "interval": 0.9}
    run = launch_job("predict", config_from({"file": file}), asked)
    head, first = (row.split(",") for row in (run.directory / "predictions.csv").read_text().splitlines()[:2])
    assert head[-3:] == ["prediction", "lower", "upper"]
    prediction, lower, upper = map(float, first[-3:])
    assert (upper - prediction, prediction - lower) == pytest.approx((width, width))
    assert page.dataframe[0].value["Prediction"][0] == prediction


def test_without_test_rows_the_page_says_what_to_do() -> None:
    said_by_file = PredictionInterval("split conformal", 0, {"0.9": None}, "", NO_TEST_ROWS)
    words = one_row.interval_words(1.0, said_by_file)
    assert "Train the model again with some rows kept for testing (test_every: 5)." in words
    assert "--" not in words
    assert "before there were prediction intervals" in one_row.interval_words(1.0, None)


def _typed(text: str, number: bool) -> float | str | None:
    return None if text in ("", "NA") else float(text) if number else text


def test_missing_columns_get_a_plain_sentence(tmp_path: Path) -> None:
    table = tmp_path / "few.csv"
    table.write_text("species,<b>island</b>\nAdelie,Dream\n")
    key = uploads.key_of(uploaded(table.read_bytes(), "few.csv"))
    page = open_model("Predict", rows=str(key))
    page = settle(checked(widget(page, "button_group", "Predict").set_value("A file").run()))
    assert "The model needs columns that the file does not have" in said(page)
    assert "&lt;b&gt;island" in said(page)
    before = {run.id for run in list_runs()}
    checked(page.button(key="predict:without").click().run())
    made = next(run for run in list_runs() if run.id not in before)
    assert ended(made) == "finished"
    assert "bill_length_mm" in made.config["exclude"]  # one click to a model that such a file is enough for
    assert "species" not in made.config["exclude"]


# ------------------------------------------------------------------ text from files


@pytest.mark.parametrize("cell", [HOSTILE, "+1", "-1", "@x", "\tx"])
def test_no_cell_of_a_download_is_a_formula(cell: str) -> None:
    report = FitReport(
        model="linear", target="y", coefficients={cell: 1.0}, coefficients_standardized={cell: 2.0}, intercept=-1.0
    )
    assert harmless(cell) == f"'{cell}"
    assert f"'{cell}" in results.as_csv(results.coefficient_table(report))


def test_a_date_has_its_interval_beside_a_penalised_coefficient() -> None:
    around = FormulaIntervals("without", 0.9, "", {"sold": FormulaInterval(1.0, 0.5, 1.5)})
    report = FitReport(
        model="ridge", target="y", coefficients={"sold": 1.0}, coefficients_standardized={"sold": 2.0}, intercept=0.0,
        dates={"sold": "31.12.2021"}, intervals=(around,),
    )  # fmt: skip
    row = results.coefficient_table(report).set_index("Column").loc["sold (per day)"]
    assert [value for name, value in row.items() if str(name).startswith(("Low", "High"))] == [0.5, 1.5]


def test_the_first_predictions_are_shown_with_the_ends_of_their_intervals(tmp_path: Path) -> None:
    path = written(tmp_path, "id,prediction,lower,upper\na,2,1,3\nb,,,\n", "predictions.csv")
    shown = RowsShown(("id",), (("a",), ("b",)))
    table = preview_table(path, FilePredictions(rows=2, target="y", out="", made=3, preview=shown))
    assert table.iloc[0].to_dict() == {"Row": 0, "Prediction": 2.0, "Lower": 1.0, "Upper": 3.0, "id": "a"}
    assert table[["Prediction", "Lower", "Upper"]].iloc[1].isna().all()


def test_columns_beside_predictions_are_chosen_on_the_page() -> None:
    page = settle(open_model("Predict", rows="penguins"))
    chooser = page.multiselect[0]
    assert chooser.label == "Columns beside the prediction"
    assert "species" in chooser.value  # nothing in the table looks like an id
    page = settle(checked(chooser.set_value(["island"]).run()))
    assert page.multiselect[0].value == ["island"]
    version, file = Version(NAME, 1), str(SAMPLES["penguins"].ensure())
    asked = {"model": str(version.model_path), "keep": ["island"]}
    run = launch_job("predict", config_from({"file": file}), asked)
    assert (run.directory / "predictions.csv").read_text().startswith("island,prediction\n")


def test_a_table_with_other_marks_gets_predictions_with_them() -> None:
    lines = SAMPLES["penguins"].ensure().read_text().splitlines()
    rows = [[cell.replace(".", ",") for cell in line] for line in csv.reader(lines)]
    table = "\n".join(";".join(row) for row in rows)
    page = settle(open_model("Predict", rows=uploads.key_of(uploaded(table.encode(), "comma.csv"))))
    usual, like = page.get("download_button")
    assert (usual.proto.label, like.proto.label) == ("Predictions as CSV", "Written like the table (; and 0,5)")


def test_first_rows_are_shown_in_the_encoding_of_training(tmp_path: Path) -> None:
    table = tmp_path / "bolt.csv"
    rows = "".join(f"{'Győr' if i % 2 else 'Pécs'};{i % 7};{i % 2 + i % 7}\n" for i in range(80))
    table.write_bytes(f"város;db;ár\n{rows}".encode("cp1250"))
    asked = {"file": str(table), "target": "ár", "encoding": "cp1250", "register": "bolt"}
    assert ended(launch(config_from(asked))) == "finished"
    job = launch_job("predict", config_from({"file": str(table)}), {"model": str(Version("bolt", 1).model_path)})
    assert ended(job) == "finished"
    preview = FilePredictions.from_dict(job.result or {}).preview
    assert preview is not None
    assert preview.rows[1][0] == "Győr"


# ------------------------------------------------------------------ dates


def _ask_for_a_date(path: str) -> None:
    from pathlib import Path

    from shoal.dashboard.models.one_row import one_row
    from shoal.fitting.model_file import load_model
    from shoal.library.saved_models import Version

    one_row(Version("dated", 1), load_model(Path(path)))


@pytest.mark.parametrize("clock", ["", " 15:45"])
def test_dates_are_asked_for_by_pickers(clock: str, tmp_path: Path) -> None:
    lines = [f"{1 + i % 28:02d}/{1 + i % 12:02d}/{2000 + i % 20}{clock};{i % 7}" for i in range(80)]
    written(tmp_path, "sold;y\n" + "\n".join(lines) + "\n")
    shoal.fit(tmp_path / "table.csv", target="y").save(tmp_path / "model.json")
    page = AppTest.from_function(_ask_for_a_date, args=(str(tmp_path / "model.json"),)).run()
    assert [picker.label for picker in page.date_input] == ["sold"]
    assert [picker.label for picker in page.time_input] == (["sold (time of day)"] if clock else [])
    assert not page.number_input
    page.date_input[0].set_value(datetime.date(2015, 3, 4)).run()
    if clock:
        page.time_input[0].set_value(datetime.time(15, 45)).run()
    table = page.dataframe[0].value
    shown = dict(zip(table["Column"], table["Value"], strict=True))
    assert shown["sold"] == f"2015-03-04{' 15:45:00' if clock else ''}"
    model = load_model(tmp_path / "model.json")
    days = (datetime.date(2015, 3, 4) - datetime.date(1970, 1, 1)).days + (15.75 / 24 if clock else 0)
    assert page.metric[0].value == number(explain(model, {"sold": days}).prediction, 6)


def test_numbers_are_asked_for_as_the_file_writes_them(tmp_path: Path) -> None:
    lines = [f"{1 + i % 9}.{i % 10}34,50 €;{i % 7};{i % 9 * 1000 + i % 7}" for i in range(80)]
    written(tmp_path, "price;rooms;y\n" + "\n".join(lines) + "\n")
    shoal.fit(tmp_path / "table.csv", target="y").save(tmp_path / "model.json")
    model = load_model(tmp_path / "model.json")
    page = AppTest.from_function(_ask_for_a_date, args=(str(tmp_path / "model.json"),)).run()
    field = page.text_input(key="row:dated:1:price")
    assert field.value == Notation(",", ".").text(float(typical_row(model.encoding)["price"] or 0))
    usual = typical_row(model.encoding)
    for text, value in (("1.234,50", 1234.5), ("4.567 €", 4567.0), ("1234.5", 1234.5), ("", None), ("1,2,3", None)):
        page = checked(page.text_input(key="row:dated:1:price").set_value(text).run())
        answer = next(metric.value for metric in page.metric if metric.label == "Predicted y")
        assert answer == number(explain(model, {**usual, "price": value}).prediction, 6), text
        assert ("expected a number such as 1.234,56 €, got" in said(page)) == (text == "1,2,3")


def test_a_prediction_is_shown_as_the_file_writes_its_column(tmp_path: Path) -> None:
    lines = [f"{i % 7};€ {i % 7 + 1}.2{i % 10}4,50" for i in range(80)]
    written(tmp_path, "rooms;price\n" + "\n".join(lines) + "\n")
    shoal.fit(tmp_path / "table.csv", target="price", test_every=4).save(tmp_path / "model.json")
    model = load_model(tmp_path / "model.json")
    page = AppTest.from_function(_ask_for_a_date, args=(str(tmp_path / "model.json"),)).run()
    value = explain(model, typical_row(model.encoding)).prediction
    assert page.metric[0].value == f"{value:.6g}".replace(".", ",")
    width = model.report.prediction_interval.half_widths["0.9"]  # type: ignore[union-attr]
    assert f"here from {f'{value - width:.6g}'.replace('.', ',')} to " in said(page)

    for kind in ("linear", "quantile"):
        fitted = shoal.fit(tmp_path / "table.csv", target="price", test_every=4, bands=0.9, model=kind)
        fitted.save(tmp_path / "model.json")
        page = AppTest.from_function(_ask_for_a_date, args=(str(tmp_path / "model.json"),)).run()
        _, low, high = fitted.predict(typical_row(model.encoding), interval=0.9)
        shown = " to ".join(f"{float(end[0]):.6g}".replace(".", ",") for end in (low, high))
        assert f"lie in their intervals, which are as wide as rows spread there: here from {shown}." in said(page)
