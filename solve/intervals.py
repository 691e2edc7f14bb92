"""Intervals by formula: of linear and ridge coefficients, and of coefficients whose penalty is taken out (debiased).

Everything comes from the p x p problem, never from rows. Intervals by resampling are in `bootstrap`, those of
predictions in `conformal`; what each of them means is said here in words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.kernels.path_kernel import sparse_path
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, Array, penalty_for
from shoal.solve.distributions import student_quantile
from shoal.solve.inference import inference
from shoal.solve.least_squares import LeastSquares
from shoal.solve.paths import solve

FEW_LEFT = 10  # residual degrees of freedom from which on the variance of least squares is good enough for ridge
ROUNDS = 50  # of the scaled lasso; it settles in about ten
SETTLED = 1e-6  # the relative change of a noise level that counts as none
NODES = 0.5  # share of the usual penalty for the nodewise regressions: a little wider intervals, a good deal less bias

MEANINGS = {
    "linear": (
        "If the target is a straight-line sum of these columns plus noise that has the same spread in every row, then "
        "of many samples like this one, {percent} % give an interval that holds the true coefficient."
    ),
    "ridge": (
        "Ridge pulls coefficients toward 0 on purpose. Of many samples like this one, {percent} % give an interval "
        "that holds the average ridge coefficient of such samples. That is not the true coefficient: the pull is in it."
    ),
    "debiased": (
        "The shrinkage of the penalty is removed. With more rows than columns that leads to least squares, whatever "
        "the penalty, so these are its intervals: of many samples like this one, {percent} % give one that holds the "
        "true coefficient, if the target is a straight-line sum of the columns plus noise of the same spread in every "
        "row."
    ),
    "desparsified": (
        "There are not more rows than columns, so the shrinkage of a lasso is removed column by column. That is right "
        "where few columns matter, few also against the number of rows: then about {percent} % of samples like this "
        "one give an interval that holds the true coefficient. Take it as a guide, not as a guarantee."
    ),
    "bootstrap": (
        "The coefficients were found anew in {resamples} samples of the same size, drawn from {units} with repetition. "
        "The interval leaves out the lowest and the highest {tail} % of what came out, and holds the true coefficient "
        "in about {percent} % of samples like this one. Noise may differ from row to row; rows must have come about "
        "independently of one another."
    ),
    "bootstrap ridge": (
        "Ridge was fitted anew to {resamples} samples of the same size, drawn from {units} with repetition. The "
        "interval leaves out the lowest and the highest {tail} % of what came out. It shows how far the ridge "
        "coefficient would move in another sample; its pull toward 0 is not taken out. Noise may differ from row to "
        "row; rows must have come about independently of one another."
    ),
    "bootstrap shrunk": (
        "The model was fitted anew, at the same alpha, to {resamples} samples of {units} in which each counts so many "
        "times as chance has it, once on average. The interval leaves out the lowest and the highest {tail} % of what "
        "came out. It shows how far the coefficient would move in another sample; its pull toward 0 is not taken out. "
        "Rows must have come about independently of one another."
    ),
    "bootstrap desparsified": (
        "The corrections that remove the shrinkage of a lasso were summed anew in {resamples} samples, drawn from "
        "{units} with repetition. The interval leaves out the lowest and the highest {tail} % of what came out. It is "
        "right where few columns matter, few also against the number of rows. Noise may differ from row to row."
    ),
    "selection": (
        "In what share of {resamples} refits, to samples drawn from {units} with repetition, the column keeps a weight "
        "at this penalty. It says how stable the choice is; it is not the chance that the column matters."
    ),
    "conformal": (
        "Of new rows that come about like the rows kept for testing, at least this share in the long run has a target "
        "within that distance of the prediction, whether the model is right or not. It holds over all rows together, "
        "not for each kind of row."
    ),
    "likelihood": (
        "If the score is a straight-line sum of these columns and the target spreads about its mean as the model has "
        "it, then of many large samples like this one, {percent} % give an interval that holds the true coefficient."
    ),
    "large_samples": (
        "If the line is a straight-line sum of these columns and rows are spread alike about it, then of many large "
        "samples like this one, {percent} % give an interval that holds the true coefficient."
    ),
    "permutation": (
        "By how much the mean deviance of these rows rises when what the column adds to a row's score, with all its "
        "levels, is that of another row, drawn at random. Nothing is refitted. Columns that can stand in for one "
        "another share what they are worth."
    ),
    "borrowed column": (
        "By how much the mean deviance of these rows (of a number: the square of how far off it is) rises when the "
        "column, with all its levels, is that of another row, drawn at random. Nothing is trained again. Columns that "
        "can stand in for one another share what they are worth."
    ),
    "conformal set": (
        "Of new rows that come about like the rows kept for testing, at least this share in the long run has a value "
        "that is in its set, whether the model is right or not: the likelier value, and the other one too where the "
        "likelier has no higher probability than this. It holds over all rows together, not for each kind of row."
    ),
    "conformal classes": (
        "Of new rows that come about like the rows kept for testing, at least this share in the long run has a class "
        "that is in its set, whether the model is right or not: the likeliest one, and all others for which 1 less "
        "their probability is no more than this. It holds over all rows together, not for each kind of row."
    ),
    "importance": (
        "By how much the mean squared error of cross-validation rises when the column is left out, with all its levels "
        "and its indicator of missing values, and the model is refitted at the same penalty. Columns that can stand in "
        "for one another each look unimportant."
    ),
}  # fmt: skip


def meaning(kind: str, confidence: float = 0.95, resamples: int = 0, units: str = "the rows") -> str:
    """What an interval of this kind says, in words."""
    percent, tail = f"{100 * confidence:.4g}", f"{50 * (1 - confidence):.4g}"
    return MEANINGS[kind].format(percent=percent, tail=tail, resamples=resamples, units=units)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Estimates (p,) in the units of the file with standard errors and ends; NaN where a coefficient is not determined.

    `kind` is a key of MEANINGS; the intercept is (estimate, standard error, low, high), or None.
    """

    kind: str
    estimate: Array
    std_error: Array
    low: Array
    high: Array
    intercept: tuple[float, float, float, float] | None
    confidence: float
    residual_sd: float
    residual_df: float

    @property
    def meaning(self) -> str:
        return meaning(self.kind, self.confidence)

    def as_dict(self, names: list[str]) -> dict[str, Any]:
        keys = ("estimate", "std_error", "low", "high")
        rows = zip(names, self.estimate, self.std_error, self.low, self.high, strict=True)
        return {
            "kind": self.kind,
            "confidence": self.confidence,
            "meaning": self.meaning,
            "coefficients": {name: dict(zip(keys, map(float, rest), strict=True)) for name, *rest in rows},
            "intercept": dict(zip(keys, self.intercept, strict=True)) if self.intercept else None,
            "residual_sd": self.residual_sd,
            "residual_df": self.residual_df,
        }


def intervals_for(
    problem: LeastSquares, model: str, alpha: float, l1_ratio: float = 0.5, confidence: float = 0.95
) -> list[Intervals]:
    """All that formulas have to say about the coefficients of a model; the first are those of the model itself."""
    penalty = penalty_for(model, alpha, l1_ratio, problem.n)
    if penalty == L1L2():
        return [linear_intervals(problem, confidence)]
    found = [debiased_intervals(problem, confidence)]
    return found if penalty.l1 else [ridge_intervals(problem, penalty.l2, confidence), *found]


def linear_intervals(problem: LeastSquares, confidence: float = 0.95, kind: str = "linear") -> Intervals:
    found = inference(problem, solve(problem, L1L2()), confidence)
    coef, at = found.coef, found.intercept
    intercept = (
        None if at is None else (float(at.value[0]), float(at.std_error[0]), float(at.low[0]), float(at.high[0]))
    )
    return Intervals(
        kind, coef.value, coef.std_error, coef.low, coef.high, intercept, confidence, found.residual_sd,
        found.residual_df,
    )  # fmt: skip


# ---- ridge


def ridge_intervals(problem: LeastSquares, l2: float, confidence: float = 0.95) -> Intervals:
    """w ~ N(E w, s^2 S), S = (G + n l2)^-1 G (G + n l2)^-1 with G = R'R.

    s^2 is that of least squares, which w is independent of, so that these are exact t intervals of E w; where it has
    few degrees of freedom, or none, the residuals of ridge itself give s^2, with their effective degrees of freedom.
    """
    _, d, Vt = np.linalg.svd(problem.R)
    shrunk = d**2 / (d**2 + problem.n * l2)
    spread = Vt.T * (d / (d**2 + problem.n * l2))  # S = spread spread'
    w = solve(problem, L1L2(l2=l2)).w
    df = problem.n - problem.rank - problem.units.intercept
    squares = problem.rss(solve(problem, L1L2()).w)
    if df < FEW_LEFT:
        df = problem.n - problem.units.intercept - float((2 * shrunk - shrunk**2).sum())
        squares = problem.rss(w)
    sd = float(np.sqrt(squares / df)) if df > 0 else float("nan")
    coef, intercept = problem.units.raw(w)
    error = sd * np.sqrt((spread**2).sum(axis=1)) / problem.units.scale
    half = error * _student(df, confidence)
    at = None
    if problem.units.intercept:
        own = sd * float(np.sqrt(1 / problem.n + ((problem.units.centre / problem.units.scale @ spread) ** 2).sum()))
        reach = own * _student(df, confidence)
        at = (intercept, own, intercept - reach, intercept + reach)
    return Intervals("ridge", coef, error, coef - half, coef + half, at, confidence, sd, float(df))


def _student(df: float, confidence: float) -> float:
    return student_quantile(df, (1 + confidence) / 2) if df > 0 else float("nan")


# ---- without the shrinkage of a penalty


def debiased_intervals(problem: LeastSquares, confidence: float = 0.95) -> Intervals:
    """b = w + M Xs'(y - Xs w) / n for any penalised w, with M near the inverse of H = Xs'Xs / n.

    With more rows than columns M = H^-1, and b is the least-squares answer for every w. Else M is found column by
    column (`desparsified`).
    """
    if problem.n - problem.rank - problem.units.intercept >= 1:
        return linear_intervals(problem, confidence, "debiased")
    return _desparsified_intervals(problem, confidence)


@dataclass(frozen=True, eq=False)
class Desparsified:
    """The scaled lasso w (p,) with its noise level, M (p, p) near H^-1, and b = w + M (c - H w), standardised."""

    w: Array
    M: Array
    b: Array
    noise: float


def desparsified(problem: LeastSquares) -> Desparsified:
    """Zhang & Zhang (2014), van de Geer et al. (2014): nodewise regressions, each by the scaled lasso.

    Row j of M is (x_j - what the others predict of it), scaled so that M_j H e_j = 1.
    """
    H, c = problem.gram / problem.n, problem.R.T @ problem.z / problem.n
    size = np.sqrt(np.diag(H))
    live = size > 0
    unit, towards = np.zeros_like(H), np.zeros_like(c)
    unit[np.ix_(live, live)] = H[np.ix_(live, live)] / size[live] / size[live][:, None]
    towards[live] = c[live] / size[live]
    penalty = float(np.sqrt(2 * np.log(max(int(live.sum()), 2)) / problem.n))
    w, noise = scaled_lasso(unit, towards, problem.y_scatter / problem.n, penalty, ~live)
    M = np.zeros_like(H)
    for j in np.flatnonzero(live):
        shut = ~live
        shut[j] = True
        node, _ = scaled_lasso(unit, unit[:, j], 1.0, NODES * penalty, shut)
        row = -node
        row[j] = 1.0
        scale = float(row @ unit[:, j])
        M[j] = row / scale if scale > 0 else np.nan
    b = w + M @ (towards - unit @ w)
    size[~live] = 1.0
    return Desparsified(w / size, M / size / size[:, None], b / size, noise)


def scaled_lasso(H: Array, c: Array, square: float, penalty: float, shut: Any) -> tuple[Array, float]:
    """The lasso at l1 = noise * penalty with noise^2 = mean squared residual of that very lasso (Sun & Zhang 2012).

    `square` is the mean of y^2; columns of norm 1.
    """
    noise, w = float(np.sqrt(square)), np.zeros_like(c)
    for _ in range(ROUNDS):
        W, _ = sparse_path(H, c, np.array([noise * penalty]), np.zeros(1), w, shut)
        w = W[0]
        found = float(np.sqrt(max(square - 2 * float(c @ w) + float(w @ H @ w), 0.0)))
        if abs(found - noise) <= SETTLED * noise or found == 0:
            return w, found
        noise = found
    return w, noise


def _desparsified_intervals(problem: LeastSquares, confidence: float) -> Intervals:
    """b_j is about normal with variance noise^2 M_j H M_j' / n."""
    found = desparsified(problem)
    df = problem.n - problem.units.intercept - int(np.count_nonzero(found.w))
    sd = found.noise * float(np.sqrt(problem.n / df)) if df > 0 else float("nan")
    H = problem.gram / problem.n
    error = sd * np.sqrt(np.einsum("ij,jk,ik->i", found.M, H, found.M) / problem.n) / problem.units.scale
    error[problem.norms == 0] = np.nan
    coef = np.where(problem.norms > 0, found.b / problem.units.scale, np.nan)
    half = error * student_quantile(np.inf, (1 + confidence) / 2)
    return Intervals("desparsified", coef, error, coef - half, coef + half, None, confidence, sd, float(df))
