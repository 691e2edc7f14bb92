"""A PyTorch module as what a gradient run minimises: the mean loss of its rows, with no optimum that is known.

    F(w) = 1/n sum_i loss(module(x_i; w), y_i)          w: all parameters that learn, one after the other

Running statistics of normalising layers are no parameters: gradients do not depend on them, and whenever rows are only
looked at they are computed anew from training rows at the weights of that moment (`LiveModule.statistics`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch

from shoal.coordinator import Coordinator
from shoal.data.splits import Split
from shoal.data_pipeline import Shards
from shoal.errors import ConfigError
from shoal.fitting.reports import Trained, finite
from shoal.models import Array, Values
from shoal.networks.code import homes_of
from shoal.networks.live import RowSums, Statistics
from shoal.networks.step_model import ModuleModel, ModuleSums
from shoal.networks.stored import StoredModule, read_module
from shoal.networks.travelling import fetches, know_module
from shoal.passes.shards import KnowShards
from shoal.results.fit import FitReport, FitScores, GradientTraining
from shoal.results.model import Design, ModelFile
from shoal.results.network import NetworkPart, NetworkReport, NetworkScores
from shoal.settings.config import RunConfig
from shoal.training.objectives.array_shards import deal_arrays
from shoal.training.objectives.base import Concluded
from shoal.training.objectives.network import WATCHED, NetworkObjective

WEIGHTS = "module.safetensors"  # in the folder of a run: what came of it
BATCH = 128  # rows of a batch that statistics are of


class ModuleObjective(NetworkObjective):
    """The rows and the module of one document."""

    model: ModuleModel

    def __init__(self, config: RunConfig) -> None:
        self.stored = read_module(config.file)
        precision = self.stored.precision if config.precision == "auto" else config.precision
        model = ModuleModel(config.file, precision)
        super().__init__(config, model, precision, self.stored.parts, float(self.stored.data.rows))

    @property
    def identity(self) -> dict[str, Any]:
        parts = [list(part) for part in self.parts]
        return {"content": self.stored.data.key, "header": self.stored.name, "columns": [], "parts": parts}

    @property
    def width(self) -> int:
        return self.stored.row.size

    # ---------------------------------------------------------------- rows

    def shards(self, coordinator: Coordinator, count: int, dtype: str) -> Shards:
        config, engine = self.config, coordinator.engine
        split = Split(config.test_every, config.test_fraction, config.seed)
        self._dealt = deal_arrays(
            coordinator, self.stored.data, split, shards=count, seed=config.seed, partition=config.partition
        )
        if engine.maps:
            return self._dealt
        homes = homes_of(self.stored.module, self.stored.loss)
        engine.brief(f"module {config.file}", lambda: know_module(config.file, homes))
        key = Path(self._dealt.directory).name
        engine.brief(key, lambda: KnowShards(key, fetches(self._dealt, engine.node)))
        return replace(self._dealt, scattered=True)  # in use while what was dealt lives

    def meet(self, coordinator: Coordinator, shards: Shards) -> None:
        self._shards = shards
        self.n = float(shards.total)
        if self.config.patience and not shards.held_rows:
            raise ConfigError("Expected test rows, whose score patience is about, got none.", knobs=["patience"])
        if min(max(shards.rows), self.config.batch_size or self.usual.batch) == 1:
            self._check_lone_rows(shards)

    def _check_lone_rows(self, shards: Shards) -> None:
        X = next(shards.open(shard)[0] for shard, rows in enumerate(shards.rows) if rows)
        if self.model.live.needs_company(X):
            raise ConfigError(
                f"Expected batches of two rows or more, which batch norm compares, got one row in each: "
                f"{shards.total:,} rows in {len(shards.rows)} shards. Choose a larger batch_size, or fewer shards.",
                knobs=["batch_size", "shards"],
            )

    # ---------------------------------------------------------------- how good parameters are

    def score(self, w: Array) -> float | None:
        """Of at most `WATCHED` test rows."""
        assert self._shards is not None
        held = self._shards.held()
        if held is None:
            return None
        X, y = (values[:: -(-len(values) // WATCHED)] for values in held)
        live = self.model.live
        sums = live.sums(X, y, w, live.statistics(self._some_rows(), w))
        return self._score(sums)

    def _score(self, sums: RowSums) -> float | None:
        """Where a loss is all that there is, less of it is better."""
        if self.stored.score == "loss":
            return -sums.loss / sums.rows if sums.rows else None
        return sums.score(self.stored.score)

    def _some_rows(self) -> list[Values]:
        """Batches of training rows, as many of each shard; they are shuffled."""
        assert self._shards is not None
        most = max(1, WATCHED // len(self._shards.rows) // BATCH)
        found = []
        for shard, rows in enumerate(self._shards.rows):
            X = self._shards.open(shard)[0]
            found += [X[start : start + BATCH] for start in range(0, min(rows, most * BATCH), BATCH)]
        full = [batch for batch in found if len(batch) == BATCH]
        return full or [np.concatenate(found)]

    # ---------------------------------------------------------------- what comes of it

    def conclude(self, coordinator: Coordinator, w: Array) -> Concluded:
        shards, live = self._shards, self.model.live
        assert shards is not None
        statistics = live.statistics(self._some_rows(), w)
        requests = [ModuleSums(shards, shard, self.model, w, statistics) for shard in range(len(shards.rows))]
        train = reduce(RowSums.plus, coordinator.swept("scoring", requests))
        held = shards.held()
        test = live.sums(*held, w, statistics) if held is not None else None
        weights = safetensors.torch.save(live.tensors(w, statistics), {"format": "pt"})
        report = self._report(self._scores(train), self._scores(test))

        def reported(training: GradientTraining, notes: Sequence[str]) -> Trained:
            said = FitReport(**{**vars(report), "training": training, "warnings": tuple(notes)})
            return Trained(None, said, ModelFile(said, Design(), self.config.as_dict()), {WEIGHTS: weights})

        return Concluded(None, reported)

    def _scores(self, sums: RowSums | None) -> NetworkScores:
        if sums is None or not sums.rows:
            return NetworkScores()
        return NetworkScores(sums.rows, finite(sums.loss / sums.rows), finite(sums.score(self.stored.score)))

    def _report(self, train: NetworkScores, test: NetworkScores) -> FitReport:
        stored: StoredModule = self.stored
        network = NetworkReport(
            stored.name, self.precision, stored.loss_name, stored.score,
            tuple(NetworkPart(*part) for part in stored.parts), train, test,
        )  # fmt: skip
        return FitReport(
            model=self.config.model, target=self.config.target, intercept=0.0, coefficients={},
            train=FitScores(train.rows), test=FitScores(test.rows), rows_read=stored.data.rows + stored.data.test_rows,
            network=network,
        )  # fmt: skip


__all__ = ["WEIGHTS", "ModuleObjective", "Statistics"]
