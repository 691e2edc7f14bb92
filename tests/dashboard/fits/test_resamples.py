"""Intervals by resamples on the page of a penalised yes/no model: offered, worked out elsewhere, and in chart and table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.fits.resamples import is_resampled, kept, with_resamples
from shoal.dashboard.parts.results import coefficient_table
from shoal.results.answers.explanation import ResampledIntervals, SelectionShares
from shoal.tasks.explain import ExplainRequest, explain_model
from support.dashboard.train_page import answers, apply, start
from support.pages import checked, open_page, said, settle, widget

BUTTON = "Intervals by resamples"


@pytest.fixture
def key() -> str:
    return answers()


def labels(page: AppTest) -> list[str]:
    return [button.label for button in page.button]


def test_a_penalised_model_is_resampled_when_somebody_asks(key: str) -> None:
    run = start(apply(settle(open_page("train", data=key)), "target: y\nmodel: logistic\nshrink: lasso\nalpha: 12\n"))
    page = settle(open_page("train", run=run.id))
    assert "Beside a penalty no formula gives intervals" in said(page)
    page = settle(checked(widget(page, "button", BUTTON).click().run()))
    assert BUTTON not in labels(page)
    expected = explain_model(run.model_path, ExplainRequest()).bootstrap
    assert expected is not None
    shown = next(frame.value for frame in page.dataframe if "High" in frame.value)
    rows = {row["Column"]: row for _, row in shown.iterrows()}
    for name, one in expected.coefficients.items():
        assert (rows[name]["Low"], rows[name]["High"]) == pytest.approx((one["low"], one["high"]), rel=1e-12)
    assert "95% intervals: 500 resamples." in said(page)
    assert "In at least 95% of the resamples a weight is left to x." in said(page)
    again = settle(open_page("train", run=run.id))  # another session
    assert BUTTON not in labels(again)
    assert "95% intervals: 500 resamples." in said(again)
    assert run.report is not None
    fewer = with_resamples(run.report, replace(expected, resamples=494)).intervals[0]
    assert fewer.meaning.startswith("494 resamples of 500, as many")


def test_one_without_a_penalty_has_its_formula(key: str) -> None:
    run = start(apply(settle(open_page("train", data=key)), "target: y\nmodel: logistic\n"))
    page = settle(open_page("train", run=run.id))
    assert run.report is not None
    assert not is_resampled(run.report)
    assert BUTTON not in labels(page)
    drawn = ResampledIntervals(
        kind="logistic", confidence=0.9, resamples=20, units=300, by_rows=True, meaning="So far.",
        coefficients={"x": {"estimate": 1.0, "low": 0.5, "high": 2.0}, "z": {"estimate": 0.0, "low": 0.0, "high": 0.0}},
        selection=SelectionShares("Kept.", {"x": {"selected": 1.0}, "z": {"selected": 0.1}}),
    )  # fmt: skip
    table = coefficient_table(with_resamples(run.report, drawn))
    assert table[table["Column"] == "x"]["High"].tolist() == [2.0]
    assert kept(drawn).endswith("In fewer than 50% a weight is left to z.")
