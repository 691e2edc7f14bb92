"""How a file is read: options, types, rows that cannot be read, and files that are no tables."""

from __future__ import annotations

import codecs
import html
import io
import json
from typing import Any

import numpy as np
import openpyxl
import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.data import columns as column_table
from shoal.dashboard.data.columns import SHOWN
from shoal.dashboard.data.options import ENCODINGS
from shoal.dashboard.parts.wording import LABELS
from shoal.dashboard.tables import sources
from shoal.data.formats import encodings
from shoal.home import jobs_directory
from shoal.words import shortened
from support.dashboard.data_page import NASTY, columns_of, view
from support.pages import checked, said, scrolled, settle, widget
from support.tables import shared


def test_reading_options_read_the_file_again_and_only_they_are_in_the_address() -> None:
    page = view("a;b\n1;2\n3;4\n5;6\n")
    assert list(columns_of(page)["Column"]) == ["a", "b"]
    assert "read" not in page.query_params
    page = settle(checked(widget(page, "selectbox", "First row").set_value("is data").run()))
    assert list(columns_of(page)["Column"]) == ["0", "1"]
    assert read_of(page) == {"header": False}
    page = settle(checked(widget(page, "selectbox", "First row").set_value("automatic").run()))
    assert "read" not in page.query_params
    page = settle(checked(widget(page, "selectbox", "First row").set_value("is data").run()))
    page = settle(checked(widget(page, "text_input", "Texts that mean missing").set_value("1, 2").run()))
    assert list(columns_of(page)["Missing"]) == [1, 1]
    page = settle(checked(widget(page, "number_input", "Lines above the table").set_value(2).run()))
    assert "2 rows" in said(page)
    page = settle(checked(page.button(key="as-found").click().run()))
    assert "read" not in page.query_params
    assert list(columns_of(page)["Column"]) == ["a", "b"]
    assert widget(page, "selectbox", "First row").value == "automatic"  # the page follows the address


def read_of(page: AppTest) -> dict[str, Any]:
    found = page.query_params["read"]
    return dict(json.loads(found if isinstance(found, str) else found[0]))


def test_types_of_the_address_are_in_the_table() -> None:
    """Choosing them in the table needs a browser: see test_browser_data."""
    text = "zip,n,y\n01,1,2\n02,2,3\n03,3,5\n"
    assert list(columns_of(view(text))["Type"]) == ["number"] * 3
    table = columns_of(view(text, read='{"categorical":["zip"]}'))
    assert list(table["Type"]) == ["names", "number", "number"]
    assert list(table["Read as"]) == ["names", "as found", "as found"]
    assert table["Values"][0] == "01 (1), 02 (1), 03 (1)"


def test_what_a_model_leaves_out_is_no_other_reading() -> None:
    text = "n,y\n1,2\n2,3\n3,5\n"
    view(text)
    looks = list((jobs_directory() / "inspect").iterdir())
    page = view(text, read='{"exclude":["n"]}')
    assert list((jobs_directory() / "inspect").iterdir()) == looks
    assert list(columns_of(page)["Read as"]) == ["leave out", "as found"]


def test_a_choice_replaces_an_earlier_one() -> None:
    read = column_table.changed({"numeric": ["a", "b"], "decimal": ","}, "a", "leave out")
    assert sources.tidy(read) == {"numeric": ["b"], "decimal": ",", "exclude": ["a"]}
    assert sources.tidy(column_table.changed(read, "b", column_table.AS_FOUND)) == {"decimal": ",", "exclude": ["a"]}


def test_a_row_that_cannot_be_read_is_located() -> None:
    rows = "".join(f"{i},{i}\n" for i in range(200))
    page = view(f"a,y\n{rows}3\n4,5,6\n7,8\n")
    assert "2 rows could not be read" in said(page)
    assert "line 202: expected 2 fields, got 1; and 1 more" in said(page)


def test_many_rows_that_cannot_be_read_are_listed_with_their_lines() -> None:
    page = view("a,y\n" + "1,2\n" * 60 + "3\n" * 10)
    assert "and 9 more" in said(page)
    lines = next(t.value for t in page.dataframe if "Line" in t.value.columns)
    assert list(lines["Line"]) == list(range(62, 72))
    page = settle(checked(page.button(key="skip-bad-rows").click().run()))
    assert read_of(page) == {"on_bad_rows": "skip"}
    assert "Models leave all of them out." in said(page)


def test_a_column_that_gives_the_target_away_is_flagged() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 50)).round(3)
    text = "x,leak,y\n" + "".join(f"{a},{2 * b + 1},{b}\n" for a, b in zip(x, y, strict=True))
    page = settle(view(text, target="y"))  # once the file is read, it is looked at for leaks
    remarks = columns_of(page).set_index("Column")["Worth knowing"]
    assert "gives the target away" in remarks["leak"]
    assert "gives the target away" not in remarks["x"]


@pytest.mark.parametrize("text", ["", "\n\n", "PK\x03\x04 not a table"])
def test_a_file_that_is_no_table_gets_a_plain_sentence(text: str) -> None:
    page = view(text)
    assert "This file could not be read" in said(page)
    assert "Traceback" not in said(page)
    assert not page.data_editor
    page = checked(page.button(key="new").click().run())
    assert "data" not in page.query_params


def test_a_file_without_numbers_says_so_and_opens_the_options() -> None:
    page = view("a,b\n" + "".join(f"x{i},y{i}\n" for i in range(60)))
    assert "no column of numbers, or of few texts" in said(page)
    assert next(e for e in page.expander if e.label == "Reading options").proto.expanded
    assert not [button for button in page.button if button.key == "train"]


def test_a_header_without_rows_says_so() -> None:
    page = view("a,b\n")
    assert "no rows below the header" in said(page)
    assert not [button for button in page.button if button.key == "train"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("csvspectrum__newlines", "3 rows · 3 columns"),
        ("csvspectrum__json", "1 row · 2 columns"),
        ("frictionless__without-rows", "no rows below the header"),
        ("frictionless__structure-errors", "could not be read"),
    ],
)
def test_a_file_of_the_collection_of_nasty_ones_has_its_state(name: str, wanted: str) -> None:
    assert wanted in said(view(shared("csv_nasty", "files", f"{name}.csv").read_bytes()))


def test_a_wide_table_has_a_search() -> None:
    names = [f"c{i}" for i in range(600)]
    page = view(",".join(names) + "\n" + "\n".join(",".join(str(i * j % 7) for j in range(600)) for i in range(1, 9)))
    assert len(columns_of(page)) == SHOWN < 600
    page = checked(page.text_input(key="column-search").set_value("C59").run())
    assert list(columns_of(page)["Column"]) == ["c59", *(f"c59{i}" for i in range(10))]
    page = checked(page.text_input(key="column-search").set_value("nothing").run())
    assert not page.data_editor


def test_text_from_a_file_is_shown_as_it_is() -> None:
    page = view(f'"{NASTY}",y\n"<b>x</b>",1\n"<i>",2\n', target="y")
    assert list(columns_of(page)["Column"]) == [shortened(NASTY, column_table.NAME), "y"]
    assert scrolled(page) == [NASTY]
    assert page.dataframe[-1].value.iloc[0, 0] == "<b>x</b>"
    drawn = " ".join(m.value for m in [*page.markdown, *page.caption])
    assert "<img" not in drawn + said(page)


def test_rows_of_totals_are_named_and_not_offered_as_missing() -> None:
    page = view(
        "a,y\n" + "".join(f"{'Summe' if i == 99 else 'k.A.' if i == 70 else i * 1.5},{i}\n" for i in range(200))
    )
    shown = html.unescape(said(page))
    assert "'a' has words for totals among its numbers: 'Summe' (1 row)." in shown
    settle(checked(page.button(key="gaps:words:a").click().run()))
    assert read_of(page) == {"also_missing": ["k.A."]}


def test_words_among_numbers_and_codes_are_missing_by_one_click() -> None:
    rows = "".join(
        f"{'k.A.' if i % 20 == 0 else i * 1.5},{'VB' if i % 25 == 0 else i},{-999 if i % 50 == 7 else i % 9}\n"
        for i in range(200)
    )
    page = view(f"a,b,c\n{rows}")
    shown = html.unescape(said(page))
    assert "'a' holds numbers but for words: 'k.A.' (10 rows)." in shown
    assert "'c' is -999 in at least 4 rows, far from its other values." in shown
    page = settle(checked(page.button(key="gaps:words").click().run()))
    assert read_of(page) == {"also_missing": ["k.A.", "VB"]}
    assert list(columns_of(page)["Missing"]) == [10, 8, 0]
    assert "could not be read" not in said(page)
    page = settle(checked(page.button(key="gaps:code:c:-999").click().run()))
    assert list(columns_of(page)["Missing"]) == [10, 8, 4]
    page = settle(checked(widget(page, "text_input", "More texts that mean missing").set_value("").run()))
    assert "read" not in page.query_params  # an emptied field is as if nothing had been said


def test_limits_among_numbers_are_read_by_one_click_and_that_is_taken_back() -> None:
    rows = "".join(
        f"{'<0,5' if i % 20 == 0 else f'{i},5'};{i % 7};{'>90' if i % 30 == 0 else i % 80}\n" for i in range(200)
    )
    page = view(f"a;b;c\n{rows}")
    assert "'a' has limits among its numbers: <… in 10 rows." in html.unescape(said(page))
    offered = [button.key for button in page.button if button.key and button.key.startswith("gaps:limits:")]
    assert offered == [
        *(f"gaps:limits:a:{way}" for way in ("half", "limit", "missing")),
        "gaps:limits:c:limit",
        "gaps:limits:c:missing",
    ]
    page = settle(checked(page.button(key="gaps:limits:a:half").click().run()))
    page = settle(checked(page.button(key="gaps:limits:c:missing").click().run()))
    assert read_of(page) == {"limits": ["a=half", "c=missing"]}
    assert list(columns_of(page)["Missing"]) == [0, 0, 7]
    assert "could not be read" not in said(page)
    settle(checked(page.button(key="undo:0:limits a=half").click().run()))
    assert read_of(page) == {"limits": ["c=missing"]}


def test_a_word_with_a_comma_stays_whole_in_its_field() -> None:
    rows = "".join(f"{'<0,5' if i % 20 == 0 else f'{i},5'};{i % 7}\n" for i in range(200))
    page = view(f"a;b\n{rows}", read=json.dumps({"also_missing": ["a=<0,5"]}))
    field = widget(page, "text_input", "More texts that mean missing")
    assert field.value == '"a=<0,5"'
    page = settle(checked(field.set_value(f"k.A.,{field.value}").run()))
    assert read_of(page) == {"also_missing": ["k.A.", "a=<0,5"]}
    assert list(columns_of(page)["Missing"]) == [10, 0]


def test_a_browser_that_has_not_drawn_a_choice_yet_does_not_undo_it() -> None:
    rows = "".join(f"{'k.A.' if i % 20 == 0 else i * 1.5},{i}\n" for i in range(200))
    page = view(f"a,b\n{rows}")
    before = page._tree.get_widget_states()  # what a browser holds, and says again whenever it asks for something
    for button in [each for each in before.widgets if each.HasField("trigger_value")]:
        before.widgets.remove(button)  # but for what was pressed
    page = checked(page.button(key="gaps:words:a").click().run())
    assert read_of(page) == {"also_missing": ["k.A."]}
    checked(page._run(before))
    assert read_of(page) == {"also_missing": ["k.A."]}
    page = checked(widget(settle(page), "text_input", "More texts that mean missing").set_value("").run())
    assert "read" not in page.query_params  # by a person, it is a choice


def test_what_mends_rows_comes_before_them_and_many_lines_are_folded() -> None:
    cells = [["n.c." if (i + j) % 23 == 0 else f"{(i * 7 + j * 3) % 101}.5" for j in range(9)] for i in range(200)]
    rows = "".join(",".join(row) + "\n" for row in cells)
    page = view(",".join(f"c{j}" for j in range(9)) + f"\n{rows}")
    shown = html.unescape(said(page))
    assert shown.index("9 columns hold numbers or dates but for words") < shown.index("rows could not be read")
    folded = next(each for each in page.expander if each.label == "3 more of these")
    assert [button.key for button in folded.button] == [f"gaps:words:c{j}" for j in range(6, 9)]


def test_long_names_are_cut_in_the_middle_with_the_whole_ones_at_hand() -> None:
    names = [f"Thinking about {part}, to what extent do you agree with the statement {part}?" for part in ("x", "y")]
    page = view(f"{names[0]};{names[1]}\n" + "1;2\n2;3\n" * 9)
    shown = list(columns_of(page)["Column"])
    assert [name[:15] + name[-2:] for name in shown] == ["Thinking about x?", "Thinking about y?"]
    assert scrolled(page) == ["\n".join(names)]


def test_dates_of_either_order_are_read_otherwise_by_one_click() -> None:
    page = view("d,y\n" + "".join(f"{1 + i % 12:02d}/{1 + i % 11:02d}/2021,{i}\n" for i in range(60)))
    assert "could be in another order" in said(page)
    page = settle(checked(page.button(key="gaps:dates:d:month-first").click().run()))
    assert read_of(page) == {"dates": ["d=month-first"]}
    assert "could be in another order" not in said(page)


def test_the_sheet_of_a_workbook_is_chosen_on_the_page() -> None:
    book, made = openpyxl.Workbook(), io.BytesIO()
    for name, column in (("First", "a"), ("Second", "b")):
        sheet = book.create_sheet(name)
        for row in [[column, "y"], *([i, i * i] for i in range(20))]:
            sheet.append(row)
    book.save(made)
    page = view(made.getvalue())
    assert list(columns_of(page)["Column"]) == ["a", "y"]
    page = settle(checked(widget(page, "selectbox", "Sheet").set_value("Second").run()))
    assert read_of(page) == {"sheet": "Second"}
    assert list(columns_of(page)["Column"]) == ["b", "y"]


def test_every_encoding_that_is_guessed_is_on_the_list() -> None:
    guessed = {codecs.lookup(name).name for name in (*encodings.CANDIDATES, *encodings.OLD, "latin-1", "cp1252")}
    assert guessed <= {codecs.lookup(name).name for name in ENCODINGS.values() if name}
    towns = ("Łódź", "Wrocław", "Poznań", "Gdańsk", "Białystok", "Częstochowa", "Rzeszów", "Toruń", "Świętochłowice")
    page = view(("miasto;cena\n" + "".join(f"{name};{i}\n" for i, name in enumerate(towns))).encode("cp1250"))
    assert "is read as cp1250 (Central European), a guess" in said(page)
    chosen = widget(page, "selectbox", LABELS["encoding"]).set_value("Central European (Windows-1250)")
    page = settle(checked(chosen.run()))
    assert read_of(page) == {"encoding": "cp1250"}
    assert "a guess" not in said(page)


def test_what_is_worth_knowing_has_room_and_stands_below_where_it_has_not() -> None:
    header = "price,same\n"
    page = view(header + "".join(f'"€ {i}.{i:03d},05",7\n' for i in range(10, 40)))
    table = json.loads(page.dataframe[0].proto.columns)
    remarks = list(columns_of(page)["Worth knowing"])
    assert table["Worth knowing"]["width"] >= 6 * max(map(len, remarks)) > 0
    long_ = [column_table.REMARK * "x", column_table.REMARK * "y" + "!"]
    assert column_table._remark_column(long_) == column_table._remark_column(long_[:1])


def test_na_is_kept_as_a_code_with_one_click_and_stays_a_gap_among_numbers() -> None:
    codes, rooms = ["MI", "NA", "RM", "TO"], ["NA", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"]
    rows = "".join(f"{codes[i % 4]},{rooms[i % 11]},{i}\n" for i in range(60))
    page = view(f"prov,rooms,y\n{rows}")
    page = settle(checked(page.button(key="gaps:na").click().run()))
    assert "NA is a name" in [button.label for button in page.button]
    page = settle(checked(page.button(key="gaps:words:rooms").click().run()))
    assert read_of(page)["also_missing"] == ["rooms=NA"]
    assert not [button.key for button in page.button if str(button.key).startswith("gaps:")]
    assert list(columns_of(page)["Missing"]) == [0, 6, 0]
    page = settle(checked(next(button for button in page.button if button.label == "NA is a name").click().run()))
    assert "missing" not in read_of(page)
