"""No widget of any page undoes the back button: what a browser still says of it after Back is no new choice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Widget

from shoal.dashboard.tables.samples import SAMPLES
from shoal.home import table_choices_file
from shoal.runs.launch import launch, list_runs
from support.dashboard.models_page import NAME
from support.dashboard.runs_page import many
from support.pages import checked, open_page, settle
from support.runs import ended, run_home, short_run, small_table

PRESSED = {"button", "download_button"}  # a browser does not repeat that something was pressed


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With two versions of a model, made by runs with curves, and so many more runs that they fill several pages."""
    with pytest.MonkeyPatch.context() as patch, run_home(tmp_path_factory.mktemp("back") / "home", patch) as path:
        table = SAMPLES["penguins"].ensure()
        for _ in range(2):
            assert ended(launch(short_run(table, target="body_mass_g", register=NAME))) == "finished"
        many(60)
        yield path


@pytest.fixture(autouse=True)
def at_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(home))
    monkeypatch.setenv("SHOAL_DATA", str(tmp_path))
    small_table(tmp_path)
    table_choices_file("penguins").unlink(missing_ok=True)  # what the test before chose would be in the address


def another_value(widget: Any) -> Any:
    """Something else that a person could choose there; None if there is nothing."""
    now, kind = widget.value, widget.type
    if kind in ("checkbox", "toggle"):
        return not now
    if kind == "pagination":
        return now % widget.num_pages + 1
    if kind in ("number_input", "slider"):
        return None if now is None else now + (widget.step or 1)
    if kind in ("text_input", "text_area"):
        return "a"
    options = list(getattr(widget, "options", []))
    if isinstance(now, list):
        return [each for each in options if each not in now][:1] or None
    return options[-1] if options else None


def said_again(page: AppTest, widget: Any, value: Any) -> bool:
    """Whether a choice changed the address; it must not do so a second time, after Back."""
    first, before = dict(page.query_params), page._tree.get_widget_states()
    if hasattr(widget, "select_index"):
        widget.select_index(0 if widget.index == len(widget.options) - 1 else len(widget.options) - 1)
    else:
        widget.set_value(value)
    message = page._tree.get_widget_states()
    checked(page._run(message))
    if page.query_params == first:
        checked(page._run(before))
        return False
    page.query_params = dict(first)
    checked(page.run())
    assert page.query_params == first, f"Back from {_name(widget)}"
    checked(page._run(message))
    assert page.query_params == first, f"{_name(widget)} was chosen again after Back"
    return True


def _name(widget: Any) -> str:
    return getattr(widget, "label", "") or widget.type


def choosers(page: AppTest) -> set[str]:
    """The labels of all widgets that choose a part of the address, each tried."""
    names = [(node.type, _name(node)) for node in page._tree if isinstance(node, Widget) and node.type not in PRESSED]
    found = set()
    for kind, label in names:
        widget = next((w for w in page.get(kind) if _name(w) == label and not w.disabled), None)
        value = another_value(widget) if widget else None
        if value is not None and said_again(page, widget, value):
            found.add(label)
    return found


@pytest.mark.parametrize(
    ("name", "address", "known"),
    [
        ("data", {"data": "penguins"}, {"Column to predict"}),
        ("train", {"data": "penguins"}, {"Column to predict", "Columns to leave out", "Levels to compare with"}),
        ("tune", {"data": "file:table.csv"}, {"Column to predict"}),
        ("search", {"data": "penguins"}, {"Column to predict"}),
        ("runs", {}, {"Search", "Model", "Solver", "Order", "State", "Runs on a page", "pagination"}),
        ("models", {"model": NAME, "version": "1", "view": "Predict", "rows": "penguins"}, {"Version", "Or choose a table"}),
        ("system", {}, set()),
    ],
)  # fmt: skip
def test_what_a_browser_repeats_after_back_is_no_new_choice(
    name: str, address: dict[str, str], known: set[str]
) -> None:
    assert choosers(settle(open_page(name, **address))) >= known


def test_the_axis_of_a_comparison_is_chosen_once() -> None:
    runs = [run.id for run in list_runs() if run.config["target"] == "body_mass_g"]
    assert choosers(open_page("runs", compare=",".join(runs))) == {"Along", "Log scale"}
