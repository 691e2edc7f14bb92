"""A linear model as what its dense terms say and what texts add to that, so that no row needs a column a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Dataset
from shoal.data.terms import MISSING_LEVEL, HashedText, Level, Product
from shoal.data.texts.hashing import buckets_of
from shoal.fitting.model_file import SavedModel
from shoal.lazy.classes import dataclass
from shoal.models import Array

MANY = 1000  # levels of a text column from which on dense rows would cost more than looking texts up


@dataclass(frozen=True)
class _HashWeights:
    """The weights of the columns of a hash that have one, in their order."""

    how: str
    bits: int
    buckets: npt.NDArray[np.int64]
    weights: Array

    def of(self, texts: Sequence[str]) -> Array:
        starts, found = buckets_of(texts, self.how == "words", self.bits)
        at = np.minimum(np.searchsorted(self.buckets, found), len(self.buckets) - 1)
        adds = np.where(self.buckets[at] == found, self.weights[at], 0.0)
        rows = np.repeat(np.arange(len(texts)), np.diff(starts))
        return np.asarray(np.bincount(rows, adds, len(texts)), np.float64)


@dataclass(frozen=True)
class TextWeights:
    """What the texts of a column add to a score: by level, NaN for one that the model does not know, and by hashes."""

    levels: Mapping[str, float] | None  # of all known ones; None where the model has hashes alone
    other: float  # of a level that is not among them: NaN, or that of rare ones
    hashes: tuple[_HashWeights, ...] = ()

    def of(self, texts: Sequence[str]) -> Array:
        total = np.zeros(len(texts))
        if self.levels is not None:
            total += np.fromiter((self.levels.get(text, self.other) for text in texts), np.float64, len(texts))
        for one in self.hashes:
            total += one.of(texts)
        return total

    def of_cells(self, levels: Sequence[str]) -> Array:
        """The same of levels among which `__missing__` stands for no value."""
        return np.where([level == MISSING_LEVEL for level in levels], self.missing, self.of(levels))

    @property
    def missing(self) -> float:
        """Without a value; hashes add nothing then."""
        return 0.0 if self.levels is None else self.levels.get(MISSING_LEVEL, self.other)


@dataclass(frozen=True)
class SplitModel:
    """The model without the terms of `texts`, and what those say."""

    dense: SavedModel
    texts: Mapping[str, TextWeights]

    def by_level(self, dataset: Dataset) -> dict[str, Array]:
        """What the levels of a data set add, those of a column in their order and last no value."""
        columns = {name: dataset.columns[name].levels for name in self.texts}
        return {name: np.append(self.texts[name].of(levels), self.texts[name].missing)
                for name, levels in columns.items()}  # fmt: skip


def has_many(model: SavedModel) -> bool:
    """Whether its texts are looked up rather than made columns of; only scores that are predictions can be added to."""
    if not can_split(model):
        return False
    hashed = any(isinstance(term, HashedText) for term in model.encoding.terms)
    return hashed or any(len(levels) > MANY for levels in model.encoding.known.values())


def can_split(model: SavedModel) -> bool:
    return model.outcome is None and model.network is None


def split_where_many(model: SavedModel) -> SplitModel:
    """All of it where its texts are few: its rows are what they always were, to the bit."""
    return split_model(model) if has_many(model) else SplitModel(model, {})


def split_model(model: SavedModel) -> SplitModel:
    """All text columns but those that products have."""
    encoding = model.encoding
    paired = {name for term in encoding.terms if isinstance(term, Product) for name in term.columns}
    names = [name for name in model.texts if name not in paired]
    weights: dict[str, dict[str, float]] = {
        name: dict.fromkeys(encoding.known[name], 0.0) for name in names if name in encoding.known
    }
    other = dict.fromkeys(names, float("nan"))
    hashes: dict[str, dict[tuple[str, int], list[tuple[int, float]]]] = {name: {} for name in names}
    kept = []
    for place, (term, coef) in enumerate(zip(encoding.terms, model.coef.tolist(), strict=True)):
        if isinstance(term, HashedText):
            hashes[term.column].setdefault((term.how, term.bits), []).append((term.bucket, coef))
        elif isinstance(term, Level) and term.column in weights:
            weights[term.column][term.level] = coef
        else:
            kept.append(place)
    for name, rare in encoding.rare.items():
        if name in weights:
            other[name] = weights[name].pop(rare.level)
            stay = frozenset(rare.kept)
            weights[name] = {level: coef for level, coef in weights[name].items() if level in stay}
    terms = tuple(encoding.terms[place] for place in kept)
    known = {name: levels for name, levels in encoding.known.items() if name in paired}
    dense = replace(model, encoding=replace(encoding, terms=terms, known=known), coef=model.coef[kept])
    found = {name: TextWeights(weights.get(name), other[name], _hash_weights(hashes[name])) for name in names}
    return SplitModel(dense, found)


def _hash_weights(found: Mapping[tuple[str, int], Sequence[tuple[int, float]]]) -> tuple[_HashWeights, ...]:
    return tuple(
        _HashWeights(*way, np.array([bucket for bucket, _ in sorted(own)]), np.array([coef for _, coef in sorted(own)]))
        for way, own in found.items()
    )
