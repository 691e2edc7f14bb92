"""The queue of gradient runs: slots, order, and that it goes on whoever is killed. All processes are real."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from shoal.errors import ConfigError, StateError
from shoal.files.locks import lock_file
from shoal.home import queue_directory
from shoal.runs import scheduling, slots, tickets
from shoal.runs.commands import post, wait_settled
from shoal.runs.launch import Run, launch, list_runs, resume
from shoal.settings.config import RunConfig
from shoal.utils import is_ending
from support.processes import command_of
from support.runs import (
    SLOW,
    began,
    ended,
    endless_run,
    made,
    run_home,
    short_run,
    slots_taken,
    small_table,
    training,
    until,
    waiting,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path
    until(lambda: not schedulers())  # none is left when nobody waits


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)


def schedulers() -> list[psutil.Process]:
    """Those of this home."""
    wanted = f"{scheduling.SCHEDULER} {queue_directory()}"
    return [process for process in psutil.process_iter() if wanted in command_of(process)]


def kill(process: psutil.Process) -> None:
    process.kill()
    until(lambda: command_of(process) == "")


# ------------------------------------------------------------------ slots and order


def test_a_run_needs_a_slot_a_worker_and_at_most_all(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SLOTS", "3")
    assert [slots.slots_for(short_run(data, workers=w)) for w in (1, 2, 3, 9)] == [1, 2, 3, 3]
    assert slots.slots_for(short_run(data, workers="auto")) == min(3, len(os.sched_getaffinity(0)))
    assert slots.slots_for(short_run(data, workers=3, engine="inline")) == 1
    monkeypatch.setenv("SHOAL_SLOTS", "many")
    with pytest.raises(ConfigError, match="SHOAL_SLOTS"):
        launch(short_run(data))
    assert list_runs() == []


def test_runs_wait_without_a_process_and_start_in_order_one_at_a_time(data: Path) -> None:
    with slots_taken(0):
        runs = [launch(short_run(data, engine="inline")) for _ in range(12)]
        waiting(*runs)
        assert "1 core" in runs[0].cause
        assert "2 runs are ahead" in runs[2].cause
        assert runs[0].progress == ("waiting in the queue", 0.0)
        (one,) = until(schedulers)
        assert "numpy" not in Path(f"/proc/{one.pid}/maps").read_text()
        with pytest.raises(StateError, match="waits in the queue"):
            post(runs[0], "pause")
        for run in runs[3:]:
            post(run, "stop")
    assert [ended(run) for run in runs] == ["finished"] * 3 + ["stopped"] * 9, [run.error for run in runs]
    over = [json.loads((run.directory / "state.json").read_text())["at"] for run in runs]
    assert began(runs[0]) < over[0] <= began(runs[1]) < over[1] <= began(runs[2])
    assert tickets.tickets() == []


def test_nobody_passes_the_first_even_if_there_is_room_for_a_smaller_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_SLOTS", "2")
    with slots_taken(0):
        large, small = launch(short_run(data, workers=2)), launch(short_run(data, workers=1))
        waiting(large, small)
        assert "of which 1 is free" in large.cause
        scheduling.dispatch()  # as the scheduler does, again and again
        waiting(large, small)
    assert (ended(large), ended(small)) == ("finished", "finished"), (large.error, small.error)
    assert began(large) < began(small)


def test_runs_for_which_there_is_room_run_at_the_same_time(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SLOTS", "2")
    first, second = (launch(endless_run(data, engine="inline")) for _ in range(2))
    until(lambda: (first.state, second.state) == ("running", "running"))
    assert tickets.tickets() == []
    os.kill(first.pid or 0, signal.SIGKILL)
    until(lambda: first.state == "interrupted")
    scheduling.keep_going()
    assert first.state == "interrupted"  # it did not wait any more: only a person resumes it
    post(second, "stop")
    assert ended(second) == "stopped"


def test_tickets_are_in_order_even_if_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [made() for _ in range(3)]
    for run, now in zip(runs, (5_000, 3_000, 4_000), strict=True):
        with monkeypatch.context() as patch:
            patch.setattr(time, "time_ns", lambda now=now: now)
            tickets.issue(run.id, tickets.Terms())
    assert [ticket.run_id for ticket in tickets.tickets()] == [run.id for run in runs]
    shutil.rmtree(runs[0].directory)
    scheduling.keep_going()  # none of them waits: they are forgotten
    assert tickets.tickets() == []


# ------------------------------------------------------------------ whoever is killed


def test_a_killed_scheduler_is_replaced_by_a_run_that_works_and_a_killed_run_is_followed_by_the_next(
    data: Path,
) -> None:
    first = training(launch(endless_run(data, engine="inline")))
    second = launch(short_run(data, engine="inline"))
    waiting(second)
    (one,) = until(schedulers)
    kill(one)
    (other,) = until(schedulers)  # nobody looked
    assert other.pid != one.pid
    os.kill(first.pid or 0, signal.SIGKILL)
    assert ended(second) == "finished", second.error
    assert first.state == "interrupted"


def test_with_scheduler_and_run_killed_whoever_looks_first_goes_on(data: Path) -> None:
    runs = []
    for look in (scheduling.keep_going, lambda: resume(runs[0])):
        with slots_taken(0):
            runs[:] = [launch(short_run(data, engine="inline")) for _ in range(2)]
            (one,) = until(schedulers)
            kill(one)
        waiting(*runs)  # nobody is there to start them
        look()
        assert [ended(run) for run in runs] == ["finished"] * 2, [run.error for run in runs]
        assert began(runs[0]) < began(runs[1])


def test_a_look_waits_for_the_lock_of_one_who_was_killed_and_has_it_still(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slots_taken(0):
        run = launch(short_run(data, engine="inline"))
        (one,) = until(schedulers)
        kill(one)
    lock = until(lambda: lock_file(queue_directory() / scheduling.LOCK))
    dead = subprocess.Popen(["sleep", "600"])
    dead.kill()
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    lock.truncate(0)
    lock.write(str(dead.pid))
    lock.flush()
    lets_go = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: lock.close())
    monkeypatch.setattr(scheduling, "time", lets_go)
    scheduling.keep_going()
    dead.wait()
    assert ended(run) == "finished", run.error


def test_a_process_that_was_killed_is_ending_and_no_other() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        assert not is_ending(process.pid)
        process.kill()
        until(lambda: is_ending(process.pid))
    assert not is_ending(process.pid)  # it is gone
    assert not is_ending(os.getpid())


def test_the_end_of_a_run_starts_the_next_one(data: Path) -> None:
    first = training(launch(endless_run(data, engine="inline")))
    second = launch(short_run(data, engine="inline"))
    (one,) = until(schedulers)
    one.suspend()  # as good as dead, but for its lock
    post(first, "stop")
    assert ended(first) == "stopped"
    waiting(second)
    kill(one)
    exact = launch(RunConfig(file=str(data), target="y"))  # does not wait itself
    assert ended(exact) == "finished", exact.error
    assert ended(second) == "finished", second.error


def test_a_launcher_that_is_killed_leaves_a_run_that_waits(data: Path) -> None:
    code = f"""
        import os
        from pathlib import Path
        from shoal.runs import scheduling
        from shoal.runs.launch import launch
        from support.runs import short_run
        scheduling.keep_going = lambda: os.kill(os.getpid(), 9)
        launch(short_run(Path({str(data)!r})))
    """
    tests = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=tests, timeout=SLOW)
    assert done.returncode == -signal.SIGKILL
    (run,) = list_runs()
    waiting(run)
    scheduling.keep_going()
    assert ended(run) == "finished", run.error


# ------------------------------------------------------------------ stop, and processes that do not come far


def test_stop_in_the_queue_and_resume(data: Path) -> None:
    with slots_taken(0):
        runs = [launch(short_run(data, engine="inline")) for _ in range(2)]
        waiting(*runs)
        for run in runs:
            assert wait_settled(run, post(run, "stop"), SLOW).outcome == "done"
            assert (run.state, tickets.has_ticket(run.id)) == ("stopped", False)
            assert "stopped" in run.cause
        scheduling.keep_going()
        again = resume(runs[0])
        waiting(again)
    assert ended(again) == "finished", again.error
    assert runs[1].state == "stopped"


@pytest.fixture
def at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with code that every run process executes before anything else."""
    site, code = tmp_path / "site", tmp_path / "at_start.py"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        f"import sys\nif 'shoal.processes.run' in sys.orig_argv:\n    exec(open({str(code)!r}).read())\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    code.write_text("")
    return code


def started(run: Run) -> list[psutil.Process]:
    """The process of a run, by its command line: whoever looks first starts it, a scheduler too."""
    return [process for process in psutil.process_iter() if str(run.directory) in command_of(process)]


def test_a_stop_that_comes_as_the_process_starts_is_heard(data: Path, at_start: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    at_start.write_text(f"open({str(gate)!r}).read()\n")
    run = launch(short_run(data))
    assert run.state == "queued"
    assert run.is_alive
    until(lambda: started(run))
    started(run)[0].terminate()  # before it has said its number, let alone listens
    gate.write_text("")
    assert ended(run) == "stopped", run.error
    assert tickets.tickets() == []


def test_a_process_that_dies_as_it_starts_is_started_again(data: Path, at_start: Path, tmp_path: Path) -> None:
    mark = tmp_path / "died"
    at_start.write_text(
        f"import os\ntry:\n    os.mkdir({str(mark)!r})\nexcept OSError: pass\nelse: os.kill(os.getpid(), 9)\n"
    )
    run = launch(short_run(data))
    until(lambda: mark.exists() and not run.is_alive)
    waiting(run)
    scheduling.keep_going()  # as a look at the list of runs does
    assert ended(run) == "finished", run.error


def test_a_run_that_cannot_start_is_given_up_and_says_so(data: Path, at_start: Path) -> None:
    at_start.write_text("raise SystemExit('not today')")
    run = launch(short_run(data))
    for _ in range(scheduling.STARTS):
        until(lambda: not run.is_alive)
        scheduling.keep_going()
    assert ended(run) == "failed"
    assert "3 times" in run.cause
    assert (run.directory / "log.txt").read_text().count("not today") == scheduling.STARTS
    at_start.write_text("")
    assert ended(resume(run)) == "finished", run.error


def test_a_run_is_started_as_its_launcher_would_have_started_it(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with slots_taken(0):
        first = launch(short_run(data, engine="inline"))
        until(schedulers)  # the process that starts the second one does not know what comes
        monkeypatch.setenv("SHOAL_OF_A_PLUGIN", "told")
        for name in ("SHOAL_PASSWORD", "SHOAL_TOKEN"):
            monkeypatch.setenv(name, "secret words")
        second = launch(endless_run(data, engine="inline"))
        assert "secret words" not in "".join(ticket.path.read_text() for ticket in tickets.tickets())
    assert ended(first) == "finished"
    training(second)
    assert psutil.Process(second.pid).environ()["SHOAL_OF_A_PLUGIN"] == "told"
    assert psutil.Process(second.pid).environ()["SHOAL_HOME"] == os.environ["SHOAL_HOME"]
    post(second, "stop")
    assert ended(second) == "stopped"


def test_what_is_secret_goes_into_no_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_OF_A_PLUGIN", "told")
    for name in ("SHOAL_PASSWORD", "SHOAL_TOKEN", "SHOAL_DATABASE"):
        monkeypatch.setenv(name, "secret words")
    terms = tickets.terms_here(1)  # with a database only trials of a search have one
    assert terms.environment["SHOAL_OF_A_PLUGIN"] == "told"
    assert "secret words" not in str(terms)


def test_a_ticket_that_is_damaged_or_of_an_earlier_version_counts(data: Path) -> None:
    with slots_taken(0):
        runs = [launch(short_run(data, engine="inline")) for _ in range(2)]
        for ticket, text in zip(tickets.tickets(), ('{"starts": 0}', "\x00{"), strict=True):
            ticket.path.write_text(text)
        waiting(*runs)
    assert [ended(run) for run in runs] == ["finished"] * 2


def test_a_folder_that_was_removed_is_not_waited_for(data: Path) -> None:
    with slots_taken(0):
        gone, run = (launch(short_run(data, engine="inline")) for _ in range(2))
        shutil.rmtree(gone.directory)
        until(lambda: "first" in run.cause)
        assert not Run(gone.directory).is_active
    assert ended(run) == "finished"
