"""One reader for each run that somebody watches, however many tabs do; what is read is in `live_feed`.

A hub is a thread that looks at its run five times a second while there are listeners, makes bytes of what is new once,
and hands the same bytes to everyone. Hubs and listeners are met from the event loop only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from shoal.dashboard.live.feed import RunFeed
from shoal.runs.launch import Run

LOOK = 0.2  # seconds between two looks
BEAT = 15.0  # seconds of silence after which a comment keeps the connection open
BEHIND = 50  # messages; a listener that is further behind is sent away, and comes again for a snapshot

log = logging.getLogger("shoal")


def message(kind: str, body: dict[str, Any]) -> bytes:
    text = json.dumps(body, separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()


END = message("end", {})
HEARTBEAT = b": still here\n\n"


class Listener:
    """One open stream. None in the queue is its end."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def give(self, messages: list[bytes | None]) -> None:
        if self.queue.qsize() > BEHIND:
            while not self.queue.empty():
                self.queue.get_nowait()
            messages = [None]
        for each in messages:
            self.queue.put_nowait(each)


class Hub:
    """The reader of one run, until nobody listens, the run has ended, or the server closes."""

    def __init__(self, run: Run, closing: Callable[[], bool]) -> None:
        self.run = run
        self._closing, self._loop = closing, asyncio.get_running_loop()
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._listeners: list[Listener] = []
        self._newcomers: list[Listener] = []
        self.done = False  # nobody may join any more
        self.thread = threading.Thread(target=self._work, name=f"live-{run.id}", daemon=True)
        self.thread.start()

    def join(self, listener: Listener) -> bool:
        with self._lock:
            if self.done:
                return False
            self._newcomers.append(listener)
        self._wake.set()
        return True

    def leave(self, listener: Listener) -> None:
        with self._lock:
            for group in (self._listeners, self._newcomers):
                if listener in group:
                    group.remove(listener)
            self.done = self.done or not (self._listeners or self._newcomers)
        self._wake.set()

    # ---------------------------------------------------------------- the thread

    def _work(self) -> None:
        feed = RunFeed(self.run)
        try:
            self._read(feed)
        except Exception:
            log.exception("The live view of the run %s failed.", self.run.id)
        finally:
            feed.close()
            with self._lock:
                self.done = True
                everyone = self._listeners + self._newcomers
            self._hand(everyone, [None])

    def _read(self, feed: RunFeed) -> None:
        self._wake.wait(LOOK)
        heard = time.monotonic()
        while not self.done and not self._closing():
            began = time.monotonic()
            self._wake.clear()
            with self._lock:
                newcomers, self._newcomers = self._newcomers, []
                others, self._listeners = self._listeners, self._listeners + newcomers
            heard = began if self._look(feed, newcomers, others) else heard
            if feed.ended:
                self._end(feed)
                return
            if began - heard > BEAT:
                self._hand(others, [HEARTBEAT])
                heard = began
            self._wake.wait(max(0.0, LOOK - (time.monotonic() - began)))

    def _look(self, feed: RunFeed, newcomers: list[Listener], others: list[Listener]) -> bool:
        """Whether there was something new."""
        found = feed.look()
        news = message(*found) if found else None
        if news:
            self._hand(others, [news])
        if newcomers:
            whole = news if found and found.kind == "snapshot" else message("snapshot", feed.snapshot())
            self._hand(newcomers, [whole])
        return news is not None

    def _end(self, feed: RunFeed) -> None:
        """The run has ended: those who came this very moment get all of it as well."""
        with self._lock:
            self.done = True
            late, self._newcomers = self._newcomers, []
            self._listeners = self._listeners + late
        if late:
            self._hand(late, [message("snapshot", feed.snapshot())])
        self._hand(self._listeners, [END])

    def _hand(self, listeners: list[Listener], messages: list[bytes | None]) -> None:
        def give() -> None:
            for listener in listeners:
                listener.give(messages)

        if listeners:
            with contextlib.suppress(RuntimeError):  # the event loop is closed, and with it every stream
                self._loop.call_soon_threadsafe(give)


class Hubs:
    """The readers of all runs that are watched."""

    def __init__(self, closing: Callable[[], bool] = lambda: False) -> None:
        """`closing` tells whether the server is about to end, so that open streams do not hold it up."""
        self._closing = closing
        self.open: dict[str, Hub] = {}

    async def listen(self, run: Run) -> AsyncIterator[bytes]:
        """Server-sent events: a snapshot, then what is new, and `end` when the run has ended."""
        listener = Listener()
        hub = self._hub(run, listener)
        try:
            yield b"retry: 1000\n\n"
            while (news := await listener.queue.get()) is not None:
                yield news
        finally:
            hub.leave(listener)
            if hub.done and self.open.get(str(run.directory)) is hub:
                del self.open[str(run.directory)]

    def _hub(self, run: Run, listener: Listener) -> Hub:
        hub = self.open.get(str(run.directory))
        if hub is None or not hub.join(listener):
            hub = self.open[str(run.directory)] = Hub(run, self._closing)
            hub.join(listener)
        return hub
