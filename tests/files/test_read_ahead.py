"""Batches asked for ahead: each once, in order, and never more at a time than the queue holds."""

from __future__ import annotations

import pytest

from shoal.files.read_ahead import ReadAhead


@pytest.mark.parametrize("ahead", [0, 1, 2, 1000])
def test_a_batch_is_asked_for_once_however_far_one_looks(ahead: int) -> None:
    reader, asked = ReadAhead(), []
    for step in range(50):
        asked += reader.wanted(0, "epoch", step, min(step + ahead, 49))
    assert asked == (list(range(1, 50)) if ahead else [])
    assert reader.queued == 0


@pytest.mark.parametrize("most", [1, 5, 1000])
def test_the_queue_is_a_bound_over_all_files(most: int) -> None:
    reader, asked = ReadAhead(most), dict[int, list[int]]()
    for step in range(40):
        for file in range(7):
            found = reader.wanted(file, "epoch", step, min(step + 10, 39))
            asked.setdefault(file, []).extend(found)
            assert reader.queued <= most
            assert all(later > step for later in found)
    assert all(len(set(steps)) == len(steps) for steps in asked.values())
    assert sum(map(len, asked.values())) >= min(most, 7 * 39)
    assert most < 1000 or all(steps == list(range(1, 40)) for steps in asked.values())


def test_another_order_and_a_step_done_again_begin_anew() -> None:
    reader = ReadAhead(4)
    assert list(reader.wanted(0, 1, 0, 9)) == [1, 2, 3, 4]
    assert list(reader.wanted(1, 1, 0, 9)) == []  # the queue is full
    assert list(reader.wanted(1, 2, 0, 9)) == [1, 2, 3, 4]
    assert list(reader.wanted(1, 2, 3, 9)) == [5, 6, 7]
    assert list(reader.wanted(1, 2, 0, 9)) == [1, 2, 3, 4]  # of a worker that was lost
    assert list(reader.wanted(1, 2, 20, 30)) == [21, 22, 23, 24]  # somebody else did those in between
    assert reader.queued == 4
