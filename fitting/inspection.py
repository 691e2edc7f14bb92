"""What `inspect` says beyond the reading itself: distinct values, histograms, id-like columns."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.coordinator import Coordinator
from shoal.data.dataset import Block, Column, Dataset
from shoal.data.notation.numbers import notation_of
from shoal.data.notation.words import CODES, MOST, is_code, is_word
from shoal.data.splits import Bits, mixed
from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.fitting.histograms import histogram, level_counts, most_frequent
from shoal.fitting.leaks import leaks_of
from shoal.models import Integers
from shoal.settings.config import RunConfig
from shoal.worker import Worker

SKETCH = 1 << 13  # hashes kept: fewer distinct values are counted exactly, more are estimated to about 1 %
PROBE = 256  # first values of a block, from which it is told whether nearly all differ
BLOCKS = 8  # sketched by one request: merging sketches costs more than making them
FORMAT = 3  # of profile.json; one of another format is made anew


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
class Ends:
    """How often a column's smallest and largest numbers come, and the ends of what is between them."""

    lowest: int
    highest: int
    low: float
    high: float

    @classmethod
    def of(cls, values: npt.NDArray[np.float64], least: float, greatest: float) -> Ends:
        inner = values[(values != least) & (values != greatest)]
        low, high = (float(inner.min()), float(inner.max())) if len(inner) else (np.inf, -np.inf)
        return cls(int((values == least).sum()), int((values == greatest).sum()), low, high)

    def merge(self, other: Ends) -> Ends:
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Ends(self.lowest + other.lowest, self.highest + other.highest, low, high)

    def codes(self, least: float, greatest: float) -> list[tuple[float, int]]:
        """Numbers that may stand for none, and in how many rows they come."""
        if self.low > self.high:
            return []
        top = is_code(greatest, self.highest, self.high, self.low)
        bottom = is_code(least, self.lowest, self.low, self.high if top else greatest)
        top = is_code(greatest, self.highest, self.high, self.low if bottom else least)
        return [(least, self.lowest)] * bottom + [(greatest, self.highest)] * top


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
        dataset = Dataset(Path(self.directory))
        total: Profile | None = None
        for block in self.blocks:
            part = _profile(dataset, block)
            total = part if total is None else total.merge(part)
        return total


def _profile(dataset: Dataset, block: Block) -> Profile:
    sketches, histograms, ends = [], [], []
    numbers = np.ascontiguousarray(dataset.numbers(block).T)
    for column, values in zip(dataset.number_columns, numbers, strict=True):
        present = values[~np.isnan(values)]
        sketches.append(_sketch(present))
        histograms.append(histogram(present, column.minimum, column.maximum))
        low, high = column.minimum, column.maximum
        coded = column.type == "numeric" and low is not None and high is not None and {low, high} & CODES
        ends.append(Ends.of(present, low, high) if coded and low is not None and high is not None else None)
    levels = [level_counts(dataset.codes(block, c.slot), len(c.levels)) for c in dataset.level_columns]
    return Profile(sketches, histograms, levels, ends)


def _sketch(values: npt.NDArray[np.float64]) -> Sketch:
    values = values + 0.0  # -0.0 is 0.0
    hashes = mixed(values.view(np.uint64))
    # Where the first values nearly all differ there will be too many to keep: most are dropped before the sorting.
    many = len(hashes) > SKETCH and len(_sorted_set(hashes[:PROBE])) > PROBE // 2
    level = 3 if many else 0
    whole = bool((values == np.floor(values)).all())
    return Sketch(_sorted_set(_at(level, hashes)), level, whole).thinned()


def inspect(coordinator: Coordinator, dataset: Dataset, config: RunConfig) -> dict[str, Any]:
    """All that is known of a file: the object that `inspect --json` prints."""
    manifest = dataset.manifest
    profile = _profiles(coordinator, dataset)
    leaks = leaks_of(coordinator, dataset, config) if config.target else set()
    return {
        "file": str(Path(config.file).expanduser().absolute()),  # not the manifest's: an equal file may be its source
        "rows": manifest.rows,
        "dialect": manifest.dialect,
        "columns": [_described(column, profile[column.name], column.name in leaks) for column in manifest.columns],
        "bad_rows": {
            "count": manifest.bad_count,
            "first": [{"line": line, "problem": what} for line, what in manifest.bad_rows[:100]],
        },
        "largest_row_norm": manifest.largest_norm,
        "notes": list(dataset.notes),
    }


def _described(column: Column, profile: dict[str, Any], leaks: bool) -> dict[str, Any]:
    flags = list(column.flags)
    if column.is_number:
        count, exact = profile["distinct"], profile["exact"]
        flags += ["id_like"] if profile["id_like"] else []
        shown = {"histogram": profile["histogram"]}
        words = [[word, times] for word, times in column.words]
    else:
        count, exact = column.distinct, not column.more_levels
        shown, words = {"frequent": profile["frequent"]}, profile["words"]
        if column.type == "categorical":
            shown["levels"] = list(column.levels)
    as_date = column.type == "datetime"
    return {
        "name": column.name,
        "type": column.type,
        "missing": column.missing,
        "distinct": count,
        "distinct_exact": exact,
        "min": _date(column.minimum) if as_date else column.minimum,
        "max": _date(column.maximum) if as_date else column.maximum,
        "flags": flags + (["leak"] if leaks else []),
        "written": column.written,
        "words": words,
        "codes": profile.get("codes", []),
        **shown,
    }


def _date(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError):
        return str(seconds)


def _profiles(coordinator: Coordinator, dataset: Dataset) -> dict[str, dict[str, Any]]:
    """For each column what a pass over its rows says, from an earlier pass if there was one."""
    saved = dataset.directory / "profile.json"
    of = dataset.directory.name
    with contextlib.suppress(OSError, DamagedFile):
        known = sealed.read(saved, of)
        if known.get("format") == FORMAT:
            found: dict[str, dict[str, Any]] = known["columns"]
            return found
    found = _described_profile(dataset, _profile_of_all(coordinator, dataset))
    with contextlib.suppress(OSError):  # a read-only or full cache costs the next caller a pass, no more
        sealed.write(saved, {"format": FORMAT, "columns": found}, of)
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
            "id_like": column.type == "numeric" and _is_id_like(sketch, int(bars.sum())),
            "histogram": bars.tolist(),
            "codes": ends.codes(column.minimum or 0.0, column.maximum or 0.0) if ends else [],
        }
    for column, counts in zip(dataset.level_columns, total.levels, strict=True):
        found[column.name] = {"frequent": most_frequent(column.levels, counts), "words": _words(column, counts)}
    return found


def _words(column: Column, counts: Integers) -> list[tuple[str, int]]:
    """The words of a text column that would be one of numbers without them."""
    pairs = list(zip(column.levels, counts.tolist(), strict=True))
    words = [(level, count) for level, count in pairs if is_word(level)]
    rest = {level: count for level, count in pairs if not is_word(level)}
    few = 0 < len(words) <= MOST and len(rest) >= 3 and not column.more_levels
    most = sum(rest.values()) >= sum(count for _, count in words)
    return words if few and most and notation_of(list(rest)) else []


def _is_id_like(sketch: Sketch, present: int) -> bool:
    """Whether it looks like a row number or key: whole numbers, of which nearly every one differs."""
    count, exact = sketch.distinct()
    return sketch.whole and present > 20 and count >= (0.98 if exact else 0.93) * present
