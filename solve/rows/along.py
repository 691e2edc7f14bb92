"""Whole paths of penalties from the rows themselves: point after point, each begun from the one before it.

Whoever wants all weights gets a `Path`; a fold, which is tested at each point, holds one at a time. What is solved at
one penalty is in `wide`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from shoal.models import L1L2, Array, Certificate
from shoal.solve.paths import Path, penalties_along, weights_along
from shoal.solve.rows.conjugate import conjugate_gradients
from shoal.solve.rows.dense import RowsAtHand, WideRows
from shoal.solve.rows.sparse import FEW, SparseRows
from shoal.solve.rows.wide import FALL, Spectrum, Walk, certified
from shoal.solve.smooth import solve_smooth

CLOSE = 1e-8  # of the largest weight: moves that end coordinate descent at a point of a path
GOOD = 1e-9  # relative duality gap with which such a point is taken as it is
PASSES, LEAST = 100, 20_000_000  # over all values that descent may take at a point, or values that cost 0.03 s
LEFT = 1e-8  # of the gradient at 0 that conjugate gradients leave at a point of a ridge path


class PathPoint(NamedTuple):
    """The weights (p,) at one penalty, the sum of squared residuals that they leave, how far they can be from best."""

    w: Array
    rss: float
    certificate: Certificate


def points_along(rows: RowsAtHand, model: str, alphas: Array, l1_ratio: float = 0.5) -> Iterator[PathPoint]:
    """At each of the alphas, which fall."""
    l1, l2 = penalties_along(model, np.asarray(alphas, np.float64), l1_ratio, rows.n)
    strengths = list(map(L1L2, l1.tolist(), l2.tolist()))
    if rows.is_narrow:
        weights: Iterable[Array] = weights_along(rows.part(np.arange(rows.width)), model, alphas, l1_ratio)
        for penalty, w in zip(strengths, weights, strict=True):
            yield _seen(rows, penalty, w)
        return
    mixed, smooth = ([one for one in strengths if bool(one.l1) is there] for there in (True, False))
    yield from _sparse_along(rows, mixed)
    for penalty, w in zip(smooth, _smooth_along(rows, [one.l2 for one in smooth]), strict=True):
        yield _seen(rows, penalty, w)


def follow_wide(rows: RowsAtHand, model: str, alphas: Array, l1_ratio: float = 0.5) -> Path:
    """The whole path with a certificate at each point, as `paths.follow` gives it from moments; alphas fall."""
    alphas = np.asarray(alphas, np.float64)
    W, certificates = np.zeros((len(alphas), rows.width)), []
    for i, point in enumerate(points_along(rows, model, alphas, l1_ratio)):
        W[i] = point.w
        certificates.append(point.certificate)
    return Path(model, l1_ratio, alphas, W, *rows.units.raw_along(W), tuple(certificates))


def _seen(rows: RowsAtHand, penalty: L1L2, w: Array) -> PathPoint:
    """Weights that came from elsewhere, judged by the rows."""
    residual = rows.residual(w)
    rss = float(residual @ residual)
    return PathPoint(w, rss, certified(rows, penalty, w, -rows.against(residual) / rows.n, rss))


def _sparse_along(rows: RowsAtHand, penalties: Iterable[L1L2]) -> Iterator[PathPoint]:
    """By coordinate descent where most values are 0 and that settles, else by working sets; where penalties fall by
    much, others in between are walked through."""
    walk, descent = Walk(rows), rows.descent() if isinstance(rows, SparseRows) else None
    for penalty in penalties:
        if descent is not None and isinstance(rows, SparseRows):
            descent.to(penalty.l1, penalty.l2, CLOSE, max(PASSES * rows.stored, LEAST))
            walk.arrive(descent.w.copy(), penalty.l1, penalty.l2)
            point = _reached(walk, penalty)
            if point.certificate.relative < GOOD or np.count_nonzero(point.w) > FEW:
                yield point  # of more columns no matrix is made: the certificate says where it stands
                continue
        while penalty.l1 < FALL * FALL * walk.before:
            walk.to(FALL * walk.before, penalty.l2, roughly=True)
        walk.to(penalty.l1, penalty.l2)
        yield _reached(walk, penalty)


def _reached(walk: Walk, penalty: L1L2) -> PathPoint:
    """Where a walk stands: what was asked of the rows on the way is not asked again."""
    rss = float(walk.residual @ walk.residual)
    gradient = -(walk.correlation + penalty.l2 * walk.w)
    return PathPoint(walk.w, rss, certified(walk.rows, penalty, walk.w, gradient, rss))


# ------------------------------------------------------------------ without an L1 part


def _smooth_along(rows: RowsAtHand, l2: list[float]) -> Iterator[Array]:
    """From one decomposition of the rows where they, or the columns, are few."""
    if not l2:
        return iter(())
    if isinstance(rows, WideRows):
        if rows.width <= rows.n:
            part = rows.part(np.arange(rows.width))
            return (solve_smooth(part, one)[0] for one in l2)
        spectrum = Spectrum.of(rows)
        return (spectrum.weights(one) for one in l2)
    if rows.has_few_rows and min(l2) > 0:
        return _from_inner(rows, l2)
    return _iterated_along(rows, l2)


def _from_inner(rows: RowsAtHand, l2: list[float]) -> Iterator[Array]:
    """w = X'a with (X X' + n l2) a = y, X X' = U s U'; the digits that squaring X costs are won back through X."""
    s, U = np.linalg.eigh(rows.inner())
    s = np.maximum(s, 0.0)
    for ridge in (rows.n * one for one in l2):
        a = np.zeros(len(rows.y))
        for _ in range(3):
            left = rows.y - rows.times(rows.against(a)) - ridge * a
            a = a + U @ ((U.T @ left) / (s + ridge))
        yield rows.against(a)


def _iterated_along(rows: RowsAtHand, l2: list[float]) -> Iterator[Array]:
    """Each from the one before; without a penalty from 0, since that leads to the smallest norm."""
    w: Array | None = None
    for one in l2:
        w = conjugate_gradients(rows, one, w if one else None, LEFT)[0]
        yield w
