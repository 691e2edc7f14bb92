"""From an export as people bring it to predictions for new rows, in a real Chromium: at most fifteen clicks, no address typed.

What single pages can do is tried elsewhere; here somebody who has only the file and the pages gets through.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from playwright.sync_api import Download, Locator, expect
from sklearn.datasets import dump_svmlight_file

from support.browser import Visitor, fits, needs_chromium, settled
from support.tables import shared

pytestmark = needs_chromium
MOST = 15  # clicks
WHOLE_CURVE = 600_000  # ms; the survey has 874 weights, and other tests may have the cores meanwhile


@dataclass
class Journey:
    """One export: what is to be predicted, what has to be corrected on the way, and what must come out."""

    file: str
    new: str
    target: str
    offered: tuple[str, ...] = ()  # corrections that the pages offer
    unticked: tuple[str, ...] = ()  # columns that new rows do not have
    ids: tuple[str, str] = ("", "")  # a column of the new rows, and what the first of them has there
    rows: int = 0
    explained: float = 0.0  # R² at least
    words: bool = False


JOURNEYS = [
    Journey(
        "hausverkaeufe.csv", "hausverkaeufe_neu.csv", "Kaufpreis", ("Leave out Preis pro m²", "Leave out Objekt-Nr"), (),
        ("Objekt-Nr", "00000001"), 300, 0.7, words=True,
    ),
    Journey(
        "survey_export.csv", "survey_new.csv", "Overall satisfaction (0-100)", (),
        ("Would you recommend us (0-10)", "Will you leave within 12 months?"), ("Respondent ID", "11802000000"), 60, 0.6,
    ),
    Journey(
        "daily_sales.csv", "daily_sales_next.csv", "units_sold", ("Leave out revenue",), (), ("date", "2024-01-01"), 180,
        0.9,
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports")
    subprocess.run([sys.executable, shared("journeys", "make_exports.py"), folder], check=True, timeout=300)
    return folder


@dataclass
class Person:
    """Somebody with a mouse; every click is counted, and choosing a file is one as well."""

    tab: Visitor
    clicks: list[str] = field(default_factory=list)

    def click(self, what: Locator) -> None:
        settled(self.tab.page)
        what.click()
        self.clicks.append(str(what))

    def press(self, name: str) -> None:
        self.click(self.tab.page.get_by_test_id("stMain").get_by_role("button", name=name, exact=True))

    def bring(self, path: Path) -> None:
        settled(self.tab.page)
        self.tab.page.locator("input[type=file]").set_input_files(path)
        self.clicks.append(path.name)

    def choose(self, label: str, option: str) -> None:
        self.click(self.tab.page.get_by_role("combobox", name=label))
        self.tab.page.keyboard.type(option)
        expect(self.tab.page.get_by_role("option", name=option, exact=True)).to_be_visible()
        self.tab.page.keyboard.press("Enter")

    def untick(self, column: str) -> None:
        """In the list of the Tune page, which long tables have a search for."""
        search = self.tab.page.get_by_role("searchbox", name="Find a column")
        if search.is_visible():
            self.click(search)
            search.fill(column)
        self.click(self.tab.page.get_by_role("checkbox", name=column, exact=True))


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.target)
def test_from_an_export_to_predictions(journey: Journey, visitor: Visitor, exports: Path) -> None:
    person, page = Person(visitor), visitor.visit()
    person.bring(exports / journey.file)
    expect(page.get_by_role("heading", name="First rows")).to_be_visible()
    if journey.words:
        person.press("Treat all these words as missing")
        expect(page.get_by_role("button", name="Forget all choices")).to_be_visible()
    person.choose("Column to predict", journey.target)
    person.click(page.get_by_test_id("stMain").get_by_role("button", name="Tune", exact=True))
    expect(page.get_by_role("button", name="Train this model")).to_be_visible()
    for offer in journey.offered:
        person.press(offer)
        expect(page.get_by_role("button", name=offer, exact=True)).to_have_count(0)  # drawn anew: it was heard
        expect(page.get_by_role("button", name="Take back")).to_be_visible()
    for column in journey.unticked:
        person.untick(column)
    tuned(person)
    explained(person, journey)
    predicted(person, journey, exports)
    assert len(person.clicks) <= MOST, person.clicks


def tuned(person: Person) -> None:
    page = person.tab.page
    expect(page.locator(".tune[aria-busy=false]")).to_be_visible(timeout=WHOLE_CURVE)
    expect(page.get_by_role("button", name="Best")).to_have_attribute("aria-pressed", "true", timeout=WHOLE_CURVE)
    person.click(page.get_by_role("button", name="Train this model"))
    page.wait_for_url("**/train?run=*")


def explained(person: Person, journey: Journey) -> None:
    """In words and as bars, with the error of the folds that chose the penalty."""
    page = person.tab.page
    expect(page.get_by_text("Always predicting the mean would be off by")).to_be_visible()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    card = page.get_by_test_id("stMetric").filter(has_text="R², cross-validated")
    assert float(card.get_by_test_id("stMetricValue").inner_text()) > journey.explained


def predicted(person: Person, journey: Journey, exports: Path) -> None:
    page = person.tab.page
    person.press("Save as model")
    person.click(page.get_by_role("button", name="Save", exact=True))
    person.click(page.get_by_role("tab", name="Predict"))
    person.click(page.get_by_text("A file", exact=True))
    expect(page.get_by_text("Drop a CSV file to predict")).to_be_visible()
    person.bring(exports / journey.new)
    expect(page.get_by_text(f"{journey.rows} predictions of {journey.target}")).to_be_visible()
    with page.expect_download() as download:
        person.press("Predictions as CSV")
    holds(download.value, journey)


def holds(download: Download, journey: Journey) -> None:
    """Every row has a prediction, and can be told by what its file calls it."""
    with download.path().open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == journey.rows
    assert all(row["prediction"] for row in rows)
    column, first = journey.ids
    assert rows[0][column] == first


def test_sparse_rows_from_the_drop_zone_to_a_tuned_model(visitor: Visitor, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    X = sp.random_array((200, 400), density=0.02, format="csr", rng=random, data_sampler=random.standard_normal)
    y = X[:, :10] @ np.full(10, 3.0) + 0.1 * random.standard_normal(200)
    dump_svmlight_file(X, y, str(tmp_path / "words.svmlight"), zero_based=False)
    page = visitor.visit("?choose=1")
    page.locator("input[type=file]").set_input_files(tmp_path / "words.svmlight")
    expect(page.get_by_role("heading", name="Most frequent columns")).to_be_visible()
    expect(page.get_by_text("are for tables of cells")).to_be_visible()
    settled(page)
    page.set_viewport_size({"width": 390, "height": 844})
    fits(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    settled(page)
    page.get_by_role("button", name="Tune", exact=True).click()
    train = page.get_by_role("button", name="Train this model")
    expect(train).to_be_visible()
    settled(page)
    train.click()
    expect(page.get_by_role("heading", name="Lasso model of label")).to_be_visible()
    expect(page.get_by_text("This is the exact optimum")).to_be_visible()
    page.get_by_role("link", name="Train", exact=True).click()
    expect(page.get_by_role("heading", name="The model of the label")).to_be_visible()
