"""The Data page with real processes behind it, without a browser; and the sources of tables that it is made of."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.data import columns as column_table
from shoal.dashboard.parts import wording
from shoal.dashboard.tables import generation, recent, server_files, sources, uploads
from shoal.dashboard.tables.samples import SAMPLES, generated, generated_sample
from shoal.data import generated as generated_data
from shoal.data.generated import Shape, generate
from shoal.errors import ConfigError, ResourceError
from shoal.fitting.histograms import BINS, histogram
from shoal.runs.launch import jobs_directory
from shoal.settings.config import config_from
from shoal.tasks.train import look, train
from support.pages import checked, now_on, open_page, said, settle, widget
from support.tables import shared, written

ROOT = Path(__file__).parents[2]
NASTY = "<img src=x onerror=alert(1)> **b** `c` $x$ :smile:"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SHOAL_DATA", raising=False)
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the server that people may open files from."""
    path = tmp_path / "allowed"
    path.mkdir()
    monkeypatch.setenv("SHOAL_DATA", str(path))
    return path


def upload(text: str | bytes, name: str = "table.csv") -> str:
    """The key of a file that came in."""
    key = uploads.key_of(uploads.keep(io.BytesIO(text.encode() if isinstance(text, str) else text), name))
    assert key is not None
    return key


def view(text: str | bytes, **address: str) -> AppTest:
    return settle(open_page(data=upload(text), **address))


def columns_of(page: AppTest) -> pd.DataFrame:
    return page.data_editor[0].value


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


# ------------------------------------------------------------------ how a file is read


def test_reading_options_read_the_file_again_and_only_they_are_in_the_address() -> None:
    page = view("a;b\n1;2\n3;4\n5;6\n")
    assert list(columns_of(page)["Column"]) == ["a", "b"]
    assert "read" not in page.query_params
    page = settle(checked(widget(page, "selectbox", "First row").set_value("is data").run()))
    assert list(columns_of(page)["Column"]) == ["0", "1"]
    assert read_of(page) == {"header": False}
    page = settle(checked(widget(page, "selectbox", "First row").set_value("found out").run()))
    assert "read" not in page.query_params
    page = settle(checked(widget(page, "selectbox", "First row").set_value("is data").run()))
    page = settle(checked(widget(page, "text_input", "Texts that mean missing").set_value("1, 2").run()))
    assert list(columns_of(page)["Missing"]) == [1, 1]
    page = settle(checked(widget(page, "number_input", "Lines above the table").set_value(2).run()))
    assert "2 rows" in said(page)
    page = settle(checked(page.button(key="as-found").click().run()))
    assert "read" not in page.query_params
    assert list(columns_of(page)["Column"]) == ["a", "b"]
    assert widget(page, "selectbox", "First row").value == "found out"  # the page follows the address


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
    assert "line 202: expected 2 fields, got 1; line 203: expected 2 fields, got 3" in said(page)


def test_many_rows_that_cannot_be_read_are_listed_with_their_lines() -> None:
    page = view("a,y\n" + "1,2\n" * 60 + "3\n" * 10)
    assert "and 7 more" in said(page)
    lines = next(t.value for t in page.dataframe if "Line" in t.value.columns)
    assert list(lines["Line"]) == list(range(62, 72))


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
    assert page.query_params == {}


def test_choices_that_do_not_fit_the_file_can_be_forgotten() -> None:
    page = view("a,b\n1,2\n3,4\n", read='{"numeric":["gone"]}')
    assert "This file could not be read" in said(page)
    page = settle(checked(page.button(key="forget").click().run()))
    assert list(columns_of(page)["Column"]) == ["a", "b"]
    assert "read" not in page.query_params


def test_a_file_without_numbers_says_so_and_opens_the_options() -> None:
    page = view("a,b\nx,y\nz,w\nx,w\n")
    assert "no column of numbers" in said(page)
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
    assert len(columns_of(page)) == 600
    page = checked(page.text_input(key="column-search").set_value("C59").run())
    assert list(columns_of(page)["Column"]) == ["c59", *(f"c59{i}" for i in range(10))]
    page = checked(page.text_input(key="column-search").set_value("nothing").run())
    assert not page.data_editor


def test_text_from_a_file_is_shown_as_it_is() -> None:
    page = view(f'"{NASTY}",y\n"<b>x</b>",1\n"<i>",2\n', target="y")
    assert list(columns_of(page)["Column"]) == [NASTY, "y"]
    assert page.dataframe[-1].value.iloc[0, 0] == "<b>x</b>"
    drawn = " ".join(m.value for m in [*page.markdown, *page.caption])
    assert "img" not in drawn + said(page)


# ------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    "key", ["../secret", "x/y", "file:/etc/passwd", "generated:1x1", "generated:0500x20", "generated:9999999999x2", ""]
)
def test_an_address_that_leads_nowhere_says_so(key: str) -> None:
    page = open_page(data=key)
    assert page.title[0].value == "Nothing here"
    page = now_on(page.button(key="new").click().run())
    assert page.query_params == {}
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


# ------------------------------------------------------------------ uploads and recent tables


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a b.csv", "a_b.csv"),
        ("Verkäufe Köln é.csv", "Verkaufe_Koln_e.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\x.csv.gz", "x.csv.gz"),
        (".hidden", "hidden"),
        ("…", "_"),
        ("", "table.csv"),
        ("x" * 300 + ".csv", "x" * 60 + ".csv"),
        ("-rf.csv", "rf.csv"),
    ],
)
def test_names_of_uploads_are_harmless(given: str, kept: str) -> None:
    assert uploads.safe_name(given) == kept
    path = uploads.keep(io.BytesIO(b"a,b\n1,2\n"), given)
    key = uploads.key_of(path)
    assert key is not None
    assert uploads.find(key) == path


def test_the_same_upload_is_kept_once_and_not_touched() -> None:
    first = uploads.keep(io.BytesIO(b"a\n1\n"), "t.csv")
    when = first.stat().st_mtime_ns
    assert uploads.keep(io.BytesIO(b"a\n1\n"), "t.csv") == first
    assert first.stat().st_mtime_ns == when
    assert [path.name for path in uploads.uploads_directory().iterdir()] == [first.parent.name]


def test_tables_that_were_used_are_found_again_the_latest_first() -> None:
    old, new = upload("a,y\n1,2\n", "old.csv"), upload("a,y\n3,4\n5,6\n", "new.csv")
    os.utime(uploads.uploads_directory() / new, (1, 1))
    settle(open_page(data=new))
    page = open_page()
    assert [b.key for b in page.button if b.key and b.key.startswith("recent:")] == [f"recent:{new}", f"recent:{old}"]
    assert "2 rows × 2 columns · 12 B · just now" in said(page)
    (uploads.uploads_directory() / new).unlink()
    page = open_page()
    assert [b.key for b in page.button if b.key and b.key.startswith("recent:")] == [f"recent:{old}"]
    page = settle(checked(page.button(key=f"recent:{old}").click().run()))
    assert page.query_params == {"data": old}


def test_a_table_that_is_looked_at_again_was_used_just_now(home: Path) -> None:
    recent.remember("x", 1, 2)
    at = recent.recent()[0].at
    recent.remember("x", 1, 2)
    assert recent.recent()[0].at == at  # a page is drawn many times
    (home / "recent.json").write_text(json.dumps([{"key": "x", "at": at - 3600, "rows": 1, "columns": 2}]))
    recent.remember("x", 1, 2)
    assert recent.recent()[0].at >= at


@pytest.mark.parametrize("damage", ["", "{", "[1]", '[{"key": 1}]'])
def test_a_damaged_list_of_recent_tables_is_passed_over(home: Path, damage: str) -> None:
    home.mkdir()
    (home / "recent.json").write_text(damage)
    assert recent.recent() == []
    recent.remember("x", 1, 2)
    assert [seen.key for seen in recent.recent()] == ["x"]


# ------------------------------------------------------------------ the server's folder


def test_files_of_the_servers_folder_are_listed_newest_first_and_opened(folder: Path) -> None:
    (folder / "sub").mkdir()
    for i, name in enumerate(["old.csv", "sub/new.tsv", "x.PARQUET", "notes.md", ".hidden.csv", "run.py"]):
        written(folder, "a\ty\n1\t2\n2\t3\n", name)
        os.utime(folder / name, (1000 + i, 1000 + i))
    found, whole = server_files.listing()
    assert [file.name for file in found] == ["x.PARQUET", "sub/new.tsv", "old.csv"]
    assert whole
    page = open_page()
    page = checked(page.text_input(key="file-search").set_value("NEW").run())
    assert [b.key for b in page.button if b.key and b.key.startswith("server:")] == ["server:file:sub/new.tsv"]
    page = settle(checked(page.button(key="server:file:sub/new.tsv").click().run()))
    assert list(columns_of(page)["Column"]) == ["a", "y"]


def test_a_large_folder_is_looked_at_in_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_files, "MOST", 10)
    for i in range(15):
        written(folder, "a\n1\n", f"t{i}.csv")
    found, whole = server_files.listing()
    assert (len(found), whole) == (10, False)


@pytest.mark.parametrize(
    "name",
    [
        "../secret.csv", "sub/../../secret.csv", "link.csv", "linked/secret.csv", "round.csv", "sub", "sub/", "", ".",
        ".hidden.csv", ".git/x.csv", "pipe.csv", "notes.md", "zero\0.csv", "//etc/passwd", "gone.csv", "x" * 5000,
    ],
)  # fmt: skip
def test_nothing_outside_the_folder_can_be_opened(folder: Path, tmp_path: Path, name: str) -> None:
    secret = written(tmp_path, "a,y\n1,2\n", "secret.csv")
    for place in ("sub", ".git"):
        (folder / place).mkdir()
    for inside in (".hidden.csv", ".git/x.csv", "notes.md"):
        written(folder, "a,y\n1,2\n", inside)
    (folder / "link.csv").symlink_to(secret)
    (folder / "linked").symlink_to(tmp_path)
    (folder / "round.csv").symlink_to(folder / "round.csv")
    os.mkfifo(folder / "pipe.csv")
    assert server_files.find(f"file:{name}") is None
    assert server_files.find(f"file:{tmp_path / name}") is None
    assert sources.find_table(f"file:{name}") is None
    assert server_files.listing() == ([], True)


def test_a_link_within_the_folder_is_followed(folder: Path) -> None:
    real = written(folder, "a,y\n1,2\n", "real.csv")
    (folder / "latest.csv").symlink_to(real)
    assert server_files.find("file:latest.csv") == real
    assert {file.name for file in server_files.listing()[0]} == {"real.csv", "latest.csv"}


def test_without_the_folder_no_file_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_DATA", str(tmp_path / "gone"))
    assert server_files.find("file:a.csv") is None
    assert server_files.key_of(written(tmp_path, "a\n1\n")) is None
    assert "which is not a folder here" in said(open_page())


# ------------------------------------------------------------------ made-up tables


def test_a_generated_table_is_made_on_request_with_its_true_coefficients() -> None:
    page = open_page()
    widget(page, "number_input", "Rows").set_value(5_000)
    widget(page, "number_input", "Columns").set_value(6)
    page = settle(checked(page.run()))
    page = settle(settle(checked(page.button(key="generate").click().run())))
    assert page.query_params == {"data": "generated:5000x6"}
    assert "5,000 rows · 6 columns" in said(page)
    assert widget(page, "selectbox", "Column to predict").value == "y"
    truth = next(t.value for t in page.dataframe if "True coefficient" in t.value.columns)
    assert dict(zip(truth["Column"], truth["True coefficient"], strict=True)) == Shape(5_000, 6).coefficients
    assert generation._job_of(Shape(5_000, 6)) is not None


def test_a_fit_finds_the_true_coefficients() -> None:
    shape = Shape(20_000, 9)
    said_of_it = generate(shape, lambda stage, part: None)
    found = train(config_from({"file": str(shape.path), "target": "y", "engine": "inline"})).report
    bound = 5 * generated_data.NOISE / np.sqrt(shape.rows)
    assert set(found["coefficients"]) == set(said_of_it["coefficients"])
    for name, true in said_of_it["coefficients"].items():
        assert found["coefficients"][name] == pytest.approx(true, abs=bound)
    assert found["intercept"] == pytest.approx(generated_data.INTERCEPT, abs=bound)
    assert found["train"]["rmse"] == pytest.approx(generated_data.NOISE, rel=0.03)
    assert [name for name, b in said_of_it["coefficients"].items() if b == 0] == ["x4", "x8"]


def test_the_same_shape_is_the_same_file() -> None:
    steps: list[float] = []
    shape = Shape(700_000, 4)
    generate(shape, lambda stage, part: steps.append(part))
    first = shape.path.read_bytes()
    shape.path.unlink()
    generate(shape, lambda stage, part: None)
    assert shape.path.read_bytes() == first
    assert len(steps) > 1  # told as it goes on
    assert steps == sorted(steps)
    assert steps[-1] == 1.0
    assert abs(len(first) / shape.bytes - 1) < 0.25  # what the page says of its size
    assert [path.name for path in shape.path.parent.iterdir()] == [shape.path.name]


def test_no_table_is_made_where_the_disk_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated_data, "SPARE", 1 << 60)
    with pytest.raises(ResourceError, match="MB of free disk"):
        generate(Shape(1_000, 3), lambda stage, part: None)
    page = open_page()
    assert page.button(key="generate").disabled
    assert "of free disk" in said(page)


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (1_000, 1), (10**9, 2), (50_000_000, 2_000)])
def test_a_shape_out_of_reach_is_refused(rows: int, columns: int) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        Shape(rows, columns)


def test_an_address_alone_makes_nothing(home: Path) -> None:
    page = open_page(data="generated:400x3")
    assert "not here yet" in said(page)
    assert not (home / "jobs").exists()
    page = settle(settle(checked(page.button(key="generate").click().run())))
    assert "400 rows · 3 columns" in said(page)
    Shape(400, 3).path.unlink()
    page = settle(settle(checked(open_page(data="generated:400x3").button(key="generate").click().run())))
    assert "400 rows · 3 columns" in said(page)


def test_one_key_a_made_up_table() -> None:
    sample = generated("generated:500x3")
    assert sample is not None
    assert sample.path == Shape(500, 3).path
    assert [generated(key) for key in ("generated:0500x3", "generated:500", "generated-500x3", "made:500x3")] == [
        None
    ] * 4


# ------------------------------------------------------------------ histograms


@pytest.mark.parametrize("key", list(SAMPLES))
def test_histograms_and_counts_are_those_of_numpy(key: str) -> None:
    path = SAMPLES[key].ensure()
    found = look(config_from({"file": str(path), "engine": "inline"}))
    data = pd.read_csv(path)
    for column in found["columns"]:
        values = data[column["name"]].dropna()
        if column["type"] == "numeric":
            assert column["histogram"] == np.histogram(values, BINS)[0].tolist()
        elif column["type"] == "categorical":
            assert dict(column["frequent"]) == dict(Counter(values))
    assert sum("histogram" in c for c in found["columns"]) > 2


def test_histograms_add_up_over_blocks_and_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.data_pipeline.BLOCK_BYTES", 1 << 14, raising=True)
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.normal(size=20_000).round(4), "t": rng.choice(list("abcdefghijklmn"), 20_000)})
    data.loc[::7, "x"] = np.nan
    data.to_csv(tmp_path / "t.csv", index=False)
    for engine in ("inline", "processes"):
        monkeypatch.setenv("SHOAL_HOME", str(tmp_path / engine))
        x, t = look(config_from({"file": str(tmp_path / "t.csv"), "engine": engine, "workers": 2}))["columns"]
        assert x["histogram"] == np.histogram(data["x"].dropna(), BINS)[0].tolist()
        wanted = sorted(Counter(data["t"]).items(), key=lambda pair: (-pair[1], pair[0]))[:10]
        assert [tuple(pair) for pair in t["frequent"]] == wanted


@pytest.mark.parametrize(
    ("values", "counts"),
    [([3.0, 3.0], [2]), ([], [0]), ([-1.7e308, 0.0, 1.7e308], [1, *[0] * 9, 1, *[0] * 8, 1]), ([0.0, np.inf], [])],
)
def test_histograms_of_odd_columns(values: list[float], counts: list[int]) -> None:
    array = np.array(values)
    ends = (float(array.min()), float(array.max())) if values else (None, None)
    assert histogram(array, *ends).tolist() == counts


def test_a_profile_of_an_earlier_format_is_made_anew(tmp_path: Path, home: Path) -> None:
    path = written(tmp_path, "x,t\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(30)))
    config = config_from({"file": str(path), "engine": "inline"})
    found = look(config)
    saved = next(home.glob("cache/*/profile.json"))
    kept = saved.read_text()
    for damage in ('{"x": [30, true, true]}', "{", "[]"):
        saved.write_text(damage)
        assert look(config) == found
        assert saved.read_text() == kept
    changed = json.loads(kept)
    changed["columns"]["x"]["distinct"] = 77
    saved.write_text(json.dumps(changed))
    assert look(config)["columns"][0]["distinct"] == 77  # one of this format is used


# ------------------------------------------------------------------ what must not happen


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (48_219, "48 kB"), (9_960_000, "10 MB"), (999_600, "1.0 MB"),
     (64e9, "64 GB"), (2.5e12, "2.5 TB")],
)  # fmt: skip
def test_sizes_for_the_eye(count: float, text: str) -> None:
    assert wording.file_size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "just now"), (59, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (86_400, "1 day ago")],
)
def test_times_for_the_eye(seconds: float, text: str) -> None:
    assert wording.ago(seconds) == text
