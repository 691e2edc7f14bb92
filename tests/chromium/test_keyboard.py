"""Keys alone, in a real Chromium: everything is reached and is seen to be, lists take what Enter chose, commas are decimal."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as Late

from support.browser import SLOW, Server, Visitor, needs_chromium, settled
from support.pages import uploaded
from support.runs import small_table

pytestmark = needs_chromium
FAR = 60  # presses of Tab

# What the focus changes in the look of an element or of what is around it; nothing: nobody sees where they are.
LOOKS_OTHERWISE = """async () => {
  let at = document.activeElement
  if (at === document.body || at.closest('canvas')) return true // the browser itself; a table draws its cells' mark
  while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement
  const parts = [at, at.nextElementSibling, at.parentElement, at.parentElement?.parentElement, at.closest('label')]
  const look = () => parts.filter(Boolean).map((part) => {
    const style = getComputedStyle(part)
    return [style.outline, style.boxShadow, style.borderColor, style.backgroundColor, style.textDecoration].join()
  }).join()
  const changes = async (from) => {
    for (let frame = 0; frame < 120 && look() === from; frame++) await new Promise(requestAnimationFrame) // it may fade
    return look() !== from
  }
  const reached = look()
  at.blur()
  const left = await changes(reached)
  const without = look()
  at.focus()
  return left || await changes(without) || !at.isConnected // a busy page draws the mark late, or all of it anew
}"""


def reach(page: Page, what: Locator) -> None:
    """With Tab, as somebody would; whatever is on the way shows that it is reached."""
    settled(page)
    for _ in range(FAR):
        if what.evaluate("it => it === it.getRootNode().activeElement"):
            return
        page.keyboard.press("Tab")
        assert page.evaluate(LOOKS_OTHERWISE), page.evaluate("() => document.activeElement.outerHTML.slice(0, 300)")
    raise AssertionError(f"{what} is not reached with {FAR} presses of Tab")


def test_from_a_file_to_a_model_with_keys_alone(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.visit()
    choose_file(page, small_table(tmp_path))
    expect(page.get_by_role("heading", name="Columns")).to_be_visible()

    reach(page, page.get_by_role("combobox", name="Column to predict"))
    page.keyboard.type("y")
    expect(page.get_by_role("option", name="y", exact=True)).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**target=y*")
    expect(page.get_by_role("button", name="Train a model")).to_be_enabled()
    settled(page)  # a check of the columns goes on, or has ended
    expect(page.get_by_text("Looking for columns")).to_have_count(0)
    read_as_names(page)

    reach(page, page.get_by_role("button", name="Train a model"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="What to predict")).to_be_visible()
    reach(page, page.get_by_role("button", name="Fit", exact=True))
    page.keyboard.press("Enter")
    page.wait_for_url("**/train?run=*")
    expect(page.get_by_role("heading", name="Linear model of y")).to_be_visible()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()


def choose_file(page: Page, path: Path) -> None:
    """With Enter on the box; a page that is drawn anew just then loses a press."""
    box = page.get_by_label("Drop a CSV file here")
    expect(box).to_be_visible()
    expect(box).to_have_attribute(
        "aria-label", re.compile("^Drop a CSV file here. One file, or several that are one table: csv")
    )
    deadline = time.monotonic() + SLOW / 1000
    while time.monotonic() < deadline:
        reach(page, box)
        with contextlib.suppress(Late):
            with page.expect_file_chooser(timeout=5000) as chooser:
                page.keyboard.press("Enter")
            chooser.value.set_files(path)
            return
    raise AssertionError("Enter opened no chooser of files")


def read_as_names(page: Page) -> None:
    """The first column is taken for names in the table of columns: one cell to the right, open it, choose."""
    table = page.get_by_test_id("stDataFrame").locator("canvas").first
    cell = table.locator("[role=gridcell]").nth(1)
    option = page.locator("#portal").get_by_text("names", exact=True)
    reach(page, table)
    page.keyboard.press("ArrowRight")
    deadline = time.monotonic() + SLOW / 1000
    while not selected(cell):  # a table that is drawn anew just then loses a press
        assert time.monotonic() < deadline, "the cell was not reached"
        reach(page, table)
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(option).to_be_visible()
    page.keyboard.type("names")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Forget all choices")).to_be_visible()


def selected(cell: Locator) -> bool:
    with contextlib.suppress(AssertionError):
        expect(cell).to_have_attribute("aria-selected", "true", timeout=5000)
        return True
    return False


def test_the_sliders_of_the_tune_page_are_reached_and_named(visitor: Visitor) -> None:
    page = visitor.visit("tune?data=penguins&model=elasticnet")
    expect(page.locator(".tune[aria-busy=false]")).to_be_visible()
    reach(page, page.get_by_role("slider", name="Penalty strength (alpha)"))
    before = page.get_by_role("textbox", name="Alpha as a number").input_value()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("textbox", name="Alpha as a number")).not_to_have_value(before)
    reach(page, page.get_by_role("slider", name="Mixing ratio (l1_ratio)"))
    for name in ("Cross-validated mean squared error", "Standardised coefficients over alpha"):
        expect(page.get_by_role("img", name=name)).to_be_visible()


# ------------------------------------------------------------------ lists and numbers


@pytest.fixture
def key(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHOAL_HOME", str(server.home))
    rows = "".join(f"{i % 7},{i % 5},{(i * i) % 11},{i % 3},{i}\n" for i in range(60))
    path: Path = uploaded(f"fee,fee_month,fee_total,calls,y\n{rows}".encode(), "fees.csv")
    return f"{path.parent.name}{os.sep}{path.name}"


def test_enter_takes_one_column_and_the_result_names_it(visitor: Visitor, key: str) -> None:
    page = visitor.visit(f"train?data={quote(key)}&target=y")
    box = page.get_by_role("combobox", name="Columns to leave out")
    expect(box).to_be_visible()
    settled(page)  # while it is drawn anew it may be there twice
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
