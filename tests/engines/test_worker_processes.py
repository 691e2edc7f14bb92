"""What only worker processes suffer: deaths, signals, bad starts, the end of their coordinator."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from shoal.engines.base import WorkerEvent
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.engines.worker_process import ProcessCrew
from shoal.errors import ConfigError, EngineError
from support.engine_requests import (
    Compute,
    Die,
    Echo,
    Environment,
    Fail,
    Hang,
    Note,
    Peek,
    Square,
    Unopenable,
    Unsendable,
    WhoAmI,
)
from support.runs import SLOW, until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def events() -> list[WorkerEvent]:
    return []


@pytest.fixture
def crew(events: list[WorkerEvent]) -> Iterator[ProcessEngine]:
    with ProcessEngine(2, on_event=events.append) as opened:
        yield opened


def all_up(engine: ProcessEngine) -> dict[int, int]:
    """Wait until every worker has answered something."""
    answered: set[int] = set()
    while answered < set(engine.pids.values()) or not answered:
        answered |= set(engine.sweep(WhoAmI(0.02) for _ in range(4)))
    return engine.pids


def ended(process: psutil.Process) -> bool:
    """Whether it runs no more; an orphan may stay a zombie until the system's first process looks for it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


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


@pytest.mark.parametrize("seed", range(2))
def test_workers_killed_at_any_time_change_no_report(seed: int) -> None:
    dice, events = random.Random(seed), list[WorkerEvent]()
    expected = list(InlineEngine().sweep(Square(i, 0) for i in range(60)))
    with ProcessEngine(2, on_event=events.append) as engine:
        all_up(engine)
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
    old = all_up(crew)
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
        for _ in range(2):
            with pytest.raises(EngineError, match=rf"Request 1 \(Die\) lost 3 workers.*{cause}"):
                list(engine.sweep([Die(how), Echo(2)]))
        assert list(engine.sweep([Echo(5)])) == [5]


def test_a_request_that_works_outlives_any_lease(events: list[WorkerEvent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessEngine, "LOOK", 0.1)
    monkeypatch.setattr(ProcessCrew, "LEASE", 1.5)
    with ProcessEngine(1, on_event=events.append) as engine:
        assert list(engine.sweep([Compute(3.0)])) == list(engine.pids.values())
    assert [event.kind for event in events] == ["started", "stopped"]


def test_a_request_that_hangs_is_ended_and_not_blamed_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessEngine, "LOOK", 0.1)
    monkeypatch.setattr(ProcessCrew, "LEASE", 0.6)
    with ProcessEngine(1) as engine:
        with pytest.raises(EngineError, match=r"\(Hang\) lost 3 workers.*it did nothing for 0\.6 seconds") as told:
            list(engine.sweep([Hang()]))
        assert "memory" not in str(told.value)
        assert list(engine.sweep([Echo(5)])) == [5]


def test_whether_a_worker_works_can_be_told(crew: ProcessEngine) -> None:
    pids = all_up(crew)
    crew.works(0), crew.works(1)
    assert not crew.works(7)
    process = psutil.Process(pids[0])
    process.suspend()
    while process.status() != psutil.STATUS_STOPPED:  # a busy machine takes its time
        time.sleep(0.01)
    crew.works(0)  # what it did before
    assert not any(crew.works(0) for _ in range(3))
    process.resume()
    list(crew.sweep(Compute(psutil.Process(pid).cpu_times().user + 1.0) for pid in pids.values()))
    assert crew.works(0)


def test_a_replacement_sees_shared_arrays(crew: ProcessEngine, tmp_path: Path) -> None:
    gone, kept = crew.share(np.zeros(4)), crew.share(np.arange(1e6))
    list(crew.sweep([Peek(kept)] * 4))
    crew.release(gone)
    for pid in all_up(crew).values():
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
from contextlib import nullcontext
from pathlib import Path
from shoal.engines.processes import ProcessEngine
from shoal.engines.worker_process import ProcessCrew
from support.engine_requests import Note, WhoAmI
with ProcessEngine(2, forks=nullcontext if "forks" in sys.argv else None) as engine:
    for pid in engine.sweep(WhoAmI(0.02) for _ in range(20)):
        pass
    Path(sys.argv[1]).write_text(" ".join(map(str, engine.pids.values())))
    list(engine.sweep([Note(0, Path(sys.argv[2])), *(WhoAmI(600) for _ in range(4))]))
"""


@pytest.fixture(params=["started", "forks"])
def script(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """A coordinator in mid-sweep, in a group of its own and in a foreign directory, and its workers."""
    path, begun, environment = tmp_path / "pids", tmp_path / "begun", os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-c", SCRIPT, str(path), str(begun), request.param]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, start_new_session=True, stderr=subprocess.PIPE
    ) as process:
        until(begun.exists)
        yield process, [psutil.Process(int(pid)) for pid in path.read_text().split()]
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_coordinator(
    script: tuple[subprocess.Popen[bytes], list[psutil.Process]], number: signal.Signals
) -> None:
    process, workers = script
    os.killpg(process.pid, number)
    process.wait(SLOW)
    until(lambda: all(map(ended, workers)))
    if number == signal.SIGINT:
        assert process.stderr is not None
        assert process.stderr.read().decode().strip().endswith("KeyboardInterrupt")
