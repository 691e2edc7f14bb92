"""The Runs page in a real browser: two real runs are compared, opened by a click, tagged, archived and deleted."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from shoal.runs.folder import Run
from support.browser import Server, Visitor, fits, needs_chromium
from support.runs import small_table, until

pytestmark = needs_chromium
ROW, HEAD = 35, 35  # pixels; the table is a canvas
TICK, OPEN = 17, 70  # where the box and the button of a row are


@pytest.fixture(scope="module")
def runs(server: Server, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two gradient runs with other settings, newest first."""
    table = small_table(tmp_path_factory.mktemp("data"))
    environment = {**os.environ, "SHOAL_HOME": str(server.home)}
    for flags in (["--tolerance", "0"], ["--model", "ridge", "--alpha", "20"]):
        steps = ["--solver", "gradient", "--workers", "1", "--epochs", "5", "--test-every", "5"]
        command = [sys.executable, "-m", "shoal.cli.app", "train", str(table), "--target", "y", *steps, *flags]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    folders = sorted((server.home / "runs").iterdir(), reverse=True)
    until(lambda: not any(Run(folder).is_alive for folder in folders))
    return [folder.name for folder in folders]


def table(page: Page) -> Locator:
    """Once it is drawn."""
    expect(page.get_by_test_id("stDataFrame").locator("canvas").first).to_be_visible()
    return page.get_by_test_id("stDataFrame").first


def click_row(page: Page, row: int, x: int) -> None:
    table(page).click(position={"x": x, "y": HEAD + ROW * row + ROW // 2})


def test_choose_two_runs_and_compare_them(visitor: Visitor, runs: list[str]) -> None:
    page = visitor.visit("runs")
    click_row(page, 0, TICK)
    expect(page.get_by_role("button", name="1 chosen")).to_be_visible()
    expect(page.get_by_role("button", name="Compare")).to_be_disabled()
    click_row(page, 1, TICK)
    expect(page.get_by_role("button", name="2 chosen")).to_be_visible()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="Compare runs")).to_be_visible()
    expect(page.get_by_text("A · Ridge, alpha 20")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(5)
    page.wait_for_url(re.compile(rf"compare={runs[0]}(,|%2C){runs[1]}"))
    expect(page.get_by_text("Seconds since the run began").first).to_be_visible()
    page.get_by_role("radio", name="Epochs").click()
    page.wait_for_url(re.compile("by=epoch"))
    expect(page.get_by_text("Epoch", exact=True).first).to_be_visible()
    page.reload()
    expect(page.get_by_text("Epoch", exact=True).first).to_be_visible()
    page.go_back()
    expect(page.get_by_text("Seconds since the run began").first).to_be_visible()
    page.get_by_role("link", name="All runs").click()
    table(page)


def test_a_click_opens_a_run_and_back_comes_back(visitor: Visitor, runs: list[str]) -> None:
    page = visitor.visit("runs?sort=oldest")
    click_row(page, 0, OPEN)
    page.wait_for_url(re.compile(rf"train\?run={runs[1]}"))
    expect(page.get_by_role("heading", name="Linear model of y")).to_be_visible()
    page.go_back()
    table(page)
    expect(page.get_by_role("combobox", name="Order")).to_have_value("Oldest first")


def test_tag_search_archive_and_delete(visitor: Visitor, runs: list[str], server: Server) -> None:
    page = visitor.visit("runs")
    click_row(page, 0, TICK)
    page.get_by_role("button", name="Tags and note").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Tags", exact=True).fill("baseline")
    dialog.get_by_label("Note", exact=True).fill("<img src=x onerror=alert(1)>")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()
    search = page.get_by_label("Search", exact=True)
    search.fill("baseline")
    search.press("Enter")
    expect(page.get_by_text("1 to 1 of 1 run")).to_be_visible()
    page.wait_for_url("**/runs?q=baseline")
    page.get_by_role("button", name="Archive", exact=True).click()
    expect(page.get_by_text("1 run archived")).to_be_visible()
    page.goto(f"{server.url}runs?archived=yes&q=baseline")
    click_row(page, 0, TICK)
    page.get_by_role("button", name="Restore", exact=True).click()
    until(lambda: (server.home / "runs" / runs[0]).exists())
    page.goto(f"{server.url}runs?q=baseline")
    click_row(page, 0, TICK)
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(dialog.get_by_text(runs[0])).to_be_visible()
    dialog.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_text("No run matches")).to_be_visible()
    page.get_by_role("button", name="Show all runs").click()
    expect(page.get_by_text("1 to 1 of 1 run")).to_be_visible()
    assert [folder.name for folder in (server.home / "runs").iterdir()] == [runs[1]]


def test_the_list_follows_a_run_not_under_a_dialog(visitor: Visitor, server: Server, tmp_path: Path) -> None:
    environment = {**os.environ, "SHOAL_HOME": str(server.home)}
    steps = ["--solver", "gradient", "--workers", "1", "--epochs", "1000000", "--tolerance", "0", "--detach"]
    command = [sys.executable, "-m", "shoal.cli.app", "train", str(small_table(tmp_path)), "--target", "y", *steps]
    assert subprocess.run(command, env=environment, capture_output=True, timeout=120).returncode == 0
    folder = max((server.home / "runs").iterdir())
    page = visitor.visit("runs?state=active")
    expect(page.get_by_role("button", name="Active 1")).to_be_visible()
    click_row(page, 0, TICK)
    page.get_by_role("button", name="Tags and note").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Tags", exact=True).fill("long")
    page.wait_for_timeout(5000)  # two looks at the runs
    expect(dialog.get_by_label("Tags", exact=True)).to_have_value("long")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()
    os.kill(Run(folder).pid or 0, signal.SIGTERM)
    expect(page.get_by_role("button", name="Active 0")).to_be_visible()
    expect(page.get_by_text("No run matches")).to_be_visible()
    until(lambda: not Run(folder).is_alive)
    shutil.rmtree(folder)


def test_phone_width(visitor: Visitor, runs: list[str], server: Server) -> None:
    visitor.page.set_viewport_size({"width": 420, "height": 900})
    page = visitor.visit("runs")
    table(page)
    fits(page)
    kept = Path(server.home / "runs" / runs[1])
    copy = kept.with_name("20260101-000000-0000000")
    shutil.copytree(kept, copy)
    page = visitor.visit(f"runs?compare={runs[1]},{copy.name}")
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    fits(page)
