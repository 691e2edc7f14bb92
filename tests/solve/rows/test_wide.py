"""More columns than rows: answers by their optimality conditions, worked out here from the rows, and against others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import ElasticNet, Ridge

from shoal.models import L1L2
from shoal.solve.least_squares import Standardisation
from shoal.solve.rows.along import follow_wide
from shoal.solve.rows.dense import WideRows
from shoal.solve.rows.wide import solve_wide

Floats = NDArray[np.float64]


def rows_of(X: Floats, y: Floats, intercept: bool = True) -> WideRows:
    spread = X.std(axis=0)
    constant = spread < 1e-12
    scale = np.where(constant, 1.0, spread)
    centre, y_mean = (X.mean(axis=0), float(y.mean())) if intercept else (np.zeros(X.shape[1]), 0.0)
    return WideRows.of((X - centre) / scale, y - y_mean, Standardisation(centre, scale, constant, y_mean, intercept))


def table(kind: str, n: int = 60, p: int = 700) -> tuple[Floats, Floats]:
    random = np.random.default_rng(7)
    X = random.standard_normal((n, p))
    if kind == "chained":
        for j in range(1, p):
            X[:, j] = 0.98 * X[:, j - 1] + 0.2 * X[:, j]
    elif kind == "twins":
        X[:, p // 2 :] = X[:, : p - p // 2]
    elif kind == "near twins":
        X[:, 1::2] = X[:, 0::2] + 1e-4 * X[:, 1::2]
    elif kind == "rare":
        X = (X > 1.7).astype(float)
    elif kind == "far":
        X = X + 1e6
    elif kind == "constant":
        X[:, ::3] = 5.0
    return X, X[:, [1, 100, 500]] @ [3.0, -2.0, 1.0] + random.standard_normal(n)


KINDS = ["plain", "chained", "twins", "near twins", "rare", "far", "constant"]


def broken(X: Floats, y: Floats, w: Floats, penalty: L1L2) -> float:
    """By how much w misses the optimality conditions, as a share of the slope at 0; X and y are standardised."""
    slope = X.T @ (y - X @ w) / len(y) - penalty.l2 * w
    off = np.where(w == 0, np.maximum(np.abs(slope) - penalty.l1, 0), np.abs(slope - penalty.l1 * np.sign(w)))
    return float(off.max() / np.abs(X.T @ y / len(y)).max())


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_every_penalty_meets_its_conditions(kind: str, intercept: bool) -> None:
    rows = rows_of(*table(kind), intercept)
    for share, l2 in [(0.5, 0.0), (0.05, 0.0), (0.005, 0.0), (0.1, 0.3), (0.0, 0.01), (0.0, 10.0)]:
        penalty = L1L2(share * rows.zero_gradient, l2)
        found = solve_wide(rows, penalty)
        assert broken(rows.X, rows.y, found.w, penalty) < 1e-11, (share, l2)
        assert found.certificate.relative < 1e-10
        assert np.count_nonzero(found.w) > 0


@pytest.mark.parametrize("share", [0.3, 0.02])
def test_scikit_learn_gives_the_same(share: float) -> None:
    X, y = table("plain")
    rows = rows_of(X, y)
    alpha = share * rows.zero_gradient
    peer: Any = ElasticNet(alpha=alpha, l1_ratio=0.9, tol=1e-12, max_iter=200_000).fit(rows.X, y)
    assert solve_wide(rows, L1L2(0.9 * alpha, 0.1 * alpha)).w == pytest.approx(peer.coef_, abs=1e-8)
    smooth: Any = Ridge(alpha=share * len(y)).fit(rows.X, y)
    assert solve_wide(rows, L1L2(0.0, share)).w == pytest.approx(smooth.coef_, abs=1e-11)


def test_weights_and_intercept_are_in_the_units_of_the_file() -> None:
    X, y = table("far")
    found = solve_wide(rows_of(X, y), L1L2(0.01, 0.0))
    rows = rows_of(X, y)
    assert X @ found.coef + found.intercept == pytest.approx(rows.y - rows.residual(found.w) + y.mean(), abs=1e-6)


@pytest.mark.parametrize("kind", ["plain", "twins", "rare", "constant"])
def test_without_a_penalty_the_smallest_norm_is_given_and_said(kind: str) -> None:
    rows = rows_of(*table(kind))
    found = solve_wide(rows, L1L2())
    smallest, _, rank, _ = np.linalg.lstsq(rows.X, rows.y, rcond=1e-12)
    assert found.w == pytest.approx(smallest, abs=1e-9)
    assert found.rank == rank
    assert not found.unique
    assert "smallest norm" in found.notes[-1]


def test_twins_are_said_to_share_their_weight() -> None:
    assert solve_wide(rows_of(*table("plain")), L1L2(0.1, 0.0)).unique
    shared = solve_wide(rows_of(*table("twins")), L1L2(0.1, 0.0))
    assert not shared.unique
    assert "share the weight" in shared.notes[-1]


def test_the_points_of_a_path_are_those_of_single_fits() -> None:
    rows = rows_of(*table("chained"))
    l1 = rows.zero_gradient * np.geomspace(1.0, 0.01, 12)
    W = follow_wide(rows, "lasso", l1).W
    assert not W[0].any()
    for w, strength in zip(W, l1.tolist(), strict=True):
        assert broken(rows.X, rows.y, w, L1L2(strength)) < 1e-11
        assert w == pytest.approx(solve_wide(rows, L1L2(strength)).w, abs=1e-9)


def test_a_target_that_no_column_tells_anything_of() -> None:
    X, _ = table("plain")
    found = solve_wide(rows_of(X, np.ones(len(X))), L1L2(0.1, 0.0))
    assert not found.w.any()
    assert found.intercept == 1.0
