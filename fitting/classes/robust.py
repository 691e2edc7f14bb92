"""Standard errors of a model of several classes that hold whatever rows do: sums over the rows at its optimum.

    V = A^-1 (sum f s s') A^-1,    s = (Q'(P - e_y)) x u,    u = (1, xs)

with the curvature A of all pairs of classes and columns, the contrasts Q of classes, and rows as they spread in fact.
HC2 and HC3 have (I - L)^-1/2 and (I - L)^-1 before Q'(P - e_y), where L = Q'(diag P - P P')Q (u' A^-1 u) is what a row
has in its own probabilities (Mancl and DeRouen 2001); of two classes that is what logistic models have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from shoal.data.dataset import Block
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.fitting.classes.sums import ClassRequest
from shoal.lazy.classes import dataclass
from shoal.losses.multinomial import Multinomial
from shoal.models import Array
from shoal.solve.classes.newton import contrasts
from shoal.solve.least_squares import Standardisation
from shoal.worker import Worker

ClassPlace = tuple[str, Block, Encoding, Split, Array, Array, Array, tuple[float, ...] | None]
LEVERAGED = ("HC2", "HC3")
AT_ONCE = 1 << 20  # numbers of rows times (classes x columns)


@dataclass(frozen=True)
class SumClassMeat(ClassRequest):
    """The sum in the middle over the training rows of a block; intercepts first, then weights class by class."""

    to_units: tuple[Array, Array]  # what is taken off the columns once more, and their scale
    bread: Array  # A^-1
    kind: str
    intercept: bool
    repeats: bool  # weights say how many equal rows each one stands for

    def answer(self, worker: Worker) -> Array:
        total = np.zeros_like(self.bread)
        step = max(1, AT_ONCE // (len(self.bread) * (len(self.coef) if self.kind in LEVERAGED else 1)))
        for chunk, X, y, eta in self.scored():
            train = np.flatnonzero(~self.split.is_test(chunk.row))
            own = self.counted(y, chunk.weight)
            for start in range(0, len(train), step):
                rows = train[start : start + step]
                times = chunk.weight[rows] if self.repeats and chunk.weight is not None else None
                counts = None if own is None else own[rows] if times is None else own[rows] / times
                s = self._scores((X[rows] - self.to_units[0]) / self.to_units[1], y[rows], eta[rows], counts)
                s *= 1.0 if times is None else np.sqrt(times)[:, None]
                total += s.T @ s
        return total

    def _scores(self, Z: Array, y: np.ndarray, eta: Array, counts: Array | None) -> Array:
        """s of each row; `counts`: what one of the rows that it stands for counts."""
        Q, P = contrasts(eta.shape[1]), Multinomial().mean(eta)
        off = P.copy()
        off[np.arange(len(y)), y] -= 1
        r: Array = off @ Q if counts is None else (off @ Q) * counts[:, None]
        if self.kind in LEVERAGED:
            r = self._without_itself(r, P, Z, counts)
        of_w = (r[:, :, None] * Z[:, None, :]).reshape(len(Z), -1)
        return np.hstack((r, of_w)) if self.intercept else of_w

    def _without_itself(self, r: Array, P: Array, Z: Array, counts: Array | None) -> Array:
        """(I - L)^-1 r, or its root, by the symmetric F'WF that L = W F F' is similar to."""
        m, Q = r.shape[1], contrasts(P.shape[1])
        U = np.hstack((np.ones((len(Z), 1)), Z)) if self.intercept else Z
        G = np.einsum("ni,cidj,nj->ncd", U, self._by_class(m, U.shape[1]), U, optimize=True)
        PQ = P @ Q
        W = np.einsum("kc,nk,kd->ncd", Q, P, Q, optimize=True) - PQ[:, :, None] * PQ[:, None, :]
        if counts is not None:
            W *= counts[:, None, None]
        size = np.einsum("ncc->n", G)
        F = np.linalg.cholesky(G + np.finfo(float).eps * np.maximum(size, 1e-300)[:, None, None] * np.eye(m))
        shares, V = np.linalg.eigh(F.transpose(0, 2, 1) @ W @ F)
        with np.errstate(divide="ignore", invalid="ignore"):  # a row that decides a coefficient alone
            grown = 1 / (np.sqrt(1 - shares) if self.kind == "HC2" else 1 - shares)
        inner = V.transpose(0, 2, 1) @ (F.transpose(0, 2, 1) @ r[:, :, None])
        turned = V @ (grown[:, :, None] * inner)
        return np.asarray(np.linalg.solve(F.transpose(0, 2, 1), turned)[:, :, 0])

    def _by_class(self, m: int, q: int) -> Array:
        """The bread as (m, q, m, q)."""
        lead = m if self.intercept else 0
        found = np.empty((m, q, m, q))
        first = q - (len(self.bread) - lead) // m
        found[:, first:, :, first:] = self.bread[lead:, lead:].reshape(m, q - first, m, q - first)
        if lead:
            cross = self.bread[:lead, lead:].reshape(m, m, q - 1)
            found[:, 0, :, 0], found[:, 0, :, 1:] = self.bread[:lead, :lead], cross
            found[:, 1:, :, 0] = cross.transpose(1, 2, 0)
        return found


def robust_covariance(
    swept: Callable[[str, Sequence[Any]], Iterator[Array]], places: Sequence[ClassPlace], centre: Array,
    units: Standardisation, n: float, bread: Array, kind: str, repeats: bool,
) -> Array:  # fmt: skip
    """Of what `bread` is of, from one pass; `places`: blocks at the optimum, whose columns are less `centre`."""
    how = (units.centre - centre, units.scale), bread, kind, units.intercept, repeats
    total = sum(swept("robust errors", [SumClassMeat(*place, *how) for place in places]), np.zeros_like(bread))
    free = n - len(bread)
    return np.asarray(bread @ total @ bread) * (n / free if kind == "HC1" and free > 0 else 1.0)
