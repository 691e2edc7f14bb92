"""A network of layers on a table as what a gradient run minimises, beside the exact linear model of the same columns.

The linear model (logistic for yes and no) is solved before the run: it lends columns, units and shards, and what comes
of the network is told beside it on the same test rows. Some of the shards are validation rows: no step sees them, and
the weights that do best there are kept. Test rows decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns, widest
from shoal.data.dataset import Dataset
from shoal.data_pipeline import Shards
from shoal.errors import ConfigError, Remedy
from shoal.fitting.looks.proposal import look_for
from shoal.fitting.networks.report import NetworkTrained, described_numbers, described_yes_no
from shoal.fitting.networks.scoring import NumberScores, ScoreNumbers, ScoreYesNo, YesNoScores
from shoal.fitting.own_metrics import MetricRows
from shoal.fitting.reports import Trained
from shoal.losses.layers import NetworkMean
from shoal.losses.logistic import Logistic
from shoal.metrics import Timings
from shoal.models import Array, Values
from shoal.networks.step_model import ThinnedShard
from shoal.networks.table_model import LOG_LOSS, SQUARES, LayersModel, sizes_for, stored_layers
from shoal.results.fit import GradientTraining
from shoal.results.network import StoredLayers
from shoal.results.target import TargetKind
from shoal.settings.config import RunConfig
from shoal.settings.layers import hidden_sizes
from shoal.settings.limits import MOST_EXACT
from shoal.settings.when import NETWORK
from shoal.solve.ranking import grid_for
from shoal.training.objectives.base import Concluded, UsualWork, table_identity
from shoal.training.objectives.network import WATCHED, NetworkObjective
from shoal.training.objectives.row_loss import RowLossObjective, row_loss_objective
from shoal.training.objectives.squares import SquaredObjective, squared_objective

SHARDS = 4  # each is a batch of its own in every step, and small ones cost as much as large ones
APART = 4  # shards of steps for each one of validation rows: a fifth of the training rows
STEPS = 24  # of an epoch in mode sync, about: enough for tables of a thousand rows to learn within some epochs
LEAST_BATCH, MOST_BATCH = 8, 128  # rows of a shard in one step
LONG_EPOCH, LARGEST_BATCH = 256, 512  # steps that large tables have in any case, of more rows: these cost less a row
FEWEST = 20  # training rows


class TableNetwork(NetworkObjective):
    """The rows of a table, dealt out in the units of the linear model beside it."""

    watches = "validation rows"
    model: LayersModel

    def __init__(self, config: RunConfig, beside: SquaredObjective | RowLossObjective, model: LayersModel) -> None:
        self.usual = UsualWork(SHARDS, usual_batch(beside.n), 8)
        super().__init__(config, model, model.precision, model.parts, beside.n)
        self.beside, self.prepared = beside, beside.prepared
        self._kept: list[tuple[Values, Values]] = []
        self._null = math.nan

    @property
    def identity(self) -> dict[str, Any]:
        return table_identity(self.prepared, self.parts)

    @property
    def width(self) -> int:
        return self.model.width

    # ---------------------------------------------------------------- rows

    def shards(self, coordinator: Coordinator, count: int, dtype: str) -> Shards:
        """`count` of them for steps; those behind have the validation rows."""
        self._dealt = self.beside.shards(coordinator, count + -(-count // APART), dtype)  # in use while it lives
        return replace(self._dealt, rows=self._dealt.rows[:count], checksums=self._dealt.checksums[:count])

    def meet(self, coordinator: Coordinator, shards: Shards) -> None:
        self._shards, self.n = shards, float(shards.total)
        apart = range(len(shards.rows), len(self._dealt.rows))
        if shards.total + self.validation_rows < FEWEST or not self.validation_rows:
            raise ConfigError(
                f"Expected at least {FEWEST} training rows for a network, got {shards.total + self.validation_rows}. "
                "Use a linear model.", knobs=["model"],
            )  # fmt: skip
        thin = -(-self.validation_rows // WATCHED)
        self._kept = list(coordinator.engine.sweep(ThinnedShard(self._dealt, shard, thin) for shard in apart))
        y = np.concatenate([y for _, y in self._kept]).astype(np.float64)
        if self.model.loss == LOG_LOSS:
            p = min(max(float(y.mean()), 1e-12), 1 - 1e-12)
            self._null = -p * math.log(p) - (1 - p) * math.log1p(-p)
        else:
            self._null = float(y.var()) / self.model.target_scale**2

    @property
    def validation_rows(self) -> int:
        return self._dealt.total - (self._shards.total if self._shards else 0)

    # ---------------------------------------------------------------- how good parameters are

    def score(self, w: Array) -> float | None:
        """The share of the validation rows' loss that is gone, beside knowing their mean alone: R² for numbers."""
        if not self._null > 0:
            return None
        live = self.model.live
        sums = [live.sums(X, y, w, {}) for X, y in self._kept]
        rows, loss = sum(one.rows for one in sums), sum(one.loss for one in sums)
        return 1 - loss / rows / self._null

    def predicted(self, w: Array) -> MetricRows | None:
        """Of validation rows, in the units of the file."""
        if not self._kept:
            return None
        X, y = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        said, y = self.model.live.outputs(X, w)[:, 0], y.astype(np.float64)
        if self.model.loss == LOG_LOSS:
            return MetricRows(y, Logistic().mean(said), np.ones(len(y)))
        centre = self.beside.units.y_mean
        return MetricRows(centre + y, centre + self.model.target_scale * said, np.ones(len(y)))

    # ---------------------------------------------------------------- what comes of it

    def conclude(self, coordinator: Coordinator, w: Array) -> Concluded:
        """Both models on all rows of the file, in double precision, as predictions have it."""
        beside, layers = self.beside, self._layers(w)
        trained = NetworkTrained(
            self.config, self.model.hidden, self.model.parts, self.precision, self.validation_rows, layers
        )
        if isinstance(beside, RowLossObjective):
            return self._of_yes_no(coordinator, beside, trained)
        assert beside.best is not None
        fit_of, coef = beside.fit, beside.raw(beside.best.w)
        prepared, units, network = self.prepared, beside.units, mean_of(layers, yes_no=False)
        requests = [
            ScoreNumbers(
                str(prepared.dataset.directory), block, prepared.encoding, prepared.split, *coef, units.centre,
                units.scale, network,
            )
            for block in prepared.dataset.blocks
        ]  # fmt: skip
        scores: NumberScores = reduce(NumberScores.merge, coordinator.swept("scoring", requests))
        fit = fit_of(beside.best.w, scores.sums)

        def reported(training: GradientTraining, notes: Sequence[str]) -> Trained:
            return described_numbers(trained, fit, scores, training, notes)

        return Concluded(None, reported)

    def _of_yes_no(self, coordinator: Coordinator, beside: RowLossObjective, trained: NetworkTrained) -> Concluded:
        blocks, network = self.prepared.dataset.blocks, mean_of(trained.layers, yes_no=True)
        grid = grid_for(self.prepared.dataset.rows)
        how = beside.constant, grid, False, network
        requests = [ScoreYesNo(*beside.rows.at(one, beside.optimum), *how) for one in blocks]
        scores: YesNoScores = reduce(YesNoScores.merge, coordinator.swept("scoring", requests))
        fit, _ = beside.fit(beside.optimum)

        def reported(training: GradientTraining, notes: Sequence[str]) -> Trained:
            return described_yes_no(trained, fit, scores, training, notes)

        return Concluded(None, reported)

    def _layers(self, w: Array) -> StoredLayers:
        units = self.beside.units
        centre = 0.0 if isinstance(self.beside, RowLossObjective) else units.y_mean
        return stored_layers(self.model, w, units.centre, units.scale, units.constant, centre)


def usual_batch(rows: float) -> int:
    """Rows of a shard in one step, where nobody says how many."""
    few = min(max(rows / SHARDS / STEPS, LEAST_BATCH), MOST_BATCH)
    return int(max(few, min(rows / SHARDS / LONG_EPOCH, LARGEST_BATCH)))


def mean_of(layers: StoredLayers, yes_no: bool) -> NetworkMean:
    return NetworkMean(
        np.array(layers.centre), np.array(layers.scale), tuple(map(np.array, layers.weights)),
        tuple(map(np.array, layers.biases)), layers.target_centre, layers.target_scale, Logistic() if yes_no else None,
    )  # fmt: skip


def table_network(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> TableNetwork:
    """Look at the target, solve the linear model beside the network, and say what the network is made of."""
    _check(dataset, config)
    yes_no = _is_yes_no(coordinator, dataset, config)
    own: dict[str, Any] = {"hidden": "auto", "patience": 0, "positive": config.positive if yes_no else ""}
    linear = replace(config, model="logistic" if yes_no else "linear", **own)
    beside: SquaredObjective | RowLossObjective
    if yes_no:
        beside, scale = row_loss_objective(coordinator, dataset, linear, timings), 1.0
    else:
        beside = squared_objective(coordinator, dataset, linear, timings)
        scale = math.sqrt(beside.y_scatter / beside.n) if beside.y_scatter > 0 else 1.0
    width = len(beside.prepared.encoding.terms)
    hidden = hidden_sizes(config.hidden) or sizes_for(beside.n)
    precision = "float32" if config.precision == "auto" else config.precision
    loss = LOG_LOSS if yes_no else SQUARES
    return TableNetwork(config, beside, LayersModel(width, hidden, loss, scale, config.seed, precision))


def _is_yes_no(coordinator: Coordinator, dataset: Dataset, config: RunConfig) -> bool:
    found = look_for(coordinator, dataset, config)
    if found.kind in (TargetKind.CLASSES, TargetKind.TEXTS, TargetKind.CONSTANT):
        raise ConfigError(
            f"Expected a target of numbers, or of two values such as yes and no, for a network; {found.why} "
            "Choose another target, or the model that suits it.",
            *([Remedy.set("For these classes", "model", found.model)] if found.model else []),
            knobs=["target", "model"],
        )  # fmt: skip
    return found.kind == TargetKind.YES_NO


def _check(dataset: Dataset, config: RunConfig) -> None:
    """Refuse what a network does not do here."""
    if config.weights:
        raise ConfigError(
            f"Expected no weights of rows beside model {NETWORK}, got '{config.weights}': a network counts all rows "
            "alike, so far. Leave weights out, or choose a linear model.", knobs=["weights", "model"],
        )  # fmt: skip
    if not (config.intercept and config.standardize):
        raise ConfigError(
            f"Expected intercept and standardize as usual beside model {NETWORK}, got one of them off: a network has "
            "both. Leave them out.", knobs=["intercept", "standardize", "model"],
        )  # fmt: skip
    if (width := widest(choose_columns(dataset, config), config)) > MOST_EXACT:
        raise ConfigError(
            f"Expected at most {MOST_EXACT:,} columns for a network beside the exact linear model, got {width:,}. "
            "Choose fewer features.", knobs=["features", "model"],
        )  # fmt: skip
