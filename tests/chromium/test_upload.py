"""The server in a real browser: the drop zone with files of any size, the login, and no image from elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from shoal.dashboard.http import access
from support.browser import Server, Visitor, fits, free_port, needs_chromium, page_port, settled
from support.dashboard.accessibility import faults
from support.runs import until

pytestmark = needs_chromium

BLOCK = b"".join(b"%d,%d,%d\n" % (i, i * 7 % 1000, i * i % 977) for i in range(60_000))
LARGE = 300_000_000  # bytes
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("home"), page_port(), environment={"SHOAL_MAX_UPLOAD": "310 MB"})
    found.start()
    yield found
    end_jobs(found)
    found.stop()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("files") / "large.csv"
    with path.open("wb") as file:
        file.write(b"a,b,c\n")
        for _ in range(LARGE // len(BLOCK) + 1):
            file.write(BLOCK)
    yield path
    path.unlink()


def end_jobs(server: Server) -> None:
    """What looks at an uploaded file is not the subject here, and a large one keeps it busy."""
    assert server.process is not None
    jobs = psutil.Process(server.process.pid).children(recursive=True)
    for job in jobs:
        job.kill()
    psutil.wait_procs(jobs, timeout=5)


def zone(page: Page) -> Locator:
    return page.get_by_label("Drop a CSV file here")


def kept(server: Server) -> list[Path]:
    return [path for path in (server.home / "uploads").rglob("*") if path.is_file()]


def at_most(page: Page, speed: int) -> None:
    """Bytes a second for what this tab sends, so that an upload takes a while on every machine."""
    speeds = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": speed}
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", {"offline": False, **speeds})


class MemoryWatch:
    """The most memory that a process has while this is open."""

    def __init__(self, process: int) -> None:
        self.process = psutil.Process(process)
        self.before = self.most = self.process.memory_info().rss
        self.open = True
        self.thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while self.open:
            self.most = max(self.most, self.process.memory_info().rss)
            time.sleep(0.01)

    def __enter__(self) -> MemoryWatch:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.open = False
        self.thread.join()

    @property
    def growth(self) -> float:
        """MB."""
        return (self.most - self.before) / 1e6


# ------------------------------------------------------------------ uploads


def test_a_small_file_is_dropped_and_opened(visitor: Visitor, server: Server) -> None:
    page = visitor.visit()
    zone(page).wait_for()
    page.evaluate(DROP, ["small.csv", "x,y\n1,2\n2,4.1\n3,5.9\n"])
    page.wait_for_url("**/?data=*small.csv*")
    assert [path.read_text() for path in kept(server) if path.name == "small.csv"] == ["x,y\n1,2\n2,4.1\n3,5.9\n"]


def test_several_files_become_one_table(visitor: Visitor, tmp_path: Path) -> None:
    parts = []
    for number in range(2):
        parts.append(tmp_path / f"part-{number}.csv")
        parts[-1].write_text(f"x,y\n{number},2\n{number + 2},4\n")
    page = visitor.visit()
    zone(page).wait_for()
    settled(page)
    zone(page).set_input_files(parts)
    page.wait_for_url("**/?data=*part-2-files*")
    page.get_by_text("4 rows").first.wait_for()


# A file dragged from elsewhere cannot be made by a test; the events that it causes can.
DROP = """([name, text]) => {
  const find = root => [...root.querySelectorAll("*")].flatMap(e => [...(e.matches(".zone") ? [e] : []),
    ...(e.shadowRoot ? find(e.shadowRoot) : [])])
  const data = new DataTransfer()
  data.items.add(new File([text], name))
  const zone = find(document)[0]
  zone.dispatchEvent(new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true }))
  if (!zone.classList.contains("over")) throw new Error("the zone does not show that a file is above it")
  zone.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }))
}"""


def test_a_large_file_streams_through_and_the_server_holds_none_of_it(
    visitor: Visitor, server: Server, large: Path
) -> None:
    assert server.process is not None
    page = visitor.visit()
    zone(page).wait_for()
    settled(page)
    at_most(page, 60_000_000)
    with MemoryWatch(server.process.pid) as memory:
        zone(page).set_input_files(large)
        progress = page.get_by_role("progressbar", name="Upload of large.csv")
        progress.wait_for()
        page.get_by_text("MB/s").wait_for()
        figures = page.get_by_text("MB/s").inner_text()
        page.wait_for_url("**/?data=*large.csv*")
        end_jobs(server)
    assert memory.growth < 100
    assert "of 300 MB" in figures.replace("301", "300")
    assert "left" in figures
    assert [path.stat().st_size for path in kept(server) if path.name == "large.csv"] == [large.stat().st_size]


def test_an_upload_can_be_cancelled(visitor: Visitor, server: Server, large: Path) -> None:
    before = sorted(kept(server))
    page = visitor.visit()
    zone(page).wait_for()
    at_most(page, 5_000_000)
    zone(page).set_input_files(large)
    page.get_by_text("MB/s").wait_for()
    assert len(kept(server)) > len(before)
    page.get_by_role("button", name="Cancel").click()
    expect(zone(page)).to_be_visible()
    until(lambda: sorted(kept(server)) == before)
    assert "data=" not in page.url


def test_what_cannot_be_taken_is_said_at_once(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.visit()
    zone(page).wait_for()
    huge = tmp_path / "huge.csv"
    with huge.open("wb") as file:
        file.truncate(311_000_000)
    for path, said in [(huge, "at most 310 MB"), (empty(tmp_path), "empty"), (picture(tmp_path), "ends in csv")]:
        zone(page).set_input_files(path)
        expect(page.get_by_role("alert")).to_contain_text(said)
        expect(zone(page)).to_be_visible()


def empty(folder: Path) -> Path:
    (folder / "empty.csv").touch()
    return folder / "empty.csv"


def picture(folder: Path) -> Path:
    (folder / "<b>picture.png").write_bytes(b"\x89PNG")
    return folder / "<b>picture.png"


def test_it_works_without_a_mouse_and_on_a_phone(visitor: Visitor) -> None:
    page = visitor.visit()
    zone(page).wait_for()
    settled(page)
    zone(page).focus()
    with page.expect_file_chooser() as chooser:
        zone(page).press("Enter")
    assert chooser.value.is_multiple()  # several files are one table
    page.set_viewport_size({"width": 420, "height": 800})
    fits(page)
    box = page.get_by_text("Browse files").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 420


# ------------------------------------------------------------------ a rule for pages


def test_no_remote_image_can_load(browser: Browser, server: Server) -> None:
    page = server.new_context(browser).new_page()
    page.goto(server.url)
    blocked = page.evaluate(
        """() => new Promise(done => {
          document.addEventListener("securitypolicyviolation", e => done([e.effectiveDirective, e.blockedURI]))
          document.body.append(Object.assign(new Image(), { src: "https://pictures.example/x.png" }))
          setTimeout(() => done(["loaded", ""]), 3000)
        })"""
    )
    page.context.close()
    assert blocked == ["img-src", "https://pictures.example/x.png"]


# ------------------------------------------------------------------ the login


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    access.set_password(PASSWORD)
    found = Server(tmp_path, free_port())
    found.start()
    yield found
    found.stop()


def test_log_in_and_out(browser: Browser, locked: Server) -> None:
    context = browser.new_context(color_scheme="dark", viewport={"width": 420, "height": 800})
    visitor = Visitor(context.new_page(), locked.url)
    page = visitor.visit("system?from=a%20link")
    field = page.get_by_label("Password")
    expect(field).to_be_focused()
    fits(page)
    page.keyboard.type("wrong horse")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("That is not the password.")
    assert faults(page) == []
    field.fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/system?from=a%20link")
    page.get_by_role("heading", name="System").first.wait_for()
    assert any(cookie["httpOnly"] for cookie in context.cookies())
    visitor.visit("logout")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    visitor.visit("runs")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    context.close()
    # A request that was under way when the session ended is refused, and Chromium says so on its console; a part of the
    # page that was still to come is one, too.
    refused = "401 (Unauthorized)", "Failed to fetch dynamically imported module"
    assert [text for text in visitor.problems if not any(words in text for words in refused)] == []
