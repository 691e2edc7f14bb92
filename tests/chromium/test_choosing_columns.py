"""Columns to leave out, chosen by keys in a real Chromium: Enter takes one of them, and the result names it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from support.browser import Server, Visitor, needs_chromium, settled
from support.pages import uploaded

pytestmark = needs_chromium


@pytest.fixture
def key(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHOAL_HOME", str(server.home))
    rows = "".join(f"{i % 7},{i % 5},{(i * i) % 11},{i % 3},{i}\n" for i in range(60))
    path: Path = uploaded(f"fee,fee_month,fee_total,calls,y\n{rows}".encode(), "fees.csv")
    return f"{path.parent.name}{os.sep}{path.name}"


def test_enter_takes_one_column_and_the_result_names_it(visitor: Visitor, key: str) -> None:
    page = visitor.visit(f"train?data={quote(key)}&target=y")
    box = page.get_by_role("combobox", name="Columns to leave out")
    box.click()
    expect(page.get_by_role("option", name="Select all")).to_have_count(0)
    box.press_sequentially("fee_")
    expect(page.get_by_role("option", name="fee_total", exact=True)).to_be_visible()
    expect(page.get_by_role("option", name="Select 2 matches")).to_have_count(0)
    box.press("Enter")
    expect(page.get_by_role("option", name="fee_month", exact=True)).to_have_count(0)
    expect(page.get_by_role("option", name="fee_total", exact=True)).to_be_visible()  # it was not taken
    box.press("Escape")
    settled(page)
    page.get_by_role("button", name="Fit", exact=True).click()
    expect(page.get_by_text("Left out of the model: fee_month.")).to_be_visible()


def test_a_decimal_comma_is_taken_where_the_browser_writes_points(visitor: Visitor, key: str) -> None:
    page = visitor.visit(f"train?data={quote(key)}&target=y")
    visitor.choose("Model", "Ridge")
    field = page.get_by_role("spinbutton", name="Penalty strength (alpha)")
    field.press_sequentially("1,5")
    expect(field).to_have_value("1.5")
    field.fill("")
    field.evaluate("""it => {
      const data = new DataTransfer()
      data.setData("text", " 2,25 ")
      it.focus()
      it.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }))
    }""")
    expect(field).to_have_value("2.25")
