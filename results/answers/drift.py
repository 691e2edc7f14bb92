"""How far the rows that a model predicts are from those that it was trained on: sums of columns that merge, and what is
said of them; nothing is read or kept here.

Two measures and their usual thresholds: the population stability index of bins, below 0.1 small, from 0.25 on large
(Siddiqi, Credit Risk Scorecards, 2006); and how far the mean has gone, in standard deviations of training, from 0.2 on
notable, from 0.5 on large (Cohen, Statistical Power Analysis, 1988, who calls these small and medium). What chance does
in as few rows is told from both: the index of samples of n and m rows without any drift is (1/n + 1/m) times a
chi-square of as many degrees as bins less one (Yurdakul, 2018). Shares of unknown levels and of missing values have
thresholds of our own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from shoal.lazy.classes import dataclass
from shoal.results.model import TrainingColumn
from shoal.results.plain import plain

SMALL, NOTABLE, LARGE, UNKNOWN = "small", "notable", "large", "too few rows"
SIZES = (UNKNOWN, SMALL, NOTABLE, LARGE)
PSI = (0.1, 0.25)
SHIFT = (0.2, 0.5)
UNKNOWN_LEVELS = (0.01, 0.05)  # more of the rows than in training
MISSING = (0.05, 0.2)
LEAST_ROWS = 30  # below which nothing is said
LEAST_SHARE = 1e-4  # of a bin: an empty one would make the index infinite
SURE = 1.645  # of a normal: 95 % from below


@dataclass(frozen=True)
class SeenColumn:
    """Sums of a column in rows that were predicted; those of two sets of rows merge. `bins` are those of training."""

    rows: int = 0
    missing: int = 0
    bins: tuple[int, ...] = ()
    unknown: int = 0  # rows with a level that the model does not know
    mean: float = 0.0
    squares: float = 0.0  # of distances from the mean

    @property
    def known(self) -> int:
        return self.rows - self.missing

    def merge(self, other: SeenColumn) -> SeenColumn:
        if not self.bins:
            return other if not self.rows else self
        known = self.known + other.known
        share, apart = other.known / known if known else 0.0, other.mean - self.mean
        return SeenColumn(
            self.rows + other.rows, self.missing + other.missing,
            tuple(a + b for a, b in zip(self.bins, other.bins, strict=True)), self.unknown + other.unknown,
            self.mean + apart * share, self.squares + other.squares + apart * apart * self.known * share,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ColumnDrift:
    """How far one column is from training."""

    column: str
    kind: str  # number, date or text
    size: str
    rows: int
    psi: float | None
    shift: float | None  # of the mean, in standard deviations of training; of numbers
    missing: float  # share of the rows
    missing_before: float
    unknown: float | None  # share of the rows whose level the model does not know; of texts
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class DriftReport:
    """All columns that training says something of, the furthest first."""

    model: str
    rows: int
    since: str  # the first day that is looked at, such as 2026-11-17; empty if there is none
    until: str
    columns: tuple[ColumnDrift, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> str:
        return max((column.size for column in self.columns), key=SIZES.index, default=UNKNOWN)

    @property
    def in_words(self) -> str:
        far = [column.column for column in self.columns if column.size in (NOTABLE, LARGE)]
        if not self.columns or self.size == UNKNOWN:
            return "Too few rows were predicted to say how far they are from training."
        if not far:
            return "The rows that were predicted are much like those of training."
        shown = ", ".join(f"'{name}'" for name in far[:5]) + (f" and {len(far) - 5} more" if len(far) > 5 else "")
        return f"Far from training ({self.size}): {shown}."

    @property
    def advice(self) -> str:
        if self.size not in (NOTABLE, LARGE):
            return ""
        return (
            "Look first where these columns come from: another unit, code or source is mended there. If the world has "
            "changed, train again with rows of now, compare the versions on them, and promote the better one."
        )

    def as_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = plain(self)
        return {**said, "size": self.size, "in_words": self.in_words, "advice": self.advice}


def drift_of(name: str, kind: str, before: TrainingColumn, now: SeenColumn) -> ColumnDrift:
    """One column, judged by the furthest of its measures."""
    share = now.missing / now.rows if now.rows else 0.0
    psi = stability(before, now)
    shift = _shift(before, now)
    unknown = None if before.levels is None else (now.unknown / now.rows if now.rows else 0.0)
    sizes = {
        f"PSI {psi:.2g}" if psi is not None else "": _size(psi, PSI, chance_index(before, now)),
        _shift_words(shift): _size(None if shift is None else abs(shift), SHIFT, _chance_shift(before, now)),
        f"{100 * share:.3g} % have no value, {100 * before.missing:.3g} % in training":
            _size(abs(share - before.missing), MISSING, 2 * math.sqrt(0.25 / max(now.rows, 1))),
        f"{100 * (unknown or 0):.3g} % have a level that the model does not know": _size(unknown, UNKNOWN_LEVELS, 0.0),
    }  # fmt: skip
    far = [words for words, size in sizes.items() if words and size in (NOTABLE, LARGE)]
    size = max(sizes.values(), key=SIZES.index) if now.rows >= LEAST_ROWS else UNKNOWN
    return ColumnDrift(
        column=name, kind=kind, size=size, rows=now.rows, psi=psi, shift=shift, missing=share,
        missing_before=before.missing, unknown=unknown, words="; ".join(far) if size in (NOTABLE, LARGE) else "",
    )  # fmt: skip


def _size(value: float | None, bounds: tuple[float, float], chance: float) -> str:
    """What chance alone would do is small, however few rows there are."""
    if value is None or value < bounds[0] or value <= chance:
        return SMALL
    return LARGE if value >= bounds[1] else NOTABLE


def stability(before: TrainingColumn, now: SeenColumn) -> float | None:
    """The population stability index: the sum of (q - p) log(q / p) over bins; None without rows."""
    if not now.known or len(now.bins) != len(before.shares) or len(now.bins) < 2:
        return None
    total = 0.0
    for p, count in zip(before.shares, now.bins, strict=True):
        p, q = max(p, LEAST_SHARE), max(count / now.known, LEAST_SHARE)
        total += (q - p) * math.log(q / p)
    return total


def chance_index(before: TrainingColumn, now: SeenColumn) -> float:
    """What the index stays below in 95 of 100 samples of as few rows without any drift (Wilson and Hilferty's
    approximation of chi-square)."""
    degrees, rows = len(before.shares) - 1, before.rows * (1 - before.missing)
    if degrees < 1 or not now.known or rows < 1:
        return math.inf
    part = 2 / (9 * degrees)
    return (1 / now.known + 1 / rows) * degrees * (1 - part + SURE * math.sqrt(part)) ** 3


def _shift(before: TrainingColumn, now: SeenColumn) -> float | None:
    if before.mean is None or not before.deviation or not now.known:
        return None
    return (now.mean - before.mean) / before.deviation


def _shift_words(shift: float | None) -> str:
    if shift is None:
        return ""
    return f"its mean is {abs(shift):.2g} standard deviations {'above' if shift > 0 else 'below'} that of training"


def _chance_shift(before: TrainingColumn, now: SeenColumn) -> float:
    return 2 * math.sqrt(1 / max(now.known, 1) + 1 / max(before.rows, 1))


def merged(one: Mapping[str, SeenColumn], other: Mapping[str, SeenColumn]) -> dict[str, SeenColumn]:
    """Columns that both have are merged where their bins are the same; else the other's, which is newer."""
    found = {**one, **other}
    for name in one.keys() & other.keys():
        if len(one[name].bins) == len(other[name].bins):
            found[name] = one[name].merge(other[name])
    return found
