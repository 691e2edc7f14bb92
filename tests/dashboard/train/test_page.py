"""The Train page with real runs behind it, and its states without one."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from shoal.dashboard.forms import cluster
from shoal.dashboard.tables import uploads
from shoal.home import jobs_directory
from shoal.runs import slots
from shoal.runs.folder import Run
from support.dashboard.train_page import address, example, labels, start
from support.pages import checked, open_page, said, settle, uploaded, widget
from support.runs import ended

# ------------------------------------------------------------------ real runs


def test_a_sample_is_fitted_and_found_again_by_its_address() -> None:
    page = settle(open_page("train", data="penguins"))
    assert widget(page, "selectbox", "Column to predict").value == "body_mass_g"
    run = start(page)
    assert run.state == "finished"
    assert run.config["test_every"] == 5  # enough rows to keep some for testing
    assert run.result is not None
    assert run.result["target"] == "body_mass_g"
    assert address(open_page("train", run=run.id), "run") == run.id


def test_an_upload_is_fitted_as_numpy_fits_it() -> None:
    key, X, y = example()
    page = settle(open_page("train", data=key))
    assert page.button(key="start").disabled  # nothing to predict yet
    assert "Choose the column to predict first." in said(page)
    assert widget(page, "button_group", "Rows kept for testing").value == "None"  # too few rows to give any away
    page = checked(widget(page, "selectbox", "Column to predict").set_value("y").run())
    assert address(page, "target") == "y"  # a reload keeps it
    result = start(page).result
    assert result is not None
    best = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
    found = [result["intercept"], result["coefficients"]["a"], result["coefficients"]["b"]]
    np.testing.assert_allclose(found, best, rtol=1e-9)


def test_alpha_is_asked_for_only_where_it_means_something_and_kept_for_the_next_fit() -> None:
    page = settle(open_page("train", data="penguins"))
    assert not any("alpha" in label for label in labels(page))
    page = checked(widget(page, "selectbox", "Model").set_value("elasticnet").run())
    checked(widget(page, "number_input", "Penalty strength (alpha)").set_value(7.5).run())
    assert widget(page, "number_input", "Mixing ratio (l1_ratio)").value == 0.5
    run = start(page)
    assert run.config["alpha"] == 7.5
    page = settle(open_page("train", data="penguins", like=run.id))
    assert widget(page, "selectbox", "Model").value == "elasticnet"
    assert widget(page, "number_input", "Penalty strength (alpha)").value == 7.5


def test_an_empty_alpha_is_chosen_by_cross_validation_and_said_beside_the_result() -> None:
    page = settle(open_page("train", data="penguins"))
    page = checked(widget(page, "selectbox", "Model").set_value("ridge").run())
    field = widget(page, "number_input", "Penalty strength (alpha)")
    assert (field.value, field.placeholder) == (None, "chosen by cross-validation")
    run = start(page)
    assert run.config["alpha"] is None
    assert run.result is not None
    assert run.result["cross_validation"]["best"] == run.result["alpha"] > 0
    text = said(open_page("train", run=run.id))
    assert "alpha by cross-validation" in text
    assert "the lowest error of all alphas (100 tried)" in text
    page = settle(open_page("train", data="penguins", like=run.id))
    assert widget(page, "number_input", "Penalty strength (alpha)").value is None


def test_a_gradient_run_started_from_the_form_comes_near_the_exact_optimum() -> None:
    key, X, y = example(rows=400)
    page = settle(open_page("train", data=key, target="y"))
    assert "Synchronisation" not in labels(page)
    page = checked(widget(page, "radio", "How to solve it").set_value("gradient").run())
    assert "Maximum staleness (updates)" not in labels(page)
    page = checked(widget(page, "button_group", "Synchronisation").set_value("ssp").run())
    checked(widget(page, "number_input", "Maximum staleness (updates)").set_value(2).run())
    checked(widget(page, "number_input", "Worker processes").set_value(2).run())
    page = checked(widget(page, "button_group", "Rows kept for testing").set_value("None").run())
    assert widget(page, "button", "Start training").key == "start"
    run = start(page)
    assert (run.state, run.config["mode"], run.config["staleness"], run.config["workers"]) == ("finished", "ssp", 2, 2)
    assert run.result is not None
    best = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
    found = [run.result["intercept"], run.result["coefficients"]["a"], run.result["coefficients"]["b"]]
    np.testing.assert_allclose(found, best, rtol=1e-3)
    again = settle(open_page("train", data=key, like=run.id))  # gradient knobs too, and the column to predict
    assert widget(again, "number_input", "Maximum staleness (updates)").value == 2
    assert widget(again, "selectbox", "Column to predict").value == "y"


# ------------------------------------------------------------------ states of the page


def test_without_a_table_the_page_leads_to_one() -> None:
    page = open_page("train")
    assert "No table yet" in [header.value for header in page.header]
    key, _, _ = example()
    page = open_page("train")
    assert "table.csv" in said(page)
    assert [button.key for button in page.button] == [f"use:{key}"]


def test_an_address_of_a_table_that_is_gone_says_so() -> None:
    assert open_page("train", data="0" * 24 + "/gone.csv").title[0].value == "Nothing here"


def test_a_file_that_is_no_table_gets_a_plain_sentence_and_the_way_to_mend_it() -> None:
    path = uploaded(b"\n\n", "empty.csv")
    page = settle(open_page("train", data=uploads.key_of(path) or ""))
    assert "This file could not be read" in said(page)
    assert not page.get("radio")


def test_what_was_filled_in_stays_when_one_looks_at_the_data_and_comes_back() -> None:
    page = settle(open_page("train", data="penguins"))
    checked(widget(page, "selectbox", "Model").set_value("ridge").run())
    checked(widget(page, "number_input", "Penalty strength (alpha)").set_value(3.25).run())
    checked(widget(page, "multiselect", "Columns to use").set_value(["bill_length_mm", "year"]).run())
    for name in ("data", "train"):  # by the navigation, which leaves the address behind
        page._page_hash = calc_hash(name)
        page.query_params.clear()
        checked(page.run())
    page = settle(page)
    assert widget(page, "number_input", "Penalty strength (alpha)").value == 3.25
    assert widget(page, "multiselect", "Columns to use").value == ["bill_length_mm", "year"]
    assert address(page, "data") == "penguins"


def test_another_target_is_taken_out_of_the_columns_to_use() -> None:
    page = settle(open_page("train", data="penguins"))
    checked(widget(page, "multiselect", "Columns to use").set_value(["bill_length_mm", "year"]).run())
    page = checked(widget(page, "selectbox", "Column to predict").set_value("year").run())
    assert widget(page, "multiselect", "Columns to use").value == ["bill_length_mm"]
    assert not page.button(key="start").disabled


@pytest.fixture
def taken_slots(home: Path) -> Iterator[None]:
    folder = home / "queue"
    folder.mkdir(parents=True)
    files = [(folder / f"slot-{number}").open("a") for number in range(slots.slots())]
    for file in files:
        fcntl.flock(file, fcntl.LOCK_EX)
    yield
    for file in files:
        file.close()


@pytest.mark.usefixtures("taken_slots")
def test_a_run_that_will_have_to_wait_is_announced_as_such() -> None:
    page = settle(open_page("train", data="penguins"))
    assert "queue" not in said(page)  # an exact fit does not
    page = checked(widget(page, "radio", "How to solve it").set_value("gradient").run())
    assert "It will wait in the queue" in said(page)
    assert not page.button(key="start").disabled


# ------------------------------------------------------------------ the cluster


def on_a_cluster() -> AppTest:
    page = settle(open_page("train", data="penguins"))
    return checked(widget(page, "selectbox", "Where the work is done").set_value("ray").run())


def test_without_an_address_a_small_cluster_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_CLUSTER", raising=False)
    page = on_a_cluster()
    assert "A small cluster of this machine is started for the run" in said(page)
    assert not page.button(key="start").disabled


def test_without_ray_it_says_what_to_install_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    page = on_a_cluster()
    assert "it is not installed here. Install it with" in said(page)
    assert page.button(key="start").disabled


def test_a_cluster_that_is_gone_is_said_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_CLUSTER", "127.0.0.1:1")
    page = on_a_cluster()
    (job,) = map(Run, (jobs_directory() / "nodes").iterdir())
    assert ended(job) == "failed"
    page = checked(page.run())
    assert "Nobody answers at 127.0.0.1:1" in said(page)
    assert page.button(key="start").disabled
    page = checked(widget(page, "selectbox", "Where the work is done").set_value("inline").run())
    assert not page.button(key="start").disabled


@pytest.mark.parametrize(
    ("workers", "cores", "free", "kind", "words"),
    [
        (0, 0, 0, "warning", "No node offers a core"),
        (2, 4, 0, "warning", "No core is free now"),
        (5, 4, 3, "info", "3 of the 5 workers can begin at once"),
        (0, 4, 3, "success", "3 workers can begin at once"),
        (1, 4, 3, "success", "1 worker can begin at once"),
    ],
)
def test_how_many_workers_find_a_core(workers: int, cores: int, free: int, kind: str, words: str) -> None:
    found, told = cluster.places_for(workers, cores, free)
    assert found == kind
    assert words in told


def test_a_plan_for_more_machines_is_made_when_it_is_asked_for() -> None:
    page = settle(open_page("train", data="penguins"))
    assert not (jobs_directory() / "plan").exists()
    page = checked(next(button for button in page.button if button.label == "Plan it").click().run())
    (job,) = map(Run, (jobs_directory() / "plan").iterdir())
    assert ended(job) == "finished"
    page = checked(page.run())
    assert "Predicted, not measured" in said(page)
    (figure,) = page.get("plotly_chart")
    assert "exact from" in figure.proto.alt
