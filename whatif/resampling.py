"""Resamples of what a study keeps, and refits of a model to them; what is said about the refits is in `bootstrap`.

What stands in for missing values, and which levels there are, is that of all training rows; means, spreads and weights
are found anew in every resample.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.data.encoding import matrix_between
from shoal.kernels.path_kernel import sparse_path
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, Array, Bools, penalty_for
from shoal.solve.inference import inference
from shoal.solve.intervals import Desparsified, desparsified
from shoal.solve.least_squares import LeastSquares
from shoal.solve.moments import Moments
from shoal.solve.paths import solve
from shoal.whatif.cells import CellMoments
from shoal.whatif.study import Buckets, RowSample

BATCH_BYTES = 8 << 20  # of the sums of resamples that are held at a time
GONE = 1e-12  # share of a column's usual variance under which it does not vary in a resample
INDEPENDENT = 1e-11  # share of a column's square that others must leave of it, or it counts as depending on them


# ---- what is drawn


@dataclass(frozen=True, eq=False)
class Batch:
    """Some resamples: rows n (r,), and of x = (design columns..., target) less an origin the sums (r, k) and those of
    products (r, k, k)."""

    n: Array
    sums: Array
    squares: Array


class Pool:
    """What resamples are drawn from, in design columns: buckets, or rows."""

    def __init__(self, origin: Array, rows: Array | None, buckets: tuple[Array, Array, Array] | None) -> None:
        self.origin, self._rows, self._buckets = origin, rows, buckets

    @classmethod
    def of(cls, cells: CellMoments, sample: Buckets | RowSample, encoding: Any) -> Pool:
        columns, A = matrix_between(cells.base, encoding)
        target = len(cells.base.terms)
        taken = np.append(columns, target)
        if A is not None:
            wide = np.zeros((len(A) + 1, target + 1))
            wide[:-1, :-1], wide[-1, -1] = A, 1.0
        places = range(target + 1) if cells.places is None else cells.places
        if isinstance(sample, RowSample):
            Z = np.asarray(sample.take(places).Z)
            X = Z[:, taken] if A is None else Z @ wide.T
            origin = X.mean(axis=0)
            return cls(origin, X - origin, None)
        if A is None:
            chosen = sample.take([places[i] for i in taken])
            return cls(chosen.origin, None, (chosen.counts, chosen.sums, np.asarray(chosen.squares)))
        chosen = sample.take(places)
        return cls(
            wide @ chosen.origin, None, (chosen.counts, chosen.sums @ wide.T, wide @ chosen.squares @ wide.T)
        )  # fmt: skip

    @property
    def by_rows(self) -> bool:
        return self._rows is not None

    @property
    def units(self) -> int:
        return len(self._rows) if self._rows is not None else len(self._buckets[0]) if self._buckets else 0

    def batches(self, resamples: int, seed: int) -> Iterator[Batch]:
        """From one stream of random numbers: neither the size of batches nor their number changes a resample."""
        k = len(self.origin)
        step = max(1, BATCH_BYTES // (8 * k * k))
        source = np.random.default_rng(seed)
        for start in range(0, resamples, step):
            yield self.weighted(draws(self.units, min(step, resamples - start), source))

    @cached_property
    def _upper(self) -> Array:
        """(buckets, k (k + 1) / 2): one triangle of each bucket's squares; to take it out takes longer than a batch."""
        assert self._buckets is not None
        rows, columns = np.triu_indices(len(self.origin))
        return np.asarray(self._buckets[2][:, rows, columns])

    def weighted(self, W: Array) -> Batch:
        """The sums of resamples that have each unit W (r, units) times."""
        k = len(self.origin)
        if self._rows is None:
            assert self._buckets is not None
            counts, sums, _ = self._buckets
            upper = np.triu_indices(k)
            whole = np.empty((len(W), k, k))
            whole[:, upper[0], upper[1]] = whole[:, upper[1], upper[0]] = W @ self._upper
            return Batch(W @ counts, W @ sums, whole)
        X, whole = self._rows, np.empty((len(W), k, k))
        buffer = np.empty_like(X)  # used again and again: fresh memory would take longer than the sums
        for i, weights in enumerate(W):
            there = np.flatnonzero(weights)
            Z = np.take(X, there, axis=0, out=buffer[: len(there)], mode="clip")
            Z *= np.sqrt(weights[there])[:, None]
            np.matmul(Z.T, Z, out=whole[i])
        return Batch(W.sum(axis=1), W @ X, whole)


def draws(units: int, resamples: int, source: np.random.Generator) -> Array:
    """How often each unit is in each resample: as many draws as units, each equally likely."""
    drawn = source.integers(0, units, (resamples, units)) + units * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * units).reshape(resamples, units).astype(np.float64)


# ---- what is refitted


class Refits:
    """One model refitted to many resamples: dense ones all at once, sparse ones one after the other."""

    def __init__(self, pool: Pool, problem: LeastSquares, standardize: bool) -> None:
        self.pool, self.problem, self.standardize = pool, problem, standardize
        self.wide = problem.n - problem.rank - problem.units.intercept < 1  # then least squares determines nothing
        self.usual = problem.norms**2 / problem.n * problem.units.scale**2  # mean squares in the units of the file

    def kind(self, penalty: L1L2) -> str:
        if penalty.l1 == 0 and penalty.l2 > 0:
            return "ridge"
        if self.wide:
            return "desparsified"
        return "debiased" if penalty.l1 > 0 else "linear"

    def estimate(self, penalty: L1L2) -> Array:
        """What the refits are refits of, from all rows."""
        kind, problem = self.kind(penalty), self.problem
        if kind == "desparsified":
            return np.where(problem.norms > 0, self.one_step.b / problem.units.scale, np.nan)
        if kind == "ridge":
            return solve(problem, penalty).coef
        return np.where(self.determined, solve(problem, L1L2()).coef, np.nan)

    def of(self, batch: Batch, model: str, alpha: float, l1_ratio: float) -> tuple[Array, Array, Array]:
        """Coefficients (r, p) and intercepts (r,) of the kind, and weights (r, p) of the model if it has an L1 term."""
        found = _Sums(batch, self.pool.origin, self.problem.units.intercept, self.standardize, self.usual)
        penalties = [penalty_for(model, alpha, l1_ratio, float(n)) for n in batch.n]
        l1, l2 = (np.array([getattr(p, part) for p in penalties]) for part in ("l1", "l2"))
        sparse = self._sparse(found, l1, l2) if l1.any() else np.zeros((len(l1), 0))
        kind = self.kind(penalties[0])
        if kind == "desparsified":
            return self._one_steps(found), np.full(len(l1), np.nan), sparse
        coef = self._ridge(found, l2) if kind == "ridge" else self._least_squares(found)
        return coef, found.intercepts(coef), sparse

    # ---- least squares and ridge

    @cached_property
    def determined(self) -> Bools:
        """Columns whose least-squares coefficient is determined by all rows together."""
        return np.isfinite(inference(self.problem, solve(self.problem, L1L2())).coef.std_error)

    @cached_property
    def basis(self) -> NDArray[np.intp]:
        """Columns that do not depend on one another; what the others would add to a fit is nothing."""
        live = np.flatnonzero(self.problem.norms > 0)
        return live if self.problem.rank == len(live) else independent(self.problem.gram)

    def _least_squares(self, found: _Sums) -> Array:
        """On a basis of the columns: coefficients that are determined are the same on any."""
        J, whole = self.basis, np.full((len(found.n), len(self.problem.z)), np.nan)
        H, c = found.unit_problem()
        there = found.there[:, J]
        weights = _solved(H[:, J[:, None], J], c[:, J], there)
        whole[:, J] = np.where(there, weights / found.size[:, J], np.nan)
        whole[:, ~self.determined] = np.nan
        return whole

    def _ridge(self, found: _Sums, l2: Array) -> Array:
        """In columns of size 1; where those of the model are not, each has a penalty of its own."""
        H, c = found.unit_problem()
        places = np.arange(H.shape[1])
        H[:, places, places] += l2[:, None] * (found.scale / found.size) ** 2
        return np.where(found.there, _solved(H, c, found.there) / found.size, 0.0)

    # ---- with an L1 term

    def _sparse(self, found: _Sums, l1: Array, l2: Array) -> Array:
        W = np.zeros((len(l1), len(self.problem.z)))
        start = np.zeros(len(self.problem.z))
        for i in range(len(l1)):
            H, c = found.model_problem(i)
            path, settled = sparse_path(H, c, l1[i : i + 1], l2[i : i + 1], start, ~found.there[i])
            W[i] = path[0] if settled else solve(found.least_squares(i), L1L2(float(l1[i]), float(l2[i]))).w
            if i == 0:
                start = W[0]  # one start for all others: what comes out does not depend on the order
        return W

    # ---- not more rows than columns

    @cached_property
    def one_step(self) -> Desparsified:
        return desparsified(self.problem)

    def _one_steps(self, found: _Sums) -> Array:
        """b + M (g* - g) with g* the mean of x (y - x'w) over a resample, at the w of all rows: the score bootstrap."""
        problem, step = self.problem, self.one_step
        X, y = found.products[:, :-1, :-1], found.products[:, :-1, -1]
        score = (y - X @ (step.w / problem.units.scale)) / problem.units.scale / found.n[:, None]
        coef: Array = (step.b + (score + problem.gradient(step.w)) @ step.M.T) / problem.units.scale
        return np.where(problem.norms > 0, coef, np.nan)


class _Sums:
    """A batch of resamples in the units that models are solved in."""

    def __init__(self, batch: Batch, origin: Array, intercept: bool, standardize: bool, usual: Array) -> None:
        n, s = batch.n[:, None], batch.sums
        self.n, self.origin, self.intercept, self.standardize = batch.n, origin, intercept, standardize
        self.mean = origin + s / n
        variance = np.einsum("ijj->ij", batch.squares)[:, :-1] / n - (s[:, :-1] / n) ** 2
        if intercept:
            self.products = batch.squares  # about the origin, the mean of all rows
            self.square = batch.squares - s[:, :, None] * (s / n)[:, None, :]
        else:
            off = s[:, :, None] * origin
            self.products = self.square = (
                batch.squares + off + off.transpose(0, 2, 1) + n[:, :, None] * np.outer(origin, origin)
            )
        mean_square = np.einsum("ijj->ij", self.square)[:, :-1] / n
        self.there: Bools = (usual > 0) & (mean_square > GONE * usual)
        self.size = np.sqrt(np.where(self.there, mean_square, 1.0))
        varies = variance > GONE * usual
        self.scale = np.sqrt(np.where(varies, variance, 1.0)) if standardize else np.ones_like(self.size)

    def unit_problem(self) -> tuple[Array, Array]:
        """X'X / n and X'y / n of all resamples, for columns of mean square 1."""
        H = self.square[:, :-1, :-1] / (self.n[:, None, None] * self.size[:, :, None] * self.size[:, None, :])
        return H, self.square[:, :-1, -1] / (self.n[:, None] * self.size)

    def model_problem(self, i: int) -> tuple[Array, Array]:
        """The same of one resample, in the units that the penalty is meant in."""
        n, scale = self.n[i], self.scale[i]
        return self.square[i, :-1, :-1] / (n * np.outer(scale, scale)), self.square[i, :-1, -1] / (n * scale)

    def least_squares(self, i: int) -> LeastSquares:
        mean = self.mean[i]
        scatter = self.square[i] if self.intercept else self.square[i] - self.n[i] * np.outer(mean, mean)
        return LeastSquares.from_moments(Moments(float(self.n[i]), mean, scatter), self.intercept, self.standardize)

    def intercepts(self, coef: Array) -> Array:
        """NaN where a coefficient is: then it is not determined either."""
        if not self.intercept:
            return np.full(len(coef), np.nan)
        return np.asarray(self.mean[:, -1] - (self.mean[:, :-1] * coef).sum(axis=1))


def independent(gram: Array) -> NDArray[np.intp]:
    """Columns that do not depend on one another, in their order: Cholesky with pivots, which stops at nothing left."""
    size = np.sqrt(np.diag(gram))
    size[size == 0] = 1.0
    left = gram / size / size[:, None]
    chosen: list[int] = []
    for _ in range(len(left)):
        j = int(np.argmax(np.diag(left)))
        if left[j, j] <= INDEPENDENT:
            break
        chosen.append(j)
        left = left - np.outer(left[:, j], left[j]) / left[j, j]
    return np.array(sorted(chosen), np.intp)


def _solved(H: Array, c: Array, there: Bools) -> Array:
    """H^-1 c of many at once; columns that are not there stand aside; NaN where columns depend on one another."""
    H = H * there[:, :, None] * there[:, None, :]
    places = np.arange(H.shape[1])
    H[:, places, places] += ~there
    safe = _definite(H)
    found = np.full(c.shape, np.nan)
    if safe.any():
        found[safe] = np.linalg.solve(H[safe], (c * there)[safe][:, :, None])[:, :, 0]
    return found


def _definite(H: Array) -> Bools:
    """Which of many matrices with 1 on the diagonal are safely positive definite."""
    try:
        pivots = np.einsum("ijj->ij", np.linalg.cholesky(H)) ** 2
    except np.linalg.LinAlgError:  # of at least one of them
        return np.concatenate([_definite(one[None]) for one in H]) if len(H) > 1 else np.zeros(1, bool)
    return np.asarray(pivots.min(axis=1, initial=1.0) > INDEPENDENT)
