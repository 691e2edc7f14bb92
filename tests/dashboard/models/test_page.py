"""The Models page with real runs behind it: the list, one version, its plots, and the result of a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.dashboard.fits.trust import gradient_trust
from shoal.dashboard.models import (
    versions as versions_view,
)
from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import label
from shoal.home import runs_directory
from shoal.library import saved_models
from shoal.library.saved_models import Version, version_of
from shoal.results.fit import GradientTraining
from shoal.results.model import WITH_SHAPES
from shoal.runs.commands import post
from shoal.runs.launch import Run, launch
from shoal.settings.config import RunConfig
from shoal.words import number
from support.dashboard.models_page import NAME, NASTY_NAME, links, open_model
from support.pages import checked, now_on, open_page, said, settle, widget
from support.runs import ended, endless_run, small_table, training

# ------------------------------------------------------------------ the list


def test_no_models_yet_leads_to_the_data(home: Path) -> None:
    shutil.rmtree(home / "models")
    page = open_page("models")
    assert any("No models yet" in m.value for m in page.header)
    assert list(links(page)) == ["Choose data to train on"]


def test_models_are_listed_with_their_score_and_found_by_words() -> None:
    saved_models.copy_version(Version(NAME, 2), "other")
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
    assert page.metric[0].value == number(contents["test"]["r2"])
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
    assert links(page)["Open the run"] == f"run={version.card.run}"
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
    old, new = Version(NAME, 1).model.report, Version(NAME, 2).model.report
    scores, settings, coefficients = (frame.value for frame in page.dataframe[1:])
    change = scores.set_index("Score")["Change"]
    assert change["RMSE, test rows"] == pytest.approx((new.test.rmse or 0.0) - (old.test.rmse or 0.0))
    assert settings.to_numpy().tolist()[0] == ["Model", "Linear", "Ridge"]
    by_name = coefficients.set_index("Column")
    assert by_name["Change"]["year"] == pytest.approx(new.coefficients["year"] - old.coefficients["year"])
    assert versions_view.coefficient_changes(old, old) == []


def test_a_note_is_shown_as_it_was_written() -> None:
    version = saved_models.write_note(Version(NAME, 2), NASTY_NAME)
    page = open_model(version=2)
    assert "&lt;img src=x" in said(page)
    assert "<img" not in said(page)
    saved_models.delete_version(version)
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


# ------------------------------------------------------------------ the result of a run


def test_a_finished_run_leads_to_its_saved_model() -> None:
    run = Version(NAME, 3).run
    assert run is not None
    page = open_page("train", run=run.id)
    assert f"model={NAME}&version=3" in links(page).values()
    assert "It converged" in said(page)
    assert "epochs in" in said(page)


def test_a_damaged_result_is_said_in_its_place() -> None:
    run = Version(NAME, 1).run
    assert run is not None
    (run.directory / "result.json").write_text(json.dumps({**(run.result or {}), "coefficients": [1.0]}))
    page = open_page("train", run=run.id)
    assert "The result cannot be read" in said(page)
    assert "'coefficients' should be an object" in said(page).replace("&#x27;", "'")


def test_a_stopped_run_is_saved_by_a_button(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path))))
    post(run, "stop")
    assert ended(run) == "stopped"
    page = open_page("train", run=run.id)
    assert "It has not converged" in said(page) or "It converged" in said(page)
    page = page.text_input(key="save-model:name").set_value("Kaltmiete in Köln").run()
    assert "It will be called Kaltmiete-in-Köln" in said(page)
    page = now_on(page.button(key="save-model").click().run())
    version = version_of(run)
    assert version is not None
    assert version.name == "Kaltmiete-in-Köln"
    assert version.card.state == "stopped"
    assert "from a stopped run" in said(page)


@pytest.mark.parametrize(
    ("facts", "kind", "words"),
    [
        (
            {"converged": True, "distance_to_optimum": 2e-9, "coefficient_distance": 1e-5},
            "success",
            "to its exact optimum is",
        ),
        ({"converged": False, "distance_to_optimum": 0.2, "coefficient_distance": 0.3}, "warning", "exact solver"),
        ({"converged": False, "distance_to_optimum": None, "slope": 1e-3}, "warning", "not known"),
        ({"converged": True, "distance_to_optimum": 0.0}, "success", "to the last digit"),
    ],
)
def test_how_far_a_gradient_run_came_is_said_in_words(facts: dict[str, Any], kind: str, words: str) -> None:
    _, box, text = gradient_trust(GradientTraining(mode="sync", epochs=1.0, rounds=1, **facts))
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
        "own_metrics": {NASTY_NAME: {"train": 1.5, "test": None, "better": "lower"}},
        "design": json.loads(json.dumps(source["design"]).replace('"year"', json.dumps(NASTY_NAME))),
    }  # fmt: skip
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "model.json").write_text(json.dumps(contents))
    version = saved_models.save_run(Run(directory), {})
    for view in ("Coefficients", "Predict", "Lineage", "Versions"):
        page = open_page("models", model=version.name, view=view)
        assert "<img" not in said(page)
        assert not any("<img" in m.value or "**b**" in m.value for m in page.markdown)
        assert not any("**b**" in w.label for w in [*page.number_input, *page.selectbox, *page.metric])
    assert "&lt;img src=x" in said(open_page("models", model=version.name))


def test_a_model_with_a_step_of_a_plug_in_that_is_not_here_can_be_looked_at() -> None:
    """What it says is shown; where something is predicted, the sentence says what is missing."""
    source = Version(NAME, 1).contents
    terms = source["design"]["terms"]
    place, name = next((i, term["column"]) for i, term in enumerate(terms) if term["type"] == "number")
    step = {"type": "shaped", "column": name, "name": f"bent({name})", "expression": "x step:bent@1/1", "equals": None,
            "fill": 0.0}  # fmt: skip
    design = {**source["design"], "terms": [*terms[:place], step, *terms[place + 1 :]]}
    text = json.dumps({**source, "inference": None}).replace(f'"{name}": ', f'"bent({name})": ')
    contents = {**json.loads(text), "design": design, "config": source["config"], "version": WITH_SHAPES}
    directory = runs_directory() / "20260101-000000-abcdee"
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(source["config"]))
    (directory / "model.json").write_text(json.dumps(contents))
    version = saved_models.save_run(Run(directory), {}, "bent")
    shutil.rmtree(directory)  # for half a minute it is taken for a run that is about to begin
    assert f"bent({name})" in said(settle(open_page("models", model=version.name, view="Coefficients")))
    page = settle(open_page("models", model=version.name, view="Predict"))
    assert "version 1, which this model was fitted with; no plug-in that is installed here has it" in said(page)
