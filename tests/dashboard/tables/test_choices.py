"""What was chosen for a table goes with it: to other pages by the menu, through a restart, and away when it is forgotten."""

from __future__ import annotations

import html
import json
import urllib.parse
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.tables import uploads
from shoal.dashboard.tables.choices import address_of
from shoal.dashboard.train import page as train_page
from shoal.home import table_choices_file
from support.pages import checked, open_page, said, settle, uploaded, widget

ROWS = "".join(f"{i % 4},{i},{'k.A.' if i % 9 == 0 else i * 2},{i % 4 * 3 + i}\n" for i in range(60))


@pytest.fixture
def key(tmp_path: Path) -> str:
    found = uploads.key_of(uploaded(f"code,size,price,y\n{ROWS}".encode(), "sales.csv"))
    assert found
    return found


def press(page: AppTest, key: str) -> AppTest:
    return settle(checked(page.button(key=key).click().run()))


def chosen(key: str) -> dict[str, str]:
    """The words among numbers are made missing, and the target is said, on the Data page."""
    page = settle(open_page(data=key))
    page = settle(press(page, "gaps:words:price"))
    return dict(page.query_params)


def test_other_pages_use_a_table_as_it_was_corrected(key: str) -> None:
    address = chosen(key)
    assert json.loads(address["read"])["also_missing"] == ["k.A."]
    for name in ("train", "tune", "search"):
        page = settle(press(settle(open_page(name)), f"use:{key}"))
        assert dict(page.query_params) == address, name
    page = press(open_page(), f"recent:{key}")
    assert dict(page.query_params) == address


def test_the_target_goes_with_the_table(key: str) -> None:
    page = settle(open_page("tune", data=key))
    picker = next(box for box in page.selectbox if box.label == "Column to predict")
    page = checked(picker.select("y").run())
    assert page.query_params["target"] == "y"
    page = press(settle(open_page("search")), f"use:{key}")
    assert page.query_params["target"] == "y"


def test_choices_are_shown_and_forgotten_with_one_click(key: str) -> None:
    address = chosen(key)
    page = settle(open_page(**address))
    assert "Chosen for this table" in said(page)
    page = settle(press(page, "forget"))
    assert "read" not in page.query_params
    assert "Forget all choices" not in [button.label for button in page.button]
    assert address_of(key) == {"data": key}


def test_each_choice_is_taken_back_by_itself() -> None:
    read = {"also_missing": ["k.A.", "VB"], "delimiter": ",", "skip_lines": 1}
    path = uploaded(f"sales of a year,,,\ncode,size,price,y\n{ROWS}".encode(), "below.csv")
    key = uploads.key_of(path) or ""
    page = settle(open_page(data=key, target="y", read=json.dumps(read)))

    def undone(said: str) -> AppTest:
        button = next(button for button in page.button if str(button.key).startswith("undo:") and said in button.key)
        return settle(press(page, str(button.key)))

    page = undone("VB")
    assert json.loads(page.query_params["read"]) == {**read, "also_missing": ["k.A."]}
    page = undone("k.A.")
    assert json.loads(address_of(key)["read"]) == {"delimiter": ",", "skip_lines": 1}
    page = undone("lines above the table 1")
    assert json.loads(address_of(key)["read"]) == {"delimiter": ","}
    page = undone("predict y")
    assert "target" not in address_of(key)
    assert json.loads(address_of(key)["read"]) == {"delimiter": ","}


def test_a_damaged_file_of_choices_is_as_none(key: str) -> None:
    chosen(key)
    path = table_choices_file(key)
    text = path.read_text()
    path.write_text(text.replace("k.A.", "k.B."))
    assert address_of(key) == {"data": key}
    path.write_text(text)
    path.rename(table_choices_file("another"))
    assert address_of("another") == {"data": "another"}


def test_data_and_train_lead_to_tune_with_everything(key: str) -> None:
    address = {**chosen(key), "target": "y"}
    page = press(settle(open_page(**address)), "tune")
    assert dict(page.query_params) == address
    page = settle(open_page("train", **address))
    (link,) = [link.proto for link in page.get("page_link") if link.proto.label == "Tune the penalty"]
    assert "k.A." in urllib.parse.unquote(link.query_string)


def without_code(page: AppTest) -> AppTest:
    return checked(widget(page, "multiselect", "Columns to leave out").set_value(["code"]).run())


def way_to_tune(page: AppTest) -> str:
    (link,) = [link.proto for link in page.get("page_link") if link.proto.label == "Tune the penalty"]
    return urllib.parse.unquote(link.query_string)


def test_a_column_that_was_just_left_out_goes_to_tune(key: str) -> None:
    page = settle(open_page("train", data=key, target="y"))
    assert '"exclude":["code"]' not in way_to_tune(page)
    assert '"exclude":["code"]' in way_to_tune(without_code(page))


def test_a_choice_is_kept_where_a_click_cuts_the_drawing_off(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = settle(open_page("train", data=key, target="y"))
    with monkeypatch.context() as patch:
        patch.setattr(train_page.Composer, "_keep_address", lambda self: None)  # as far as it did not come
        page = without_code(page)
    assert "read" not in dict(page.query_params)
    page = checked(page.run())
    assert widget(page, "multiselect", "Columns to leave out").value == ["code"]
    assert json.loads(dict(page.query_params)["read"])["exclude"] == ["code"]


def test_choices_that_cannot_be_read_are_said(key: str) -> None:
    chosen(key)
    words = "The table is read as if nothing had been chosen"
    assert words not in said(settle(open_page(data=key)))
    path = table_choices_file(key)
    path.write_bytes(path.read_bytes().replace(b"k.A.", b"k.B."))
    assert address_of(key) == {"data": key}
    assert words in said(settle(open_page(data=key)))


def test_a_column_that_is_left_out_stays_so_when_it_was_predicted_for_a_while(key: str) -> None:
    page = settle(open_page("train", data=key, read=json.dumps({"exclude": ["size", "code"]}), target="y"))
    for target, left_out in (("size", ["code"]), ("y", ["size", "code"])):
        page = settle(checked(widget(page, "selectbox", "Column to predict").set_value(target).run()))
        assert widget(page, "multiselect", "Columns to leave out").value == left_out
        assert json.loads(address_of(key)["read"])["exclude"] == ["size", "code"]


def test_words_that_keep_rows_unread_are_made_missing_with_one_click_where_the_fit_is_held(key: str) -> None:
    page = settle(open_page("train", data=key, target="y"))
    assert page.button(key="start").disabled
    assert "7 rows could not be read" in said(page)
    assert (
        "'price' holds numbers but for words: 'k.A.' (7 rows). If they mean no value, count them so."
        in html.unescape(said(page))
    )
    (button,) = (button for button in page.button if button.label == "Treat as missing")
    page = settle(checked(button.click().run()))
    assert not page.button(key="start").disabled
    assert json.loads(address_of(key)["read"]) == {"also_missing": ["k.A."]}
