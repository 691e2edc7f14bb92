"""Calls at a threshold, and the threshold that costs least: against every threshold tried on the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.errors import ConfigError
from shoal.results.outcome import Outcome, ThresholdCurve
from shoal.results.thresholds import balance_point, calls_at, cheapest, check_threshold
from shoal.solve.ranking import threshold_curve

YES_NO = Outcome(loss="logistic", link="logit", classes=("no", "yes"))


def curve_of(p: np.ndarray, y: np.ndarray) -> ThresholdCurve:
    order = np.argsort(p)
    return threshold_curve(p[order], 1.0 - y[order], y[order].astype(float))


@pytest.mark.parametrize(("alarm", "miss"), [(1.0, 1.0), (1.0, 5.0), (20.0, 1.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1e6)])
def test_the_cheapest_threshold_costs_what_the_best_of_all_thresholds_costs_on_the_rows(
    alarm: float, miss: float
) -> None:
    rng = np.random.default_rng(4)
    p = rng.random(150)
    y = rng.random(150) < p**1.5
    best = cheapest(curve_of(p, y), alarm, miss)
    tried = [alarm * (~y & (p >= t)).sum() + miss * (y & (p < t)).sum() for t in (*p, 1.0)]
    assert best.cost(alarm, miss) == min(tried)
    called = p >= best.threshold  # the number that is shown makes these very calls
    assert (int((called & y).sum()), int((called & ~y).sum())) == (best.hits, best.alarms)
    assert len(repr(best.threshold)) <= len("0.00000")


def test_calls_add_up_to_the_rows_and_nothing_is_called_above_all_probabilities() -> None:
    curve = ThresholdCurve(4, 6, (0.1, 0.4, 0.5, 0.9), (4, 3, 2, 1), (6, 2, 1, 0))
    assert calls_at(curve, 0.3)[1:] == (3, 1, 2, 4)
    assert calls_at(curve, 0.95)[1:] == (0, 4, 0, 6)
    assert calls_at(curve, 0.95).precision is None
    assert cheapest(ThresholdCurve(0, 0, (), (), ()), 1, 1)[1:] == (0, 0, 0, 0)


def test_where_costs_balance() -> None:
    assert balance_point(1, 4) == 0.2
    assert balance_point(0, 0) is None


def test_a_threshold_is_a_probability_of_a_yes() -> None:
    assert check_threshold(None, None) == 0.5
    assert check_threshold(YES_NO, 0.3) == 0.3
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="from 0 to 1"):
            check_threshold(YES_NO, wrong)
    with pytest.raises(ConfigError, match="predicts numbers"):
        check_threshold(Outcome(loss="poisson", link="log"), 0.3)
