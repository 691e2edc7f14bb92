"""Intervals of coefficients beside a penalty, by resamples of the rows: for yes or no, counts and positive numbers.

Each row counts so many times in a resample as a Poisson number of mean 1 says, drawn from a hash of its index, so that
whoever looks at a block draws the same. All resamples go down together from the optimum of all rows, along its
curvature: a sweep over the rows is shared by all of them, and a handful is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, factorial

import numpy as np
import numpy.typing as npt

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.splits import Split, hashed_index
from shoal.data_pipeline import design_rows
from shoal.errors import ResourceError, StateError
from shoal.fitting.losses.descent import optimum_of
from shoal.fitting.losses.rows import LossRows, constant_for, prepared_for
from shoal.kernels.threads import one_thread
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.losses.named import loss_for, penalty_beside
from shoal.models import Array
from shoal.passes.blocks import BlockRequest
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from shoal.solve.descent import Bowl, Descent, FoldView
from shoal.solve.least_squares import Standardisation
from shoal.solve.newton import NewtonPoint
from shoal.whatif.bootstrap import FEWEST, Resampled, check_resamples
from shoal.worker import Worker

MOST_SWEEPS = 40
WORK = 1e9  # rows x columns x resamples that a sweep may be; fewer resamples are drawn of more rows
PIECE_VALUES = 1 << 16  # rows x resamples that are worked on at a time
OWN = 8  # curvatures of single resamples in one sweep, of those that come down slowly
OTHERS = 40_503  # between the seeds of two resamples
_UPTO = np.cumsum([exp(-1) / factorial(k) for k in range(18)])  # chances of at most k, of a Poisson number of mean 1


def times_drawn(rows: npt.NDArray[np.int64], resamples: Sequence[int], seed: int) -> Array:
    """(n, m): how many times each row is in each of these resamples."""
    found = np.empty((len(rows), len(resamples)))
    for place, number in enumerate(resamples):
        bits = hashed_index(rows, (seed + 1) * OTHERS + 2 * number + 1)
        share = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
        found[:, place] = np.searchsorted(_UPTO, share, side="right")
    return found


@dataclass(eq=False)
class ResampleSums:
    """Sums over the training rows as each resample counts them: how much (m,), losses (m,), slopes (q + 1, m), and
    curvatures of some."""

    n: Array
    value: Array
    slope: Array
    square: Array

    @classmethod
    def none(cls, q: int, m: int, curved: int) -> ResampleSums:
        return cls(np.zeros(m), np.zeros(m), np.zeros((q, m)), np.zeros((curved, q, q)))

    def add(self, other: ResampleSums) -> None:
        self.n += other.n
        self.value += other.value
        self.slope += other.slope
        self.square += other.square


@dataclass(frozen=True)
class AskResamples(BlockRequest):
    """Ask the rows of a block about points coef (q + 1, m) for rows (1, x - centre), each as its resample counts."""

    loss: RowLoss
    centre: Array
    class_weight: tuple[float, float] | None
    coef: Array
    resamples: tuple[int, ...]
    seed: int
    curved: tuple[int, ...]

    def answer(self, worker: Worker) -> ResampleSums:
        q, m = self.coef.shape
        total, step = ResampleSums.none(q, m, len(self.curved)), max(64, PIECE_VALUES // m)
        with np.errstate(over="ignore", invalid="ignore"):  # a step too long is seen by its sums
            for chunk in design_rows(self.encoding, self.dataset, self.block):
                places = np.flatnonzero(~self.split.is_test(chunk.row))
                for some in (places[at : at + step] for at in range(0, len(places), step)):
                    counts = times_drawn(chunk.row[some], self.resamples, self.seed)
                    weight = None if chunk.weight is None else chunk.weight[some]
                    offset = None if chunk.offset is None else chunk.offset[some]
                    self._add(chunk.X[some], chunk.y[some], counts, weight, offset, total)
        return total

    def _add(
        self, X: Array, y: Array, counts: Array, weight: Array | None, offset: Array | None, total: ResampleSums
    ) -> None:
        if weight is not None:
            counts = counts * weight[:, None]
        total.n += counts.sum(axis=0)
        if self.class_weight is not None:
            counts = counts * np.where(y == 1, self.class_weight[1], self.class_weight[0])[:, None]
        U = np.ones((len(y), X.shape[1] + 1))
        np.subtract(X, self.centre, out=U[:, 1:])
        eta = U @ self.coef if offset is None else U @ self.coef + offset[:, None]
        value, g, h = self.loss.at(y[:, None], eta)
        total.value += (value * counts).sum(axis=0)
        total.slope += U.T @ (g * counts)
        for k, place in enumerate(self.curved):
            V = U * np.sqrt(h[:, place] * counts[:, place])[:, None]
            total.square[k] += V.T @ V


def resampled(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, resamples: int, confidence: float, seed: int
) -> Resampled:
    """The model fitted anew to each resample, at the alpha and in the units of columns of the model itself."""
    check_drawn(config, resamples)
    loss, split = loss_for(config), Split(config.test_every, config.test_fraction, config.seed)
    prepared, moments, _ = prepared_for(coordinator, dataset, config, split, loss)
    units = Standardisation.of(moments, config.intercept, config.standardize)
    m = affordable(resamples, dataset.rows * (len(units.scale) + 1))
    mean = float(moments.mean[-1])
    balanced = (0.5 / (1 - mean), 0.5 / mean) if config.class_weight == "balanced" else None
    rows = LossRows(coordinator, prepared, units, loss, balanced)
    penalty = penalty_beside(loss, config.shrink, strength(config), config.l1_ratio, moments.n)
    with one_thread:
        optimum = optimum_of(rows, moments, penalty, constant_for(rows, mean)).point
        b, W = _refitted(rows, optimum, config, moments.n, m, seed)
    coef = W / units.scale
    intercepts = b - coef @ units.centre if config.intercept and not loss.smears else None
    chosen = ((W != 0).mean(axis=0), (W > 0).mean(axis=0)) if penalty.l1 else (None, None)
    return Resampled(
        "shrunk", optimum.w / units.scale, coef, intercepts, confidence, round(moments.n), True, seed, *chosen
    )  # fmt: skip


def check_drawn(config: RunConfig, resamples: int) -> None:
    check_resamples(resamples)
    if config.weights and config.weights_are == "frequency":
        raise StateError("Rows that stand for several equal ones are not resampled, so far: repeat them in the file.")


def affordable(resamples: int, cells: int) -> int:
    most = int(WORK // max(1, cells))
    if most < FEWEST:
        raise ResourceError(
            f"Rows times columns are too many to be resampled: {cells:,}, of at most {int(WORK / FEWEST):,}. Fit a "
            "model to fewer of them."
        )
    return min(resamples, most)


def _refitted(
    rows: LossRows, optimum: NewtonPoint, config: RunConfig, n: float, m: int, seed: int
) -> tuple[Array, Array]:
    """b (m,) and W (m, p) of all resamples. Sums are brought to n rows, whatever a resample counts."""
    units, blocks, p = rows.units, rows.prepared.dataset.blocks, len(optimum.w)
    T = np.zeros((p + 1, p + 1))
    T[0, 0], T[1:, 0] = 1.0, (rows.centre - units.centre) / units.scale
    T[1:, 1:] = np.diag(1 / units.scale)
    if units.intercept:
        T[1:][units.constant] = 0.0
    null = rows.curvature(blocks, NewtonPoint(np.zeros(p), optimum.b))
    bowl_sums = rows.curvature(blocks, optimum)
    counted = _asked(rows, np.zeros((p + 1, m)), range(m), seed, ()).n
    each = [penalty_beside(rows.loss, config.shrink, strength(config), config.l1_ratio, float(own)) for own in counted]
    view = FoldView(T, n, units.intercept, np.array([one.l1 for one in each]), np.array([one.l2 for one in each]))
    b, W = np.full(m, optimum.b), np.tile(optimum.w, (m, 1))
    course = Descent(
        view, b.copy(), W.copy(), np.full(m, np.inf), view.gradient(null.slope[:, None])[1][0],
        [Bowl.of(bowl_sums.square, view, shared=True)] * m,
    )  # fmt: skip
    course.open[:] = True
    course.start(b, W)
    for _ in range(MOST_SWEEPS):
        some = course.asked
        if not len(some):
            break
        own = course.wants_own(OWN)
        coef = view.scores(course.tried_b[some], course.tried_W[some])
        said = _asked(rows, coef, some.tolist(), seed, tuple(np.searchsorted(some, own).tolist()))
        scale = n / said.n
        squares = {
            place: square * (n / counted[place]) for place, square in zip(own.tolist(), said.square, strict=True)
        }
        course.take(some, said.value * scale, said.slope * scale, squares)
    return course.b, course.W


def _asked(rows: LossRows, coef: Array, resamples: Sequence[int], seed: int, curved: tuple[int, ...]) -> ResampleSums:
    own = rows.prepared
    total = ResampleSums.none(len(coef), coef.shape[1], len(curved))
    place = str(own.dataset.directory)
    how = rows.loss, rows.centre, rows.class_weight, coef, tuple(resamples), seed, curved
    requests = [AskResamples(place, block, own.encoding, own.split, *how) for block in own.dataset.blocks]
    for part in rows.coordinator.swept(f"{len(resamples)} resamples", requests):
        total.add(part)
    return total
