"""Choices for columns follow them where the file is read otherwise: by their places, and what cannot is dropped and said."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.data import following
from shoal.dashboard.tables.choices import STOOD, address_of, stored
from shoal.dashboard.tables.needed import Inspection
from shoal.settings.config import RunConfig
from support.dashboard.data_page import columns_of, upload, view
from support.pages import checked, open_page, said, settle, widget

ROWS = "".join(
    f"{i};{'süd' if i % 3 else 'öst'};{'fällt aus' if i % 20 == 0 else i * 2};{i % 7};{3 * i + i % 5}\n"
    for i in range(1, 60)
)
TEXT = f"Nummer;Straße;Größe;Geschoß;Preis in €\n{ROWS}"
WESTERN = TEXT.encode("cp1252")
WRONG = "Cyrillic (Windows-1251)"
RIGHT = "Western European (Windows-1252)"


def garbled(text: str) -> str:
    return text.encode("cp1252").decode("cp1251")


def read_otherwise(page: AppTest, label: str, choice: Any) -> AppTest:
    return settle(checked(widget(page, "selectbox", label).set_value(choice).run()))


def chosen_of(page: AppTest) -> dict[str, Any]:
    return dict(json.loads(page.query_params["read"]))


def test_choices_follow_their_columns_to_another_encoding() -> None:
    choices = {
        "encoding": "cp1251", "numeric": [garbled("Größe")], "categorical": [garbled("Geschoß")], "exclude": ["Nummer"],
        "reference": [garbled("Straße=öst")], "also_missing": [garbled("fällt aus"), garbled("Größe=4")],
    }  # fmt: skip
    page = view(WESTERN, read=json.dumps(choices), target=garbled("Preis in €"))
    assert list(columns_of(page)["Type"]) == ["number", "names", "number", "names", "number"]
    page = read_otherwise(page, "Text encoding", RIGHT)
    right = {
        "encoding": "cp1252", "numeric": ["Größe"], "categorical": ["Geschoß"], "exclude": ["Nummer"],
        "reference": ["Straße=öst"], "also_missing": ["fällt aus", "Größe=4"],
    }  # fmt: skip
    assert chosen_of(page) == right
    assert page.query_params["target"] == "Preis in €"
    assert list(columns_of(page)["Type"]) == ["number", "names", "number", "names", "number"]
    assert "dropped" not in said(page)
    assert address_of(page.query_params["data"]) == dict(page.query_params)


def test_they_follow_while_the_look_that_they_asked_for_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    view(WESTERN, read=json.dumps({"encoding": "cp1252"}))
    page = view(WESTERN, read=json.dumps({"encoding": "cp1252", "categorical": ["Geschoß"]}), target="Größe")
    found, once = following.inspection, iter([True])  # while the page is drawn after the choice, it is there

    def slow(config: RunConfig) -> Inspection:
        look = found(config)
        return replace(look, goes_on=True, table=None) if config.categorical and next(once, False) else look

    with monkeypatch.context() as busy:
        busy.setattr(following, "inspection", slow)
        page = checked(widget(page, "selectbox", "Text encoding").set_value(WRONG).run())
    page = settle(page)
    assert chosen_of(page) == {"encoding": "cp1251", "categorical": [garbled("Geschoß")]}
    assert page.query_params["target"] == garbled("Größe")


@pytest.mark.parametrize("late", [False, True])
def test_they_follow_through_a_reading_that_fails(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    page = view(WESTERN, read=json.dumps({"encoding": "cp1252", "numeric": ["Größe"], "exclude": ["Geschoß"]}))
    page = read_otherwise(page, "Text encoding", "UTF-16")
    key = page.query_params["data"]
    assert "could not be read" in said(page)
    assert stored(key)[STOOD]["places"] == {"Größe": 2, "Geschoß": 3}
    page = settle(open_page(**address_of(key)))  # as after a restart
    with monkeypatch.context() as slow:
        if late:  # a large file, whose look is not there when the choice is made
            slow.setattr(following, "followed", lambda found, stood, table: None)
        page = checked(widget(page, "selectbox", "Text encoding").set_value(WRONG).run())
    page = settle(page)
    assert chosen_of(page) == {"encoding": "cp1251", "numeric": [garbled("Größe")], "exclude": [garbled("Geschoß")]}
    assert STOOD not in stored(key)


def test_they_follow_to_numbers_in_place_of_a_header_and_back() -> None:
    page = view(TEXT, read='{"categorical":["Geschoß"]}')
    page = read_otherwise(page, "First row", "is data")
    assert chosen_of(page) == {"header": False, "categorical": ["3"]}
    page = read_otherwise(page, "First row", "automatic")
    assert chosen_of(page) == {"categorical": ["Geschoß"]}


def test_what_cannot_follow_is_dropped_and_said() -> None:
    page = view(TEXT, read='{"categorical":["Geschoß"],"also_missing":["0"]}', target="Größe")
    page = read_otherwise(page, "Delimiter", "comma")
    assert chosen_of(page) == {"delimiter": ",", "also_missing": ["0"]}
    assert "target" not in page.query_params
    words = html.unescape(said(page))
    assert "Some choices were dropped" in words
    assert "as the file is read now: Geschoß, Größe. All else" in words
    page = read_otherwise(page, "Delimiter", "automatic")
    assert "dropped" not in said(page)
    assert list(columns_of(page)["Column"]) == ["Nummer", "Straße", "Größe", "Geschoß", "Preis in €"]


def test_names_that_an_address_made_up_are_dropped_and_said() -> None:
    page = settle(open_page(data=upload(TEXT), read='{"numeric":["gone"],"exclude":["Nummer"]}'))
    assert chosen_of(page) == {"exclude": ["Nummer"]}
    assert "as the file is read now: gone." in said(page)
