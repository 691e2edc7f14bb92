"""What is worth knowing of a table before a model is fitted to it: findings from sums and summaries that are at hand.

No pass over the rows is made for it; some of the first are looked at. What a finding is stands in `results.findings`;
columns against the target are in `leaks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from shoal.data.dataset import Column
from shoal.data.terms import Level, Number, Shaped
from shoal.fitting.guidance.known import SAME, Known
from shoal.fitting.guidance.leaks import (
    ENOUGH,
    EXACT,
    PAIRED,
    TELLING,
    Gap,
    about_gaps,
    as_product,
    sampled_rows,
    shares,
    telling_gaps,
)
from shoal.fitting.guidance.lines import is_straight
from shoal.fitting.guidance.readings import codes_without_na, missing_codes, spellings, totals, zero_led_codes
from shoal.fitting.guidance.shape import TargetShape
from shoal.models import Array
from shoal.results.findings import (
    ERRORS_GROW,
    FAR_ROWS,
    LEAVE_OUT,
    TWO_VALUES_ADVICE,
    YES_OR_NO,
    Finding,
    FindingKind,
    few_rows,
    in_order,
    marks,
)
from shoal.settings.when import penalty_knob
from shoal.words import listed, number, shortened

LIFTS, OTHERWISE = 5.0, 0.8  # a column that leaves so many times less, where the others explain so much already
SOLVED = 300  # columns of numbers of which it is worked out what each adds to the others
ALIKE = 0.9999  # correlation from which two columns say the same
FEW_GAPS = 0.005  # share of rows without a value up to which they hide no copy
FEW = 5  # rows for each weight below which there are few
SUMMED = 8  # columns at most that are tried as a sum
SKEWED = 3.0  # skewness from which a few rows weigh most; an exponential distribution has 2
NAMED = 5  # columns in one sentence
LONG = 40  # letters of a name, where a sentence has many


def findings_of(known: Known) -> tuple[Finding, ...]:
    """All that is worth knowing, the gravest first."""
    if known.against.n < 2:
        return ()
    parts = (_leaks, missing_codes, zero_led_codes, codes_without_na, spellings, totals, _gaps, _two_values, _few_rows,
             _ids, _skewed, _duplicates, _dates, _constants)  # fmt: skip
    return in_order(finding for part in parts for finding in part(known))


def _left_out(kind: FindingKind, columns: Sequence[str], said: str, advice: str) -> Finding:
    return Finding(kind, tuple(columns), said, advice, LEAVE_OUT, tuple(columns))


def _quoted(names: Sequence[str]) -> str:
    return listed([f"'{name}'" for name in names], NAMED)


# ------------------------------------------------------------------ columns that know the target


def _leaks(known: Known) -> Iterator[Finding]:
    share = shares(known.against, known.base)
    telling = sorted((name for name in share if share[name] > TELLING), key=lambda name: -share[name])
    for name in telling[:NAMED]:
        exactly = 1 - share[name] < EXACT
        how = "almost exactly" if exactly else f"with an R² of {share[name]:.3f}"
        yield _left_out(
            FindingKind.LEAK, [name], f"'{name}' alone predicts '{known.config.target}' {how} (leak?).",
            "If it is not known when predicting, leave it out",
        )  # fmt: skip
    if telling:
        return
    correlated = _correlations(known)
    if parts := _sum_of(known, correlated):
        yield _left_out(
            FindingKind.SUM_LEAK, parts,
            f"{_quoted(parts)} together give '{known.config.target}' exactly, as a sum with fixed weights (leak?).",
            "If they are not all known when predicting, leave out what is not",
        )  # fmt: skip
    elif product := _product_of(known, correlated):
        yield _about_product(known, *product)
    elif lifting := _lifting(known, correlated):
        name, with_it, without = lifting
        yield _left_out(
            FindingKind.LEAK, [name],
            f"With '{name}' the columns of numbers explain {100 * with_it:.1f} % of '{known.config.target}', "
            f"without it {100 * without:.1f} % (leak?).",
            "If it is not known when predicting, leave it out",
        )  # fmt: skip


def _about_product(known: Known, first: str, second: str, how: str) -> Finding:
    """What is divided was made from the target, as revenue is from units sold; of two factors nobody knows which."""
    said = f"'{first}' {how} '{second}' is '{known.config.target}' but for rounding (leak?)."
    gone = [first, second] if how == "times" else [first]
    advice = (
        f"If they are not both known when predicting, leave out the one that is not ('{first}' or '{second}')"
        if how == "times"
        else f"If '{first}' is not known when predicting, leave it out"
    )
    return Finding(FindingKind.PRODUCT_LEAK, (first, second), said, advice, LEAVE_OUT, tuple(gone))


def _correlations(known: Known) -> Array:
    """Of the columns of numbers in their order, then the target (q, q); 0 where one does not vary, none if unknown."""
    if known.moments is None or known.moments.n < ENOUGH:
        return np.zeros((0, 0))
    places = [*known.numbers.values(), -1]
    scatter = known.moments.scatter[np.ix_(places, places)]
    spread = np.sqrt(np.diag(scatter))
    scale = np.where(spread > 0, spread, 1.0)
    found: Array = scatter / scale / scale[:, None]
    return found


def _sum_of(known: Known, C: Array) -> list[str]:
    """A few columns of numbers whose weighted sum is the target, found one by one, then without those not needed."""
    count = len(C) - 1
    if count < 2 or not C[-1, -1] > 0:
        return []
    chosen: list[int] = []
    for _ in range(min(SUMMED, count, int(known.against.n) // ENOUGH)):
        rest = np.abs(C[:-1, -1] - C[:-1, chosen] @ _weights(C, chosen))
        rest[chosen] = -1.0
        chosen.append(int(np.argmax(rest)))
        if _left(C, chosen) < EXACT:
            break
    else:
        return []
    for place in list(chosen):
        fewer = [other for other in chosen if other != place]
        if fewer and _left(C, fewer) < EXACT:
            chosen = fewer
    return [name for place, name in enumerate(known.numbers) if place in chosen]


def _product_of(known: Known, C: Array) -> tuple[str, str, str] | None:
    """Two columns that make the target by multiplying or dividing them, by the first rows, and how; of very many
    columns those that go with it most."""
    if len(C) < 3 or not C[-1, -1] > 0 or known.target.type != "numeric":
        return None
    names = list(known.numbers)
    tried = sorted(np.argsort(-np.abs(C[:-1, -1]), kind="stable")[:PAIRED].tolist())
    rows = sampled_rows(known.dataset, [*(names[place] for place in tried), known.config.target])
    found = as_product(rows[:, :-1], rows[:, -1])
    return (names[tried[found[0]]], names[tried[found[1]]], found[2]) if found else None


def _lifting(known: Known, C: Array) -> tuple[str, float, float] | None:
    """A column without which a nearly perfect model would be an ordinary one; what is explained with and without it."""
    count = len(C) - 1
    if not 2 <= count <= SOLVED or not C[-1, -1] > 0 or known.against.n < ENOUGH * count:
        return None
    inverse = np.linalg.pinv(C[:-1, :-1], rcond=SAME, hermitian=True)
    w = inverse @ C[:-1, -1]
    left = max(1 - float(w @ C[:-1, -1]), EXACT)
    if left > 1 - TELLING:
        return None
    own = np.diag(inverse)
    rises = np.where(own > 0, w**2 / np.where(own > 0, own, 1.0), 0.0)
    without = left + rises
    suspected = (without >= LIFTS * left) & (without <= 1 - OTHERWISE)
    if not suspected.any():
        return None
    place = int(np.argmax(np.where(suspected, without, 0.0)))
    return list(known.numbers)[place], 1 - left, float(1 - without[place])


def _weights(C: Array, chosen: list[int]) -> Array:
    return np.linalg.lstsq(C[np.ix_(chosen, chosen)], C[chosen, -1], rcond=None)[0] if chosen else np.zeros(0)


def _left(C: Array, chosen: list[int]) -> float:
    """The share of the target's spread that these columns leave, by their correlations C."""
    w = _weights(C, chosen)
    return float(1 - 2 * (w @ C[chosen, -1]) + w @ C[np.ix_(chosen, chosen)] @ w)


def _gaps(known: Known) -> Iterator[Finding]:
    """Rows with a gap whose target differs: what fills the gap hides that from the model."""
    yes = known.base.yes
    if isinstance(yes, tuple):  # of several classes there is no mean
        return
    if not known.config.indicators and (found := _telling(known)):
        yield about_gaps(found, known.config.target, yes if isinstance(yes, str) else None)


# ------------------------------------------------------------------ the target


def _telling(known: Known) -> list[Gap]:
    """Without those of marks, which say more by being read as names."""
    alike = {column.name for column in known.columns if "constant" in column.flags and _is_mark(known, column)}
    return [gap for gap in telling_gaps(known.against, known.base) if gap.column not in alike]


def _two_values(known: Known) -> Iterator[Finding]:
    """By its spread: only values at both ends of a range have the largest that their mean allows."""
    low, high = known.target.minimum, known.target.maximum
    if low is None or high is None or not low < high or not known.is_line:
        return
    mean, variance = float(known.against.mean[-1]), known.against.total / known.against.n
    largest = (mean - low) * (high - mean)
    if largest > 0 and abs(variance - largest) <= SAME * largest:
        yield Finding(
            FindingKind.TWO_VALUES, (known.target.name,),
            f"'{known.target.name}' has two values, {number(low)} and {number(high)}.", TWO_VALUES_ADVICE, *YES_OR_NO,
        )  # fmt: skip


def _skewed(known: Known) -> Iterator[Finding]:
    """By what a pass over the values said, if one was made, else by the first rows."""
    low, high = known.target.minimum, known.target.maximum
    if low is None or high is None or not known.is_line or not low < high:
        return
    if low > 0 and is_straight(known.dataset, known.config):  # its far rows are what a line explains
        return
    rows = sampled_rows(known.dataset, [known.target.name])[:, 0]
    may_count = low == 1 and bool((rows == np.floor(rows)).all())  # which speaks for another model
    if low > 0 and not may_count and TargetShape.of(rows).has_long_tail:
        mean = float(known.against.mean[-1])
        yield Finding(
            FindingKind.SKEWED_TARGET, (known.target.name,),
            f"'{known.target.name}' has positive numbers with a long tail, {number(mean)} on average and at most "
            f"{number(high)}: a few rows weigh most in the fit, and a straight line may predict below 0. Gamma and "
            "lognormal models multiply.", ERRORS_GROW, "model", ("gamma",),
        )  # fmt: skip
        return
    yield from _far_out(known, low, high)


def _far_out(known: Known, low: float, high: float) -> Iterator[Finding]:
    bars = known.profile.get(known.config.target, {}).get("histogram") or []
    if not abs(_skewness(bars)) > SKEWED:
        return
    rising = _skewness(bars) > 0
    long_end, what = (high, "largest") if rising else (low, "smallest")
    # A histogram knows the bar that the median is in: half of the rows lie on this side of its far end.
    bar = int(np.searchsorted(np.cumsum(bars), sum(bars) / 2))
    bound = low + (bar + rising) / len(bars) * (high - low)
    advice, model = (ERRORS_GROW, "gamma") if rising and low > 0 else (FAR_ROWS, "huber")
    yield Finding(
        FindingKind.SKEWED_TARGET, (known.target.name,),
        f"'{known.target.name}' is skewed: at least half of its rows lie {'below' if rising else 'above'} "
        f"{number(bound)}, the {what} is "
        f"{number(long_end)}. A few rows weigh most in the fit.", advice, "model", (model,),
    )  # fmt: skip


def _skewness(bars: Sequence[int]) -> float:
    """Of a histogram, as if values lay in the middle of its bars."""
    total = sum(bars)
    if len(bars) < 2 or total < ENOUGH:
        return 0.0
    share, at = np.array(bars) / total, np.arange(len(bars))
    centred = at - float(share @ at)
    variance = float(share @ centred**2)
    return float(share @ centred**3) / variance**1.5 if variance > 0 else 0.0


def _few_rows(known: Known) -> Iterator[Finding]:
    levels = sum(isinstance(term, Level) for term in known.base.terms)
    weights = len(known.base.terms) - levels + sum(max(len(all_) - 1, 1) for all_ in known.base.known.values())
    groups = {term.shape.group for term in known.base.terms if isinstance(term, Shaped) and term.is_level}
    weights -= len(groups) + sum(isinstance(term, Number) and term.helps for term in known.base.terms)
    rows = int(known.against.n)
    if rows >= FEW * weights:
        return
    said = f"There are {rows:,} rows for {weights:,} weights: the model may fit them by chance."
    yield few_rows(said, penalty_knob(known.config.as_dict()))


# ------------------------------------------------------------------ columns that say little


def _ids(known: Known) -> Iterator[Finding]:
    names = [column.name for column in known.columns if known.is_id(column)]
    if names:
        verb = "differs" if len(names) == 1 else "differ"
        yield _left_out(
            FindingKind.ID, names, f"{_quoted(names)} {verb} in nearly every row: a row number or key?",
            "New rows have others: leave it out" if len(names) == 1 else "New rows have others: leave them out",
        )  # fmt: skip


def _duplicates(known: Known) -> Iterator[Finding]:
    names = list(known.numbers)
    correlated = np.abs(_correlations(known)[:-1, :-1])
    if not len(correlated):
        return
    gaps = _few_gaps(known)
    gone: dict[str, str] = {}
    for i, j in np.argwhere(np.triu(correlated > ALIKE - 2 * (gaps + gaps[:, None]), 1)).tolist():
        if names[i] not in gone:
            gone.setdefault(names[j], names[i])
    if gone:
        short = [(shortened(copy, LONG), shortened(first, LONG)) for copy, first in gone.items()]
        pairs = listed([f"'{copy}' as '{first}'" for copy, first in short], NAMED)
        full = {name for name, share in zip(names, gaps.tolist(), strict=True) if not share}
        but = "the same but for their units" if full >= {*gone, *gone.values()} else "nearly the same"
        yield _left_out(
            FindingKind.DUPLICATE, list(gone), f"Columns say {but}: {pairs}.",
            "One of each is enough: leave the others out",
        )  # fmt: skip


def _few_gaps(known: Known) -> Array:
    """The share of gaps of each column of numbers, 0 for many of them. A gap that a copy does not have is filled, and
    lowers the correlation of both by half of its share, for values far out four times that; many could hide more."""
    missing = {column.name: column.missing for column in known.columns}
    share = np.array([missing.get(name, 0) for name in known.numbers]) / max(known.dataset.rows_of_table, 1)
    return np.where(share <= FEW_GAPS, share, 0.0)


def _dates(known: Known) -> Iterator[Finding]:
    straight = {
        term.column for term in known.base.terms
        if (isinstance(term, Number) and not term.helps) or (isinstance(term, Shaped) and term.grows)
    }  # fmt: skip
    names = [column.name for column in known.columns if column.type == "datetime" and column.name in straight]
    if names:
        yield Finding(
            FindingKind.DATES, tuple(names),
            f"{_quoted(names)} {'is a date' if len(names) == 1 else 'are dates'}: new rows will lie beyond those of "
            "training, where a straight line may not hold.",
            f"Tune with folds by time ({names[0]}) to see how well later rows are predicted",
        )  # fmt: skip


def _constants(known: Known) -> Iterator[Finding]:
    constant = [column for column in known.columns if "constant" in column.flags]
    if found := [column for column in constant if _is_mark(known, column)]:
        yield marks(
            [column.name for column in found],
            known.dataset.rows_of_table - found[0].missing,
            known.dataset.rows_of_table,
        )
    names = [column.name for column in constant if column not in found]
    if names:
        has, say = ("has", "says") if len(names) == 1 else ("have", "say")
        yield _left_out(
            FindingKind.CONSTANT, names, f"{_quoted(names)} {has} the same value in every row and {say} nothing.",
            "Leave it out" if len(names) == 1 else "Leave them out",
        )  # fmt: skip


def _is_mark(known: Known, column: Column) -> bool:
    """Whether a number stands in some rows, always the same one, and none in the others: 1 where there is a garage."""
    return column.type == "numeric" and column.missing > 0 and not known.config.indicators
