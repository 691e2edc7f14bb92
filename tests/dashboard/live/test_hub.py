"""One reader of a run for all who watch it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from shoal.dashboard.live.hub import BEHIND, Hubs, Listener
from shoal.runs.folder import write_json
from shoal.runs.launch import Run
from shoal.storage import Storage
from support.dashboard.live import a_round, active
from support.runs import until


def readers(run: Run) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"live-{run.id}"]


async def next_event(stream: Any) -> bytes:
    while True:
        found: bytes = await asyncio.wait_for(anext(stream), 10)
        if found.startswith(b"event:"):
            return found


def test_one_reader_for_all_and_none_for_nobody(run: Run, store: Storage) -> None:
    active(run)

    async def watch() -> None:
        hubs = Hubs()
        first = hubs.listen(run)
        assert (await next_event(first)).startswith(b"event: snapshot")
        store.add([a_round(1)])
        await next_event(first)
        second = hubs.listen(run)  # comes later
        snapshot = await next_event(second)
        assert snapshot.startswith(b"event: snapshot")
        assert b'"round":[1]' in snapshot
        store.add([a_round(2)])
        news, same = await asyncio.gather(next_event(first), next_event(second))
        assert news is same
        assert b'"round":[2]' in news
        assert len(readers(run)) == 1
        await first.aclose()
        assert len(readers(run)) == 1
        assert len(hubs.open) == 1
        await second.aclose()
        assert not hubs.open
        await asyncio.to_thread(until, lambda: not readers(run), 5)

    asyncio.run(watch())


def test_the_end_of_a_run_ends_its_streams(run: Run, store: Storage) -> None:
    active(run)

    async def watch() -> None:
        hubs = Hubs()
        stream = hubs.listen(run)
        await next_event(stream)
        store.add([a_round(1)])
        write_json(run.directory / "result.json", {"state": "finished", "cause": "converged"})
        kinds = [found.split(b"\n")[0] async for found in stream if found.startswith(b"event")]
        assert kinds[-1] == b"event: end"
        assert set(kinds[:-1]) == {b"event: update"}
        late = [found async for found in hubs.listen(run)]  # a page of an ended run
        assert b"snapshot" in late[1]
        assert b'"round":[1]' in late[1]
        assert late[2].startswith(b"event: end")
        assert len(late) == 3
        assert not hubs.open

    asyncio.run(watch())


def test_a_server_that_closes_is_not_held_up(run: Run) -> None:
    active(run)

    async def watch() -> None:
        closing = threading.Event()
        stream = Hubs(closing.is_set).listen(run)
        await next_event(stream)
        closing.set()
        assert not [found async for found in stream if not found.startswith(b"event: update")]

    asyncio.run(watch())


def test_a_listener_that_is_too_slow_comes_again() -> None:
    async def fill() -> None:
        listener = Listener()
        for _ in range(BEHIND + 2):
            listener.give([b"news"])
        assert listener.queue.get_nowait() is None
        assert listener.queue.empty()

    asyncio.run(fill())
