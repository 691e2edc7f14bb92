"""Real searches: watched, stopped and killed."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

import pytest

from shoal.errors import Standing, StateError
from shoal.library import cleaning, saved_models
from shoal.library.notes import read as notes_of
from shoal.processes import run as run_process
from shoal.processes import search_trials
from shoal.runs.commands import metrics_of
from shoal.runs.folder import Run, find_run, list_runs, write_state
from shoal.search.folder import Search, go_on, list_searches, resolve, save_best, stop
from shoal.search.plan import Trial
from support.runs import ALONE, SLOW, begun, rounds, until
from support.tables import shoal


def over(search: Search) -> str:
    until(lambda: not search.is_active and not search.folder.is_alive, 4 * SLOW)
    return search.standing.state


def test_every_combination_is_tried_once_scored_by_its_records_and_the_best_is_saved_on_request(data: Path) -> None:
    search = begun(
        data, {"schedule": "constant,inverse", "decay": 0.5, "decay_every": "1,4"}, {"epochs": 40}, reach=1e-5
    )
    assert over(search) == "finished", search.standing
    account = search.account
    tried = sorted((t.knobs["schedule"], t.knobs.get("decay_every")) for t in account.trials)
    assert tried == [("constant", None), ("inverse", 1.0), ("inverse", 4.0)]
    assert search.standing.cause == "All 3 combinations have been tried."
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
    assert saved_models.list_models() == []  # trials do not litter
    version = save_best(search)
    assert version.model_path.read_bytes() == (find_run(best.run) or Run(Path())).model_path.read_bytes()
    assert (version.label, save_best(search).label) == ("table-y:1", "table-y:1")
    assert search.id in version.card.note
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
    search = begun(data, {"learning_rate": "auto,1e-9,1e9"}, {"epochs": 1_000_000}, seconds=300.0, reach=1e-3)
    assert over(search) == "finished", search.standing
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
    assert cleaning.clean("searches").kept == {cleaning.AT_WORK: 1}
    with pytest.raises(StateError, match="nothing to continue"):
        go_on(search)
    os.kill(run.pid or 0, signal.SIGSTOP)  # or it would end if nobody came back to it in time
    os.kill(search.folder.pid or 0, signal.SIGKILL)
    until(lambda: search.standing.state == "interrupted")
    assert f"--continue {search.id}" in str(search.standing)
    assert run.is_active
    go_on(search)
    until(lambda: search.standing.state == "running" and search.folder.pid)
    os.kill(run.pid or 0, signal.SIGCONT)
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
    assert cleaning.clean("searches").count == 1
    assert list_searches() == []


def test_a_trial_ends_when_its_search_was_killed_and_nobody_came_back(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_process, "ORPHANED", 0.05)
    folder = home / "searches" / "gone"
    folder.mkdir(parents=True)
    (folder / "started").touch()
    asked: list[bool] = []
    look = run_process.SearchWatch(folder, lambda: asked.append(True))
    write_state(folder, Standing("running"))  # and no process
    look()
    assert not asked
    time.sleep(0.1)
    look()
    look()
    assert asked == [True]
    write_state(folder, Standing("stopped"))  # one that ended as it should: a person went on with its trial
    calm = run_process.SearchWatch(folder, lambda: asked.append(True))
    for _ in range(3):
        calm()
        time.sleep(0.06)
    assert asked == [True]


def test_a_search_whose_trials_all_fail_says_why_and_ends(data: Path) -> None:
    search = begun(data, {"mode": "sync,async,local", "batch_size": "16,32"}, {"target": "nothing"})
    assert over(search) == "failed"
    assert "The first 3 trials failed" in str(search.standing)
    assert "nothing" in str(search.standing)
    assert [trial.state for trial in search.account.trials] == ["failed"] * 3
    with pytest.raises(StateError, match="no finished trial"):
        save_best(search)


def test_the_command_line(data: Path) -> None:
    fixed = [f"--{knob.replace('_', '-')}={value}" for knob, value in ALONE.items() if knob != "schedule"]
    common = [
        "search",
        data,
        "--target",
        "y",
        "--model",
        "ridge",
        "--alpha",
        "1",
        "--engine",
        "inline",
        "--epochs",
        "20",
        *fixed,
    ]
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
