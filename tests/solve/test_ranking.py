"""Areas, thresholds and calibration against scikit-learn and statsmodels' formulas, with ties and many rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve

from shoal.dashboard.parts.outcome_charts import lift_at
from shoal.solve.ranking import Ranked, area_under_roc, average_precision, calibration, threshold_curve, wilson

rng = np.random.default_rng(0)
ETA = np.round(rng.normal(size=3000), 2)  # with ties
Y = (rng.random(3000) < 1 / (1 + np.exp(-ETA))).astype(float)
P = 1 / (1 + np.exp(-ETA))


def ranked(grid: float = 0.0, parts: int = 1) -> Ranked:
    return Ranked.together(
        [Ranked.of(y, eta, grid) for y, eta in zip(np.split(Y, parts), np.split(ETA, parts), strict=True)]
    )


def test_areas_are_those_of_scikit_learn_whatever_the_parts() -> None:
    for parts in (1, 3):
        found = ranked(parts=parts)
        assert area_under_roc(found.no, found.yes) == pytest.approx(metrics.roc_auc_score(Y, ETA), rel=1e-13)
        assert average_precision(found.no, found.yes) == pytest.approx(
            metrics.average_precision_score(Y, ETA), rel=1e-12
        )
    only = Ranked.of(np.ones(5), np.arange(5.0), 0.0)
    assert area_under_roc(only.no, only.yes) is None


def test_a_grid_keeps_the_areas_and_what_is_called_at_a_half() -> None:
    exact, rounded = ranked(), ranked(grid=2.0**-12)
    for area in (area_under_roc, average_precision):
        assert area(rounded.no, rounded.yes) == pytest.approx(area(exact.no, exact.yes), abs=1e-4)
    assert rounded.yes[rounded.eta >= 0].sum() == exact.yes[exact.eta >= 0].sum()
    assert len(Ranked.of(np.zeros(10**5), rng.normal(size=10**5), 2.0**-12).eta) < 40_000


def test_thresholds_count_the_rows_at_or_above_them() -> None:
    found = ranked()
    curve = threshold_curve(1 / (1 + np.exp(-found.eta)), found.no, found.yes)
    assert (curve.yes, curve.no) == (Y.sum(), len(Y) - Y.sum())
    assert 0.5 in curve.thresholds
    assert len(curve.thresholds) <= 204
    for threshold, hits, alarms in zip(curve.thresholds, curve.hits, curve.alarms, strict=True):
        called = threshold - 1e-15 <= P
        assert (hits, alarms) == (Y[called].sum(), (1 - Y)[called].sum())


@pytest.mark.parametrize(("rows", "digits"), [(1000, 16), (3330, 16), (1000, 2)])
def test_the_lift_of_the_first_tenth_is_exact(rows: int, digits: int) -> None:
    random = np.random.default_rng(rows)
    p = np.round(random.beta(2, 5, rows), digits)
    y = (random.random(rows) < p).astype(float)
    values, place = np.unique(p, return_inverse=True)
    curve = threshold_curve(values, np.bincount(place, 1 - y), np.bincount(place, y))
    if digits == 2:  # many rows of one probability: which of them are in the tenth is anybody's guess
        at = np.sort(p)[::-1][rows // 10 - 1]
        among = (p > at).sum()
        hits = y[p > at].sum() + y[p == at].mean() * (rows / 10 - among)
    else:
        hits = y[np.argsort(-p, kind="stable")][: rows // 10].sum()
    assert lift_at(curve, 0.1) == pytest.approx(hits / (rows / 10) / y.mean(), rel=1e-12)


def test_calibration_of_tenths() -> None:
    eta = np.sort(rng.normal(size=1000))
    y = (rng.random(1000) < 1 / (1 + np.exp(-eta))).astype(float)
    found = Ranked.of(y, eta, 0.0)
    p = 1 / (1 + np.exp(-found.eta))
    bins = calibration(p, found.no, found.yes)
    actual, predicted = calibration_curve(y, p, n_bins=10, strategy="quantile")
    np.testing.assert_allclose([one.actual for one in bins], actual)
    np.testing.assert_allclose([one.predicted for one in bins], predicted)
    assert all(one.low <= one.actual <= one.high for one in bins)
    assert wilson(0.0, 10) == (0.0, pytest.approx(0.27753, abs=1e-5))  # as published tables have it
