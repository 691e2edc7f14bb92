"""A host whose own disk is full, by its loop alone: its jobs are for others, not failed by it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from shoal.processes.carrier import Carrier
from shoal.processes.host import SPARE, HostLoop
from shoal.queueing.homes import home_mark
from shoal.queueing.jobs import RUNNING, WAITING, RunHost
from shoal.queueing.team import needed_queue
from shoal.runs.folder import Run
from shoal.runs.launch import launch
from support.runs import short_run, until
from support.team.homes import Homes
from support.team.hosts import job_of

Upload = Callable[..., Path]


class NoProcess:
    """Notes what it is told in the place of making processes."""

    def __init__(self) -> None:
        self.told: list[Mapping[str, Any]] = []

    def ended(self, wait: float) -> tuple[dict[str, int], bool]:
        return {}, False

    def say(self, **words: Any) -> None:
        self.told.append(words)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    usual = shutil.disk_usage

    def left(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usual(path)._replace(free=free))

    return left


@pytest.fixture
def carrier() -> Iterator[Carrier]:
    made = Carrier()
    yield made
    made.close()


def test_it_takes_nothing_until_there_is_room(
    homes: Homes, upload: Upload, carrier: Carrier, disk: Callable[[int], None]
) -> None:
    run, warm, said = launch(short_run(upload())), NoProcess(), list[str]()
    loop = HostLoop(needed_queue(), RunHost("one", 4, "a process", home=home_mark()), warm, carrier, said.append)  # type: ignore[arg-type]
    disk(SPARE - 1)
    loop.step()
    loop.step()
    assert job_of(run.id).state == WAITING
    assert [line for line in said if "this host takes nothing until there are" in line] == said
    assert len(said) == 1
    disk(SPARE)
    loop.step()
    assert job_of(run.id).state == RUNNING
    assert "jobs are taken again" in said[1]
    assert [words["run"] for words in warm.told] == [run.id]


def test_a_run_that_did_not_fit_is_given_back_and_that_is_no_try(
    homes: Homes, upload: Upload, carrier: Carrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    run, said = launch(short_run(upload(), retries=0)), list[str]()
    with homes.inside("far"):
        loop = HostLoop(
            needed_queue(), RunHost("one", 4, "a process", home=home_mark()), NoProcess(), carrier, said.append
        )  # type: ignore[arg-type]
        monkeypatch.setattr("shoal.travel.packing.put", full)
        until(lambda: loop.step() or any("This host takes nothing for" in line for line in said))  # type: ignore[func-returns-value]
        loop.step()
    job = job_of(run.id)
    assert (job.state, job.tries) == (WAITING, 0)
    assert "could not be fetched by the host one" in job.words
    assert Run(run.directory).state == "queued"
