"""The Data page: its first view, a sample, and what its address may say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.dashboard.data.columns import compared_with
from shoal.dashboard.tables import sources
from shoal.dashboard.tables.samples import SAMPLES, generated_sample
from shoal.data.generated import Shape, generate
from shoal.results.answers.table import ColumnLook
from shoal.settings.values import config_from
from shoal.tasks.train import look
from support.dashboard.data_page import columns_of, upload, view
from support.pages import checked, now_on, open_page, said, settle, widget
from support.tables import written

# ------------------------------------------------------------------ the first view


def test_the_first_view_offers_samples_with_source_and_licence() -> None:
    page = open_page()
    captions = " ".join(caption.value for caption in page.caption)
    assert set(SAMPLES) == {"penguins", "seattle-weather", "diabetes"}
    for sample in SAMPLES.values():
        assert sample.licence in captions
        assert sample.source in captions
    assert "SHOAL_DATA" in said(page)


@pytest.mark.parametrize("key", list(SAMPLES))
def test_a_sample_is_what_its_package_holds_and_has_its_target(key: str) -> None:
    sample = SAMPLES[key]
    found = look(config_from({"file": str(sample.ensure()), "engine": "inline"}))
    assert found["rows"] == {"penguins": 344, "seattle-weather": 1461, "diabetes": 442}[key]
    assert next(c["type"] for c in found["columns"] if c["name"] == sample.target) == "numeric"
    assert not found["bad_rows"]["count"]


def test_a_sample_is_read_and_leads_to_training() -> None:
    page = open_page()
    page = settle(checked(page.button(key="sample:penguins").click().run()))
    assert page.query_params == {"data": "penguins"}
    table = columns_of(page).set_index("Column")
    assert list(table.index)[:2] == ["species", "island"]
    assert table.loc["bill_length_mm", "Values"] == "32.1 to 59.6"
    assert table.loc["species", "Values"] == "Adelie (152), Gentoo (124), Chinstrap (68)"
    assert (table.loc["sex", "Missing"], round(table.loc["sex", "Missing %"], 1)) == (11, 3.2)
    assert "344 rows · 8 columns" in said(page)
    assert widget(page, "selectbox", "Column to predict").value == "body_mass_g"
    page = now_on(page.button(key="train").click().run())
    assert page.query_params["data"] == ["penguins"] or page.query_params["data"] == "penguins"
    assert "Palmer penguins" in said(page)


def test_nothing_can_be_trained_before_a_target_is_chosen() -> None:
    page = view("a,b\n1,2\n3,4\n5,7\n")
    assert page.button(key="train").disabled
    page = settle(checked(widget(page, "selectbox", "Column to predict").set_value("b").run()))
    assert page.query_params["target"] in ("b", ["b"])
    assert not page.button(key="train").disabled
    assert "the column to predict" in columns_of(page).set_index("Column").loc["b", "Worth knowing"]


# ------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    "key", ["../secret", "x/y", "file:/etc/passwd", "generated:1x1", "generated:0500x20", "generated:9999999999x2", ""]
)
def test_an_address_that_leads_nowhere_says_so(key: str) -> None:
    page = open_page(data=key)
    assert page.title[0].value == "Nothing here"
    page = now_on(page.button(key="new").click().run())
    assert "data" not in page.query_params
    assert page.title[0].value != "Nothing here"


@pytest.mark.parametrize(
    "text", ["{", "[1]", "7", '"delimiter"', '{"header": "maybe"}', '{"on_bad_rows": "x"}', "[" * 5000, "null"]
)
def test_reading_options_that_somebody_mistyped_are_passed_over(text: str) -> None:
    assert sources.read_from(text) == {}


def test_an_address_sets_how_a_file_is_read_and_nothing_else() -> None:
    text = json.dumps({"file": "/etc/passwd", "out": "/tmp/x", "workers": 500, "decimal": ",", "on_bad_rows": "limit"})
    assert sources.read_from(text) == {"decimal": ","}
    page = view("a;y\n1,5;2\n2,5;3\n", read=text)
    assert columns_of(page)["Values"][0] == "1.5 to 2.5"


def test_a_table_is_known_by_its_file(folder: Path) -> None:
    key = upload("a,y\n1,2\n")
    inside = written(folder, "a,y\n1,2\n", "inside.csv")
    made = Shape(200, 3)
    generate(made, lambda stage, part: None)
    for known in (key, "file:inside.csv", "penguins", generated_sample(made).key):
        table = sources.find_table(known)
        assert table is not None
        assert sources.table_of(str(table.path)) == table
    inside.unlink()
    assert sources.table_of(str(inside)) is None
    assert sources.table_of("/etc/passwd") is None


def test_several_notes_are_folded_and_one_is_not() -> None:
    one = view("x;y\n€ 1,5;2\n€ 2,5;3\n€ 3,5;5\n")
    assert not [e for e in one.expander if "notes on how the file is read" in e.label]
    text = "Sales of May\n\nx;y\n€;m\n€ 1,5;2\n€ 2,5;3\nx;y\n€ 3,5;5\n€ 4,5;5\nTotal;15\n"
    page = view(text.encode("utf-16"))
    (folded,) = [e for e in page.expander if "notes on how the file is read" in e.label]
    assert int(folded.label.split()[0]) == len(folded.get("html")) > 1
    assert "guess" not in folded.label
    turkish = text.replace("Sales of May", "Müşterinin şehri ve ağırlığı, çıkış yılı: İstanbul, Iğdır, Şanlıurfa")
    (folded,) = [e for e in view(turkish.encode("cp1254", "replace")).expander if "notes on how" in e.label]
    assert folded.label.endswith("notes on how the file is read (as cp1254, a guess)")


def test_a_mark_for_yes_is_told_with_what_it_is_compared_with() -> None:
    text = "garage,y\n" + "".join(f"{'X' if i % 3 == 0 else ''},{i % 7}\n" for i in range(60))
    table = columns_of(view(text)).set_index("Column")
    assert table["Worth knowing"]["garage"] == "one text or blank: a mark for yes?"
    assert table["Compared with"]["garage"] == "(no value)"
    mark = ColumnLook("garage", "categorical", missing=40, flags=("mark",), levels=("X",))
    assert compared_with({}, mark, "X") == {"reference": ["garage=X"]}
    assert compared_with({"reference": ["garage=X"]}, mark, "(no value)") == {"reference": []}
    usual = ColumnLook("city", "categorical", missing=4, levels=("Bergen", "Oslo"))
    assert compared_with({}, usual, "(no value)") == {"reference": ["city=__missing__"]}


def test_cells_of_values_have_whole_names_and_figures_fit_beside_them() -> None:
    streets = ["Hauptstraße"] * 4 + ["Gartenweg"] * 3 + ["Am alten Schlossplatz hinter der Kirche"] * 2 + ["Kai"]
    text = "street,y\n" + "".join(f"{streets[i % 10]},{i % 7 * 1000}\n" for i in range(80))
    page = view(text)
    table = columns_of(page).set_index("Column")
    assert table["Values"]["street"] == "Hauptstraße (32), Gartenweg (24), …"
    assert "street: Hauptstraße (32), Gartenweg (24), Am alten Schlossplatz hinter der Kirche (16)" in said(page)
    widths = json.loads(page.data_editor[0].proto.columns)
    shown = ("Column", "Read as", "Type", "Spread", "Values", "Missing", "Missing %", "Different")
    assert sum(widths[name]["width"] for name in shown) <= 900  # of 1100 pixels that a window of 1280 has for it
