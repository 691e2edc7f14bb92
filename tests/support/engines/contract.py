"""One contract for every engine: tests that a module takes over by `from support.engines.contract import *`.

It brings two fixtures: `engine`, one for all of them, and `another`, which opens a further one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.engines.base import Engine
from shoal.errors import EngineError
from support.engine_requests import Echo, Fail, LinesError, Note, Peek, Scratch, Square


def test_reports_come_in_the_order_of_the_requests(engine: Engine, tmp_path: Path) -> None:
    delays = [0.03, 0.0, 0.02, 0.0, 0.01] * 4
    requests = [Note(i, tmp_path / "ledger", seconds) for i, seconds in enumerate(delays)]
    assert list(engine.sweep(requests)) == list(range(20))


def test_each_request_is_answered_exactly_once(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    list(engine.sweep(Note(i, path) for i in range(100)))
    assert sorted(map(int, path.read_text().split())) == list(range(100))


def test_an_empty_sweep_ends(engine: Engine) -> None:
    assert list(engine.sweep([])) == []


def test_requests_are_drawn_lazily_and_never_far_ahead(engine: Engine) -> None:
    drawn = []
    sweep = engine.sweep(Echo(drawn.append(i) or i) for i in range(1000))  # type: ignore[func-returns-value]
    for i in range(30):
        assert next(sweep) == i
        assert len(drawn) <= i + 1 + 2 * engine.workers + 2
    sweep.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("nbytes", [0, 10, 65_536, 50_000_000])
def test_arrays_travel_both_ways_bit_by_bit(engine: Engine, nbytes: int) -> None:
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    few = np.array([np.nan, -0.0, np.inf])
    for report in engine.sweep([Echo((data, {"few": few, "none": None}))] * 2):
        assert np.array_equal(report[0], data)
        assert report[1]["few"].tobytes() == few.tobytes()
        assert report[1]["none"] is None


def test_layout_strides_and_text_survive(engine: Engine) -> None:
    table = np.arange(60_000.0).reshape(200, 300)
    values = [table.T, table[::2, ::3], "x" * 300_000, np.array(5.0), [np.arange(i) for i in range(500)]]
    reports = list(engine.sweep(map(Echo, values)))
    assert reports[0].flags.f_contiguous
    assert np.array_equal(reports[0], table.T)
    assert np.array_equal(reports[1], table[::2, ::3])
    assert reports[2] == "x" * 300_000
    assert reports[3].shape == ()
    assert all(np.array_equal(a, np.arange(i)) for i, a in enumerate(reports[4]))


def test_a_report_stays_as_it_was_while_later_ones_arrive(engine: Engine) -> None:
    reports = list(engine.sweep(Square(i, 0) for i in range(12)))
    for i, report in enumerate(reports):
        assert np.array_equal(report, np.random.default_rng(i).normal(size=20_000) ** 2)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.eye(3)),
        np.empty((0, 5)),
        np.array(7),
        np.arange(20)[::2],
    ],
    ids=["c", "fortran", "empty", "scalar", "strided"],
)
def test_a_shared_array_is_seen_read_only(engine: Engine, array: np.ndarray[Any, Any]) -> None:
    shared = engine.share(array)
    for seen, writeable, fortran in engine.sweep([Peek(shared)] * 4):
        assert (seen.shape, seen.dtype) == (array.shape, array.dtype)
        assert np.array_equal(seen, array)
        assert fortran == array.flags.f_contiguous or not array.flags.contiguous
        assert not writeable or not array.size
    engine.release(shared)


def test_a_released_array_is_gone(engine: Engine) -> None:
    first, second = engine.share(np.ones(3)), engine.share(np.zeros(3))
    list(engine.sweep([Peek(first)] * 4))
    engine.release(first)
    engine.release(first)
    assert not next(engine.sweep([Peek(second)]))[0].any()
    with pytest.raises(EngineError, match="released"):
        list(engine.sweep([Peek(first)]))
    engine.release(second)


def test_only_plain_values_can_be_shared(engine: Engine) -> None:
    with pytest.raises(TypeError, match="object"):
        engine.share(np.array([{}]))


def test_a_training_error_travels_whole_and_comes_in_its_turn(engine: Engine) -> None:
    sweep = engine.sweep([Echo(0), Echo(1), Fail("training"), Echo(3)])
    assert [next(sweep), next(sweep)] == [0, 1]
    with pytest.raises(LinesError) as caught:
        next(sweep)
    assert (caught.value.line, caught.value.args) == (12, ("a bad row", 12))
    assert list(engine.sweep([Echo(5)])) == [5]


def test_any_other_error_is_one_sentence_with_the_traceback_as_a_note(engine: Engine) -> None:
    with pytest.raises(EngineError, match="could not answer Fail: ZeroDivisionError: division by zero") as caught:
        list(engine.sweep([Echo(0), Fail("other")]))
    assert "Traceback" not in str(caught.value)
    assert "return 1 / 0" in caught.value.__notes__[0]
    assert list(engine.sweep([Echo(5)])) == [5]


def test_an_error_of_the_requests_themselves_comes_in_its_turn(engine: Engine) -> None:
    def requests() -> Iterator[Echo]:
        yield Echo(0)
        yield Echo(1)
        raise OSError("the disk is gone")

    sweep = engine.sweep(requests())
    assert [next(sweep), next(sweep)] == [0, 1]
    with pytest.raises(OSError, match="the disk is gone"):
        next(sweep)


def test_a_sweep_left_early_does_not_harm_the_next(engine: Engine, tmp_path: Path) -> None:
    for _ in range(5):
        sweep = engine.sweep(Square(i, 0.002) for i in range(50))
        next(sweep)
        sweep.close()  # type: ignore[attr-defined]
    suspended = engine.sweep(Echo(i) for i in range(50))  # as a traceback may hold it after an error
    assert next(suspended) == 0
    assert list(engine.sweep(Echo(i) for i in range(20))) == list(range(20))


def test_two_sweeps_may_be_interleaved(engine: Engine) -> None:
    pairs = zip(engine.sweep(map(Echo, range(30))), engine.sweep(map(Echo, range(100, 130))), strict=True)
    assert list(pairs) == [(i, 100 + i) for i in range(30)]


def test_scratch_is_reused_and_grows(engine: Engine) -> None:
    (a, b, c) = next(engine.sweep([Scratch((1000, 100, 100_000))]))
    assert [size for _, size in (a, b, c)] == [1000, 100, 100_000]
    assert a[0] == b[0]


def test_any_thread_may_use_it(engine: Engine) -> None:
    reports: list[Any] = []
    thread = threading.Thread(target=lambda: reports.extend(engine.sweep(map(Echo, range(10)))))
    thread.start()
    thread.join()
    assert reports == list(range(10))
    assert list(engine.sweep([Echo(1)])) == [1]


def test_closing_twice_is_harmless_and_a_closed_engine_says_so(another: Callable[[], Engine]) -> None:
    engine = another()
    sweep = engine.sweep(map(Echo, range(100)))
    next(sweep)
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        next(sweep)
    with pytest.raises(EngineError, match="closed"):
        list(engine.sweep([Echo(1)]))
    with pytest.raises(EngineError, match="closed"):
        engine.share(np.ones(1))
