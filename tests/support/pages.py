"""Pages without a browser: AppTest on the dashboard's script, at an address, with real processes behind it."""

from __future__ import annotations

import functools
import html
import re
import time
from pathlib import Path
from typing import Any

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest, local_script_runner
from streamlit.util import calc_hash

from shoal.dashboard.tables import uploads
from shoal.home import jobs_directory
from shoal.runs.launch import Run, list_runs

ROOT = Path(__file__).parents[2]

# For every page that is opened, AppTest reads the metadata of all that is installed: a third of a second each.
manifest_scanner.scan_component_manifests = functools.cache(manifest_scanner.scan_component_manifests)


def _wait_for_the_script(runner: local_script_runner.LocalScriptRunner, timeout: float = 3) -> None:
    """AppTest looks a thousand times a second whether the script has ended, at all that it has sent so far."""
    assert runner._script_thread is not None
    runner._script_thread.join(timeout)
    if runner._script_thread.is_alive():
        runner.request_stop()
        runner.join()
        raise RuntimeError(f"Expected the page's script to end within {timeout:g} s, it did not.")


local_script_runner.require_widgets_deltas = _wait_for_the_script


def open_page(name: str = "data", **address: str) -> AppTest:
    """A page as a browser would open it at /name?address."""
    page = AppTest.from_file(str(ROOT / "dashboard" / "app.py"), default_timeout=120)
    page._page_hash = calc_hash(name)
    page.query_params.update(address)
    return checked(page.run())


def uploaded(content: bytes, name: str) -> Path:
    """A file as the route of uploads leaves it."""
    with uploads.incoming() as upload:
        upload.write(content)
        return upload.settle(name)


def checked(page: AppTest) -> AppTest:
    assert not page.exception, page.exception
    return page


def now_on(page: AppTest) -> AppTest:
    """After something led to another page: stay there in later runs."""
    page._page_hash = ""
    return checked(page)


def settle(page: AppTest, seconds: float = 120) -> AppTest:
    """Wait for the processes behind the page, and draw it again; also for those that this drawing starts."""
    deadline = time.monotonic() + seconds
    while True:
        while going_on := [run for run in [*list_runs(), *map(Run, jobs_directory().glob("*/*"))] if run.is_active]:
            while going_on := [run for run in going_on if run.is_active]:  # all those that ended need no second look
                assert time.monotonic() < deadline, "a run did not end"
                time.sleep(0.05)
        before = set(jobs_directory().glob("*/*"))
        page = checked(page.run())
        if set(jobs_directory().glob("*/*")) <= before:  # answers that were shown may be gone
            return page


def scrolled(page: AppTest) -> list[str]:
    """The texts of all boxes that scroll."""
    boxes = re.findall(r'<pre class="shoal-scroll"[^>]*>(.*?)</pre>', said(page), re.DOTALL)
    return [html.unescape(box) for box in boxes]


def said(page: AppTest) -> str:
    """All the text in our own boxes and lines."""
    return " ".join(element.proto.body for element in page.get("html"))


def widget(page: AppTest, kind: str, label: str) -> Any:
    return next(w for w in page.get(kind) if w.label == label)


def page_bytes(page: AppTest) -> int:
    """What a browser is sent to draw the page."""
    protos = (getattr(element, "proto", None) for element in page._tree)
    return sum(proto.ByteSize() for proto in protos if proto is not None)
