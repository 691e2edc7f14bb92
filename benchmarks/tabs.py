"""Many tabs on one dashboard, `python -m benchmarks.tabs`: what a hundred of them take while they look at a live run.

A tab is what the server sees of one: a websocket on which the page is drawn, parts of it drawn again as often as the
page asks for, and the stream of a live run. What a browser makes of it is in `benchmarks.dashboard`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from benchmarks.dashboard import Feeder, made_run
from shoal.files.locks import own_lock
from shoal.runs.folder import Run
from shoal.storage import Storage, open_storage
from support.browser import Server, free_port
from support.dashboard.session_tabs import SessionTab

TABLE = "data=penguins"
PAGES = (("data", TABLE), ("train", TABLE), ("runs", ""), ("system", ""), ("models", ""))  # beside the live run


def weight(process: psutil.Process) -> str:
    memory = process.memory_full_info()
    return f"{memory.pss / 2**20:.0f} MB, {process.num_fds()} files, {process.num_threads()} threads"


async def watched(server: Server, run: Run, storage: Storage, count: int, seconds: float) -> None:
    process = psutil.Process(server.process.pid if server.process else 0)
    print(f"no tab: {weight(process)}; machine load {os.getloadavg()[0]:.1f}", flush=True)
    until = asyncio.Event()
    tabs = [
        SessionTab(server, "train", run.id)
        if number % 2
        else SessionTab(server, PAGES[number // 2 % len(PAGES)][0], query=PAGES[number // 2 % len(PAGES)][1])
        for number in range(count)
    ]
    began, before = time.monotonic(), sum(process.cpu_times()[:2])
    feeder = Feeder(storage, 1200)
    feeder.feed(0.2)
    tasks = [asyncio.create_task(tab.live(until)) for tab in tabs]
    while not all(tab.drawn for tab in tabs) and time.monotonic() - began < 300:
        await asyncio.sleep(0.2)
    took, spent = time.monotonic() - began, sum(process.cpu_times()[:2]) - before
    there = sum(tab.drawn > 0 for tab in tabs)
    print(f"{count} tabs opened at once: {there} drawn after {took:.1f} s, {spent:.1f} s of processor time, "
          f"{sum(tab.bytes for tab in tabs) / 2**20:.1f} MB sent; {weight(process)}", flush=True)  # fmt: skip
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    drawn, streamed = sum(tab.drawn for tab in tabs), sum(tab.streamed for tab in tabs)
    await asyncio.to_thread(feeder.feed, seconds)
    span = time.monotonic() - began
    share = (sum(process.cpu_times()[:2]) - before) / span
    parts, messages = sum(tab.drawn for tab in tabs) - drawn, sum(tab.streamed for tab in tabs) - streamed
    print(f"while they look: {share:.0%} of a core, {parts / span:.0f} parts drawn and {messages / span:.0f} messages "
          f"of the run a second; {weight(process)}", flush=True)  # fmt: skip
    until.set()
    await asyncio.gather(*tasks)
    for what, times in sum((tab.problems for tab in tabs), Counter()).most_common(5):
        print(f"{times} x {what}")
    for wait in (5, 60, 90):
        await asyncio.sleep(wait)
        print(f"all closed for {wait} s: {weight(process)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabs", description=__doc__)
    parser.add_argument("--tabs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-tabs-") as folder:
        os.environ["SHOAL_HOME"] = folder
        server = Server(Path(folder), free_port())
        server.start()
        try:
            run = made_run(1200)
            with own_lock(run.directory), open_storage(run.metrics_url) as storage:
                asyncio.run(watched(server, run, storage, chosen.tabs, chosen.seconds))
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
