"""Small least-squares problems that step rules descend on, and what is known of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from shoal.models import L1L2
from shoal.steps.optimizers import STEP_RULES, Accelerated

RULES = [*STEP_RULES.values(), Accelerated]


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
