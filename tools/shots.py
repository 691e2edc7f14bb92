"""Pictures of every page with real content, `make shots`: a dashboard with a new home, runs made by the product itself.

The pictures go to docs/images, the light and dark ones of every page and some at phone width. It fails on anything that
goes wrong in a page, and ends everything it has started. What pages show is none of its business.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Page, TimeoutError, sync_playwright

from shoal.home import jobs_directory
from shoal.runs.commands import metrics_of, post
from shoal.runs.launch import Run, launch, launch_job, list_runs
from shoal.settings.values import config_from
from support.browser import ARGS, CHROMIUM, Server, free_port

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
WIDE, NARROW = (1280, 900), (420, 900)
LOOKS = ((WIDE, "light", "light"), (WIDE, "dark", "dark"), (NARROW, "light", "phone"))
PATIENCE = 60.0  # seconds for anything to come to pass; two cores may be busy with other things
STILL = 3.0  # seconds for a page to stand still
BREATH = 1.0  # seconds between the last of those and the one that is kept: taking them holds up a live page
MOST_BYTES = 3_000_000  # of all pictures together
# A page asks beside its own address first whether the server is there; Streamlit does so on every page but the first.
HARMLESS = re.compile(r"/_stcore/(health|host-config)$")
SETTLED = """() => {
  const app = document.querySelector('[data-testid="stApp"]');
  return app && document.fonts.status === 'loaded'
    && document.querySelectorAll('[data-testid="stElementContainer"]').length > 3
    && !document.querySelector('[data-testid="stSkeleton"], [data-testid="stSpinner"], [data-stale="true"]');
}"""
SHOWS = """text => document.body.innerText.includes(text)
    || [...document.querySelectorAll('input')].some(input => input.value.includes(text))"""
DRAWN = """() => !/Waiting for the first round|Loading the curves/.test(document.body.innerText)
    && [...document.querySelectorAll('.js-plotly-plot')].every(plot => plot.querySelector('.main-svg'))"""


@dataclass(frozen=True)
class PageView:
    """A page at an address, with a text and so many curves once it is drawn; phone: also at that width."""

    name: str
    address: str
    shows: str
    phone: bool = False
    curves: int = 0
    height: int = 0  # of the window, where the usual one would cut off what matters


def until(what: Callable[[], Any], of: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"It did not come to pass: {of}.")
        time.sleep(0.05)
    return found


# ------------------------------------------------------------------ something to show


def ended(run: Run) -> Run:
    until(lambda: not run.is_active and not run.is_alive, f"the end of {run.directory}")
    if run.state != "finished":
        raise RuntimeError(f"{run.directory} is {run.state}: {run.cause}")
    return run


def fitted(path: Path, target: str, **knobs: Any) -> Run:
    return ended(launch(config_from({"file": str(path), "target": target, **knobs})))


def generated() -> Path:
    job = ended(launch_job("generate", config_from({}), {"rows": 400_000, "columns": 16}))
    return Path(str((job.result or {})["file"]))


def live_run(path: Path) -> Run:
    """Two workers in mode ssp, one of which is killed and replaced; it would go on for a long time."""
    knobs = {"solver": "gradient", "workers": 2, "mode": "ssp", "epochs": 20_000, "tolerance": 0, "test_every": 5}
    own = {"model": "ridge", "alpha": 1.0, "learning_rate": 0.0001}
    config = config_from({"file": str(path), "target": "y", **own, **knobs})
    run = launch(config)
    until(lambda: _round(run) > 150 or not run.is_active, "some rounds")
    post(run, "kill_worker", {"rank": 1})
    until(lambda: "restarted" in _events(run) or not run.is_active, "another worker")
    begun = _round(run)
    until(lambda: _round(run) > begun + 300 or not run.is_active, "more rounds")
    if not run.is_active:
        raise RuntimeError(f"The run was to go on, but is {run.state}: {run.cause}")
    return run


def _round(run: Run) -> int:
    with metrics_of(run) as storage:
        last = storage.last_round() if storage else None
    return last.round if last else 0


def _events(run: Run) -> set[str]:
    with metrics_of(run) as storage:
        return {event.kind for _, event in storage.events()} if storage else set()


def views(open_: Callable[[str], None]) -> list[PageView]:
    """Make what the pictures show. `open_` visits an address: samples are written when they are first looked at."""
    home = Path(os.environ["SHOAL_HOME"])
    for sample in ("penguins", "seattle-weather"):
        open_(f"?data={sample}")
    until(lambda: all(not Run(path).is_active for path in jobs_directory().glob("inspect/*")), "the looks at files")
    penguins, weather = home / "samples" / "penguins.csv", home / "samples" / "seattle-weather.csv"
    until(lambda: penguins.exists() and weather.exists(), "the samples")
    kept = {"test_every": 5, "register": "penguins-body_mass_g"}
    ridge = fitted(penguins, "body_mass_g", model="ridge", **kept)
    linear = fitted(penguins, "body_mass_g", model="linear", **kept)
    fitted(weather, "temp_max", model="lasso", alpha=0.1, test_every=5, register="seattle-weather-temp_max")
    steps = {"solver": "gradient", "engine": "inline", "epochs": 30, "test_every": 5}
    momentum = fitted(penguins, "body_mass_g", step_rule="momentum", **steps)
    adam = fitted(penguins, "body_mass_g", step_rule="adam", **steps)
    live = live_run(generated())
    model = min(path.name for path in (home / "models").iterdir() if path.is_dir())
    return [
        PageView("run", f"train?run={live.id}", "Epoch", phone=True, curves=4),
        PageView("system", "system", "Disk space", phone=True),
        PageView("choose", "", "Choose"),
        PageView("data", "?data=penguins", "344", phone=True),
        PageView("train", "train?data=penguins", "Column to predict", phone=True),
        PageView(
            "tune", "tune?data=penguins&model=elasticnet", "Cross-validated error", phone=True, curves=6, height=1420
        ),
        PageView("result", f"train?run={linear.id}", "penguins", phone=True),
        PageView("runs", "runs", "6 runs", phone=True),
        PageView("compare", f"runs?compare={momentum.id},{adam.id},{ridge.id}", "Settings that differ", curves=2),
        PageView("models", "models", "penguins"),
        PageView("model", f"models?model={model}&version=1", model, phone=True),
    ]


# ------------------------------------------------------------------ pictures


class Camera:
    """Takes pictures, and remembers everything that goes wrong in a page."""

    def __init__(self, browser: Browser, server: Server, folder: Path, height: int) -> None:
        self.browser, self.server, self.folder, self.height = browser, server, folder, height
        self.url = server.url
        self.problems: list[str] = []

    @contextlib.contextmanager
    def tab(self, size: tuple[int, int], scheme: Any) -> Iterator[Page]:
        viewport = {"width": size[0], "height": self.height or size[1]}
        context = self.server.new_context(self.browser, viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.on("console", lambda message: self._said(page, message))
        page.on("pageerror", lambda error: self.problems.append(f"{page.url}: {error}"))
        yield page
        context.close()

    def _said(self, page: Page, message: ConsoleMessage) -> None:
        if message.type == "error" and not HARMLESS.search(message.location.get("url", "")):
            self.problems.append(f"{page.url}: {message.text} ({message.location.get('url', '')})")

    def visit(self, page: Page, address: str, shows: str = "", curves: int = 0) -> None:
        page.goto(self.url + address)
        page.wait_for_function(SETTLED)
        try:
            page.wait_for_function(SHOWS, arg=shows)
            page.wait_for_function(DRAWN)
            if curves:
                page.locator(".scatterlayer .trace").nth(curves - 1).wait_for(state="attached")
        except TimeoutError:
            self.problems.append(f"{page.url}: expected '{shows}' on the page and its charts drawn")
        if "unforeseen reason" in page.inner_text("body"):
            self.problems.append(f"{page.url}: the page failed")

    def shoot(self, page: Page, view: PageView, name: str) -> Path:
        narrow = (page.viewport_size or {}).get("width") == NARROW[0]
        curves = min(view.curves, 1) if narrow else view.curves  # charts below the window are drawn when they are seen
        if not narrow:
            page.set_viewport_size({"width": WIDE[0], "height": self.height or view.height or WIDE[1]})
        self.visit(page, view.address, view.shows, curves)
        quiet(page)
        page.wait_for_timeout(BREATH * 1000)
        path = self.folder / f"{name}.png"
        save(page.screenshot(animations="disabled"), path)
        print(f"  {path.name}", flush=True)
        return path


def quiet(page: Page) -> None:
    """Wait until two pictures are alike; a page that is alive never stands still, so not for long."""
    last, deadline = b"", time.monotonic() + STILL
    while (now := page.screenshot(animations="disabled")) != last and time.monotonic() < deadline:
        last = now


def save(picture: bytes, path: Path) -> None:
    """256 colours are enough for a page, and a third of the bytes."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


# ------------------------------------------------------------------ all of it


def main() -> int:
    parser = argparse.ArgumentParser(description="Pictures of every page, light and dark, with real content.")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures (docs/images)")
    parser.add_argument("--height", type=int, default=0, help="height of the window, to see a page as a whole")
    parser.add_argument("--only", default="", help="names of views, with commas between them")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # so that what was started ends as well
    if CHROMIUM is None:
        print("shots: expected Chromium or Chrome on this machine, found none. Install it.", file=sys.stderr)
        return 1
    chosen.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="shoal-shots-") as folder:
        os.environ["SHOAL_HOME"] = folder
        os.environ.pop("SHOAL_PASSWORD", None)
        server = Server(Path(folder), free_port())
        try:
            server.start()
            problems = _all_pictures(server, chosen.out, chosen.height, set(filter(None, chosen.only.split(","))))
        finally:
            _end_everything(server)
    for problem in problems:
        print(f"shots: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _all_pictures(server: Server, out: Path, height: int, only: set[str]) -> list[str]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGS))
        camera = Camera(browser, server, out, height)
        print("Making something to show ...", flush=True)
        with camera.tab(WIDE, "light") as page:
            wanted = [
                view for view in views(lambda address: camera.visit(page, address)) if not only or view.name in only
            ]
        taken = []
        for size, scheme, ending in LOOKS:
            with camera.tab(size, scheme) as page:
                for view in wanted:
                    if size == WIDE or view.phone:
                        taken.append(camera.shoot(page, view, f"{view.name}-{ending}"))
        browser.close()
    total = sum(path.stat().st_size for path in taken)
    print(f"{len(taken)} pictures, {total / 1e6:.1f} MB, in {out}")
    if total > MOST_BYTES and not height:
        camera.problems.append(f"the pictures take {total:,} bytes, expected at most {MOST_BYTES:,}")
    return camera.problems


def _end_everything(server: Server) -> None:
    """The server, the live run, and whatever else works in this home."""
    for run in [*list_runs(), *map(Run, jobs_directory().glob("*/*"))]:
        if pid := run.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
    shutil.rmtree(Path(os.environ["SHOAL_HOME"]) / "queue", ignore_errors=True)  # nobody is started again
    until(lambda: not any(run.is_alive for run in list_runs()), "the end of the runs")
    server.stop()


if __name__ == "__main__":
    sys.exit(main())
