"""The page in a real Chromium: upload, fit, reload, a hostile file, a phone. Any page or console error is a failure."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parent.parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
SLOW = 30_000  # milliseconds; a shared machine with two cores is sometimes busy

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@dataclass
class Visitor:
    """One tab, and everything that went wrong in it."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(SLOW)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type == "error" else None)

    def visit(self, address: str = "") -> Page:
        self.page.goto(self.url + address)
        return self.page

    def upload(self, path: Path) -> None:
        self.visit().locator("input[type=file]").set_input_files(path)
        expect(self.page.get_by_role("heading", name="What is in it")).to_be_visible(timeout=SLOW)

    def fit(self) -> None:
        self.page.get_by_role("button", name="Fit", exact=True).click()

    def choose(self, label: str, option: str) -> None:
        self.page.get_by_role("combobox", name=label).click()
        self.page.get_by_role("option", name=option, exact=True).click()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard on a free port with a home of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = tmp_path_factory.mktemp("home")
    command = [sys.executable, "-m", "streamlit", "run", "main.py", "--server.port", str(port)]
    command += ["--server.fileWatcherType", "none"]
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "SHOAL_HOME": str(home)}, stdout=log, stderr=log
        )
    try:
        wait_until_healthy(port, process)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(timeout=20)


def wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail("the dashboard did not start")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGS))
        yield found
        found.close()


@pytest.fixture
def visitor(browser: Browser, server: str) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = Visitor(context.new_page(), server)
    yield tab
    context.close()
    assert tab.problems == []


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(200, 3))
    y = X @ [2.0, -3.0, 0.5] + 1 + 0.1 * rng.normal(size=200)
    path = tmp_path / "made up.csv"
    header = "size,`age` <b>$x$</b>,=weight,price"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=header, comments="", fmt="%.6f")
    return path


def overflow(page: Page) -> int:
    """Pixels by which something is wider than the window."""
    return int(
        page.evaluate(
            "Math.max(...[document.documentElement, ...document.querySelectorAll('[data-testid=stMain]')]"
            ".map(e => e.scrollWidth)) - window.innerWidth"
        )
    )


def test_from_an_upload_to_coefficients_and_back(visitor: Visitor, table: Path) -> None:
    page = visitor.page
    visitor.upload(table)
    expect(page.get_by_text("200 rows, 4 columns")).to_be_visible(timeout=SLOW)
    visitor.choose("Column to predict", "price")
    page.get_by_role("button", name="Ridge").or_(page.get_by_role("radio", name="Ridge")).first.click()
    expect(page.get_by_role("spinbutton", name="Penalty strength (alpha)")).to_be_visible()
    visitor.fit()

    chart = page.locator(".js-plotly-plot")
    expect(chart).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("heading", name="Ridge model of price")).to_be_visible()
    expect(chart.get_by_text("`age` <b>$x$</b>")).to_be_visible()  # the column's name, not its markup
    expect(page.get_by_text("This is the exact optimum")).to_be_visible()
    score = page.get_by_test_id("stMetricValue").first.inner_text()
    assert float(score) > 0.99

    page.get_by_role("tab", name="Table").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Coefficients as CSV").click()
    assert "\n'=weight," in download.value.path().read_text()

    address = page.url
    assert "?run=" in address
    page.reload()
    expect(chart).to_be_visible(timeout=SLOW)
    assert page.get_by_test_id("stMetricValue").first.inner_text() == score
    page.go_back()
    expect(page.get_by_role("button", name="Fit", exact=True)).to_be_visible(timeout=SLOW)
    assert "?data=" in page.url
    page.go_forward()
    expect(chart).to_be_visible(timeout=SLOW)
    assert page.url == address


def test_a_fit_goes_on_when_its_tab_is_closed(visitor: Visitor) -> None:
    page = visitor.visit("?data=diabetes")
    visitor.fit()
    page.wait_for_url("**/?run=*")
    address = page.url
    other = Visitor(page.context.new_page(), visitor.url)
    page.close()
    other.page.goto(address)
    expect(other.page.locator(".js-plotly-plot")).to_be_visible(timeout=SLOW)
    assert other.problems == []


def test_a_ragged_file_gets_plain_words(visitor: Visitor, tmp_path: Path) -> None:
    path = tmp_path / "ragged.csv"
    path.write_text("a,<script>alert(1)</script>,y\n1,2,3\n4,5\n6,7,8,9\n1,2,4\n2,2,5\n")
    page = visitor.page
    visitor.upload(path)
    expect(page.get_by_text("2 rows could not be read")).to_be_visible(timeout=SLOW)
    expect(page.get_by_text("line 3: expected 3 fields, got 2")).to_be_visible()
    visitor.choose("Column to predict", "y")
    visitor.fit()
    alert = page.get_by_role("alert").filter(has_text="This fit did not finish")
    expect(alert).to_be_visible(timeout=SLOW)
    assert "Traceback" not in page.inner_text("body")
    page.get_by_role("button", name="Change settings").click()
    expect(page.get_by_role("combobox", name="Rows that cannot be read")).to_be_visible(timeout=SLOW)


def test_nothing_is_wider_than_a_phone_in_either_theme(visitor: Visitor, tmp_path: Path) -> None:
    visitor.page.set_viewport_size({"width": 420, "height": 900})
    page = visitor.visit()
    expect(page.get_by_text("Use this sample").first).to_be_visible(timeout=SLOW)
    assert overflow(page) <= 0
    page.get_by_role("button", name="Use this sample").first.click()
    expect(page.get_by_role("button", name="Fit", exact=True)).to_be_visible(timeout=SLOW)
    assert overflow(page) <= 0
    visitor.fit()
    chart = page.locator(".js-plotly-plot")
    expect(chart).to_be_visible(timeout=SLOW)
    light = page.screenshot(path=tmp_path / "phone-light.png")
    assert overflow(page) <= 0
    page.emulate_media(color_scheme="dark")
    page.reload()
    expect(chart).to_be_visible(timeout=SLOW)
    assert page.screenshot(path=tmp_path / "phone-dark.png") != light
    assert overflow(page) <= 0
