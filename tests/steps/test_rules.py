"""Step rules: where they come to rest, the finish, their formulas by hand, and their state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import ElasticNet, Ridge, lars_path_gram

from shoal.errors import ConfigError, StateError
from shoal.models import L1L2
from shoal.steps.optimizers import SGD, STEP_RULES, Accelerated, AdaGrad, Adam, AdamW, Momentum, StepRule
from support.steps.problems import RULES, kind_of, loss_of, scale_of, table, top_of

EPS = float(np.finfo(np.float64).eps)
PENALTIES = [L1L2(), L1L2(l2=0.05), L1L2(l1=0.1), L1L2(l1=0.1, l2=0.05)]


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


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule is not AdamW], ids=kind_of)  # that one is PyTorch's
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
    assert (
        [rule.name for rule in STEP_RULES.values()]
        == list(STEP_RULES)
        == ["sgd", "momentum", "adagrad", "adam", "adamw"]
    )


# Schedules


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
