"""Two models on the same rows: the difference of their losses against SciPy's paired t, however rows come in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from shoal.fitting.networks.scoring import ENOUGH, PairedLosses
from shoal.results.network import Worth


def losses(rows: int, seed: int, better: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    linear = random.chisquare(1, rows) * 1e6 + 1e7
    return linear * (1 - better) + random.standard_normal(rows), linear


@pytest.mark.parametrize("cuts", [(), (1,), (10, 11, 200)])
def test_the_interval_is_that_of_a_paired_t_test(cuts: tuple[int, ...]) -> None:
    network, linear = losses(300, 0)
    total = PairedLosses()
    for own, other in zip(np.split(network, cuts), np.split(linear, cuts), strict=True):
        total = total.merge(PairedLosses.of(own, other))
    found = total.merge(PairedLosses()).beside("linear", "mean squared error")
    low, high = stats.ttest_rel(network, linear).confidence_interval(0.95)
    assert found.rows == 300
    np.testing.assert_allclose([found.low, found.high], [low, high], rtol=1e-6)
    np.testing.assert_allclose([found.network, found.linear], [network.mean(), linear.mean()], rtol=1e-12)
    np.testing.assert_allclose(found.difference, (network - linear).mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("better", "worth", "words"),
    [
        (0.5, Worth.BETTER, "It is worth it: it removes 50 % of the linear model's mean squared error"),
        (0.001, Worth.LITTLE, "It is hardly worth it"),
        (0.0, Worth.SAME, "the interval has 0 in it. Take the linear model"),
        (-0.5, Worth.WORSE, "the linear model is better on these rows"),
    ],
)
def test_what_is_said_follows_the_interval(better: float, worth: Worth, words: str) -> None:
    found = PairedLosses.of(*losses(300, 3, better)).beside("linear", "mean squared error")
    assert found.worth == worth
    assert words in found.sentences("price")[-1]
    assert "typical errors of 'price'" in found.sentences("price")[0]


def test_few_rows_and_none_say_so() -> None:
    few = PairedLosses.of(*losses(ENOUGH - 1, 0)).beside("linear", "mean squared error")
    assert few.worth is None
    assert few.sentences()[-1] == "These are too few rows to tell the two apart."
    none = PairedLosses().beside("logistic", "log loss")
    assert none.sentences() == ("No rows were kept for testing, so nobody knows whether it beats the logistic model.",)
