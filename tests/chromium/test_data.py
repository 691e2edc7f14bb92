"""The Data page in a real Chromium: hostile files, types changed in the table, a phone. Any page error is a failure."""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, WebSocketRoute, expect

from shoal.dashboard.data.columns import NAME
from shoal.words import shortened
from support.browser import SLOW, Server, Visitor, fits, free_port, needs_chromium, opens, page_port, settled
from support.tables import shared

pytestmark = needs_chromium

LONG = "z" * 10_000
HOSTILE_NAMES = [
    "text",
    "<img src=http://evil.example/a.png onerror=alert(1)>", "=cmd()|calc", "**b** _i_ `c`", "$x^2$", ":material/home:",
    "[a](http://evil.example)", "مرحبا بالعالم", "x" * 3_000, "__proto__", "y",
]  # fmt: skip
HOSTILE_TEXTS = [
    "<script>alert(1)</script>",
    '=HYPERLINK("http://evil.example")',
    "![i](http://evil.example/b.png)",
    LONG,
]


def quoted(cells: list[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def hostile_csv() -> str:
    rows = [[f"{(i * 7 + j * j) % 23 - 11}.5" for j in range(len(HOSTILE_NAMES))] for i in range(60)]
    for i, row in enumerate(rows):
        row[0] = HOSTILE_TEXTS[i % 4]
    return "\n".join(quoted(row) for row in [HOSTILE_NAMES, *rows]) + "\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The dashboard with a folder of files that may be opened."""
    folder = tmp_path_factory.mktemp("allowed")
    (folder / "hostile <b>$x$ _i_.csv").write_text(hostile_csv())
    nasty = Path(__file__).parents[3] / "shared" / "csv_nasty" / "files"
    if nasty.is_dir():
        shutil.copytree(nasty, folder / "nasty")
    found = Server(tmp_path_factory.mktemp("home"), page_port(), environment={"SHOAL_DATA": str(folder)})
    found.start()
    yield found
    found.stop()


def tables(page: Page) -> Locator:
    return page.locator("[data-testid=stDataFrame] canvas:has([role=gridcell])")


def cells(page: Page, table: int = 0) -> list[str]:
    """What a table shows, cell by cell, as assistive software reads it."""
    expect(tables(page).nth(table)).to_be_visible()
    return tables(page).nth(table).locator("[role=gridcell]").all_text_contents()


def shows(page: Page, text: str, table: int = 0) -> None:
    cell = tables(page).nth(table).locator("[role=gridcell]").get_by_text(text, exact=True).first
    expect(cell).to_be_attached()


def species_is_read(page: Page, choice: str) -> None:
    expect(tables(page).first.locator("[role=gridcell]").nth(1)).to_have_text(choice)


def read_as(page: Page, row: int, choice: str) -> None:
    """Choose what a column is read as, by mouse and keyboard, in the table."""
    expect(tables(page).first).to_be_visible()
    expect(page.get_by_text("Looking for columns")).to_have_count(0)
    settled(page)
    option = page.locator("#portal").get_by_text(choice, exact=True)
    deadline = time.monotonic() + SLOW / 1000
    while not option.is_visible():  # the table may still move when it is clicked
        assert time.monotonic() < deadline, "the cell did not open"
        page.keyboard.press("Escape")
        tables(page).first.evaluate("table => table.scrollIntoView({block: 'center'})")  # not under the page's head
        page.wait_for_timeout(300)
        box = tables(page).first.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 200, box["y"] + 36 + 44 * row + 22)
        page.keyboard.press("Enter")
        page.wait_for_timeout(1000)
    page.keyboard.type(choice)
    page.keyboard.press("Enter")


def reading_option(page: Page, label: str, option: str) -> None:
    box = page.get_by_role("combobox", name=label)
    opens(page.get_by_text("Reading options", exact=True), box)
    settled(page)
    chosen = page.get_by_role("option", name=option, exact=True)
    box.focus()
    page.wait_for_timeout(500)  # a list closes when the page still scrolls to it
    box.press("ArrowDown")
    expect(chosen).to_be_visible()
    chosen.click()


def test_from_a_sample_over_other_types_and_another_reading_and_back(visitor: Visitor) -> None:
    page = visitor.visit()
    page.get_by_role("button", name="Use this sample").first.click()
    expect(page.get_by_role("heading", name="Palmer penguins")).to_be_visible()
    shows(page, "2007 to 2009")
    first = page.url
    read_as(page, 7, "names")
    page.wait_for_url(re.compile("categorical"))
    shows(page, "2009 (120), 2008 (114), 2007 (110)")
    changed = page.url
    read_as(page, 0, "leave out")
    page.wait_for_url(re.compile("exclude"))
    shows(page, "leave out")
    settled(page)

    page.go_back()
    page.wait_for_url(changed)
    species_is_read(page, "as found")
    page.go_back()
    page.wait_for_url(first)
    shows(page, "2007 to 2009")

    reading_option(page, "First row", "is data")
    page.wait_for_url(re.compile("header"))
    shows(page, "species", table=1)  # the names are a row of the preview now
    page.reload()
    shows(page, "species", table=1)
    expect(page.get_by_text("no header row")).to_be_visible()


class Overheard:
    """What a page and its server say to each other; a message of the page can be said again."""

    def __init__(self, page: Page) -> None:
        self.page, self.said, self.answers = page, list[bytes](), 0
        page.route_web_socket(re.compile("_stcore/stream"), self._connect)

    def _connect(self, link: WebSocketRoute) -> None:
        self.server = link.connect_to_server()

        def to_server(message: str | bytes) -> None:
            self.said.append(message if isinstance(message, bytes) else message.encode())
            self.server.send(message)

        def to_page(message: str | bytes) -> None:
            self.answers += 1
            link.send(message)

        link.on_message(to_server)
        self.server.on_message(to_page)

    def again(self, *parts: bytes) -> None:
        """The first message with all these parts, until the server has dealt with it."""
        answers = self.answers
        self.server.send(next(said for said in self.said if all(part in said for part in parts)))
        while self.answers == answers:
            self.page.wait_for_timeout(50)
        settled(self.page)


def test_what_a_browser_repeats_after_back_is_no_new_choice(visitor: Visitor) -> None:
    """A page that waits for a busy server still tells it what its old widgets hold."""
    page, between = visitor.page, Overheard(visitor.page)
    visitor.visit("?data=penguins")
    shows(page, "2007 to 2009")
    first = page.url
    read_as(page, 0, "leave out")
    page.wait_for_url(re.compile("exclude"))
    shows(page, "leave out")
    page.go_back()
    page.wait_for_url(first)
    species_is_read(page, "as found")
    settled(page)
    between.again(b"edited_rows", b"leave out")
    assert page.url == first
    species_is_read(page, "as found")


def test_a_hostile_file_stays_text(visitor: Visitor) -> None:
    page, asked_for = visitor.page, []

    def note(request: Request) -> None:
        if "evil" in request.url:
            asked_for.append(request.url)

    page.on("request", note)
    page.on("dialog", lambda dialog: asked_for.append(dialog.message))
    visitor.visit()
    page.get_by_placeholder("Find one of").fill("hostile")
    page.keyboard.press("Enter")
    expect(page.get_by_text("hostile <b>$x$ _i_.csv")).to_be_visible()
    page.get_by_role("button", name="Open").first.click()
    expect(page.get_by_role("heading", name="hostile <b>$x$ _i_.csv")).to_be_visible()
    for name in HOSTILE_NAMES:
        shows(page, shortened(name, NAME))
    shows(page, HOSTILE_TEXTS[0], table=1)
    frequent = next(cell for cell in cells(page) if "(15)" in cell)
    assert frequent == f"{HOSTILE_TEXTS[2]} (15), …"
    assert LONG not in frequent

    page.get_by_role("combobox", name="Column to predict").click()
    for name in HOSTILE_NAMES[1:7]:
        expect(page.get_by_role("option", name=name, exact=True)).to_be_attached()
    page.get_by_role("option", name=HOSTILE_NAMES[1], exact=True).click()
    page.wait_for_url(re.compile("target="))
    expect(page.get_by_role("button", name="Train a model")).to_be_enabled()
    assert page.locator("img[src*=evil], a[href*=evil], .katex, script:text('alert(1)')").count() == 0
    page.get_by_test_id("stDataFrame").first.hover(force=True)
    expect(page.get_by_role("button", name=re.compile("Search")).first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Download as CSV"))).to_have_count(0)  # it writes formulas
    fits(page)
    page.set_viewport_size({"width": 420, "height": 900})
    expect(page.get_by_role("button", name="Train a model")).to_be_visible()
    fits(page)
    assert asked_for == []


def test_files_that_are_no_tables_have_their_own_states(visitor: Visitor) -> None:
    """The others of the collection are looked at without a browser, in tests/dashboard/data."""
    for name, wanted in (("frictionless__empty", "This file could not be read"), ("csvspectrum__utf8", "ʤ")):
        shared("csv_nasty", "files", f"{name}.csv")
        page = visitor.visit(f"?data={quote(f'file:nasty/{name}.csv')}")
        expect(page.get_by_role("heading", name=f"{name}.csv")).to_be_visible()
        expect(page.get_by_text(wanted).or_(tables(page).get_by_text(wanted)).first).to_be_attached()
    page.get_by_role("button", name="Other data").click()
    expect(page.get_by_role("button", name="Use this sample").first).to_be_visible()


def test_a_generated_table_is_made_and_read(visitor: Visitor) -> None:
    page = visitor.visit()
    page.get_by_role("button", name="Choose the size").click()
    for label, value in (("Rows", "30000"), ("Columns", "5")):
        field = page.get_by_role("spinbutton", name=label)
        field.fill(value)
        field.press("Enter")
    expect(page.get_by_text("About 1.1 MB on disk.")).to_be_visible()
    page.get_by_role("button", name="Make it").click()
    page.wait_for_url(re.compile("generated"))
    expect(page.get_by_text("30,000 rows · 5 columns")).to_be_visible()
    expect(tables(page)).to_have_count(2)
    opens(page.get_by_text("The true coefficients"), tables(page).nth(2))


def test_nothing_is_wider_than_a_phone_in_either_theme(visitor: Visitor) -> None:
    page = visitor.page
    page.set_viewport_size({"width": 420, "height": 900})
    visitor.visit()
    expect(page.get_by_role("button", name="Use this sample").first).to_be_visible()
    fits(page)
    page.get_by_role("button", name="Use this sample").nth(1).click()
    expect(tables(page).nth(1)).to_be_visible()
    opens(page.get_by_text("Reading options", exact=True), page.get_by_role("combobox", name="Decimal mark"))
    fits(page)
    light = page.screenshot()
    page.emulate_media(color_scheme="dark")
    page.reload()
    expect(tables(page).nth(1)).to_be_visible()
    assert page.screenshot() != light
    fits(page)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Server]:
    """A server of this test's own, to be killed."""
    (tmp_path / "home").mkdir()
    west = "Größe;y\n" + "".join(f"{i % 5};{i % 7}\n" for i in range(40))
    (tmp_path / "west.csv").write_bytes(west.encode("cp1252"))
    found = Server(tmp_path / "home", free_port(), environment={"SHOAL_DATA": str(tmp_path)})
    found.start()
    yield found
    found.stop()


def test_choices_follow_another_encoding_and_outlive_a_killed_dashboard(mortal: Server, browser: Browser) -> None:
    context = mortal.new_context(browser, viewport={"width": 1280, "height": 900})
    visitor = Visitor(context.new_page(), mortal.url)
    page = visitor.visit(f"?data={quote('file:west.csv')}&target=y")
    shows(page, "Größe")
    settled(page)
    read_as(page, 0, "names")
    page.wait_for_url(re.compile("categorical"))
    settled(page)
    reading_option(page, "Text encoding", "Cyrillic (Windows-1251)")
    garbled = "Größe".encode("cp1252").decode("cp1251")
    shows(page, garbled)
    chosen = [page.get_by_role("button", name=text) for text in (f"{garbled} as names", "encoding cp1251", "predict y")]
    for choice in chosen:
        expect(choice).to_be_visible()
    settled(page)
    expect(page.get_by_text("could not be read")).to_have_count(0)
    mortal.stop(signal.SIGKILL)
    mortal.start()
    expect(page.locator("[data-test-connection-state=CONNECTED]")).to_be_attached()
    page.get_by_test_id("stTopNavLink").filter(has_text="Train").click()  # as the tab stands, which was not reloaded
    page.wait_for_url(re.compile(r"/train\?data=.*target=y"))
    settled(page)
    visitor.problems.clear()  # what a page says of a server that is gone is no matter here
    visitor.visit(f"?data={quote('file:west.csv')}")  # and no word of what was chosen
    shows(page, garbled)
    for choice in chosen:
        expect(choice).to_be_visible()
    settled(page)
    context.close()
    assert visitor.problems == []
