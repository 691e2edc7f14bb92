"""The Runs page without a browser: the list with search, filters and pages, what can be done to runs, and comparisons."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.runs import (
    charts as compare_charts,
)
from shoal.dashboard.runs import (
    compare,
)
from shoal.dashboard.runs import (
    differences as comparison,
)
from shoal.dashboard.runs import (
    listing as run_list,
)
from shoal.library import accounts as run_index
from shoal.library import archives
from shoal.library import notes as run_notes
from shoal.library.accounts import Summary
from shoal.metrics import Round
from shoal.runs.folder import Run, find_run, runs_directory
from shoal.runs.launch import launch, list_runs
from shoal.settings.config import config_from
from support.pages import checked, now_on, open_page, said, settle, widget
from support.runs import ended, endless_run, run_home, small_table, training, until

ROOT = Path(__file__).parents[2]
FIRST, SECOND, EXACT = "20260101-080000-0000001", "20260102-080000-0000002", "20260103-080000-0000003"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three real runs, to be copied: two by gradient steps with other settings, and an exact one."""
    folder = tmp_path_factory.mktemp("finished")
    table = small_table(folder)
    environment = {**os.environ, "SHOAL_HOME": str(folder / "home"), "SHOAL_SLOTS": "1"}
    steps = ["--solver", "gradient", "--workers", "1", "--epochs", "3", "--test-every", "5"]
    for name, flags in {
        FIRST: [*steps, "--tolerance", "0"],
        SECOND: [*steps, "--model", "ridge", "--alpha", "20", "--mode", "async", "--set", "checkpoint_seconds=0.01"],
        EXACT: ["--detach", "--test-every", "5"],
    }.items():
        command = [sys.executable, "-m", "shoal.cli.app", "train", str(table), "--target", "y", *flags]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        made = max((folder / "home" / "runs").iterdir(), key=lambda path: path.stat().st_ctime)
        until(lambda made=made: (made / "result.json").exists() and not Run(made).is_alive)
        made.rename(folder / name)
    return folder


@pytest.fixture
def three(finished: Path) -> list[Run]:
    for name in (FIRST, SECOND, EXACT):
        shutil.copytree(finished / name, runs_directory() / name)
    return list_runs()


def many(count: int) -> None:
    """Runs without more than their settings and a result."""
    for i in range(count):
        folder = runs_directory() / f"20260101-000000-{i:07d}"
        folder.mkdir(parents=True)
        config = config_from({"file": f"/data/table{i % 3}.csv", "target": f"y{i % 2}"})
        (folder / "config.json").write_text(json.dumps(config.as_dict()))
        (folder / "result.json").write_text(json.dumps({"train": {"r2": i / count}, "timings": {"total": i + 1.0}}))


def rows(page: AppTest) -> list[str]:
    return list(page.dataframe[0].value["Run"]) if page.dataframe else []


def choose(page: AppTest, *ids: str) -> AppTest:
    page.session_state["runs_chosen"] = list(ids)
    page.session_state["runs_fresh"] = (page.session_state.get("runs_fresh", 0)) + 1
    return checked(page.run())


def asked(page: AppTest, name: str) -> str:
    """A part of the address."""
    found = page.query_params.get(name, "")
    return found if isinstance(found, str) else found[0]


def press(page: AppTest, label: str) -> AppTest:
    return checked(widget(page, "button", label).click().run())


def awake(page: AppTest) -> set[str]:
    """Actions that the choice allows."""
    names = ("Open", "Compare", "Resume", "Fork", "Tags and note", "Archive", "Restore", "Delete")
    return {button.label for button in page.button if button.label in names and not button.disabled}


# ------------------------------------------------------------------ the list


def test_first_visit_says_what_this_page_is_for() -> None:
    page = open_page("runs")
    assert "No runs yet" in [found.value for found in page.subheader]
    assert not page.dataframe
    assert not awake(page)


def test_a_run_is_told_in_plain_words(three: list[Run]) -> None:
    run_notes.write(Run(runs_directory() / SECOND), ["baseline"], "checked")
    page = open_page("runs")
    assert rows(page) == [EXACT, SECOND, FIRST]
    row: dict[str, Any] = page.dataframe[0].value.iloc[1].to_dict()
    result = Run(runs_directory() / SECOND).result
    assert result is not None
    assert (list(row["State"]), row["Model"], row["Predicts"], row["File"]) == (["Finished"], "Ridge", "y", "table.csv")
    assert (row["R² test"], row["R² training"]) == (result["test"]["r2"], result["train"]["r2"])
    assert (row["RMSE test"], row["RMSE training"]) == (result["test"]["rmse"], result["train"]["rmse"])
    assert (row["Solver"], row["Penalty"], row["Note"]) == ("Gradient, at any time", "alpha 20", "checked")
    assert (list(row["Tags"]), row["Started"].endswith("ago") or row["Started"] == "just now") == (["baseline"], True)
    exact = page.dataframe[0].value.iloc[0]
    assert (exact["Solver"], exact["Epochs"], exact["Distance"]) == ("Exact", "", "")


def test_search_looks_at_names_files_targets_tags_and_notes(three: list[Run]) -> None:
    run_notes.write(Run(runs_directory() / FIRST), ["baseline"], "checked with Anna")
    for text, found in {
        "baseline": [FIRST], "ANNA checked": [FIRST], SECOND[:8]: [SECOND], "table.csv": [EXACT, SECOND, FIRST], "y": [EXACT, SECOND, FIRST],
        "baseline nothing": [],
    }.items():  # fmt: skip
        page = checked(widget(open_page("runs"), "text_input", "Search").set_value(text).run())
        assert rows(page) == found, text
        assert asked(page, "q") == text
        assert rows(open_page("runs", q=text)) == found  # the link shows the same
    assert "No run matches" in [heading.value for heading in page.subheader]
    assert rows(press(page, "Show all runs")) == [EXACT, SECOND, FIRST]
    assert "q" not in page.query_params


def test_filters_are_in_the_address(three: list[Run]) -> None:
    assert rows(open_page("runs", state="finished")) == [EXACT, SECOND, FIRST]
    assert rows(open_page("runs", state="failed,stopped")) == []
    assert rows(open_page("runs", model="ridge")) == [SECOND]
    assert rows(open_page("runs", solver="exact")) == [EXACT]
    page = checked(widget(open_page("runs"), "selectbox", "Solver").set_value("gradient").run())
    assert rows(page) == [SECOND, FIRST]
    assert asked(page, "solver") == "gradient"
    nonsense = open_page(
        "runs", state="odd", model="odd", solver="odd", sort="odd", page="-7", size="9", archived="odd"
    )
    assert rows(nonsense) == [EXACT, SECOND, FIRST]


def test_pages_and_orders_are_in_the_address() -> None:
    many(60)
    page = open_page("runs", page="2", sort="oldest")
    assert rows(page) == [f"20260101-000000-{i:07d}" for i in range(25, 50)]
    assert "26 to 50 of 60 runs" in said(page)
    assert rows(open_page("runs", page="3"))[-1] == "20260101-000000-0000000"
    assert len(rows(open_page("runs", size="100"))) == 60
    assert rows(open_page("runs", page="99", sort="oldest"))[-1] == "20260101-000000-0000059"
    assert rows(open_page("runs", sort="score"))[0] == "20260101-000000-0000059"
    page = checked(widget(page, "selectbox", "Runs on a page").set_value(50).run())
    assert (asked(page, "size"), asked(page, "page"), len(rows(page))) == ("50", "", 50)
    page = checked(widget(page, "selectbox", "Order").set_value("longest").run())
    assert (rows(page)[0], asked(page, "size")) == ("20260101-000000-0000059", "50")


def test_orders_put_what_is_not_known_last() -> None:
    runs = [
        Summary("1", "failed"),
        Summary("2", "finished", test_r2=0.3, distance=0.1),
        Summary("3", "running", train_r2=0.9, distance=1e-9),
    ]
    order = {sort: [run.id for run in run_list.ordered(runs, sort)] for sort in run_list.SORTS}
    assert order["newest"] == ["3", "2", "1"]
    assert order["oldest"] == ["1", "2", "3"]
    assert order["score"] == order["distance"] == ["3", "2", "1"]
    assert order["state"] == ["3", "2", "1"]


def test_text_from_files_stays_text(home: Path) -> None:
    evil = '=1+1 <img src=x onerror="alert(1)"> **bold** :red[x]'
    folder = runs_directory() / FIRST
    folder.mkdir(parents=True)
    config = config_from({"file": f"/data/{evil}.csv", "target": evil})
    (folder / "config.json").write_text(json.dumps(config.as_dict()))
    (folder / "error.json").write_text(json.dumps({"message": evil}))
    page = open_page("runs")
    assert page.dataframe[0].value["Predicts"][0] == evil
    page = press(choose(page, FIRST), "Delete")
    assert "<img" not in said(page)
    assert "&lt;img" in said(page)


# ------------------------------------------------------------------ what fits a choice


def test_actions_fit_the_choice(three: list[Run]) -> None:
    page = open_page("runs")
    assert awake(page) == set()
    assert awake(choose(page, SECOND)) == {"Open", "Fork", "Tags and note", "Archive", "Delete"}
    assert awake(choose(page, EXACT)) == {"Open", "Tags and note", "Archive", "Delete"}
    assert awake(choose(page, EXACT, SECOND)) == {"Compare", "Tags and note", "Archive", "Delete"}
    assert press(page, "2 chosen").session_state["runs_chosen"] == []
    assert awake(page) == set()


def test_a_choice_spans_pages_and_forgets_runs_that_are_gone() -> None:
    many(30)
    page = open_page("runs")
    last = "20260101-000000-0000000"
    page = choose(page, rows(page)[0], last, "gone")
    assert page.session_state["runs_chosen"] == [last, rows(page)[0]]
    assert "Compare" in awake(page)


def test_open_leads_to_the_run(three: list[Run]) -> None:
    page = choose(open_page("runs"), EXACT)
    page = now_on(widget(page, "button", "Open").click().run())
    assert asked(page, "run") == EXACT


def test_active_runs_cannot_be_removed(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path))))
    page = choose(open_page("runs", state="active"), run.id)
    assert rows(page) == [run.id]
    assert awake(page) == {"Open", "Fork", "Tags and note"}
    pid = run.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not run.is_alive)
    assert "Resume" in awake(choose(open_page("runs"), run.id))


def test_resume_goes_on_and_shows_the_run(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path))))
    os.kill(run.pid or 0, signal.SIGTERM)
    assert ended(run) == "stopped"
    page = choose(open_page("runs"), run.id)
    page = now_on(widget(page, "button", "Resume").click().run())
    assert asked(page, "run") == run.id
    training(run)


# ------------------------------------------------------------------ tags, delete, archive, fork


def test_tags_and_note_of_one_run(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), FIRST), "Tags and note")
    widget(page, "text_input", "Tags").set_value("Baseline no_good/tag")
    page = press(page, "Save")
    assert "Expected tags to be words" in said(page)
    widget(page, "text_input", "Tags").set_value("Baseline try-2")
    widget(page, "text_area", "Note").set_value("better than before")
    page = press(page, "Save")
    assert run_notes.read(Run(runs_directory() / FIRST)) == run_notes.About(("baseline", "try-2"), "better than before")
    table = page.dataframe[0].value.set_index("Run")
    assert (list(table.loc[FIRST, "Tags"]), table.loc[FIRST, "Note"]) == (["baseline", "try-2"], "better than before")
    assert "Save" not in [button.label for button in page.button]  # the dialog is closed


def test_tags_for_several_runs_are_added(three: list[Run]) -> None:
    run_notes.write(Run(runs_directory() / FIRST), ["old"], "kept")
    page = press(choose(open_page("runs"), FIRST, SECOND), "Tags and note")
    assert not page.text_area
    widget(page, "text_input", "Tags to add to all of them").set_value("paper")
    press(page, "Save")
    assert run_notes.read(Run(runs_directory() / FIRST)) == run_notes.About(("old", "paper"), "kept")
    assert run_notes.read(Run(runs_directory() / SECOND)).tags == ("paper",)


def test_delete_asks_first(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), FIRST, EXACT), "Delete")
    assert FIRST in said(page)
    assert "cannot be undone" in said(page)
    assert "frees" in said(page)
    page = press(page, "Keep")
    assert rows(page) == [EXACT, SECOND, FIRST]
    page = press(press(page, "Delete"), "Delete for good")
    assert rows(page) == [SECOND]
    assert not (runs_directory() / FIRST).exists()
    assert any("2 runs deleted" in toast.value for toast in page.toast)


def test_a_run_that_goes_on_meanwhile_is_not_deleted(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), FIRST), "Delete")
    from shoal.runs.folder import lock_file

    lock = lock_file(runs_directory() / FIRST / "lock")
    assert lock is not None
    with lock:
        page = press(page, "Delete for good")
    assert "is at work" in said(page)
    assert find_run(FIRST) is not None


def test_archive_and_restore(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), FIRST, SECOND), "Archive")
    page = settle(page)
    assert rows(page) == [EXACT]
    assert archives.is_archived(FIRST)
    assert any("2 runs archived" in toast.value for toast in page.toast)
    page = open_page("runs", archived="yes")
    assert rows(page) == [EXACT, SECOND, FIRST]
    assert list(page.dataframe[0].value["State"][2]) == ["Archived", "Finished"]
    page = choose(page, FIRST)
    assert awake(page) == {"Restore", "Delete"}
    page = settle(press(page, "Restore"))
    assert find_run(FIRST) is not None
    assert awake(choose(page, SECOND)) == {"Restore", "Delete"}
    page = press(press(page, "Delete"), "Delete for good")
    assert rows(page) == [EXACT, FIRST]
    assert run_index.summaries(archived=True)[-1].archived is False


def test_when_all_are_archived_the_page_says_so(three: list[Run]) -> None:
    for run in three:
        archives.archive(run)
    page = open_page("runs")
    assert "All runs are in the archive" in said(page)
    page = checked(widget(page, "toggle", "Show archived (3)").set_value(True).run())
    assert rows(page) == [EXACT, SECOND, FIRST]


def test_fork_starts_a_run_from_a_checkpoint(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), SECOND), "Fork")
    steps = widget(page, "selectbox", "Checkpoint").options
    assert steps[0].endswith("(newest)")
    widget(page, "selectbox", "Checkpoint").set_value(0)
    widget(page, "number_input", "Penalty strength (alpha)").set_value(3.0)
    page = now_on(widget(page, "button", "Start the fork").click().run())
    (made,) = [run for run in list_runs() if run.id not in (FIRST, SECOND, EXACT)]
    assert asked(page, "run") == made.id
    assert made.job["forked_from"] == {"run": SECOND, "step": 0}
    assert made.config["alpha"] == 3.0
    ended(made)


# ------------------------------------------------------------------ compare


def test_compare_shows_only_what_differs(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), FIRST, SECOND), "Compare")
    assert asked(page, "compare") == f"{SECOND},{FIRST}"
    settings, results = (found.value for found in page.dataframe[:2])
    assert list(settings["Setting"]) == [
        "Model", "Penalty strength (alpha)", "When a gradient is applied", "How close to the optimum", "Between two checkpoints",
    ]  # fmt: skip
    assert list(settings["A"]) == ["Ridge", "20", "At any time", "1e-06", "0.01"]
    assert list(settings["B"]) == ["Linear", "–", "In step", "0", "5"]
    for _, row in results.iterrows():
        assert row["A"] != row["B"], row["Result"]
    shown = dict(zip(results["Result"], results["A"], strict=True))
    result = Run(runs_directory() / SECOND).result
    assert result is not None
    assert float(shown["R² on test rows"]) == pytest.approx(result["test"]["r2"], rel=1e-5)
    assert "Training rows" not in shown
    legend = said(page)
    assert "A · Ridge, alpha 20, At any time" in legend
    assert "B · Linear, In step" in legend
    assert len(page.get("plotly_chart")) == 5


def test_compare_along_epochs_and_time(three: list[Run]) -> None:
    for axis, title in {
        "round": "Round",
        "epoch": "Passes over the rows",
        "time": "Seconds since the run began",
    }.items():
        page = open_page("runs", compare=f"{FIRST},{SECOND}", by=axis)
        figure = json.loads(page.get("plotly_chart")[0].proto.spec)
        assert figure["layout"]["xaxis"]["title"]["text"] == title
    page = checked(widget(page, "button_group", "Along").set_value("epoch").run())
    assert asked(page, "by") == "epoch"


def test_exact_fits_are_compared_without_curves(three: list[Run]) -> None:
    page = open_page("runs", compare=f"{EXACT},{FIRST}")
    assert "A is an exact fit: solved in one go, with no steps and so no curves." in said(page)
    settings = page.dataframe[0].value.set_index("Setting")
    assert tuple(settings.loc["How to solve it"]) == ("Exact", "Gradient steps")
    assert "Momentum" not in settings.index  # as usual for the one that looks at it
    shutil.copytree(runs_directory() / EXACT, runs_directory() / "20260104-080000-0000004")
    page = open_page("runs", compare=f"{EXACT},20260104-080000-0000004")
    assert "the runs have the same settings" in said(page)
    assert "None of these runs has curves" in said(page)
    assert "None: all 3 are the same" in said(page)


def test_runs_that_cannot_be_compared(three: list[Run]) -> None:
    archives.archive(Run(runs_directory() / FIRST))
    page = open_page("runs", compare=f"{FIRST},{SECOND},20250101-000000-0000000,<b>x")
    assert f"The run {FIRST} is in the archive" in said(page)
    assert "The run 20250101-000000-0000000 is not on this machine" in said(page)
    assert "nothing to compare" in said(page)
    assert "<b>x" not in said(page)


def sides(**changes: list[Any]) -> list[comparison.Side]:
    """Sides of which each has one of the values of each knob."""
    count = len(next(iter(changes.values())))
    configs = [
        config_from({"file": "/d/t.csv", "target": "y", **{k: v[i] for k, v in changes.items()}}) for i in range(count)
    ]
    return comparison.sides(
        [(f"2026010{i}-080000-0000000", "finished", c.as_dict(), {}) for i, c in enumerate(configs)]
    )


def test_names_say_what_differs() -> None:
    names = [side.title for side in sides(model=["ridge", "ridge", "lasso"], alpha=[0.1, 2.0, 2.0])]
    assert names == ["A · Ridge, alpha 0.1", "B · Ridge, alpha 2", "C · Lasso, alpha 2"]
    assert [side.name for side in sides(seed=[1, 2])] == ["seed 1", "seed 2"]
    assert [side.name for side in sides(model=["linear", "linear"])] == ["2026-01-00 08:00:00", "2026-01-01 08:00:00"]
    files = comparison.settings(sides(file=["/a/t.csv", "/b/t.csv"]))
    assert [found.values for found in files] == [("/a/t.csv", "/b/t.csv")]


def test_knobs_that_a_run_does_not_look_at_do_not_differ() -> None:
    assert comparison.settings(sides(alpha=[1.0, 2.0])) == []  # no penalty in a linear model
    assert comparison.settings(sides(batch_size=[64, 128])) == []  # nor batches in an exact fit
    found = comparison.settings(sides(solver=["gradient", "gradient"], batch_size=[64, 0]))
    assert [(line.what, line.values) for line in found] == [("Batch size", ("64", "automatic"))]


def test_coefficients_that_differ_most_come_first() -> None:
    made = [{"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 1.0, "b": 2.5, "d": 0.1}]
    two = comparison.sides(
        [(str(i), "finished", {}, {"coefficients": w, "coefficients_standardized": w}) for i, w in enumerate(made)]
    )
    spreads, count = comparison.coefficients(two)
    assert ([spread.name for spread in spreads], count) == (["c", "b", "d"], 4)
    assert spreads[0].values == (3.0, None)
    figure = compare_charts.coefficient_chart(spreads, two)
    assert list(figure.layout.yaxis.ticktext) == ["d", "b", "c"]
    assert "c: A 3; b: A 2, B 2.5; d: B 0.1" in compare_charts.describe_coefficients(spreads, two)


def a_round(number: int, **values: Any) -> Round:
    usual: dict[str, Any] = dict.fromkeys(Round.__dataclass_fields__, 0.0)
    return Round(**{**usual, "round": number, "phase": "steps", "validation": None, **values})


def test_curves_have_a_bottom_and_words() -> None:
    two = sides(model=["ridge", "lasso"])
    series = {"A": [a_round(1, distance=0.5), a_round(2, distance=0.0)], "B": [a_round(1, distance=None)]}
    distance = compare_charts.CURVES[1]
    figure = compare_charts.curve_chart(series, two, distance, "round")
    assert len(figure.data) == 1  # B never knew the optimum
    assert list(figure.data[0].y) == [0.5, compare_charts.FLOOR]
    assert figure.layout.yaxis.type == "log"
    assert compare_charts.describe_curve(series, two, distance) == (
        "Distance to the optimum of 1 runs, lower is better: A from 0.5 to 1e-16."
    )
    assert compare_charts.drawn(series, compare_charts.CURVES[2]) == {}


def test_downloads_hold_everything_and_no_formula(three: list[Run]) -> None:
    evil = "=cmd"
    runs = []
    for name, extra in ((FIRST, 0.0), (SECOND, 1.0)):
        run = Run(runs_directory() / name)
        result = {**(run.result or {}), "coefficients": {evil: extra}, "coefficients_standardized": {evil: extra}}
        runs.append((run.id, "finished", {**run.config, "target": evil}, result))
    text = compare.differences_csv(comparison.sides(runs))
    lines = text.splitlines()
    assert lines[0] == f"kind,what,{FIRST},{SECOND}"
    assert f"coefficient,'{evil},0.0,1.0" in lines
    assert not [line for line in lines if line.startswith("=") or ",=" in line]
    series = {"A": [a_round(1, loss=0.5)], "B": []}
    curves = compare.curves_csv(comparison.sides(runs), series).splitlines()
    assert curves == [
        "run,round,epoch,seconds,loss,distance,validation,rows_per_second",
        f"{FIRST},1,0.0,0.0,0.5,0.0,,0.0",
    ]
