"""Rows that a yes/no model calls yes from a probability on: how many are right, what the others cost, and from which
probability on that is least. Counts are those of `ThresholdCurve`; nothing is fitted or drawn here."""

from __future__ import annotations

import bisect
from typing import NamedTuple

from shoal.errors import ConfigError
from shoal.results.outcome import Outcome, ThresholdCurve

USUAL = 0.5  # the likelier value of two
DIGITS = 17  # that tell any two doubles apart


class Calls(NamedTuple):
    """Rows by what they are and what they are called at a threshold."""

    threshold: float
    hits: int  # yes rows called yes
    misses: int  # yes rows called no
    alarms: int  # no rows called yes
    passes: int  # no rows called no

    @property
    def precision(self) -> float | None:
        return self.hits / (self.hits + self.alarms) if self.hits + self.alarms else None

    @property
    def recall(self) -> float | None:
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else None

    @property
    def accuracy(self) -> float | None:
        rows = self.hits + self.misses + self.alarms + self.passes
        return (self.hits + self.passes) / rows if rows else None

    def cost(self, of_alarm: float, of_miss: float) -> float:
        return of_alarm * self.alarms + of_miss * self.misses


def calls_at(curve: ThresholdCurve, threshold: float) -> Calls:
    """At the smallest kept threshold that is not below the wanted one; above them all, nothing is called yes."""
    at = bisect.bisect_left(curve.thresholds, threshold)
    if at == len(curve.thresholds):
        return Calls(threshold, 0, curve.yes, 0, curve.no)
    hits, alarms = curve.hits[at], curve.alarms[at]
    return Calls(curve.thresholds[at], hits, curve.yes - hits, alarms, curve.no - alarms)


def cheapest(curve: ThresholdCurve, of_alarm: float, of_miss: float) -> Calls:
    """The calls that cost least, at a threshold of as few digits as make these calls; of equals the highest one.

    Rows between two kept thresholds are not told apart, so that any number between them makes the same calls.
    """
    tried = [calls_at(curve, threshold) for threshold in (*curve.thresholds, 1.0)]
    best = min(reversed(tried), key=lambda calls: calls.cost(of_alarm, of_miss))
    below = bisect.bisect_left(curve.thresholds, best.threshold)
    return best._replace(threshold=_short_between(curve.thresholds[below - 1] if below else -1.0, best.threshold))


def _short_between(low: float, high: float) -> float:
    """The number of fewest digits in (low, high], which are not far apart; of those the highest."""
    for digits in range(2, DIGITS):
        power = 10.0**digits
        found = int(high * power) / power
        if low < found <= high:
            return found
    return high


def balance_point(of_alarm: float, of_miss: float) -> float | None:
    """Where a miss and a false alarm are as dear as each other, if probabilities are right: alarm / (alarm + miss)."""
    total = of_alarm + of_miss
    return of_alarm / total if total > 0 else None


def check_threshold(outcome: Outcome | None, threshold: float | None) -> float:
    """The probability from which on rows are called yes; refused where nothing is called so, or it is none."""
    if threshold is None:
        return USUAL
    if outcome is not None and outcome.several:
        raise ConfigError(
            "A threshold is for models of yes or no; of several classes the likeliest is said. Leave it out."
        )
    if outcome is None or not outcome.classes:
        raise ConfigError("A threshold is for models of yes or no; this one predicts numbers. Leave it out.")
    if not 0 <= threshold <= 1:
        raise ConfigError(f"Expected a threshold from 0 to 1, a probability; got {threshold:g}. Give another one.")
    return float(threshold)
