"""The requests behind what a network is worth: its scores of a block's rows, and its losses beside those of the linear
model, row by row; how it learns is in `training.objectives`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.losses.layers import NetworkMean
from shoal.metrics import Residuals
from shoal.models import Array
from shoal.passes.blocks import Score, Sums
from shoal.passes.losses import PartScores, RowsAt, ScoreLoss
from shoal.results.network import BesideLinear
from shoal.solve.distributions import student_quantile
from shoal.worker import Worker

CONFIDENCE = 0.95
ENOUGH = 10  # test rows from which on an interval is told


@dataclass(frozen=True)
class PairedLosses:
    """Over test rows: what the losses of both models come to, mean and scatter of their differences (network less
    linear), and how many rows each tells wrong."""

    rows: int = 0
    network: float = 0.0
    linear: float = 0.0
    mean: float = 0.0
    scatter: float = 0.0
    network_wrong: int = 0
    linear_wrong: int = 0

    @classmethod
    def of(cls, network: Array, linear: Array, network_wrong: int = 0, linear_wrong: int = 0) -> PairedLosses:
        if not len(network):
            return cls()
        apart = network - linear
        mean = float(apart.mean())
        return cls(
            len(network), float(network.sum()), float(linear.sum()), mean, float(((apart - mean) ** 2).sum()),
            network_wrong, linear_wrong,
        )  # fmt: skip

    def merge(self, other: PairedLosses) -> PairedLosses:
        rows = self.rows + other.rows
        if not rows:
            return self
        apart = other.mean - self.mean
        return PairedLosses(
            rows, self.network + other.network, self.linear + other.linear, self.mean + apart * other.rows / rows,
            self.scatter + other.scatter + apart**2 * self.rows * other.rows / rows,
            self.network_wrong + other.network_wrong, self.linear_wrong + other.linear_wrong,
        )  # fmt: skip

    def beside(self, model: str, measure: str) -> BesideLinear:
        """What is said of it; `model` is the exact one beside the network."""
        n = self.rows
        if not n:
            return BesideLinear(
                model=model, measure=measure, rows=0, network=None, linear=None, difference=None, low=None, high=None
            )
        network, linear = self.network / n, self.linear / n
        errors = (math.sqrt(network), math.sqrt(linear))
        if model == "logistic":
            errors = (self.network_wrong / n, self.linear_wrong / n)
        low = high = None
        if n >= ENOUGH:
            half = student_quantile(n - 1, (1 + CONFIDENCE) / 2) * math.sqrt(self.scatter / (n - 1) / n)
            low, high = self.mean - half, self.mean + half
        return BesideLinear(
            model=model, measure=measure, rows=n, network=network, linear=linear, difference=self.mean, low=low,
            high=high, network_error=errors[0], linear_error=errors[1],
        )  # fmt: skip


@dataclass(frozen=True)
class NumberScores:
    """Of a target of numbers: residuals of the network, and both models on test rows."""

    sums: Sums
    paired: PairedLosses

    def merge(self, other: NumberScores) -> NumberScores:
        return NumberScores(self.sums.merge(other.sums), self.paired.merge(other.paired))


@dataclass(frozen=True)
class ScoreNumbers(Score):
    """Residuals of a network; the coefficients are those of the linear model beside it."""

    network: NetworkMean

    def answer(self, worker: Worker) -> NumberScores:  # type: ignore[override]
        nothing = np.zeros_like(self.coef)
        found = NumberScores(Sums(Residuals.none(), Residuals.none(), nothing, 0), PairedLosses())
        for chunk in design_rows(self.encoding, self.dataset, self.block, proving=True):
            residual = chunk.y - self.network.scores(chunk.X)
            beside = chunk.y - self.intercept - chunk.X @ self.coef
            test = self.split.is_test(chunk.row)
            paired = PairedLosses.of(residual[test] ** 2, beside[test] ** 2)
            sums = replace(self._sums(chunk.X, chunk, residual, nothing), gradient=nothing)
            found = found.merge(NumberScores(sums, paired))
        return found


@dataclass(frozen=True)
class YesNoScores:
    """Of a target of yes and no: scores of the network, and both models on test rows."""

    train: PartScores
    test: PartScores
    unseen: int
    paired: PairedLosses

    def merge(self, other: YesNoScores) -> YesNoScores:
        return YesNoScores(
            self.train.merge(other.train), self.test.merge(other.test), self.unseen + other.unseen,
            self.paired.merge(other.paired),
        )  # fmt: skip


@dataclass(frozen=True)
class ScoreYesNo(ScoreLoss):
    """Scores of a network; the coefficients are those of the logistic model beside it."""

    network: NetworkMean

    def answer(self, worker: Worker) -> YesNoScores:  # type: ignore[override]
        found = YesNoScores(PartScores.none(), PartScores.none(), 0, PairedLosses())
        for chunk, _, beside in self.scored():
            eta, y, test = self.network.scores(chunk.X), chunk.y, self.split.is_test(chunk.row)
            at, (null, _) = RowsAt.of(self.loss, y, eta), self._null(chunk, test)
            train, held = (self._part(y[rows], at.some(rows), null.some(rows), None) for rows in (~test, test))
            own, other = (self.loss.at(y[test], scores[test]).value for scores in (eta, beside))
            wrong = (int(((scores[test] >= 0) != (y[test] > 0.5)).sum()) for scores in (eta, beside))
            found = found.merge(YesNoScores(train, held, chunk.unseen, PairedLosses.of(own, other, *wrong)))
        return replace(found, train=found.train.settled(), test=found.test.settled())
