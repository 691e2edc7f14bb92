"""Searches: which knobs a trial has, what its records are worth, and real searches that are watched, stopped and killed."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ConfigError, DataError, StateError
from shoal.library import cleaning as housekeeping
from shoal.library import saved_models as model_store
from shoal.library.notes import read as notes_of
from shoal.metrics import Round
from shoal.processes import run as run_process
from shoal.processes import search as search_process
from shoal.processes import search_trials
from shoal.runs.folder import Run, find_run, list_runs, write_state
from shoal.runs.launch import metrics_of
from shoal.runs.log import RunLog
from shoal.search import folder as search_folder
from shoal.search import space as search_space
from shoal.search.course import STEPS, Course
from shoal.search.folder import Search, go_on, list_searches, resolve, save_best, start, stop
from shoal.search.plan import Plan, Trial
from shoal.search.space import Choices, Range, chosen_space, combinations, own_choice, usual_space
from shoal.settings.config import RunConfig, config_from
from support.runs import rounds, run_home, small_table, until
from support.tables import shoal

ALONE = {"step_rule": "sgd", "schedule": "constant", "compression": "none", "batch_size": "64", "mode": "sync"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as found:
        found.mkdir()
        yield found
        for search in list_searches():
            if pid := search.folder.pid:
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)


def begun(data: Path, wishes: dict[str, Any], knobs: dict[str, Any] | None = None, **limits: Any) -> Search:
    """A search in one process a trial, so that a trial takes a second."""
    space, fixed = chosen_space({**ALONE, **wishes})
    config = config_from(
        {"file": str(data), "target": "y", "engine": "inline", "model": "ridge", **fixed, **(knobs or {})}
    )
    return start(config, Plan(space, **{"trials": 10, "seconds": 20.0, **limits}))


def over(search: Search) -> str:
    until(lambda: not search.is_active and not search.folder.is_alive, 90)
    return search.standing[0]


# ------------------------------------------------------------------ the space


@given(st.data())
def test_a_trial_has_the_knobs_that_its_other_knobs_give_a_meaning_to(choice: st.DataObject) -> None:
    def ask(knob: str, domain: search_space.Domain) -> Any:
        if isinstance(domain, Choices):
            return choice.draw(st.sampled_from(domain.values))
        number = st.integers(int(domain.low), int(domain.high)) if domain.whole else st.floats(domain.low, domain.high)
        return choice.draw(number)

    knobs = search_space.choose(usual_space(), RunConfig(), ask)
    mode, rule = knobs["mode"], knobs.get("step_rule")
    assert ("staleness" in knobs) == (mode == "ssp")
    assert ("local_steps" in knobs) == (mode == "local")
    assert ("step_rule" in knobs) == (mode != "local")
    assert ("momentum" in knobs) == (rule in ("momentum", "adam"))
    assert ("top_k" in knobs) == (knobs["compression"] == "topk")
    assert ("decay" in knobs) == ("decay_every" in knobs) == (knobs["schedule"] in ("step", "exponential", "inverse"))
    assert "learning_rate" not in knobs  # auto, unless a person asks for a range
    dataclasses.replace(RunConfig(), **knobs)  # every one of them is a config


def test_a_person_restricts_choices_and_fixes_knobs() -> None:
    space, fixed = chosen_space(
        {"mode": "sync,ssp", "batch_size": "16..512", "compression": "none", "learning_rate": "1e-3..1"}
    )
    assert space["mode"] == Choices(("sync", "ssp"))
    assert space["batch_size"] == Range(16, 512, log=True, whole=True)
    assert space["learning_rate"] == Range(0.001, 1.0, log=True)
    assert fixed == {"compression": "none"}
    assert "compression" not in space
    assert list(space) == [knob for knob in search_space.KNOBS if knob in space]  # conditions come after their causes
    assert search_space.from_dict(search_space.as_dict(space)) == space
    assert chosen_space({"batch_size": ["auto", 32]})[0]["batch_size"] == Choices((0, 32))


def test_a_small_space_is_counted_out() -> None:
    space, fixed = chosen_space(
        {**ALONE, "mode": "sync,ssp,local", "staleness": "1..3", "local_steps": "4,8", "schedule": "constant,cosine"}
    )
    found = combinations(space, config_from(fixed))
    assert found is not None
    assert len(found) == 2 * (1 + 3 + 2)
    by_hand = [
        {"mode": "ssp", "schedule": s, "staleness": n} for s, n in itertools.product(("constant", "cosine"), (1, 2, 3))
    ]
    assert all(knobs in found for knobs in by_hand)
    assert combinations(usual_space(), RunConfig()) is None


def test_the_own_settings_are_a_trial() -> None:
    own = own_choice(usual_space(), config_from({"mode": "ssp", "staleness": 3, "batch_size": 77}))
    assert own == {"mode": "ssp", "step_rule": "sgd", "schedule": "constant", "compression": "none", "staleness": 3}


@pytest.mark.parametrize(
    ("wishes", "word"),
    [
        ({"mode": "sync,sideways"}, "sideways"),
        ({"step_rule": "sgd,newton"}, "newton"),
        ({"batch_size": "512..16"}, "LOW less than HIGH"),
        ({"batch_size": "0..16"}, "above 0"),
        ({"mode": "sync..ssp"}, "names of mode"),
        ({"momentum": "0.5..2"}, "momentum"),
        ({"batch_size": "some"}, "whole number"),
        ({"mode": ""}, "from 1 to"),
        ({"epochs": "1,2"}, "epochs"),
    ],
)
def test_a_wish_that_cannot_be_is_one_plain_sentence(wishes: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        chosen_space(wishes)


@pytest.mark.parametrize(
    "limits",
    [
        {"trials": 0},
        {"seconds": 0.0},
        {"reach": 0.0},
        {"reach": 2.0},
        {"within": -1.0},
        {"at_once": -1},
        {"name": "x" * 99},
        {"seconds": math.nan},
    ],
)
def test_limits_that_cannot_be(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        Plan(usual_space(), **limits)


def test_a_search_without_anything_to_choose_is_refused(data: Path) -> None:
    with pytest.raises(ConfigError, match="more than one value"):
        begun(data, {})  # momentum, decay and the like are open, but mean nothing beside what is fixed
    with pytest.raises(DataError, match="Expected a file"):
        begun(data.with_name("none.csv"), {"mode": "sync,ssp"})
    with pytest.raises(ConfigError, match="target"):
        begun(data, {"mode": "sync,ssp"}, {"target": ""})
    assert list_searches() == []


# ------------------------------------------------------------------ what records are worth


def record(number: int, seconds: float, distance: float | None) -> Round:
    zeros = {f.name: 0 for f in dataclasses.fields(Round)}
    return Round(
        **{**zeros, "round": number, "seconds": seconds, "distance": distance, "epoch": float(number), "phase": "steps"}
    )


def course(*records: tuple[float, float], limit: float = 10.0, reach: float = 1e-3) -> Course:
    found = Course(reach, limit, began=5.0)
    found.take([record(i, 5.0 + at, distance) for i, (at, distance) in enumerate(records)])
    return found


def test_the_score_is_the_seconds_to_the_goal() -> None:
    found = course((1.0, 0.5), (2.0, 0.01), (3.0, 9e-4), (4.0, 1e-6))
    assert (found.score, found.reached, found.distance) == (3.0, 3.0, 9e-4)  # what came later does not count
    assert found.ended


def test_a_trial_that_falls_short_is_behind_all_that_did_not_and_ranked_by_what_is_left() -> None:
    just, far = course((9.9, 1.1e-3)), course((9.9, 0.1))
    assert just.score == pytest.approx(10 * (1 + math.log10(1.1)))
    assert far.score == pytest.approx(30.0)
    late = course((9.0, 0.1), (10.5, 1e-9))  # after its time was up
    assert (late.score, late.ended, late.seconds) == (pytest.approx(30.0), True, 10.0)


def test_distances_are_taken_at_equal_seconds() -> None:
    found = course((1.2, 0.5), (1.4, 0.25), (3.1, 0.1))
    assert found.steps == {1: 1.0, 2: 1.0, 3: 0.25, 4: 0.25, 5: 0.25, 6: 0.25}  # every half second; 1 before the first
    found.conclude()
    assert [found.steps[step] for step in range(7, STEPS + 1)] == [0.1] * (STEPS - 6)


def test_numbers_that_ran_away_have_a_score_and_a_diverged_run_is_no_better_than_at_the_start() -> None:
    assert course((1.0, math.inf)).score == course((1.0, 1e300)).score == 10 * (1 + math.log10(1e9))
    found = course((1.0, 0.01))
    found.diverge()
    assert found.score == pytest.approx(40.0)
    unknown = Course(1e-3, 10.0, began=0.0)
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
            driver.trials.study.ask(), Run(tmp_path), course((0.1, distance), (2.0, distance))
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
    slow = search_trials.Watched(driver.trials.study.ask(), Run(tmp_path), course((0.1, 0.5), (1.5, 0.01)))
    assert driver._without_promise(slow) == ""
    slow.course.take([record(9, 5.0 + 1.7, 0.01)])
    assert "0.001 after 0.8 s" in driver._without_promise(slow)


def _driver(home: Path, data: Path) -> search_process.Driver:
    """A search's own process, before its first trial, in this one."""
    directory = home / "searches" / "here"
    directory.mkdir(parents=True)
    plan = Plan(usual_space(), reach=1e-3, seconds=10.0)
    search_folder.write_json(directory / "search.json", plan.as_dict())
    search_folder.write_json(directory / "config.json", config_from({"file": str(data), "target": "y"}).as_dict())
    with RunLog(directory) as log, pytest.warns(optuna.exceptions.ExperimentalWarning):
        return search_process.Driver(Search(directory), log)


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


# ------------------------------------------------------------------ real searches


def test_every_combination_is_tried_once_scored_by_its_records_and_the_best_is_saved_on_request(data: Path) -> None:
    search = begun(
        data, {"schedule": "constant,inverse", "decay": 0.5, "decay_every": "1,4"}, {"epochs": 40}, reach=1e-5
    )
    assert over(search) == "finished", search.standing
    account = search.account
    tried = sorted((t.knobs["schedule"], t.knobs.get("decay_every")) for t in account.trials)
    assert tried == [("constant", None), ("inverse", 1.0), ("inverse", 4.0)]
    assert search.standing[1] == "All 3 combinations have been tried."
    for trial in account.trials:
        if trial.state in ("reached", "short"):
            assert trial.score == pytest.approx(_score_by_hand(trial, 1e-5, 20.0))
        run = find_run(trial.run)
        assert run is not None
        assert notes_of(run).tags == (f"search-{search.id}",)
        assert run.config["schedule"] == trial.knobs["schedule"]
        assert run.config["finish_passes"] == 0
    best = account.best
    assert best is not None
    assert best.score == min(t.score for t in account.trials if t.state in ("reached", "short") and t.score is not None)
    assert model_store.list_models() == []  # trials do not litter
    version = save_best(search)
    assert version.model_path.read_bytes() == (find_run(best.run) or Run(Path())).model_path.read_bytes()
    assert (version.label, save_best(search).label) == ("table-y:1", "table-y:1")
    assert search.id in version.card["note"]
    with pytest.raises(StateError, match="all 3 combinations"):
        go_on(search)
    with pytest.raises(StateError, match="--trials 13"):
        go_on(search, trials=3)


def _score_by_hand(trial: Trial, reach: float, limit: float) -> float:
    run = find_run(trial.run)
    assert run is not None
    with metrics_of(run) as storage:
        assert storage is not None
        began = storage.events(kinds={"started"})[0][1].seconds
        found = [(r.seconds - began, r.distance) for r in storage.rounds_since(-1, 10**6) if r.distance is not None]
    first = next((at for at, distance in found if distance <= reach), None)
    return first if first is not None else limit * (1 + math.log10(found[-1][1] / reach))


def test_an_absurd_learning_rate_is_given_up_or_diverges_and_the_rest_goes_on(data: Path) -> None:
    began = time.monotonic()
    search = begun(data, {"learning_rate": "auto,1e-9,1e9"}, {"epochs": 1_000_000}, seconds=300.0, reach=1e-3)
    assert over(search) == "finished", search.standing
    assert time.monotonic() - began < 60  # and not the 300 s that a trial may take
    states = {trial.knobs["learning_rate"]: trial for trial in search.account.trials}
    assert states[0].state == "reached"
    assert states[0].own
    assert states[1e-9].state == "pruned"
    assert states[1e-9].distance == pytest.approx(1.0, abs=1e-3)
    assert "the best had reached" in states[1e-9].cause
    assert states[1e9].state == "diverged"
    assert "diverged" in states[1e9].cause
    assert (search.account.best or states[1e9]).number == states[0].number
    assert not any(run.is_active for run in list_runs())


def test_a_killed_search_finds_its_trial_again_and_a_stopped_one_tries_it_again(data: Path, home: Path) -> None:
    momentum = {"step_rule": "momentum", "momentum": "0.5..0.95"}
    search = begun(data, momentum, {"epochs": 1_000_000}, seconds=600.0, reach=1e-14)
    run = until(lambda: next((r for r in list_runs() if rounds(r) > 3), None))
    until(lambda: search.account.trials and search.account.trials[0].distance is not None)
    assert housekeeping.clean("searches").kept == {housekeeping.AT_WORK: 1}
    with pytest.raises(StateError, match="nothing to continue"):
        go_on(search)
    os.kill(search.folder.pid or 0, signal.SIGKILL)
    until(lambda: search.standing[0] == "interrupted")
    assert f"--continue {search.id}" in search.standing[1]
    assert run.is_active
    go_on(search)
    until(lambda: search.standing[0] == "running" and search.folder.pid)
    before = rounds(run)
    until(lambda: rounds(run) > before + 3)
    assert [t.run for t in search.account.trials] == [run.id]  # the same, not another
    stop(search)
    assert over(search) == "stopped"
    assert run.state == "stopped"
    assert search.account.trials == []  # it was not the trial's fault
    go_on(search)
    again = until(lambda: next((r for r in list_runs() if r.id != run.id and rounds(r) > 3), None))
    assert again.config["momentum"] == run.config["momentum"]
    stop(search)
    assert over(search) == "stopped"
    assert not any(r.is_active for r in list_runs())
    assert housekeeping.clean("searches").count == 1
    assert list_searches() == []


def test_a_trial_ends_when_its_search_was_killed_and_nobody_came_back(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_process, "ORPHANED", 0.05)
    folder = home / "searches" / "gone"
    folder.mkdir(parents=True)
    (folder / "started").touch()
    asked: list[bool] = []
    look = run_process.Orphanhood(folder, lambda: asked.append(True))
    write_state(folder, "running", "")  # and no process
    look()
    assert not asked
    time.sleep(0.1)
    look()
    look()
    assert asked == [True]
    write_state(folder, "stopped", "")  # one that ended as it should: a person went on with its trial
    calm = run_process.Orphanhood(folder, lambda: asked.append(True))
    for _ in range(3):
        calm()
        time.sleep(0.06)
    assert asked == [True]


def test_a_search_whose_trials_all_fail_says_why_and_ends(data: Path) -> None:
    search = begun(data, {"mode": "sync,async,local", "batch_size": "16,32"}, {"target": "nothing"})
    assert over(search) == "failed"
    assert "The first 3 trials failed" in search.standing[1]
    assert "nothing" in search.standing[1]
    assert [trial.state for trial in search.account.trials] == ["failed"] * 3
    with pytest.raises(StateError, match="no finished trial"):
        save_best(search)


def test_the_command_line(data: Path) -> None:
    fixed = [f"--{knob.replace('_', '-')}={value}" for knob, value in ALONE.items() if knob != "schedule"]
    common = ["search", data, "--target", "y", "--model", "ridge", "--engine", "inline", "--epochs", "20", *fixed]
    found = shoal(*common, "--schedule", "constant,cosine", "--reach", "1e-4", "--json")
    assert found.code == 0, found.err
    assert found.json["state"] == "finished"
    assert [t["number"] for t in found.json["trials"]] == [1, 2]
    search = found.json["search"]
    assert search in shoal("search", "--list").out
    shown = shoal("search", "--show", "last")
    assert "best: trial" in shown.out
    assert "(your own settings)" in shown.out
    saved = shoal("search", "--save", search[:9], "--name", "chosen", "--json")
    assert (saved.json["model"], saved.json["version"]) == ("chosen", 1)
    assert resolve("last").id == search


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "Expected a file to search on"),
        (["--list", "--show", "last"], "got 2 of them"),
        (["--show", "nothing"], "there are none yet"),
        (["--continue", "last"], "there are none yet"),
        (["none.csv", "--target", "y"], "Expected a file"),
        (["none.csv", "--mode", "sideways"], "sideways"),
        (["none.csv", "--trials", "many"], "many"),
    ],
)
def test_mistakes_on_the_command_line_are_one_plain_sentence(arguments: list[str], word: str) -> None:
    answer = shoal("search", *arguments)
    assert answer.code == 1
    assert answer.is_plain()
    assert word in answer.err


def test_a_wrong_target_starts_no_trial(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,y\n" + "1,2\n2,3\n3,5\n" * 10)
    answer = shoal("search", path, "--target", "nope", "--trials", "3")
    assert answer.code == 1
    assert answer.is_plain()
    assert "'nope'" in answer.err
    assert list_searches() == []


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_the_study_is_in_its_folder_whatever_that_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "50% #1?a=b"
    folder.mkdir()
    search_trials.open_study(folder, 0).ask()
    assert (folder / "study.db").stat().st_size > 0
    assert not (tmp_path / "50% #1").exists()
