"""Predictions for files of sparse rows, range by range: nothing is kept of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np

from shoal.coordinator import Coordinator
from shoal.errors import DataError
from shoal.files.output import Output
from shoal.files.parts import parts_of
from shoal.fitting.model_file import SavedModel, without_zeros
from shoal.kernels.lines_kernel import prediction_lines
from shoal.kernels.pairs_kernel import ALL_READ
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.passes.blocks import as_field
from shoal.settings.config import RunConfig
from shoal.sparse.table import Bad, SparseRange, bad_row, plain_text, ranges_of, scores
from shoal.worker import Worker

CELLS = {False: ("lower", "upper"), True: ("probability", "set")}  # beside what is predicted: with a width all
NAME = re.compile("x([0-9]{1,10})")


@dataclass(frozen=True)
class PredictRange:
    """The predictions of the rows of a range."""

    range: SparseRange
    weights: Array  # by index
    intercept: float

    def answer(self, worker: Worker) -> Array | Bad:
        found = self.range.read()
        if found.said != ALL_READ:
            return Bad(found.position, found.said)
        return self.intercept + scores(found.ends, found.indices, found.values, self.weights)


def weights_of(model: SavedModel) -> Array:
    """By the index of each column."""
    model = without_zeros(model)
    found = {name: NAME.fullmatch(name) for name in model.encoding.columns}
    if other := [name for name, match in found.items() if match is None]:
        raise DataError(
            f"The file has sparse rows, whose columns are x1, x2, ..., but the model needs '{other[0]}'. Choose a file "
            "with the columns that the model was trained with."
        )
    indices = [int(match[1]) for match in found.values() if match]
    if len(model.encoding.terms) != len(indices):
        raise DataError("The model has shapes or products of columns, which sparse rows do not have.")
    weights = np.zeros(max(indices, default=0) + 1)
    weights[indices] = model.coef
    return weights


def predicted(model: SavedModel, coordinator: Coordinator, config: RunConfig) -> Iterator[Array]:
    """Predictions for all rows, in their order."""
    weights, path = weights_of(model), parts_of(config.file)[0]
    with ExitStack() as stack:
        text = plain_text(path, stack.enter_context(coordinator.cache.workshop()))
        requests = [PredictRange(part, weights, model.intercept) for part in ranges_of(text)]
        for said in coordinator.swept("predicting", requests):
            if isinstance(said, Bad):
                raise bad_row(text, said)
            yield np.asarray(said if model.loss is None else model.loss.mean(said))


def write_predictions(
    model: SavedModel, coordinator: Coordinator, config: RunConfig, output: Output, width: float | None,
    threshold: float = 0.5,
) -> int:  # fmt: skip
    """`row,prediction` for every row, with a width `lower,upper` as well; of a yes/no model `probability` and
    `set`; how many rows."""
    classes = model.outcome.classes if model.outcome else ()
    made = ["prediction", *CELLS[bool(classes)][: None if width is not None else int(bool(classes))]]
    fields = tuple(map(as_field, (*classes, "|".join(classes)) if classes else ()))
    rows = 0
    with output.open() as file:
        file.write((",".join(["row", *made]) + "\n").encode())
        for part in predicted(model, coordinator, config):
            file.write(prediction_lines(part, rows, width, fields, threshold))
            rows += len(part)
    return rows
