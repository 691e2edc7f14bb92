"""Runs that go on in another home: real hosts, each with a disk of its own, killed, stopped and back from the dead."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from shoal.errors import StateError
from shoal.home import uploads_directory
from shoal.library.accounts import summaries
from shoal.library.archives import delete
from shoal.people.belongings import PRIVATE, belong, thing_at
from shoal.queueing.jobs import CANCELLED, FAILED, FINISHED, RUNNING
from shoal.queueing.team import needed_queue
from shoal.runs.commands import post
from shoal.runs.launch import Run, launch, list_runs, resolve, resume
from shoal.settings.values import config_from
from shoal.travel.parcels import parcels
from support.runs import ended, endless_run, rounds, short_run, training, until
from support.team.homes import Homes
from support.team.hosts import HostProcess, job_of

Upload = Callable[..., Path]


def killed(host: HostProcess) -> None:
    family = psutil.Process(host.process.pid).children(recursive=True)
    host.kill()
    assert not psutil.wait_procs(family, timeout=60)[1]


def files_of(run: Run) -> list[str]:
    found = parcels().find(run.id)
    return sorted(found.files) if found else []


def has_sent_a_checkpoint(run: Run) -> bool:
    return any(name.startswith("checkpoints/") for name in files_of(run))


def resumed(run: Run, host: str) -> int:
    """From which round it went on at a host."""
    text = (run.directory / "log.txt").read_text().partition(f"It goes on by itself at the host {host}")[2]
    found = re.search(r"Resuming from the checkpoint of round (\d+)", text)
    return int(found[1]) if found else 0


def test_a_host_of_another_home_does_a_run_and_sends_back_what_became_of_it(homes: Homes, upload: Upload) -> None:
    table = upload()
    belong(table, {"ada": PRIVATE})
    exact, steps = launch(config_from({"file": str(table), "target": "y"})), launch(short_run(table))
    homes.host("far", "away")
    assert ended(exact) == ended(steps) == "finished"
    assert exact.report is not None
    assert exact.model_path.exists()
    assert steps.model_path.exists()
    assert list(steps.checkpoints_path.glob("step-*.ckpt"))
    assert "finished" in (steps.directory / "log.txt").read_text()
    with homes.inside("far") as far:
        assert thing_at(uploads_directory() / table.parent.name / table.name).private  # for people there too
    until(lambda: not list((far / "runs").iterdir()))
    until(lambda: files_of(exact) == files_of(steps) == [])
    for job in map(job_of, (exact.id, steps.id)):
        assert job.host == "away"
    assert job_of(steps.id).taken_at <= (steps.started_at or 0) <= job_of(steps.id).ended_at


def test_a_run_goes_on_in_other_homes_from_its_checkpoint_and_ends_with_the_same_bits(
    homes: Homes, upload: Upload
) -> None:
    knobs = {"epochs": 3000, "tolerance": 0, "checkpoint_seconds": 0.05, "retries": 9}
    first = homes.host("near", "first")
    run = training(launch(short_run(upload(), **knobs)))
    until(lambda: has_sent_a_checkpoint(run))
    killed(first)
    second = homes.host("far", "second")
    until(lambda: job_of(run.id).host == "second" and run.state == "running" and resumed(run, "second") > 0)
    with homes.inside("far") as far:
        assert not list_runs(), "people look at it in its own home"
        assert not summaries()
        with pytest.raises(StateError, match="Its files are in another home"):
            resolve(run.id)
    killed(second)
    assert [path.name for path in (far / "runs").iterdir()] == [run.id]
    homes.host("near", "third")
    until(lambda: job_of(run.id).tries == 2)
    homes.execute("UPDATE shoal.queue_jobs SET ready_at = 0")  # the second rest is a long one
    assert ended(run) == "finished"
    until(lambda: not job_of(run.id).is_open)
    assert resumed(run, "third") >= resumed(run, "second") > 0
    events = [(entry.event, entry.host) for entry in needed_queue().tables.ledger(run.id)]
    assert [host for event, host in events if event == "taken"] == ["first", "second", "third"]
    assert [event for event, _ in events].count(FINISHED) == 1
    alone = launch(short_run(upload(), **knobs))
    assert ended(alone) == "finished"
    assert run.report is not None
    assert alone.report is not None
    assert run.report.coefficients == alone.report.coefficients
    homes.host("far", "fourth")
    until(lambda: not list((far / "runs").iterdir()))  # what a killed host had left


def test_a_host_that_comes_back_from_the_dead_writes_nothing_while_another_home_has_its_run(
    homes: Homes, upload: Upload
) -> None:
    first = homes.host("near", "first")
    run = training(launch(endless_run(upload(), retries=3)))
    old = until(lambda: run.pid)
    until(lambda: has_sent_a_checkpoint(run))
    first.signal(signal.SIGSTOP)
    os.kill(old, signal.SIGSTOP)
    homes.host("far", "second")
    until(lambda: job_of(run.id).host == "second" and run.state == "running" and resumed(run, "second") > 0)
    os.kill(old, signal.SIGCONT)  # with its host still stopped: nobody kills it
    until(lambda: not psutil.pid_exists(old) or psutil.Process(old).status() == psutil.STATUS_ZOMBIE)
    made = rounds(run)
    until(lambda: rounds(run) > made)
    first.signal(signal.SIGCONT)
    until(lambda: "lost to another host" in first.said())
    post(run, "stop")
    assert ended(run) == "stopped"
    until(lambda: job_of(run.id).state == CANCELLED)
    assert job_of(run.id).host == "second"
    assert "second" in (run.directory / "log.txt").read_text()


def test_a_run_that_was_stopped_elsewhere_is_resumed_from_what_came_home(homes: Homes, upload: Upload) -> None:
    away = homes.host("far", "away")
    run = training(launch(endless_run(upload())))
    until(lambda: has_sent_a_checkpoint(run))
    post(run, "stop")
    assert ended(run) == "stopped"
    until(lambda: not job_of(run.id).is_open)
    until(lambda: run.state == "stopped" and list(run.checkpoints_path.glob("step-*.ckpt")))
    away.signal(signal.SIGTERM)
    assert away.end() == 0
    homes.host("near", "here")
    made = rounds(run)
    resume(run)
    until(lambda: job_of(run.id).state == RUNNING and rounds(run) > made)
    assert "Resuming from the checkpoint of round" in (run.directory / "log.txt").read_text()
    post(run, "stop")
    assert ended(run) == "stopped"
    until(lambda: not job_of(run.id).is_open)
    assert has_sent_a_checkpoint(run)
    delete(run)
    assert files_of(run) == []


def test_a_table_that_was_damaged_in_the_database_is_told_and_not_computed_with(homes: Homes, upload: Upload) -> None:
    run = launch(config_from({"file": str(upload()), "target": "y", "retries": 0}))
    homes.execute("UPDATE shoal.travel_files SET small = small || 'x' WHERE file LIKE 'uploads/%/table.csv'")
    homes.host("far", "away")
    until(lambda: job_of(run.id).state == FAILED)
    assert "'table.csv' of a run is damaged in the team's database: expected" in job_of(run.id).words
    assert run.state == "failed"
    assert "is damaged" in run.cause
