"""Exports in a real Chromium: made and proven on the page, taken home, run here; the report opened without a network."""

from __future__ import annotations

import contextlib
import csv
import os
import runpy
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Download, Page, expect

from shoal.dashboard.tables.samples import SAMPLES
from shoal.fitting.model_file import SavedModel, load_model
from shoal.library.saved_models import Version, version_of
from shoal.runs.launch import launch
from shoal.settings.values import config_from
from shoal.tasks.explain_row import Value, explain
from support.browser import CHROMIUM, QUICK, Server, Visitor, fits, needs_chromium, settled
from support.dashboard.models_page import NAME
from support.runs import ended

pytestmark = needs_chromium
BROWSER = CHROMIUM or QUICK  # with all that a person's browser has
KEYS = {"scikit-learn": "sklearn"}
FORMATS = ("SQL", "Python", "scikit-learn", "ONNX", "JSON")


@pytest.fixture(scope="module")
def penguins(server: Server) -> Iterator[Version]:
    before = os.environ.get("SHOAL_HOME")
    os.environ["SHOAL_HOME"] = str(server.home)
    try:
        file = str(SAMPLES["penguins"].ensure())
        knobs = {"model": "ridge", "alpha": 3.0, "test_every": 5, "register": NAME}
        run = launch(config_from({"file": file, "target": "body_mass_g", **knobs}))
        assert ended(run) == "finished"
        version = version_of(run)
        assert version is not None
        yield version
    finally:
        os.environ.pop("SHOAL_HOME") if before is None else os.environ.update(SHOAL_HOME=before)


def taken(page: Page, name: str) -> Download:
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Download {name}", exact=True).click()
    return download.value


def rows_of(model: SavedModel) -> list[dict[str, Value]]:
    """All rows of the sample as they are written, with an unseen level and a gap besides."""
    names = [*model.numbers, *model.texts]
    read = csv.DictReader(SAMPLES["penguins"].ensure().read_text().splitlines())
    rows = [{n: _typed(row[n], n in model.numbers) for n in names} for row in read]
    return [*rows, {**rows[0], "species": "Emperor"}, {**rows[0], "bill_length_mm": None, "island": None}]


def _typed(text: str, number: bool) -> Value:
    return None if text in ("", "NA") else float(text) if number else text


def test_exports_are_proven_taken_home_and_right(visitor: Visitor, penguins: Version, tmp_path: Path) -> None:
    page = visitor.visit(f"models?model={penguins.name}")
    page.get_by_role("tab", name="Export").click()
    for name in (*FORMATS, "report"):
        expect(page.get_by_role("button", name=f"Download {name}", exact=True)).to_be_visible()
    expect(page.get_by_text("Proven on 1,000 rows")).to_have_count(len(FORMATS))
    expect(page.get_by_text("The largest difference is")).to_have_count(len(FORMATS))
    settled(page)

    model = load_model(penguins.model_path)
    rows = rows_of(model)
    wanted = [explain(model, row).prediction for row in rows]
    python = taken(page, "Python")
    assert python.suggested_filename == f"{penguins.name.replace('-', '_')}_v1.py"
    predict = runpy.run_path(str(python.path()))["predict"]
    np.testing.assert_allclose([predict(row) for row in rows], wanted, rtol=1e-12)

    sql = taken(page, "SQL")
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        names = list(rows[0])
        connection.execute(f"CREATE TABLE penguins ({', '.join(names)})")
        connection.executemany(
            f"INSERT INTO penguins VALUES ({', '.join('?' * len(names))})", [tuple(r.values()) for r in rows]
        )
        found = [row[-1] for row in connection.execute(sql.path().read_text())]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)

    card = page.locator(".st-key-export-sql")
    card.get_by_text("How to use it").click()
    expect(card.get_by_text("COALESCE").first).to_be_visible()
    (job,) = (penguins.directory.parents[2] / "jobs" / "export").iterdir()
    answer = page.request.get(f"{visitor.url}api/export/{job.name}/export.onnx")
    assert answer.body() == (job / "export.onnx").read_bytes()
    assert answer.headers["content-disposition"] == 'attachment; filename="export.onnx"'
    for wrong in (f"export/{job.name}/job.json", f"export/{'0' * 24}/export.sql", f"report/{job.name}/..%2fjob.json"):
        assert page.request.get(f"{visitor.url}api/{wrong}").status in (400, 404)

    report = taken(page, "report")
    assert report.suggested_filename == f"{penguins.name}-v1-report.html"
    report.save_as(tmp_path / "report.html")
    page.set_viewport_size({"width": 420, "height": 900})
    settled(page)
    fits(page)
    for name in (*FORMATS, "report"):
        button = page.get_by_role("button", name=f"Download {name}", exact=True)
        words = page.locator(f".st-key-export-{KEYS.get(name, name.lower())} .shoal-export")
        own, other = button.bounding_box(), words.bounding_box()
        assert own is not None
        assert other is not None
        assert own["width"] > 100
        assert own["y"] >= other["y"] + other["height"] or own["x"] >= other["x"] + other["width"], name
    _looks_right_without_a_network(visitor.page.context.browser, tmp_path / "report.html")


def _looks_right_without_a_network(browser: Browser | None, path: Path) -> None:
    assert browser is not None
    for width, scheme in ((1280, "light"), (420, "dark")):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, offline=True, color_scheme=scheme)  # type: ignore[arg-type]
        page, problems, asked = context.new_page(), [], []
        page.on("console", lambda message, heard=problems: heard.append(message.text))
        page.on("pageerror", lambda error, heard=problems: heard.append(str(error)))
        page.on("request", lambda request, heard=asked: heard.append(request.url))
        page.goto(path.as_uri())
        expect(page.get_by_role("heading", name="Ridge model of body_mass_g")).to_be_visible()
        assert page.locator("svg.chart").count() == 7  # coefficients, path, cross-validation, four of residuals
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        for chart in page.locator("svg.chart").all():
            box = chart.bounding_box()
            assert box is not None
            assert box["width"] > 300
        ink = "getComputedStyle(document.body).backgroundColor"
        assert page.evaluate(ink) == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(16, 24, 26)")
        page.emulate_media(media="print")
        assert page.evaluate(ink) == "rgb(255, 255, 255)"
        assert asked == [path.as_uri()]
        assert problems == []
        context.close()
