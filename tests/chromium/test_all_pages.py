"""From a file to an understood model in a real Chromium, over all pages. Each page has its own browser tests as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from support.browser import Visitor, fits, needs_chromium

pytestmark = needs_chromium


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


def test_from_an_upload_to_coefficients_and_back(visitor: Visitor, table: Path) -> None:
    upload_and_train(visitor, table, "price")
    page = visitor.page
    page.get_by_role("button", name="Ridge").or_(page.get_by_role("radio", name="Ridge")).first.click()
    expect(page.get_by_role("spinbutton", name="Penalty strength (alpha)")).to_be_visible()
    page.get_by_role("button", name="Fit", exact=True).click()

    chart = page.locator(".js-plotly-plot").first
    expect(chart).to_be_visible()
    expect(page.get_by_role("heading", name="Ridge model of price")).to_be_visible()
    expect(chart.get_by_text("`age` <b>$x$</b>")).to_be_visible()  # the column's name, not its markup
    expect(page.get_by_text("This is the exact optimum")).to_be_visible()
    score = page.get_by_test_id("stMetricValue").first.inner_text()
    assert float(score) > 0.99

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


def test_a_fit_goes_on_when_its_tab_is_closed(visitor: Visitor) -> None:
    page = visitor.visit("train?data=diabetes")
    page.get_by_role("button", name="Fit", exact=True).click()
    page.wait_for_url("**/train?run=*")
    address = page.url
    other = Visitor(page.context.new_page(), visitor.url)
    page.close()
    other.page.goto(address)
    expect(other.page.locator(".js-plotly-plot").first).to_be_visible()
    assert other.problems == []


def test_a_ragged_file_gets_plain_words(visitor: Visitor, tmp_path: Path) -> None:
    path = tmp_path / "ragged.csv"
    path.write_text("a,<script>alert(1)</script>,y\n1,2,3\n4,5\n6,7,8,9\n1,2,4\n2,2,5\n")
    upload_and_train(visitor, path, "y")
    page = visitor.page
    page.get_by_role("button", name="Fit", exact=True).click()
    expect(page.get_by_text("2 of 5 rows could not be read")).to_be_visible()
    assert "Traceback" not in page.inner_text("body")
    assert "--on-bad-rows" not in page.inner_text("body")
    expect(page.get_by_role("button", name="Change settings")).to_be_visible()


def test_the_form_and_the_result_fit_a_phone(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 420, "height": 900})
    page = visitor.visit("train?data=penguins")
    expect(page.get_by_role("button", name="Fit", exact=True)).to_be_visible()
    fits(page)
    page.get_by_role("button", name="Fit", exact=True).click()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    fits(page)
