"""The process of a search, `python -m shoal.processes.search DIRECTORY`: it launches trials as runs, watches their
distance to the optimum and gives up those without promise. Optuna, which chooses them, is behind `search_trials`.

A trial is given up if

    median   its distance is above the median of what earlier trials had left after as many seconds of training, or
    race     it has used RACE times the seconds in which another trial came as close as was asked.

Whatever ends this process, its trials are found again by the search that is named in their jobs. SIGTERM and SIGINT ask
for an orderly end: trials that train are stopped and put back, to be tried when the search goes on. One process a
search, by its lock, so Optuna's heartbeats are not needed. Folders and files are in `search.folder`.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import optuna
from optuna.trial import TrialState

from shoal.errors import DataError, Reason, ResourceError, Standing, StateError, TrainingError
from shoal.files.locks import own_lock
from shoal.home import keep_private
from shoal.library import notes
from shoal.processes.run import failure
from shoal.processes.search_trials import Trials, Watched, importance_of, open_study, place_of, told
from shoal.runs.commands import metrics_of, post
from shoal.runs.folder import Run, find_run, list_runs, write_json, write_state
from shoal.runs.launch import launch
from shoal.runs.scheduling import keep_going
from shoal.runs.slots import works_elsewhere
from shoal.runs.spawning import STOPS, hear_signals
from shoal.search import space
from shoal.search.folder import Search, shared_among, side_by_side, trial_config
from shoal.search.plan import TRIES, Account
from shoal.search.trial_progress import TrialProgress
from shoal.tasks.workers import free_cores
from shoal.utils import RunLog

LOOK = 0.1  # seconds between two looks at the trials
SAY = 1.0  # seconds between two accounts of trials that go on
RACE = 2.0
SHORTEST = 0.25  # seconds that a race takes at least: shorter ones are decided by chance
GRACE = 30.0  # seconds for a stopped trial to end


class Hopeless(TrainingError):
    """No trial can succeed."""


class Driver:
    """One life of a search."""

    def __init__(self, search: Search, log: RunLog) -> None:
        self.search, self.log = search, log
        self.plan, self.base = search.plan, search.config
        free = None
        if works_elsewhere(self.base):
            free = free_cores(self.base)
            self.base = shared_among(search, self.base, free)
        self.asked = threading.Event()  # for an orderly end
        known = search.account.seals
        self.trials = Trials(open_study(search.directory, self.plan.seed, known), self.plan, self.base)
        self.running: list[Watched] = []
        self.at_once = side_by_side(self.base, self.plan, free)
        self.before, self.began = search.account.seconds, time.monotonic()
        self._said = 0.0

    @property
    def seconds(self) -> float:
        """At work, all lives together."""
        return self.before + time.monotonic() - self.began

    # ---------------------------------------------------------------- from the first trial to the last

    def drive(self) -> Standing:
        """To the end, and how that came."""
        self._take_up()
        self.trials.prepare()
        self.account()
        while True:
            if self.asked.is_set():
                cause = "It was stopped by a person; it can be continued."
                return self._end(Standing("stopped", cause, Reason.STOPPED))
            if self.plan.within and self.seconds >= self.plan.within:
                cause = f"The time limit of {self.plan.within:g} s is reached."
                return self._end(Standing("finished", cause, Reason.TIME_LIMIT))
            self._look()
            if not self._fill() and not self.running:
                return Standing("finished", self._conclusion(), Reason.COMPLETE)
            self.asked.wait(LOOK)

    def _fill(self) -> bool:
        """Begin as many trials as may train side by side; whether any is left to begin."""
        while (left := len(self.trials.counted()) < self.trials.wanted) and len(self.running) < self.at_once:
            self._begin()
        return left

    def _conclusion(self) -> str:
        done, wanted = len(self.trials.counted()), self.plan.trials
        if done < wanted:
            return f"All {done} combinations have been tried."
        return f"All {done} trials are done."

    # ---------------------------------------------------------------- one trial

    def _begin(self) -> None:
        trial, knobs = self.trials.ask()
        place = place_of(trial)
        try:
            config = trial_config(self.base, self.plan, knobs)
            run = launch(config, search={"id": self.search.id, "trial": trial.number})
        except (TrainingError, OSError) as error:
            self._fail(trial, failure(error).cause)
            return
        trial.set_user_attr("run", run.id)
        with contextlib.suppress(TrainingError, OSError):  # a tag is for people; the job says it as well
            notes.write(run, [self.search.tag], f"Trial {place} of the search {self.search.id}.")
        self.running.append(Watched(trial, run, TrialProgress(self.plan.reach, self.plan.seconds)))
        self.log.info(f"Trial {place} is the run {run.id}: {space.in_words(knobs)}.")
        self.account()

    def _look(self) -> None:
        changed = False
        for watched in list(self.running):
            active = watched.run.is_active  # before its records are read: an ended run writes no more
            # Locked for a moment, or in a database that is away.
            with contextlib.suppress(StateError, ResourceError), metrics_of(watched.run) as storage:
                if storage is not None:
                    watched.progress.read(storage)
            changed = self._decide(watched, active) or changed
        if changed or (self.running and time.monotonic() - self._said >= SAY):
            self.account()
            keep_going()

    def _decide(self, watched: Watched, active: bool) -> bool:
        """Whether the trial is over; if so, Optuna has been told."""
        progress = watched.progress
        if progress.unknown:
            self._halt(watched)
            raise Hopeless(
                "The distance to the optimum is not known for this table, since it has more than 2,000 weights to fit. "
                "A search goes by that distance: use fewer columns."
            )
        if active and not progress.ended:
            why = self._without_promise(watched)
            if why:
                self._halt(watched)
                self._tell(watched, TrialState.PRUNED, "pruned", why)
            return bool(why)
        if not active:
            return self._ended(watched)
        self._halt(watched)
        self._complete(watched)
        return True

    def _ended(self, watched: Watched) -> bool:
        """The run ended by itself."""
        standing = watched.run.standing
        if standing.state == "finished":
            self._complete(watched)
        elif standing.reason == Reason.DIVERGED:
            watched.progress.diverge()
            self._tell(watched, TrialState.COMPLETE, "diverged", _sentence(standing.cause))
        elif standing.state == "stopped":
            self._fail(watched.trial, "Its run was stopped by a person.", watched)
        else:
            self._fail(watched.trial, standing.cause or f"Its run is {standing.state}.", watched)
        return True

    def _complete(self, watched: Watched) -> None:
        progress = watched.progress
        if progress.score is None:
            self._fail(watched.trial, "Its run has no record of its distance to the optimum.", watched)
            return
        progress.conclude()
        watched.report()
        words = f"{progress.reach:g} reached in {progress.seconds:.3g} s"
        if progress.reached is None:
            words = f"{progress.distance:.2g} after {progress.seconds:.3g} s and {progress.passes:.3g} epochs"
        self._tell(watched, TrialState.COMPLETE, "reached" if progress.reached is not None else "short", f"{words}.")

    # ---------------------------------------------------------------- giving up

    def _without_promise(self, watched: Watched) -> str:
        """Why a trial is given up; empty while it is not."""
        progress, is_news = watched.progress, watched.report()
        if not self.plan.prune or progress.distance is None:
            return ""
        stands = f"{progress.distance:.2g} after {progress.seconds:.3g} s"
        best = self.trials.best_seconds
        if best is not None and progress.seconds > max(RACE * best, SHORTEST):
            return f"{stands}, where the best had reached {self.plan.reach:g} after {best:.3g} s."
        if is_news and watched.trial.should_prune():
            return f"{stands}, more than half of the trials before it had left."
        return ""

    # ---------------------------------------------------------------- what came of a trial

    def _tell(self, watched: Watched, state: TrialState, word: str, cause: str) -> None:
        self.trials.tell(watched, state, word, cause)
        self._forget(watched)
        self.log.info(f"Trial {place_of(watched.trial)} {word}: {cause}")

    def _fail(self, trial: optuna.Trial, cause: str, watched: Watched | None = None) -> None:
        """A failed trial does not end a search, unless nothing but failures came of it."""
        self.trials.fail(trial, cause)
        if watched is not None:
            self._forget(watched)
        self.log.warning(f"Trial {place_of(trial)} failed: {cause}")
        failed = self.trials.all_failed
        if failed >= TRIES:
            raise Hopeless(f"The first {failed} trials failed, the last one so: {cause}")

    def _forget(self, watched: Watched) -> None:
        self.running = [other for other in self.running if other is not watched]

    # ---------------------------------------------------------------- ends

    def _halt(self, watched: Watched) -> None:
        _ended_in_time([watched.run])

    def _end(self, ending: Standing) -> Standing:
        self.close()
        return ending

    def close(self) -> None:
        """Leave nothing running."""
        if self.running:
            with contextlib.suppress(OSError):
                write_state(self.search.directory, Standing("stopping", "Its trials are being stopped."))
        _ended_in_time([watched.run for watched in self.running])
        for watched in list(self.running):
            self.trials.put_back(watched.trial)
            self._forget(watched)
        self.account()

    # ---------------------------------------------------------------- after a life that was cut short

    def _take_up(self) -> None:
        """Find the trials of an earlier life again; what cannot be found is put back."""
        runs = {run.job["search"]["trial"]: run for run in list_runs() if run.search == self.search.id}
        for frozen in self.trials.unfinished():
            trial = self.trials.begun(frozen)
            run = find_run(str(frozen.user_attrs.get("run", ""))) or runs.get(frozen.number)
            if run is None or _was_cut_short(run.standing) or not _has_knobs(run, frozen.params):
                self.trials.put_back(trial)
                continue
            trial.set_user_attr("run", run.id)
            watched = Watched(trial, run, TrialProgress(self.plan.reach, self.plan.seconds))
            watched.reported = max(frozen.intermediate_values, default=0)
            self.running.append(watched)
            self.log.info(f"Trial {place_of(trial)} is found again: the run {run.id} is {run.state}.")
        watched_runs = {watched.run.id for watched in self.running}
        _ended_in_time([run for run in runs.values() if run.is_active and run.id not in watched_runs])

    # ---------------------------------------------------------------- the account

    def account(self) -> None:
        """What pages and the command line show."""
        self._said = time.monotonic()
        progresses = {watched.number: watched.progress for watched in self.running}
        trials = [told(frozen, progresses.get(frozen.number)) for frozen in self.trials.counted()]
        account = Account(trials, importance_of(self.trials.study), self.seconds, self.trials.seals())
        with contextlib.suppress(OSError):  # a full disk for a moment; the study has it all
            write_json(self.search.directory / "account.json", account.as_dict())


def _has_knobs(run: Run, knobs: Mapping[str, Any]) -> bool:
    """Whether a run is the one that was started with these; its own settings have a checksum."""
    config = run.config
    return all(config.get(name) == value for name, value in knobs.items())


def _was_cut_short(standing: Standing) -> bool:
    """Whether a trial ended through no fault of its own."""
    return standing.state in ("interrupted", "stopped") and standing.reason != Reason.DIVERGED


def _sentence(cause: str) -> str:
    return f"{cause[:1].upper()}{cause[1:]}."


def _ended_in_time(runs: list[Run]) -> None:
    """Stop runs and wait until they have ended; one that does not hear in time ends by itself when its search does."""
    deadline = time.monotonic() + GRACE
    while left := [run for run in runs if run.is_active]:
        for run in left:
            if run.state != "stopping":
                with contextlib.suppress(TrainingError):  # it ended meanwhile, or starts right now
                    post(run, "stop", {})
        if time.monotonic() > deadline:
            return
        time.sleep(LOOK)


def live(search: Search, log: RunLog) -> None:
    """One life, to its last word."""
    driver: Driver | None = None
    try:
        driver = Driver(search, log)
        _listen(driver)
        write_state(search.directory, Standing("running"))
        ending = driver.drive()
    except Exception as error:  # noqa: BLE001 - whatever it was, the folder must say so
        ending = failure(error)
        log.error(str(ending), None if isinstance(error, Hopeless | DataError) else error)
        if driver is not None:
            with contextlib.suppress(Exception):
                driver.close()
    log.info(f"{ending.state}: {ending}")
    with contextlib.suppress(OSError):
        write_state(search.directory, ending)


def _listen(driver: Driver) -> None:
    def heard(number: int, frame: FrameType | None) -> None:
        driver.asked.set()

    for number in STOPS:
        signal.signal(number, heard)
    hear_signals()


def main(directory: Path) -> None:
    """One process a search: a second one, started by mistake, finds the lock taken and leaves."""
    optuna.logging.set_verbosity(logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    with own_lock(directory) as mine:
        if not mine:
            return
        (directory / "started").touch()
        with RunLog(directory) as log:
            live(Search(directory), log)


if __name__ == "__main__":
    keep_private()
    main(Path(sys.argv[1]))
