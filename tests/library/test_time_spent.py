"""Where a run's time went: shares add up to what the records say, and each advice comes when, and only when, it is due."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import StateError
from shoal.files.locks import own_lock
from shoal.library.time_spent import RunTime, time_spent
from shoal.metrics import Event, LinkSample, Record
from shoal.runs.folder import Run, write_json
from shoal.settings.values import config_from
from support.library import a_copy
from support.records import round_, worker
from support.tables import shoal


def of(home: Path, *records: Record, **config: Any) -> RunTime:
    """Of a run at work with these records; it was ready to train after a second."""
    folder = home / "runs" / "20260101-000000-0000001"
    folder.mkdir(parents=True)
    settings = config_from({"file": "t.csv", "target": "y", "solver": "gradient", **config}).as_dict()
    write_json(folder / "job.json", {"task": "train"})
    write_json(folder / "config.json", settings)
    with Run(folder).open_records() as storage:
        storage.add([Event(1.0, "started", 0, "Training begins."), *records])
    return time_spent(Run(folder))


def advice(spent: RunTime) -> str:
    return " ".join(map(str, spent.advice))


def busy(**shares: float) -> dict[str, float]:
    return {"read": 0.0, "compute": 1.0, "wait": 0.0, "apply": 0.0, **shares}


def test_shares_are_weighed_by_the_time_that_they_are_of(home: Path) -> None:
    spent = of(
        home, round_(1, seconds=2.0, **busy(compute=0.1, wait=0.9)), round_(2, seconds=3.0, **busy(compute=0.5, wait=0.5)),
        round_(3, seconds=6.0, **busy(compute=0.9, wait=0.1)),
    )  # fmt: skip
    shares = {part.name: part.share for part in spent.workers}
    assert shares["compute gradients"] == pytest.approx((1 * 0.5 + 3 * 0.9) / 4)
    assert shares["wait"] == pytest.approx((1 * 0.5 + 3 * 0.1) / 4)
    assert {part.name: part.seconds for part in spent.stages} == {"train": 5.0, "read the file": 1.0}
    assert advice(spent).startswith("Nothing stands out: workers computed for 80%")


@pytest.mark.parametrize(
    ("shares", "mode", "more", "told"),
    [
        (busy(read=0.3, compute=0.7), "sync", [], "--precision float32"),
        (busy(compute=0.3, wait=0.7, apply=0.6), "async", [], "Sums and steps took 60%"),
        (busy(compute=0.3, wait=0.7), "sync", [worker(5, 0, rows=900), worker(5, 1, rows=300)], "--mode ssp"),
        (busy(compute=0.3, wait=0.7), "sync", [worker(5, 0, rows=900), worker(5, 1, rows=890)], "--batch-size"),
        (
            busy(compute=0.3, wait=0.7),
            "sync",
            [worker(5, 0, rows=9, wait=0.9), worker(5, 1, rows=9, wait=0.5)],
            "worker 1",
        ),
        (busy(compute=0.3, wait=0.7), "ssp", [LinkSample(5.0, 0, "b", 0.02, 0.0, 9, 9)], "20.0 ms"),
        (busy(), "sync", [Event(3.0, "lost", 1, "gone", 1)], "1 worker was lost"),
    ],
)
def test_what_costs_most_comes_with_what_to_do(
    shares: dict[str, float], mode: str, more: list[Record], told: str, home: Path
) -> None:
    spent = of(home, round_(1, seconds=2.0, **shares), round_(2, seconds=9.0, **shares), *more, mode=mode)
    assert told in advice(spent)
    assert len(spent.advice) == 1


def test_training_is_that_of_all_processes_of_a_run(home: Path, finished: Path) -> None:
    """The report has the last one's, and the rest was called "start, write and all else"."""
    run = a_copy(finished)
    result = run.result
    assert result
    with run.open_records() as storage:
        rounds = storage.rounds(1000)
    result["timings"]["train"] = (rounds[-1].seconds - rounds[0].seconds) / 10
    write_json(run.directory / "result.json", result)
    parts = {part.name: part.seconds for part in time_spent(run).stages}
    assert parts["train"] == pytest.approx(rounds[-1].seconds - rounds[0].seconds)


def test_time_in_the_queue_is_said(home: Path, finished: Path) -> None:
    run = a_copy(finished)
    log = (run.directory / "log.jsonl").read_text()
    begun = json.loads(log.partition("\n")[0])["at"]
    os.utime(run.directory / "job.json", (begun - 300, begun - 300))
    assert time_spent(run).waited == pytest.approx(300)
    assert "Before it began it waited 5.0 min in the queue." in advice(time_spent(run))
    os.utime(run.directory / "job.json", (begun, begun))
    assert "queue" not in advice(time_spent(run))


def test_what_is_over_at_once_gets_no_advice(home: Path) -> None:
    shares = busy(compute=0.1, wait=0.9)
    spent = of(home, round_(1, seconds=1.0, **shares), round_(2, seconds=1.4, **shares))
    assert advice(spent) == "It took 1.4 s in all: there is little to gain."


def test_one_that_failed_says_why(home: Path) -> None:
    folder = home / "runs" / "20260101-000000-0000001"
    folder.mkdir(parents=True)
    write_json(folder / "job.json", {"task": "train"})
    write_json(folder / "error.json", {"message": "There is no column 'z'.", "kind": "DataError"})
    with pytest.raises(StateError, match=r"is failed, and left nothing behind.*There is no column 'z'"):
        time_spent(Run(folder))


def test_a_run_that_did_nothing_yet_says_so(home: Path) -> None:
    folder = home / "runs" / "20260101-000000-0000001"
    folder.mkdir(parents=True)
    write_json(folder / "job.json", {"task": "train"})
    with own_lock(folder), pytest.raises(StateError, match="has done nothing yet"):
        time_spent(Run(folder))


def test_stages_of_a_finished_run_are_its_report(finished: Path) -> None:
    run = a_copy(finished)
    spent, timings = time_spent(run), run.report.timings  # type: ignore[union-attr]
    assert spent.seconds == timings["total"]
    assert sum(part.seconds for part in spent.stages) == pytest.approx(timings["total"], rel=0.006)
    assert sum(part.share for part in spent.stages) == pytest.approx(1, rel=0.006)
    assert shoal("name", run.id, "by another name").code == 0
    answer = shoal("profile", "by another name")
    assert answer.code == 0
    assert "in all" in answer.out
    assert "of the time of all workers" in answer.out
    assert shoal("profile", run.id, "--json").json["seconds"] == timings["total"]
