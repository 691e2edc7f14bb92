"""The bootstrap without a pass over the data: random buckets of rows, or the rows of a small table, are drawn again and
again, and the model is refitted to their weighted sums (`resampling`). Intervals by formula are in `solve.intervals`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from shoal.errors import ConfigError, StateError
from shoal.lazy.classes import dataclass
from shoal.models import Array, penalty_for
from shoal.solve.distributions import student_quantile, student_tail
from shoal.solve.intervals import meaning
from shoal.whatif.cells import CellMoments
from shoal.whatif.resampling import Pool, Refits
from shoal.whatif.study import Buckets, RowSample

FEWEST, MOST = 20, 100_000  # resamples: under the first there is no tail to leave out
OFTEN = 0.5  # share of resamples that must determine a coefficient, or there is no interval for it


@dataclass(frozen=True, eq=False)
class Resampled:
    """What came out of `resamples` refits; coef (resamples, p) in the units of the file, NaN where not determined.

    kind: `linear`, `ridge`, `shrunk`, `debiased` or `desparsified`, whose spread gives intervals; `selected` and
    `positive` (p,): the shares of refits of the penalised model in which a column has a weight, and one above 0 (None
    without L1).
    """

    kind: str
    estimate: Array
    coef: Array
    intercept: Array | None
    confidence: float
    units: int  # buckets or rows that were drawn from
    by_rows: bool
    seed: int
    selected: Array | None = None
    positive: Array | None = None

    @property
    def resamples(self) -> int:
        return len(self.coef)

    @cached_property
    def std_error(self) -> Array:
        return np.asarray(_over(np.nanstd, self.coef, ddof=1))

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """The percentile interval, widened a little for few units as Student's t is (Hesterberg 2015)."""
        low, high = _over(np.nanquantile, self.coef, q=self._ranks)
        return low, high

    @cached_property
    def share_determined(self) -> Array:
        """Under 1 where a column did not vary in some of the resamples, or depended on others."""
        return np.asarray(np.isfinite(self.coef).mean(axis=0))

    @cached_property
    def intercept_ends(self) -> tuple[float, float] | None:
        if self.intercept is None or not np.isfinite(self.intercept).any():
            return None
        low, high = np.nanquantile(self.intercept, self._ranks)
        return float(low), float(high)

    @cached_property
    def _ranks(self) -> list[float]:
        m = self.units
        reach = student_quantile(m - 1, (1 + self.confidence) / 2) * np.sqrt(m / (m - 1))
        below = float(student_tail(np.inf, np.array([reach]))[0])
        return [below, 1 - below]

    @property
    def drawn_from(self) -> str:
        """What was drawn, in words."""
        return f"the {self.units:,} training rows" if self.by_rows else f"{self.units:,} random buckets of the rows"

    @property
    def precision(self) -> str:
        """How sure the interval's own width is, in words."""
        if self.by_rows:
            return f"The rows themselves were drawn, {self.units:,} of them."
        off = 100 / np.sqrt(2 * (self.units - 1))
        return (
            f"Buckets of rows were drawn, {self.units:,} of them: by that alone the width of an interval "
            f"is uncertain by about {off:.0f} %."
        )

    @property
    def meaning(self) -> str:
        kind = f"bootstrap {self.kind}" if self.kind in ("ridge", "shrunk", "desparsified") else "bootstrap"
        return f"{meaning(kind, self.confidence, self.resamples, self.drawn_from)} {self.precision}"

    def as_dict(self, names: list[str]) -> dict[str, Any]:
        low, high = self.ends
        parts = zip(names, self.estimate, self.std_error, low, high, self.share_determined, strict=True)
        keys = ("estimate", "std_error", "low", "high", "share_determined")
        said: dict[str, Any] = {
            "kind": self.kind,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "units": self.units,
            "by_rows": self.by_rows,
            "meaning": self.meaning,
            "coefficients": {name: dict(zip(keys, map(float, rest), strict=True)) for name, *rest in parts},
            "intercept": dict(zip(("low", "high"), self.intercept_ends, strict=True)) if self.intercept_ends else None,
        }
        if self.selected is not None and self.positive is not None:
            shares = zip(names, self.selected, self.positive, strict=True)
            said["selection"] = {
                "meaning": meaning("selection", self.confidence, self.resamples, self.drawn_from),
                "columns": {name: {"selected": float(s), "positive": float(t)} for name, s, t in shares},
            }
        return said


def _over(function: Any, coef: Array, **more: Any) -> Any:
    """A statistic of what there is in each column; NaN where that is not much."""
    there = np.isfinite(coef).mean(axis=0) >= OFTEN
    one_more = np.column_stack((np.where(there, coef, 0.0), np.zeros(len(coef))))  # NumPy has no quantiles of nothing
    return np.where(there, np.asarray(function(one_more, axis=0, **more))[..., :-1], np.nan)


def bootstrap(
    cells: CellMoments, sample: Buckets | RowSample | None, model: str, alpha: float, l1_ratio: float = 0.5, *,
    resamples: int = 500, confidence: float = 0.95, seed: int = 0,
) -> Resampled:  # fmt: skip
    """Refits of a model to resamples of what a study keeps (`Study.drawn_from`); `cells` may be a part of its own.

    Linear: least squares. Ridge: ridge. Lasso and elastic net: how often each column is selected at this penalty, and
    debiased coefficients, which with more rows than columns are those of least squares.
    """
    check_resamples(resamples)
    if sample is None:
        raise StateError(
            "There are too many columns to keep what resampling draws from. Choose fewer columns and sum anew."
        )
    encoding, problem = cells.problem()
    pool = Pool.of(cells, sample, encoding)
    penalty = penalty_for(model, alpha, l1_ratio, problem.n)
    refits = Refits(pool, problem, cells.config.standardize)
    parts = [refits.of(batch, model, alpha, l1_ratio) for batch in pool.batches(resamples, seed)]
    coef, intercepts, sparse = (np.concatenate([part[i] for part in parts]) for i in range(3))
    selected = positive = None
    if penalty.l1 > 0:
        selected, positive = (sparse != 0).mean(axis=0), (sparse > 0).mean(axis=0)
    return Resampled(
        refits.kind(penalty), refits.estimate(penalty), coef, intercepts if np.isfinite(intercepts).any() else None,
        confidence, pool.units, pool.by_rows, seed, selected, positive,
    )  # fmt: skip


def check_resamples(resamples: int) -> None:
    if not FEWEST <= resamples <= MOST:
        raise ConfigError(f"Expected {FEWEST} to {MOST} resamples, got {resamples}. 500 are usual.")
