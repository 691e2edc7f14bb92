"""Borders of bins and splines for each fold, from its own training rows: the terms of all folds stand side by side in
one base encoding, so that the rows are read once for all of them. Who takes which is `Encoding.of_fold`; no rows here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from shoal.data.columns import ColumnChoice, base_encoding
from shoal.data.encoding import Encoding
from shoal.data.shapes.asked import quantiles_for
from shoal.data.terms import ALL_FOLDS, Product, Shaped, Term, fold_of
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.settings.transforms import ColumnPart

WIDEST = 1_000  # terms of all folds together up to which each fold has borders of its own; sums are of all their pairs

SharesAsked = Mapping[str, Mapping[ColumnPart, tuple[float, ...]]]  # shares by column and what is made of it
QuantilesOf = Callable[[Mapping[str, tuple[float, ...]]], Mapping[str, Array]]  # shares -> (folds, shares), by column


def with_own_borders(
    base: Encoding, choice: ColumnChoice, config: RunConfig, folds: int, quantiles_of: QuantilesOf, widest: int = WIDEST
) -> tuple[Encoding, list[str]]:
    """The base encoding with the terms that folds have instead, and what is to be said where they have none: a border
    from all training rows knows where the values of the rows that it is tested on lie."""
    asked = {name: own for name, parts in choice.parts.items() if (own := _shares(parts)) and name in base.columns}
    if not asked or folds < 2:
        return base, []
    found = _by_part(asked, quantiles_of)
    terms = _marked(base, asked, ALL_FOLDS)
    for fold in range(folds):
        borders = {place: [float(v) for v in values[fold] if not np.isnan(v)] for place, values in found.items()}
        other = base_encoding(choice, config, base.yes, borders)
        terms += [term for term in _marked(other, asked, fold) if fold_of(term) == fold]
    if len(terms) > widest:
        return base, [
            f"Bins and splines have the borders of all training rows in every fold: with their own the folds would "
            f"have {len(terms):,} columns together, where {widest:,} may be. Errors of folds may be a little too small."
        ]
    return replace(base, terms=tuple(terms)), []


def _shares(parts: tuple[ColumnPart, ...]) -> dict[ColumnPart, tuple[float, ...]]:
    return {part: tuple(shares) for part in parts if (shares := quantiles_for(part))}


def _by_part(asked: SharesAsked, quantiles_of: QuantilesOf) -> dict[tuple[str, ColumnPart], Array]:
    """The borders (folds, shares) of each part of a column."""
    values = quantiles_of({name: tuple(chain.from_iterable(parts.values())) for name, parts in asked.items()})
    found: dict[tuple[str, ColumnPart], Array] = {}
    for name, parts in asked.items():
        ends = np.cumsum([len(own) for own in parts.values()])[:-1]
        found |= {(name, part): own for part, own in zip(parts, np.split(values[name], ends, axis=1), strict=True)}
    return found


def _marked(base: Encoding, asked: SharesAsked, fold: int) -> list[Term]:
    """The terms, those with borders marked as a fold's, products of them too."""
    beginnings = {name: tuple(part.of(name) for part in parts) for name, parts in asked.items()}

    def mark(term: Term) -> Term:
        if isinstance(term, Product):
            left, right = (mark(factor) for factor in term.factors)
            return replace(term, left=left, right=right)  # type: ignore[arg-type]
        if isinstance(term, Shaped) and term.name.startswith(beginnings.get(term.column, ("\0",))):
            return replace(term, fold=fold)
        return term

    return [mark(term) for term in base.terms]
