"""What `inspect` says beyond the reading itself: distinct values, histograms, id-like columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.coordinator import Coordinator
from shoal.data.columns import check_also_missing, choose_columns
from shoal.data.dataset import BadLine, Block, Column, Dataset
from shoal.data.formats.headers import names_totals
from shoal.data.formats.workbooks import sheet_names
from shoal.data.notation.dates import has_times
from shoal.data.notation.limits import TOLD as LIMITS
from shoal.data.notation.limits import told_as
from shoal.data.notation.numbers import notation_of
from shoal.data.notation.words import MOST, VALUES, is_word
from shoal.data.splits import Bits, Split, mixed
from shoal.files.parts import absolute, parts_of
from shoal.fitting.guidance.findings import findings_of
from shoal.fitting.guidance.known import Known
from shoal.fitting.guidance.leaks import against_target
from shoal.fitting.guidance.profile import Ends, keep_profile, known_profile, may_have_codes
from shoal.fitting.guidance.readings import spellings_among, totals_among, without_na_among, zero_led_among
from shoal.fitting.histograms import histogram, histograms, level_counts, most_frequent
from shoal.fitting.rules import looked_over
from shoal.fitting.targets import about_empty_target, about_text_target
from shoal.lazy.classes import dataclass
from shoal.models import Array, Integers
from shoal.passes.blocks import opened
from shoal.passes.quantiles import base_for
from shoal.results.answers.table import BadRows, ColumnLook, TableLook, UnreadLine
from shoal.results.findings import Finding, FindingKind, in_order
from shoal.settings.config import RunConfig
from shoal.words import date_text
from shoal.worker import Worker

SKETCH = 1 << 13  # hashes kept: fewer distinct values are counted exactly, more are estimated to about 1 %
PROBE = 256  # first values of a block, from which it is told whether nearly all differ
NAMED = 100  # rows that could not be read
OFTEN = 2  # rows that have a text from which on it is no key, where not all texts are told apart
TOGETHER = SKETCH << 5  # numbers of several columns that are looked at at once
BLOCKS = 8  # sketched by one request: merging sketches costs more than making them


@dataclass(frozen=True)
class Sketch:
    """The hashes of a column's values that begin with `level` zero bits (adaptive sampling, Wegman), sorted.

    At level 0 these are all; each level keeps about half. `whole`: all values are whole numbers.
    """

    hashes: Bits
    level: int
    whole: bool

    def merge(self, other: Sketch) -> Sketch:
        level = max(self.level, other.level)
        hashes = _sorted_set(np.concatenate((_at(level, self.hashes), _at(level, other.hashes))))
        return Sketch(hashes, level, self.whole and other.whole).thinned()

    def thinned(self) -> Sketch:
        level, hashes = self.level, self.hashes
        while len(hashes) > SKETCH:
            level += 1
            hashes = _at(level, hashes)
        return Sketch(hashes, level, self.whole)

    def distinct(self) -> tuple[int, bool]:
        """The number of distinct values, and whether it is exact."""
        return len(self.hashes) << self.level, self.level == 0


def _at(level: int, hashes: Bits) -> Bits:
    return hashes[hashes >> np.uint64(64 - level) == 0] if level else hashes


def _sorted_set(hashes: Bits) -> Bits:
    """As np.unique, which takes several times as long for whole numbers since it hashes them first."""
    ordered = np.sort(hashes)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


@dataclass(frozen=True)
class Profile:
    """What some blocks say of the columns: sketches and histograms of numbers, counts of levels; each by slot."""

    sketches: list[Sketch]
    histograms: list[Integers]
    levels: list[Integers]
    ends: list[Ends | None]  # of columns whose smallest or largest number may stand for none

    def merge(self, other: Profile) -> Profile:
        return Profile(
            [a.merge(b) for a, b in zip(self.sketches, other.sketches, strict=True)],
            [a + b for a, b in zip(self.histograms, other.histograms, strict=True)],
            [a + b for a, b in zip(self.levels, other.levels, strict=True)],
            [a and b and a.merge(b) for a, b in zip(self.ends, other.ends, strict=True)],
        )


@dataclass(frozen=True)
class ProfileBlocks:
    """The profile of all columns over some blocks."""

    directory: str
    blocks: tuple[Block, ...]

    def answer(self, worker: Worker) -> Profile | None:
        dataset = opened(self.directory)
        total: Profile | None = None
        for block in self.blocks:
            part = _profile(dataset, block)
            total = part if total is None else total.merge(part)
        return total


def _profile(dataset: Dataset, block: Block) -> Profile:
    sketches, bars, ends = list[Sketch](), list[Integers](), list[Ends | None]()
    numbers = np.ascontiguousarray(dataset.numbers(block).T)
    columns = dataset.number_columns
    together = _together(columns, numbers) if block.rows <= SKETCH else {}
    for place, (column, values) in enumerate(zip(columns, numbers, strict=True)):
        known = together.get(place)
        present = values if known else values[~np.isnan(values)]
        sketch, counts = known or (_sketch(present), histogram(present, column.minimum, column.maximum))
        sketches.append(sketch)
        bars.append(counts)
        low, high = column.minimum, column.maximum
        coded = may_have_codes(column)
        ends.append(Ends.of(present, low, high) if coded and low is not None and high is not None else None)
    levels = [level_counts(dataset.codes(block, c.slot), len(c.levels)) for c in dataset.level_columns]
    return Profile(sketches, bars, levels, ends)


def _together(columns: Sequence[Column], numbers: Array) -> dict[int, tuple[Sketch, Integers]]:
    """Sketches and histograms of those of the columns that have no gaps, by their places: of very many columns of few
    rows it takes a fraction of the time to look at many at once."""
    low, high = (np.array([getattr(c, end) for c in columns], np.float64) for end in ("minimum", "maximum"))
    with np.errstate(over="ignore", invalid="ignore"):
        usual = np.flatnonzero((low < high) & np.isfinite(high - low))
    found, step = dict[int, tuple[Sketch, Integers]](), max(1, TOGETHER // max(1, numbers.shape[1]))
    for start in range(0, len(usual), step):
        places = usual[start : start + step]
        places = places[~np.isnan(numbers[places]).any(axis=1)]
        values = numbers[places] + 0.0  # -0.0 is 0.0
        hashes = np.sort(mixed(values.view(np.uint64)), axis=1)
        other = np.insert(hashes[:, 1:] != hashes[:, :-1], 0, True, axis=1)
        whole = (values == np.floor(values)).all(axis=1)
        bars = histograms(values, low[places], high[places])
        parts = zip(places.tolist(), hashes, other, whole.tolist(), bars, strict=True)
        found |= {place: (Sketch(row[new], 0, is_whole), counts) for place, row, new, is_whole, counts in parts}
    return found


def _sketch(values: npt.NDArray[np.float64]) -> Sketch:
    values = values + 0.0  # -0.0 is 0.0
    hashes = mixed(values.view(np.uint64))
    # Where the first values nearly all differ there will be too many to keep: most are dropped before the sorting.
    many = len(hashes) > SKETCH and len(_sorted_set(hashes[:PROBE])) > PROBE // 2
    level = 3 if many else 0
    whole = bool((values == np.floor(values)).all())
    return Sketch(_sorted_set(_at(level, hashes)), level, whole).thinned()


def inspect(coordinator: Coordinator, dataset: Dataset, config: RunConfig) -> TableLook:
    """All that is known of a file."""
    manifest = dataset.manifest
    check_also_missing(config.also_missing, dataset)
    profile = _profiles(coordinator, dataset)
    findings = _findings(coordinator, dataset, config, profile) if config.target else _of_columns(dataset, config)
    findings = (*looked_over(dataset, config), *findings)
    leaks = {name for finding in findings if finding.kind == FindingKind.LEAK for name in finding.columns}
    return TableLook(
        file=absolute(config.file),  # not the manifest's: an equal file may be its source
        rows=dataset.rows_of_table,
        dialect=manifest.dialect,
        sheets=tuple(sheet_names(parts_of(config.file)[0]) if manifest.dialect.get("sheet") else ()),
        columns=tuple(_described(column, profile[column.name], column.name in leaks) for column in manifest.columns),
        bad_rows=BadRows(manifest.bad_count, manifest.repeated, tuple(map(_unread, manifest.bad_rows[:NAMED]))),
        largest_row_norm=manifest.largest_norm,
        notes=tuple(dataset.notes),
        findings=findings,
    )


def _unread(bad: BadLine) -> UnreadLine:
    return UnreadLine(bad.line, bad.problem, bad.part)


def _findings(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, profile: dict[str, dict[str, Any]]
) -> tuple[Finding, ...]:
    """What is worth knowing before the target is predicted; from all rows, since none are kept for testing yet."""
    target, yes, known = dataset.columns.get(config.target), None, tuple[Finding, ...]()
    if target is not None and not target.is_number and target.levels:
        known = (about_text_target(target), *_of_columns(dataset, config))
        if len(target.levels) != 2 or target.more_levels:
            return known
        known = known[:1]
        yes, config = target.levels[1], replace(config, model="logistic")
    if target is not None and target.missing >= dataset.rows - dataset.manifest.bad_count:
        return (about_empty_target(target.name),)
    base = base_for(coordinator.swept, dataset, config, Split(), choose_columns(dataset, config), yes)
    found = findings_of(Known(dataset, config, base, *against_target(coordinator, dataset, base), profile))
    return in_order((*known, *found))


def _of_columns(dataset: Dataset, config: RunConfig) -> tuple[Finding, ...]:
    """What is worth knowing of columns whatever is predicted."""
    columns = [column for column in dataset.manifest.columns if column.name not in config.exclude]
    return (
        *zero_led_among(columns, config), *without_na_among(columns), *spellings_among(columns), *totals_among(columns)
    )  # fmt: skip


def _described(column: Column, profile: dict[str, Any], leaks: bool) -> ColumnLook:
    flags = list(column.flags)
    if column.is_number:
        count, exact = profile["distinct"], profile["exact"]
        flags += ["id_like"] if profile["id_like"] else []
        shown: dict[str, Any] = {"histogram": tuple(profile["histogram"])}
        words = list(column.words)
    else:
        count, exact = column.distinct, not column.more_levels
        if not exact and profile["frequent"] and profile["frequent"][0][1] > OFTEN:
            flags = [flag for flag in flags if flag != "id_like"]  # texts that come again are no keys of rows
        shown, words = {"frequent": _pairs(profile["frequent"])}, profile["words"]
        if column.type == "categorical":
            shown["levels"] = tuple(column.levels)
        if count == 1 and column.missing:
            flags = ["mark"]  # that most rows lack it is what it says
    as_date = column.is_date
    return ColumnLook(
        name=column.name,
        type=column.type,
        missing=column.missing,
        distinct=count,
        distinct_exact=exact,
        min=_date(column.minimum, column.written) if as_date else column.minimum,
        max=_date(column.maximum, column.written) if as_date else column.maximum,
        flags=(*flags, *(["leak"] if leaks else [])),
        written=column.written,
        orders=tuple(column.orders),
        words=_pairs(pair for pair in words if not names_totals(pair[0]) and pair[0] not in LIMITS),
        limits=_pairs(pair for pair in words if pair[0] in LIMITS and not column.is_date),
        totals=_pairs(pair for pair in words if names_totals(pair[0])),
        codes=_pairs(profile.get("codes", ())),
        **shown,
    )


def _pairs(pairs: Iterable[Sequence[Any]]) -> tuple[tuple[Any, Any], ...]:
    """As tuples, where an earlier pass was read back from its file."""
    return tuple((what, rows) for what, rows in pairs)


def _date(days: float | None, written: str) -> str | None:
    """With a time of day where the column has times."""
    return None if days is None else date_text(days, has_times(written))


def _profiles(coordinator: Coordinator, dataset: Dataset) -> dict[str, dict[str, Any]]:
    """For each column what a pass over its rows says, from an earlier pass if there was one."""
    if found := known_profile(dataset):
        return found
    found = _described_profile(dataset, _profile_of_all(coordinator, dataset))
    keep_profile(dataset, found)
    return found


def _profile_of_all(coordinator: Coordinator, dataset: Dataset) -> Profile:
    groups = [dataset.blocks[i : i + BLOCKS] for i in range(0, len(dataset.blocks), BLOCKS)]
    requests = [ProfileBlocks(str(dataset.directory), group) for group in groups]
    total: Profile | None = None
    for part in coordinator.swept("counting distinct values", requests):
        total = part if total is None else total.merge(part)
    return total or _profile(dataset, Block(0, 0, 0))


def _described_profile(dataset: Dataset, total: Profile) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    parts = zip(dataset.number_columns, total.sketches, total.histograms, total.ends, strict=True)
    for column, sketch, bars, ends in parts:
        count, exact = sketch.distinct()
        found[column.name] = {
            "distinct": count,
            "exact": exact,
            "id_like": column.type == "numeric" and not _is_amount(column) and _is_id_like(sketch, int(bars.sum())),
            "histogram": bars.tolist(),
            "codes": ends.codes(column.minimum or 0.0, column.maximum or 0.0) if ends else [],
        }
    for column, counts in zip(dataset.level_columns, total.levels, strict=True):
        found[column.name] = {"frequent": most_frequent(column.levels, counts), "words": _words(column, counts)}
    return found


def _words(column: Column, counts: Integers) -> list[tuple[str, int]]:
    """The words of a text column that would be one of numbers without them."""
    words: Counter[str] = Counter()
    rest: dict[str, int] = {}
    for level, count in zip(column.levels, counts.tolist(), strict=True):
        if is_word(told := told_as(level)):
            words[told] += count
        else:
            rest[level] = count
    few = 0 < len(words) <= MOST and len(rest) >= 3 and not column.more_levels
    most = sum(rest.values()) >= sum(words.values()) or (len(words) <= 2 and len(rest) >= VALUES)
    return list(words.items()) if few and most and notation_of(list(rest)) else []


def _is_amount(column: Column) -> bool:
    """Whether its numbers are written as nobody writes keys: with a unit or currency behind them, or grouped digits."""
    return bool(column.written) and (not column.written[-1].isdigit() or "1234" not in column.written)


def _is_id_like(sketch: Sketch, present: int) -> bool:
    """Whether it looks like a row number or key: whole numbers, of which nearly every one differs."""
    count, exact = sketch.distinct()
    return sketch.whole and present > 20 and count >= (0.98 if exact else 0.93) * present
