"""Several real processes claim from one queue while some of them are killed: nothing is lost, nothing done twice."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.queueing.jobs import CLOSED, FINISHED, Entry, Job
from support.runs import until
from support.team import queue_worker
from support.team.postgres import Postgres

JOBS, HOSTS, KILLS, LIMIT = 120, 3, 4, 2


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    if request.param == "sqlite":
        return "sqlite", str(tmp_path / "queue.sqlite")
    server: Postgres = request.getfixturevalue("postgres")
    return "postgresql", server.address(request.getfixturevalue("team_database"))


@pytest.fixture
def start(place: tuple[str, str]) -> Callable[[str], subprocess.Popen[str]]:
    def start(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", queue_worker.__file__, *place, name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        return process

    return start


def test_every_job_is_finished_once_whoever_is_killed(
    place: tuple[str, str], start: Callable[[str], subprocess.Popen[str]]
) -> None:
    with queue_worker.opened(*place) as queue:
        queue.set_limit("ann", LIMIT)
        for number in range(JOBS):
            after = (f"job-{number - 7}",) if number % 10 == 9 else ()
            queue.put(Job(f"job-{number}", "ann" if number % 2 else "bob", number % 3, after=after, allowed=1000))
        hosts = [start(f"host-{number}") for number in range(HOSTS)]
        for number in range(KILLS):
            done = (number + 1) * JOBS // (KILLS + 2)
            until(lambda done=done: queue.tables.counts().get(FINISHED, 0) >= done)  # type: ignore[misc]
            victim = hosts.pop(random.randrange(len(hosts)))
            victim.kill()
            victim.communicate()
            hosts.append(start(f"later-{number}"))
        until(lambda: not queue.jobs())
        for process in hosts:
            process.communicate(timeout=60)
            assert process.returncode == 0
        ledger = queue.tables.ledger(None)
        after = {job.id: job.after for job in queue.jobs(CLOSED)}
    check(ledger, after)


def check(ledger: list[Entry], after: dict[str, tuple[str, ...]]) -> None:
    """The ledger, read from its beginning: who holds what at each moment."""
    assert Counter(entry.job for entry in ledger if entry.event == FINISHED) == dict.fromkeys(after, 1)
    holder: dict[str, int] = {}
    finished: set[str] = set()
    of_ann = {f"job-{number}" for number in range(1, JOBS, 2)}
    for entry in ledger:
        if entry.event == "put":
            continue
        if entry.event == "taken":
            assert entry.job not in holder, "two hosts had it at once"
            assert finished >= set(after[entry.job]), "it began before those that it waits for"
            holder[entry.job] = entry.fence
            assert len(of_ann & holder.keys()) <= LIMIT
            continue
        assert holder.pop(entry.job) == entry.fence
        if entry.event == FINISHED:
            finished.add(entry.job)
