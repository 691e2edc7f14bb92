"""A worker that does not come: one that is at its imports is waited for, and one that does nothing is not."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from shoal.coordinator import ParameterServer

LOOKS = (0.0, 15.0, 25.0, 40.0, 50.0)  # late after 25 s, and after 50 where it has worked since


@pytest.mark.parametrize(("works", "evicted"), [([False], [25.0, 50.0]), ([True, False], [50.0]), ([True, True], [])])
def test_a_worker_that_is_late_has_more_time_while_it_computes(works: list[bool], evicted: list[float]) -> None:
    asked, gone = iter(works), list[float]()

    def nothing(*given: Any) -> tuple[()]:
        return ()

    server: Any = SimpleNamespace(
        STALL=math.inf, TOGETHER=0.2, _ticked=0.0, _together=0.0, hired={1: math.inf}, _make_steps=nothing,
        parameters=SimpleNamespace(tick=nothing), _observer=SimpleNamespace(ticked=nothing), digest=nothing,
        policy=SimpleNamespace(doubted=nothing, overdue=nothing, look=nothing),
        _engine=SimpleNamespace(start=20.0, works=lambda rank: next(asked, False)),
        evict=lambda rank, why: gone.append(server._ticked),
    )  # fmt: skip
    for now in LOOKS:
        ParameterServer.tick(server, now)
    assert gone == evicted
