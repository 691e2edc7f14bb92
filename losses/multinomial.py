"""Several classes: y is the place of a row's class, eta has a score for each, and e^score is in proportion to its
probability. Scores of a row that are all moved by the same number say the same; what is chosen among such is in
`solve.classes`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.models import Array

NAME = "multinomial"


class ClassPieces(NamedTuple):
    """At some rows: the loss (n,), and the probability of each class (n, K)."""

    value: Array
    shares: Array


class Multinomial:
    """log sum_k e^eta_k - eta_y: the surprise at the class that came."""

    name = NAME
    link = "softmax"

    def at(self, y: npt.NDArray[np.intp], eta: Array) -> ClassPieces:
        top = eta.max(axis=1)
        powers = np.exp(eta - top[:, None])  # the largest is 1: never overflows
        total = powers.sum(axis=1)
        return ClassPieces(np.log(total) + top - eta[np.arange(len(y)), y], powers / total[:, None])

    def mean(self, eta: Array) -> Array:
        """(n, K): the probabilities; each row without a score has none."""
        powers = np.exp(eta - eta.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))
