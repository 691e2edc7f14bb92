"""Real Chromium for tests of pages: a server with a home of its own, tabs, and everything that goes wrong in them."""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# The same engine without a browser's windows: pages take a third less of its time. Files of tests that want all of
# Chromium say so with BROWSER.
QUICK = shutil.which("chromium-headless-shell") or CHROMIUM
ARGS = (
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
# At /train and the like, Streamlit's page asks /train/_stcore/... first, to learn where the app lives; that is no error.
PROBE = re.compile(r"/\w+/_stcore/(health|host-config)$")
SLOW = (
    120_000  # milliseconds; a browser, a server and runs share two cores with other tests, and perhaps with other work
)
LOOK = (
    100  # milliseconds between two looks; unless told, Playwright makes the page draw frame after frame while it waits
)
expect.set_options(timeout=SLOW)

needs_chromium = [pytest.mark.skipif(QUICK is None, reason="no chromium on this machine"), pytest.mark.timeout(900)]


@dataclass
class Visitor:
    """One tab, and everything that went wrong in it."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(SLOW)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._heard)

    def _heard(self, message: ConsoleMessage) -> None:
        address = message.location.get("url", "")
        if message.type == "error" and not PROBE.search(address):
            self.problems.append(f"{message.text} ({address})")

    def visit(self, address: str = "") -> Page:
        self.page.goto(self.url + address)
        return self.page

    def choose(self, label: str, option: str) -> None:
        self.page.get_by_role("combobox", name=label).click()
        self.page.get_by_role("option", name=option, exact=True).click()


@dataclass
class Server:
    """The dashboard on a free port; it can be killed and started again, as a user would."""

    home: Path
    port: int
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    cookie: str = ""  # of whoever used the printed address, NAME=VALUE

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        command = [sys.executable, "-m", "streamlit", "run", "main.py", "--server.port", str(self.port)]
        command += ["--server.fileWatcherType", "none", *self.arguments]
        environment = {**os.environ, "SHOAL_HOME": str(self.home), **self.environment}
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        wait_until_healthy(self.port, self.process)
        if (
            not self.cookie
            and not any((self.home / name).exists() for name in ("password", "people.sqlite", "people.in-database"))
            and "SHOAL_NO_TOKEN" not in environment
        ):
            self.cookie = came_by(printed_address(self.home / "server.log", self.process))

    def new_context(self, browser: Browser, **how: Any) -> BrowserContext:
        """A browser's window in which somebody is in, as after the printed address was opened."""
        context = browser.new_context(**how)
        self.lets_in(context)
        return context

    def lets_in(self, window: BrowserContext) -> None:
        if self.cookie:
            name, _, value = self.cookie.partition("=")
            window.add_cookies([{"name": name, "value": value, "url": self.url}])

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=SLOW / 1000)
            self.process = None


def printed_address(log: Path, process: subprocess.Popen[bytes]) -> str:
    """The newest address with a token that a server has printed."""
    deadline = time.monotonic() + SLOW / 1000
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.findall(r"http://\S+/\?token=[\w-]+", log.read_text(errors="replace")):
            return str(found[-1])
        time.sleep(0.1)
    pytest.fail("the dashboard printed no address")


def came_by(address: str) -> str:
    """The cookie that the printed address is exchanged for."""
    parts = urllib.parse.urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=SLOW / 1000)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Accept": "text/html"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 303, answer.status
        return str(answer.headers["set-cookie"]).split(";")[0]
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@functools.cache
def page_port() -> int:
    """For one dashboard after the other: a browser knows compiled scripts by their address, port included.

    Below the ports that systems give to connections, so that it stays free while nobody listens.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("home"), page_port())
    found.start()
    yield found
    found.stop()


def wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SLOW / 1000
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail("the dashboard did not start")


@pytest.fixture(scope="module")
def window(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser with a profile that outlives it: it has compiled Streamlit's scripts once, which is half of what a page costs.

    It is closed after each file: Playwright's event loop would be in the way of tests that make their own.
    """
    program = getattr(request.module, "BROWSER", QUICK)
    profile = tmp_path_factory.getbasetemp() / f"profile-{Path(program).name}"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch_persistent_context(
            profile, executable_path=program, args=list(ARGS), viewport={"width": 1280, "height": 900}
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def browser(window: BrowserContext) -> Browser:
    """For windows that share nothing with others: of a phone, of another person."""
    assert window.browser is not None
    return window.browser


@pytest.fixture
def visitor(window: BrowserContext, server: Server) -> Iterator[Visitor]:
    """Somebody who comes for the first time, but for what the browser keeps of scripts."""
    page = window.new_page()
    window.clear_cookies()
    window.new_cdp_session(page).send(
        "Storage.clearDataForOrigin", {"origin": server.url.rstrip("/"), "storageTypes": "local_storage,indexeddb"}
    )
    server.lets_in(window)
    tab = Visitor(page, server.url)
    yield tab
    for each in window.pages[1:]:  # the first is the browser's own, without which it would end
        each.close()
    assert tab.problems == []


def settled(page: Page) -> None:
    """Wait until the page is drawn for what was last asked of it; a click before that may be lost."""
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()


def opens(button: Locator, shown: Locator) -> None:
    """Press until what it opens is there: a page that is drawn anew just then loses a click."""
    deadline = time.monotonic() + SLOW / 1000
    while not shown.is_visible():
        assert time.monotonic() < deadline, "it did not open"
        button.click()
        with contextlib.suppress(AssertionError):
            expect(shown).to_be_visible(timeout=5000)


def overflow(page: Page) -> int:
    """Pixels by which something is wider than the window."""
    return int(
        page.evaluate(
            "Math.max(...[document.documentElement, ...document.querySelectorAll('[data-testid=stMain]')]"
            ".map(e => e.scrollWidth)) - window.innerWidth"
        )
    )


def fits(page: Page) -> None:
    """Nothing is wider than the window, once the page has followed a change of its size."""
    deadline = time.monotonic() + SLOW / 1000
    while overflow(page) > 0:
        assert time.monotonic() < deadline, f"{overflow(page)} pixels wider than the window"
        page.wait_for_timeout(100)
