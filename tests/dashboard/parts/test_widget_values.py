"""A drawing that the next click cuts off takes no value from any widget: the drawing after it says them all again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Widget

from shoal.dashboard.parts import widget_values
from support.pages import checked, open_page, settle
from support.runs import run_home


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
