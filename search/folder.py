"""A search by its folder, SHOAL_HOME/searches/ID, and what can be done with one: start, continue, stop, keep the best.

    search.json   the plan (`plan`): space, trials, limits, goal
    config.json   the person's own knobs, which every trial begins with
    account.json  what is known of the trials, for pages and the command line; written by the search's process
    study.db      the same for Optuna: what the next trials are chosen from (SQLite)
    state.json, lock, started, log.txt, log.jsonl   as of a run, see `runs.folder`

The process is `processes.search`; its trials are ordinary runs with the search in their job. Imports are light: pages
and the command line live on this, and neither of them loads Optuna.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError, DamagedFile, Remedy, Standing, StateError
from shoal.files.locks import own_lock
from shoal.files.parts import absolute, check_there, title
from shoal.home import LATEST, by_beginning, can_be, entry_name, make_folder, names_in, searches_directory
from shoal.lazy.classes import dataclass
from shoal.library import saved_models
from shoal.library.saved_models import Version
from shoal.people.belongings import claim, sees, visible
from shoal.people.deeds import allow, check
from shoal.people.rights import Verb
from shoal.runs import slots
from shoal.runs.documents import read_json
from shoal.runs.folder import ACTIVE, Run, find_run, read_config, write_json, write_state
from shoal.runs.spawning import PROCESS, spawn
from shoal.search import space
from shoal.search.plan import Account, SearchPlan, account_from, plan_from
from shoal.settings.config import RunConfig
from shoal.settings.when import check_linear
from shoal.utils import disk_errors

SEARCH_NAME = re.compile(r"(\d{6}-\d{6})(?:-(\d+))?")
TAG = "search-"
# What a search itself decides, whatever the person's own settings say.
OURS = ("solver", "tolerance", "finish_passes", "max_seconds", "patience", "out", "checkpoint_seconds")


# ------------------------------------------------------------------ one search


@dataclass(frozen=True)
class Search:
    """A search by its folder."""

    directory: Path

    @property
    def id(self) -> str:
        return self.directory.name

    @property
    def folder(self) -> Run:
        """The same folder as one of a process with a lock, a state and a log."""
        return Run(self.directory)

    @property
    def plan(self) -> SearchPlan:
        try:
            return plan_from(read_json(self.directory / "search.json") or {})
        except DamagedFile as error:
            raise StateError(
                f"The plan of the search {self.id} cannot be read. {error.message} Start another."
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, ConfigError):
            raise StateError(
                f"The plan of the search {self.id} is damaged or gone ('{self.directory}/search.json'). Start another."
            ) from None

    @property
    def config(self) -> RunConfig:
        return read_config(self.folder)

    @property
    def account(self) -> Account:
        """Empty before the first trial, and where it cannot be read, which `standing` tells."""
        try:
            return self._account()
        except DamagedFile:
            return Account()

    def _account(self) -> Account:
        path = self.directory / "account.json"
        try:
            return account_from(read_json(path) or {})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedFile(
                f"'{path}' is damaged: expected an account of trials, got something else ({error}).", path=str(path)
            ) from None

    @property
    def standing(self) -> Standing:
        found = self.folder.standing
        if found.state not in ACTIVE:
            try:
                self._account()
            except DamagedFile as damage:
                cause = f"What is known of its trials cannot be read. {damage.message}"
                again = Remedy.run("Go on with it, and it is made again", "search --continue", self.id)
                return Standing(found.state, cause, damage.reason, (again,))
        if found.state != "interrupted":
            return found
        way = Remedy.run("Go on with it", "search --continue", self.id)
        return Standing(found.state, "Its process was stopped. What was tried is kept.", found.reason, (way,))

    @property
    def is_active(self) -> bool:
        return self.standing.state in ACTIVE

    @property
    def title(self) -> str:
        with contextlib.suppress(StateError):
            if name := self.plan.name:
                return name
        config = self.folder.config
        return f"{config.get('model')} model of {config.get('target')}, {title(str(config.get('file', '')))}"

    @property
    def made(self) -> float:
        with contextlib.suppress(OSError):
            return (self.directory / "config.json").stat().st_mtime
        return 0.0

    @property
    def tag(self) -> str:
        """On its trials in the list of runs."""
        return f"{TAG}{self.id}"

    def runs(self) -> list[Run]:
        """The runs of its trials that are still there."""
        found = (find_run(trial.run) for trial in self.account.trials if trial.run)
        return [run for run in found if run is not None]


def find_search(search_id: str) -> Search | None:
    """By its name, which may come from an address."""
    directory = searches_directory() / entry_name(search_id)
    return Search(directory) if can_be(directory / "search.json") and sees(directory) else None


def list_searches() -> list[Search]:
    """All, the newest first: their names begin with the time."""
    names = visible(searches_directory(), sorted(names_in(searches_directory()), key=_in_order, reverse=True))
    return [
        Search(searches_directory() / name) for name in names if can_be(searches_directory() / name / "search.json")
    ]


def _in_order(name: str) -> tuple[str, int]:
    """By time, and by number within a second."""
    found = SEARCH_NAME.fullmatch(name)
    return (found[1], int(found[2] or 1)) if found else (name, 0)


def resolve(name: str) -> Search:
    """The search of a name, of a beginning that only one has, or the newest for `last`."""
    known = {search.id: search for search in list_searches()}
    if found := by_beginning(name, known, "search", latest=True):
        return found
    expected = f"Expected the name of a search, a beginning of it, or '{LATEST}', got '{name}'"
    if not known:
        raise StateError(f"{expected}; there are none yet.")
    raise StateError(f"{expected}.", Remedy.run("See them", "search --list"))


# ------------------------------------------------------------------ start


def start(config: RunConfig, plan: SearchPlan) -> Search:
    """Begin a search in a process of its own; it goes on when its starter is gone."""
    check(Verb.START, config.file, "search started")
    config = trial_config(_checked(config), plan, {})
    found = space.combinations(plan.space, config)
    if found is not None and len(found) < 2:
        raise ConfigError("Expected a knob with more than one value to search, got none. Leave one of them open.")
    with disk_errors("the folder of a search"):
        directory = _new_directory()
        claim(directory, config.file)
        allow(Verb.START, directory, "search started")
        write_json(directory / "job.json", {"task": "search"})
        write_json(directory / "config.json", config.as_dict())
        write_json(directory / "search.json", plan.as_dict())
        write_state(directory, Standing("preparing", "Its process is starting."))
        spawn(directory, "shoal.processes.search")
    return Search(directory)


def _new_directory() -> Path:
    """With a name that begins with the time, is short enough for a tag, and comes after all others: clocks go back."""
    now = time.strftime("%y%m%d-%H%M%S")
    newest = max(
        (_in_order(name) for name in names_in(searches_directory()) if SEARCH_NAME.fullmatch(name)), default=("", 0)
    )
    now, first = (now, 1) if now > newest[0] else (newest[0], newest[1] + 1)
    for attempt in range(first, first + 100):
        directory = searches_directory() / (now if attempt == 1 else f"{now}-{attempt}")
        make_folder(directory.parent)
        with contextlib.suppress(FileExistsError):
            directory.mkdir()
            return directory
    raise StateError("Expected a free name for a search, but a hundred were started in this second. Try again.")


def _checked(config: RunConfig) -> RunConfig:
    """What would make every trial fail is said before there is a search."""
    config.ready()
    check_linear(config.model, "a search")
    if config.penalty:
        raise ConfigError(
            f"A search needs the exact optimum, which is not known for the plug-in penalty '{config.penalty}'. "
            "Search with one of the models, or leave the penalty out."
        )
    check_there(config.file)
    return dataclasses.replace(config, file=absolute(config.file), out=None)


def trial_config(base: RunConfig, plan: SearchPlan, knobs: Mapping[str, Any]) -> RunConfig:
    """A trial's run: the person's own knobs and those that are tried.

    Steps only: the full passes of the finish would bring every run to the optimum, and hide what its steps did. The
    number of workers is fixed, so that all trials have the same share of the machine; of a cluster, when it is asked.
    """
    workers = base.workers or (0 if slots.works_elsewhere(base) else slots.cores())
    return dataclasses.replace(
        base, **knobs, solver="gradient", workers=workers, tolerance=plan.reach, finish_passes=0, max_seconds=0.0,
        patience=0, out=None, checkpoint_seconds=0.0,
    )  # fmt: skip


def side_by_side(config: RunConfig, plan: SearchPlan, free: int | None = None) -> int:
    """How many trials train at a time: no more than have cores of their own; so many are `free` on their cluster."""
    most = max(1, slots.slots() // slots.slots_for(config))
    if free is not None:
        most = min(most, max(1, free // config.workers))
    return min(plan.at_once or most, most)


def shared_among(search: Search, config: RunConfig, free: int) -> RunConfig:
    """The settings of a search on a cluster with so many free cores: all of them for each trial, unless a person said
    otherwise. What is chosen once stays, so that trials can be compared."""
    if not config.workers:
        config = dataclasses.replace(config, workers=max(1, free))
        write_json(search.directory / "config.json", config.as_dict())
    return config


# ------------------------------------------------------------------ go on, stop


def go_on(search: Search, trials: int | None = None, within: float | None = None) -> Search:
    """Continue a search whose process has ended, with what it has learnt; `trials` and `within` are new totals."""
    allow(Verb.CHANGE, search.directory, "search continued")
    state, plan = search.standing.state, search.plan
    if state in ACTIVE:
        raise StateError(
            f"The search {search.id} is {state}, so there is nothing to continue. See it, or stop it first."
        )
    wanted = dataclasses.replace(
        plan, trials=plan.trials if trials is None else trials, within=plan.within if within is None else within
    )
    account = search.account
    if account.done >= wanted.trials:
        raise StateError(
            f"The search {search.id} has done all its {account.done} trials.",
            Remedy.run("Allow more of them", "search --continue", search.id, "--trials", account.done + plan.trials),
        )
    found = space.combinations(plan.space, search.config)
    if found is not None and account.done >= len(found):
        raise StateError(
            f"The search {search.id} has tried all {len(found)} combinations that it may. "
            "Start another one with more values to choose from."
        )
    if wanted.within and account.seconds >= wanted.within:
        raise StateError(
            f"The search {search.id} has used up its {wanted.within:g} s.",
            Remedy.run(
                "Allow more, or 0 for no limit", "search --continue", search.id, "--within", f"{2 * wanted.within:g}"
            ),
        )
    with disk_errors("the folder of a search"), own_lock(search.directory) as mine:
        if not mine:
            raise StateError(f"The search {search.id} was continued by somebody else a moment ago.")
        write_json(search.directory / "search.json", wanted.as_dict())
        write_state(search.directory, Standing("preparing", "Its process is starting."))
        for name in (PROCESS, "started"):  # then, see `spawning.note_lost`
            (search.directory / name).unlink(missing_ok=True)
    spawn(search.directory, "shoal.processes.search")
    return search


def stop(search: Search) -> None:
    """Ask for an orderly end: trials that train are stopped, and tried again if the search is continued."""
    allow(Verb.CHANGE, search.directory, "search stopped", always=True)
    state = search.standing.state
    if state not in ACTIVE:
        raise StateError(f"Expected a search that is running to stop, but {search.id} is {state}.")
    pid = search.folder.pid
    if pid is None:
        raise StateError(f"The process of the search {search.id} is starting right now. Try again in a second.")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


# ------------------------------------------------------------------ the best


def save_best(search: Search, name: str | None = None) -> Version:
    """The model of the best trial as a version among the models; the same one is saved once."""
    best = search.account.best
    if best is None:
        raise StateError(f"The search {search.id} has no finished trial yet. Wait for the first one.")
    run = find_run(best.run)
    result = run.result if run else None
    if run is None or result is None:
        raise StateError(
            f"The run {best.run} of the best trial is gone, and its model with it. "
            "Train once more with its settings, which are in the table of trials."
        )
    before = saved_models.version_of(run)
    version = saved_models.save_run(run, result, name)
    if before is None or before.label != version.label:
        note = f"Best of {search.account.done} trials of the search {search.id}: {space.in_words(best.knobs)}."
        version = saved_models.write_note(version, note)
    return version


def saved_best(search: Search) -> Version | None:
    best = search.account.best
    run = find_run(best.run) if best else None
    return saved_models.version_of(run) if run else None
