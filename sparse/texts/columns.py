"""Text columns of any number of levels as columns of a sparse design: one a level, or a few that a hash of the text
chooses; who fits them is in `cells`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block, Column, Dataset
from shoal.data.encoding import compared_with, grouped_levels
from shoal.data.terms import MISSING_LEVEL, HashedText, Term
from shoal.data.texts.hashing import buckets_of
from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.settings.transforms import ColumnPart
from shoal.words import did_you_mean

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class TextDesign:
    """What a text column becomes: `matrix` (levels + 1, terms) has a row for each of its levels, and last for no value.

    `unknown` are those that no training row has and no term is meant for.
    """

    column: Column
    matrix: Any  # scipy's csr
    terms: tuple[Term, ...]
    unknown: npt.NDArray[np.bool_]
    known: tuple[str, ...] | None = None  # None of a hash, which knows every text
    usual: str = ""
    compared: str | None = None
    note: str = ""

    def rows(self, codes: Codes) -> Any:
        """(n, terms), of rows by the codes of their levels, of which the last means no value."""
        return self.matrix[codes]

    def adds(self, coef: Array) -> Array:
        """What each level adds to the score of a row; NaN where it is unknown."""
        return np.where(self.unknown, np.nan, self.matrix @ coef)


def codes_of(dataset: Dataset, column: Column, block: Block) -> Codes:
    """The level of each row of a block by its place, the last of all for no value."""
    codes = dataset.codes(block, column.slot)
    return np.where(codes < 0, np.int32(len(column.levels)), codes)


def by_level(column: Column, counts: Array, config: RunConfig, wanted: str | None) -> TextDesign:
    """One term a level that training rows have, as dense fits have it; `counts` (levels + 1) are theirs."""
    names = [*column.levels, MISSING_LEVEL]
    if wanted is not None and wanted not in names:
        raise ConfigError(
            f"Expected one of the texts of '{column.name}' to compare with, got '{wanted}'."
            f"{did_you_mean(wanted, names[:1000])} It has {len(column.levels):,} texts.", knobs=["reference"],
        )  # fmt: skip
    found: dict[str, float] = {}
    for at in np.flatnonzero(counts).tolist():
        found[names[at]] = found.get(names[at], 0.0) + float(counts[at])  # a file may have __missing__ as a text
    levels = {level: found[level] for level in sorted(found)}
    there = names if counts[-1] else names[:-1]
    grouped = grouped_levels(column.name, levels, list(dict.fromkeys(there)), config.min_level_rows, wanted)
    named = [term.level for term in grouped.terms]
    gone = compared_with(named, config.coding, wanted, grouped.rare)
    terms = tuple(term for term in grouped.terms if term.level != gone)
    place = {term.level: i for i, term in enumerate(terms)}
    other = place.get(grouped.rare, -1) if grouped.rare else -2
    own = {level for level in named if level != grouped.rare}
    table = np.array([place.get(name, -1) if name in own else other for name in names], np.int64)
    return TextDesign(
        column, _chosen(table, len(terms)), terms, table == -2, tuple(levels),
        max(levels, key=levels.__getitem__) if levels else "", gone, grouped.note,
    )  # fmt: skip


def _chosen(table: npt.NDArray[np.int64], width: int) -> Any:
    """A row for each entry, with a 1 in the column that it names, if any."""
    from scipy.sparse import csr_array  # here: only sparse rows need it

    has = table >= 0
    starts = np.concatenate(([0], np.cumsum(has))).astype(np.int32)
    return csr_array((np.ones(int(has.sum())), table[has].astype(np.int32), starts), (len(table), width))


def by_hash(column: Column, counts: Array, part: ColumnPart) -> TextDesign:
    """One term for each column of the hash that a text of a training row falls into; no value falls into none."""
    from scipy.sparse import csr_array

    starts, buckets = buckets_of(column.levels, part.how == "words", part.number)
    rows = np.repeat(counts[:-1] > 0, np.diff(starts))
    there = np.unique(buckets[rows])
    at = np.searchsorted(there, buckets)
    kept = at < len(there)
    kept[kept] = there[at[kept]] == buckets[kept]
    ends = np.concatenate(([0], np.cumsum(kept)))[starts]
    matrix = csr_array(
        (np.ones(int(kept.sum())), at[kept].astype(np.int32), np.append(ends, ends[-1]).astype(np.int32)),
        (len(column.levels) + 1, len(there)),
    )  # fmt: skip
    matrix.sum_duplicates()
    terms = tuple(HashedText(column.name, part.how, part.number, bucket) for bucket in there.tolist())
    return TextDesign(column, matrix, terms, np.zeros(len(column.levels) + 1, bool))


def counted(codes: Codes, levels: int, weights: Array | None) -> Array:
    """How many rows have each level, and last no value; by their weights where they have some."""
    return np.asarray(np.bincount(codes, weights, levels + 1), np.float64)


def hashed_parts(parts: Sequence[tuple[Column, ColumnPart]]) -> None:
    """Refuse hashes of columns that are no texts."""
    for column, part in parts:
        if column.is_number:
            raise ConfigError(
                f"Expected a text column for {part}, got '{column.name}', which holds "
                f"{'dates' if column.is_date else 'numbers'}. If they are names, add it to categorical.",
                knobs=["transform", "categorical"],
            )
