"""Saved models in a real Chromium: plots, the form, a predicted upload, names and deletion. No error is let pass."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from shoal.dashboard.tables.samples import SAMPLES
from shoal.fitting.model_file import SavedModel, load_model
from shoal.library.saved_models import Version, version_of
from shoal.runs.launch import launch
from shoal.settings.values import config_from
from shoal.tasks.explain_row import explain, typical_row
from support.browser import Server, Visitor, fits, needs_chromium, settled
from support.dashboard.models_page import NAME
from support.runs import ended

pytestmark = needs_chromium
SIGNS = {  # what is seen when a tab is drawn
    "Coefficients": "Effect of", "Diagnostics": "Residual sizes", "Predict": "Why this much",
    "Lineage": "What proves it", "Versions": "Compare with version",
}  # fmt: skip


@pytest.fixture(scope="module")
def penguins(server: Server) -> Iterator[Version]:
    """Two versions of a model of the penguins, the second with a penalty, in the server's home."""
    before = os.environ.get("SHOAL_HOME")
    os.environ["SHOAL_HOME"] = str(server.home)
    try:
        file = str(SAMPLES["penguins"].ensure())
        for knobs in ({"model": "linear"}, {"model": "ridge", "alpha": 3.0}):
            run = launch(
                config_from({"file": file, "target": "body_mass_g", "test_every": 5, "register": NAME, **knobs})
            )
            assert ended(run) == "finished"
        version = version_of(run)
        assert version is not None
        yield version
    finally:
        os.environ.pop("SHOAL_HOME") if before is None else os.environ.update(SHOAL_HOME=before)


@pytest.fixture
def model(penguins: Version) -> SavedModel:
    return load_model(penguins.model_path)


def opened(visitor: Visitor, name: str, view: str = "") -> Page:
    page = visitor.visit(f"models?model={name}&view={view}" if view else f"models?model={name}")
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    return page


def field_of(page: Page, name: str) -> Locator:
    return page.get_by_role("spinbutton", name=name)


def test_coefficients_plots_and_the_form(visitor: Visitor, penguins: Version, model: SavedModel) -> None:
    page = visitor.visit("models")
    page.get_by_role("link", name=penguins.name, exact=True).click()
    chart = page.locator(".js-plotly-plot")
    expect(page).to_have_url(f"{visitor.url}models?model={penguins.name}")
    expect(chart.get_by_text("flipper_length_mm")).to_be_visible()

    page.get_by_role("tab", name="Diagnostics").click()
    expect(page.get_by_text("Predicted against actual", exact=True)).to_be_visible()
    expect(chart).to_have_count(3)
    expect(page.get_by_text("Test rows: 69")).to_be_visible()
    points = page.locator(".js-plotly-plot").first.locator(".scatterlayer .point")
    expect(points).to_have_count(342)  # every row with a target
    page.wait_for_url("**view=Diagnostics*")

    page.get_by_role("tab", name="Predict").click()
    answer = page.get_by_test_id("stMetric").filter(has_text="Predicted body_mass_g").get_by_test_id("stMetricValue")
    usual = typical_row(model.encoding)
    expect(answer).to_have_text(f"{explain(model, usual).prediction:.6g}")
    field = field_of(page, "bill_length_mm")
    field.fill("55")
    field.press("Enter")
    expect(answer).to_have_text(f"{explain(model, {**usual, 'bill_length_mm': 55.0}).prediction:.6g}")
    visitor.choose("species", "Gentoo")
    row = {**usual, "bill_length_mm": 55.0, "species": "Gentoo"}
    expect(answer).to_have_text(f"{explain(model, row).prediction:.6g}")
    expect(page.locator(".waterfalllayer .point")).to_have_count(4)  # a usual row, two columns, the prediction
    field.fill("")
    field.press("Enter")
    expect(page.get_by_text("bill_length_mm: no value")).to_be_visible()

    visitor.choose("Version", "1")
    expect(page.get_by_text("Linear model of body_mass_g")).to_be_visible()
    page.reload()
    expect(field_of(page, "year")).to_be_visible()  # still that version, still that tab
    expect(page.get_by_text("Linear model of body_mass_g")).to_be_visible()


def test_an_upload_is_predicted_and_taken_home(
    visitor: Visitor, penguins: Version, model: SavedModel, tmp_path: Path
) -> None:
    rows = list(csv.DictReader(SAMPLES["penguins"].ensure().read_text().splitlines()))[100:150]
    path = tmp_path / "new penguins.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["=note", *model.numbers, *model.texts])
        writer.writeheader()
        writer.writerows({"=note": "=1+1", **{n: r[n] for n in [*model.numbers, *model.texts]}} for r in rows)

    page = opened(visitor, penguins.name, "Predict")
    page.get_by_text("A file", exact=True).click()
    page.locator("input[type=file]").set_input_files(path)
    expect(page.get_by_text("50 predictions of body_mass_g")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Predictions as CSV").click()
    got = list(csv.DictReader(download.value.path().read_text().splitlines()))
    expected = [
        explain(model, {n: _typed(r[n], n in model.numbers) for n in [*model.numbers, *model.texts]}) for r in rows
    ]
    np.testing.assert_allclose([float(r["prediction"]) for r in got], [e.prediction for e in expected], rtol=1e-12)

    job = next((penguins.directory.parents[2] / "jobs" / "predict").iterdir()).name
    answer = page.request.get(f"{visitor.url}api/predictions/{job}")
    assert answer.ok
    assert answer.text() == download.value.path().read_text()


def _typed(text: str, number: bool) -> float | str | None:
    return None if text in ("", "NA") else float(text) if number else text


def test_notes_names_and_deletion(visitor: Visitor, penguins: Version) -> None:
    page = opened(visitor, penguins.name)
    _manage(page, "Write a note")
    page.get_by_role("textbox", name="Note").fill("for <b>the</b> report")
    page.get_by_role("button", name="Save note").click()
    expect(page.get_by_text("for <b>the</b> report")).to_be_visible()

    _manage(page, "Save under another name")
    page.get_by_role("textbox", name="Name").fill("mine")
    page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="mine", exact=True)).to_be_visible()
    _manage(page, "Rename the model")
    page.get_by_role("textbox", name="New name").fill("a/b")
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(page.get_by_role("alert").filter(has_text="Expected a name of letters")).to_be_visible()
    page.get_by_role("textbox", name="New name").fill("ours")
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", name="ours", exact=True)).to_be_visible()
    _manage(page, "Delete the model")
    page.get_by_role("button", name="Delete model", exact=True).click()
    expect(page.get_by_role("heading", name="Models", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=penguins.name, exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="ours", exact=True)).to_have_count(0)


def _manage(page: Page, action: str) -> None:
    settled(page)
    page.get_by_role("button", name="Manage").click()
    page.get_by_text(action, exact=True).click()


def test_nothing_is_wider_than_a_phone_in_either_theme(visitor: Visitor, penguins: Version) -> None:
    visitor.page.set_viewport_size({"width": 420, "height": 900})
    page = opened(visitor, penguins.name)
    for view, sign in SIGNS.items():
        page.get_by_role("tab", name=view).click()
        expect(page.get_by_text(sign).first).to_be_visible()
        fits(page)
    page.emulate_media(color_scheme="dark")
    page.reload()
    expect(page.get_by_text(sign).first).to_be_visible()
    fits(page)
