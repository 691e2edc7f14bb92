"""The report and the model file of a network on a table, from what was computed; types of both are in `results`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shoal.fitting.exact import Fit, Prepared
from shoal.fitting.losses.fit import LossFit
from shoal.fitting.losses.report import described_loss
from shoal.fitting.model_file import model_of
from shoal.fitting.networks.scoring import NumberScores, YesNoScores
from shoal.fitting.reports import Trained, finite, report, written_columns
from shoal.fitting.targets import value_notes
from shoal.lazy.classes import dataclass
from shoal.results.fit import FitReport, GradientTraining
from shoal.results.network import BesideLinear, NetworkPart, NetworkReport, NetworkScores, StoredLayers
from shoal.results.plain import plain, read
from shoal.settings.config import RunConfig
from shoal.settings.when import NETWORK


@dataclass(frozen=True)
class NetworkTrained:
    """What a run knows of the network that it ended with."""

    config: RunConfig
    hidden: tuple[int, ...]
    parts: tuple[tuple[str, int], ...]
    precision: str
    validation_rows: int
    layers: StoredLayers

    def report(self, loss: str, score: str, train: NetworkScores, test: NetworkScores) -> NetworkReport:
        parts = tuple(NetworkPart(*part) for part in self.parts)
        return NetworkReport(
            "Network", self.precision, loss, score, parts, train, test, self.hidden, self.validation_rows
        )


def described_numbers(
    trained: NetworkTrained, fit: Fit, scores: NumberScores, training: GradientTraining, notes: Sequence[str]
) -> Trained:
    """`fit` is the linear model beside it."""
    sums, prepared = scores.sums, fit.prepared
    said = report(replace(fit, sums=sums, inference=None, notes=prepared.notes))
    train, test = (replace(part, adjusted_r2=None) for part in (said.train, said.test))
    parts = (
        NetworkScores(part.rows, finite(one.squares / part.rows) if part.rows else None, part.r2)
        for part, one in ((train, sums.train), (test, sums.test))
    )
    network = replace(
        trained.report("squared error", "r2", *parts), beside=told(scores.paired.beside("linear", "mean squared error"))
    )
    return _described(trained, prepared, replace(said, train=train, test=test), network, training, notes)


def described_yes_no(
    trained: NetworkTrained, fit: LossFit, scores: YesNoScores, training: GradientTraining, notes: Sequence[str]
) -> Trained:
    """`fit` is the logistic model beside it."""
    assert fit.values is not None
    found = replace(fit.scores, train=scores.train, test=scores.test, unseen=scores.unseen)
    own = (*fit.prepared.notes, *value_notes(fit.values, False))
    said = described_loss(replace(fit, scores=found, estimates=None, notes=own, separated=False, sweeps=0)).report
    assert said.outcome is not None
    outcome = replace(said.outcome, aic=None)
    parts = (
        NetworkScores(part.rows, part.scores.get("log_loss"), part.scores.get("accuracy"))
        for part in (outcome.train, outcome.test)
    )
    network = replace(
        trained.report("log loss", "yes", *parts), beside=told(scores.paired.beside("logistic", "log loss"))
    )
    return _described(trained, fit.prepared, replace(said, outcome=outcome), network, training, notes)


def told(beside: BesideLinear) -> BesideLinear:
    """Without what JSON cannot say."""
    return read(BesideLinear, finite(plain(beside)))


def _described(
    trained: NetworkTrained, prepared: Prepared, said: FitReport, network: NetworkReport, training: GradientTraining,
    notes: Sequence[str],
) -> Trained:  # fmt: skip
    """What a model with coefficients says of these is left out: there are none."""
    said = replace(
        said, model=NETWORK, alpha=None, l1_ratio=None, intercept=0.0, coefficients={}, coefficients_standardized={},
        inference=None, certificate=None, condition=None, unique=True, collinearity=None, training=training,
        network=network, warnings=(*said.warnings, *notes),
    )  # fmt: skip
    columns = written_columns(prepared), prepared.training_columns
    file = model_of(prepared.encoding, said, trained.config, prepared.dataset, *columns, trained.layers)
    return Trained(None, said, file)
