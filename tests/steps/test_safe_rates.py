"""Learning rates that do not diverge: bounds of the curvature of batches, and of stale gradients."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.models import L1L2
from shoal.steps.optimizers import (
    SGD,
    STEP_RULES,
    Accelerated,
    AdaGrad,
    Adam,
    Momentum,
    StepRule,
    batch_curvature,
    stale_rate,
)
from support.steps.problems import RULES, kind_of, loss_of, scale_of, table, top_of


def stepped(
    rule: StepRule, X: np.ndarray, y: np.ndarray, batch: int, penalty: L1L2, faster: float = 1.0
) -> list[float]:
    """Losses of all rows after every step: batches are slices of shuffled rows, in a new order every epoch."""
    n, p = X.shape
    rng = np.random.default_rng(7)
    rows = rng.permutation(n)
    curvature = batch_curvature(n, batch, top_of(X), float((X**2).sum(axis=1).max()))
    rate, w, loss = faster * rule.safe_rate(curvature, scale_of(X, y)), np.zeros(p), loss_of(X, y, penalty)
    losses = [loss(w)]
    for _ in range(5 if batch < n else 100):
        for i in rng.permutation(n // batch):
            taken = rows[i * batch : (i + 1) * batch]
            w = rule.step(w, X[taken].T @ (X[taken] @ w - y[taken]) / batch, rate, penalty.prox)
            losses.append(loss(w))
            if losses[-1] > 1e6 * losses[0]:
                return losses
    return losses


@pytest.mark.parametrize("kind", ["plain", "alike", "leverage", "outlier", "wide"])
@pytest.mark.parametrize("batch", [1, 8, 0], ids=["1", "8", "all"])
@pytest.mark.parametrize("rule", STEP_RULES.values(), ids=kind_of)
def test_the_safe_rate_does_not_diverge(rule: type[StepRule], batch: int, kind: str) -> None:
    for seed, penalty in enumerate((L1L2(), L1L2(l1=0.05, l2=0.01))):
        X, y = table(kind, seed)
        losses = stepped(rule(X.shape[1]), X, y, batch or len(y), penalty)
        best = float(((y - X @ np.linalg.lstsq(X, y)[0]) ** 2).mean() / 2)
        late = float(np.mean(losses[-max(1, len(y) // (batch or len(y))) :]))
        assert max(losses) < 3 * losses[0]
        assert late < losses[0]
        if kind == "plain":
            assert late - best < 0.35 * (losses[0] - best)


@pytest.mark.parametrize(("rule", "faster"), [(SGD, 3), (Momentum, 45), (AdaGrad, 100), (Adam, 1000)], ids=kind_of)
def test_rates_that_are_much_higher_do(rule: type[StepRule], faster: float) -> None:
    """Or the test above could not fail."""
    X, y = table("alike")
    losses = stepped(rule(20), X, y, len(y), L1L2(), faster)
    assert max(losses) > 3 * losses[0]


@pytest.mark.parametrize("rule", [SGD, Momentum], ids=kind_of)
@pytest.mark.parametrize("kind", ["leverage", "outlier"])
def test_the_batch_has_a_part_in_the_curvature(rule: type[StepRule], kind: str) -> None:
    """With the rate of a full batch, one row of large leverage breaks a run of single rows."""
    X, y = table(kind)
    too_fast = float((X**2).sum(axis=1).max()) / top_of(X)
    assert max(stepped(rule(20), X, y, 1, L1L2(), too_fast)) > 1e6 * float((y**2).mean() / 2)


def test_safe_rates() -> None:
    assert SGD(3).safe_rate(4.0, 7.0) == 0.25
    assert Momentum(3, 0.75).safe_rate(4.0, 7.0) == 0.0625
    assert AdaGrad(3).safe_rate(4.0, 8.0) == 2.0
    assert Adam(3, 0.75).safe_rate(4.0, 8.0) == 0.5
    assert Accelerated(3).safe_rate(4.0, 7.0) == 0.25


@pytest.mark.parametrize("rule", RULES, ids=kind_of)
@pytest.mark.parametrize(("curvature", "scale"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_safe_rates_without_data_to_go_by(rule: type[StepRule], curvature: float, scale: float) -> None:
    assert 0 < rule(2).safe_rate(curvature, scale) < math.inf


@pytest.mark.parametrize("batch", [1, 2, 4, 7, 8])
def test_batch_curvature_bounds_all_batches_there_are(batch: int) -> None:
    """E[H_B^2] over every subset of 8 rows: no eigenvalue of L H - E[H_B^2] is negative, and half of L is not enough."""
    X = np.random.default_rng(2).standard_normal((8, 3)) * np.array([[4.0]] + [[1.0]] * 7)
    subsets = list(itertools.combinations(range(8), batch))
    hessians = [X[list(s)].T @ X[list(s)] / batch for s in subsets]
    second, mean = sum(h @ h for h in hessians) / len(subsets), X.T @ X / 8
    L = batch_curvature(8, batch, top_of(X), float((X**2).sum(axis=1).max()))
    assert np.linalg.eigvalsh(L * mean - second)[0] > -1e-9
    assert np.linalg.eigvalsh(L / 2 * mean - second)[0] < 0


def test_batch_curvature_at_the_ends() -> None:
    assert batch_curvature(100, 1, 3.0, 50.0) == pytest.approx(50.0)
    assert batch_curvature(100, 100, 3.0, 50.0) == 3.0
    assert batch_curvature(100, 1000, 3.0, 50.0) == 3.0
    assert batch_curvature(100, 0, 3.0, 50.0) == pytest.approx(50.0)
    assert batch_curvature(1, 1, 3.0, 3.0) == 3.0


@given(st.integers(2, 10**7), st.floats(1e-3, 1e3), st.floats(1, 1e6), st.data())
def test_batch_curvature_falls_with_the_batch(n: int, top: float, ratio: float, data: st.DataObject) -> None:
    small = data.draw(st.integers(1, n - 1))
    large = data.draw(st.integers(small, n))
    one, two = (batch_curvature(n, b, top, ratio * top) for b in (small, large))
    assert top * (1 - 1e-12) <= two <= one * (1 + 1e-12)
    assert one <= ratio * top * (1 + 1e-12)


def delayed(rate: float, delay: int) -> float:
    """|w| after many steps on w^2 / 2 whose gradients are `delay` versions old."""
    w = [1.0] * (delay + 1)
    for _ in range(400 * (delay + 1)):
        w.append(w[-1] - rate * w[-1 - delay])
        if abs(w[-1]) > 1e9:
            break
    return max(abs(value) for value in w[-delay - 1 :])


@pytest.mark.parametrize("delay", [1, 2, 3, 7, 20])
def test_stale_rates_are_stable_at_that_delay(delay: int) -> None:
    assert delayed(stale_rate(1.0, delay), delay) < 1e-6
    assert delay < 2 or delayed(1.0, delay) > 1e6


def test_stale_rates() -> None:
    assert [stale_rate(0.5, s) for s in (0, 1, 1.5, 4)] == [0.5, 0.25, 0.2, 0.1]
    assert stale_rate(0.5, -1) == 0.5
