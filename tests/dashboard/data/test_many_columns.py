"""Tables of very many columns: pages stay small, and every column can still be found, chosen and looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.data.columns import NAME, SHOWN
from shoal.dashboard.parts.picking import LISTED, found_words, matching, named, offered
from shoal.dashboard.tables import needed, uploads
from shoal.home import table_choices_file
from shoal.results.answers.table import TableLook
from shoal.words import shortened
from support.pages import checked, open_page, page_bytes, said, settle, uploaded, widget
from support.runs import run_home

COLUMNS = 1_500
LONG = 100  # letters of a name
MOST = 400_000  # bytes of a page: a megabyte and more before


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One for all: what pages ask about so wide a table is answered once."""
    with pytest.MonkeyPatch.context() as patch, run_home(tmp_path_factory.mktemp("wide") / "home", patch) as path:
        patch.delenv("SHOAL_DATA", raising=False)
        yield path


@pytest.fixture(scope="module")
def wide(home: Path) -> str:
    names = ["y", *(f"x{i}_{'n' * LONG}" for i in range(1, COLUMNS))]
    rows = [",".join(str((i * j) % 7) for j in range(COLUMNS)) for i in range(1, 13)]
    key = uploads.key_of(uploaded("\n".join([",".join(names), *rows]).encode(), "wide.csv"))
    assert key is not None
    return key


@pytest.fixture(autouse=True)
def _nothing_is_chosen(wide: str) -> None:
    """What the test before chose would be in the address."""
    table_choices_file(wide).unlink(missing_ok=True)


def typed(page: AppTest, kind: str, label: str, text: Any) -> AppTest:
    """As a person types something that is not on the list."""
    found = widget(page, kind, label)
    found.options.extend([text] if isinstance(text, str) else text)
    return checked(found.set_value(text).run())


def test_the_data_page_shows_some_columns_and_finds_the_others(wide: str) -> None:
    page = settle(open_page("data", data=wide))
    assert page_bytes(page) < MOST
    assert f"Columns 1 to {SHOWN} of {COLUMNS:,} are shown" in said(page)
    assert f"first 100 of {COLUMNS:,} columns" in said(page)  # of the first rows
    table = page.get("dataframe")[0].value
    assert list(table["Column"])[:2] == ["y", shortened(f"x1_{'n' * LONG}", NAME)]
    assert len(table) == SHOWN
    page = checked(widget(page, "number_input", "Page of columns").set_value(8).run())
    assert list(page.get("dataframe")[0].value["Column"])[-1] == shortened(f"x{COLUMNS - 1}_{'n' * LONG}", NAME)
    page = checked(widget(page, "text_input", "Find a column").set_value("x777_").run())
    assert list(page.get("dataframe")[0].value["Column"]) == [shortened(f"x777_{'n' * LONG}", NAME)]


def test_what_is_known_of_many_columns_is_not_read_again_for_every_drawing(
    wide: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needed, "LARGE", 1 << 16)  # many more columns would take the test a minute
    page = settle(open_page("train", data=wide))
    read, as_it_is = [], TableLook.from_dict

    def from_dict(values: dict[str, Any]) -> TableLook:
        read.append(values)
        return as_it_is(values)

    monkeypatch.setattr(TableLook, "from_dict", from_dict)
    page = checked(page.run())
    assert read == []
    needed.forget_idle(0.0)
    checked(page.run())
    assert len(read) == 1  # for the table and the advice about it


@pytest.mark.parametrize("place", ["data", "train", "tune", "search"])
def test_a_column_that_is_not_listed_is_chosen_by_typing(wide: str, place: str) -> None:
    page = settle(open_page(place, data=wide))
    assert page_bytes(page) < MOST
    assert f"The first {LISTED} of {COLUMNS:,} are listed." in said(page)
    page = typed(page, "selectbox", "Column to predict", "x12")
    assert "111 columns have “x12” in the name." in said(page)
    offers = widget(page, "selectbox", "Column to predict").options
    assert f"x1299_{'n' * LONG}" in offers
    assert "target" not in page.query_params
    page = typed(page, "selectbox", "Column to predict", "X1299_")
    assert page.query_params["target"] in (f"x1299_{'n' * LONG}", [f"x1299_{'n' * LONG}"])


def test_columns_are_left_out_by_typing_their_names(wide: str) -> None:
    page = settle(open_page("train", data=wide, target="y"))
    far = f"x1400_{'n' * LONG}"
    assert far not in widget(page, "multiselect", "Columns to leave out").options
    page = typed(page, "multiselect", "Columns to leave out", [far])
    assert far in widget(page, "multiselect", "Columns to leave out").value
    assert "There is no column" not in said(page)
    page = typed(page, "multiselect", "Columns to leave out", [far, "x1400"])
    assert "There is no column &#x27;x1400&#x27; in this table." in said(page)


def test_names_are_found_whole_or_by_a_part_that_one_has() -> None:
    names = [f"c{i}" for i in range(1000)]
    assert named("c1", names) == "c1"
    assert named("C999", names) == "c999"
    assert named("c99", ["c990", "c991"]) is None
    assert named(None, names) is None
    assert len(offered(names, ["c999", "c0"])) == LISTED + 1
    assert len(matching(names, "9")) == 271
    assert found_words(names, "zebra") == "No column to choose has “zebra” in its name."
