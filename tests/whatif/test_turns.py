"""Computations in turns: all begin early, no more are open than there is room for, and an error ends all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from shoal.whatif import turns
from shoal.whatif.turns import in_turns


@pytest.mark.parametrize("hands", [1, 3])
@pytest.mark.parametrize("most", [1, 2, 9])
def test_every_step_comes_once_and_in_order(hands: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "HANDS", hands)
    lock, open_, widest = threading.Lock(), set[int](), [0]

    def begin(number: int) -> Iterator[int]:
        with lock:
            open_.add(number)
            widest[0] = max(widest[0], len(open_))
        yield from range(13)
        with lock:
            open_.remove(number)

    found = list(in_turns(begin, 6, most))
    for number in range(6):
        assert [step.said for step in found if step.number == number] == list(range(13))
    assert widest[0] <= most


def test_the_one_that_is_least_far_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "HANDS", 1)
    found = [step.number for step in in_turns(lambda number: iter(range(10)), 3, 9)]
    assert found == [number for number in (0, 1, 2, 0, 1, 2) for _ in range(turns.STRIDE)]


def test_an_error_is_told_and_ends_the_others() -> None:
    ended = threading.Event()

    def begin(number: int) -> Iterator[int]:
        if number == 1:
            raise ValueError("no rows")
        try:
            yield from iter(int, 1)
        finally:
            ended.set()

    with pytest.raises(ValueError, match="no rows"):
        for _ in in_turns(begin, 3, 9):
            pass
    assert not [thread for thread in threading.enumerate() if thread.name == "turns"]


def test_whoever_stops_listening_leaves_nobody_at_work() -> None:
    steps = in_turns(lambda number: iter(int, 1), 3, 9)
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name == "turns"]


def test_one_that_cannot_be_begun_is_told_too() -> None:
    def begin(number: int) -> Iterator[int]:
        if number:
            raise ValueError("no rows")
        return iter(range(10))

    with pytest.raises(ValueError, match="no rows"):
        list(in_turns(begin, 3, 9))
