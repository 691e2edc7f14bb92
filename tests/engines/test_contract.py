"""The contract of engines over this process, worker processes and simulated ones, and the bookkeeping behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from shoal.engines.base import Engine, Ledger
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.engines.simulated import SimulatedEngine
from shoal.errors import EngineError, WorkerFailed
from support.engine_requests import Echo
from support.engines.contract import *  # noqa: F403 - its tests


def open_engine(name: str) -> Engine:
    kind, _, workers = name.partition("-")
    if kind == "simulated":
        return SimulatedEngine(int(workers))
    return InlineEngine() if kind == "inline" else ProcessEngine(int(workers))


@pytest.fixture(scope="module", params=["inline", "processes-1", "processes-2", "processes-3", "simulated-3"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """One engine for the whole contract: whatever a test does to it, the next one must find it well."""
    with open_engine(request.param) as opened:
        yield opened


@pytest.fixture(params=["inline", "processes-2", "simulated-2"])
def another(request: pytest.FixtureRequest) -> Callable[[], Engine]:
    return lambda: open_engine(request.param)


def test_the_ledger_holds_its_window_and_its_order() -> None:
    ledger = Ledger(map(Echo, range(10)), window=3)
    assert [ledger.take() for _ in range(4)] == [(0, Echo(0)), (1, Echo(1)), (2, Echo(2)), None]
    ledger.settle(1, "b")
    assert not ledger.due()
    ledger.settle(0, "a")
    assert [ledger.collect(), ledger.collect()] == ["a", "b"]
    ledger.lose(2, WorkerFailed(0, "gone"))
    assert ledger.take() == (2, Echo(2))


def test_the_ledger_gives_up_on_a_request_that_loses_three_workers() -> None:
    ledger = Ledger([Echo("poison")], window=3)
    for _ in range(3):
        assert ledger.take() is not None
        ledger.lose(0, WorkerFailed(1, "killed by signal 9 (SIGKILL)", 9))
    with pytest.raises(EngineError, match=r"Request 1 \(Echo\) lost 3 workers.*SIGKILL"):
        ledger.collect()
    assert ledger.finished()
