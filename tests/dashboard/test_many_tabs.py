"""What makes many tabs on one dashboard bearable: garbage is looked for among what is new, and once a minute everywhere.

A hundred of them at once are in `benchmarks.tabs`; here are a few, which all answer and are given back.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from shoal.dashboard import server
from shoal.home import own_lock
from shoal.storage import open_storage
from support.browser import Server, free_port
from support.dashboard.session_tabs import SessionTab
from support.records import noisy
from support.runs import SLOW, made, run_home

TABS = 12


class Ring:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_has_been_there_for_a_while_is_looked_through_once_a_minute_only() -> None:
    ring = Ring()
    kept = weakref.ref(ring)

    async def begun() -> None:
        task = asyncio.create_task(server.give_back_memory())
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(begun())
    assert gc.get_freeze_count() > 10_000  # modules, pages, sessions
    del ring
    gc.collect(2)  # as Streamlit does whenever a part of a page is drawn
    assert kept() is not None
    server._tidied()
    assert kept() is None
    assert gc.get_freeze_count() > 10_000


# ------------------------------------------------------------------ tabs of a real server


async def looked(tabs: list[SessionTab]) -> None:
    """Until every page is there, and every stream of the run."""
    until = asyncio.Event()
    tasks = [asyncio.create_task(tab.live(until)) for tab in tabs]
    deadline = time.monotonic() + SLOW
    while not all(tab.drawn and (tab.streamed or not tab.run) for tab in tabs) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    until.set()
    await asyncio.gather(*tasks)


def test_all_tabs_are_answered_and_their_connections_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_home(tmp_path / "home", monkeypatch) as home:
        run = made(job={"task": "train"}, state={"state": "running"})
        with open_storage(run.metrics_url) as storage:
            storage.add(noisy(300, 3))
        dashboard = Server(home, free_port())
        dashboard.start()
        try:
            ways = [("train", run.id, ""), ("data", "", "data=penguins"), ("train", "", "data=penguins")]
            tabs = [SessionTab(dashboard, *ways[number % len(ways)]) for number in range(TABS)]
            process = psutil.Process(dashboard.process.pid if dashboard.process else 0)
            with own_lock(run.directory):
                asyncio.run(looked(tabs))
            assert [tab.page for tab in tabs if not tab.drawn] == []
            assert all(tab.streamed for tab in tabs if tab.run)
            assert sum((tab.problems for tab in tabs), Counter()) == {}
            deadline = time.monotonic() + SLOW
            while _open(process, dashboard.port) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert _open(process, dashboard.port) == 0
        finally:
            dashboard.stop()


def _open(process: psutil.Process, port: int) -> int:
    """Connections of others that the server still holds."""
    return sum(one.laddr.port == port and bool(one.raddr) for one in process.net_connections("tcp"))
