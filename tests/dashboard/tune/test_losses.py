"""The Tune page for yes or no and for counts: the curve of shoal tune, its points by slider, the model that is trained."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.tables import uploads
from shoal.dashboard.tune.losses import _error_chart
from shoal.runs.folder import find_run
from support.dashboard.train_page import address
from support.pages import checked, now_on, open_page, said, settle, uploaded, widget
from support.tables import shoal


def text(page: AppTest) -> str:
    return said(page).replace("&#x27;", "'")


@pytest.fixture
def frame() -> pd.DataFrame:
    rng, n = np.random.default_rng(5), 160
    found = pd.DataFrame(rng.normal(size=(n, 4)).round(4), columns=list("abcd"))
    score = 1.5 * found["a"] - found["b"]
    found["bought"] = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    found["count"] = rng.poisson(np.exp(0.5 * score))
    return found


def test_the_curve_of_yes_and_no_its_points_and_the_model(frame: pd.DataFrame) -> None:
    csv = frame.drop(columns="count").to_csv(index=False).encode()
    key = uploads.key_of(uploaded(csv, "bought.csv")) or ""
    page = settle(open_page("data", data=key))
    page = settle(checked(widget(page, "selectbox", "Column to predict").set_value("bought").run()))
    page = settle(now_on(page.button(key="tune").click().run()))
    metrics = {metric.label: metric.value for metric in page.metric}
    assert "Log loss, cross-validated" in metrics
    assert "10 folds by class, 128 training rows, 100 penalties in" in text(page)
    slider = page.get("select_slider")[0]
    best = slider.value
    page = checked(page.button(key="tune:one_se").click().run())
    assert page.get("select_slider")[0].value <= best  # the stronger penalty comes first
    after = {metric.label: metric.value for metric in page.metric}
    assert after["1-SE alpha"] == metrics["1-SE alpha"]
    page = settle(now_on(page.button(key="tune:train").click().run()))
    run = find_run(address(page, "run"))
    assert run is not None
    assert run.result is not None
    kept = run.result["cross_validation"]
    assert kept["chosen"] in ("one_se", "best")
    assert run.result["alpha"] == kept["one_se"]
    told = shoal(
        "tune", str(uploads.find(key)), "--target", "bought", "--model", "logistic", "--test-every", "5", "--json"
    ).json  # fmt: skip
    assert kept["one_se"] == pytest.approx(told["one_se"], rel=1e-9)
    assert kept["deviance"] == pytest.approx(told["cv_mean"][told["alphas"].index(told["one_se"])], rel=1e-9)


def test_counts_are_tuned_where_poisson_is_chosen(frame: pd.DataFrame) -> None:
    key = uploads.key_of(uploaded(frame.to_csv(index=False).encode(), "counts.csv")) or ""
    page = settle(open_page("tune", data=key, target="count", study=json.dumps({"folds": 4})))
    page = settle(checked(widget(page, "selectbox", "Kind of model").set_value("poisson").run()))
    assert address(page, "loss") == "poisson"
    assert "Mean deviance, cross-validated" in {metric.label for metric in page.metric}
    page = settle(checked(widget(page, "selectbox", "Penalty").set_value("ridge").run()))
    assert {metric.label: metric.value for metric in page.metric}["Weights other than 0"] == "5 of 5"


def test_a_quantile_is_tuned_at_its_level_and_trained_so(frame: pd.DataFrame) -> None:
    key = uploads.key_of(uploaded(frame.to_csv(index=False).encode(), "bound.csv")) or ""
    page = settle(open_page("tune", data=key, target="a", loss="quantile", study=json.dumps({"folds": 3})))
    page = settle(checked(widget(page, "number_input", "Quantile").set_value(0.9).run()))
    assert address(page, "quantile") == "0.9"
    assert "Pinball loss, cross-validated" in {metric.label for metric in page.metric}
    page = settle(now_on(page.button(key="tune:train").click().run()))
    run = find_run(address(page, "run"))
    assert run is not None
    assert run.result is not None
    assert run.result["outcome"]["parameters"] == {"quantile": 0.9}
    assert run.result["cross_validation"]["measure"] == "pinball loss"


def test_what_cannot_be_tuned_so_is_said(frame: pd.DataFrame) -> None:
    key = uploads.key_of(uploaded(frame.to_csv(index=False).encode(), "gamma.csv")) or ""
    page = settle(open_page("tune", data=key, target="a", loss="gamma"))
    assert "Expected numbers greater than 0 in 'a'" in text(page)


def test_classes_are_tuned_by_folds_that_have_their_share_of_each(frame: pd.DataFrame) -> None:
    plans = np.where(frame["a"] > 0.5, "L", np.where(frame["a"] < -0.5, "S", "M"))
    key = uploads.key_of(uploaded(frame.assign(plan=plans).to_csv(index=False).encode(), "plans.csv")) or ""
    page = settle(open_page("data", data=key, target="plan"))
    assert not page.button(key="tune").disabled
    page = settle(open_page("tune", data=key, target="plan", shrink="ridge", study=json.dumps({"folds": 3})))
    assert "3 folds by class" in text(page)
    metrics = {metric.label: metric.value for metric in page.metric}
    assert "Log loss, cross-validated" in metrics
    count = metrics["Weights other than 0"].split(" of ")
    assert count[0] == count[1]
    page = settle(now_on(page.button(key="tune:train").click().run()))
    assert "log loss" in text(page)


@pytest.mark.parametrize("texts", [True, False])
def test_folds_of_yes_and_no_are_by_class_wherever_they_are_named(frame: pd.DataFrame, texts: bool) -> None:
    shown = frame if texts else frame.assign(bought=(frame["bought"] == "yes").astype(int))
    key = uploads.key_of(uploaded(shown.to_csv(index=False).encode(), f"bought {texts}.csv")) or ""
    page = settle(open_page("tune", data=key, target="bought", **({} if texts else {"loss": "logistic"})))
    assert "10 folds by class · " in text(page)
    assert "10 folds by class, " in text(page)
    assert "by chance" not in text(page)
    assert widget(page, "selectbox", "Folds by").options[0] == "class: each has its share of all values"


def test_marks_of_the_curve_stand_at_their_alphas() -> None:
    """On an axis of logarithms Plotly wants the place of a text as one: else the axis grows to 10 to the alpha."""
    curve = {"alphas": [100.0, 10.0, 1.0], "cv_mean": [0.7, 0.5, 0.6], "cv_se": [0.1] * 3, "best": 10.0, "one_se": 100.0,
             "measure": "log loss"}  # fmt: skip
    marks = {mark.text: mark.x for mark in _error_chart(curve, 1).layout.annotations}
    assert marks == {"Best": 1.0, "1-SE": 2.0}
