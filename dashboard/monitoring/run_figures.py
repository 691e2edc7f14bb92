"""What all runs together are doing and have done, from their folders; what did not change is not read again.

A look at a run whose files are as they were is a few calls of `stat`. Counters begin with the first look: what happened
before it is in the folders, and a monitor would take it for news. They never go back when a run is deleted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from dataclasses import field

from shoal.dashboard.monitoring.exposition import Family, Figure, by_label, single
from shoal.errors import TrainingError
from shoal.files.locks import is_held
from shoal.home import names_in, runs_directory
from shoal.lazy.classes import dataclass
from shoal.metrics import Round
from shoal.people.belongings import thing_at
from shoal.runs.commands import metrics_of
from shoal.runs.folder import ACTIVE, ENDED, Run, is_run
from shoal.runs.tickets import in_line
from shoal.storage.base import Storage
from shoal.storage.place import FILE, MARK

SAYS = ("config.json", "started", "state.json", "result.json", "error.json")  # what the state of a run is read from
SAID = ("finished", "stopped", "failed")  # states that are in a document, whether or not a process is there
STATES = (*ACTIVE, *ENDED)
EVENTS = ("lost", "restarted")
MOST_EVENTS = 10_000  # of one run between two looks
OLD_STORES = 50  # of runs that ended before we began: read at one look, so that the first one is no long one
COARSE = 50_000_000  # nanoseconds that the times of files may be behind the clock
MOST_SHOWN = 50  # runs at work with lines of their own, the oldest first; as many as a large machine has slots

_Stamp = tuple[int, int, int] | None


def stamp(path: str) -> _Stamp:
    """What a file looks like from outside; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@dataclass
class _Known:
    """A run as it was at the last look."""

    files: tuple[_Stamp, ...] = ()
    held: bool = False  # a process had its lock
    waits: bool = False  # it had a ticket
    state: str = ""
    store: tuple[_Stamp, _Stamp] = (None, None)  # as it was read, with its journal
    is_new: bool = True  # what its store says happened since we began
    event: int = 0  # the last one that was read
    last: Round | None = None


@dataclass
class RunFigures:
    """One for a server; used by one thread at a time."""

    began: int = 0  # the first look, in nanoseconds since 1970
    ended: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    _known: dict[str, _Known] = field(default_factory=dict)

    def families(self) -> list[Family]:
        """Of a new look. StateError where the runs or the queue cannot be read."""
        runs = self._look()
        states = Counter(known.state for known in runs.values())
        work = {name: known.last for name, known in sorted(runs.items()) if known.state == "running" and known.last}
        shown = dict(list(work.items())[:MOST_SHOWN])
        return [
            by_label(
                "shoal_runs", "gauge", "Runs that are there, by state.", "state", {one: states[one] for one in STATES}
            ),
            by_label(
                "shoal_runs_ended_total",
                "counter",
                "Runs that came to an end since the first scrape, by state.",
                "state",
                {one: self.ended[one] for one in ENDED},
            ),
            single(
                "shoal_rows_per_second",
                "gauge",
                "Rows a second of all gradient runs at work.",
                sum(last.rows_per_second for last in work.values()),
            ),
            single("shoal_rounds_total", "counter", "Rounds of gradient runs since the first scrape.", self.rounds),
            single(
                "shoal_workers_lost_total",
                "counter",
                "Workers lost by gradient runs since the first scrape.",
                self.happened["lost"],
            ),
            single(
                "shoal_workers_restarted_total",
                "counter",
                "Workers started in the place of lost ones since the first scrape.",
                self.happened["restarted"],
            ),
            _each(
                "shoal_run_rows_per_second",
                "Rows a second of a gradient run at work.",
                {name: last.rows_per_second for name, last in shown.items()},
            ),
            _each(
                "shoal_run_rounds",
                "Rounds that a gradient run at work has done.",
                {name: last.round for name, last in shown.items()},
            ),
            _each(
                "shoal_run_workers",
                "Workers of a gradient run at work.",
                {name: last.workers for name, last in shown.items()},
            ),
        ]

    # ---------------------------------------------------------------- looking

    def _look(self) -> dict[str, _Known]:
        root, waiting = runs_directory(), {one.run_id for one in in_line()}
        names = sorted(names_in(root), reverse=True)
        first, self.began = not self.began, self.began or time.time_ns() - COARSE
        before, self._known = self._known, {}
        old = OLD_STORES
        for name in names:
            folder = f"{root}/{name}"
            files = tuple(stamp(f"{folder}/{file}") for file in SAYS)
            if files[0] is None and not is_run(name):
                continue
            store = _store(folder)
            known = before.get(name) or _Known(is_new=store[0] is None or (not first and store[0][1] > self.began))
            self._known[name] = known
            self._see_state(known, Run(root / name), files, name in waiting, first)
            if store != known.store and (known.state not in SAID or known.is_new or old > 0):
                old -= known.state in SAID and not known.is_new
                self._read_store(known, Run(root / name), store)
        return self._known

    def _see_state(self, known: _Known, run: Run, files: tuple[_Stamp, ...], waits: bool, first: bool) -> None:
        if known.files == files and known.state in SAID:
            return
        held = is_held(run.directory / "lock")
        same = (known.files, known.held, known.waits) == (files, held, waits)
        if same and known.state != "preparing":  # which ends with time alone
            return
        state = _state(run, files, held, waits)
        if state in ENDED and not first and self._is_news(known, files, state):
            self.ended[state] += 1
        known.files, known.held, known.waits, known.state = files, held, waits, state

    def _is_news(self, known: _Known, files: tuple[_Stamp, ...], state: str) -> bool:
        if known.state:
            return known.state != state or known.files[1] != files[1]  # ended in the same way, after another start
        return max((one[1] for one in files if one), default=0) > self.began

    def _read_store(self, known: _Known, run: Run, store: tuple[_Stamp, _Stamp]) -> None:
        """What happened since the last look. A store that is locked or damaged is tried again when it has changed."""
        known.store = store
        with contextlib.suppress(TrainingError, OSError), metrics_of(run) as storage:
            if storage is None:
                return
            newest = max((number for number, _ in storage.events(limit=1)), default=0)
            renewed = newest < known.event  # somebody had removed it
            found = storage.events(0 if renewed else known.event, EVENTS, MOST_EVENTS)
            last = storage.last_round()
            if known.is_new and last:
                before = _begun_at(run, storage) if renewed or known.last is None else known.last.round
                self.rounds += max(0, last.round - before)
            if known.is_new:
                self.happened.update(event.kind for _, event in found)
            known.event, known.last, known.is_new = newest, last, True


def _each(name: str, help: str, values: dict[str, float]) -> Family:
    """Of runs one by one; those that are private are counted elsewhere, and not named to a monitor."""
    told = {run: value for run, value in values.items() if not thing_at(runs_directory() / run).private}
    return Family(name, "gauge", help, [Figure(value, {"run": run}) for run, value in told.items()])


def _begun_at(run: Run, storage: Storage) -> int:
    """The round that its first record counts from: a fork did not do those before its checkpoint."""
    return storage.rounds(2)[0].round if run.job.get("forked_from") else 0


def _store(folder: str) -> tuple[_Stamp, _Stamp]:
    """The records and their journal, which comes and goes with its readers while it is empty.

    Where they are in a team's database, the run's process touches the document that says so.
    """
    journal = stamp(f"{folder}/metrics.sqlite-wal")
    return stamp(f"{folder}/{FILE}") or stamp(f"{folder}/{MARK}"), journal if journal and journal[2] else None


def _state(run: Run, files: tuple[_Stamp, ...], held: bool, waits: bool) -> str:
    """Of one that waits without its place in the queue, for which all tickets are looked through."""
    says_no_end = files[3] is None and files[4] is None
    return "queued" if waits and not held and says_no_end and run.is_waiting else run.state
