"""The Search page: its form, a real search behind it, its charts, and every state it can be found in."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.search import charts as search_charts
from shoal.dashboard.search.view import ended_as
from shoal.errors import Standing
from shoal.home import searches_directory
from shoal.library.saved_models import list_models
from shoal.runs.folder import write_json, write_state
from shoal.search.folder import Search, find_search, list_searches
from shoal.search.plan import Account, SearchPlan, Trial
from shoal.search.space import chosen_space, usual_space
from shoal.settings.values import config_from
from support.pages import checked, open_page, said, settle, widget
from support.runs import run_home, until

FEW = {"mode": ["sync"], "step_rule": ["sgd"], "compression": ["none"], "batch_size": [64]}
PILLS = {
    "mode": "Synchronisation",
    "step_rule": "Step rule",
    "compression": "Gradient compression",
    "batch_size": "Batch size",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as found:
        found.mkdir()
        yield found
        for search in list_searches():
            if pid := search.folder.pid:
                os.kill(pid, signal.SIGKILL)


def trial(number: int, state: str, score: float | None, **knobs: Any) -> Trial:
    points = [(0.1, 1.0), (0.5, 0.1), (1.0, 0.01)]
    return Trial(number, state, knobs, f"run-{number}", score, 0.01, 1.0, 2.0, f"{state} it", number == 1, points)


TRIALS = [
    trial(1, "short", 9.0, mode="sync", step_rule="sgd", batch_size=0, staleness=4),
    trial(2, "reached", 0.8, mode="ssp", step_rule="<b>mine</b>", batch_size=64, staleness=16),
    trial(3, "pruned", 12.0, mode="async", step_rule="adam", batch_size=4096),
    trial(4, "diverged", 30.0, mode="local"),
    Trial(5, "failed", {"mode": "sync"}, cause="No <script> here."),
    Trial(6, "running", {"mode": "sync"}, "run-6"),
]
SPACE, _ = chosen_space({"step_rule": ["sgd", "adam"]})
SPACE["step_rule"] = type(SPACE["step_rule"])(("sgd", "<b>mine</b>", "adam"))  # type: ignore[call-arg]


def made(
    state: str, cause: str = "", trials: list[Trial] = TRIALS, importance: dict[str, float] | None = None
) -> Search:
    """A search as its process would leave it."""
    directory = searches_directory() / f"261116-00000{len(list_searches())}"
    directory.mkdir(parents=True)
    config = config_from(
        {"file": "/nowhere/<i>t</i>.csv", "target": "<u>y</u>", "solver": "gradient", "model": "ridge"}
    )
    write_json(directory / "job.json", {"task": "search"})
    write_json(directory / "config.json", config.as_dict())
    write_json(directory / "search.json", SearchPlan(SPACE, trials=8, seconds=2.0).as_dict())
    write_json(directory / "account.json", Account(trials, importance or {}, 12.0).as_dict())
    write_state(directory, Standing(state, cause))
    (directory / "started").touch()
    return Search(directory)


def charts(page: AppTest) -> int:
    return len(page.get("plotly_chart"))


# ------------------------------------------------------------------ charts


def test_history_tells_outcomes_apart_by_shape_and_knows_the_best() -> None:
    figure = search_charts.history_chart(TRIALS, SearchPlan(SPACE, seconds=2.0))
    drawn = {trace.name: (list(trace.x), list(trace.y)) for trace in figure.data}
    assert drawn["reached it"] == ([2], [0.8])
    assert drawn["best so far"] == ([1, 2, 4], [9.0, 0.8, 0.8])
    assert len({trace.marker.symbol for trace in figure.data if trace.mode == "markers"}) == 4
    assert "9 to 0.8" in search_charts.describe_history(TRIALS, SearchPlan(SPACE, seconds=2.0))


def test_parallel_coordinates_lead_through_the_values_of_a_trial() -> None:
    figure = search_charts.parallel_chart(TRIALS, SPACE)
    lines = [trace for trace in figure.data if trace.mode == "lines+markers"]
    best = lines[-1]  # drawn last, so on top
    knobs = [knob for knob in SPACE if any(knob in t.knobs for t in TRIALS[:4])]
    assert knobs == ["mode", "step_rule", "batch_size", "staleness"]
    assert len(best.x) == 4
    assert best.x[3] == pytest.approx(1.0)  # staleness 16 of 1 to 16, by its logarithm
    at = {knob: lines[-2].x[i] for i, knob in enumerate(knobs)}
    assert at["staleness"] == pytest.approx(0.5)  # 4 is in the middle
    nothing = lines[0]  # diverged, in mode local: most knobs mean nothing
    assert list(nothing.x[1:]) == [search_charts.UNUSED] * 3
    assert "<b>mine" not in best.hovertext
    assert "trial 2" in search_charts.describe_parallel(TRIALS)


def test_importance_and_courses_say_what_they_show() -> None:
    assert search_charts.describe_importance({"mode": 0.25, "batch_size": 0.75}).startswith(
        "Which knobs decide: Batch size 75%"
    )
    account = Account(TRIALS)
    figure = search_charts.course_chart(account, SearchPlan(SPACE, seconds=2.0))
    assert figure.data[-1].name == "2"  # the best on top
    assert [trace.line.dash for trace in figure.data] == ["solid", "dot", "dot", "solid"]
    rows = search_charts.rows(TRIALS, SPACE)
    assert rows["Trial"] == [6, 2, 1, 3, 4, 5]
    assert rows["Batch size"][2] == "auto"


# ------------------------------------------------------------------ states of a search


def test_no_table_no_search_and_addresses_that_lead_nowhere() -> None:
    page = open_page("search")
    assert any("No table yet" in found.value for found in page.header)
    assert "not on this machine" in said(open_page("search", id="nothing"))
    assert "not on this machine" in said(open_page("search", data="nothing"))


def test_a_search_that_was_killed_says_so_and_can_be_continued() -> None:
    page = open_page("search", id=made("running").id)  # without a process
    assert "The search did not finish" in said(page)
    assert "shoal search" not in said(page)
    assert page.button(key="search:continue")
    assert "<u>y</u>" not in said(page)  # text from files is shown, not followed
    assert "&lt;u&gt;y&lt;/u&gt;" in said(page)
    assert charts(page) == 3  # importance cannot be told yet
    assert "from 10 trials on" in said(page)


def test_all_charts_have_words_for_those_who_do_not_see_them() -> None:
    page = open_page(
        "search", id=made("finished", "All 8 trials are done.", importance={"mode": 0.6, "batch_size": 0.4}).id
    )
    assert charts(page) == 4
    assert all(chart.proto.alt for chart in page.get("plotly_chart"))
    assert page.dataframe[0].value["Outcome"].tolist()[:3] == ["running", "reached it", "fell short (your own)"]


def test_a_failed_search_without_trials_and_a_damaged_one() -> None:
    page = open_page("search", id=made("failed", "The first 3 trials failed: no such column.", trials=[]).id)
    assert "no such column" in said(page)
    assert "No trial finished" in said(page)
    damaged = made("finished")
    (damaged.directory / "search.json").write_text("{}")
    assert "damaged" in said(open_page("search", id=damaged.id))
    assert "Earlier searches" in [found.value for found in open_page("search").header]


def test_the_best_whose_run_is_gone_is_not_saved_and_the_page_says_why() -> None:
    page = open_page("search", id=made("finished").id)
    page = checked(page.button(key="search:save").click().run())
    assert "is gone" in said(page)
    assert list_models() == []


# ------------------------------------------------------------------ the form and a real search


def test_the_train_page_leads_here_and_a_search_is_started_watched_and_its_best_saved() -> None:
    page = settle(open_page("search", data="seattle-weather"))
    assert widget(page, "selectbox", "Column to predict").value == "temp_max"
    start = page.button(key="search:start")
    assert not start.disabled
    for knob, values in FEW.items():
        page = checked(widget(page, "button_group", PILLS[knob]).set_value(values).run())
    page = checked(widget(page, "button_group", "Learning rate schedule").set_value([]).run())
    assert page.button(key="search:start").disabled
    assert "Mark at least one value" in said(page)
    page = checked(widget(page, "button_group", "Learning rate schedule").set_value(["constant"]).run())
    assert "nothing to search" in said(page)
    page = checked(widget(page, "button_group", "Learning rate schedule").set_value(["constant", "cosine"]).run())
    page = checked(page.button(key="search:start").click().run())
    search = find_search(_address(page, "id"))
    assert search is not None
    until(lambda: not search.is_active and not search.folder.is_alive, 90)
    page = settle(page)
    assert {t.knobs["schedule"] for t in search.account.trials} == {"constant", "cosine"}
    assert any("Finished" in badge.proto.body for badge in page.get("markdown"))
    short = Account([dataclasses.replace(trial, state="short") for trial in search.account.trials])
    assert ended_as("finished", short).word == "Finished, goal not reached"
    assert ended_as("finished", Account([dataclasses.replace(short.trials[0], state="reached")])).badge == "green"
    page = checked(page.button(key="search:save").click().run())
    assert [model.name for model in list_models()] == ["seattle-weather-temp_max"]
    assert "search:save" not in {button.key for button in page.button}


def _address(page: AppTest, part: str) -> str:
    value = page.query_params[part]
    return value if isinstance(value, str) else str(value[0])


def test_a_wish_that_cannot_be_is_said_beside_the_button() -> None:
    page = settle(open_page("search", data="seattle-weather"))
    page = checked(widget(page, "text_input", "Momentum").set_value("0.9..0.1").run())
    assert "LOW less than HIGH" in said(page)
    assert page.button(key="search:start").disabled


def test_gradient_runs_offer_a_search_on_the_train_page() -> None:
    page = settle(open_page("train", data="seattle-weather"))
    assert "Search settings" not in _links(page)
    page = checked(widget(page, "radio", "How to solve it").set_value("gradient").run())
    assert "Search settings" in _links(page)


def _links(page: AppTest) -> list[str]:
    return [link.proto.label for link in page.get("page_link")]


def test_the_usual_space_is_what_the_form_begins_with() -> None:
    page = settle(open_page("search", data="seattle-weather"))
    for knob, label in PILLS.items():
        assert tuple(widget(page, "button_group", label).value) == usual_space()[knob].values  # type: ignore[union-attr]
