"""The Models page with real runs behind it, without a browser; results of runs; and the charts as pure functions."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.models import (
    charts as residual_charts,
)
from shoal.dashboard.models import (
    predict as predict_view,
)
from shoal.dashboard.models import (
    versions as versions_view,
)
from shoal.dashboard.parts import charts, results, wording
from shoal.dashboard.parts.literal import harmless, label
from shoal.dashboard.tables import uploads
from shoal.dashboard.tables.samples import SAMPLES
from shoal.fitting.model_file import load_model
from shoal.library import saved_models as model_store
from shoal.library.saved_models import Version, version_of
from shoal.runs.launch import Run, launch, launch_job, post, runs_directory
from shoal.settings.config import RunConfig, config_from
from shoal.solve.conformal import NO_TEST_ROWS
from shoal.tasks.explain_row import explain, typical_row
from support.pages import checked, now_on, open_page, said, settle, widget
from support.runs import ended, endless_run, run_home, short_run, small_table, training

HOSTILE = "=cmd|' /C calc'!A0"
NASTY_NAME = "<img src=x onerror=alert(1)> **b** `c` $x$ :smile:"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with three versions of one model; copied for each test."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("library") / "home"
        patch.setenv("SHOAL_HOME", str(home))
        file = str(SAMPLES["penguins"].ensure())
        for knobs in ({"model": "linear", "test_every": 5}, {"model": "ridge", "alpha": 5.0, "test_every": 5}):
            run = launch(config_from({"file": file, "target": "body_mass_g", **knobs}))
            assert ended(run) == "finished"
        run = launch(short_run(Path(file), target="body_mass_g", epochs=3, test_every=5))
        assert ended(run) == "finished"
    return home


@pytest.fixture(autouse=True)
def home(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copytree(library, tmp_path / "home")
    for path in (tmp_path / "home").rglob("*.json"):  # the data moved with its home
        path.write_text(path.read_text().replace(str(library), str(tmp_path / "home")))
    with run_home(tmp_path / "home", monkeypatch) as found:
        yield found


NAME = "penguins-body_mass_g"


def open_model(view: str = "Coefficients", version: int = 1, **address: str) -> AppTest:
    return open_page("models", model=NAME, version=str(version), view=view, **address)


def links(page: AppTest) -> dict[str, str]:
    return {link.proto.label: link.proto.query_string for link in page.get("page_link")}


# ------------------------------------------------------------------ the list


def test_no_models_yet_leads_to_the_data(home: Path) -> None:
    shutil.rmtree(home / "models")
    page = open_page("models")
    assert any("No models yet" in m.value for m in page.markdown)
    assert list(links(page)) == ["Choose data to train on"]


def test_models_are_listed_with_their_score_and_found_by_words() -> None:
    model_store.copy_version(Version(NAME, 2), "other")
    page = open_page("models")
    assert links(page) == {label("other"): "model=other", label(NAME): f"model={NAME}"}
    assert "R², test rows" in said(page)
    assert "version 3 of 3" in said(page)
    page = checked(widget(page, "text_input", "Search").set_value("penguins- MASS").run())
    assert list(links(page)) == [label(NAME)]
    page = checked(widget(page, "text_input", "Search").set_value("<b>none").run())
    assert "&lt;b&gt;none" in said(page)
    assert not links(page)


@pytest.mark.parametrize(
    "address",
    [{"model": "../runs"}, {"model": "gone"}, {"model": NAME, "version": "9"}, {"model": NAME, "version": "x" * 5000}],
)
def test_an_address_that_leads_nowhere_says_so(address: dict[str, str]) -> None:
    page = open_page("models", **address)
    assert page.title[0].value == "Nothing here"
    assert "See all models" in links(page)


def test_many_models_are_shown_a_page_at_a_time(home: Path) -> None:
    for i in range(60):
        shutil.copytree(home / "models" / NAME / "v1", home / "models" / f"m{i:02d}" / "v1")
    page = open_page("models")
    assert len(links(page)) == 24
    page = checked(widget(page, "button", "Show 24 more").click().run())
    assert len(links(page)) == 48


# ------------------------------------------------------------------ one version


def test_a_version_shows_scores_coefficients_and_what_proves_it() -> None:
    page = open_model()
    contents = Version(NAME, 1).contents
    assert [m.label for m in page.metric][:2] == ["R², test rows", "R², training rows"]
    assert page.metric[0].value == wording.number(contents["test"]["r2"])
    table = page.dataframe[0].value.set_index("Column")
    np.testing.assert_allclose(table["Coefficient"]["year"], contents["coefficients"]["year"])
    assert {"Low", "High", "p"} <= set(table.columns)
    assert "This is the exact optimum" in said(page)
    assert "bill_length_mm: 44.9 in 2 rows" in said(page)
    assert [b.proto.label for b in page.get("download_button")] == ["Coefficients as CSV", "Model as JSON"]


def test_the_latest_version_is_shown_unless_another_is_asked_for_or_chosen() -> None:
    page = open_page("models", model=NAME)
    assert widget(page, "selectbox", "Version").value == 3
    assert "It converged" in said(page)
    page = checked(widget(page, "selectbox", "Version").set_value(2).run())
    assert page.query_params["version"] == "2"
    assert "Ridge model of body_mass_g" in said(page)


def test_a_damaged_version_says_so_and_can_be_deleted() -> None:
    Version(NAME, 1).model_path.write_text("{")
    page = open_model()
    assert "This version cannot be read" in said(page)
    assert page.get("menu_button")


def test_lineage_leads_to_the_run_and_survives_it() -> None:
    version = Version(NAME, 2)
    page = open_model("Lineage", 2)
    assert links(page)["Open the run"] == f"run={version.card['run']}"
    assert links(page)["Look at the data"] == "data=penguins"
    assert version.contents["data"]["content"] in said(page)
    settings = page.dataframe[0].value.set_index("Setting")["Value"].to_dict()
    assert settings == {"Model": "Ridge", wording.LABELS["alpha"]: "5", "Kept for testing: one row in": "5"}
    shutil.rmtree(version.run.directory)  # type: ignore[union-attr]
    page = open_model("Lineage", 2)
    assert "Open the run" not in links(page)
    assert any("does not need it" in c.value for c in page.caption)


def test_two_versions_are_compared() -> None:
    page = open_model("Versions", 2)
    old, new = Version(NAME, 1).contents, Version(NAME, 2).contents
    scores, settings, coefficients = (frame.value for frame in page.dataframe[1:])
    change = scores.set_index("Score")["Change"]
    assert change["RMSE, test rows"] == pytest.approx(new["test"]["rmse"] - old["test"]["rmse"])
    assert settings.to_numpy().tolist()[0] == ["Model", "Linear", "Ridge"]
    by_name = coefficients.set_index("Column")
    assert by_name["Change"]["year"] == pytest.approx(new["coefficients"]["year"] - old["coefficients"]["year"])
    assert versions_view.coefficient_changes(old, old) == []


def test_a_note_is_shown_as_it_was_written() -> None:
    version = model_store.write_note(Version(NAME, 2), NASTY_NAME)
    page = open_model(version=2)
    assert "&lt;img src=x" in said(page)
    assert "<img" not in said(page)
    model_store.delete_version(version)
    assert open_model(version=2).title[0].value == "Nothing here"


# ------------------------------------------------------------------ diagnostics


def test_plots_are_made_by_themselves_with_text_alternatives() -> None:
    page = settle(open_model("Diagnostics"))
    assert len(page.get("plotly_chart")) == 3
    assert "Training rows: 273" in said(page)
    assert "Test rows: 69" in said(page)
    assert list(page.dataframe[0].value.columns) == ["Row", "Actual", "Predicted", "Residual", "Kind"]


def test_plots_without_the_data_say_why(home: Path) -> None:
    (home / "samples" / "penguins.csv").unlink()
    version = Version(NAME, 1)
    contents = {**version.contents, "config": {**version.contents["config"], "file": str(home / "gone.csv")}}
    version.model_path.write_text(json.dumps(contents))
    page = settle(open_model("Diagnostics"))
    assert "The plots could not be made" in said(page)
    assert "found none" in said(page)
    assert widget(page, "button", "Try again")


# ------------------------------------------------------------------ predict


def test_the_form_answers_at_once_and_says_why() -> None:
    page = open_model("Predict")
    model = load_model(Version(NAME, 1).model_path)
    usual = typical_row(model.encoding)
    answer = next(m for m in page.metric if m.label == "Predicted body_mass_g")
    assert answer.value == wording.number(explain(model, usual).prediction, 6)
    page.number_input(key=f"row:{NAME}:1:bill_length_mm").set_value(50.0)
    page.number_input(key=f"row:{NAME}:1:year").set_value(None)
    page.selectbox(key=f"row:{NAME}:1:species").set_value(1)
    page = checked(page.run())
    row = {**usual, "bill_length_mm": 50.0, "year": None, "species": "Chinstrap"}
    found = explain(model, row)
    answer = next(m for m in page.metric if m.label == "Predicted body_mass_g")
    assert answer.value == wording.number(found.prediction, 6)
    adds = page.dataframe[0].value.set_index("Column")["Adds"]
    assert adds.sum() == pytest.approx(found.prediction)
    assert "year: no value" in said(page)
    page.selectbox(key=f"row:{NAME}:1:species").set_value(4)
    assert "not trained with this name" in said(checked(page.run()))


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
    interval = model.contents["prediction_interval"]
    width, usual = interval["half_widths"]["0.9"], explain(model, typical_row(model.encoding)).prediction
    page = open_model("Predict", rows="penguins")
    low, high = (wording.number(usual + end * width, 6) for end in (-1, 1))
    words = f"{interval['rows']} test rows lie within {wording.number(width)} of their prediction: here from {low} to {high}."
    page = checked(widget(page, "button_group", "Predict").set_value("One row").run())
    assert words in said(page)
    page = checked(widget(page, "button_group", "Predict").set_value("A file").run())
    page = settle(checked(widget(page, "toggle", "With the ends of 90 % intervals").set_value(True).run()))
    assert "344 predictions of body_mass_g" in said(page)
    version, file = Version(NAME, 1), str(SAMPLES["penguins"].ensure())
    run = launch_job("predict", config_from({"file": file}), {"model": str(version.model_path), "interval": 0.9})
    head, first = (run.directory / "predictions.csv").read_text().splitlines()[:2]
    assert head == "row,prediction,lower,upper"
    _, prediction, lower, upper = map(float, first.split(","))
    assert (upper - prediction, prediction - lower) == pytest.approx((width, width))
    assert page.dataframe[0].value["Prediction"][0] == prediction


def test_without_test_rows_the_page_says_what_to_do() -> None:
    said_by_file = {"prediction_interval": {"half_widths": {"0.9": None}, "note": NO_TEST_ROWS, "rows": 0}}
    words = predict_view.interval_words(1.0, said_by_file)
    assert "Train it again with some rows kept for testing." in words
    assert "--" not in words
    assert "before there were prediction intervals" in predict_view.interval_words(1.0, {})


def _typed(text: str, number: bool) -> float | str | None:
    return None if text in ("", "NA") else float(text) if number else text


def test_missing_columns_get_a_plain_sentence(tmp_path: Path) -> None:
    table = tmp_path / "few.csv"
    table.write_text("species,<b>island</b>\nAdelie,Dream\n")
    with table.open("rb") as file:
        key = uploads.key_of(uploads.keep(file, "few.csv"))
    page = open_model("Predict", rows=str(key))
    page = settle(checked(widget(page, "button_group", "Predict").set_value("A file").run()))
    assert "The model needs columns that the file does not have" in said(page)
    assert "&lt;b&gt;island" in said(page)


# ------------------------------------------------------------------ the result of a run


def test_a_finished_run_leads_to_its_saved_model() -> None:
    run = Version(NAME, 3).run
    assert run is not None
    page = open_page("train", run=run.id)
    assert f"model={NAME}&version=3" in links(page).values()
    assert "It converged" in said(page)
    assert "passes over the rows in" in said(page)


def test_a_stopped_run_is_saved_by_a_button(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path))))
    post(run, "stop")
    assert ended(run) == "stopped"
    page = open_page("train", run=run.id)
    assert "It has not converged" in said(page) or "It converged" in said(page)
    page = now_on(page.button(key="save-model").click().run())
    version = version_of(run)
    assert version is not None
    assert version.card["state"] == "stopped"
    assert "from a stopped run" in said(page)


@pytest.mark.parametrize(
    ("facts", "kind", "words"),
    [
        (
            {"converged": True, "distance_to_optimum": 2e-9, "coefficient_distance": 1e-5},
            "success",
            "of the way from its optimum",
        ),
        ({"converged": False, "distance_to_optimum": 0.2, "coefficient_distance": 0.3}, "warning", "exact solver"),
        ({"converged": False, "distance_to_optimum": None, "slope": 1e-3}, "warning", "not known"),
        ({"converged": True, "distance_to_optimum": 0.0}, "success", "to the last digit"),
    ],
)
def test_how_far_a_gradient_run_came_is_said_in_words(facts: dict[str, Any], kind: str, words: str) -> None:
    _, box, text = results.gradient_trust(facts)
    assert box == kind
    assert words in text.replace("\N{NO-BREAK SPACE}", " ")


# ------------------------------------------------------------------ text from files


def test_text_from_a_file_is_shown_as_it_is() -> None:
    directory = runs_directory() / "20260101-000000-abcdef"
    directory.mkdir(parents=True)
    config = RunConfig(file="/nowhere/t.csv", target=NASTY_NAME).as_dict()
    source = Version(NAME, 1).contents
    renamed = {old: old.replace("year", NASTY_NAME) for old in source["coefficients"]}
    contents = {
        **source, "target": NASTY_NAME, "config": config,
        "coefficients": {renamed[k]: v for k, v in source["coefficients"].items()},
        "coefficients_standardized": {renamed[k]: v for k, v in source["coefficients_standardized"].items()},
        "warnings": [f"Bad column {NASTY_NAME}"], "inference": None,
        "design": json.loads(json.dumps(source["design"]).replace('"year"', json.dumps(NASTY_NAME))),
    }  # fmt: skip
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "model.json").write_text(json.dumps(contents))
    version = model_store.save_run(Run(directory), {})
    for view in ("Coefficients", "Predict", "Lineage", "Versions"):
        page = open_page("models", model=version.name, view=view)
        assert "<img" not in said(page)
        assert not any("<img" in m.value or "**b**" in m.value for m in page.markdown)
        assert not any("**b**" in w.label for w in [*page.number_input, *page.selectbox, *page.metric])
    assert "&lt;img src=x" in said(open_page("models", model=version.name))


@pytest.mark.parametrize("text", ["body_mass_g", "price", "Größe in cm", "a-b.c", "2008"])
def test_labels_without_marks_stay_as_they_are(text: str) -> None:
    assert label(text) == text


@pytest.mark.parametrize(
    "text",
    ["_a_", "a _b_ c", "www.x.de", "**x**", ":smile:", ":material/home:", "https://x.y/z", "$x$", "![i](j)", "`c`"],
)
def test_labels_lose_nothing_but_their_power(text: str) -> None:
    plain = label(text).replace("\\", "").replace("\u2060", "")
    assert plain == text
    assert label(text) != text


@pytest.mark.parametrize("cell", [HOSTILE, "+1", "-1", "@x", "\tx"])
def test_no_cell_of_a_download_is_a_formula(cell: str) -> None:
    result = {
        "coefficients": {cell: 1.0},
        "coefficients_standardized": {cell: 2.0},
        "intercept": -1.0,
        "inference": None,
    }
    assert harmless(cell) == f"'{cell}"
    assert f"'{cell}" in results.as_csv(results.coefficient_table(result))


# ------------------------------------------------------------------ charts and words


def chart_result(**more: Any) -> dict[str, Any]:
    return {
        "target": "y",
        "coefficients": {"a": 2.0, "b": -30.0, "c": 0.0},
        "coefficients_standardized": {"a": 8.0, "b": -3.0, "c": 0.0},
        "inference": None,
        **more,
    }


def test_bars_are_sorted_by_size_and_leave_out_zeros() -> None:
    found = charts.coefficients_of(chart_result(), "sd")
    assert [c.name for c in charts.shown(found)] == ["a", "b"]
    assert [c.name for c in charts.shown(charts.coefficients_of(chart_result(), "unit"))] == ["b", "a"]
    figure = charts.coefficient_chart(found, "y")
    assert list(figure.data[0].x) == [-3.0, 8.0]  # Plotly draws from the bottom


def test_intervals_follow_the_unit() -> None:
    ends = {"low": 1.0, "high": 3.0}
    result = chart_result(inference={"coefficients": {"a": ends, "b": {"low": -40.0, "high": -20.0}, "c": {}}})
    a = next(c for c in charts.coefficients_of(result, "sd") if c.name == "a")
    assert (a.low, a.high) == (4.0, 12.0)
    figure = charts.coefficient_chart([a], "y")
    assert list(figure.data[0].error_x.array) == [4.0]


def test_names_are_whole_and_not_markup() -> None:
    name = "<b>a very long name of a column</b> that needs more than one line"
    figure = charts.coefficient_chart([charts.Coefficient(name, 1.0)], "<i>y</i>")
    text = figure.layout.yaxis.ticktext[0]
    assert text.replace("<br>", "").replace("&lt;", "<").replace("&gt;", ">") == name
    assert "<i>" not in figure.layout.xaxis.title.text
    assert name in charts.describe([charts.Coefficient(name, 1.0)], "y")
    figure = charts.contribution_chart([(name, 2.0)], 1.0, 3.0, "<i>y</i>", "A usual row")
    assert "<b>" not in figure.layout.yaxis.ticktext[1]
    assert "<i>" not in figure.layout.xaxis.title.text


def test_a_waterfall_adds_up() -> None:
    figure = charts.contribution_chart([("a", 5.0), ("b", -2.0)], 10.0, 13.0, "y", "A usual row")
    assert list(figure.data[0].x) == [10.0, 5.0, -2.0, 13.0]
    assert list(figure.data[0].measure) == ["absolute", "relative", "relative", "total"]
    low, high = figure.layout.xaxis.range
    assert low < 10 < 15 < high
    said_ = charts.describe_contributions([("a", 5.0), ("b", -2.0)], 10.0, 13.0, "y")
    assert "a raises it by 5, b lowers it by 2" in said_


def diagnosis(rows: int = 4, **more: Any) -> dict[str, Any]:
    empty = {"rows": 0, "r2": None, "rmse": None, "mae": None}
    counted = {"edges": [-2.0, 0.0, 2.0], "train": [1, 2], "test": [0, 1]}
    return {
        "target": "<i>y</i>", "own_data": True, "rows": rows, "rows_left_out": 0, "unseen_levels": 0,
        "train": {"rows": 3, "r2": 0.5, "rmse": 1.0, "mae": 1.0}, "test": {**empty, "rows": 1, "r2": 0.25},
        "low": {"actual": -1.0, "predicted": 0.0, "residual": -1.0},
        "high": {"actual": 3.0, "predicted": 2.0, "residual": 1.0},
        "sample": {"row": [0, 1, 2, 3], "actual": [1.0, -1.0, 3.0, 2.0], "predicted": [0.0, 0.0, 2.0, 2.0],
                   "test": [True, False, False, False]},
        "grid": {"edges": [-2.0, 0.0, 2.0], "train": [[1, 0], [2, 0]], "test": [[0, 1], [0, 0]]},
        "histogram": counted,
        "quantiles": [{"rank": r, "value": r - 0.5} for r in (0.05, 0.25, 0.5, 0.75, 0.95)],
        "curve": [{"rows": 2, "predicted": float(i), "residual": 0.0, "spread": 1.0, "standard_error": 0.5} for i in range(5)],
        **more,
    }  # fmt: skip


def test_training_and_test_rows_are_told_apart_by_more_than_colour() -> None:
    figure = residual_charts.predicted_chart(diagnosis())
    train, test, diagonal = figure.data
    assert (list(train.x), list(train.y)) == ([0.0, 2.0, 2.0], [-1.0, 3.0, 2.0])
    assert (list(test.x), list(test.y)) == ([0.0], [1.0])
    assert train.marker.symbol != test.marker.symbol
    assert list(diagonal.x) == list(diagonal.y) == [-1.0, 3.0]
    residuals = residual_charts.residual_chart(diagnosis())
    assert list(residuals.data[0].y) == [-1.0, 1.0, 0.0]
    assert "<i>" not in figure.layout.xaxis.title.text


def test_rows_beyond_the_sample_are_drawn_as_a_density() -> None:
    figure = residual_charts.predicted_chart(diagnosis(rows=4_000_000))
    density = figure.data[0]
    assert density.type == "heatmap"
    assert [list(row) for row in density.customdata] == [[1, 1], [2, 0]]
    assert "4,000,000 rows" in residual_charts.describe_predicted(diagnosis(rows=4_000_000))


def test_a_bend_is_said_in_words() -> None:
    assert "no bend" in residual_charts.curvature(diagnosis())
    bent = [{"rows": 50, "predicted": float(i), "residual": (i - 2) ** 2 - 2.0, "spread": 1.0, "standard_error": 0.1}
            for i in range(5)]  # fmt: skip
    text = residual_charts.curvature(diagnosis(curve=bent))
    assert "A straight line misses something" in text
    assert "2 above it" in text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.88531, "0.8853"), (12345.6, "12,346"), (3e15, "3.000e+15"), (-0.5, "-0.5")]
)
def test_numbers_for_the_eye(value: float | None, text: str) -> None:
    assert wording.number(value) == text


def test_small_numbers_are_written_as_people_do() -> None:
    assert wording.power_of_ten(3.4e-17).replace("\N{NO-BREAK SPACE}", " ") == "3 × 10⁻¹⁷"
