"""A drawing that the next click cuts off takes no value from any widget: the drawing after it says them all again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Widget

from shoal.dashboard.parts import widget_values
from shoal.dashboard.tables.sources import Asked, Table
from shoal.runs.launch import launch_job
from support.pages import checked, open_page, settle, uploaded
from support.runs import ended, run_home


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch, run_home(tmp_path_factory.mktemp("values") / "home", patch) as path:
        yield path


def with_a_beginning(page: AppTest) -> list[Widget]:
    """The widgets of a page's form that the page gives a value to: toggles, numbers, choices and texts."""
    kinds = ("toggle", "checkbox", "number_input", "selectbox", "multiselect", "radio", "button_group", "text_input")
    found = [widget for kind in kinds for widget in page.get(kind)]
    address = ":target:"  # a part of the address, which is said in every drawing (places.chooses)
    return [widget for widget in found if widget.key and address not in widget.key]


def said(page: AppTest) -> set[str]:
    """The keys of widgets whose value the browser is told, whatever it shows of them so far."""
    return {str(widget.key) for widget in with_a_beginning(page) if widget.proto.set_value}


def begins_so_by_itself(widget: Widget) -> bool:
    """Its own beginning, as the browser has it from every drawing, is what it shows."""
    empty = widget.type == "number_input" and not widget.proto.HasField("default")
    default = None if empty else widget.proto.default
    return bool(default == (widget.index if hasattr(widget, "index") else widget.value))


@pytest.mark.parametrize("name", ["train", "search"])
def test_after_a_drawing_that_was_cut_off_all_values_are_said_again(name: str) -> None:
    page = settle(open_page(name, data="penguins", target="body_mass_g"))
    page = checked(page.run())
    form = {key for key in (str(widget.key) for widget in with_a_beginning(page)) if key.startswith(f"{name}:")}
    assert len(form) >= 8
    assert said(page) & form == set()  # what somebody types meanwhile is left alone

    page.session_state[widget_values.AT_WORK] = True  # as a drawing leaves it that did not come to its end
    page = checked(page.run())
    own = {str(widget.key) for widget in with_a_beginning(page) if begins_so_by_itself(widget)}
    assert said(page) | own >= form
    page = checked(page.run())
    assert said(page) & form == set()


def test_a_drawing_that_fails_is_none_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, object] = {}
    monkeypatch.setattr(widget_values.st, "session_state", state)

    def draw_in_vain() -> None:
        with widget_values.drawing():
            widget_values.begin("toggle", True)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        draw_in_vain()
    with widget_values.drawing():
        assert state[widget_values.CUT_OFF] is True
        assert widget_values.begin("toggle", False) == "toggle"
        assert state["toggle"] is True
    with widget_values.drawing():
        assert state[widget_values.CUT_OFF] is False


def a_form_beside_a_bar(directory: str) -> None:
    from pathlib import Path

    import streamlit as st

    from shoal.dashboard.parts import widget_values
    from shoal.dashboard.parts.waiting import watch
    from shoal.runs.launch import Run

    with widget_values.drawing():
        st.number_input("Every", 2, 100, key=widget_values.begin("every", 5))
    drawings = st.session_state["drawings"] = st.session_state.get("drawings", 0) + 1
    if drawings == 2:  # a look of the fragment, after the drawing that it is of had ended
        watch(Run(Path(directory)), "Looking")


def test_what_a_bar_ends_with_says_all_values_again() -> None:
    """Messages of the drawing before may not have reached the browser: its form would begin with none and the least."""
    path = uploaded(b"a,y\n1,2\n2,4\n3,7\n", "table.csv")
    look = launch_job("inspect", Asked(Table("table", path)).inspection)
    assert ended(look) == "finished"
    page = checked(AppTest.from_function(a_form_beside_a_bar, args=(str(look.directory),)).run())
    assert page.session_state["drawings"] == 1
    page = checked(page.run())  # the second is followed by a third, whose messages are those that are left
    assert page.session_state["drawings"] == 3
    (every,) = page.number_input
    assert every.proto.set_value
    assert every.value == 5
    (every,) = checked(page.run()).number_input
    assert not every.proto.set_value
