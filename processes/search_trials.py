"""The trials of a search as Optuna knows them: which come next, what came of each, which knobs matter. Their runs, and
when one is given up, are in `search`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import sqlite3
import warnings
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import optuna
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.pool import NullPool

from shoal.errors import StateError
from shoal.lazy.classes import dataclass
from shoal.runs.folder import Run
from shoal.search import space
from shoal.search.plan import ENOUGH, SearchPlan, Trial
from shoal.search.space import Domain, Range
from shoal.search.trial_progress import TrialProgress
from shoal.settings.config import RunConfig

PATIENCE = 20.0  # seconds to wait for whoever has the study's file locked
STARTUP = 5  # trials before any is given up by the median, and before the sampler has an opinion
WARMUP = 1  # moments that every trial is given
REPEATS = 20  # times that a trial like an earlier one is put aside for another
TOP = 5  # of them count as good, or a tenth
AGAIN, REPEATED = "again", "repeated"


def open_study(directory: Path, seed: int, seals: Mapping[str, str] | None = None) -> optuna.Study:
    """The study of a search, made if it is new; StateError if its trials are not those that `seals` were made of.

    Optuna keeps no checksums, and what it says of a trial becomes what pages say of it.
    """
    path = directory / "study.db"
    try:
        study = _opened(path)
        trials = study.get_trials(deepcopy=False)
        found = {str(t.number): seal_of(t) for t in trials if str(t.number) in (seals or {})}
    except Exception as error:
        raise _not_as_it_was(directory, f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}") from error
    if other := [number for number, seal in (seals or {}).items() if found.get(number) != seal]:
        raise _not_as_it_was(directory, f"trial {other[0]} of '{path.name}' is not what was written")
    # A continued search must not draw the numbers again with which it began.
    drawn = len(trials)
    study.sampler = optuna.samplers.TPESampler(
        n_startup_trials=STARTUP, multivariate=True, group=True, constant_liar=True, seed=seed + drawn
    )
    study.pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=WARMUP)
    return study


def _opened(path: Path) -> optuna.Study:
    if path.exists():
        with contextlib.closing(sqlite3.connect(path, timeout=PATIENCE)) as connection:
            (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise sqlite3.DatabaseError(said)
    url = f"sqlite:///{quote(str(path))}"  # a ? in a folder's name is no question
    # Without a pool every connection is closed after use: nobody else would close those of a pool.
    settings = {"connect_args": {"timeout": PATIENCE}, "poolclass": NullPool}
    storage = optuna.storages.RDBStorage(url, engine_kwargs=settings)
    return optuna.create_study(storage=storage, study_name="search", direction="minimize", load_if_exists=True)


def _not_as_it_was(directory: Path, why: str) -> StateError:
    return StateError(
        f"What the search {directory.name} has learnt is damaged ({why}), so that it cannot go on. Its trials stay in "
        "its table, and their runs can be saved. Start another search."
    )


def seal_of(trial: FrozenTrial) -> str:
    """A checksum of all that the study says of a trial that has ended."""
    said = [
        trial.state.name, trial.values, trial.params, trial.user_attrs,
        {name: repr(kind) for name, kind in trial.distributions.items()},
        {str(step): value for step, value in trial.intermediate_values.items()},
    ]  # fmt: skip
    return f"{zlib.crc32(json.dumps(said, sort_keys=True).encode()):08x}"


@dataclass
class Watched:
    """A trial that goes on: Optuna's side of it, its run, and how far that has come."""

    trial: optuna.Trial
    run: Run
    progress: TrialProgress
    reported: int = 0

    @property
    def number(self) -> int:
        return self.trial.number

    def report(self) -> bool:
        """Tell Optuna the distances at the moments that have passed; whether there was one."""
        steps = self.progress.steps
        new = range(self.reported + 1, len(steps) + 1)
        for step in new:
            self.trial.report(math.log10(steps[step]), step)
        self.reported = max(self.reported, len(steps))
        return bool(new)


class Trials:
    """All trials of one search, in its study."""

    def __init__(self, study: optuna.Study, plan: SearchPlan, base: RunConfig) -> None:
        self.study, self.plan, self.base = study, plan, base
        self._seals: dict[str, str] = {}

    def seals(self) -> dict[str, str]:
        """Of the trials that have ended, which nobody changes any more."""
        for trial in self.study.get_trials(deepcopy=False):
            if trial.state.is_finished() and str(trial.number) not in self._seals:
                self._seals[str(trial.number)] = seal_of(trial)
        return dict(self._seals)

    def prepare(self) -> None:
        """The person's own settings come first: they are what has to be beaten. A small space is tried in full."""
        if self.study.get_trials(deepcopy=False):
            return
        own = space.own_choice(self.plan.space, self.base)
        self.study.enqueue_trial(own, user_attrs={"own": True})
        found = space.combinations(self.plan.space, self.base)
        if found is not None and len(found) <= self.plan.trials:
            self.study.set_user_attr("combinations", len(found))
            for knobs in found:
                if knobs != own:
                    self.study.enqueue_trial(knobs)

    @property
    def wanted(self) -> int:
        return min(self.plan.trials, int(self.study.user_attrs.get("combinations", self.plan.trials)))

    def counted(self) -> list[FrozenTrial]:
        """Trials that take part; not those that were stopped with the search, or put aside."""
        found = self.study.get_trials(deepcopy=False)
        ours = (t for t in found if t.state != TrialState.WAITING)
        return [t for t in ours if not {AGAIN, REPEATED} & set(t.user_attrs)]

    def unfinished(self) -> list[FrozenTrial]:
        """Trials that an earlier life of the search began and did not end."""
        return self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))

    def begun(self, frozen: FrozenTrial) -> optuna.Trial:
        return optuna.Trial(self.study, frozen._trial_id)

    @property
    def best_seconds(self) -> float | None:
        """The shortest time in which a trial came as close as was asked."""
        found = [t.user_attrs["score"] for t in self.counted() if t.user_attrs.get("state") == "reached"]
        return min(found, default=None)

    @property
    def all_failed(self) -> int:
        """How many have ended, if none of them came to anything; else 0."""
        ended = [t for t in self.counted() if t.state.is_finished()]
        return len(ended) if all(t.state == TrialState.FAIL for t in ended) else 0

    # ---------------------------------------------------------------- ask

    def ask(self) -> tuple[optuna.Trial, dict[str, Any]]:
        """A trial unlike those before it, if the sampler has one; with its place among them."""
        for attempt in range(REPEATS):
            trial = self.study.ask()
            knobs = space.choose(self.plan.space, self.base, functools.partial(_suggested, trial))
            others = [t for t in self.counted() if t.number != trial.number]
            if knobs not in [t.params for t in others] or attempt == REPEATS - 1:
                break
            trial.set_user_attr(REPEATED, True)
            self.study.tell(trial, state=TrialState.FAIL)
        # What people call it: numbers without gaps, whatever was put back or put aside.
        taken = {t.user_attrs.get("place") for t in others}
        trial.set_user_attr("place", next(place for place in itertools.count(1) if place not in taken))
        return trial, knobs

    # ---------------------------------------------------------------- tell

    def tell(self, watched: Watched, state: TrialState, word: str, cause: str) -> None:
        """In this order: a trial that Optuna knows the end of has all that is said about it."""
        progress, trial = watched.progress, watched.trial
        said = {
            "state": word, "cause": cause, "score": progress.score, "distance": progress.distance,
            "seconds": progress.seconds, "passes": progress.passes, "points": progress.thinned(),
        }  # fmt: skip
        for name, value in said.items():
            trial.set_user_attr(name, value)
        self.study.tell(trial, progress.score if state == TrialState.COMPLETE else None, state=state)

    def fail(self, trial: optuna.Trial, cause: str) -> None:
        trial.set_user_attr("state", "failed")
        trial.set_user_attr("cause", cause)
        self.study.tell(trial, state=TrialState.FAIL)

    def put_back(self, trial: optuna.Trial) -> None:
        """Its time was cut short through no fault of its own: it is tried again when the search goes on."""
        knobs = dict(trial.params)
        again = {name: value for name, value in trial.user_attrs.items() if name == "own"}
        trial.set_user_attr(AGAIN, True)
        self.study.tell(trial, state=TrialState.FAIL)
        if knobs:
            self.study.enqueue_trial(knobs, user_attrs=again)


def place_of(trial: optuna.Trial | FrozenTrial) -> int:
    return int(trial.user_attrs.get("place", trial.number + 1))


def _suggested(trial: optuna.Trial, knob: str, domain: Domain) -> Any:
    if not isinstance(domain, Range):
        return trial.suggest_categorical(knob, domain.values)
    if domain.whole:
        return trial.suggest_int(knob, int(domain.low), int(domain.high), log=domain.log)
    return trial.suggest_float(knob, domain.low, domain.high, log=domain.log)


def told(frozen: FrozenTrial, progress: TrialProgress | None) -> Trial:
    """A trial as an account tells it; `progress` is how far it is, if it goes on."""
    said = dict(frozen.user_attrs)
    if progress is not None:
        said |= {"distance": progress.distance, "seconds": progress.seconds, "passes": progress.passes,
                 "points": progress.thinned(), "state": "running"}  # fmt: skip
    names = ("run", "score", "distance", "seconds", "passes", "cause", "points", "own")
    known = {name: said[name] for name in names if name in said}
    return Trial(place_of(frozen), said.get("state", "running"), dict(frozen.params), **known)


def importance_of(study: optuna.Study) -> dict[str, float]:
    """How much each knob decides whether a trial is among the best (PED-ANOVA), as shares.

    Pruned trials count by their score at that moment. Knobs that few trials have, since they depend on others, are
    left out, and all are while there are few trials: chance would decide.
    """
    found = [t for t in study.get_trials(deepcopy=False) if t.user_attrs.get("score") is not None]
    if len(found) < ENOUGH:
        return {}
    tried = Counter(knob for t in found for knob in t.params)
    known = [knob for knob, count in tried.items() if count >= ENOUGH]
    copy = optuna.create_study(direction="minimize")
    for t in found:
        copy.add_trial(optuna.create_trial(params=t.params, distributions=t.distributions, value=t.user_attrs["score"]))
    top = min(0.5, max(0.1, TOP / len(found)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on regimes with few trials: the page says how many there are
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=top)
        shares = optuna.importance.get_param_importances(copy, evaluator=evaluator, params=known)
    return {knob: float(share) for knob, share in shares.items()}
