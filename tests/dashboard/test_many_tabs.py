"""What makes many tabs on one dashboard bearable: garbage is looked for among what is new, and once a minute everywhere."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Iterator

import pytest

from shoal.dashboard import server


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
