"""Design columns: how stored columns become the numbers that a model is fitted to, the same for every row it sees.

An `Encoding` is a plain list of terms and can be written into a model file. Two encodings of the same columns differ
by a linear map (`matrix_between`), so moments summed once serve every imputation and coding. Rows are encoded in
`data_pipeline`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.terms import Term, term_from
from shoal.models import Array
from shoal.solve.moments import Moments


@dataclass(frozen=True)
class Encoding:
    """The terms in order, and which levels each text column is known to have."""

    terms: tuple[Term, ...]
    known: Mapping[str, tuple[str, ...]]
    target: str = ""
    drop_missing: bool = False

    @property
    def names(self) -> list[str]:
        return [term.name for term in self.terms]

    @property
    def columns(self) -> list[str]:
        """All columns of the file that a term needs, each once."""
        return list(dict.fromkeys(column for term in self.terms for column in term.columns))

    def owned_by(self, column: str) -> npt.NDArray[np.bool_]:
        """Which terms need a column of the file: they go with it."""
        return np.array([column in term.columns for term in self.terms], bool)

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


def encoding_from(terms: Sequence[Mapping[str, Any]], known: Mapping[str, Sequence[str]]) -> Encoding:
    """An encoding as a model file has it."""
    return Encoding(tuple(map(term_from, terms)), {name: tuple(levels) for name, levels in known.items()})
