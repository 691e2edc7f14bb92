"""How far columns are from training: the index by its formula, thresholds, and what chance does in few rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from shoal.data.summaries.columns import tallied
from shoal.results.answers.drift import LARGE, NOTABLE, SMALL, UNKNOWN, DriftReport, chance_index, drift_of, stability
from shoal.results.model import TrainingColumn

NORMAL = TrainingColumn(4000, 0.0, (0.1,) * 10, tuple(stats.norm.ppf(np.arange(1, 10) / 10).tolist()), None, 0.0, 1.0)
TEXT = TrainingColumn(4000, 0.0, (0.5, 0.5, 0.0), (), ("u", "v"))


def sized(values: object, before: TrainingColumn = NORMAL) -> str:
    seen = tallied({"c": before}, {"c": list(values)}, {"c": ("u", "v")})["c"]  # type: ignore[call-overload]
    return drift_of("c", "number", before, seen).size


def test_the_index_is_that_of_the_formula() -> None:
    values = np.random.default_rng(0).normal(0.7, 1.3, 5000)
    seen = tallied({"c": NORMAL}, {"c": values.tolist()}, {})["c"]
    q = np.histogram(values, [-np.inf, *NORMAL.edges, np.inf])[0] / 5000
    assert stability(NORMAL, seen) == pytest.approx(((q - 0.1) * np.log(q / 0.1)).sum(), rel=1e-9)
    assert drift_of("c", "number", NORMAL, seen).shift == pytest.approx(values.mean(), rel=1e-9)
    assert chance_index(NORMAL, seen) == pytest.approx((1 / 5000 + 1 / 4000) * stats.chi2.ppf(0.95, 9), rel=0.005)


def test_sizes_are_small_notable_and_large() -> None:
    values = np.random.default_rng(1).normal(size=3000)
    assert sized(values) == SMALL
    assert sized(values + 0.3) == NOTABLE
    assert sized(values + 1.0) == LARGE
    assert sized(values * 3) == LARGE, "the mean is the same, the bins are not"
    assert sized([*values[:2700], *[None] * 300]) == NOTABLE
    assert sized([*values[:1500], *[None] * 1500]) == LARGE
    assert sized(["u", "v"] * 1000, TEXT) == SMALL
    assert sized([*["u", "v"] * 490, *["w"] * 20], TEXT) == NOTABLE
    assert sized(["u"] * 900 + ["v"] * 100, TEXT) == LARGE


def test_what_chance_does_in_few_rows_is_not_called_drift() -> None:
    """Of many samples of 60 rows without any drift, one in twenty may be called so by each of two measures."""
    chance = np.random.default_rng(2)
    called = [sized(chance.normal(size=60)) for _ in range(300)]
    assert sum(size != SMALL for size in called) <= 36
    raw = [
        stability(NORMAL, tallied({"c": NORMAL}, {"c": chance.normal(size=60).tolist()}, {})["c"]) for _ in range(50)
    ]
    assert np.mean(np.array(raw, float) > 0.1) > 0.5, "without that, most would be"
    assert sized(chance.normal(size=10)) == UNKNOWN
    assert sized([]) == UNKNOWN


def test_a_report_says_what_to_do() -> None:
    far = drift_of("x", "number", NORMAL, tallied({"c": NORMAL}, {"c": [2.0] * 100}, {})["c"])
    said = DriftReport(model="m:1", rows=100, since="2026-01-01", until="2026-01-02", columns=(far,))
    assert said.size == LARGE
    assert said.in_words == "Far from training (large): 'x'."
    assert "train again with rows of now" in said.advice
    assert "its mean is 2 standard deviations above that of training" in far.words
    assert "Too few rows" in DriftReport(model="m:1", rows=0, since="", until="").in_words
