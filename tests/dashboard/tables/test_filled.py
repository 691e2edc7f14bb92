"""What was filled in for a table is there in a new session, as after a reload or a restart, until it is forgotten."""

from __future__ import annotations

import random

from streamlit.testing.v1 import AppTest

from shoal.home import table_choices_file
from support.dashboard.train_page import example
from support.harm.damage import flip
from support.pages import checked, open_page, said, settle, widget

MARKED = "Mark missing numbers with a column of their own"
STUDY = '{"impute":"mean"}'


def marked(page: AppTest) -> bool:
    return bool(widget(page, "toggle", MARKED).value)


def test_what_is_chosen_on_train_after_tune_stays_through_reload_and_restart() -> None:
    key, _, _ = example()
    page = settle(open_page("train", data=key, target="y", study=STUDY))
    page = checked(widget(page, "toggle", MARKED).set_value(True).run())
    assert marked(checked(page.run())), "the address of Tune took it back"

    page = settle(open_page("train", data=key, target="y", study=STUDY))
    assert marked(page)
    assert widget(page, "selectbox", "A missing number becomes").value == "mean"

    page = settle(open_page("train", data=key, target="y"))
    assert marked(page)
    page = checked(page.button(key="train:anew").click().run())
    assert not marked(page)
    assert "train:anew" not in {button.key for button in page.button}
    assert not marked(settle(open_page("train", data=key, target="y")))


def test_a_search_is_filled_in_as_it_was() -> None:
    key, _, _ = example()
    page = settle(open_page("search", data=key, target="y"))
    assert "search:anew" not in {button.key for button in page.button}
    checked(widget(page, "number_input", "Trials").set_value(7).run())
    page = settle(open_page("search", data=key, target="y"))
    assert widget(page, "number_input", "Trials").value == 7
    page = checked(page.button(key="search:anew").click().run())
    assert widget(page, "number_input", "Trials").value != 7


def test_tune_is_opened_as_it_was_left() -> None:
    key, _, _ = example()
    said = {"study": '{"folds":4}', "loss": "gamma", "shrink": "elasticnet", "ratio": "0.25"}
    page = settle(open_page("tune", data=key, target="y", **said))
    assert widget(page, "number_input", "Mixing ratio (l1_ratio)").value == 0.25
    page = settle(open_page("tune", data=key, target="y"))
    assert dict(page.query_params) == {"data": key, "target": "y", **said}
    page = settle(open_page("tune", data=key, target="a"))
    assert dict(page.query_params) == {"data": key, "target": "a", "study": said["study"]}


LOST = "What was filled in here cannot be read"


def test_what_was_filled_in_and_is_damaged_is_not_taken_for_a_new_form() -> None:
    key, _, _ = example()
    page = settle(open_page("search", data=key, target="y"))
    checked(widget(page, "number_input", "Trials").set_value(7).run())
    (path,) = table_choices_file("").parent.iterdir()
    flip(path, random.Random(1))

    page = settle(open_page("search", data=key, target="y"))
    assert LOST in said(page)
    assert str(path) in said(page)
    assert LOST not in said(settle(open_page("train", data=key, target="y")))
    checked(widget(page, "number_input", "Trials").set_value(8).run())
    page = settle(open_page("search", data=key, target="y"))
    assert LOST not in said(page)
    assert widget(page, "number_input", "Trials").value == 8
