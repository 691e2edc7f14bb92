"""Figures as text: read back by the grammar that Prometheus documents."""

from __future__ import annotations

import math

import pytest

from shoal.dashboard.monitoring.exposition import Family, Figure, number, single, text_of


def test_a_family_has_its_meaning_its_kind_and_its_lines() -> None:
    family = Family("a_total", "counter", "What it is.", [Figure(1, {"x": "1"}), Figure(2.5, {"x": "2", "y": "3"})])
    assert text_of([family, single("b", "gauge", "Other.", 0)]).splitlines() == [
        "# HELP a_total What it is.", "# TYPE a_total counter", 'a_total{x="1"} 1', 'a_total{x="2",y="3"} 2.5',
        "# HELP b Other.", "# TYPE b gauge", "b 0",
    ]  # fmt: skip


def test_what_would_end_a_line_or_a_label_is_spelled_out() -> None:
    family = Family("a", "gauge", "one\\two\nthree", [Figure(1, {"run": 'a"b\\c\nd\udcff'})])
    assert text_of([family]) == (
        '# HELP a one\\\\two\\nthree\n# TYPE a gauge\na{run="a\\"b\\\\c\\nd\\\\udcff"} 1\n'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (3.0, "3"), (0.1 + 0.2, "0.30000000000000004"), (1e300, "1e+300"), (2**53 + 2, "9007199254740994.0"),
        (-7, "-7"), (math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf"),
    ],
)  # fmt: skip
def test_numbers_keep_all_their_bits(value: float, text: str) -> None:
    assert number(value) == text
    if not math.isnan(value):
        assert float(text) == value
