"""What a search makes of a trial's end: by the reason in the run's folder, whatever its sentence says."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import StateError
from shoal.home import searches_directory
from shoal.processes.search import Driver, live
from shoal.processes.search_trials import open_study
from shoal.runs.folder import write_json
from shoal.search.folder import Search, resolve
from shoal.search.plan import SearchPlan, Trial
from shoal.search.space import chosen_space
from shoal.settings.values import config_from
from shoal.utils import RunLog
from support.runs import made

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")  # as the process of a search


def a_trial_that_ended(data: Path, result: dict[str, Any], mode: str = "") -> list[Trial]:
    """What a search, taken up again, says of its only trial, whose run ended meanwhile; with a mode that was tried."""
    space, fixed = chosen_space({"mode": "sync,async"})
    search = Search(searches_directory() / "261116-000000")
    search.directory.mkdir(parents=True)
    config = config_from(
        {"file": str(data), "target": "y", "solver": "gradient", "model": "ridge", "alpha": 1.0, **fixed}
    )
    write_json(search.directory / "job.json", {"task": "search"})
    write_json(search.directory / "config.json", config.as_dict())
    write_json(search.directory / "search.json", SearchPlan(space, trials=1).as_dict())
    run = made(result=result, job={"task": "train", "search": {"id": search.id, "trial": 0}})
    trial = open_study(search.directory, 0).ask()
    trial.set_user_attr("run", run.id)
    if mode:
        assert trial.suggest_categorical("mode", ["sync", "async"])
        write_json(
            run.directory / "config.json", {**run.config, "mode": mode if mode != "its own" else trial.params["mode"]}
        )
    with RunLog(search.directory) as log:
        driver = Driver(search, log)
        driver._take_up()
        driver._look()
        driver.account()
    return search.account.trials


@pytest.mark.parametrize("words", ["The weights grew without bound.", "", "nothing of the kind"])
def test_a_run_that_diverged_counts_as_such_in_whatever_words(data: Path, words: str) -> None:
    (trial,) = a_trial_that_ended(data, {"state": "stopped", "reason": "diverged", "cause": words})
    assert trial.state == "diverged"
    assert trial.score is not None


@pytest.mark.parametrize("reason", ["stopped", "eclipse", None])
def test_a_run_that_a_person_stopped_is_tried_again_in_whatever_words(data: Path, reason: str | None) -> None:
    said = {"state": "stopped", "cause": "Somebody thought that it diverged."}
    assert a_trial_that_ended(data, said if reason is None else {**said, "reason": reason}) == []


# ------------------------------------------------------------------ what a study says, proven


DAMAGES = {
    "a score": "UPDATE trial_user_attributes SET value_json = '0.25' WHERE key = 'score'",
    "a value": "UPDATE trial_values SET value = 0.25",
    "a knob": "UPDATE trial_params SET param_value = 1 - param_value",
    "a run": "UPDATE trial_user_attributes SET value_json = '\"of another\"' WHERE key = 'run'",
    "a lost trial": "DELETE FROM trials",
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_search_does_not_go_on_with_trials_that_are_not_what_they_were(data: Path, what: str) -> None:
    a_trial_that_ended(data, {"state": "stopped", "reason": "diverged", "cause": "It grew."}, "its own")
    search = resolve("last")
    before = search.account
    assert list(before.seals) == ["0"]
    open_study(search.directory, 0, before.seals)
    with contextlib.closing(sqlite3.connect(search.directory / "study.db", isolation_level=None)) as connection:
        assert connection.execute(DAMAGES[what]).rowcount
    with RunLog(search.directory) as log:
        live(search, log)
    assert search.standing.state == "failed"
    assert f"What the search {search.id} has learnt is damaged (trial 0 of 'study.db'" in search.standing.cause
    assert search.account == before


def test_a_study_that_is_no_database_any_more_is_told_in_a_sentence(data: Path) -> None:
    a_trial_that_ended(data, {"state": "stopped", "reason": "diverged", "cause": "It grew."})
    search = resolve("last")
    path = search.directory / "study.db"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(StateError, match=r"has learnt is damaged \(.*\), so that it cannot go on\. .*Start another"):
        open_study(search.directory, 0, search.account.seals)


def test_a_trial_whose_knobs_are_not_those_of_its_run_is_tried_again(data: Path) -> None:
    assert a_trial_that_ended(data, {"state": "stopped", "reason": "diverged", "cause": "It grew."}, "ssp") == []
