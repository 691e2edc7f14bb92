"""Histograms of weights and gradients: what is counted, what is left out, and how often one is made."""

from __future__ import annotations

import numpy as np

from shoal.steps.histograms import MOST, PARTS, HistogramTimes, histogram, histograms


def test_every_number_is_counted_once_between_the_smallest_and_the_largest() -> None:
    found = histogram(np.array([0.0, 0.1, 0.2, 0.9, 1.0, 1.0, 7.9, 8.0]))
    assert found == {"low": 0.0, "high": 8.0, "counts": [4, 2, 0, 0, 0, 0, 0, 2]}


def test_what_is_not_finite_has_no_place() -> None:
    assert histogram(np.array([np.nan, np.inf, -np.inf])) is None
    found = histogram(np.array([np.nan, 1.0, 3.0, np.inf]))
    assert found is not None
    assert (found["low"], found["high"], sum(found["counts"])) == (1.0, 3.0, 2)


def test_numbers_that_are_all_one_have_a_bin() -> None:
    for value in (0.0, 1e300, -1e-300, 5.0):
        found = histogram(np.full(100, value))
        assert found is not None
        assert found["low"] < value < found["high"]
        assert max(found["counts"]) == sum(found["counts"]) == 100


def test_of_a_large_part_numbers_from_all_over_it_are_looked_at() -> None:
    found = histogram(np.arange(10.0 * MOST))
    assert found is not None
    assert MOST / 2 < sum(found["counts"]) <= MOST
    assert found["high"] > 9.9 * MOST
    assert max(found["counts"]) - min(found["counts"]) <= 1


def test_the_largest_parts_in_the_order_of_the_model() -> None:
    parts = [(f"layer {number}", 1 + number % 30) for number in range(60)]
    sizes = np.array([size for _, size in parts])
    weights = np.repeat(np.arange(60.0), sizes)
    found = histograms(parts, weights, -weights)
    assert len(found) == PARTS
    assert min(part["size"] for part in found) == sorted(sizes)[-PARTS]
    numbers = [int(part["name"].split()[1]) for part in found]
    assert numbers == sorted(numbers)
    for number, part in zip(numbers, found, strict=True):  # each has its own numbers
        for which, value in (("weights", number), ("gradient", -number)):
            assert part[which]["low"] < value < part[which]["high"] or number == 0
            assert sum(part[which]["counts"]) == part["size"]


def test_after_an_epoch_but_not_too_often_and_at_the_end() -> None:
    looks = HistogramTimes(began=100.0)
    assert looks.due(100.0, 0.1, last=False)
    assert not looks.due(102.0, 0.9, last=False)  # the same epoch
    assert looks.due(102.0, 1.0, last=False)
    assert not looks.due(102.5, 2.0, last=False)  # a moment later
    assert looks.due(102.5, 2.0, last=True)
    day = sum(looks.due(103.0 + second, 3.0 + second, last=False) for second in range(86_400))
    assert 100 < day < 1000
