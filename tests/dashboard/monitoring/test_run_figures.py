"""Figures of runs: as their folders say it, counted once, and cheap for runs that stay as they are."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.dashboard.monitoring import run_figures
from shoal.dashboard.monitoring.run_figures import RunFigures
from shoal.errors import StateError
from shoal.metrics import Event
from shoal.runs.commands import metrics_of, post
from shoal.runs.folder import Run
from shoal.runs.launch import launch
from shoal.runs.tickets import Terms, issue
from support.records import round_
from support.runs import ended, endless_run, made, run_home, small_table, training, until

LONG_AGO = time.time() - 86_400


def seen(figures: RunFigures) -> dict[str, float]:
    """By name and label: `shoal_runs finished`."""
    return {
        " ".join([family.name, *one.labels.values()]): one.value
        for family in figures.families() for one in family.figures
    }  # fmt: skip


def record(run: Run, *records: Any) -> None:
    with run.open_records() as storage:
        storage.add(records)


def lost(number: int) -> list[Event]:
    return [Event(1.0, kind, number, "text", 0) for kind in ("lost", "restarted", "lost", "checkpoint")]


def aged(run: Run) -> Run:
    """As if nothing had happened in it since yesterday."""
    for path in run.directory.iterdir():
        os.utime(path, (LONG_AGO, LONG_AGO))
    return run


def test_a_home_without_runs_has_all_figures(home: Path) -> None:
    found = seen(RunFigures())
    assert found["shoal_runs finished"] == found["shoal_runs_ended_total failed"] == found["shoal_rounds_total"] == 0


def test_states_are_those_that_the_runs_say(home: Path) -> None:
    runs = [
        made(result={"state": "finished"}), made(error={"state": "failed", "message": "x"}), made(state={"state": "running"}),
        made(state={"state": "stopped"}), made(result="{damaged"), made(state={"state": "queued"}), made(state={"state": "queued"}),
    ]  # fmt: skip
    issue(runs[-1].id, Terms(1, 1))
    (home / "runs" / "no run").mkdir()
    found = seen(RunFigures())
    for state in run_figures.STATES:
        assert found[f"shoal_runs {state}"] == sum(run.state == state for run in runs), state
    assert found["shoal_runs queued"] == 1
    assert sum(found[f"shoal_runs {state}"] for state in run_figures.STATES) == len(runs)


def test_endings_count_from_the_first_look_and_never_go_back(home: Path) -> None:
    figures = RunFigures()
    aged(made(error={"state": "failed", "message": "x"}))
    run = made(state={"state": "running"})
    assert seen(figures)["shoal_runs_ended_total failed"] == 0
    (run.directory / "error.json").write_text('{"state": "failed", "message": "x"}')
    new = made(error={"state": "failed", "message": "x"})
    aged(made(result={"state": "finished"}))  # restored from an archive
    for _ in range(2):
        found = seen(figures)
        assert (found["shoal_runs_ended_total failed"], found["shoal_runs_ended_total finished"]) == (2, 0)
    shutil.rmtree(new.directory)
    found = seen(figures)
    assert (found["shoal_runs failed"], found["shoal_runs_ended_total failed"]) == (2, 2)


def test_losses_and_rounds_count_once(home: Path) -> None:
    figures, before = RunFigures(), made(state={"state": "running"})
    record(before, round_(100), *lost(3))
    assert seen(figures)["shoal_workers_lost_total"] == 0  # it happened before anybody asked
    record(before, round_(103), *lost(4))
    new = made(state={"state": "running"})
    record(new, round_(1), round_(7), *lost(5))
    fork = made(state={"state": "running"}, job={"forked_from": {"run": new.id}})
    record(fork, round_(5000), round_(5010))
    for _ in range(2):
        found = seen(figures)
        assert found["shoal_workers_lost_total"] == 4
        assert found["shoal_workers_restarted_total"] == 2
        assert found["shoal_rounds_total"] == 3 + 7 + 10
    new.metrics_path.unlink()
    record(new, round_(2), *lost(5)[:3])  # begun anew
    assert seen(figures)["shoal_workers_lost_total"] == 6


def test_a_damaged_store_takes_nothing_else_away(home: Path) -> None:
    figures = RunFigures()
    seen(figures)
    made().metrics_path.write_bytes(b"no database" * 100)
    record(made(), round_(7), *lost(5))
    assert seen(figures)["shoal_workers_lost_total"] == 2


def test_a_queue_that_cannot_be_read_is_no_empty_one(home: Path) -> None:
    made()
    (home / "queue").mkdir()
    (home / "queue" / "waiting").write_text("")
    with pytest.raises(StateError):
        RunFigures().families()


def test_runs_that_stay_as_they_are_are_not_read_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """150 of them, of all sorts; also in a process that comes new, old stores are read a few at a time."""
    for number in range(150):
        sort = ({"result": {"state": "finished"}}, {"state": {"state": "queued"}}, {"state": {"state": "running"}})
        run = made(**sort[number % 3])
        if number % 3 == 1:
            issue(run.id, Terms(1, 1))
        else:
            record(run, round_(3))
    opened: list[str] = []
    monkeypatch.setattr(run_figures, "metrics_of", lambda run: opened.append(run.id) or metrics_of(run))
    figures = RunFigures()
    first = seen(figures)
    assert first["shoal_runs queued"] == first["shoal_runs interrupted"] == first["shoal_runs finished"] == 50
    assert len(opened) == 100
    with monkeypatch.context() as nothing:
        nothing.setattr(Run, "standing", property(lambda run: pytest.fail(f"{run.id} was read again")))
        nothing.setattr(Run, "_read", lambda run, name: pytest.fail(f"{run.id} was read again"))
        assert seen(figures) == first
    assert len(opened) == 100


def test_old_stores_are_read_a_few_at_a_time(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_figures, "OLD_STORES", 2)
    opened: list[str] = []
    monkeypatch.setattr(run_figures, "metrics_of", lambda run: opened.append(run.id) or metrics_of(run))
    runs = [made(result={"state": "finished"}) for _ in range(5)]
    for run in runs:
        record(run, round_(3), *lost(2))
    figures = RunFigures()
    for expected in (2, 4, 5, 5):
        assert seen(figures)["shoal_workers_lost_total"] == 0
        assert len(opened) == expected


def test_a_real_run_that_loses_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_home(tmp_path, monkeypatch):
        monkeypatch.setenv("SHOAL_SLOTS", "2")
        figures = RunFigures()
        assert seen(figures)["shoal_runs running"] == 0
        run = training(launch(endless_run(small_table(tmp_path), workers=2)))
        at_work = seen(figures)
        assert at_work["shoal_runs running"] == 1
        assert at_work[f"shoal_run_rounds {run.id}"] > 0
        assert at_work[f"shoal_run_rows_per_second {run.id}"] == at_work["shoal_rows_per_second"] > 0
        post(run, "kill_worker", {"rank": 0})
        until(lambda: seen(figures)["shoal_workers_restarted_total"] == 1)
        assert seen(figures)["shoal_workers_lost_total"] == 1
        assert seen(figures)["shoal_rounds_total"] > at_work["shoal_rounds_total"]
        post(run, "stop", {})
        state = ended(run)
        over = seen(figures)
        assert over[f"shoal_runs_ended_total {state}"] == over[f"shoal_runs {state}"] == 1
        assert f"shoal_run_rounds {run.id}" not in over
