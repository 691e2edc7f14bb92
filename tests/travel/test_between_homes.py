"""Runs that go on in another home: real hosts, each with a disk of its own, killed, stopped and back from the dead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil

from shoal.runs.launch import Run, launch
from shoal.settings.values import config_from
from shoal.travel.parcels import parcels
from support.runs import ended, short_run, training, until
from support.team.homes import Homes
from support.team.hosts import HostProcess, job_of


def weights(run: Run) -> object:
    assert run.report is not None, run.error
    return run.report.coefficients


def killed(host: HostProcess) -> None:
    family = psutil.Process(host.process.pid).children(recursive=True)
    host.kill()
    assert not psutil.wait_procs(family, timeout=60)[1]


def test_a_host_of_another_home_takes_a_run_and_sends_back_what_became_of_it(
    homes: Homes, upload: Callable[..., Path]
) -> None:
    exact, steps = launch(config_from({"file": str(upload()), "target": "y"})), launch(short_run(upload()))
    homes.host("far", "away")
    assert ended(exact) == ended(steps) == "finished"
    assert job_of(steps.id).host == "away"
    assert exact.report is not None
    assert exact.model_path.exists()
    assert steps.model_path.exists()
    assert list(steps.checkpoints_path.glob("step-*.ckpt"))
    assert "finished" in (steps.directory / "log.txt").read_text()
    until(lambda: not (homes.path("far") / "runs" / steps.id).exists())
    assert parcels().find(exact.id) is None
    assert parcels().find(steps.id) is None


def test_a_run_goes_on_in_another_home_from_its_checkpoint_and_ends_with_the_same_bits(
    homes: Homes, upload: Callable[..., Path]
) -> None:
    knobs = {"epochs": 3000, "tolerance": 0, "checkpoint_seconds": 0.05, "retries": 9, "max_seconds": 0}
    first = homes.host("near", "first")
    run = training(launch(short_run(upload(), **knobs)))
    until(lambda: "checkpoints/" in " ".join(parcels().find(run.id).files))  # type: ignore[union-attr]
    killed(first)
    second = homes.host("far", "second")
    until(lambda: job_of(run.id).host == "second" and run.state == "running")
    killed(second)
    homes.host("near", "third")
    assert ended(run) == "finished"
    alone = launch(short_run(upload(), **knobs))
    assert ended(alone) == "finished"
    assert weights(run) == weights(alone)
