"""From a file to an understood model in a real Chromium, over all pages. Each page has its own browser tests as well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from shoal.dashboard.tables.samples import SAMPLES, generated_sample
from shoal.data.generated import Shape, generate
from shoal.library.saved_models import version_of
from shoal.runs.commands import post
from shoal.runs.launch import Run, launch
from shoal.settings.values import config_from
from shoal.words import number
from support.browser import Server, Visitor, fits, needs_chromium, opens, settled
from support.dashboard.accessibility import faults
from support.runs import ended, endless_run, paused, run_home, small_table, training

pytestmark = needs_chromium
TABS = {
    "Diagnostics": "Residual sizes",
    "Predict": "Why this much",
    "Export": "For people",
    "Lineage": "What proves it",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(200, 3))
    y = X @ [2.0, -3.0, 0.5] + 1 + 0.1 * rng.normal(size=200)
    path = tmp_path / "made up.csv"
    header = "size,`age` <b>$x$</b>,=weight,price"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=header, comments="", fmt="%.6f")
    return path


def upload_and_train(visitor: Visitor, path: Path, target: str) -> None:
    page = visitor.visit()
    page.locator("input[type=file]").set_input_files(path)
    expect(page.get_by_role("heading", name="Columns")).to_be_visible()
    visitor.choose("Column to predict", target)
    page.get_by_role("button", name="Train a model").click()
    expect(page.get_by_role("heading", name="What to predict")).to_be_visible()


def test_from_an_upload_to_coefficients_and_back(visitor: Visitor, server: Server, table: Path) -> None:
    upload_and_train(visitor, table, "price")
    page = visitor.page
    visitor.choose("Model", "Ridge")
    expect(page.get_by_role("spinbutton", name="Penalty strength (alpha)")).to_be_visible()
    page.get_by_role("button", name="Fit", exact=True).click()

    chart = page.locator(".js-plotly-plot").first
    expect(chart).to_be_visible()
    expect(page.get_by_role("heading", name="Ridge model of price")).to_be_visible()
    expect(chart.get_by_text("`age` <b>$x$</b>")).to_be_visible()  # the column's name, not its markup
    expect(page.get_by_text("This is the exact optimum")).to_be_visible()
    found = Run(server.home / "runs" / page.url.partition("?run=")[2]).report
    assert found is not None
    assert found.cross_validation is not None
    assert found.cross_validation.r2 == pytest.approx(0.9991, abs=1e-4)
    score = number(found.cross_validation.r2)
    expect(page.get_by_test_id("stMetricValue").first).to_have_text(score)

    page.get_by_role("tab", name="Table").first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Coefficients as CSV").click()
    assert "\n'=weight," in download.value.path().read_text()

    address = page.url
    assert "?run=" in address
    page.reload()
    expect(chart).to_be_visible()
    expect(page.get_by_test_id("stMetricValue").first).to_have_text(score)
    page.go_back()
    expect(page.get_by_role("button", name="Fit", exact=True)).to_be_visible()
    page.wait_for_url("**data=*")
    page.go_forward()
    expect(chart).to_be_visible()
    page.wait_for_url(address)

    for name in ("Train", "Search", "Data"):  # by the menu, from the run on: each with the table at hand
        page.get_by_test_id("stTopNavLink").filter(has_text=name).click()
        page.wait_for_url(re.compile(rf"/{name.lower() if name != 'Data' else ''}\?data=.*target=price"))
        settled(page)
    for name in ("search", "train"):  # and back by as many steps
        page.go_back()
        page.wait_for_url(f"**/{name}?data=*")
    page.go_back()
    page.wait_for_url(address)


def test_a_fit_goes_on_when_its_tab_is_closed_and_fits_a_phone(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 420, "height": 900})
    page = visitor.visit("train?data=penguins")
    expect(page.get_by_role("button", name="Fit", exact=True)).to_be_visible()
    fits(page)
    page.get_by_role("button", name="Fit", exact=True).click()
    page.wait_for_url("**/train?run=*")
    address = page.url
    other = Visitor(page.context.new_page(), visitor.url)
    page.close()
    other.page.set_viewport_size({"width": 420, "height": 900})
    other.page.goto(address)
    expect(other.page.locator(".js-plotly-plot").first).to_be_visible()
    fits(other.page)
    assert other.problems == []


def test_a_ragged_file_gets_plain_words(visitor: Visitor, tmp_path: Path) -> None:
    path = tmp_path / "ragged.csv"
    path.write_text("a,<script>alert(1)</script>,y\n1,2,3\n4,5\n6,7,8,9\n1,2,4\n2,2,5\n")
    upload_and_train(visitor, path, "y")
    page = visitor.page
    card = page.locator(".st-key-train-card")
    fit = card.get_by_role("button", name="Fit", exact=True)
    expect(card.get_by_text("2 rows could not be read, expected at most 0.")).to_be_visible()
    expect(fit).to_be_disabled()  # what is known to fail is not started
    assert "Traceback" not in page.inner_text("body")
    assert "--on-bad-rows" not in page.inner_text("body")

    page.get_by_role("link", name="See or change the data").click()  # the way out that the words name
    choice = page.get_by_role("combobox", name="Rows that cannot be read")
    opens(page.get_by_text("Reading options", exact=True), choice)
    skip = page.get_by_role("option", name="skip all of them", exact=True)
    opens(choice, skip)
    skip.click()
    page.wait_for_url("**on_bad_rows*")
    settled(page)
    page.get_by_role("button", name="Train a model").click()
    expect(fit).to_be_enabled()
    expect(card.get_by_text("could not be read")).to_have_count(0)


# ------------------------------------------------------------------ for everybody


@pytest.fixture
def live(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run of the server's home that goes on; it leaves the cores to the browser."""
    with run_home(server.home, monkeypatch):
        monkeypatch.setenv("SHOAL_SLOTS", "8")
        run = launch(endless_run(small_table(tmp_path), test_every=5))
        training(run)
        post(run, "pause")
        yield paused(run)
        post(run, "stop")
        ended(run)


@pytest.fixture
def pages(server: Server, live: Run) -> dict[str, str]:
    """Every page by its address, and what is seen when it is drawn; models and runs were made by the product itself."""
    penguins = {"file": str(SAMPLES["penguins"].ensure()), "target": "body_mass_g", "test_every": 5}
    exact = {"model": "ridge", "register": "penguins"}
    steps = {"solver": "gradient", "engine": "inline", "epochs": 3}
    runs = [launch(config_from({**penguins, **more})) for more in (exact, steps)]
    assert [ended(run) for run in runs] == ["finished", "finished"]
    version = version_of(runs[0])
    assert version is not None
    wide = generated_sample(Shape(1_000, 60))
    generate(Shape(1_000, 60), lambda stage, part: None)
    return {
        "": "Try a sample",
        "?data=penguins": "First rows",
        "train?data=penguins": "Before you start",
        "tune?data=penguins&model=elasticnet": "Coefficients along the path",
        f"tune?data={wide.key}": "Coefficients along the path",
        "search?data=penguins": "What to try",
        "runs": "Runs",
        f"runs?compare={runs[0].id},{runs[1].id}": "Along the way",
        f"train?run={live.id}": "What happened",
        f"train?run={runs[1].id}": "Coefficients",
        "models": "Models",
        f"models?model={version.name}&version=1": "Rows",
        "system": "Log of the dashboard",
    }


def test_no_page_breaks_a_rule_for_screen_readers_or_contrast(
    visitor: Visitor, pages: dict[str, str], live: Run
) -> None:
    broken = {}
    for address, shows in pages.items():
        page = visitor.visit(address)
        seen(page, shows)
        if address.startswith("train?data"):
            page.get_by_text("Gradient steps", exact=True).click()
            page.get_by_role("button", name="Start training").wait_for()
            settled(page)
        if address == "runs":
            page.get_by_test_id("stPopover").get_by_role("button", name="Columns").click()
            page.get_by_role("dialog", name="Columns").get_by_role("combobox").wait_for()
            page.mouse.move(0, 0)  # away from the button, whose help would hang over the page
            expect(page.get_by_test_id("stTooltipContent")).to_have_count(0)
            settled(page)
        broken[address] = faults(page)
        if address == "train?data=penguins":
            page.get_by_role("tab", name="Command line").click()
            page.locator("[data-testid=stCode] .token:visible").first.wait_for()  # its colours come later than the text
            settled(page)
            broken["command line"] = faults(page)
        if address.startswith("models?"):
            for tab, shows in TABS.items():
                page.get_by_role("tab", name=tab).click()
                page.get_by_text(shows).wait_for()
                settled(page)
                broken[tab] = faults(page)
    post(live, "resume")
    page = visitor.visit(f"train?run={live.id}")
    expect(page.locator(".stMarkdownBadge").filter(has_text="Running")).to_be_visible()
    settled(page)
    broken["a run at work"] = faults(page)
    assert {address: found for address, found in broken.items() if found} == {}


def seen(page: Page, heading: str) -> None:
    expect(page.get_by_role("heading", name=heading, exact=True).first).to_be_visible()
    settled(page)
