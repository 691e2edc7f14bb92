"""The list of runs: in plain words, with search, filters, pages and orders."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.elements.lib import policies

from shoal.dashboard.parts import wording
from shoal.dashboard.runs import (
    listing as run_list,
)
from shoal.dashboard.runs.listing import ordered
from shoal.home import run_columns_path, runs_directory
from shoal.library import notes
from shoal.library.accounts import Summary
from shoal.runs.folder import Run
from shoal.runs.launch import launch, list_runs
from shoal.settings.values import config_from, page_config
from support.cli import shoal
from support.dashboard.runs_page import EXACT, FIRST, SECOND, asked, awake, choose, many, press, rows
from support.pages import checked, open_page, said, settle, uploaded, widget
from support.runs import ended, made, small_table


def test_first_visit_says_what_this_page_is_for() -> None:
    page = open_page("runs")
    assert "No runs yet" in [found.value for found in page.header]
    assert not page.dataframe
    assert not awake(page)


def test_of_fits_in_the_terminal_those_are_listed_that_the_page_says(tmp_path: Path) -> None:
    data = small_table(tmp_path)
    assert shoal("train", str(data), "--target", "y").code == 0
    page = open_page("runs")
    (said_so,) = (text.value for text in page.markdown if "A fit in the terminal" in text.value)
    flags = re.findall(r"`(--[^`]*)`", said_so)
    assert flags == ["--name", "--register", "--detach", "--solver gradient"]
    values = {"--name": ["first"], "--register": ["prices"], "--solver gradient": ["--epochs", "1"]}
    for count, flag in enumerate(flags, 1):
        done = shoal("train", str(data), "--target", "y", *flag.split(), *values.get(flag, []))
        assert done.code == 0, done.err
        assert len(list_runs()) == count, flag
    for run in list_runs():
        assert ended(run) == "finished"
    assert len(open_page("runs").dataframe[0].value) == len(flags)


def test_a_run_is_told_in_plain_words(three: list[Run]) -> None:
    notes.write(Run(runs_directory() / SECOND), ["baseline"], "checked")
    page = open_page("runs")
    assert rows(page) == [EXACT, SECOND, FIRST]
    row: dict[str, Any] = page.dataframe[0].value.iloc[1].to_dict()
    result = Run(runs_directory() / SECOND).result
    assert result is not None
    assert (list(row["State"]), row["Model"], row["Predicts"], row["File"]) == (["Finished"], "Ridge", "y", "table.csv")
    assert (row["R² test"], row["R² training"]) == (result["test"]["r2"], result["train"]["r2"])
    assert (row["RMSE test"], row["RMSE training"]) == (result["test"]["rmse"], result["train"]["rmse"])
    assert (row["Solver"], row["Alpha"], row["Note"]) == ("Gradient, async", 20, "checked")
    assert (list(row["Tags"]), row["Started"].endswith("ago") or row["Started"] == "just now") == (["baseline"], True)
    widths = json.loads(page.dataframe[0].proto.columns)
    shown = list(page.dataframe[0].value)
    before = [name for name in ["Name", *shown[: shown.index("Started") + 1]] if name in widths]
    assert sum(widths[name].get("width", 150) for name in before) <= 600  # in sight in a narrow window
    exact = page.dataframe[0].value.iloc[0]
    assert (exact["Solver"], exact["Epochs"], exact["Distance"]) == ("Exact", "", "")


def test_search_looks_at_names_files_targets_tags_and_notes(three: list[Run]) -> None:
    notes.write(Run(runs_directory() / FIRST), ["baseline"], "checked with Anna")
    for text, found in {
        "baseline": [FIRST], "ANNA checked": [FIRST], SECOND[:8]: [SECOND], "table.csv": [EXACT, SECOND, FIRST], "y": [EXACT, SECOND, FIRST],
        "baseline nothing": [],
    }.items():  # fmt: skip
        page = checked(widget(open_page("runs"), "text_input", "Search").set_value(text).run())
        assert rows(page) == found, text
        assert asked(page, "q") == text
        assert rows(open_page("runs", q=text)) == found  # the link shows the same
    assert "No run matches" in [heading.value for heading in page.header]
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


def test_pages_of_runs_tell_their_widget_once_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit warns, once in a process, where a widget has a default and is told by the session too."""
    monkeypatch.setattr(policies, "_shown_default_value_warning", False)
    many(60)
    for number in ("1", "2", "99"):
        checked(open_page("runs", page=number).run())
    assert not policies._shown_default_value_warning


def test_runs_by_table_stand_below_the_names_of_tables_and_are_chosen_there() -> None:
    many(6)
    page = open_page("runs", sort="file")
    assert [f"table{i}.csv (2 runs)" in said(page) for i in range(3)] == [True] * 3
    groups = [list(found.value["Run"]) for found in page.dataframe]
    assert groups == [[f"20260101-000000-{i:07d}" for i in own] for own in ((0, 3), (4, 1), (2, 5))]
    page = choose(page, groups[0][1], groups[2][0])
    assert page.session_state["runs_chosen"] == [groups[0][1], groups[2][0]]
    assert "Compare" in awake(page)


def test_columns_that_no_run_fills_take_no_room() -> None:
    many(6)
    columns = list(open_page("runs", sort="state").dataframe[0].value)
    assert not {"Name", "Tags", "Note", "Score"} & set(columns)
    notes.write(Run(runs_directory() / "20260101-000000-0000003"), ["baseline"], "", name="first try")
    for found in open_page("runs", sort="file").dataframe:
        assert {"Name", "Tags"} <= set(found.value)  # the same in every group


def test_a_score_or_a_model_with_a_long_name_is_not_cut_off() -> None:
    rows = "".join(f"{i % 5},{(i * 7) % 4}\n" for i in range(60))
    path = uploaded(f"a,calls\n{rows}".encode(), "calls.csv")
    run = launch(page_config(path, {"target": "calls", "model": "poisson"}))
    assert ended(run) == "finished"
    page = settle(open_page("runs"))
    told = page.dataframe[0].value["Score"][0]
    assert told.startswith("Deviance explained ")
    assert json.loads(page.dataframe[0].proto.columns)["Score"]["width"] >= 7 * len(told)
    known = made(config={"file": str(path), "target": "calls", "model": "mlp", "solver": "gradient"})
    page = settle(open_page("runs"))
    assert known.id in list(page.dataframe[0].value["Run"])
    assert json.loads(page.dataframe[0].proto.columns)["Model"]["width"] >= 7 * len("Neural network (mlp)")


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


def test_any_setting_can_be_a_column_and_the_choice_stays(three: list[Run]) -> None:
    page = open_page("runs")
    chooser = widget(page, "multiselect", "Columns of the list")
    page = chooser.set_value(["Run", "Alpha", wording.LABELS["mode"]]).run()
    assert list(page.dataframe[0].value.columns) == ["Open", "Run", "Alpha", wording.LABELS["mode"]]
    found = open_page("runs").dataframe[0].value  # another visit
    assert list(found.columns) == ["Open", "Run", "Alpha", wording.LABELS["mode"]]
    assert dict(zip(found["Run"], found[wording.LABELS["mode"]], strict=True))[SECOND] == "async"
    run_columns_path().write_text("{")
    assert list(open_page("runs").dataframe[0].value.columns)[1] == "State"  # the first that any of them fills


def test_names_and_searches_group_the_list() -> None:
    told = [
        Summary("1", "finished", name="b"),
        Summary("2", "finished", search="s", name="a"),
        Summary("3", "finished"),
    ]
    assert [run.id for run in ordered(told, "name")] == ["2", "1", "3"]
    assert [run.id for run in ordered(told, "search")] == ["2", "3", "1"]
