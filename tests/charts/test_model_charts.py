"""Charts of a model as pure functions."""

from __future__ import annotations

from typing import Any

from shoal.charts import residuals
from shoal.charts.effects import Coefficient, describe, effects, not_zero
from shoal.dashboard.models.charts import drawn
from shoal.dashboard.parts import charts
from shoal.results.answers.diagnosis import Diagnosis

RAW, STANDARDIZED = {"a": 2.0, "b": -30.0, "c": 0.0}, {"a": 8.0, "b": -3.0, "c": 0.0}


def test_bars_are_sorted_by_size_and_leave_out_zeros() -> None:
    found = effects(RAW, STANDARDIZED, {}, "sd")
    assert [c.name for c in not_zero(found)] == ["a", "b"]
    assert [c.name for c in not_zero(effects(RAW, STANDARDIZED, {}, "unit"))] == ["b", "a"]
    figure = charts.coefficient_chart(found, "y")
    assert list(figure.data[0].x) == [-3.0, 8.0]  # Plotly draws from the bottom


def test_intervals_follow_the_unit() -> None:
    ends = {"low": 1.0, "high": 3.0}
    intervals = {"a": ends, "b": {"low": -40.0, "high": -20.0}, "c": {}}
    a = next(c for c in effects(RAW, STANDARDIZED, intervals, "sd") if c.name == "a")
    assert (a.low, a.high) == (4.0, 12.0)
    figure = charts.coefficient_chart([a], "y")
    assert list(figure.data[0].error_x.array) == [4.0]


def as_text(label: str) -> str:
    return label.replace("<br>", "").replace("&lt;", "<").replace("&gt;", ">")


def test_names_are_told_apart_in_two_lines_and_are_not_markup() -> None:
    """As many bars as 120-letter names that differ at their ends only: no label is higher than its bar, none is missing."""
    begun = "<b>a very long name of a column</b> " + "that needs more than one line " * 3
    names = [f"{begun}{place}" for place in range(12)]
    figure = charts.coefficient_chart([Coefficient(name, 1.0) for name in names], "<i>y</i>")
    labels = figure.layout.yaxis.ticktext
    assert len(set(labels)) == 12
    assert all(label.count("<br>") < 2 and "<b>" not in label for label in labels)
    assert figure.layout.height >= 12 * 2 * charts.LINE


def test_names_are_whole_where_the_mouse_rests() -> None:
    name = "<b>a very long name of a column</b> that needs more than one line"
    figure = charts.coefficient_chart([Coefficient(name, 1.0)], "<i>y</i>")
    assert as_text(figure.data[0].hovertext[0]).startswith(name)
    assert "<i>" not in figure.layout.xaxis.title.text
    assert name in describe([Coefficient(name, 1.0)], "y")
    figure = charts.contribution_chart([(name, 2.0)], 1.0, 3.0, "<i>y</i>", "A usual row")
    assert "<b>" not in figure.layout.yaxis.ticktext[1]
    assert "<i>" not in figure.layout.xaxis.title.text


def test_a_waterfall_adds_up() -> None:
    figure = charts.contribution_chart([("a", 5.0), ("b", -2.0)], 10.0, 13.0, "y", "A usual row")
    assert list(figure.data[0].x) == [10.0, 5.0, -2.0, 13.0]
    assert list(figure.data[0].measure) == ["absolute", "relative", "relative", "total"]
    low, high = figure.layout.xaxis.range
    assert low < 10 < 15 < high
    said_ = charts.describe_contributions([("a", 5.0), ("b", -2.0)], 10.0, 13.0, "y")
    assert "a raises it by 5, b lowers it by 2" in said_


def diagnosis(rows: int = 4, **more: Any) -> Diagnosis:
    empty = {"rows": 0, "r2": None, "rmse": None, "mae": None}
    counted = {"edges": [-2.0, 0.0, 2.0], "train": [1, 2], "test": [0, 1]}
    sample = {"row": [0, 1, 2, 3], "actual": [1.0, -1.0, 3.0, 2.0], "predicted": [0.0, 0.0, 2.0, 2.0],
              "residual": [1.0, -1.0, 1.0, 0.0], "test": [True, False, False, False]}  # fmt: skip
    return Diagnosis.from_dict({
        "target": "<i>y</i>", "own_data": True, "rows": rows, "rows_left_out": 0, "unseen_levels": 0,
        "train": {"rows": 3, "r2": 0.5, "rmse": 1.0, "mae": 1.0}, "test": {**empty, "rows": 1, "r2": 0.25},
        "low": {"actual": -1.0, "predicted": 0.0, "residual": -1.0},
        "high": {"actual": 3.0, "predicted": 2.0, "residual": 1.0},
        "sample": sample, "largest": sample,
        "grid": {"edges": [-2.0, 0.0, 2.0], "train": [[1, 0], [2, 0]], "test": [[0, 1], [0, 0]]},
        "histogram": counted,
        "quantiles": [{"rank": r, "value": r - 0.5} for r in (0.05, 0.25, 0.5, 0.75, 0.95)],
        "curve": [{"rows": 2, "predicted": float(i), "residual": 0.0, "spread": 1.0, "standard_error": 0.5} for i in range(5)],
        **more,
    })  # fmt: skip


def test_training_and_test_rows_are_told_apart_by_more_than_colour() -> None:
    figure = drawn(residuals.predicted(diagnosis()))
    train, test, diagonal = figure.data
    assert (list(train.x), list(train.y)) == ([0.0, 2.0, 2.0], [-1.0, 3.0, 2.0])
    assert (list(test.x), list(test.y)) == ([0.0], [1.0])
    assert train.marker.symbol != test.marker.symbol
    assert list(diagonal.x) == list(diagonal.y) == [-1.0, 3.0]
    away = drawn(residuals.residuals(diagnosis()))
    assert list(away.data[0].y) == [-1.0, 1.0, 0.0]
    assert "<i>" not in figure.layout.xaxis.title.text


def test_rows_beyond_the_sample_are_drawn_as_a_density() -> None:
    figure = drawn(residuals.predicted(diagnosis(rows=4_000_000)))
    density = figure.data[0]
    assert density.type == "heatmap"
    assert [list(row) for row in density.customdata] == [[1, 1], [2, 0]]
    assert "4,000,000 rows" in residuals.predicted(diagnosis(rows=4_000_000)).alt


def test_a_bend_is_said_in_words() -> None:
    assert "no bend" in residuals.curvature(diagnosis())
    bent = [{"rows": 50, "predicted": float(i), "residual": (i - 2) ** 2 - 2.0, "spread": 1.0, "standard_error": 0.1}
            for i in range(5)]  # fmt: skip
    text = residuals.curvature(diagnosis(curve=bent))
    assert "A straight line misses something" in text
    assert "2 above it" in text
