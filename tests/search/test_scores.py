"""What the records of a trial are worth, when it is given up, and which knob decides."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import optuna
import pytest

from shoal.metrics import Round
from shoal.processes import search, search_trials
from shoal.runs.folder import Run
from shoal.search import folder
from shoal.search.folder import Search
from shoal.search.plan import SearchPlan
from shoal.search.space import usual_space
from shoal.search.trial_progress import STEPS, TrialProgress
from shoal.settings.values import config_from
from shoal.utils import RunLog

# ------------------------------------------------------------------ what records are worth


def record(number: int, seconds: float, distance: float | None) -> Round:
    zeros = {f.name: 0 for f in dataclasses.fields(Round)}
    return Round(
        **{**zeros, "round": number, "seconds": seconds, "distance": distance, "epoch": float(number), "phase": "steps"}
    )


def progress(*records: tuple[float, float], limit: float = 10.0, reach: float = 1e-3) -> TrialProgress:
    found = TrialProgress(reach, limit, began=5.0)
    found.take([record(i, 5.0 + at, distance) for i, (at, distance) in enumerate(records)])
    return found


def test_the_score_is_the_seconds_to_the_goal() -> None:
    found = progress((1.0, 0.5), (2.0, 0.01), (3.0, 9e-4), (4.0, 1e-6))
    assert (found.score, found.reached, found.distance) == (3.0, 3.0, 9e-4)  # what came later does not count
    assert found.ended


def test_a_trial_that_falls_short_is_behind_all_that_did_not_and_ranked_by_what_is_left() -> None:
    just, far = progress((9.9, 1.1e-3)), progress((9.9, 0.1))
    assert just.score == pytest.approx(10 * (1 + math.log10(1.1)))
    assert far.score == pytest.approx(30.0)
    late = progress((9.0, 0.1), (10.5, 1e-9))  # after its time was up
    assert (late.score, late.ended, late.seconds) == (pytest.approx(30.0), True, 10.0)


def test_distances_are_taken_at_equal_seconds() -> None:
    found = progress((1.2, 0.5), (1.4, 0.25), (3.1, 0.1))
    assert found.steps == {1: 1.0, 2: 1.0, 3: 0.25, 4: 0.25, 5: 0.25, 6: 0.25}  # every half second; 1 before the first
    found.conclude()
    assert [found.steps[step] for step in range(7, STEPS + 1)] == [0.1] * (STEPS - 6)


def test_numbers_that_ran_away_have_a_score_and_a_diverged_run_is_no_better_than_at_the_start() -> None:
    assert progress((1.0, math.inf)).score == progress((1.0, 1e300)).score == 10 * (1 + math.log10(1e9))
    found = progress((1.0, 0.01))
    found.diverge()
    assert found.score == pytest.approx(40.0)
    unknown = TrialProgress(1e-3, 10.0, began=0.0)
    unknown.take([record(0, 1.0, None)])
    assert unknown.unknown
    assert unknown.score is None


# ------------------------------------------------------------------ giving up by the median


def test_a_trial_above_the_median_at_equal_seconds_is_given_up(tmp_path: Path, home: Path, data: Path) -> None:
    driver = _driver(home, data)
    for distance in (0.1, 0.2, 0.3, 0.4, 0.5):
        trial = driver.trials.study.ask()
        for step in range(1, STEPS + 1):
            trial.report(math.log10(distance), step)
        driver.trials.study.tell(trial, distance)
    verdicts = {}
    for distance in (0.25, 0.35):
        watched = search_trials.Watched(
            driver.trials.study.ask(), Run(tmp_path), progress((0.1, distance), (2.0, distance))
        )
        verdicts[distance] = driver._without_promise(watched)
    assert verdicts[0.25] == ""
    assert "more than half" in verdicts[0.35]


def test_a_trial_that_lost_the_race_is_given_up(tmp_path: Path, home: Path, data: Path) -> None:
    driver = _driver(home, data)
    trial = driver.trials.study.ask()
    trial.set_user_attr("state", "reached")
    trial.set_user_attr("score", 0.8)
    driver.trials.study.tell(trial, 0.8)
    slow = search_trials.Watched(driver.trials.study.ask(), Run(tmp_path), progress((0.1, 0.5), (1.5, 0.01)))
    assert driver._without_promise(slow) == ""
    slow.progress.take([record(9, 5.0 + 1.7, 0.01)])
    assert "0.001 after 0.8 s" in driver._without_promise(slow)


def _driver(home: Path, data: Path) -> search.Driver:
    """A search's own process, before its first trial, in this one."""
    directory = home / "searches" / "here"
    directory.mkdir(parents=True)
    plan = SearchPlan(usual_space(), reach=1e-3, seconds=10.0)
    folder.write_json(directory / "search.json", plan.as_dict())
    folder.write_json(directory / "config.json", config_from({"file": str(data), "target": "y"}).as_dict())
    with RunLog(directory) as log, pytest.warns(optuna.exceptions.ExperimentalWarning):
        return search.Driver(Search(directory), log)


def test_importance_finds_the_knob_that_decides() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(40):
        trial = study.ask()
        mode = trial.suggest_categorical("mode", ["sync", "ssp"])
        decay = trial.suggest_float("decay", 0.1, 0.9)
        if mode == "ssp" and study.trials[-1].number < 12:
            trial.suggest_int("staleness", 1, 9)  # in too few trials to say anything
        trial.set_user_attr("score", abs(decay - 0.5))
        study.tell(trial, 0.0)
    found = search_trials.importance_of(study)
    assert set(found) == {"mode", "decay"}
    assert found["decay"] > 0.9
    assert sum(found.values()) == pytest.approx(1.0)
