"""How well a saved model predicts: predicted against actual, and residuals, of all rows; charts are drawn elsewhere.

Two passes over the blocks of the data set, through the coordinator. What is left is small whatever the number of rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Column, Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.errors import DataError, SourceChanged, StateError
from shoal.files.parts import is_there, title
from shoal.fitting.model_file import SavedModel, load_model
from shoal.fitting.reports import finite
from shoal.losses.base import RowLoss
from shoal.losses.layers import NetworkMean
from shoal.metrics import Residuals
from shoal.models import Array
from shoal.passes.residuals import Count, Counted, Edges, Overview, PredictedRows, Survey
from shoal.results.answers.diagnosis import Diagnosis
from shoal.results.answers.importance import ColumnWorth
from shoal.results.outcome import Outcome
from shoal.results.plain import Malformed, plain
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.sparse.table import is_sparse
from shoal.tasks.outcomes.explain import of_rows, rows_for
from shoal.tasks.predict import open_for, suited
from shoal.tasks.train import coordinated
from shoal.tasks.workers import reachable
from shoal.utils import Progress, silent

GRID = 48  # bins of actual and of predicted
HISTOGRAM = 60  # bins of the residuals, at most
CURVE = 20  # bins of the prediction, at most, with about as many rows each
ROWS_OF_A_BIN = 30  # of the prediction, at least: a mean of fewer says little
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
MIDDLE = (0.005, 0.995)  # ranks of the sample between which a range is taken where a few rows lie far out
FAR = 3.0  # times that range from which on rows are far out


def diagnose(model_path: Path, config: RunConfig, own_data: bool, progress: Progress = silent) -> Diagnosis:
    """The model on the file it was trained on (`own_data`: told apart into training and test rows), or on another."""
    model = load_model(model_path)
    if model.several:
        raise StateError(
            "Residuals are how far off numbers are; a model of several classes has calls that are right or wrong, "
            "which its report counts by class. Look at these."
        )
    if own_data:
        _check_there(config)
    if is_sparse(config):
        raise StateError(
            "Residuals are drawn for tables of cells; this file has sparse rows. The model's scores on training and "
            "test rows are in its report; predictions for the file have every row."
        )
    with coordinated(reachable(config), progress) as coordinator:

        def diagnosed() -> Diagnosis:
            dataset = _own(model, coordinator, config) if own_data else _other(model, coordinator, config)
            return _Diagnosis(suited(model, dataset), dataset, coordinator, own_data).report()

        return coordinator.cache.mending(diagnosed)


def residuals_of(model: SavedModel, dataset: Dataset, coordinator: Coordinator) -> Diagnosis:
    """The same for a data set that is open, the one that the model was trained on."""
    return _Diagnosis(model, dataset, coordinator, own_data=True).report()


def _check_there(config: RunConfig) -> None:
    if not is_there(config.file):
        raise DataError(
            f"Expected the file that the model was trained on at '{config.file}', found none. "
            "Put it back, or look at the model on another file that has the target."
        )


def _own(model: SavedModel, coordinator: Coordinator, config: RunConfig) -> Dataset:
    dataset = coordinator.open(config)
    if dataset.manifest.content != model.file.data.content:
        raise SourceChanged(
            f"'{title(config.file)}' is not what it was when the model was trained, so its rows cannot be told "
            "apart into training and test rows. Put it back as it was, or look at the model on the file as it is now, "
            "as on any other."
        )
    return dataset


def _other(model: SavedModel, coordinator: Coordinator, config: RunConfig) -> Dataset:
    target = model.target
    dataset = open_for(model, coordinator, config, target=True)
    column = dataset.columns.get(target)
    if column is None:
        raise DataError(
            f"Expected the column '{target}' to compare predictions with, but the file does not have it. "
            "Choose a file with it; to predict only, no such column is needed."
        )
    if model.outcome and model.outcome.classes:
        _check_classes(column, model.outcome)
    elif not column.is_number:
        raise DataError(f"Expected numbers in the column '{target}', got text. Correct the file.")
    return dataset


def _check_classes(column: Column, outcome: Outcome) -> None:
    """The values of a yes/no target in another file: the yes has to be among them, and of the same kind."""
    there = column.is_number if outcome.numbers else outcome.yes in column.levels
    if not there:
        raise DataError(f"Expected '{outcome.yes}' among the values of '{column.name}', found none. Correct the file.")


class _Diagnosis:
    def __init__(self, model: SavedModel, dataset: Dataset, coordinator: Coordinator, own_data: bool) -> None:
        trained = config_from(model.file.config)
        self.model, self.dataset, self.coordinator = model, dataset, coordinator
        self.own_data = own_data
        self.split = Split(trained.test_every, trained.test_fraction, trained.seed) if own_data else Split()
        self.seed = trained.seed + 1
        self.encoding: Encoding = rows_for(model, trained, own_data)
        self.trained = trained

    def report(self) -> Diagnosis:
        seen = self._survey()
        counted = self._count(edges := _edges(seen))
        said = finite({
            "target": self.model.target,
            "own_data": self.own_data,
            "rows": seen.train.rows + seen.test.rows,
            "rows_left_out": self.dataset.rows_of_table - seen.train.rows - seen.test.rows,
            "unseen_levels": seen.unseen,
            "train": _scores(seen.train),
            "test": _scores(seen.test),
            "low": dict(zip(("actual", "predicted", "residual"), seen.low.tolist(), strict=True)),
            "high": dict(zip(("actual", "predicted", "residual"), seen.high.tolist(), strict=True)),
            "sample": _listed(seen.sample.take(np.argsort(seen.sample.row))),
            "largest": _listed(seen.largest),
            "grid": {"edges": edges.grid.tolist(), **_parts(counted.grid)},
            "histogram": {"edges": edges.residual.tolist(), **_parts(counted.residual)},
            "quantiles": _quantiles(edges, counted, seen),
            "curve": _curve(counted),
            "loss": self.model.outcome.loss if self.model.outcome else "",
            "classes": list(self.model.outcome.classes) if self.model.outcome else [],
            "importance": plain(self._importance()),
            "notes": list(self.dataset.repairs),
        })  # fmt: skip
        try:
            return Diagnosis.from_dict(said)
        except Malformed as error:  # nothing but what is no finite number can differ
            raise DataError(
                f"Expected predictions and residuals of '{self.model.target}' that are finite numbers, got others "
                f"({error}). Look at the values of its columns: some are too large to be multiplied."
            ) from None

    def _importance(self) -> ColumnWorth | None:
        """Of columns, for a network or a model of another loss on its own rows; linear models have theirs from sums."""
        if self._mean is None or not self.own_data:
            return None
        return of_rows(self.coordinator, self.dataset, self.model, self.trained)

    @property
    def _mean(self) -> RowLoss | NetworkMean | None:
        return self.model.loss if self.model.network is None else self.model.network

    def _survey(self) -> Overview:
        requests = [
            Survey(
                str(self.dataset.directory), block, self.encoding, self.split, self.model.coef, self.model.intercept,
                self._mean, self.seed,
            )
            for block in self.dataset.blocks
        ]  # fmt: skip
        total: Overview | None = None
        for part in self.coordinator.swept("comparing with the target", requests):
            total = part if total is None else total.merge(part, self.seed)
        if total is None or not total.train.rows + total.test.rows:
            raise DataError(
                f"Expected rows with a value of '{self.model.target}' to compare predictions with, "
                "got none. Choose another file."
            )
        return total

    def _count(self, edges: Edges) -> Counted:
        requests = [
            Count(
                str(self.dataset.directory), block, self.encoding, self.split, self.model.coef, self.model.intercept,
                self._mean, edges,
            )
            for block in self.dataset.blocks
        ]  # fmt: skip
        total: Counted | None = None
        for part in self.coordinator.swept("counting residuals", requests):
            total = part if total is None else total.merge(part)
        assert total is not None
        return total


def _edges(seen: Overview) -> Edges:
    sample = seen.sample
    residual = np.sort(sample.residual)
    low, high = _range(np.concatenate([sample.actual, sample.predicted]), seen.low[:2].min(), seen.high[:2].max())
    left, right = _range(residual, float(seen.low[2]), float(seen.high[2]))
    furthest = max(-left, right)
    rows = seen.train.rows + seen.test.rows
    bins = max(3, min(CURVE, rows // ROWS_OF_A_BIN))
    inner = np.quantile(sample.predicted, np.linspace(0, 1, bins + 1)[1:-1])
    return Edges(
        np.linspace(low, high, GRID + 1),
        np.linspace(-furthest, furthest, min(HISTOGRAM, 2 * round(rows ** (1 / 3)) + 6) + 1),
        residual,
        np.unique(inner),
    )


def _range(values: Array, low: float, high: float) -> tuple[float, float]:
    """All of it, or the middle with some room where a few rows lie far out."""
    left, right = np.quantile(values, MIDDLE)
    if right > left and high - low > FAR * (right - left):
        room = (right - left) / 4
        low, high = max(low, left - room), min(high, right + room)
    return (float(low), float(high)) if high > low else (low - 0.5, high + 0.5)


def _quantiles(edges: Edges, counted: Counted, seen: Overview) -> list[dict[str, float]]:
    """Of the residuals of all rows; where there are more than in the sample, right to a rank of 1 in 2,000 or so."""
    rows = int(counted.ranks.sum())
    if rows == len(edges.ranks):
        values = np.quantile(edges.ranks, QUANTILES)
    else:
        below = np.cumsum(counted.ranks[:-1])  # rows under each residual of the sample: its place in the order of all
        places = np.concatenate([[0], below, [rows - 1]])
        ordered = np.concatenate([seen.low[2:], edges.ranks, seen.high[2:]])
        values = np.interp(np.array(QUANTILES) * (rows - 1), places, ordered)
    return [{"rank": rank, "value": value} for rank, value in zip(QUANTILES, values.tolist(), strict=True)]


def _curve(counted: Counted) -> list[dict[str, Any]]:
    """The mean residual by bins of the prediction; a bend shows what a straight line misses."""
    found = []
    for rows, predicted, residual, squares in counted.bins.T.tolist():
        if rows:
            mean = residual / rows
            spread = max(0.0, squares / rows - mean**2) ** 0.5
            found.append({
                "rows": int(rows), "predicted": predicted / rows, "residual": mean, "spread": spread,
                "standard_error": spread / rows**0.5,
            })  # fmt: skip
    return found


def _scores(sums: Residuals) -> dict[str, Any]:
    """Those of the report that rows alone say."""
    return {name: value for name, value in plain(sums.scores(0, True)).items() if name != "adjusted_r2"}


def _listed(rows: PredictedRows) -> dict[str, list[Any]]:
    return {
        "row": rows.row.tolist(), "actual": rows.actual.tolist(), "predicted": rows.predicted.tolist(),
        "test": rows.test.tolist(), "residual": rows.residual.tolist(),
    }  # fmt: skip


def _parts(counts: Any) -> dict[str, Any]:
    return {"train": counts[0].tolist(), "test": counts[1].tolist()}
