"""Step rules by where they come to rest (scikit-learn, closed forms), by their formulas, and by not diverging."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import ElasticNet, Ridge, lars_path_gram

from shoal.errors import ConfigError, StateError
from shoal.models import L1L2
from shoal.steps.optimizers import (
    SCHEDULES,
    SGD,
    STEP_RULES,
    Accelerated,
    AdaGrad,
    Adam,
    Momentum,
    StepRule,
    batch_curvature,
    clipped,
    schedule,
    stale_rate,
)

RULES = [*STEP_RULES.values(), Accelerated]
EPS = float(np.finfo(np.float64).eps)
PENALTIES = [L1L2(), L1L2(l2=0.05), L1L2(l1=0.1), L1L2(l1=0.1, l2=0.05)]


def kind_of(value: object) -> str:
    return getattr(value, "name", None) or str(value)


def table(kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Standardised X (n, p) and centred y (n,)."""
    rng = np.random.default_rng(seed)
    n, p = (40, 80) if kind == "wide" else (160, 20)
    X = rng.standard_normal((n, p))
    if kind == "alike":  # correlations of .99
        X = math.sqrt(0.99) * rng.standard_normal((n, 1)) + 0.1 * X
    if kind == "leverage":
        X[17] *= 1000
    if kind == "outlier":
        X[17, 3] = 1e4
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = X @ rng.standard_normal(p) + 2 * rng.standard_normal(n)
    return X, y - y.mean()


def top_of(X: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(X.T @ X / len(X))[-1])


def scale_of(X: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(X.T @ y).max() / len(y))


def loss_of(X: np.ndarray, y: np.ndarray, penalty: L1L2) -> Callable[[np.ndarray], float]:
    def loss(w: np.ndarray) -> float:
        return float(((y - X @ w) ** 2).mean() / 2 + penalty.l1 * np.abs(w).sum() + penalty.l2 / 2 * (w**2).sum())

    return loss


def descended(
    rule: StepRule, X: np.ndarray, y: np.ndarray, penalty: L1L2, steps: int, fading: bool = False
) -> np.ndarray:
    """Full gradients at the safe rate, as a server would take them."""
    rate, w = rule.safe_rate(top_of(X), scale_of(X, y)), np.zeros(X.shape[1])
    for i in range(steps):
        share = (1 + math.cos(math.pi * i / steps)) / 2 if fading else 1.0
        w = rule.step(w, X.T @ (X @ rule.query(w) - y) / len(y), share * rate, penalty.prox)
    return w


def reference(X: np.ndarray, y: np.ndarray, penalty: L1L2) -> np.ndarray:
    """By scikit-learn: Cholesky without an L1 term, coordinate descent with it."""
    n = len(y)
    if penalty.l1 == 0:
        return Ridge(alpha=n * penalty.l2, fit_intercept=False, solver="svd").fit(X, y).coef_
    alpha = penalty.l1 + penalty.l2
    model = ElasticNet(alpha=alpha, l1_ratio=penalty.l1 / alpha, fit_intercept=False, tol=1e-15, max_iter=10**6)
    return model.fit(X, y).coef_


# Where rules come to rest


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize(
    ("rule", "steps", "fading", "close"),
    [(SGD, 800, False, 1e-7), (Momentum, 6000, False, 1e-7), (AdaGrad, 3000, False, 1e-7), (Adam, 3000, True, 1e-4), (Accelerated, 400, False, 1e-7)],
    ids=kind_of,
)  # fmt: skip
def test_every_rule_rests_at_the_minimum_of_loss_and_penalty(
    rule: type[StepRule], steps: int, fading: bool, close: float, penalty: L1L2
) -> None:
    X, y = table("plain")
    w = descended(rule(20), X, y, penalty, steps, fading)
    assert w == pytest.approx(reference(X, y, penalty), abs=close)


@pytest.mark.parametrize("rule", RULES, ids=kind_of)
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_a_step_from_the_minimum_leads_nowhere(rule: type[StepRule], penalty: L1L2) -> None:
    """Diagonal Xs: the minimum is soft(c, l1) / (1 + l2), so the gradient there is that minus c."""
    c = np.array([2.0, -0.05, 0.5, -3.0])
    best = np.sign(c) * np.maximum(np.abs(c) - penalty.l1, 0) / (1 + penalty.l2)
    stepper, w = rule(4), best
    for _ in range(50):
        w = stepper.step(w, stepper.query(w) - c, 0.1, penalty.prox)
    assert w == pytest.approx(best, abs=1e-7 if penalty.l1 == penalty.l2 == 0 else 1e-12)


# The finish phase


def finished(X: np.ndarray, y: np.ndarray, penalty: L1L2, most: int) -> tuple[np.ndarray, int]:
    """Accelerated steps until the optimality conditions hold to rounding, judged here and not by the product."""
    n, top, scale = len(y), top_of(X), scale_of(X, y)
    rule, w = Accelerated(X.shape[1]), np.zeros(X.shape[1])
    rate = rule.safe_rate(top, scale)
    for i in range(most):
        w = rule.step(w, X.T @ (X @ rule.query(w) - y) / n, rate, penalty.prox)
        slope = X.T @ (X @ w - y) / n + penalty.l2 * w
        broken = np.where(w == 0, np.maximum(np.abs(slope) - penalty.l1, 0), np.abs(slope + penalty.l1 * np.sign(w)))
        if broken.max() <= 2 * EPS * (top * np.abs(w).max() + scale):  # less than half a unit in the last place of w
            return w, i
    pytest.fail(f"after {most} steps the optimality conditions are off by {broken.max():.1e}")


def ill_scaled(kind: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = table("alike" if kind == "alike" else "wide" if kind == "wide" else "plain", 5)
    if kind == "scales":
        X = X * 10.0 ** np.linspace(-1.25, 1.25, X.shape[1])
    if kind == "powers":
        x = np.linspace(-1, 1, len(y))
        X = np.column_stack([x**k for k in range(1, 7)])
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, y


@pytest.mark.parametrize("penalty", [L1L2(l1=0.05), L1L2(l1=0.05, l2=0.01), L1L2(l2=0.003)], ids=str)
@pytest.mark.parametrize("kind", ["scales", "alike", "powers", "wide"])
def test_accelerated_reaches_the_minimum_to_rounding(kind: str, penalty: L1L2) -> None:
    """Against the least squares solution on LARS's support (with signs), solved by LAPACK."""
    X, y = ill_scaled(kind)
    n, p = X.shape
    w, _ = finished(X, y, penalty, 60_000)
    gram, cross = X.T @ X + n * penalty.l2 * np.eye(p), X.T @ y
    signs = np.ones(p)
    if penalty.l1:
        path = lars_path_gram(cross, gram, n_samples=n, alpha_min=penalty.l1, method="lasso", max_iter=10 * p)
        signs = np.sign(path[2][:, -1])
    on = signs != 0
    assert np.array_equal(w != 0, on)
    best = np.zeros(p)
    block = gram[np.ix_(on, on)]
    best[on] = np.linalg.solve(block, cross[on] - n * penalty.l1 * signs[on])
    condition = top_of(X) * n / np.linalg.eigvalsh(block)[0]
    assert np.abs(w - best).max() <= 40 * EPS * condition * np.abs(best).max()
    loss = loss_of(X, y, penalty)
    assert loss(w) <= loss(best) * (1 + 1e-14)


def test_acceleration_and_restart_take_far_fewer_steps() -> None:
    """Condition 10^4 in closed form: plain steps shrink the slowest error by 1 - 10^-4 each, 3 * 10^5 of them to rounding."""
    D = np.sqrt(np.array([1e-4, 1e-3, 0.02, 0.3, 1.0]) * 5)
    X, y = np.diag(D), np.array([1.0, -2.0, 3.0, 1.5, -1.0])
    w, steps = finished(X, y, L1L2(), 20_000)
    assert w == pytest.approx(y / D, rel=4e4 * EPS)
    assert steps < 6000


def test_restart_after_an_overshoot() -> None:
    """On one coordinate the lead must bring w past the minimum; from there t begins again at 1."""
    rule, w, times = Accelerated(1), np.array([1.0]), []
    for _ in range(60):
        w = rule.step(w, 0.05 * rule.query(w), 1.0, L1L2().prox)
        times.append(float(rule.state()["t"][0]))
    assert 1.0 in times
    assert max(times) > 5
    assert abs(w[0]) < 1e-2


def test_query_is_the_extrapolated_point() -> None:
    rule, w, free = Accelerated(2), np.array([4.0, -2.0]), L1L2().prox
    assert np.array_equal(rule.query(w), w)
    one = rule.step(w, w, 0.1, free)  # t: 1 -> 1.618, lead 0
    assert np.array_equal(rule.query(one), one)
    two = rule.step(one, one, 0.1, free)
    t1 = (1 + math.sqrt(5)) / 2
    t2 = (1 + math.sqrt(1 + 4 * t1**2)) / 2
    assert rule.query(two) == pytest.approx(two + (t1 - 1) / t2 * (two - one), rel=1e-15)


@pytest.mark.parametrize("rule", STEP_RULES.values(), ids=kind_of)
def test_the_other_rules_want_the_gradient_at_the_weights(rule: type[StepRule]) -> None:
    w = np.array([1.0, 2.0])
    stepper = rule(2)
    assert stepper.query(stepper.step(w, w, 0.1, L1L2().prox)).shape == (2,)
    assert stepper.query(w) is w


# The formulas, one coordinate at a time in plain Python


def textbook(name: str, w: float, gradients: list[float], rate: float, beta: float) -> float:
    v = s = m = 0.0
    for t, g in enumerate(gradients, 1):
        if name == "sgd":
            w -= rate * g
        elif name == "momentum":  # without a penalty the sum of gradients is the same thing
            v = beta * v + g
            w -= rate * v
        elif name == "adagrad":
            s += g * g
            w -= rate * g / math.sqrt(s)
        else:
            m, s = beta * m + (1 - beta) * g, 0.999 * s + 0.001 * g * g
            w -= rate * (m / (1 - beta**t)) / math.sqrt(s / (1 - 0.999**t))
    return w


@pytest.mark.parametrize("rule", STEP_RULES.values(), ids=kind_of)
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.95])
def test_formulas(rule: type[StepRule], beta: float) -> None:
    gradients = np.random.default_rng(1).standard_normal((30, 6))
    stepper, w = rule(6, beta), np.linspace(-1, 1, 6)
    for gradient in gradients:
        w = stepper.step(w, gradient, 0.03, L1L2().prox)
    expected = [
        textbook(rule.name, start, gradients[:, j].tolist(), 0.03, beta)
        for j, start in enumerate(np.linspace(-1, 1, 6))
    ]
    assert w == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("rule", [AdaGrad, Adam], ids=kind_of)
def test_adaptive_rules_give_the_penalty_a_step_per_coordinate(rule: type[StepRule]) -> None:
    """First step: s = rate / |g|, direction g; so soft(w - rate sign(g), rate l1 / |g|) / (1 + rate l2 / |g|)."""
    w, g, penalty, rate = np.array([1.0, -1.0, 0.2]), np.array([0.5, -8.0, 100.0]), L1L2(0.3, 0.7), 0.25
    moved, steps = w - rate * np.sign(g), rate / np.abs(g)
    expected = np.sign(moved) * np.maximum(np.abs(moved) - steps * 0.3, 0) / (1 + steps * 0.7)
    assert rule(3).step(w, g, rate, penalty.prox) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("rule", RULES, ids=kind_of)
@pytest.mark.parametrize("unit", [2.0**-400, 2.0**-60, 2.0**60, 2.0**400])
def test_the_unit_of_the_target_does_not_matter(rule: type[StepRule], unit: float) -> None:
    X, y = table("plain")
    near = descended(rule(20), X, y, L1L2(l1=0.1, l2=0.05), 40)
    far = descended(rule(20), X, unit * y, L1L2(l1=0.1 * unit, l2=0.05), 40)
    assert far / unit == pytest.approx(near, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=kind_of)
def test_columns_without_gradient_do_no_harm(rule: type[StepRule]) -> None:
    stepper, w = rule(3), np.array([0.0, 1.0, -1.0])
    for _ in range(30):
        w = stepper.step(w, stepper.query(w) * [0.0, 1.0, 1.0], 0.1, L1L2(l1=0.1, l2=0.1).prox)
    assert w[0] == 0
    assert np.isfinite(w).all()
    still = rule(2).step(np.array([1.0, 2.0]), np.zeros(2), 0.1, L1L2().prox)
    assert still.tolist() == [1.0, 2.0]


# Rates that do not diverge


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


# State


def noisy(rule: StepRule, w: np.ndarray, first: int, last: int) -> np.ndarray:
    X, y = table("plain", 3)
    for i in range(first, last):
        taken = np.random.default_rng(i).choice(160, 8, replace=False)
        gradient = X[taken].T @ (X[taken] @ rule.query(w) - y[taken]) / 8
        w = rule.step(w, gradient, 0.01, L1L2(l1=0.02, l2=0.01).prox)
    return w


@pytest.mark.parametrize("rule", RULES, ids=kind_of)
def test_a_restored_rule_goes_on_with_the_same_bits(rule: type[StepRule]) -> None:
    whole = noisy(rule(20, 0.8), np.zeros(20), 0, 20)
    first = rule(20, 0.8)
    half = noisy(first, np.zeros(20), 0, 10)
    state = first.state()
    noisy(first, half, 10, 12)  # must not change what was taken from it
    assert all(array.dtype in (np.float64, np.int64) and array.ndim == 1 for array in state.values())
    second = rule(20, 0.8)
    noisy(second, np.ones(20), 0, 5)
    second.restore(state)
    kept = {name: array.tobytes() for name, array in state.items()}
    assert noisy(second, half, 10, 20).tobytes() == whole.tobytes()
    assert {name: array.tobytes() for name, array in state.items()} == kept
    assert not state or noisy(rule(20, 0.8), half, 10, 20).tobytes() != whole.tobytes()


@pytest.mark.parametrize("rule", RULES, ids=kind_of)
def test_reset_forgets(rule: type[StepRule]) -> None:
    used = rule(20)
    noisy(used, np.zeros(20), 0, 10)
    used.reset()
    assert noisy(used, np.zeros(20), 0, 10).tobytes() == noisy(rule(20), np.zeros(20), 0, 10).tobytes()


@pytest.mark.parametrize("rule", RULES, ids=kind_of)
def test_inputs_are_left_alone(rule: type[StepRule]) -> None:
    stepper = rule(3)
    w, g = np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.1, -0.2])
    w.flags.writeable = g.flags.writeable = False
    new = stepper.step(w, g, 0.1, L1L2(l1=0.1).prox)
    before = stepper.query(new).copy()
    new_again = new + 0
    new[:] = 7.0  # a caller may reuse its arrays
    assert np.array_equal(stepper.query(new_again), before)


def test_states_of_another_rule_or_width_are_refused() -> None:
    with pytest.raises(StateError, match=r"'adam' for 3 weights .* or start anew"):
        Adam(3).restore(Momentum(3).state())
    with pytest.raises(StateError, match=r"'momentum' for 3 weights"):
        Momentum(3).restore(Momentum(4).state())
    with pytest.raises(StateError, match=r"'sgd'"):
        SGD(3).restore(AdaGrad(3).state())


@pytest.mark.parametrize("rule", RULES, ids=kind_of)
def test_a_gradient_that_is_not_finite_shows_in_the_weights(rule: type[StepRule]) -> None:
    for bad in (math.nan, math.inf):
        new = rule(3).step(np.ones(3), np.array([1.0, bad, 1.0]), 0.1, L1L2(l1=0.1, l2=0.1).prox)
        assert not math.isfinite(new[1])


@pytest.mark.parametrize("rule", RULES, ids=kind_of)
def test_gradients_of_any_size_pass(rule: type[StepRule]) -> None:
    for size in (1e-320, 1e-160, 1e160, 1e305):
        stepper, w = rule(3), np.ones(3)
        for _ in range(5):
            w = stepper.step(w, np.array([size, -size, size / 3]), 1e-3, L1L2().prox)
        assert np.isfinite(w).all()


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 2.0, math.nan])
def test_momentum_that_makes_no_sense(momentum: float) -> None:
    with pytest.raises(ConfigError, match=r"momentum to be at least 0 and less than 1, got"):
        Momentum(3, momentum)


def test_names() -> None:
    assert [rule.name for rule in STEP_RULES.values()] == list(STEP_RULES) == ["sgd", "momentum", "adagrad", "adam"]


# Clipping


@given(arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e308, 1e308)), st.floats(1e-3, 1e6))
def test_clipping_by_the_norm(gradient: np.ndarray, limit: float) -> None:
    result, length = clipped(gradient, limit), math.hypot(*gradient)
    if length <= limit * (1 - 1e-12):
        assert np.array_equal(result, gradient)
    elif length >= limit * (1 + 1e-12):
        assert math.hypot(*result) == pytest.approx(limit, rel=1e-12)
        largest = int(np.abs(gradient).argmax())
        assert result == pytest.approx(gradient / gradient[largest] * result[largest], rel=1e-9, abs=1e-300)


def test_clipping_at_the_edges() -> None:
    gradient = np.array([3.0, 4.0])
    assert clipped(gradient, 0) is gradient
    assert clipped(gradient, 5.0).tolist() == [3.0, 4.0]
    assert clipped(gradient, 1.0) == pytest.approx(np.array([0.6, 0.8]), rel=1e-15)
    assert clipped(np.zeros(2), 1.0).tolist() == [0.0, 0.0]
    assert np.isnan(clipped(np.array([1.0, math.nan]), 0.5)).any()
    assert np.isinf(clipped(np.array([1.0, math.inf]), 0.5)).any()


# Schedules


def rate_at(name: str, epoch: float, **knobs: float) -> float:
    known = {"epochs": 20, "warmup": 0.0, "decay": 0.25, "decay_every": 5.0, **knobs}
    return schedule(name, 2.0, epoch=epoch, **known)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("constant", [2.0, 2.0, 2.0, 2.0, 2.0]),
        ("step", [2.0, 2.0, 0.5, 0.125, 2 * 0.25**4]),
        ("exponential", [2.0, 1.0, 0.5, 0.125, 2 * 0.25**4]),
        ("inverse", [2.0, 2 / 2.5, 0.5, 2 / 7, 2 / 13]),
        ("cosine", [2.0, 1 + math.cos(math.pi / 8), 1 + math.cos(math.pi / 4), 1.0, 0.0]),
    ],
)
def test_schedules_at_epochs_0_2_5_5_10_and_20(name: str, expected: list[float]) -> None:
    assert [rate_at(name, epoch) for epoch in (0, 2.5, 5, 10, 20)] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", SCHEDULES)
def test_warm_up_comes_first_and_then_the_schedule(name: str) -> None:
    rates = [rate_at(name, epoch, warmup=4.0) for epoch in (0, 1, 2, 3)]
    assert rates == pytest.approx([0.2, 0.65, 1.1, 1.55])
    late = rate_at(name, 4 + 3.3, warmup=4.0, epochs=24)
    assert late == pytest.approx(rate_at(name, 3.3))


@given(
    st.sampled_from(SCHEDULES),
    st.floats(0, 50),
    st.floats(0, 50),
    st.floats(0, 30),
    st.floats(1e-3, 1),
    st.floats(0.1, 20),
)
def test_schedules_stay_between_0_and_the_rate_and_fall_after_warm_up(
    name: str, one: float, other: float, warmup: float, decay: float, every: float
) -> None:
    knobs = {"warmup": warmup, "decay": decay, "decay_every": every}
    early, late = (rate_at(name, epoch, **knobs) for epoch in sorted((one, other)))
    assert 0 <= late <= 2
    assert 0 <= early <= 2
    assert early >= late * (1 - 1e-12) or min(one, other) < warmup


def test_a_warm_up_as_long_as_the_run() -> None:
    assert rate_at("cosine", 20, warmup=20.0) == 2.0
    assert rate_at("cosine", 10, warmup=20.0) == pytest.approx(1.1)


@pytest.mark.parametrize("knobs", [{"decay": 0.0}, {"decay": 1.5}, {"decay": math.nan}, {"decay_every": 0.0}])
def test_decays_that_make_no_sense(knobs: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"decay to be more than 0 and at most 1"):
        rate_at("step", 1.0, **knobs)


def test_unknown_schedules() -> None:
    with pytest.raises(ConfigError, match=r"constant, step, exponential, cosine, inverse, got 'linear'"):
        rate_at("linear", 1.0)


@settings(max_examples=30)
@given(st.sampled_from(RULES), st.integers(0, 10**6))
def test_the_same_inputs_give_the_same_bits(rule: type[StepRule], seed: int) -> None:
    gradients = np.random.default_rng(seed).standard_normal((6, 33))
    found = []
    for shift in (0, 1):  # another place in memory
        stepper, w = rule(33), np.zeros(34)[shift : shift + 33]
        for gradient in gradients:
            moved = np.zeros(35)[shift : shift + 33]
            moved[:] = gradient
            w = stepper.step(w, moved, 0.1, L1L2(l1=0.01, l2=0.01).prox)
        found.append(w.tobytes())
    assert found[0] == found[1]
