"""Run hosts for tests: real processes of `shoal run-host`, started, killed and waited for."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from shoal.database.connections import database
from shoal.errors import TrainingError
from shoal.queueing.jobs import Job
from shoal.queueing.team import forget_looks, needed_queue
from support.runs import until
from support.team.queues import emptied


class HostProcess:
    """One `shoal run-host`, up when this is made."""

    def __init__(self, name: str, slots: int, log: Path, home: Path | None = None) -> None:
        self.name, self.log = name, log
        command = [sys.executable, "-P", "-m", "shoal.cli.app", "run-host", "--slots", str(slots), "--name", name]
        with log.open("ab") as file:
            own = {"SHOAL_HOME": str(home)} if home else {}
            self.process = subprocess.Popen(command, stderr=file, env={**os.environ, **own})

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return "is up" in self.said()

    def said(self) -> str:
        return self.log.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> int:
        return self.process.wait(120)


@contextlib.contextmanager
def hosts_in(folder: Path) -> Iterator[list[HostProcess]]:
    """Those that are put into the list are killed at the end, and the queue is empty."""
    started: list[HostProcess] = []
    try:
        yield started
    finally:
        for host in started:
            if host.process.poll() is None:
                host.kill()
        with contextlib.suppress(TrainingError):  # a test may have named another
            emptied(database())
        forget_looks()


def started(into: list[HostProcess], name: str, slots: int, folder: Path, home: Path | None = None) -> HostProcess:
    """In the home of the environment, or another."""
    host = HostProcess(name, slots, folder / f"{name}.log", home)
    into.append(host)
    until(host.is_up)
    return host


def job_of(run: str) -> Job:
    found = needed_queue().get(run)
    assert found is not None
    return found
