"""Columns that alone, or multiplied, (nearly) determine the target; what else is said of a file is in `inspection`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.data.terms import Indicator, Level, Number
from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.passes.blocks import BlockRequest
from shoal.passes.spreads import SpreadPool, SumSpreads
from shoal.results.findings import Finding, FindingKind
from shoal.settings.limits import MOST_EXACT
from shoal.solve.distributions import student_tail
from shoal.solve.moments import Moments
from shoal.words import number, plural
from shoal.worker import Worker

TELLING = 0.98  # R2 of one column alone from which it is asked whether it would be known beforehand
EXACT = 1e-6  # share of the target's spread that is left by what determines it, but for the last digits
MULTIPLIED = 0.9999  # R2 of a product or quotient of two columns from which it is the target but for rounding
HARDLY = 1e-6  # share of its squares that a product varies by, from which on sums of squares keep enough digits
SAMPLED, PAIRED = 1000, 60  # rows of which products are made, and columns at most, since pairs are many
NAMED = 3  # columns in one sentence
UNLIKELY, WORTH = 0.01, 0.001  # chance of a difference that is none, and the share of the spread it has to explain
FEWEST, ENOUGH = 10, 20  # rows from which an exact relation tells anything, and from which a close one does


@dataclass(frozen=True, eq=False)
class AgainstTarget:
    """Of p terms and the target: means (p + 1,); of the terms scatters (p,) and cross = sum (x - mean)(y - mean) (p,);
    `total` is the scatter of the target y."""

    n: float
    mean: Array
    spread: Array
    cross: Array
    total: float

    @classmethod
    def of(cls, moments: Moments) -> AgainstTarget:
        scatter = moments.scatter
        return cls(moments.n, moments.mean, np.diag(scatter)[:-1], scatter[:-1, -1], float(scatter[-1, -1]))


@dataclass(frozen=True)
class CrossTarget(BlockRequest):
    """Sums of (x - mean)(y - mean) over the training rows of a block, for the means (p + 1,) of all."""

    mean: Array

    def answer(self, worker: Worker) -> Array:
        total = np.zeros(len(self.encoding.terms))
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            train = ~self.split.is_test(chunk.row)
            total += (chunk.y[train] - self.mean[-1]) @ (chunk.X[train] - self.mean[:-1])
        return total


def against_target(coordinator: Coordinator, dataset: Dataset, base: Encoding) -> tuple[AgainstTarget, Moments | None]:
    """Over all rows; with the sums of all pairs where columns are few, else by two passes that need no such matrix."""
    if len(base.terms) <= MOST_EXACT:
        moments, _ = coordinator.moments(dataset, base, Split())
        return AgainstTarget.of(moments), moments
    pool, places = SpreadPool(len(base.terms) + 1), (str(dataset.directory), dataset.blocks)
    for part in coordinator.swept("measuring", [SumSpreads(places[0], b, base, Split()) for b in places[1]]):
        pool.add(part)
    found = pool.total()
    cross = crossed(coordinator, dataset, base, Split(), found.mean)
    return AgainstTarget(found.n, found.mean, found.scatter[:-1], cross, float(found.scatter[-1])), None


def crossed(coordinator: Coordinator, dataset: Dataset, base: Encoding, split: Split, mean: Array) -> Array:
    """How each term goes with the target over the training rows: sum (x - mean)(y - mean) (p,)."""
    cross = np.zeros(len(base.terms))
    requests = [CrossTarget(str(dataset.directory), block, base, split, mean) for block in dataset.blocks]
    for part in coordinator.swept("comparing with the target", requests):
        cross += part
    return cross


def shares(sums: AgainstTarget, base: Encoding) -> dict[str, float]:
    """What share of the target's spread each column alone explains: by a line, or level by level where these are few.

    Levels are many weights, so theirs is what would be left of it on other rows; none where rows are too few to tell.
    """
    if sums.n < FEWEST or not sums.total > 0:
        return {}
    found, between = {}, dict.fromkeys(base.known, 0.0)
    for i, term in enumerate(base.terms):
        if isinstance(term, Number) and sums.spread[i] > 0:
            found[term.column] = float(sums.cross[i] ** 2 / (sums.spread[i] * sums.total))
        elif isinstance(term, Level) and sums.mean[i] > 0:
            between[term.column] += float(sums.cross[i] ** 2 / (sums.n * sums.mean[i]))
    for name, part in between.items():
        levels = len(base.known[name])
        if levels < sums.n / 5:
            found[name] = 1 - (1 - part / sums.total) * (sums.n - 1) / (sums.n - levels)
    least = EXACT if sums.n < ENOUGH else 1.0
    return {name: share for name, share in found.items() if 1 - share < least}


@dataclass(frozen=True)
class Gap:
    """Rows without a number in a column: how many, and how far the mean of the target there is from that of others."""

    column: str
    rows: int
    difference: float
    p_value: float  # two-sided, of no difference, as Student's t test of two means has it


def telling_gaps(sums: AgainstTarget, base: Encoding) -> list[Gap]:
    """Columns whose gaps are not by chance: those of the smallest p-value first, all below UNLIKELY for all columns
    that were looked at together (Bonferroni), and worth a thousandth of the target's spread."""
    places = {term.column: i for i, term in enumerate(base.terms) if isinstance(term, Indicator)}
    rows = {name: sums.n * float(sums.mean[i]) for name, i in places.items()}
    enough = [name for name in places if FEWEST <= rows[name] <= sums.n - FEWEST]
    if not enough or not sums.total > 0:
        return []
    at = [places[name] for name in enough]
    cross, spread = sums.cross[at], sums.spread[at]
    share = np.minimum(cross**2 / (spread * sums.total), 1 - EXACT**2)
    tail = student_tail(sums.n - 2, np.sqrt(share * (sums.n - 2) / (1 - share)))
    found = [
        Gap(name, round(rows[name]), float(cross[k] / spread[k]), 2 * float(tail[k]))
        for k, name in enumerate(enough) if share[k] > WORTH and 2 * tail[k] * len(enough) < UNLIKELY
    ]  # fmt: skip
    return sorted(found, key=lambda gap: gap.p_value)


def about_gaps(found: Sequence[Gap], target: str, yes: str | None) -> Finding:
    """That gaps tell something of the target, and how a model is let see them."""
    what = f"the mean of '{target}'" if yes is None else f"the share of '{yes}'"
    told = [
        f"{number(abs(gap.difference), 3)} {'higher' if gap.difference > 0 else 'lower'} in the "
        f"{plural(gap.rows, 'row')} without '{gap.column}' (p {_p(gap.p_value)})" for gap in found[:NAMED]
    ]  # fmt: skip
    more = f", and there are {plural(len(found) - NAMED, 'more such column')}" if len(found) > NAMED else ""
    return Finding(
        FindingKind.GAPS, tuple(gap.column for gap in found),
        f"Missing numbers are filled, but they tell something: {what} is {', '.join(told)} than in the others{more}.",
        "To let the model see which rows these are, mark them in 0/1 columns of their own",
        "indicators",
    )  # fmt: skip


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def sampled_rows(dataset: Dataset, columns: Sequence[str]) -> Array:
    """The first rows of a data set (n, q) that have a value in all of these columns of numbers."""
    if not dataset.blocks:
        return np.zeros((0, len(columns)))
    slots = [dataset.columns[name].slot for name in columns]
    rows = dataset.numbers(dataset.blocks[0])[:SAMPLED][:, slots]
    return np.asarray(rows[~np.isnan(rows).any(axis=1)])


def as_product(X: Array, y: Array) -> tuple[int, int, str] | None:
    """Two columns of X (n, q) whose product, or one of which divided by the other, is y but for its unit and rounding:
    their places, and "times" or "divided by"; None if there are none, or rows are too few to tell."""
    if len(y) < ENOUGH or not np.ptp(y) > 0:
        return None
    alone = explained(X, y)
    best = (MULTIPLIED, 0, 0, "")
    for how, other in (("times", X), ("divided by", _inverted(X))):
        likely = _may_explain(X, other, y) & (alone[:, None] < TELLING) & (alone < TELLING)
        likely &= ~np.eye(len(likely), dtype=bool)  # a square is one column's own
        if how == "times":
            likely = np.triu(likely)
        for i, j in np.argwhere(likely).tolist():
            share = float(explained(X[:, [i]] * other[:, [j]], y)[0])
            best = max(best, (share, i, j, how))
    return best[1:] if best[3] else None


def _inverted(X: Array) -> Array:
    """One divided by columns without a zero; others say nothing."""
    whole = np.abs(X).min(axis=0) > 0
    return np.where(whole, 1 / np.where(whole, X, 1.0), 0.0)


def _may_explain(X: Array, other: Array, y: Array) -> NDArray[np.bool_]:
    """Which products of a column of X (n, q) and one of the `other` (n, q) may explain nearly all of y: by sums of all
    of them at once, which are less than each product by itself, and lose digits where one hardly varies."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        target, mean, squares = y - y.mean(), X.T @ other / len(y), (X**2).T @ other**2
        spread = squares - len(y) * mean**2
        share = ((X * target[:, None]).T @ other) ** 2 / (spread * float(target @ target))
        sure = (spread > HARDLY * squares) & np.isfinite(share)
    return np.asarray((squares > 0) & (~sure | (share > MULTIPLIED - HARDLY)))


def explained(X: Array, y: Array) -> Array:
    """What share of the spread of y (n,) each column of X (n, q) explains by a line."""
    with np.errstate(over="ignore", invalid="ignore"):
        centred, target = X - X.mean(axis=0), y - y.mean()
        spread = (centred**2).sum(axis=0) * float(target @ target)
        found = np.where(spread > 0, (target @ centred) ** 2 / np.where(spread > 0, spread, 1.0), 0.0)
    return np.where(np.isfinite(found), found, 0.0)
