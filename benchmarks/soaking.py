"""Harm that `make soak` does, one method a kind of process, and the books on what came of it; the page is in `soak`.

How a single harm is done, and what must be the same afterwards, is in `tests/support/chaos.py`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import psutil

from shoal.errors import Reason
from shoal.home import queue_directory
from shoal.runs import spawning
from shoal.runs.launch import Run, launch, launch_job, resume
from shoal.runs.scheduling import SCHEDULER, keep_going
from shoal.search.folder import Search, go_on
from shoal.settings.config import RunConfig
from support import chaos
from support.processes import command_of
from support.runs import begun, ended, small_table, until

MODES = ("sync", "local", "ssp", "async")
SAME_BITS = ("sync", "local")  # the others end elsewhere each time, near the optimum
NEAR = 1e-6  # distance to the optimum that counts as there
WORKERS = (1, 2, 3)
KILLS_A_RUN, RESUMES_A_RUN = 12, 5
LONG = {"epochs": 12, "finish_passes": 1200}  # time enough to be killed several times
CHECKPOINTS = 0.5  # seconds between two
MOST_FAULTS = 20  # then it is no use to go on
TRIALS = 4
FITS = 6  # at a time, of one starter


@dataclass
class Findings:
    """What was counted; `stuck` and `wrong` say in words what should not have been."""

    kills: Counter[str] = field(default_factory=Counter)  # by kind, for workers and runs with their mode
    ends: Counter[str] = field(default_factory=Counter)  # runs, jobs and searches that were compared
    recoveries: list[float] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    moments: Counter[str] = field(default_factory=Counter)
    stopped_workers: int = 0
    stopped_warm: int = 0
    given_up: int = 0  # runs that ended because one request had lost three workers in a row, and were resumed
    stuck: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def together(self, other: Findings) -> Findings:
        return Findings(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


class Soak:
    """Harm to the processes of one home."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.home, self.folder = folder / "home", folder
        self.data, self.small = chaos.write_table(folder / "table.csv"), small_table(folder)
        self.chance, self.found = random.Random(seed), Findings()
        self.memory = chaos.shared_memory()
        self._references: dict[str, dict[str, Any]] = {}
        self._resumed = 0  # fits that were interrupted

    # ---------------------------------------------------------------- workers

    def kill_workers(self, wanted: int, mode: str) -> None:
        kind = f"workers, {mode}"
        for workers in itertools.cycle(WORKERS):
            left = wanted - self.found.kills[kind]
            if left <= 0:
                return
            run, given_up = launch(self._config(mode, workers=workers)), self.found.given_up
            kills = chaos.kill_workers(run, self.chance, min(KILLS_A_RUN, left), (0.05, 0.6))
            self.found.kills[kind] += len(kills)
            if self._ended_well(kind, run, mode):
                self.found.recoveries += chaos.recoveries(run, kills)
                if self.found.given_up == given_up:
                    self._losses_noticed(run, kills)
            self._done(kind, wanted, run)

    def _losses_noticed(self, run: Run, kills: list[chaos.Kill]) -> None:
        """Of all that were replaced; those after the last step, while a checkpoint is written, are no events."""
        lost, replaced = chaos.events(run, "lost"), len(chaos.recoveries(run, kills))
        if not replaced <= len(lost) <= len(kills):
            self.found.wrong.append(f"{run.id}: {replaced} killed workers were replaced, {len(lost)} losses noticed")
        if any(event.data["signal"] != 9 for event in lost):
            self.found.wrong.append(f"{run.id}: a loss was put down to something else than signal 9")

    # ---------------------------------------------------------------- run processes

    def kill_runs(self, wanted: int, mode: str) -> None:
        kind = f"runs, {mode}"
        while (left := wanted - self.found.kills[kind]) > 0:
            shutil.rmtree(self.home / "cache", ignore_errors=True)  # the file is read anew: more to interrupt
            run = launch(self._config(mode, checkpoint_seconds=CHECKPOINTS))
            for _ in range(min(RESUMES_A_RUN, left)):
                if not self._kill_and_resume(kind, run):
                    break
            self._ended_well(kind, run, mode)
            self._done(kind, wanted, run)

    def _kill_and_resume(self, kind: str, run: Run) -> bool:
        """Whether the run was still there to be killed."""
        moment = self.chance.choice(self._ahead(run))
        if not chaos.reach(run, moment):
            return False
        time.sleep(0.0 if moment == "first checkpoint" else self.chance.uniform(0, 0.4))
        if self.chance.random() < 0.3 and (workers := chaos.joined(run)):
            with contextlib.suppress(psutil.Error):
                self.chance.choice(workers).process.suspend()
                self.found.stopped_workers += 1
        pid = chaos.kill_run(run)
        if not pid or run.state != "interrupted":
            return False
        self.found.wrong += [f"{run.id}: left behind after its death: {left}" for left in chaos.orphans(run, pid)]
        self.found.kills[kind] += 1
        self.found.moments[moment] += 1
        started = time.monotonic()
        resume(run)
        until(lambda: run.state == "running" or not run.is_active)
        self.found.restarts.append(time.monotonic() - started)
        return True

    def _ahead(self, run: Run) -> tuple[str, ...]:
        """Moments that are still to come: there is one first checkpoint, and a finish is not left again."""
        if not run.checkpoints_path.exists():
            return chaos.MOMENTS
        return ("preparing", "finish") if chaos.phase(run) == "finish" else ("preparing", "training", "finish")

    # ---------------------------------------------------------------- jobs, schedulers, searches, dashboards

    def kill_jobs(self, wanted: int) -> None:
        """Exact fits and looks at a file: done again, they have the same answer."""
        exact = RunConfig(file=str(self.data), target="y")
        asked: list[tuple[Callable[[], Run], Callable[[Run], Run]]] = [
            (lambda: launch(exact), resume),
            (lambda: launch_job("inspect", exact, anew=True), lambda run: launch_job("inspect", exact, anew=True)),
        ]
        answers = [_answer(self._finished("jobs", begin())) for begin, _ in asked]
        while self.found.kills["jobs"] < wanted:
            for (begin, again), answer in zip(asked, answers, strict=True):
                shutil.rmtree(self.home / "cache", ignore_errors=True)
                run = begin()
                until(lambda run=run: run.pid or not run.is_active)
                time.sleep(self.chance.uniform(0, 0.4))
                if chaos.kill_run(run) and run.state == "interrupted":
                    self.found.kills["jobs"] += 1
                    run = again(run)
                self.found.ends["jobs"] += 1
                if _answer(self._finished("jobs", run)) != answer:
                    self.found.wrong.append(f"{run.directory}: another answer than undisturbed")
        self._tell("jobs", wanted)

    def kill_schedulers(self, wanted: int) -> None:
        """Runs that wait start in their order all the same, by whoever looks first; here, now and then, a person."""
        kind = "schedulers"
        while self.found.kills[kind] < wanted:
            runs = [launch(self._config("sync", workers=3, epochs=2, finish_passes=30)) for _ in range(4)]
            while any(run.is_active for run in runs):
                for process in self._schedulers():
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
                        self.found.kills[kind] += 1
                time.sleep(self.chance.uniform(0.2, 1.0))
                keep_going()
            starts = [run.started_at or 0 for run in runs]
            if starts != sorted(starts):
                self.found.wrong.append(f"{runs[0].id} and those behind it did not start in order")
            for run in runs:
                self._finished(kind, run)
                self.found.ends[kind] += 1
                self._done(kind, wanted, run)

    def _schedulers(self) -> Iterator[psutil.Process]:
        mark = f"{SCHEDULER} {queue_directory()}"
        return (process for process in psutil.process_iter() if mark in command_of(process))

    def kill_warm(self, wanted: int) -> None:
        """Fits of one starter at a time, forked from a warm process: that one, or one of its forks, is killed."""
        exact = RunConfig(file=str(self.data), target="y")
        answer = _answer(self._finished("warm processes", launch(exact)))
        spawning.MANY, spawning.IDLE = 0, 1.0  # all come from there
        while self._of_warm < wanted:
            shutil.rmtree(self.home / "cache", ignore_errors=True)
            runs = [launch(exact) for _ in range(FITS)]
            for _ in range(3):
                time.sleep(self.chance.uniform(0, 0.6))
                self._harm_warm(runs)
            self._compare_fits(runs, answer)
            self._in_time("warm processes", "one that has nothing to do", lambda: not _warm_processes(self.home))
            for run in runs:
                shutil.rmtree(run.directory)
            self._tell("warm processes", wanted)

    @property
    def _of_warm(self) -> int:
        return self.found.kills["warm processes"] + self.found.kills["forks of warm processes"]

    def _harm_warm(self, runs: list[Run]) -> None:
        of_fork = self.chance.random() < 0.5
        if of_fork:
            until(lambda: any(run.pid for run in runs) or not any(run.is_active for run in runs))
        victims = _processes_of(runs) if of_fork else _warm_processes(self.home)
        if not victims:
            return
        kind, victim = "forks of warm processes" if of_fork else "warm processes", self.chance.choice(victims)
        with contextlib.suppress(psutil.NoSuchProcess):
            if not of_fork and self.chance.random() < 0.2:
                victim.suspend()
                self.found.stopped_warm += 1
            else:
                victim.kill()
                self.found.kills[kind] += 1

    def _compare_fits(self, runs: list[Run], answer: Any) -> None:
        killed = [run for run in runs if self._ends(run) and run.state == "interrupted"]
        if len(killed) > self.found.kills["forks of warm processes"] - self._resumed:
            self.found.wrong.append(f"{killed[-1].id}: interrupted by the death of the warm process")
        for run in killed:
            resume(run)
        self._resumed += len(killed)
        for run in runs:
            self.found.ends["warm processes"] += 1
            if _answer(self._finished("warm processes", run)) != answer:
                self.found.wrong.append(f"{run.id}: another answer than undisturbed")

    def _ends(self, run: Run) -> bool:
        return self._in_time("warm processes", run.id, lambda: not run.is_active and not run.is_alive)

    def kill_searches(self, wanted: int) -> None:
        kind = "searches"
        while (left := wanted - self.found.kills[kind]) > 0:
            search = begun(self.small, {"batch_size": "16,32,64,128"}, trials=TRIALS, seconds=3.0)
            for _ in range(min(3, left)):
                until(lambda search=search: search.folder.pid or not _goes_on(search))
                time.sleep(self.chance.uniform(0.3, 3.0))
                if not chaos.kill_run(search.folder) or search.standing.state != "interrupted":
                    break
                self.found.kills[kind] += 1
                go_on(search)
            self._compare_search(kind, search)
            self._tell(kind, wanted)

    def _compare_search(self, kind: str, search: Search) -> None:
        if not self._in_time(kind, search.id, lambda: not _goes_on(search) and not search.folder.is_alive):
            return
        self.found.ends[kind] += 1
        trials = [trial for trial in search.account.trials if trial.state in ("reached", "short", "pruned", "diverged")]
        if search.standing.state != "finished" or len(trials) != TRIALS:
            self.found.wrong.append(f"search {search.id} is {search.standing.state} with {len(trials)} trials")

    def kill_dashboards(self, wanted: int) -> None:
        """What was started goes on; a run that waits starts while there is no dashboard, or by the next one."""
        kind = "dashboards"
        while self.found.kills[kind] < wanted:
            runs = [launch(self._config("sync", workers=3)) for _ in range(2)]
            with _dashboard(self.folder / "dashboard.log") as process:
                time.sleep(self.chance.uniform(0, 1.0))
            if process.returncode != -9:
                raise SystemExit(f"The dashboard ended by itself: {(self.folder / 'dashboard.log').read_text()[-500:]}")
            self.found.kills[kind] += 1
            for run in runs:
                self._ended_well(kind, run, "sync")
                self._done(kind, wanted, run)

    # ---------------------------------------------------------------- what came of it

    def _config(self, mode: str, **knobs: Any) -> RunConfig:
        return chaos.with_finish(self.data, **{"mode": mode, **LONG, **knobs})

    def _expected(self, mode: str) -> dict[str, Any]:
        """Of an undisturbed run in one process."""
        if mode not in self._references:
            run = launch(self._config(mode, engine="inline"))
            if ended(run) != "finished":
                raise SystemExit(f"The undisturbed run is {run.state}: {run.cause}")
            self._references[mode] = chaos.bits(run)
        return self._references[mode]

    def _ended_well(self, kind: str, run: Run, mode: str) -> bool:
        if not self._is_finished(kind, run):
            return False
        self.found.ends[kind] += 1
        left = [name for name in chaos.leftovers(self.home) if ".json-" not in name]
        self.found.wrong += [f"{run.id}: left behind: {name}" for name in left]
        more = sorted(chaos.shared_memory() - self.memory)
        self.found.wrong += [f"{run.id}: left in memory: {name}" for name in more if name.startswith("shoal")]
        if mode in SAME_BITS:
            if chaos.bits(run) != self._expected(mode):
                self.found.wrong.append(f"{run.id}: other bits than the undisturbed run")
        elif not (distance := (run.result or {})["distance_to_optimum"]) <= NEAR:
            self.found.wrong.append(f"{run.id}: {distance:.1e} from the optimum")
        return True

    def _is_finished(self, kind: str, run: Run) -> bool:
        if not self._in_time(kind, run.id, lambda: not run.is_active and not run.is_alive):
            return False
        if (run.state, run.standing.reason) == ("failed", Reason.WORKER_FAILED) and kind.startswith("workers"):
            self.found.given_up += 1
            resume(run)
            if not self._in_time(kind, run.id, lambda: not run.is_active and not run.is_alive):
                return False
        if run.state != "finished":
            self.found.wrong.append(f"{run.id} is {run.state}: {run.cause}")
        return run.state == "finished"

    def _finished(self, kind: str, run: Run) -> Run:
        self._is_finished(kind, run)
        return run

    def _in_time(self, kind: str, name: str, over: Callable[[], bool]) -> bool:
        try:
            until(over, 300)
        except AssertionError:
            self.found.stuck.append(f"{kind}: {name}")
            return False
        return True

    def _done(self, kind: str, wanted: int, run: Run) -> None:
        self._tell(kind, wanted)
        shutil.rmtree(run.directory)

    def _tell(self, kind: str, wanted: int) -> None:
        faults = [*self.found.stuck, *self.found.wrong]
        more = f", {len(faults)} faults: {faults[-1]}" if faults else ""
        print(f"{kind}: {self.found.kills[kind]} of {wanted}{more}", file=sys.stderr, flush=True)
        if len(faults) > MOST_FAULTS:
            raise SystemExit("\n".join(["Too many faults to go on:", *faults]))


def _processes_of(runs: list[Run]) -> list[psutil.Process]:
    found = []
    for pid in (run.pid for run in runs):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [psutil.Process(pid)] if pid else []
    return found


def _warm_processes(home: Path) -> list[psutil.Process]:
    """Those of this home, without forks that have become runs: these have sessions of their own."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            ours = "shoal.processes.warm" in process.cmdline() and process.environ().get("SHOAL_HOME") == str(home)
            if ours and process.ppid() == os.getpid():
                found.append(process)
    return found


def _goes_on(search: Search) -> bool:
    return search.standing.state not in ("finished", "stopped", "failed", "interrupted")


def _answer(run: Run) -> Any:
    """What a job or an exact fit found, without what differs from time to time."""
    result = run.result or {}
    return result.get("coefficients") or result.get("columns")


@contextlib.contextmanager
def _dashboard(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One that answers, and is killed at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).with_name("shoal")), "dashboard", "--port", str(port)]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=os.environ["SHOAL_HOME"])
    try:
        until(lambda: _listens(port) or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
