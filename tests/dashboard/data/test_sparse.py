"""Files of sparse rows on the pages: what is in them, a model from there, the curve, and what has no way said before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from streamlit.testing.v1 import AppTest

from shoal.dashboard.data.sparse import HAS_NO_WAY
from shoal.dashboard.tables import uploads
from shoal.runs.folder import find_run
from shoal.storage import open_storage
from support.dashboard.train_page import address
from support.pages import checked, now_on, open_page, said, settle, uploaded, widget
from support.runs import ended
from support.tables import shoal


@pytest.fixture
def key(tmp_path: Path) -> str:
    """150 rows x 1,200 columns: more than one problem of all columns."""
    random = np.random.default_rng(3)
    X = sp.random_array((150, 1200), density=0.02, format="csr", rng=random, data_sampler=random.standard_normal)
    y = X[:, :30] @ np.full(30, 4.0) + 0.1 * random.standard_normal(150) + 2
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=False)
    return uploads.key_of(uploaded((tmp_path / "rows.svm").read_bytes(), "words.svm")) or ""


def columns_of(key: str) -> int:
    rows = (uploads.find(key) or Path()).read_text("utf-8").splitlines()
    return len({pair.partition(":")[0] for row in rows for pair in row.split()[1:]})


def text(page: AppTest) -> str:
    return said(page).replace("&#x27;", "'")


def metrics(page: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in page.metric}


def test_the_data_page_says_what_is_there_and_leads_to_a_model(key: str) -> None:
    page = settle(open_page("data", data=key))
    shown = metrics(page)
    assert shown["Rows"] == "150"
    assert shown["Values"] == "3,600"
    assert int(shown["Columns with a value"].replace(",", "")) == columns_of(key)
    assert HAS_NO_WAY in text(page)
    assert "'label' has numbers" in text(page)
    page = settle(now_on(page.button(key="train").click().run()))
    widget(page, "selectbox", "Model").set_value("ridge")
    page = checked(page.run())
    page = settle(checked(page.button(key="start").click().run()))
    run = find_run(address(page, "run"))
    assert run is not None
    assert run.result is not None, run.error
    assert run.result["model"] == "ridge"
    assert run.result["cross_validation"]["chosen"] == "best"


def test_the_tune_page_has_the_curve_of_the_command_line(key: str) -> None:
    page = settle(open_page("tune", data=key))
    told = shoal("tune", str(uploads.find(key)), "--test-every", "5", "--json").json
    assert told["fold_by"] == "hash"
    assert metrics(page)["Best alpha"] == f"{told['best']:.6g}"
    page = settle(now_on(page.button(key="tune:train").click().run()))
    run = find_run(address(page, "run"))
    assert run is not None
    assert run.result is not None, run.error
    kept = run.result["cross_validation"]
    assert kept["best"] == run.result["alpha"] == pytest.approx(told["best"], rel=1e-12)
    assert kept["mse"] == pytest.approx(min(told["cv_mean"]), rel=1e-12)


def test_what_sparse_rows_have_no_way_for_is_said_and_never_a_failed_run(key: str) -> None:
    page = settle(open_page("search", data=key))
    assert "This file has sparse rows. Searches are of tables of cells" in text(page)
    done = shoal("train", str(uploads.find(key)), "--solver", "gradient", "--model", "logistic")
    assert "Gradient steps on sparse rows are for linear models" in done.err


def test_the_train_page_fits_a_yes_no_model_of_two_labels(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    X = sp.random_array((120, 300), density=0.05, format="csr", rng=random, data_sampler=random.standard_normal)
    dump_svmlight_file(X, np.where(X[:, :40] @ np.ones(40) > 0, 1, -1), str(tmp_path / "two.svm"), zero_based=False)
    own = uploads.key_of(uploaded((tmp_path / "two.svm").read_bytes(), "two.svm")) or ""
    page = settle(open_page("train", data=own))
    widget(page, "selectbox", "Model").set_value("logistic")
    page = checked(page.run())
    assert "Alpha is 1 unless you name one" in text(page)
    page = settle(checked(page.button(key="start").click().run()))
    run = find_run(address(page, "run"))
    assert run is not None
    ended(run)
    assert run.result is not None
    assert run.result["outcome"]["classes"] == ["-1", "1"]
    assert run.result["outcome"]["shrink"] == "ridge"


def of(page: AppTest, knob: str) -> Any:
    return next(one for one in page.number_input if str(one.key).endswith(f":{knob}"))


def test_steps_are_started_from_the_form_and_push_fewer_bytes(key: str) -> None:
    page = settle(open_page("train", data=key))
    of(page, "alpha").set_value(0.5)
    page.radio[0].set_value("gradient")
    page = checked(page.run())
    of(page, "batch_size").set_value(4)
    page = checked(page.run())
    page = settle(checked(page.button(key="start").click().run()))
    run = find_run(address(page, "run"))
    assert run is not None
    assert ended(run) == "finished", run.error
    assert run.result is not None
    assert run.result["distance_to_optimum"] < 1e-6
    with open_storage(f"sqlite://{run.directory / 'metrics.sqlite'}") as storage:
        steps = [record for record in storage.rounds(10**6) if record.phase == "steps"]
    assert 0 < sum(record.bytes_sent for record in steps) < 0.5 * sum(record.bytes_raw for record in steps)
