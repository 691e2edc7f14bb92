"""Penalties by their optimality conditions, and certificates against gaps computed the long way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shoal.errors import ConfigError
from shoal.models import L1L2, certify, penalty_for, squared_loss
from shoal.settings.when import MODELS

PENALTIES = [L1L2(), L1L2(l2=0.7), L1L2(l1=0.4), L1L2(l1=0.4, l2=0.7)]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_prox_is_where_the_proximal_objective_is_stationary(penalty: L1L2) -> None:
    v, step = np.array([-3.0, -0.1, 0.0, 0.05, 2.0]), 0.5
    w = penalty.prox(v, step)
    assert penalty.optimality_gap(w, (w - v) / step) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_prox_beats_every_neighbour(penalty: L1L2) -> None:
    rng = np.random.default_rng(0)
    v, step = rng.standard_normal(4), 0.3

    def objective(w: np.ndarray) -> float:
        return float(((w - v) ** 2).sum() / 2 + step * penalty.value(w))

    best = objective(penalty.prox(v, step))
    assert all(best <= objective(penalty.prox(v, step) + 0.1 * rng.standard_normal(4)) for _ in range(200))


def test_optimality_gap_is_a_distance_to_the_subdifferential() -> None:
    penalty = L1L2(l1=1.0, l2=2.0)
    assert penalty.optimality_gap(np.array([0.0]), np.array([0.9])) == 0
    assert penalty.optimality_gap(np.array([0.0]), np.array([-1.5])) == 0.5
    assert penalty.optimality_gap(np.array([3.0]), np.array([-7.0])) == 0
    assert penalty.optimality_gap(np.array([-3.0]), np.array([6.0])) == 1
    assert penalty.optimality_gap(np.zeros(0), np.zeros(0)) == 0


def test_alpha_means_what_scikit_learn_means() -> None:
    assert penalty_for("linear", 5.0, 0.5, 10) == L1L2()
    assert penalty_for("ridge", 5.0, 0.5, 10) == L1L2(l2=0.5)
    assert penalty_for("lasso", 5.0, 0.5, 10) == L1L2(l1=5.0)
    assert penalty_for("elasticnet", 5.0, 0.2, 10) == L1L2(l1=1.0, l2=4.0)


@pytest.mark.parametrize(
    ("model", "alpha", "l1_ratio", "word"),
    [
        ("logistic", 1.0, 0.5, "model"),
        ("ridge", -1.0, 0.5, "alpha"),
        ("lasso", math.nan, 0.5, "alpha"),
        ("lasso", math.inf, 0.5, "alpha"),
        ("elasticnet", 1.0, 1.5, "l1_ratio"),
        ("elasticnet", 1.0, math.nan, "l1_ratio"),
    ],
)
def test_a_wrong_knob_is_named_with_what_to_do(model: str, alpha: float, l1_ratio: float, word: str) -> None:
    with pytest.raises(ConfigError, match=f"Expected.*{word}.*got.*(Give|Choose)"):
        penalty_for(model, alpha, l1_ratio, 10)
    assert "ridge" in MODELS


@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_duality_gap_equals_primal_minus_dual_computed_from_rows(l2: float) -> None:
    rng = np.random.default_rng(1)
    X, y, w = rng.standard_normal((30, 4)), rng.standard_normal(30), np.array([0.3, 0.0, -0.1, 0.0])
    penalty, n, r = L1L2(l1=0.05, l2=l2), 30, y - X @ w
    got = certify(penalty, w, -X.T @ r / n, r @ r, n, y_scatter=y @ y, zero_gradient=1.0, rests_on="data")
    A, b = np.vstack((X, np.sqrt(n * l2) * np.eye(4))), np.append(y, np.zeros(4))
    residual = b - A @ w
    dual = residual * min(1, n * penalty.l1 / np.abs(A.T @ residual).max())
    gap = squared_loss(r @ r, n) + penalty.value(w) - (b @ b - (b - dual) @ (b - dual)) / (2 * n)
    assert got.kind == "duality_gap"
    assert got.value == pytest.approx(gap, rel=1e-12)
    assert got.relative == pytest.approx(gap / (y @ y / (2 * n)), rel=1e-12)


def test_without_an_l1_term_the_certificate_is_the_kkt_residual() -> None:
    got = certify(
        L1L2(l2=2.0),
        np.array([1.0, -1.0]),
        np.array([-2.0, 2.5]),
        1.0,
        10,
        y_scatter=1.0,
        zero_gradient=5.0,
        rests_on="moments",
    )
    assert (got.kind, got.value, got.relative, got.rests_on) == ("kkt", 0.5, 0.1, "moments")


def test_a_certificate_for_a_target_of_zeros_is_finite() -> None:
    for penalty in PENALTIES:
        got = certify(penalty, np.zeros(2), np.zeros(2), 0.0, 5, y_scatter=0.0, zero_gradient=0.0, rests_on="data")
        assert (got.value, got.relative) == (0, 0)
