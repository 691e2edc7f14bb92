"""What the coefficients of a linear model are worth: standard errors, t, p, intervals, F."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.solve.distributions import f_tail, student_quantile, student_tail
from shoal.solve.least_squares import LeastSquares
from shoal.solve.paths import Solution
from shoal.solve.smooth import safe_inverse, triangular, unit_columns


@dataclass(frozen=True, eq=False)
class Estimates:
    """Values with their standard error, t = value / std_error, two-sided p-value and confidence interval."""

    value: Array
    std_error: Array
    t: Array
    p_value: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Inference:
    """Of a linear model in the units of the file: coef (p,), intercept (1,) or None; NaN if undefined."""

    coef: Estimates
    intercept: Estimates | None
    confidence: float
    residual_sd: float
    residual_df: float
    f: float
    f_p_value: float
    r2: float
    adjusted_r2: float


def inference(problem: LeastSquares, solution: Solution, confidence: float = 0.95) -> Inference:
    """Standard errors from R^-1, never from an inverted Gram matrix; for unpenalised models only."""
    rank, rss = solution.rank, problem.rss(solution.w)
    df = problem.n - rank - problem.units.intercept
    fitted = problem.R @ solution.w
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.float64(rss) / df if df > 0 else np.float64("nan")
        f = np.float64(fitted @ fitted) / rank / variance if rank else np.float64("nan")
        r2 = 1 - np.float64(rss) / problem.y_scatter
        adjusted = 1 - (1 - r2) * (problem.n - problem.units.intercept) / df if df > 0 else np.float64("nan")
    leverage, at_mean = leverages(problem)
    sd = float(np.sqrt(variance))
    coef = estimates_of(solution.coef, sd * leverage / problem.units.scale, df, confidence)
    intercept = None
    if problem.units.intercept:
        intercept = estimates_of(np.array([solution.intercept]), np.array([sd * at_mean]), df, confidence)
    p_value = f_tail(rank, df, float(f)) if np.isfinite(f) else (0.0 if f > 0 else float("nan"))
    return Inference(coef, intercept, confidence, sd, df, float(f), p_value, float(r2), float(adjusted))


def with_errors(found: Inference, coef: Array, intercept: float) -> Inference:
    """The same with other standard errors of the coefficients (p,) and the intercept, and what follows from them."""
    df, confidence = found.residual_df, found.confidence
    own = estimates_of(found.coef.value, coef, df, confidence)
    if found.intercept is None:
        return replace(found, coef=own)
    return replace(
        found, coef=own, intercept=estimates_of(found.intercept.value, np.array([intercept]), df, confidence)
    )


@dataclass(frozen=True, eq=False)
class Bread:
    """The inverse of A = sum h u u' of a fit, u = (1, (x - centre) / scale) in its units: A^-1 = root root', where
    columns that do not vary are left out."""

    problem: LeastSquares
    root: Array
    live: NDArray[np.bool_]

    @classmethod
    def of(cls, problem: LeastSquares, weight: float | None = None) -> Bread | None:
        """`weight` is the sum of h where it is not that of rows; None where columns depend on one another."""
        live = problem.norms > 0
        T, _ = triangular(problem, 0.0, live)
        unit, norms = unit_columns(T)
        inverse = safe_inverse(unit, problem.floor)
        if inverse is None:
            return None
        lead, p = int(problem.units.intercept), len(norms)
        root = np.zeros((lead + p, lead + p))
        root[lead:, lead:] = inverse / norms[:, None]
        if lead:
            root[0, 0] = 1 / np.sqrt(weight or problem.n)
        return cls(problem, root, live)

    def errors(self, meat: Array) -> tuple[Array, float]:
        """Standard errors of the coefficients (p,) and of the intercept, in the units of the file."""
        units, lead = self.problem.units, int(self.problem.units.intercept)
        inverse = self.root @ self.root.T
        V = inverse @ meat @ inverse
        coef = np.full(len(self.live), np.nan)
        coef[self.live] = np.sqrt(np.diag(V)[lead:]) / units.scale[self.live]
        if not lead:
            return coef, float("nan")
        towards = np.append(1.0, -(units.centre / units.scale)[self.live])
        return coef, float(np.sqrt(towards @ V @ towards))


def variance_inflation(problem: LeastSquares) -> Array:
    """1 / (1 - R2) of each column regressed on the others: how much they inflate the variance of its coefficient.

    NaN for a column that does not vary or that the others determine.
    """
    leverage, _ = leverages(problem)
    inflated: Array = (leverage * problem.norms) ** 2
    return inflated


def leverages(problem: LeastSquares, weight: float | None = None) -> tuple[Array, float]:
    """Standard errors for a residual SD of 1: of w (p,) and of the intercept; NaN where not determined.

    `weight` is the sum of the rows' weights where they are not all 1.
    """
    live = problem.norms > 0
    T, _ = triangular(problem, 0.0, live)
    unit, norms = unit_columns(T)
    centre = (problem.units.centre / problem.units.scale)[live] / norms
    inverse, free = safe_inverse(unit, problem.floor), np.zeros((0, len(norms)))
    if inverse is None:
        U, s, Vt = np.linalg.svd(unit)
        r = int((s > problem.floor * s.max(initial=0.0)).sum())
        inverse, free = Vt[:r].T / s[:r] @ U.T[:r], Vt[r:]
    leverage = np.full(len(live), np.nan)
    determined = np.sqrt((free**2).sum(axis=0)) < 1e-8
    leverage[live] = np.where(determined, np.sqrt((inverse**2).sum(axis=1)) / norms, np.nan)
    fixed = np.linalg.norm(free @ centre) <= 1e-8 * np.linalg.norm(centre)
    at_zero = np.sqrt(1 / (weight or problem.n) + ((centre @ inverse) ** 2).sum())
    return leverage, float(at_zero) if fixed else float("nan")


def estimates_of(value: Array, std_error: Array, df: float, confidence: float) -> Estimates:
    with np.errstate(divide="ignore", invalid="ignore"):
        t = value / std_error
    tail = student_tail(df, t) if df > 0 else np.full_like(t, np.nan)
    half = std_error * (student_quantile(df, (1 + confidence) / 2) if df > 0 else np.nan)
    return Estimates(value, std_error, t, 2 * tail, value - half, value + half)
