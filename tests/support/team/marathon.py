"""Many small fits by run hosts that are killed again and again, while somebody looks at the lists: what came of it.

Shared by a test (60 fits, 4 kills) and `python -m benchmarks.team` (1,000 and 20).
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from shoal.home import uploads_directory
from shoal.library import accounts
from shoal.queueing.jobs import CLOSED, FINISHED
from shoal.queueing.team import PERSON, needed_queue
from shoal.runs.launch import Run, launch
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from support.team.hosts import HostProcess, hosts_in, started

LOOK = 0.25  # seconds between two looks at the lists
LIMIT = 1800.0  # seconds after which it is given up


@dataclass
class Outcome:
    """Seconds, and what the ledger says."""

    queued: float = 0.0
    working: float = 0.0  # from the first host's start to the last end
    kills: int = 0
    finished: Counter[str] = field(default_factory=Counter)  # by job: times that the ledger says so
    lost: int = 0  # times that a job was lost with its host
    states: Counter[str] = field(default_factory=Counter)  # of all jobs at the end
    folders: Counter[str] = field(default_factory=Counter)  # and of the runs, by their folders
    queue_reads: list[float] = field(default_factory=list)  # of all open jobs
    run_reads: list[float] = field(default_factory=list)  # of all runs, as the list of runs does

    def percentile(self, reads: list[float], share: float) -> float:
        return statistics.quantiles(reads, n=100)[round(share * 100) - 1] if len(reads) > 1 else max(reads, default=0.0)


class Looker(threading.Thread):
    """Reads the lists all the while."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(name="looker", daemon=True)
        self.outcome, self._done = outcome, threading.Event()

    def run(self) -> None:
        queue = needed_queue()
        while not self._done.wait(LOOK):
            begun = time.perf_counter()
            queue.jobs()
            between = time.perf_counter()
            accounts.summaries()
            self.outcome.queue_reads.append(between - begun)
            self.outcome.run_reads.append(time.perf_counter() - between)

    def end(self) -> None:
        self._done.set()
        self.join()


def _launched(config: RunConfig, person: str) -> Run:
    os.environ[PERSON] = person  # as somebody else's shell has it
    try:
        return launch(config)
    finally:
        del os.environ[PERSON]


def marathon(
    table: Path, folder: Path, jobs: int, kills: int, hosts: int = 2, say: Callable[[str], None] = lambda text: None,
    apart: bool = False,
) -> Outcome:  # fmt: skip
    """In the home and database of the environment; `apart`: each host has a home of its own, one of them this."""
    outcome, queue = Outcome(), needed_queue()
    if apart:
        table = _sent(table)
    config = config_from({"file": str(table), "target": "y", "retries": 1000})
    begun = time.perf_counter()
    runs = [_launched(config, f"person {number % 3}") for number in range(jobs)]
    outcome.queued = time.perf_counter() - begun
    say(f"{jobs} queued in {outcome.queued:.1f} s")
    looker = Looker(outcome)
    with hosts_in(folder) as up:
        looker.start()
        begun = time.perf_counter()
        homes = [Path(os.environ["SHOAL_HOME"]), *(folder / f"home-{number}" for number in range(1, hosts) if apart)]
        alive = [started(up, f"host-{number}", 1, folder, homes[number % len(homes)]) for number in range(hosts)]
        for number in range(kills):
            _wait_for(lambda due=(number + 1) * jobs // (kills + 2): _done() >= due)  # type: ignore[misc]
            victim: HostProcess = alive.pop(random.randrange(len(alive)))
            victim.kill()
            outcome.kills += 1
            alive.append(started(up, f"later-{number}", 1, folder, random.choice(homes)))
            say(f"kill {number + 1}: {_done()} of {jobs} done after {time.perf_counter() - begun:.1f} s")
        _wait_for(lambda: not queue.jobs())
        outcome.working = time.perf_counter() - begun
        looker.end()
        _wait_for(lambda: not any(run.is_active for run in runs))  # what was done in another home comes back
        _sum_up(outcome, runs)
    return outcome


def _sent(table: Path) -> Path:
    """As if a browser had sent it: such a table goes along."""
    path = uploads_directory() / ("0" * 24) / table.name
    path.parent.mkdir(parents=True)
    shutil.copyfile(table, path)
    return path


def _sum_up(outcome: Outcome, runs: list[Run]) -> None:
    queue = needed_queue()
    ledger = queue.tables.ledger(None)
    outcome.finished = Counter(entry.job for entry in ledger if entry.event == FINISHED)
    outcome.lost = sum(entry.event == "lost" for entry in ledger)
    outcome.states = Counter(job.state for job in queue.jobs(CLOSED))
    outcome.folders = Counter(run.state for run in runs)


def _done() -> int:
    return needed_queue().tables.counts().get(FINISHED, 0)


def _wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not what():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)
