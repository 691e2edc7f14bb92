"""The dashboard in figures, `python -m benchmarks.dashboard`: load by tabs, delay to the chart, long runs and lists.

Real tabs in a real Chromium on a server with a home of its own. The run that is watched is a store that this program
fills at a known rate under the run's lock, so that what is measured is the dashboard and not the training.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from shoal.errors import Standing
from shoal.files.locks import own_lock
from shoal.home import runs_directory
from shoal.metrics import HostSample, Round, WorkerSample
from shoal.runs.folder import Run, new_run_id, write_state
from shoal.settings.config import RunConfig
from shoal.storage import Storage, open_storage
from support.browser import ARGS, CHROMIUM, Server, free_port

REPEATS = 3
SECONDS = 12.0  # of each measurement of load
BATCH, EVERY = 10, 0.1  # rounds that are added at a time, and the seconds between: more than five updates a second
RUNS = 1000
UPLOAD = 1_000_000_000
LAST = "n => (document.querySelector('[data-panel=loss] .js-plotly-plot')?.data?.[0]?.x?.at(-1) ?? 0) >= n"


def a_round(n: int) -> Round:
    return Round(
        n, n / 10, "steps", n / 100, 1 / n + 0.1, 0.9, 1 / (n + 1), 1.0, 0.5, 1.0, 3, 1e6, 80, 40,
        0.1, 0.5, 0.3, 0.1, 0.0, 2,
    )  # fmt: skip


def made_run(rounds: int) -> Run:
    """A gradient run with so many recorded rounds."""
    folder = runs_directory() / new_run_id()
    folder.mkdir(parents=True)
    config = RunConfig(file="/nowhere/table.csv", target="y", solver="gradient", epochs=10**6)
    (folder / "config.json").write_text(json.dumps(config.as_dict()))
    (folder / "job.json").write_text(json.dumps({"task": "train"}))
    (folder / "started").touch()
    write_state(folder, Standing("running"))
    run = Run(folder)
    with open_storage(run.metrics_url) as storage:
        for first in range(1, rounds + 1, 1000):
            storage.add([a_round(n) for n in range(first, min(first + 1000, rounds + 1))])
    return run


class Feeder:
    """Adds rounds and samples at a steady rate."""

    def __init__(self, storage: Storage, at: int) -> None:
        self.storage, self.at = storage, at

    def add(self, count: int = BATCH) -> int:
        self.storage.add([a_round(self.at + i + 1) for i in range(count)])
        self.at += count
        return self.at

    def feed(self, seconds: float) -> None:
        start = time.monotonic()
        for turn in range(int(seconds / EVERY)):
            self.add()
            if turn % 10 == 0:
                at = self.at / 100
                workers = [WorkerSample(at, r, 5, "working", 0.4, 3, 4, 0.0, 0.1, None) for r in range(2)]
                self.storage.add([HostSample(at, 0.5, 1, 2, 1.0, 2.0, 3.0, 4.0), *workers])
            time.sleep(max(0.0, start + (turn + 1) * EVERY - time.monotonic()))


@contextlib.contextmanager
def tabs(server: Server, browser: Browser, url: str, count: int) -> Iterator[list[Page]]:
    contexts = [server.new_context(browser, viewport={"width": 1280, "height": 900}) for _ in range(count)]
    pages = [context.new_page() for context in contexts]
    for page in pages:
        page.set_default_timeout(60_000)
        page.goto(url)
        page.wait_for_function(LAST, arg=1)
    try:
        yield pages
    finally:
        for context in contexts:
            context.close()


def load(server: psutil.Process, work: Callable[[], None]) -> float:
    """Share of a core that the server takes while something is done."""
    before, start = sum(server.cpu_times()[:2]), time.monotonic()
    work()
    return (sum(server.cpu_times()[:2]) - before) / (time.monotonic() - start)


def watch(browser: Browser, server: Server) -> None:
    run = made_run(1200)
    process = psutil.Process(server.process.pid if server.process else 0)
    url = f"{server.url}train?run={run.id}"
    with own_lock(run.directory), open_storage(run.metrics_url) as storage:
        feeder = Feeder(storage, 1200)
        for _ in range(REPEATS):
            shares = []
            for count in (0, 1, 4):
                with tabs(server, browser, url, count):
                    time.sleep(2)
                    shares.append(load(process, lambda: feeder.feed(SECONDS)))
            none, one, four = shares
            print(f"server, share of a core: {none:.1%} without a tab, {one:.1%} with one, {four:.1%} with four "
                  f"(four / one {four / one:.2f}); machine load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip
        with tabs(server, browser, url, 1) as (page,):
            time.sleep(3)
            for _ in range(REPEATS):
                print("metric to chart: " + _spread([_delay(page, feeder, i) for i in range(20)]), flush=True)


def _delay(page: Page, feeder: Feeder, turn: int) -> float:
    time.sleep(0.3 + 0.031 * turn)
    start = time.perf_counter()
    page.wait_for_function(LAST, arg=feeder.add(1), polling="raf")
    return time.perf_counter() - start


def _spread(seconds: list[float]) -> str:
    return f"median {1000 * statistics.median(seconds):.0f} ms, longest {1000 * max(seconds):.0f} ms"


def long_runs(browser: Browser, server: Server) -> None:
    short, long = made_run(1000), made_run(100_000)
    times: dict[str, list[float]] = {"1,000": [], "100,000": []}
    for _ in range(REPEATS):
        for name, run, last in (("1,000", short, 1000), ("100,000", long, 100_000)):
            times[name] += _visits(server, browser, f"train?run={run.id}", LAST, last, 3)[1:]
    for name, seconds in times.items():
        print(f"page of a run of {name} rounds, to its chart, on a later visit: {_spread(seconds)}", flush=True)


def _visits(
    server: Server, browser: Browser, place: str, ready: str, arg: object = None, count: int = 1
) -> list[float]:
    """Seconds from the address to the drawn page, one visit after another; the first has nothing in its cache."""
    context = server.new_context(browser, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        page.goto(server.url + place)
        page.wait_for_function(ready, arg=arg, polling="raf")
        seconds.append(time.perf_counter() - start)
    context.close()
    return seconds


def many_runs(browser: Browser, server: Server) -> None:
    """Copies of finished runs, as many as people have after some months."""
    config = RunConfig(file="/nowhere/table.csv", target="y", model="ridge", alpha=1.0)
    result = {
        "state": "finished", "cause": "The fit is complete.", "target": "y", "timings": {"total": 1.0},
        "coefficients": {f"x{i}": 1.0 for i in range(50)}, "train": {"rows": 100, "r2": 0.9, "rmse": 1.0},
        "test": {"rows": 20, "r2": 0.8, "rmse": 1.1},
    }  # fmt: skip
    for number in range(RUNS):
        folder = (
            runs_directory() / f"20260101-{number // 3600:02d}{number // 60 % 60:02d}{number % 60:02d}-{number:07d}"
        )
        folder.mkdir(parents=True)
        for name, content in {"config": config.as_dict(), "job": {"task": "train"}, "result": result}.items():
            (folder / f"{name}.json").write_text(json.dumps(content))
        (folder / "started").touch()
    drawn = """() => document.querySelector('[data-testid=stDataFrame] canvas')?.width > 0
        && /of 1,0\\d\\d runs/.test(document.body.innerText)"""
    _visits(server, browser, "runs", drawn)  # the first list ever makes the accounts of all runs
    first, *later = _visits(server, browser, "runs", drawn, count=2 * REPEATS + 1)
    print(f"page of {RUNS:,} runs: {first:.2f} s with an empty browser cache, then {_spread(later)}", flush=True)


def upload(server: Server) -> None:
    """A gigabyte by the streaming route, and what it does to the server's memory."""
    process = psutil.Process(server.process.pid if server.process else 0)
    before = process.memory_info().rss
    row = b"1.25,2.5,3.75\n"
    path = Path(os.environ["SHOAL_HOME"]) / "upload.csv"
    with path.open("wb") as file:
        file.write(b"a,b,y\n")
        for _ in range(UPLOAD // (len(row) * 100_000)):
            file.write(row * 100_000)
    headers = {"X-Shoal": "1", "Origin": server.url.rstrip("/"), "Content-Length": str(path.stat().st_size)}
    headers["Cookie"] = server.cookie
    peak, start = before, time.monotonic()
    with path.open("rb") as file:

        def pieces() -> Iterator[bytes]:
            nonlocal peak
            while piece := file.read(1 << 20):
                peak = max(peak, process.memory_info().rss)
                yield piece

        request = urllib.request.Request(f"{server.url}api/upload?name=big.csv", pieces(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=300) as answer:
            assert json.load(answer)["key"]
    seconds = time.monotonic() - start
    print(
        f"upload of {path.stat().st_size / 1e9:.2f} GB: {seconds:.1f} s, server memory +{(peak - before) / 1e6:.0f} MB"
    )
    path.unlink()


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
    os.environ["SHOAL_HOME"] = str(home)
    server = Server(home, free_port())
    server.start()
    try:
        upload(server)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGS))
            watch(browser, server)
            long_runs(browser, server)
            many_runs(browser, server)
            browser.close()
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
