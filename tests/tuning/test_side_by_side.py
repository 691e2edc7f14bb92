"""Computations side by side: each gets the answers to its own questions, sweeps are shared, and an error ends them all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from shoal.tuning.side_by_side import side_by_side


def _rounds(count: int, ask: Callable[[int], int]) -> list[int]:
    return [ask(i) for i in range(count)]


def test_as_many_sweeps_as_the_longest_asks_and_answers_to_whom_they_belong() -> None:
    sweeps: list[dict[int, int]] = []

    def answers(asked: dict[int, int]) -> list[int]:
        sweeps.append(dict(asked))
        return [100 * number + question for number, question in asked.items()]

    found = side_by_side([partial(_rounds, count) for count in (3, 0, 5)], answers)
    assert found == [[0, 1, 2], [], [200, 201, 202, 203, 204]]
    assert [list(asked) for asked in sweeps] == [[0, 2]] * 3 + [[2]] * 2


def test_an_error_of_one_is_that_of_all_and_no_thread_stays() -> None:
    before = threading.active_count()

    def fails(ask: Callable[[int], int]) -> int:
        return ask(0) // 0

    with pytest.raises(ZeroDivisionError):
        side_by_side([partial(_rounds, 1000), fails], lambda asked: list(asked))
    assert threading.active_count() == before
