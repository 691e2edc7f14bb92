"""Run hosts: real ones, a real database, and what becomes of runs when hosts end, hang or are killed."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from shoal.errors import StateError
from shoal.library.saved_models import find_model, version_of
from shoal.queueing.homes import home_mark
from shoal.queueing.jobs import CANCELLED, FINISHED, RUNNING, WAITING
from shoal.queueing.team import forget_looks, needed_queue
from shoal.runs.commands import post
from shoal.runs.launch import Run, launch, resolve, resume
from shoal.settings.values import config_from
from support.gates.orders import Orders
from support.runs import ended, endless_run, rounds, run_home, short_run, small_table, training, until
from support.tables import shoal
from support.team.hosts import HostProcess, hosts_in, job_of, started
from support.team.postgres import Outage, Postgres


@pytest.fixture(autouse=True)
def home(team_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path


@pytest.fixture
def start(home: Path, tmp_path: Path) -> Iterator[Callable[..., HostProcess]]:
    with hosts_in(tmp_path) as up:
        yield lambda name="one", slots=2: started(up, name, slots, tmp_path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)


def exact(data: Path) -> Run:
    return launch(config_from({"file": str(data), "target": "y"}))


def events(run: Run) -> list[str]:
    return [entry.event for entry in needed_queue().tables.ledger(run.id)]


def test_a_run_waits_for_a_host_in_words_and_is_done_by_the_first(
    data: Path, start: Callable[..., HostProcess]
) -> None:
    run, other = exact(data), launch(short_run(data))
    assert run.state == other.state == "queued"
    assert "no run host is up; start one with `shoal run-host`" in run.cause
    host = start()
    assert ended(run) == ended(other) == "finished"
    until(lambda: events(run) == events(other) == ["put", "taken", FINISHED])
    assert run.report is not None
    host.signal(signal.SIGTERM)
    assert host.end() == 0
    assert needed_queue().living_hosts() == []


def test_a_host_that_is_killed_loses_its_runs_to_another_that_goes_on_from_the_checkpoint(
    data: Path, start: Callable[..., HostProcess]
) -> None:
    first = start("first")
    run = training(launch(endless_run(data, retries=3)))
    family = psutil.Process(first.process.pid).children(recursive=True)
    until(lambda: list(run.checkpoints_path.glob("step-*")))
    first.kill()
    assert not psutil.wait_procs(family, timeout=60)[1], "processes of a host end with it"
    made = rounds(run)  # now that nobody makes more of them
    start("second")
    until(lambda: job_of(run.id).host == "second" and run.state == "running" and rounds(run) > made)
    assert job_of(run.id).fence == 1
    log = (run.directory / "log.txt").read_text()
    assert "The run host first was lost. It goes on by itself at the host second (try 1 of 3)." in log
    post(run, "stop")
    assert ended(run) == "stopped"
    until(lambda: events(run) == ["put", "taken", "lost", "taken", CANCELLED])


def test_a_host_that_hangs_writes_nothing_when_it_comes_back(data: Path, start: Callable[..., HostProcess]) -> None:
    first = start("first")
    run = training(launch(endless_run(data, retries=3)))
    old = until(lambda: run.pid)
    first.signal(signal.SIGSTOP)  # its run process goes on, and must not write once the lease is over
    start("second")
    until(lambda: job_of(run.id).host == "second" and run.pid not in (None, old))
    until(lambda: not psutil.pid_exists(old))  # it saw that the folder is another's by now
    training(run)
    first.signal(signal.SIGCONT)
    until(lambda: "lost to another host" in first.log.read_text())
    assert job_of(run.id).host == "second"
    assert run.state == "running"
    post(run, "stop")
    assert ended(run) == "stopped"


def test_a_run_process_that_is_killed_is_tried_again(data: Path, start: Callable[..., HostProcess]) -> None:
    start()
    run = training(launch(endless_run(data, retries=1)))
    os.kill(until(lambda: run.pid), signal.SIGKILL)
    until(lambda: "failed try" in events(run))
    assert run.state in ("queued", "preparing", "running")
    training(run)
    os.kill(until(lambda: run.pid), signal.SIGKILL)
    until(lambda: run.state == "failed")
    assert run.cause.startswith("Its process ended by signal 9 at the host one. It was tried 2 times.")
    resume(run)
    assert training(run).state == "running"
    post(run, "stop")
    assert ended(run) == "stopped"


def test_an_end_in_order_hands_runs_back_with_a_checkpoint_and_is_no_try(
    data: Path, start: Callable[..., HostProcess]
) -> None:
    first = start("first")
    run = training(launch(endless_run(data, checkpoint_seconds=1000)))
    first.signal(signal.SIGTERM)
    assert first.end() == 0
    job = job_of(run.id)
    assert (job.state, job.tries, job.words) == (WAITING, 0, "Its run host was shut down.")
    assert run.state == "queued"
    saved = max(int(path.name[5:17]) for path in run.checkpoints_path.glob("step-*"))
    assert saved > 0
    post(run, "stop")
    assert (run.state, job_of(run.id).state) == ("stopped", CANCELLED)


def test_a_host_of_an_earlier_version_hands_its_runs_on_when_the_database_was_made_ready_for_a_later_one(
    data: Path, start: Callable[..., HostProcess], postgres: Postgres, team_database: str
) -> None:
    host = start("earlier")
    run = training(launch(endless_run(data)))
    postgres.execute("INSERT INTO shoal.versions (version, name) VALUES (1000, 'later')", team_database)
    assert host.end() == 0
    assert "was made ready by a later version of Shoal" in host.said()
    assert "This host takes nothing new, and ends when what it has is handed on." in host.said()
    assert [path for path in run.checkpoints_path.iterdir() if path.suffix == ".ckpt"]
    taken = "SELECT event FROM shoal.queue_ledger ORDER BY number"
    assert postgres.execute(taken, team_database) == [("put",), ("taken",), ("given back",)]
    postgres.execute("DELETE FROM shoal.versions WHERE version = 1000", team_database)


@pytest.mark.parametrize("days", [-30, 30])
def test_leases_go_by_the_clock_of_the_database_alone(
    days: int, data: Path, start: Callable[..., HostProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host whose own clock is wrong by a month keeps what it has, loses it when it dies, and lives for the others."""
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(
        f"import time\ntrue, true_ns = time.time, time.time_ns\ntime.time = lambda: true() + {days} * 86400\n"
        f"time.time_ns = lambda: true_ns() + {days} * 86400 * 10**9\n"
    )
    with monkeypatch.context() as wrong:
        wrong.setenv("PYTHONPATH", str(tmp_path / "clock"))
        first = start("wrong")
    run = training(launch(endless_run(data, retries=3)))
    start("right")
    queue = needed_queue()
    renewed = job_of(run.id).lease_until
    until(lambda: job_of(run.id).lease_until > renewed + queue.lease)  # for longer than a lease
    assert {host.name for host in queue.living_hosts()} == {"wrong", "right"}
    assert (job_of(run.id).host, events(run)) == ("wrong", ["put", "taken"])
    first.kill()
    until(lambda: job_of(run.id).host == "right" and run.state == "running")
    post(run, "stop")
    assert ended(run) == "stopped"


def test_a_stop_reaches_a_run_that_does_not_listen_yet(data: Path, start: Callable[..., HostProcess]) -> None:
    start(slots=1)
    busy = training(launch(endless_run(data)))
    waiting = exact(data)
    until(lambda: job_of(busy.id).state == RUNNING)
    assert "no run host" not in waiting.cause
    post(waiting, "stop")
    assert waiting.state == "stopped"
    needed_queue().cancel(busy.id)  # told to its host, not to the run
    assert ended(busy) == "stopped"
    until(lambda: job_of(busy.id).state == CANCELLED)


def test_an_error_of_the_run_is_not_tried_again(data: Path, start: Callable[..., HostProcess]) -> None:
    run = launch(config_from({"file": str(data), "target": "nobody"}))
    start()
    assert ended(run) == "failed"
    until(lambda: events(run)[-1] == "failed")
    assert "nobody" in job_of(run.id).words


def test_a_folder_that_is_gone_is_told(data: Path, start: Callable[..., HostProcess]) -> None:
    run = exact(data)
    run.directory.rename(run.directory.with_name("aside"))
    start()
    until(lambda: not job_of(run.id).is_open)
    assert job_of(run.id).words.startswith("Its folder is not there on the host one. Somebody may have removed it")


def test_a_run_waits_for_a_host_that_sees_its_home(
    data: Path, home: Path, start: Callable[..., HostProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host of another home took it, did not find its folder, and it had failed for good."""
    run, mark = exact(data), home_mark()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("SHOAL_HOME", str(tmp_path / "another home"))
        start("far")
        other = exact(data)
        assert ended(other) == "finished"  # it does what is its own, although that came later
        with pytest.raises(StateError, match=f"Its files are in another home, {re.escape(mark)}"):
            resolve(run.id)
        shown = shoal("queue").out
    assert f"home {mark}" in shown
    assert (job_of(run.id).state, events(run)) == (WAITING, ["put"])
    forget_looks()
    assert f"its files are in the home {mark}, and no run host that is up sees that" in run.cause
    start("near")
    assert ended(run) == "finished"
    until(lambda: job_of(run.id).host == "near")


def test_a_last_word_that_its_host_could_not_report_is_reported_by_the_next(
    data: Path, start: Callable[..., HostProcess]
) -> None:
    run = exact(data)
    first = start("first")
    assert ended(run) == "finished"
    until(lambda: job_of(run.id).state == FINISHED)
    first.kill()
    result = (run.directory / "result.json").read_bytes()
    resume_as_if_untold(run)
    start("second")
    until(lambda: job_of(run.id).state == FINISHED)
    assert (run.directory / "result.json").read_bytes() == result


def resume_as_if_untold(run: Run) -> None:
    """Its host died after the run's last word and before it told the queue: the job is open, the result is there."""
    queue = needed_queue()
    queue.put(job_of(run.id))


def test_a_host_says_when_the_database_is_away_and_when_it_is_back(
    data: Path, start: Callable[..., HostProcess], outage: Outage
) -> None:
    host = start()
    outage.begin()
    until(lambda: "Runs go on; trying again." in host.said())
    outage.end()
    until(lambda: "The database is back after" in host.said())
    run = exact(data)
    assert ended(run) == "finished"
    assert host.said().count("The database is back") == 1


def test_a_model_that_cannot_be_saved_while_the_database_is_away_is_saved_when_it_is_back(
    data: Path, start: Callable[..., HostProcess], outage: Outage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Orders(tmp_path / "gates", monkeypatch)
    orders.hold("end")
    start()
    run = orders.reached(launch(short_run(data, register="kept", **orders.knobs)), "end")
    outage.begin()
    orders.let_go("end")
    until(lambda: "The model waits to be saved" in (run.directory / "log.txt").read_text())
    outage.end()
    assert ended(run) == "finished"
    version = version_of(run)
    assert version is not None
    assert version.label == "kept:1"
    assert version.model_path.read_bytes() == run.model_path.read_bytes()


def test_a_process_that_waited_to_save_while_another_host_took_its_run_over_saves_nothing(
    data: Path, start: Callable[..., HostProcess], outage: Outage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Orders(tmp_path / "gates", monkeypatch)
    orders.hold("end")
    first = start("first")
    run = orders.reached(launch(short_run(data, retries=3, register="kept", **orders.knobs)), "end")
    log, old = run.directory / "log.txt", run.pid
    assert old
    outage.begin()
    orders.let_go("end")
    until(lambda: "The model waits to be saved" in log.read_text())
    first.signal(signal.SIGSTOP)
    os.kill(old, signal.SIGSTOP)
    orders.hold("end")
    outage.end()
    start("second")
    until(lambda: job_of(run.id).host == "second")
    orders.reached(run, "end")
    os.kill(old, signal.SIGCONT)
    until(lambda: not psutil.pid_exists(old) or psutil.Process(old).status() == psutil.STATUS_ZOMBIE)
    orders.let_go("end")
    until(lambda: job_of(run.id).state == FINISHED)
    kept, version = find_model("kept"), version_of(run)
    assert kept is not None
    assert version is not None
    assert (kept.numbers, version.number, run.state) == ((1,), 1, "finished")
