"""One contract for every engine, then what only worker processes suffer: deaths, signals, bad starts."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from shoal.engines.base import Engine, Ledger, WorkerEvent
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.errors import ConfigError, EngineError, WorkerFailed
from support.engine_requests import (
    Die,
    Echo,
    Environment,
    Fail,
    LinesError,
    Note,
    Peek,
    Scratch,
    Square,
    Unopenable,
    Unsendable,
    WhoAmI,
)

ROOT = Path(__file__).resolve().parents[2]


def open_engine(name: str) -> Engine:
    kind, _, workers = name.partition("-")
    return InlineEngine() if kind == "inline" else ProcessEngine(int(workers))


@pytest.fixture(scope="module", params=["inline", "processes-1", "processes-2", "processes-3"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """One engine for the whole contract: whatever a test does to it, the next one must find it well."""
    with open_engine(request.param) as opened:
        yield opened


@pytest.fixture
def events() -> list[WorkerEvent]:
    return []


@pytest.fixture
def crew(events: list[WorkerEvent]) -> Iterator[ProcessEngine]:
    with ProcessEngine(2, on_event=events.append) as opened:
        yield opened


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"did not happen within {seconds} seconds")
        time.sleep(0.005)


def ended(process: psutil.Process) -> bool:
    """Whether it runs no more; an orphan may stay a zombie until the system's first process looks for it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# --- the contract of every engine ---------------------------------------------------------------------


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


@pytest.mark.parametrize("name", ["inline", "processes-2"])
def test_closing_twice_is_harmless_and_a_closed_engine_says_so(name: str) -> None:
    engine = open_engine(name)
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


# --- the bookkeeping alone ------------------------------------------------------------------------------


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


# --- worker processes -----------------------------------------------------------------------------------


def test_the_number_of_workers_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="not 0"):
        ProcessEngine(0)


def test_a_slow_request_does_not_hold_up_the_others(crew: ProcessEngine, tmp_path: Path) -> None:
    """Request 0 ends only after request 3 has been answered, which only the other worker can do."""
    gate, path = tmp_path / "gate", tmp_path / "ledger"
    requests = [Note(0, path, wait_for=gate), Note(1, path), Note(2, path), Note(3, gate), Note(4, path)]
    assert list(crew.sweep(requests)) == [0, 1, 2, 3, 4]


def test_workers_are_processes_of_their_own_and_are_kept(crew: ProcessEngine) -> None:
    first = set(crew.sweep(WhoAmI(0.02) for _ in range(20)))
    second = set(crew.sweep(WhoAmI(0.02) for _ in range(20)))
    assert os.getpid() not in first
    assert first | second <= set(crew.pids.values())


def test_workers_have_one_thread_whatever_this_process_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    with ProcessEngine(1) as engine:
        assert list(engine.sweep([Environment("OPENBLAS_NUM_THREADS")])) == ["1"]


@pytest.mark.parametrize("seed", range(4))
def test_workers_killed_at_any_time_change_no_report(seed: int) -> None:
    dice, events = random.Random(seed), list[WorkerEvent]()
    expected = list(InlineEngine().sweep(Square(i, 0) for i in range(60)))
    with ProcessEngine(2, on_event=events.append) as engine:
        reports = []
        for i, report in enumerate(engine.sweep(Square(i) for i in range(60))):
            reports.append(report)
            if i % 12 == 5:
                time.sleep(dice.uniform(0, 0.012))
                os.kill(dice.choice(list(engine.pids.values())), signal.SIGKILL)
        while not any(event.kind == "restarted" for event in events):
            list(engine.sweep([WhoAmI(0.01)]))
    assert all(np.array_equal(a, b) for a, b in zip(reports, expected, strict=True))
    lost = [event for event in events if event.kind == "lost"]
    assert lost
    assert all(event.signal == signal.SIGKILL and "out of memory" in event.cause for event in lost)


def test_a_worker_killed_while_idle_is_replaced(crew: ProcessEngine, events: list[WorkerEvent]) -> None:
    list(crew.sweep(WhoAmI(0.05) for _ in range(8)))
    old = crew.pids
    for pid in old.values():
        os.kill(pid, signal.SIGKILL)
    assert list(crew.sweep(map(Echo, range(10)))) == list(range(10))
    assert not set(old.values()) & set(crew.pids.values())
    assert sorted(event.pid for event in events if event.kind == "lost") == sorted(old.values())


def test_workers_leave_an_interrupt_to_the_coordinator(crew: ProcessEngine, events: list[WorkerEvent]) -> None:
    for i, _ in enumerate(crew.sweep(WhoAmI(0.02) for _ in range(20))):
        if i == 10:
            for event in list(events):  # those who are up: before that, their own session protects them
                os.kill(event.pid, signal.SIGINT)
    assert {event.kind for event in events} == {"started"}


def test_a_request_whose_worker_is_lost_is_redone(crew: ProcessEngine, tmp_path: Path) -> None:
    assert list(crew.sweep([Echo(0), Die(once=tmp_path / "died"), Echo(2)])) == [0, "survived", 2]


@pytest.mark.parametrize(
    ("how", "cause"),
    [(signal.SIGKILL, "SIGKILL.*out of memory"), (signal.SIGTERM, "SIGTERM"), (0, "exited with code 7")],
)
def test_a_request_that_always_kills_is_given_up(how: int, cause: str) -> None:
    with ProcessEngine(1) as engine:
        for _ in range(3):
            with pytest.raises(EngineError, match=rf"Request 1 \(Die\) lost 3 workers.*{cause}"):
                list(engine.sweep([Die(how), Echo(2)]))
        assert list(engine.sweep([Echo(5)])) == [5]


def test_a_replacement_sees_shared_arrays(crew: ProcessEngine, tmp_path: Path) -> None:
    gone, kept = crew.share(np.zeros(4)), crew.share(np.arange(1e6))
    list(crew.sweep([Peek(kept)] * 4))
    crew.release(gone)
    for pid in crew.pids.values():
        os.kill(pid, signal.SIGKILL)
    assert all(np.array_equal(report[0], np.arange(1e6)) for report in crew.sweep([Peek(kept)] * 4))


def test_many_shared_arrays_leave_no_descriptor(crew: ProcessEngine) -> None:
    for i in range(300):
        shared = crew.share(np.full(10, i))
        assert next(crew.sweep([Peek(shared)]))[0][0] == i
        crew.release(shared)
    pid = next(crew.sweep([WhoAmI()]))
    assert psutil.Process(pid).num_fds() < 30


def test_what_cannot_be_pickled_is_an_error_and_no_loss(crew: ProcessEngine, events: list[WorkerEvent]) -> None:
    with pytest.raises(EngineError, match="could not answer Echo"):
        list(crew.sweep([Echo(lambda: None)]))
    with pytest.raises(EngineError, match="could not answer Unsendable"):
        list(crew.sweep([Unsendable()]))
    with pytest.raises(EngineError, match="not a number"):
        list(crew.sweep([Echo(Unopenable())]))
    with pytest.raises(EngineError, match="a bad row 12"):
        list(crew.sweep([Fail("stubborn")]))
    assert list(crew.sweep([Echo(5)])) == [5]
    assert not [event for event in events if event.kind == "lost"]


def test_closing_does_not_wait_for_a_long_request(crew: ProcessEngine) -> None:
    sweep = crew.sweep([Echo(0), WhoAmI(600), WhoAmI(600)])
    assert next(sweep) == 0
    crew.close()
    assert crew.pids == {}


# --- start-up faults ------------------------------------------------------------------------------------


def test_a_worker_that_cannot_start_is_an_error_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('the library is damaged')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with (
        ProcessEngine(2) as engine,
        pytest.raises(EngineError, match=r"(?s)exited with code 1 before it was ready.*library is damaged"),
    ):
        list(engine.sweep([Echo(0)]))


def test_a_missing_interpreter_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with ProcessEngine(1) as engine, pytest.raises(EngineError, match="could not be started"):
        list(engine.sweep([Echo(0)]))


# --- the coordinator's own end --------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from shoal.engines.processes import ProcessEngine
from support.engine_requests import Echo, WhoAmI
with ProcessEngine(2) as engine:
    for pid in engine.sweep(WhoAmI(0.02) for _ in range(20)):
        pass
    Path(sys.argv[1]).write_text(" ".join(map(str, engine.pids.values())))
    list(engine.sweep(WhoAmI(600) for _ in range(4)))
"""


@pytest.fixture
def script(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """A coordinator in mid-sweep, in a group of its own and in a foreign directory, and its workers."""
    path, environment = tmp_path / "pids", os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-c", SCRIPT, str(path)]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, start_new_session=True, stderr=subprocess.PIPE
    ) as process:
        wait_until(lambda: path.exists() and len(path.read_text().split()) == 2)
        time.sleep(0.1)
        yield process, [psutil.Process(int(pid)) for pid in path.read_text().split()]
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_coordinator(
    script: tuple[subprocess.Popen[bytes], list[psutil.Process]], number: signal.Signals
) -> None:
    process, workers = script
    os.killpg(process.pid, number)
    process.wait(20)
    wait_until(lambda: all(map(ended, workers)), seconds=2)
    if number == signal.SIGINT:
        assert process.stderr is not None
        assert process.stderr.read().decode().strip().endswith("KeyboardInterrupt")
