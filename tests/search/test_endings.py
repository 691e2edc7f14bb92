"""What a search makes of a trial's end: by the reason in the run's folder, whatever its sentence says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.home import searches_directory
from shoal.processes.search import Driver
from shoal.processes.search_trials import open_study
from shoal.runs.folder import write_json
from shoal.search.folder import Search
from shoal.search.plan import SearchPlan, Trial
from shoal.search.space import chosen_space
from shoal.settings.values import config_from
from shoal.utils import RunLog
from support.runs import made

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")  # as the process of a search


def a_trial_that_ended(data: Path, result: dict[str, Any]) -> list[Trial]:
    """What a search, taken up again, says of its only trial, whose run ended meanwhile."""
    space, fixed = chosen_space({"mode": "sync,async"})
    search = Search(searches_directory() / "261116-000000")
    search.directory.mkdir(parents=True)
    config = config_from({"file": str(data), "target": "y", "solver": "gradient", "model": "ridge", **fixed})
    write_json(search.directory / "job.json", {"task": "search"})
    write_json(search.directory / "config.json", config.as_dict())
    write_json(search.directory / "search.json", SearchPlan(space, trials=1).as_dict())
    run = made(result=result, job={"task": "train", "search": {"id": search.id, "trial": 0}})
    open_study(search.directory, 0).ask().set_user_attr("run", run.id)
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
