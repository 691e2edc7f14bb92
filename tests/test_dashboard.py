"""The page's states with real runs behind it, without a browser; and the pure parts it is made of."""

from __future__ import annotations

import fcntl
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from config import RunConfig
from dashboard import charts, results, uploads, wording
from dashboard.literal import harmless
from dashboard.samples import SAMPLES
from run_store import Run, find_run, inspections_directory, list_runs, runs_directory

ROOT = Path(__file__).parent.parent
HOSTILE = "=cmd|' /C calc'!A0"
NASTY_NAME = "<img src=x onerror=alert(1)> **b** `c` $x$ :smile:"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def open_page(**address: str) -> AppTest:
    page = AppTest.from_file(str(ROOT / "main.py"), default_timeout=30)
    page.query_params.update(address)
    return checked(page.run())


def checked(page: AppTest) -> AppTest:
    assert not page.exception, page.exception
    return page


def settle(page: AppTest) -> AppTest:
    """Wait for the processes behind the page, and draw it again."""
    deadline = time.monotonic() + 30
    while any(run.is_active for run in [*list_runs(), *map(Run, inspections_directory().glob("*"))]):
        assert time.monotonic() < deadline, "a run did not end"
        time.sleep(0.05)
    return checked(page.run())


def upload(text: str, name: str = "table.csv") -> AppTest:
    page = open_page()
    page.file_uploader[0].set_value((name, text.encode(), "text/csv"))
    return settle(checked(page.run()))


def said(page: AppTest) -> str:
    """All the text in our own boxes and lines."""
    return " ".join(element.proto.body for element in page.get("html"))


def widget(page: AppTest, kind: str, label: str) -> Any:
    return next(w for w in page.get(kind) if w.label == label)


def press_fit(page: AppTest) -> AppTest:
    return settle(checked(widget(page, "button", "Fit").click().run()))


def example_csv(rows: int = 40) -> tuple[str, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 2)).round(3)
    y = (1.5 + 2 * X[:, 0] - 3 * X[:, 1] + 0.1 * rng.normal(size=rows)).round(3)
    lines = ["a,b,y", *(f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True))]
    return "\n".join(lines) + "\n", X, y


# ------------------------------------------------------------------ views


def test_nothing_chosen_shows_upload_and_samples_with_their_licences() -> None:
    page = open_page()
    assert len(page.file_uploader) == 1
    captions = " ".join(caption.value for caption in page.caption)
    for sample in SAMPLES.values():
        assert sample.licence in captions


def test_a_sample_is_read_fitted_and_found_again_by_its_address() -> None:
    page = open_page()
    page = settle(checked(page.button(key="sample:penguins").click().run()))
    assert page.query_params == {"data": "penguins"}
    assert list(page.dataframe[0].value["Column"])[:2] == ["species", "island"]
    assert widget(page, "selectbox", "Column to predict").value == "body_mass_g"
    page = press_fit(page)
    assert [m.label for m in page.metric][:2] == ["R², test rows", "R², training rows"]
    again = open_page(**page.query_params)
    assert [m.value for m in again.metric] == [m.value for m in page.metric]


def test_an_upload_is_fitted_as_numpy_fits_it() -> None:
    text, X, y = example_csv()
    page = upload(text, name="../../my table (1).csv")
    assert (uploads.uploads_directory() / page.query_params["data"]).name == "my_table_1_.csv"
    assert widget(page, "button", "Fit").disabled  # nothing to predict yet
    assert widget(page, "button_group", "Rows kept for testing").value == "None"  # too few rows to give any away
    page = checked(widget(page, "selectbox", "Column to predict").set_value("y").run())
    page = press_fit(page)
    table = page.dataframe[-1].value.set_index("Column")["Coefficient"]
    best = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
    np.testing.assert_allclose(table[["(intercept)", "a", "b"]], best, rtol=1e-9)
    assert "exact optimum" in said(page)


def test_alpha_is_asked_for_only_where_it_means_something_and_kept_for_the_next_fit() -> None:
    page = settle(open_page(data="penguins"))
    assert not any("alpha" in w.label for w in page.number_input)
    page = checked(widget(page, "button_group", "Model").set_value("elasticnet").run())
    checked(widget(page, "number_input", "Penalty strength (alpha)").set_value(7.5).run())
    assert widget(page, "slider", "Share of lasso (l1_ratio)").value == 0.5
    page = press_fit(page)
    assert "alpha 7.5" in said(page)
    page = settle(checked(page.button(key="change").click().run()))
    assert widget(page, "number_input", "Penalty strength (alpha)").value == 7.5


def test_reading_options_read_the_file_again() -> None:
    page = upload("a;b\n1;2\n3;4\n5;6\n")
    assert list(page.dataframe[0].value["Column"]) == ["a", "b"]
    page = settle(checked(widget(page, "selectbox", "First row").set_value("is data").run()))
    assert list(page.dataframe[0].value["Column"]) == ["0", "1"]
    page = settle(checked(widget(page, "multiselect", "Read as names").set_value(["0"]).run()))
    assert list(page.dataframe[0].value["Type"]) == ["names", "names"]


def test_rows_that_cannot_be_read_are_located_and_a_fit_says_why_it_stopped() -> None:
    page = upload("a,y\n1,2\n3\n4,5,6\n7,8\n")
    assert "2 rows could not be read" in said(page)
    assert "line 3: expected 2 fields, got 1" in said(page)
    page = checked(widget(page, "selectbox", "Column to predict").set_value("y").run())
    page = press_fit(page)
    assert "This fit did not finish" in said(page)
    assert "--on-bad-rows" not in said(page)
    assert "Traceback" not in said(page)
    page = settle(checked(page.button(key="change").click().run()))
    page = settle(checked(widget(page, "selectbox", "Rows that cannot be read").set_value("skip").run()))
    page = press_fit(page)
    assert "2 rows left out: could not be read" in said(page)


@pytest.mark.parametrize("text", ["", "\n\n", "PK\x03\x04 not a table"])
def test_a_file_that_is_no_table_gets_a_plain_sentence(text: str) -> None:
    page = upload(text)
    assert "This file could not be read" in said(page)
    assert not page.dataframe


def test_a_file_without_numbers_says_so() -> None:
    assert "no column of numbers" in said(upload("a,b\nx,y\nz,w\nx,w\n"))


@pytest.mark.parametrize("address", [{"run": "../../etc"}, {"run": "gone"}, {"data": "../secret"}, {"data": "x/y"}])
def test_an_address_that_leads_nowhere_says_so(address: dict[str, str]) -> None:
    page = open_page(**address)
    assert page.title[0].value == "Nothing here"
    checked(page.button(key="new").click().run())
    assert page.query_params == {}


def unfinished_run(**files: Any) -> Run:
    directory = runs_directory() / "20260101-000000-abcdef"
    directory.mkdir(parents=True)
    config = RunConfig(file="/nowhere/table.csv", target=NASTY_NAME)
    for name, content in {"config": config.as_dict(), **files}.items():
        (directory / f"{name}.json").write_text(json.dumps(content))
    (directory / "started").touch()
    return Run(directory)


def test_a_run_that_goes_on_shows_its_stage_and_no_button_to_start_it_twice() -> None:
    run = unfinished_run(progress={"stage": "reading again: <b>x</b> holds text", "fraction": 0.4})
    with (run.directory / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        page = open_page(run=run.id)
    assert "Fitting: reading again: &lt;b&gt;x&lt;/b&gt;" in said(page)
    assert [button.label for button in page.button] == ["New data"]


def test_a_run_whose_process_was_killed_says_so() -> None:
    run = unfinished_run()
    (run.directory / "lock").touch()
    assert "its process was stopped" in said(open_page(run=run.id))


def test_text_from_a_file_is_shown_as_it_is() -> None:
    page = open_page(run=unfinished_run(error={"message": f"Bad column {NASTY_NAME}"}).id)
    assert "&lt;img src=x" in said(page)
    assert "<img" not in said(page)
    assert NASTY_NAME not in " ".join(m.value for m in page.markdown)


# ------------------------------------------------------------------ what must not happen


def test_the_dashboard_imports_nothing_that_works_on_data_or_starts_workers() -> None:
    code = (
        "import sys, dashboard.fit_page; "
        "print(sorted({'runs', 'coordinator', 'worker', 'engines', 'data_pipeline', 'fitting'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a b.csv", "a_b.csv"),
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


@pytest.mark.parametrize("cell", [HOSTILE, "+1", "-1", "@x", "\tx"])
def test_no_cell_of_a_download_is_a_formula(cell: str) -> None:
    result = {
        "coefficients": {cell: 1.0},
        "coefficients_standardized": {cell: 2.0},
        "intercept": -1.0,
        "inference": None,
    }
    assert harmless(cell) == f"'{cell}"
    assert f"'{cell}" in results.as_csv(results.coefficient_table(result))


# ------------------------------------------------------------------ charts and words


def chart_result(**more: Any) -> dict[str, Any]:
    return {
        "target": "y",
        "coefficients": {"a": 2.0, "b": -30.0, "c": 0.0},
        "coefficients_standardized": {"a": 8.0, "b": -3.0, "c": 0.0},
        "inference": None,
        **more,
    }


def test_bars_are_sorted_by_size_and_leave_out_zeros() -> None:
    found = charts.coefficients_of(chart_result(), "sd")
    assert [c.name for c in charts.shown(found)] == ["a", "b"]
    assert [c.name for c in charts.shown(charts.coefficients_of(chart_result(), "unit"))] == ["b", "a"]
    figure = charts.coefficient_chart(found, "y")
    assert list(figure.data[0].x) == [-3.0, 8.0]  # Plotly draws from the bottom


def test_intervals_follow_the_unit() -> None:
    ends = {"low": 1.0, "high": 3.0}
    result = chart_result(inference={"coefficients": {"a": ends, "b": {"low": -40.0, "high": -20.0}, "c": {}}})
    a = next(c for c in charts.coefficients_of(result, "sd") if c.name == "a")
    assert (a.low, a.high) == (4.0, 12.0)
    figure = charts.coefficient_chart([a], "y")
    assert list(figure.data[0].error_x.array) == [4.0]


def test_names_are_whole_and_not_markup() -> None:
    name = "<b>a very long name of a column</b> that needs more than one line"
    figure = charts.coefficient_chart([charts.Coefficient(name, 1.0)], "<i>y</i>")
    label = figure.layout.yaxis.ticktext[0]
    assert label.replace("<br>", "").replace("&lt;", "<").replace("&gt;", ">") == name
    assert "<i>" not in figure.layout.xaxis.title.text
    assert name in charts.describe([charts.Coefficient(name, 1.0)], "y")


def test_every_knob_of_the_page_has_a_label_and_a_help_text() -> None:
    for knob in wording.LABELS:
        assert wording.help_for(knob).endswith(".")
    on_page = set(wording.LABELS) | {"file", "out"}
    fields = RunConfig.__dataclass_fields__
    assert on_page == {name for name, knob in fields.items() if not knob.metadata.get("training")} - {"solver"}


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.88531, "0.8853"), (12345.6, "12,346"), (3e15, "3.000e+15"), (-0.5, "-0.5")]
)
def test_numbers_for_the_eye(value: float | None, text: str) -> None:
    assert wording.number(value) == text


def test_small_numbers_are_written_as_people_do() -> None:
    assert wording.power_of_ten(3.4e-17).replace("\N{NO-BREAK SPACE}", " ") == "3 × 10⁻¹⁷"


def test_runs_are_listed_newest_first_and_found_by_name_only() -> None:
    for name in ("20260101-000000-aaaaaa", "20260102-000000-aaaaaa"):
        (runs_directory() / name).mkdir(parents=True)
        (runs_directory() / name / "config.json").write_text("{}")
    assert [run.id[:8] for run in list_runs()] == ["20260102", "20260101"]
    assert find_run("../runs/20260101-000000-aaaaaa") == list_runs()[1]
    assert find_run("") is None
