"""Columns whose values may mean something else: no value, names, or one another; not what they tell of the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from shoal.data.dataset import WITHOUT_NA, Column
from shoal.data.dialects import DEFAULT_MISSING
from shoal.data.formats.headers import names_sums
from shoal.data.notation.spelling import spelled_alike
from shoal.fitting.guidance.known import Known
from shoal.fitting.guidance.leaks import SAMPLED, sampled_rows
from shoal.fitting.guidance.profile import Ends, may_have_codes
from shoal.results.findings import Finding, FindingKind, spelled, without_na, zero_led
from shoal.settings.config import RunConfig
from shoal.words import NA, listed, plural

DISTINCT = 5  # values of a column, of which one may stand for none
SHOWN = 3  # names in one sentence


def missing_codes(known: Known) -> Iterator[Finding]:
    """Usual codes for no value, far from the other numbers of their column."""
    manifest = known.dataset.manifest
    least = "at least " if manifest.bad_count > manifest.repeated else ""  # rows that cannot be read may have more
    for column in (*known.columns, known.target):
        for value, count in _codes_of(known, column):
            yield Finding(
                FindingKind.MISSING_CODE, (column.name,),
                f"'{column.name}' is {value:.15g} in {least}{count}, far from its other values: no value?",
                "If so, count it as missing", "also_missing", (f"{column.name}={value:.15g}",),
            )  # fmt: skip


def _codes_of(known: Known, column: Column) -> list[tuple[float, str]]:
    """Usual codes among the ends of a column, and in how many rows they are: all, or of those at hand."""
    low, high = column.minimum, column.maximum
    if not may_have_codes(column) or low is None or high is None:
        return []
    if (found := known.profile.get(column.name)) is not None:
        several = found.get("distinct", 0) >= DISTINCT
        return [(value, plural(count, "row")) for value, count in found.get("codes", ()) if several]
    values = sampled_rows(known.dataset, [column.name])[:, 0]
    codes = Ends.of(values, low, high).codes(low, high) if len(np.unique(values)) >= DISTINCT else []
    rest = "" if known.dataset.rows <= SAMPLED else f" of the first {SAMPLED:,}"
    return [(value, f"{plural(count, 'row')}{rest}") for value, count in codes]


def totals_among(columns: Iterable[Column]) -> Iterator[Finding]:
    """Names of rows that are sums of others, which a model would count twice: Total beside male and female."""
    for column in columns:
        found = [level for level in column.levels if names_sums(level)]
        if column.type == "categorical" and found and len(found) < len(column.levels):
            shown = listed([f"'{level}'" for level in found], SHOWN)
            yield Finding(
                FindingKind.TOTALS, (column.name,),
                f"'{column.name}' has {shown}: rows that are sums of others?", "If so, take them out of the file",
            )  # fmt: skip


def totals(known: Known) -> Iterator[Finding]:
    return totals_among(known.columns)


def spellings_among(columns: Iterable[Column]) -> Iterator[Finding]:
    """Text columns with one value in several spellings, each with two of these."""
    texts = (column for column in columns if column.type == "categorical" and not column.apart)
    if found := {column.name: alike[0][:2] for column in texts if (alike := spelled_alike(column.levels))}:
        yield spelled(found)


def spellings(known: Known) -> Iterator[Finding]:
    return spellings_among((known.target, *known.columns))


def without_na_among(columns: Iterable[Column]) -> Iterator[Finding]:
    """Codes of which one, NA, is read as no value."""
    if names := [column.name for column in columns if WITHOUT_NA in column.flags]:
        yield without_na(names, [token for token in DEFAULT_MISSING if token not in ("", NA)])


def codes_without_na(known: Known) -> Iterator[Finding]:
    return without_na_among((*known.columns, known.target))


def zero_led_codes(known: Known) -> Iterator[Finding]:
    """Numbers with zeros before them, as postal codes have, unless somebody said that they are numbers; a key of rows
    is told as such."""
    keys = [column for column in known.columns if known.is_id(column)]
    return zero_led_among([column for column in (*known.columns, known.target) if column not in keys], known.config)


def zero_led_among(columns: Iterable[Column], config: RunConfig) -> Iterator[Finding]:
    """The same of columns that are no keys, whatever is predicted."""
    led = (column.name for column in columns if column.type == "numeric" and "leading_zeros" in column.flags)
    if names := [name for name in led if name not in config.numeric]:
        yield zero_led(names)
