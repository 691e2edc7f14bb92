"""One row's prediction by a model file, and what each column adds to it; whole files are predicted in `predict`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shoal.data.encoding import Encoding
from shoal.data.terms import (
    MISSING_LEVEL,
    Factor,
    HashedText,
    Indicator,
    Number,
    Offset,
    Product,
    Shaped,
    Term,
    pair_name,
)
from shoal.fitting.model_file import SavedModel
from shoal.lazy.classes import dataclass
from shoal.models import Array

Value = float | str | None
Row = Mapping[str, Value]


@dataclass(frozen=True)
class Contribution:
    """What one column of the file adds, its square included: to the intercept, and against a typical row.

    What a product of two columns adds is neither's alone; it is a part of its own, with the values of both.
    """

    column: str
    value: Value | tuple[Value, Value]
    adds: float
    against_typical: float
    filled: bool = False  # no value was given; the model's usual one stands in
    unseen: bool = False  # a level that the model was not trained with: all its 0/1 columns are 0


@dataclass(frozen=True)
class Explained:
    """A prediction and the sum that it is: `intercept` + all `adds`, or `typical` + all `against_typical`."""

    prediction: float
    intercept: float
    typical: float
    parts: tuple[Contribution, ...]


def typical_row(encoding: Encoding) -> dict[str, Value]:
    """What stands in for missing numbers, and what most training rows have of each text column, which may be no value;
    model files of before, which do not know it, have the first name."""
    row: dict[str, Value] = dict(encoding.fills)
    row |= {t.column: t.usual for t in encoding.terms if isinstance(t, Offset)}
    for column, levels in encoding.known.items():
        usual = encoding.usual.get(column) or next((level for level in levels if level != MISSING_LEVEL), None)
        row[column] = None if usual == MISSING_LEVEL else usual
    return row


def encode(encoding: Encoding, row: Row) -> Array:
    """The design row, as the encoder of data sets makes it: a missing number becomes its fill, a missing name the
    level for that, and a name that is not known sets no term, or that of rare ones."""

    def value(term: Term) -> Array:
        if isinstance(term, Offset):
            given = row.get(term.column)
            return term.of(np.array([term.usual if given is None else float(given)]))
        assert not isinstance(term, HashedText)  # such models are not loaded for this
        return term.of(factor) if isinstance(term, Product) else factor(term)

    def factor(term: Factor) -> Array:
        given = row.get(term.column)
        if isinstance(term, Number):
            return np.array([term.fill if given is None else float(given)])
        if isinstance(term, Shaped):
            return term.of(np.array([np.nan if given is None else float(given)]))
        if isinstance(term, Indicator):
            return np.array([float(given is None)])
        return np.array([float(term.holds(MISSING_LEVEL if given is None else str(given)))])

    values = [value(term) for term in encoding.terms]
    return np.concatenate([np.zeros(0), *values])


def explain(model: SavedModel, row: Row) -> Explained:
    """What each column adds; of a network, in which columns do not add up, only what is to be known of their values."""
    encoding = model.encoding
    x, usual = encode(encoding, row), encode(encoding, typical_row(encoding))
    if model.network is not None:
        score, middle = model.network.scores(np.stack((x, usual))).tolist()
        known = (_part(columns, row, encoding, 0.0, 0.0) for columns in _owners(encoding) if len(columns) == 1)
        return Explained(score, 0.0, middle, tuple(known))
    adds, against = x * model.coef, (x - usual) * model.coef
    parts = []
    for columns in _owners(encoding):
        own = np.array([term.columns == columns for term in encoding.terms], bool)
        parts.append(_part(columns, row, encoding, float(adds[own].sum()), float(against[own].sum())))
    return Explained(
        float(x @ model.coef + model.intercept), model.intercept, float(usual @ model.coef + model.intercept),
        tuple(parts),
    )  # fmt: skip


def _owners(encoding: Encoding) -> list[tuple[str, ...]]:
    """Single columns in their order, then pairs."""
    single = dict.fromkeys((*encoding.columns, *encoding.known))
    pairs = dict.fromkeys(term.columns for term in encoding.terms if len(term.columns) > 1)
    return [*((column,) for column in single), *pairs]


def _part(columns: tuple[str, ...], row: Row, encoding: Encoding, adds: float, against: float) -> Contribution:
    if len(columns) > 1:
        left, right = columns
        return Contribution(pair_name(left, right), (row.get(left), row.get(right)), adds, against)
    (column,) = columns
    given, known = row.get(column), encoding.known.get(column)
    return Contribution(
        column, given, adds, against,
        filled=given is None and known is None,
        unseen=known is not None and not encoding.knows(column, str(given or MISSING_LEVEL)),
    )  # fmt: skip
