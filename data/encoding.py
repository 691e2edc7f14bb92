"""Design columns: how stored columns become the numbers that a model is fitted to, the same for every row it sees.

An `Encoding` is a plain list of terms and can be written into a model file. Two encodings of the same columns differ
by a linear map (`matrix_between`), so moments summed once serve every imputation and coding. Rows are encoded in
`data_pipeline`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.notation.spelling import in_one_spelling
from shoal.data.splits import Yes
from shoal.data.terms import (
    ALL_FOLDS,
    MISSING_LEVEL,
    RARE_LEVEL,
    Level,
    Number,
    Offset,
    Rare,
    Shaped,
    Term,
    fold_of,
    term_from,
)
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.levels import SIGN, split_level
from shoal.solve.moments import Moments
from shoal.words import listed, plural

HALF_A_ROW = 0.5  # numbers of rows come from means


@dataclass(frozen=True)
class Encoding:
    """The terms in order, which levels each text column is known to have, and which one most training rows have."""

    terms: tuple[Term, ...]
    known: Mapping[str, tuple[str, ...]]
    target: str = ""
    drop_missing: bool = False
    yes: Yes = None  # the value of the target that counts as 1, all others as 0; or all its classes; None: a number
    usual: Mapping[str, str] = field(default_factory=dict)
    weights: str = ""  # the column of the rows' weights; without one they all count alike
    weight_scale: float = 1.0  # what those are multiplied by
    compared: Mapping[str, str] = field(default_factory=dict)  # of groups of shapes, such as month(sold): as references
    offset: Offset | None = None  # in a fit; in a model file it is among the terms
    present: tuple[str, ...] = ()  # text columns that have no terms here, and without which a row is dropped as well

    @property
    def names(self) -> list[str]:
        return [term.name for term in self.terms]

    @property
    def columns(self) -> list[str]:
        """All columns of the file that a term needs, each once."""
        return list(dict.fromkeys(column for term in self.terms for column in term.columns))

    @property
    def references(self) -> dict[str, str]:
        """Of each text column the level without a term of its own, which the others are compared with."""
        own = {(term.column, term.level) for term in self.terms if isinstance(term, Level)}
        own |= {(term.column, level) for term in self.rare.values() for level in term.grouped}
        apart = {name: [one for one in levels if (name, one) not in own] for name, levels in self.known.items()}
        return {**{name: levels[0] for name, levels in apart.items() if len(levels) == 1}, **self.compared}

    @cached_property
    def rare(self) -> dict[str, Rare]:
        """Of text columns the term of all levels that have none of their own, if there is one."""
        return {term.column: term for term in self.terms if isinstance(term, Rare)}

    def knows(self, column: str, level: str) -> bool:
        """Whether some term, or being compared with, is meant for the level."""
        return level in self.known[column] or column in self.rare

    @property
    def fills(self) -> dict[str, float]:
        """Of each column of numbers what stands in for a missing value."""
        return {term.column: term.fill for term in self.terms if isinstance(term, (Number, Shaped))}

    def owned_by(self, column: str) -> npt.NDArray[np.bool_]:
        """Which terms need a column of the file: they go with it."""
        return np.array([column in term.columns for term in self.terms], bool)

    def of_fold(self, fold: int | None) -> tuple[Encoding, npt.NDArray[np.intp]]:
        """Without the terms whose borders are those of other folds, and where the rest stand; None: of all rows."""
        own = (None, ALL_FOLDS if fold is None else fold)
        places = np.array([i for i, term in enumerate(self.terms) if fold_of(term) in own], np.intp)
        return replace(self, terms=tuple(self.terms[i] for i in places)), places

    def as_list(self) -> list[dict[str, Any]]:
        return [term.as_dict() for term in self.terms]


def matrix_between(base: Encoding, wanted: Encoding) -> tuple[npt.NDArray[np.intp], Array | None]:
    """How `wanted` follows from `base`: its columns of base, and, where fills differ, the matrix A of wanted = A base.

    A missing value is x + fill * m with m its indicator; so another fill is (fill' - fill) * m more, and a product of
    two such sums is the sum of their products.
    """
    places = {term.key: i for i, term in enumerate(base.terms)}
    columns = np.array([places[term.key] for term in wanted.terms], np.intp)
    A = np.zeros((len(wanted.terms), len(base.terms)))
    for i, term in enumerate(wanted.terms):
        for key, weight in term.less(base.terms[columns[i]], places).items():
            A[i, places[key]] += weight
    differs = bool(A.any())
    A[np.arange(len(columns)), columns] += 1.0
    return columns, A if differs else None


def mapped(train: Moments, base: Encoding, encoding: Encoding) -> Moments:
    """The moments of (design columns..., target) from those of (base columns..., target)."""
    columns, A = matrix_between(base, encoding)
    if A is None:
        return train.take([*columns, len(base.terms)])
    with_target = np.zeros((len(A) + 1, len(base.terms) + 1))
    with_target[:-1, :-1] = A
    with_target[-1, -1] = 1.0
    shift = np.zeros(len(A) + 1)
    return train.map(with_target, shift)


class Grouped(NamedTuple):
    """The terms of a text column's levels by alphabet, the group of rare ones last; its name, a sentence about it."""

    terms: tuple[Level, ...]
    rare: str = ""
    note: str = ""


def compared_with(levels: Sequence[str], coding: str, wanted: str | None, rare: str = "") -> str | None:
    """The level of a text column that has no term of its own: the one asked for where training rows have it, else the
    first that is a text; no value and rare ones only where there is nothing else. None for a full coding.

    A single text beside no value is a mark, such as X for yes, and what counts is that it stands there.
    """
    if coding == "full" or not levels:
        return None
    if coding == "drop_first":
        return levels[0]
    if wanted in levels:
        return wanted
    texts = [one for one in levels if one not in (MISSING_LEVEL, rare)]
    is_mark = len(texts) == 1 and len(levels) == 2 and MISSING_LEVEL in levels
    return MISSING_LEVEL if is_mark else next(iter(texts), levels[0])


def grouped_levels(
    column: str, counts: Mapping[str, float], known: Sequence[str], least: int, wanted: str | None
) -> Grouped:
    """The levels of a text column that stand for themselves, and the group of those with fewer than `least` rows, if
    any has. The one that others shall be compared with always stands for itself."""
    rare = {level: None for level, count in counts.items() if count < least - HALF_A_ROW and level != wanted}
    kept = tuple(level for level in counts if level not in rare)
    own = tuple(Level(column, level) for level in kept)
    if not rare:
        return Grouped(own)
    name = RARE_LEVEL
    while name in known:
        name = f"_{name}_"
    stay = frozenset(kept)
    group = Rare(column, name, kept, tuple(level for level in known if level not in stay))
    total = round(sum(counts[level] for level in rare))
    said = listed(["no value" if level == MISSING_LEVEL else f"'{level}'" for level in rare])
    note = (
        f"Text column '{column}': {plural(len(rare), 'level')} of fewer than {least:,} training rows ({said}) "
        f"{'is' if len(rare) == 1 else 'are together'} the level {name}, of {plural(total, 'row')}; so is every value "
        "that no training row has."
    )
    return Grouped((*own, group), name, note)


def encoding_from(
    terms: Sequence[Mapping[str, Any]], known: Mapping[str, Sequence[str]], usual: Mapping[str, str] | None = None
) -> Encoding:
    """An encoding as a model file has it."""
    levels = {name: tuple(levels) for name, levels in known.items()}
    return Encoding(tuple(map(term_from, terms)), levels, usual=usual or {})


def spelled_levels(texts: Iterable[str], alike: Collection[str], columns: Collection[str]) -> list[str]:
    """Levels as `city=Oslo`, as the columns hold them: those of columns that are read `alike` may be said in any
    spelling."""
    found = [(text, split_level(text, columns)) for text in texts]
    return [f"{pair[0]}{SIGN}{in_one_spelling(pair[1])}" if pair and pair[0] in alike else text for text, pair in found]
