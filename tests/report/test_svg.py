"""Axes and points as they are drawn."""

from __future__ import annotations

import math
import re

import pytest

from shoal.report.svg import Plot, PlotAxis, fitting, sparkline


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (-3, 7e6), (1e6, 1e6 + 3), (-1e308, 1.7e308), (5, 5), (0, 0), (1e-320, 2e-320), (-1e-9, 1e-9), (0.1, 0.10001)],
)  # fmt: skip
def test_axes_hold_their_values_and_ticks(low: float, high: float) -> None:
    axis = PlotAxis.around([low, high, math.nan, math.inf], "x")
    ticks = axis.ticks(5)
    assert 2 <= len(ticks) <= 13
    assert all(axis.low <= value <= axis.high for value, _ in ticks)
    assert len({words for _, words in ticks}) == len(ticks)
    assert 0 <= axis.share(low) <= axis.share(high) <= 1


def test_axes_of_powers() -> None:
    axis = PlotAxis.powers([1e-3, 0.0, 100.0], "alpha")
    assert [words for _, words in axis.ticks(5)] == ["0.001", "0.1", "10"]
    assert axis.share(0.1) - axis.share(0.01) == pytest.approx(axis.share(100) - axis.share(10))
    assert PlotAxis.powers([], "none").ticks(5)


def test_points_outside_are_left_out_and_text_is_escaped() -> None:
    plot = Plot(PlotAxis(0, 1, "<x>"), PlotAxis(0, 1, "<y>"))
    plot.dots([(0.5, 0.5), (2, 0.5), (math.nan, 0.1), (0.2, -math.inf)], "train")
    plot.upright(0.5, "mark", "<b>")
    svg = plot.svg("<alt>")
    assert svg.count("h0") == 1
    assert not re.search(r"<(x|y|b|alt)>", svg)
    assert sparkline([0, 0], "nothing") == ""


def test_names_are_cut_to_the_room_there_is_whatever_their_letters() -> None:
    assert fitting("Alter", 170) == "Alter"
    long = fitting("Bundesland, in dem Sie zuletzt wohnten=Mecklenburg-Vorpommern", 170)
    assert (long[:5], long[-5:], "…" in long) == ("Bunde", "mmern", True)
    assert len(fitting("住宅地の面積と駐車場の有無および築年数", 170)) <= 13
    assert len(fitting("i" * 90, 170)) > len(fitting("W" * 90, 170))
