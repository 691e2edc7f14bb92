"""Jobs end when nobody waits for them any more, and are started again by whoever comes back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from shoal.errors import Reason
from shoal.home import jobs_directory
from shoal.runs import awaiting
from shoal.runs.awaiting import WaitWatch
from shoal.runs.launch import Run, launch_job
from shoal.settings import limits
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from support.gates.orders import Orders
from support.records import read_log
from support.runs import all_gone, descendants, ended, small_table, until

PATIENCE = 2.0  # seconds, in place of minutes; many more than a busy machine leaves between two renewals


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_patience_begins_anew_with_every_look_and_ends_once(tmp_path: Path) -> None:
    awaiting.begin(tmp_path, "inspect")
    clock, ends = Clock(), []
    watch = WaitWatch(tmp_path, 60.0, lambda: ends.append(clock.now), clock)
    for second in range(59):
        clock.now = 101.0 + second
        watch()
    os.utime(tmp_path / awaiting.NAME, (5, 5))  # whatever the time of day is said to be: somebody looked
    watch()
    clock.now += 59.9
    watch()
    assert ends == []
    clock.now += 0.1
    watch()
    watch()
    assert ends == [219.0]


def test_renewing_makes_nothing_where_nobody_watches(tmp_path: Path) -> None:
    awaiting.renew(tmp_path)
    awaiting.renew(tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []


def test_what_a_person_may_walk_away_from_has_patience_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    assert awaiting.begin(tmp_path, "study") == {"patience": limits.JOB_PATIENCE}
    job = launch_job("archive", RunConfig(), {"runs": []})
    assert ended(job) == "finished"
    assert "patience" not in job.job
    assert not (job.directory / awaiting.NAME).exists()


def test_a_job_goes_on_while_somebody_waits_ends_when_nobody_does_and_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(limits, "JOB_PATIENCE", PATIENCE)
    orders = Orders(tmp_path / "gates", monkeypatch)
    file = small_table(tmp_path).rename(tmp_path / "table.gated")
    config = config_from({"file": str(file), "engine": "processes", "workers": 1})
    orders.hold("read")

    job = launch_job("inspect", config)
    begun = until(lambda: _awaited(job) and job.started_at)
    until(lambda: _awaited(job) and (tmp_path / "gates" / "read.here").exists())
    until(lambda: _awaited(job) and time.time() - begun > 2 * PATIENCE)
    assert job.state == "running"
    processes = [psutil.Process(job.pid), *descendants(job)]

    assert ended(job) == "interrupted"  # the renewals have stopped
    assert all_gone(processes)
    assert job.standing.reason == Reason.UNAWAITED
    assert job.cause == "Nobody has waited for it for 2.0 s, so it was ended. Start it again."
    assert any("Nobody has waited" in entry["text"] for entry in read_log(job.directory))
    assert not list((tmp_path / "home" / "cache").glob("unfinished-*"))

    monkeypatch.setattr(limits, "JOB_PATIENCE", 600.0)
    orders.let_go("read")
    again = launch_job("inspect", config, anew=True)
    assert again.directory == job.directory
    assert ended(again) == "finished", again.error
    assert again.result
    assert again.result["rows"] == 400
    assert list(jobs_directory().glob("*/*")) == [job.directory]


def _awaited(job: Run) -> bool:
    awaiting.renew(job.directory)
    return True
