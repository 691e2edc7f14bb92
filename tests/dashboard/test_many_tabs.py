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
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from streamlit import runtime
from streamlit.runtime.memory_session_storage import MemorySessionStorage
from streamlit.runtime.state import SessionState
from streamlit.runtime.state.common import WidgetMetadata

from shoal.dashboard import server
from shoal.files.locks import own_lock
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

    def held(self) -> None:
        """A callback of a widget, which holds what it is given."""


def widget(callback: Callable[[], None]) -> WidgetMetadata[str]:
    return WidgetMetadata("$$ID-one", str, str, "string_value", callback)


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


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_sessions_of_closed_tabs_are_ended_without_another_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, storage = Clock(), MemorySessionStorage()
    storage._cache._timer = clock  # type: ignore[attr-defined]
    monkeypatch.setattr(runtime, "exists", lambda: True)
    manager = SimpleNamespace(_session_storage=storage)
    monkeypatch.setattr(runtime, "get_instance", lambda: SimpleNamespace(_session_mgr=manager))
    ended, sessions = list[str](), list[SimpleNamespace]()
    kept: weakref.WeakValueDictionary[str, Ring] = weakref.WeakValueDictionary()

    def closed(name: str) -> None:
        state, page = SessionState(), Ring()
        state["kept"] = kept[name] = page
        state._set_widget_metadata(widget(page.held))
        session = SimpleNamespace(id=name, shutdown=lambda: ended.append(name), session_state=state)
        sessions.append(session)  # as Streamlit holds the last one, until somebody comes
        storage.save(SimpleNamespace(session=session))  # type: ignore[arg-type]

    closed("first")
    clock.now = 100.0
    closed("second")
    assert (server.end_forgotten_sessions(), ended) == (0, [])
    clock.now = 121.0
    assert (server.end_forgotten_sessions(), ended) == (1, ["first"])
    assert storage.get("second") is not None  # it may come back
    gc.collect()
    assert list(kept) == ["second"]
    clock.now = 221.0
    assert (server.end_forgotten_sessions(), ended) == (1, ["first", "second"])


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
