"""A yes/no target on the pages: offered, proposed, fitted, called at a threshold, and predicted from a form."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.parts.outcome_charts import calibration_chart, gains_chart, lift_at, precision_chart, roc_chart
from shoal.dashboard.parts.outcomes import score_name
from shoal.dashboard.parts.results import coefficient_table
from shoal.dashboard.runs import columns, listing
from shoal.dashboard.tables import uploads
from shoal.library import saved_models
from shoal.library.accounts import summary_of
from shoal.results.fit import FitReport
from shoal.results.outcome import CalibrationBin, ThresholdCurve
from shoal.results.thresholds import calls_at
from shoal.runs.launch import Run
from shoal.words import number
from support.dashboard.train_page import answers, apply, start
from support.pages import checked, now_on, open_page, said, settle, uploaded, widget

CURVE = ThresholdCurve(4, 6, (0.1, 0.4, 0.5, 0.9), (4, 3, 2, 1), (6, 2, 1, 0))


def text(page: AppTest) -> str:
    return said(page).replace("&#x27;", "'")


@pytest.fixture
def key() -> str:
    return answers()


def test_coefficients_that_grow_without_end_are_called_no_optimum() -> None:
    lines = ["x,y", *(f"{i},{'ja' if i > 40 else 'nein'}" for i in range(80))]
    key = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "told apart.csv")) or ""
    run = start(apply(settle(open_page("train", data=key)), "target: y\nmodel: logistic\n"))
    shown = text(settle(open_page("train", run=run.id)))
    assert "There is no optimum" in shown
    assert "This is the exact optimum" not in shown


def test_gradient_steps_of_yes_and_no_are_watched_by_their_own_names(key: str) -> None:
    page = settle(open_page("train", data=key, target="y"))
    page = checked(widget(page, "radio", "How to solve it").set_value("gradient").run())
    page = apply(page, "target: y\nmodel: logistic\nsolver: gradient\nepochs: 3\ntest_every: 4\nengine: inline\n")
    run = start(page)
    assert run.result is not None
    assert run.result["converged"]
    page = settle(open_page("train", run=run.id))
    panels = [
        json.loads(element.proto.json)["panels"]
        for element in page.get("bidi_component")
        if "panels" in element.proto.json
    ]
    tiles = {tile["key"]: tile["label"] for panel in panels[0] for tile in panel.get("tiles", ())}
    charts = {panel["key"]: panel["title"] for shown in panels for panel in shown if panel["kind"] == "chart"}
    assert (tiles["loss"], tiles["validation"]) == ("Log loss", "Deviance explained, test rows")
    assert (charts["loss"], charts["validation"]) == ("Log loss", "Deviance explained, test rows")
    assert "It converged" in text(page)
    assert "AUC" in {metric.label for metric in page.metric}


def test_gradient_steps_of_several_classes_are_watched_and_end_in_what_an_exact_fit_shows() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=240).round(3)
    tree = np.array(["ash", "fir", "oak"])[np.digitize(x + rng.logistic(size=240), [-1, 1])]
    lines = ["x,z,tree", *(f"{a},{i % 7},{b}" for i, (a, b) in enumerate(zip(x, tree, strict=True)))]
    key = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "trees.csv")) or ""
    page = settle(open_page("train", data=key, target="tree"))
    assert widget(page, "selectbox", "Model").value == "multinomial"
    page = checked(widget(page, "radio", "How to solve it").set_value("gradient").run())
    page = checked(widget(page, "number_input", "Epochs").set_value(3).run())
    run = start(page)
    assert run.config["solver"] == "gradient"
    assert run.config["epochs"] == 3
    assert run.result is not None
    assert run.result["converged"]
    assert run.result["distance_to_optimum"] <= 1e-6
    page = settle(open_page("train", run=run.id))
    assert "It converged" in text(page)
    assert {"AUC", "Log loss"} <= {metric.label for metric in page.metric}


def test_the_yes_is_chosen_beside_the_model_and_found_anew_for_another_target() -> None:
    lines = ["x,y,back", *(f"{i % 17},{'Ja' if i % 3 else 'Nein'},{i % 2}" for i in range(120))]
    key = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "two targets.csv")) or ""
    page = settle(open_page("train", data=key, target="y"))
    yes = widget(page, "button_group", "The value that is the yes")
    assert (yes.options, yes.value) == (["Ja", "Nein"], "Ja")
    page = checked(yes.set_value("Nein").run())
    run = start(page)
    assert run.result is not None
    assert run.result["outcome"]["classes"] == ["Ja", "Nein"]
    page = settle(open_page("train", data=key, target="back"))
    page = checked(widget(page, "selectbox", "Model").set_value("logistic").run())
    yes = widget(page, "button_group", "The value that is the yes")
    assert (yes.options, yes.value) == (["0", "1"], "1")
    run = start(checked(yes.set_value("0").run()))
    assert run.result is not None
    assert run.result["outcome"]["classes"] == ["1", "0"]


def test_the_card_counts_the_weights_of_every_class_and_rows_without_the_target() -> None:
    lines = ["x,tree", *(f"{i % 17},{('ash', 'fir', 'oak', '')[i % 4]}" for i in range(120))]
    key = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "trees and gaps.csv")) or ""
    page = settle(open_page("train", data=key, target="tree"))
    said = "120 rows (30 of them without 'tree'), one weight to fit for each of 3 classes"
    assert said in text(page).replace("1 weight", "one weight")


def test_yes_and_no_are_fitted_shown_and_predicted(key: str) -> None:
    page = settle(open_page("train", data=key, target="y"))
    assert widget(page, "selectbox", "Model").value == "logistic"
    assert not page.button(key="start").disabled
    assert "holds two texts" not in text(page)  # that advice is followed
    assert widget(page, "radio", "How to solve it").options == ["Exact", "Gradient steps"]
    page = checked(widget(page, "selectbox", "Penalty").set_value("lasso").run())
    alpha = widget(page, "number_input", "Penalty strength (alpha)")
    assert alpha.placeholder == "chosen by cross-validation"
    assert "chosen by cross-validation" in alpha.help
    assert "1 / C" in alpha.help
    page = checked(widget(page, "selectbox", "Model").set_value("ridge").run())
    assert page.get("radio")
    assert "only a logistic model predicts them" in text(page)
    assert page.button(key="start").disabled
    page = apply(page, "target: y\nmodel: logistic\ntest_every: 4\n")
    assert not page.button(key="start").disabled
    run = start(page)
    assert run.result is not None
    assert run.result["outcome"]["classes"] == ["nein", "ja"]
    page = settle(open_page("train", run=run.id))
    metrics = {metric.label: metric.value for metric in page.metric}
    scores = run.result["outcome"]["test"]["scores"]
    assert float(metrics["AUC"]) == pytest.approx(scores["auc"], rel=1e-3)
    assert "R², test rows" not in metrics
    assert "Always predicting the more frequent value" in text(page)
    assert "changes of the log odds of ja" in widget(page, "button_group", "Effect of").help
    at_half = page.dataframe[0].value
    page = settle(checked(page.slider(key="outcome:threshold").set_value(0.9).run()))
    called = page.dataframe[0].value
    assert called.iloc[:, 1:].to_numpy().sum() == at_half.iloc[:, 1:].to_numpy().sum() == run.result["test"]["rows"]
    assert called.iloc[0, 1:].sum() < at_half.iloc[0, 1:].sum()
    _costs_lead_to_a_threshold(page, run)
    saved = saved_models.save_run(run, run.result)
    form = settle(open_page("models", model=saved.name, version="1", view="Predict"))
    shown = {metric.label: metric.value for metric in form.metric}
    assert [label for label in shown if label.startswith("Probability that y is ja")], shown
    assert "Log odds" in text(form)
    assert "The set that holds nine in ten rows like the 75 test rows has" in text(form)
    form = settle(open_page("models", model=saved.name, version="1", view="Predict", rows=key))
    form = settle(checked(widget(form, "button_group", "Predict").set_value("A file").run()))
    first = form.dataframe[-1].value
    assert set(first["Prediction"]) == {"ja", "nein"}
    assert list(first["Prediction"] == "ja") == list(first["Probability of ja"] >= 0.5)
    form = settle(checked(form.slider(key="outcome:threshold").set_value(0.8).run()))
    first = form.dataframe[-1].value
    assert list(first["Prediction"] == "ja") == list(first["Probability of ja"] >= 0.8)
    assert 0 < (first["Prediction"] == "ja").sum() < (first["Probability of ja"] >= 0.5).sum()
    assert "Called 'ja' from a probability of 0.8 on" in text(form)
    form = settle(checked(widget(form, "toggle", "With sets that hold 90 %").set_value(True).run()))
    assert set(form.dataframe[-1].value["Set"]) <= {"ja", "nein", "nein|ja"}
    auc = number(scores["auc"], 3)
    assert f"{auc}<small>AUC, test rows</small>" in said(open_page("models"))
    account = summary_of(run)
    assert columns.chosen(listing.table([account]), [account], [account])["Score"][0] == f"AUC {auc}"
    linear = replace(account, headline=None)
    assert "Score" not in columns.chosen(listing.table([linear]), [linear], [linear])  # all there is has R²
    form = settle(open_page("models", model=saved.name, version="1", view="Diagnostics"))
    assert not form.error
    assert "What columns are worth" in text(form)
    assert "Brier score" in text(form)
    assert form.dataframe[-1].value["Column"][0] == "x"

    _odds_ratios_come_first(saved.model.report)


def _costs_lead_to_a_threshold(page: AppTest, run: Run) -> None:
    """Misses that cost ten times as much as false alarms are found at a lower threshold, by one click."""
    page = settle(checked(widget(page, "number_input", "Cost if ja is called nein").set_value(10.0).run()))
    assert "They cost least from" in text(page)
    page = settle(checked(page.button(key="outcome:cheapest").click().run()))
    chosen = page.slider(key="outcome:threshold").value
    assert chosen < 0.5
    assert "No threshold costs less" in text(page)
    calls = page.dataframe[0].value.iloc[:, 1:].to_numpy()  # called ja, called nein; is ja, is nein
    curve = run.result["outcome"]["curve"] if run.result else {}
    costs = [a + 10 * (curve["yes"] - h) for h, a in zip(curve["hits"], curve["alarms"], strict=True)]
    assert calls[0, 1] + 10 * calls[1, 0] == min(costs)


def _odds_ratios_come_first(report: FitReport) -> None:
    found, inference = coefficient_table(report), report.inference
    assert inference
    assert list(found)[:4] == ["Column", "Odds ratio", "Odds ratio, low", "Odds ratio, high"]
    first = inference.coefficients["x"]
    expected = [math.exp(value or 0.0) for value in (first.estimate, first.low, first.high)]
    assert found.iloc[1, 1:4].tolist() == pytest.approx(expected)
    assert found.iloc[0, 1:4].isna().all()
    assert score_name(report) == "log odds of ja"  # what the chart says that coefficients change


def test_data_leads_to_a_logistic_model_of_two_texts(key: str) -> None:
    page = settle(open_page("data", data=key))
    page = settle(checked(widget(page, "selectbox", "Column to predict").set_value("y").run()))
    assert not page.button(key="tune").disabled
    page = settle(now_on(page.button(key="train").click().run()))
    assert widget(page, "selectbox", "Column to predict").value == "y"
    assert widget(page, "selectbox", "Model").value == "logistic"
    page = settle(checked(widget(page, "selectbox", "Column to predict").set_value("x").run()))
    assert widget(page, "selectbox", "Model").value == "linear"  # what was chosen for two texts goes with them


def test_up_to_50_texts_are_classes_and_an_address_that_names_more_is_told_why() -> None:
    lines = ["x,kind,code", *(f"{i * i % 17},{'abc'[i % 3]},t{i}" for i in range(60))]
    table = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "kinds.csv")) or ""
    page = settle(open_page("data", data=table))
    assert list(widget(page, "selectbox", "Column to predict").options) == ["x", "kind"]
    page = settle(open_page("data", data=table, target="kind"))
    assert "'kind' has 3 classes" in text(page)
    assert not page.button(key="suited").disabled
    page = settle(open_page("train", data=table, target="kind"))
    assert widget(page, "selectbox", "Model").value == "multinomial"
    page = settle(open_page("data", data=table, target="code"))
    assert "'code' holds texts, such as" in text(page)
    assert page.button(key="train").disabled


def test_a_search_offers_what_has_gradient_steps_only(key: str) -> None:
    page = settle(open_page("search", data=key, target="x"))
    assert list(widget(page, "button_group", "Model").options) == ["Linear", "Ridge", "Lasso", "Elastic net"]


def test_calls_and_charts_of_a_curve() -> None:
    assert calls_at(CURVE, 0.5)[1:] == (2, 2, 1, 5)
    assert calls_at(CURVE, 0.45).threshold == 0.5  # the smallest kept one that is not below
    assert calls_at(CURVE, 0.95)[1:] == (0, 4, 0, 6)
    assert calls_at(CURVE, 0.95).precision is None
    assert calls_at(CURVE, 0.4).recall == 0.75
    roc = roc_chart(CURVE, 0.5).data[1]
    assert list(roc.x) == [0, 0, 1 / 6, 2 / 6, 1, 1]
    assert list(roc.y) == [0, 0.25, 0.5, 0.75, 1, 1]
    precise = precision_chart(CURVE, 0.5)
    assert list(precise.data[1].x) == [1, 0.75, 0.5, 0.25]
    assert list(precise.data[1].y) == pytest.approx([0.4, 0.6, 2 / 3, 1])
    assert (precise.data[2].x, precise.data[2].y) == ((0.5,), (pytest.approx(2 / 3),))
    assert not precision_chart(CURVE, 0.95).data[2].x  # nothing is called: no precision to draw
    gains = gains_chart(CURVE, 0.4)
    assert list(gains.data[2].x) == pytest.approx([0, 0.1, 0.3, 0.5, 1, 1])
    assert list(gains.data[2].y) == [0, 0.25, 0.5, 0.75, 1, 1]
    assert list(gains.data[1].x) == [0, 0.4, 1]  # all yes rows first
    assert lift_at(CURVE, 0.1) == pytest.approx(2.5)
    drawn = calibration_chart((CalibrationBin(10, 0.2, 0.3, 0.1, 0.6),)).data[1]
    assert (list(drawn.x), list(drawn.y), list(drawn.error_y.array)) == ([0.2], [0.3], [pytest.approx(0.3)])


def test_the_values_of_a_target_speak_for_a_model_that_is_one_click_away() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=200).round(3)
    lines = ["x,visits", *(f"{a},{b}" for a, b in zip(x, rng.poisson(np.exp(0.3 * x)), strict=True))]
    own = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "visits.csv")) or ""
    page = settle(open_page("data", data=own, target="visits"))
    assert "'visits' has whole numbers from 0 to" in text(page)
    page = settle(now_on(page.button(key="suited").click().run()))
    assert widget(page, "selectbox", "Model").value == "poisson"
    page = checked(widget(page, "selectbox", "Model").set_value("ridge").run())  # the person decides
    assert widget(settle(page), "selectbox", "Model").value == "ridge"
    assert start(apply(page, "target: visits\nmodel: poisson\n")).result


@pytest.mark.parametrize(
    ("model", "knob", "value"), [("quantile", "Quantile", 0.9), ("huber", "Far off from (epsilon)", 2.0)]
)
def test_numbers_with_tails_are_fitted_shown_and_predicted(model: str, knob: str, value: float) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=200).round(3)
    y = (3 + 2 * x + rng.standard_t(2, 200)).round(4)
    lines = ["x,y", *(f"{a},{b}" for a, b in zip(x, y, strict=True))]
    key = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "tails.csv")) or ""
    page = settle(open_page("train", data=key, target="y"))
    page = checked(widget(page, "selectbox", "Model").set_value(model).run())
    page = checked(widget(page, "number_input", knob).set_value(value).run())
    run = start(page)
    assert run.result is not None
    assert value in run.result["outcome"]["parameters"].values()
    page = settle(open_page("train", run=run.id))
    metrics = {metric.label: metric.value for metric in page.metric}
    scores = run.result["outcome"]["test"]["scores"]
    assert float(metrics["Loss explained"]) == pytest.approx(scores["loss_explained"], rel=1e-3)
    constant = "the 0.9 quantile" if model == "quantile" else "the median"
    assert any(f"always predicts {constant} of the training rows" in caption.value for caption in page.caption)
    assert "This is the exact optimum" in text(page)
    saved = saved_models.save_run(run, run.result)
    form = settle(open_page("models", model=saved.name, version="1", view="Predict"))
    assert "Predicted y" in [metric.label for metric in form.metric]
    assert ("share of 0.9 is to lie at or below it" in text(form)) == (model == "quantile")
    form = settle(open_page("models", model=saved.name, version="1", view="Predict", rows=key))
    form = settle(checked(widget(form, "button_group", "Predict").set_value("A file").run()))
    line = run.result["intercept"] + run.result["coefficients"]["x"] * x
    assert form.dataframe[-1].value["Prediction"].tolist() == pytest.approx(line[: len(form.dataframe[-1].value)])
    assert f"{number(scores['loss_explained'], 3)}<small>Loss explained" in said(open_page("models"))


def test_the_penalty_of_yes_and_no_is_chosen_by_cross_validation_and_shown(key: str) -> None:
    run = start(apply(settle(open_page("train", data=key)), "target: y\nmodel: logistic\nshrink: lasso\n"))
    assert run.result is not None
    kept = run.result["cross_validation"]
    assert (kept["fold_by"], kept["measure"], kept["alphas"]) == ("class", "log loss", 100)
    assert run.result["alpha"] == kept["best"]
    shown = text(settle(open_page("train", run=run.id)))
    assert "10 folds by class; log loss" in shown
    assert "the lowest error of all alphas (100 tried)" in shown


def test_a_skewed_target_is_offered_by_its_logarithm_and_predicted_in_its_own_unit() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=300).round(3)
    y = np.exp(1 + x + rng.normal(size=300)).round(4) + 0.001
    lines = ["x,cost", *(f"{a},{b}" for a, b in zip(x, y, strict=True))]
    key = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "costs.csv")) or ""
    page = settle(open_page("data", data=key, target="cost"))
    assert "a lognormal one does so by logarithms" in text(page)
    page = settle(now_on(page.button(key="suited:lognormal").click().run()))
    assert widget(page, "selectbox", "Model").value == "lognormal"
    run = start(page)
    assert run.result is not None
    scores = run.result["outcome"]["test"]["scores"]
    page = settle(open_page("train", run=run.id))
    metrics = {metric.label: metric.value for metric in page.metric}
    assert float(metrics["R² of logarithms"]) == pytest.approx(scores["log_r2"], rel=1e-3)
    assert "Predictions are means, not medians" in text(page)
    saved = saved_models.save_run(run, run.result)
    form = settle(open_page("models", model=saved.name, version="1", view="Predict"))
    assert "times their prediction: here from" in text(form)


def test_a_bound_at_0_is_a_switch_and_tune_which_has_none_is_not_offered() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=(2, 120)).round(3)
    y = (2 * a - b + rng.normal(size=120)).round(3)
    lines = ["a,b,y", *(f"{p},{q},{r}" for p, q, r in zip(a, b, y, strict=True))]
    key = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "bound.csv")) or ""
    page = settle(open_page("train", data=key, target="y"))
    assert "Tune the penalty" in [link.proto.label for link in page.get("page_link")]
    page = settle(checked(widget(page, "toggle", "No coefficient below 0").set_value(True).run()))
    assert "Tune the penalty" not in [link.proto.label for link in page.get("page_link")]
    run = start(page)
    assert run.result is not None
    assert run.result["coefficients"]["b"] == 0
    assert run.result["coefficients"]["a"] > 1
